"""Servers that are asked while a person waits: a table that lives on a terminal, a line for each in a pipe."""

import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING

from waygraph.api.cli.shown.escaping import one_line
from waygraph.ingest.sources.mcp_servers import Asked, McpServers
from waygraph.ingest.sources.reading import Ask
from waygraph.ingest.upstream.launch import ServerEntry
from waygraph.registry.changes import Manifest
from waygraph.registry.settings import Settings

if TYPE_CHECKING:
    from rich.live import Live
    from rich.table import Table


@contextmanager
def asking_servers(settings: Settings) -> Iterator[Ask]:
    """Gives what asks the servers of a source; how it stands with each is told on stderr."""
    board = _Board() if sys.stderr.isatty() else None

    def ask(source: str, servers: Sequence[ServerEntry]) -> Manifest:
        tell = board.tell if board else _tell
        asked = McpServers(name=source, servers=servers, settings=settings, on_asked=tell, open_page=_page_opener())
        return asked.read()

    try:
        yield ask
    finally:
        if board:
            board.stop()


def _page_opener() -> Callable[[str], None] | None:
    """None where no person is there to log in."""
    return _open_page if sys.stdin.isatty() else None


def _open_page(url: str) -> None:
    import webbrowser

    print(f"Log in here, if no browser opens: {one_line(url)}", file=sys.stderr, flush=True)  # noqa: T201
    webbrowser.open(url)


def _tell(asked: Asked) -> None:
    if asked.state in {"online", "failed"}:
        print(f"{one_line(asked.key)}: {_outcome(asked)}", file=sys.stderr, flush=True)  # noqa: T201


def _outcome(asked: Asked) -> str:
    match asked.state:
        case "online":
            return f"{asked.tools} {'tool' if asked.tools == 1 else 'tools'} in {asked.seconds:.1f} s"
        case "failed":
            return one_line(asked.reason)
        case _:
            return asked.state


class _Board:
    """A row for each server, in the order in which they came."""

    def __init__(self) -> None:
        self._rows: dict[str, Asked] = {}
        self._live: Live | None = None

    def tell(self, asked: Asked) -> None:
        self._rows[asked.key] = asked
        if self._live is None:
            self._live = self._started()
        self._live.update(self._table())

    def _started(self) -> "Live":
        from rich.console import Console
        from rich.live import Live

        live = Live(self._table(), console=Console(stderr=True), refresh_per_second=8)
        live.start()
        return live

    def _table(self) -> "Table":
        from rich.table import Table
        from rich.text import Text

        table = Table(box=None, show_header=False, pad_edge=False)
        for key, asked in self._rows.items():
            style = {"online": "green", "failed": "red"}.get(asked.state, "dim")
            table.add_row(one_line(key), Text(_outcome(asked), style=style))
        return table

    def stop(self) -> None:
        if self._live:
            self._live.stop()
