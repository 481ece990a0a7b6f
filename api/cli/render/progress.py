"""Progress on stderr while a person waits: a bar, and the state of each server that is asked."""

import sys
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager

from waygraph.api.cli.render.output import one_line
from waygraph.ingest.manifest.records import Manifest, ServerEntry
from waygraph.ingest.sources.mcp_servers import McpServers, ServerProgress
from waygraph.ingest.sources.read import Ask
from waygraph.registry.model.settings import Settings

SHOWN_AFTER_S = 1.0
WAIT_TOLD_S = 5
"""So often a wait for a server is told where no row of it is drawn."""


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


@contextmanager
def asking_servers(settings: Settings) -> Iterator[Ask]:
    """Yields a function that asks the servers of a source. It reports the state of each server on stderr."""
    with ExitStack() as stack:
        tell = _board(stack) if sys.stderr.isatty() else _tell

        def ask(source: str, servers: Sequence[ServerEntry]) -> Manifest:
            page = open_page if sys.stdin.isatty() else None
            return McpServers(name=source, servers=servers, settings=settings, on_asked=tell, open_page=page).read()

        yield ask


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
        case _ if server.awaits:
            limit = f" of {server.limit_s:g}" if server.seconds <= server.limit_s else ""
            return f"waiting for its {server.awaits} ({server.seconds:g} s{limit})"
        case _:
            return server.state


def _board(stack: ExitStack) -> Callable[[ServerProgress], None]:
    """Draws a row for each server, in the order in which they came, till `stack` ends."""
    from rich.console import Console
    from rich.live import Live
    from rich.table import Table
    from rich.text import Text

    rows: dict[str, ServerProgress] = {}
    live: Live | None = None

    def draw() -> Table:
        table = Table(box=None, show_header=False, pad_edge=False)
        for key, server in rows.items():
            style = {"online": "green", "failed": "red"}.get(server.state, "dim")
            table.add_row(one_line(key), Text(_outcome(server), style=style))
        return table

    def tell(server: ServerProgress) -> None:
        nonlocal live
        rows[server.key] = server
        if live is None:
            live = stack.enter_context(Live(draw(), console=Console(stderr=True), refresh_per_second=8))
        live.update(draw())

    return tell
