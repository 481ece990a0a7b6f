"""Progress on stderr while a person waits: a bar, and a line for each server that is asked."""

import sys
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager

from waygraph.api.cli.render.output import one_line
from waygraph.ingest.manifest.records import Manifest, ServerEntry
from waygraph.ingest.sources.mcp_servers import McpServers, ServerProgress
from waygraph.registry.model.settings import Settings

SHOWN_AFTER_S = 1.0
WAIT_TOLD_S = 5
"""So often a wait for a server is told."""


@contextmanager
def progress_bar(what: str) -> Iterator[Callable[[int, int], None]]:
    """Yields a function that takes (count, total). The bar comes after SHOWN_AFTER_S and goes at the end."""
    starts_at, progress = time.monotonic() + SHOWN_AFTER_S, None
    with ExitStack() as stack:

        def tell(count: int, total: int) -> None:
            nonlocal progress
            if time.monotonic() < starts_at:
                return
            if progress is None:
                from rich.console import Console
                from rich.progress import Progress

                progress = stack.enter_context(Progress(console=Console(stderr=True), transient=True))
                progress.add_task(what)
            progress.update(progress.task_ids[0], completed=count, total=total)

        yield tell if sys.stderr.isatty() else lambda count, total: None  # noqa: ARG005


def ask_servers(settings: Settings, source: str, servers: Sequence[ServerEntry]) -> Manifest:
    """What the servers of a source say of themselves. It reports the state of each on stderr."""
    page = open_page if sys.stdin.isatty() else None
    return McpServers(name=source, servers=servers, settings=settings, on_asked=_tell, open_page=page).read()


def open_page(url: str) -> None:
    import webbrowser

    print(f"Log in here, if no browser opens: {one_line(url)}", file=sys.stderr, flush=True)  # noqa: T201
    webbrowser.open(url)


def _tell(server: ServerProgress) -> None:
    if server.state in {"online", "failed"} or (server.awaits and server.seconds and not server.seconds % WAIT_TOLD_S):
        print(f"{one_line(server.key)}: {_outcome(server)}", file=sys.stderr, flush=True)  # noqa: T201


def _outcome(server: ServerProgress) -> str:
    match server.state:
        case "online":
            return f"{server.tools} {'tool' if server.tools == 1 else 'tools'} in {server.seconds:.1f} s"
        case "failed":
            return one_line(server.reason)
    limit = f" of {server.limit_s:g}" if server.seconds <= server.limit_s else ""
    return f"waiting for its {server.awaits} ({server.seconds:g} s{limit})"
