"""Progress on stderr while a person waits: a bar, and the state of each server that is asked."""

import sys
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING

from waygraph.api.cli.render.output import one_line
from waygraph.ingest.manifest.records import Manifest, ServerEntry
from waygraph.ingest.sources.mcp_servers import McpServers, ServerProgress
from waygraph.ingest.sources.read import Ask
from waygraph.registry.model.settings import Settings

if TYPE_CHECKING:
    from rich.live import Live
    from rich.progress import Progress
    from rich.table import Table


SHOWN_AFTER_S = 1.0
WAIT_TOLD_S = 5
"""So often a wait for a server is told where no row of it is drawn."""


@contextmanager
def progress_bar(what: str) -> Iterator[Callable[[int, int], None]]:
    """Yields a function that takes (count, total). The bar comes after SHOWN_AFTER_S and goes at the end."""
    if not sys.stderr.isatty():
        yield lambda count, total: None  # noqa: ARG005
        return
    bar = _Bar(what, time.monotonic() + SHOWN_AFTER_S)
    try:
        yield bar.tell
    finally:
        if bar.progress:
            bar.progress.stop()


class _Bar:
    def __init__(self, what: str, starts_at: float) -> None:
        self._what, self._starts_at = what, starts_at
        self.progress: Progress | None = None

    def tell(self, count: int, total: int) -> None:
        if time.monotonic() < self._starts_at:
            return
        if self.progress is None:
            from rich.console import Console
            from rich.progress import Progress

            self.progress = Progress(console=Console(stderr=True), transient=True)
            self.progress.start()
            self.progress.add_task(self._what)
        self.progress.update(self.progress.task_ids[0], completed=count, total=total)


@contextmanager
def asking_servers(settings: Settings) -> Iterator[Ask]:
    """Yields a function that asks the servers of a source. It reports the state of each server on stderr."""
    board = _Board() if sys.stderr.isatty() else None

    def ask(source: str, servers: Sequence[ServerEntry]) -> Manifest:
        tell = board.tell if board else _tell
        page = open_page if sys.stdin.isatty() else None
        return McpServers(name=source, servers=servers, settings=settings, on_asked=tell, open_page=page).read()

    try:
        yield ask
    finally:
        if board:
            board.stop()


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


class _Board:
    """A row for each server, in the order in which they came."""

    def __init__(self) -> None:
        self._rows: dict[str, ServerProgress] = {}
        self._live: Live | None = None

    def tell(self, server: ServerProgress) -> None:
        self._rows[server.key] = server
        if self._live is None:
            from rich.console import Console
            from rich.live import Live

            self._live = Live(self._table(), console=Console(stderr=True), refresh_per_second=8)
            self._live.start()
        self._live.update(self._table())

    def _table(self) -> "Table":
        from rich.table import Table
        from rich.text import Text

        table = Table(box=None, show_header=False, pad_edge=False)
        for key, server in self._rows.items():
            style = {"online": "green", "failed": "red"}.get(server.state, "dim")
            table.add_row(one_line(key), Text(_outcome(server), style=style))
        return table

    def stop(self) -> None:
        if self._live:
            self._live.stop()
