"""The live table of a watch: a line for each server, and what was written last."""

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from datetime import datetime
from pathlib import PurePath

from rich import box
from rich.console import Console, Group
from rich.live import Live
from rich.table import Table
from rich.text import Text

from waygraph.api.cli.render.blocks import one_line
from waygraph.api.cli.render.watch_output import describe_event, remarks
from waygraph.ingest.watch.events import (
    Failing,
    NotWritten,
    ServerListed,
    ServerSeen,
    ServerStopped,
    SourceFailed,
    SourceSynced,
    Starting,
    Unreachable,
    WatchEvent,
)

A_SECOND, LAST_WORDS = 4, 4
_STYLES = {"online": "green", "starting": "dim", "stopped": "dim", "unreachable": "red", "failing": "yellow"}


@dataclass(frozen=True, slots=True)
class _Row:
    status: str = ""
    tools: int = 0
    at: str = ""
    note: str = ""


class LiveTable:
    """Drawn from the last event of each server. Threads may call `tell`."""

    def __init__(self, place: str) -> None:
        self._place = place
        self._lock = threading.Lock()
        self._rows: dict[tuple[str, str], _Row] = {}
        self._lines: list[str] = []

    def tell(self, event: WatchEvent) -> None:
        with self._lock:
            match event:
                case ServerSeen():
                    self._rows[event.source, event.key] = self._row(event)
                case SourceFailed() | SourceSynced() | NotWritten():
                    who, what = describe_event(event)
                    lines = [f"{_time()} {_brief(who)}: {words}" for words in (what, *remarks(event)[: LAST_WORDS - 1])]
                    self._lines = [*self._lines, *lines][-LAST_WORDS:]

    def _row(self, server: ServerSeen) -> _Row:
        row = self._rows.get((server.source, server.key), _Row())
        match server.event:
            case ServerListed(listing=listing):
                return _Row("online", len(listing.tools), _time())
            case Unreachable(reason=reason):
                return replace(row, status="unreachable", at=_time(), note=reason)
            case Failing(reason=reason):
                return replace(row, status="failing", at=_time(), note=reason)
            case Starting():
                return replace(row, status="starting", at=_time())
            case ServerStopped():
                return replace(row, status="stopped", at=_time())

    def __rich__(self) -> Group:
        table = Table(box=box.SIMPLE_HEAD, pad_edge=False, collapse_padding=True)
        for name in ("server", "status", "tools", "at"):
            table.add_column(name, justify="right" if name == "tools" else "left", no_wrap=True)
        table.add_column("note")  # gives way to the others: its text is cut, and never wrapped
        with self._lock:
            for (_, key), row in sorted(self._rows.items()):
                status = Text(row.status, style=_STYLES.get(row.status, ""))
                cells = (str(row.tools), row.at, _cut(row.note))
                table.add_row(Text(one_line(key)), status, *cells)
            lines = [_cut(line) for line in self._lines]
        title = Text(f"Watching {_servers(len(self._rows))} into {one_line(self._place)}; Ctrl-C ends it", style="bold")
        return Group(title, table, *lines)


@contextmanager
def live_table(place: str) -> Iterator[LiveTable]:
    table = LiveTable(place)
    console = Console(markup=False, highlight=False, emoji=False)
    with Live(table, console=console, refresh_per_second=A_SECOND, vertical_overflow="ellipsis"):
        yield table


def _cut(text: str) -> Text:
    """On one line, as far as there is room."""
    return Text(one_line(text), style="dim", overflow="ellipsis", no_wrap=True)


def _servers(count: int) -> str:
    return "1 server" if count == 1 else f"{count} servers"


def _brief(source: str) -> str:
    """The name of a file in place of its path."""
    return PurePath(source).name if source.startswith("/") else source


def _time() -> str:
    return datetime.now().astimezone().strftime("%H:%M:%S")
