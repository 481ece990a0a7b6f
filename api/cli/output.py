"""How an answer reaches a person, a pipe or a program.

On a terminal a table is drawn by rich. In a pipe it is a header and tab-separated rows, whole and without colour.
With `--json` it is one JSON document: indented on a terminal, one line in a pipe.
"""

import json
import sys
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from functools import singledispatch
from typing import TYPE_CHECKING

from waygraph.api.cli.escaping import escaped, escaped_lines, many_lines, one_line

if TYPE_CHECKING:
    from rich.console import Console

BAR_CELLS = 20


@dataclass(frozen=True, slots=True)
class Bar:
    """A share from 0 to 1: a bar on a terminal, a percentage in a pipe."""

    share: float


type Cell = str | int | float | bool | Sequence[str] | Bar | None


@dataclass(frozen=True, slots=True)
class Table:
    """Rows under columns. On a terminal the columns in `brief` are cut to the line; in a pipe nothing is cut."""

    columns: Sequence[str]
    rows: Sequence[Sequence[Cell]]
    title: str = ""
    brief: Sequence[str] = ()


@dataclass(frozen=True, slots=True)
class Fields:
    """One thing's names and values; empty values are left out."""

    pairs: Sequence[tuple[str, Cell]]


@dataclass(frozen=True, slots=True)
class Lines:
    """A text with its own line breaks, under a title."""

    text: str
    title: str = ""


@dataclass(frozen=True, slots=True)
class Aside:
    """A remark for a person at a terminal; a pipe does not get it."""

    text: str


type Block = Table | Fields | Lines | Aside


def show[T](thing: T, shape: Callable[[T], object], view: Callable[[T], Iterable[Block]], as_json: bool) -> None:
    """Prints `thing` in its documented JSON shape, or as `view` lays it out."""
    if as_json:
        print_json(shape(thing))
    else:
        print_blocks(view(thing))


def print_json(document: object) -> None:
    indent = 2 if sys.stdout.isatty() else None
    _out(escaped_lines(json.dumps(document, ensure_ascii=False, indent=indent)))


def print_blocks(blocks: Iterable[Block]) -> None:
    if sys.stdout.isatty():
        _draw(blocks)
        return
    plain = (text for block in blocks if (text := _plain(block)))
    for number, text in enumerate(plain):
        _out(f"\n{text}" if number else text)


def print_raw(text: str) -> None:
    """A file's content: byte for byte in a pipe, escaped on a terminal."""
    _out(escaped_lines(text) if sys.stdout.isatty() else text)


def note(text: str) -> None:
    """A remark beside the answer, on stderr."""
    if text:
        print(f"note: {one_line(text)}", file=sys.stderr)  # noqa: T201 - printing is what this module is for


def complain(text: str) -> None:
    """What went wrong, in one line on stderr."""
    print(f"error: {one_line(text)}", file=sys.stderr)  # noqa: T201


def cell_text(cell: Cell) -> str:
    """One line, escaped."""
    match cell:
        case None:
            return ""
        case bool():
            return "yes" if cell else "no"
        case float():
            return f"{cell:.4f}"
        case int():
            return str(cell)
        case Bar():
            return f"{cell.share:.0%}"
        case str():
            return one_line(cell)
        case _:
            return one_line(", ".join(cell))


def _out(text: str) -> None:
    print(text)  # noqa: T201


# -- a pipe --------------------------------------------------------------------------------------------


@singledispatch
def _plain(block: Block) -> str:
    raise NotImplementedError(type(block))


@_plain.register
def _(block: Table) -> str:
    rows = ["\t".join(block.columns), *("\t".join(map(cell_text, row)) for row in block.rows)]
    return "\n".join([one_line(block.title), *rows] if block.title else rows)


@_plain.register
def _(block: Fields) -> str:
    return "\n".join(f"{name}\t{cell_text(value)}" for name, value in _said(block))


@_plain.register
def _(block: Lines) -> str:
    return "\n".join([one_line(block.title), many_lines(block.text)] if block.title else [many_lines(block.text)])


@_plain.register
def _(block: Aside) -> str:  # noqa: ARG001
    return ""


def _said(block: Fields) -> list[tuple[str, Cell]]:
    return [(name, value) for name, value in block.pairs if value not in (None, "", (), [])]


# -- a terminal ----------------------------------------------------------------------------------------


def _draw(blocks: Iterable[Block]) -> None:
    from rich.console import Console

    # Nothing here is markup: every text is a value of ours or of a stranger, and is drawn as it is.
    console = Console(markup=False, highlight=False, emoji=False, soft_wrap=False)
    for block in blocks:
        _drawn(block, console)


@singledispatch
def _drawn(block: Block, console: "Console") -> None:
    raise NotImplementedError(type(block))


@_drawn.register
def _(block: Table, console: "Console") -> None:
    from rich import box
    from rich.table import Table as Drawn
    from rich.text import Text

    title = Text(one_line(block.title), style="bold") if block.title else None
    table = Drawn(title=title, title_justify="left", box=box.SIMPLE_HEAD, pad_edge=False)
    for number, name in enumerate(block.columns):
        numeric = bool(block.rows) and isinstance(block.rows[0][number], (int, float))
        brief = name in block.brief
        table.add_column(
            Text(one_line(name)),
            justify="right" if numeric else "left",
            no_wrap=brief or numeric,
            overflow="ellipsis" if brief else "fold",
            ratio=1 if brief else None,
        )
    for row in block.rows:
        table.add_row(*map(_drawn_cell, row))
    console.print(table)


@_drawn.register
def _(block: Fields, console: "Console") -> None:
    from rich.table import Table as Drawn
    from rich.text import Text

    grid = Drawn.grid(padding=(0, 2))
    grid.add_column(style="bold", no_wrap=True)
    grid.add_column(overflow="fold")
    for name, value in _said(block):
        grid.add_row(Text(name), _drawn_cell(value))
    console.print(grid)


@_drawn.register
def _(block: Lines, console: "Console") -> None:
    from rich.text import Text

    console.print()
    if block.title:
        console.print(Text(one_line(block.title), style="bold"))
    console.print(Text(many_lines(block.text)), overflow="fold")


@_drawn.register
def _(block: Aside, console: "Console") -> None:
    from rich.text import Text

    console.print(Text(one_line(block.text), style="dim"))


def _drawn_cell(cell: Cell) -> object:
    from rich.text import Text

    if isinstance(cell, Bar):
        return Text("█" * max(1, round(cell.share * BAR_CELLS)), style="cyan")
    return Text(cell_text(cell))
