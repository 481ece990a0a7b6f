"""An answer on its way out: laid out in blocks, then drawn on a terminal, plain in a pipe, or JSON.

Blocks do not know whether a terminal or a pipe will show them. They are named tuples, which are made in a seventh of
the time of frozen dataclasses. JSON is one document: indented on a terminal, one line in a pipe. Remarks and errors go
to stderr.
"""

import errno
import json
import os
import re
import sys
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import suppress
from datetime import UTC, datetime
from operator import attrgetter
from typing import TYPE_CHECKING, Any, NamedTuple, NoReturn

from waygraph.registry.model.foreign_text import escape_unsafe
from waygraph.registry.model.nouns import JsonText

if TYPE_CHECKING:
    from rich.table import Table as RichTable
    from rich.text import Text


def one_line(text: str) -> str:
    """The text as one line: white space becomes single spaces, unsafe characters become `\\u202e` and the like."""
    return one_lines([text])[0]


def one_lines(texts: Iterable[str]) -> list[str]:
    """The same of each text."""
    lines = [" ".join(text.split()) for text in texts]
    return escape_unsafe("\n".join(lines)).split("\n") if lines else []


def many_lines(text: str) -> str:
    """The same with its line breaks kept and tabs widened."""
    return escape_unsafe("\n".join(text.expandtabs(4).splitlines()))


class Bar(NamedTuple):
    """A share from 0 to 1: a bar on a terminal, a percentage in a pipe."""

    share: float


class Time(str):
    """A time in ISO 8601: whole in a pipe, to the minute in UTC on a terminal."""

    __slots__ = ()

    @property
    def to_minute(self) -> str:
        """`2026-11-27 06:08Z`; as it stands where it is no time with an offset."""
        try:
            time = datetime.fromisoformat(self)
        except ValueError:
            return self
        return self if time.tzinfo is None else f"{time.astimezone(UTC):%Y-%m-%d %H:%MZ}"


TIME_FIELDS = ("at", "since")
"""The last word of the name of a field that holds a time."""
type Cell = str | int | float | bool | Sequence[str] | Bar | None
type Reader = Callable[[Any], Cell]
"""What a column has of a noun."""


def read_fields(noun: object, columns: str, **functions: Reader) -> Iterator[tuple[str, Cell]]:
    """Titles and values of a noun. `columns`: `title=path`, or a `title` that is the field's name, between commas.

    A path may name a function of `functions` instead, which takes the noun.
    """
    for column in columns.split(", "):
        title, _, path = column.partition("=")
        path = path or title.replace(" ", "_")
        if path in functions:
            yield title, functions[path](noun)
            continue
        value = attrgetter(path)(noun)
        is_time = isinstance(value, str) and re.split("[._]", path)[-1] in TIME_FIELDS
        yield title, Time(value) if is_time else value


class Table(NamedTuple):
    """Rows under columns. On a terminal the columns in `brief` are cut to the line. A terminal that is too narrow for
    all columns lacks those that say nothing in any row, then those in `spare`, the first one first.
    """

    columns: Sequence[str]
    rows: Sequence[Sequence[Cell]]
    title: str = ""
    brief: Sequence[str] = ()
    spare: Sequence[str] = ()

    @classmethod
    def of(
        cls, nouns: Iterable[object], columns: str, title: str = "", *, spare: Sequence[str] = (), **functions: Reader
    ) -> "Table":
        """A row for each noun, by `read_fields`; a description is brief."""
        titles = [column.partition("=")[0] for column in columns.split(", ")]
        rows = [[value for _, value in read_fields(noun, columns, **functions)] for noun in nouns]
        return cls(titles, rows, title, ("description",), spare)


class Fields(NamedTuple):
    """One thing's names and values."""

    pairs: Sequence[tuple[str, Cell]]

    @classmethod
    def of(cls, noun: object, columns: str, **functions: Reader) -> "Fields":
        """By `read_fields`."""
        return cls(list(read_fields(noun, columns, **functions)))

    @property
    def filled_pairs(self) -> list[tuple[str, Cell]]:
        """The pairs that have a value."""
        return [(name, value) for name, value in self.pairs if value not in (None, "", (), [])]


class Lines(NamedTuple):
    """A text with its own line breaks, under a title. `style`: by rich, on a terminal."""

    text: str
    title: str = ""
    style: str = ""

    @classmethod
    def of_json(cls, text: JsonText, title: str) -> "Lines":
        """A line for each value."""
        return cls(json.dumps(json.loads(text), ensure_ascii=False, indent=2), title)


class Aside(NamedTuple):
    """A remark for a person at a terminal; a pipe does not get it."""

    text: str


type Block = Table | Fields | Lines | Aside


def cell_text(cell: Cell) -> str:
    """As a source wrote it, not escaped."""
    match cell:
        case None:
            return ""
        case bool():
            return "yes" if cell else "no"
        case float():
            return f"{cell:.4f}"
        case int() | str():
            return str(cell)
        case Bar():
            return f"{cell.share:.0%}"
    return ", ".join(cell)


def plain_texts(blocks: Iterable[Block]) -> Iterator[str]:
    """The text of each block but the asides, a blank line between them."""
    texts = (_plain(block) for block in blocks if not isinstance(block, Aside))
    yield from (f"\n{text}" if number else text for number, text in enumerate(texts))


def _plain(block: Table | Fields | Lines) -> str:
    if isinstance(block, Fields):
        return "\n".join(f"{name}\t{one_line(cell_text(value))}" for name, value in block.filled_pairs)
    title = [one_line(block.title)] if block.title else []
    if isinstance(block, Lines):
        return "\n".join([*title, many_lines(block.text)])
    rows = ("\t".join(one_lines(map(cell_text, row))) for row in block.rows)
    return "\n".join([*title, "\t".join(one_lines(block.columns)), *rows])


BAR_CELLS = 10
GAP_CELLS = 2
"""Of each column: the space to the next one, or to the edges."""
LEAST_BRIEF_CELLS = 20
LEAST_WORD_CELLS, LEAST_NAME_CELLS = 24, 32
"""A word is folded only beyond so many cells; in the first column, which names the row, beyond the second number."""


def draw(blocks: Iterable[Block]) -> None:
    """On a terminal, by rich. Nothing is markup: every text is drawn as it is."""
    from rich.console import Console
    from rich.text import Text

    console = Console(markup=False, highlight=False, emoji=False)
    for number, block in enumerate(blocks):
        if isinstance(block, Lines) and number:
            console.print()
        if title := getattr(block, "title", ""):
            console.print(Text(one_line(title), style="bold"))
        match block:
            case Table():
                table = _fit_columns(block, console.width)
                console.print(_draw_table(table, console.width))
                if absent := [name for name in block.columns if name not in table.columns]:
                    hint = f"no room for {', '.join(absent)}: a wider terminal or a pipe has all columns"
                    console.print(Text(one_line(hint), style="dim"))
            case Fields():
                console.print(_draw_fields(block))
            case Lines():
                console.print(Text(many_lines(block.text), style=block.style), overflow="fold")
            case Aside():
                console.print(Text(one_line(block.text), style="dim"))


class _Column(NamedTuple):
    """Widths in cells: of its longest text, and the least at which it can be read."""

    name: str
    longest: int
    least: int
    is_words: bool
    """Whether its longest text has several words, at which it may be folded."""


def _measure_columns(block: Table) -> Iterator[_Column]:
    for number, name in enumerate(block.columns):
        texts = [one_line(name), *(_draw_cell(row[number]).plain for row in block.rows)]
        longest = _longest(texts)
        is_time = any(isinstance(row[number], Time) for row in block.rows)
        word = longest if is_time else _longest(word for text in texts for word in text.split())
        least = min(word, LEAST_WORD_CELLS if number else LEAST_NAME_CELLS)
        if name in block.brief:
            yield _Column(name, longest, min(longest, LEAST_BRIEF_CELLS), is_words=True)
        else:
            yield _Column(name, longest, least, is_words=word < longest)


def _longest(texts: Iterable[str]) -> int:
    from rich.cells import cell_len

    return max(map(cell_len, texts), default=0)


def _fit_columns(block: Table, width: int) -> Table:
    """The table without the columns for which a terminal of `width` cells has no room, as `Table` says."""
    least = {each.name: each.least + GAP_CELLS for each in _measure_columns(block)}
    if len(least) < len(block.columns):  # two of one name, of a query
        return block
    silent = [
        name for number, name in enumerate(block.columns) if number and not any(row[number] for row in block.rows)
    ]
    candidates = [name for name in dict.fromkeys([*silent[::-1], *block.spare]) if block.rows and name in least]
    for name in candidates:
        if sum(least.values()) > width:
            del least[name]
    numbers = [number for number, name in enumerate(block.columns) if name in least]
    return block._replace(
        columns=[block.columns[number] for number in numbers],
        rows=[[row[number] for number in numbers] for row in block.rows],
    )


def _widths(block: Table, width: int) -> list[int | None]:
    """Of each column. What is above the least goes to names first, then to texts, to brief ones last."""
    columns = list(_measure_columns(block))
    room = width - GAP_CELLS * len(columns) - sum(each.least for each in columns)
    if room < 0:  # more names than fit: the library shrinks what is widest
        return [None] * len(columns)
    widths = [each.least for each in columns]
    for number in sorted(range(len(columns)), key=lambda at: (columns[at].is_words, columns[at].name in block.brief)):
        more = min(columns[number].longest - widths[number], room)
        widths[number] += more
        room -= more
    return list(widths)


def _draw_table(block: Table, width: int) -> "RichTable":
    """Numbers stand to the right; a brief column takes the room that is left and is cut to it, any other one is folded,
    between words where that is possible.
    """
    from rich import box
    from rich.table import Table as RichTable
    from rich.text import Text

    table = RichTable(box=box.SIMPLE_HEAD, pad_edge=False, collapse_padding=True)
    for number, (name, cells) in enumerate(zip(block.columns, _widths(block, width), strict=True)):
        is_number = any(type(row[number]) in (int, float) for row in block.rows)
        table.add_column(
            Text(one_line(name)),
            justify="right" if is_number else "left",
            no_wrap=name in block.brief,
            overflow="ellipsis" if name in block.brief else "fold",
            width=cells,
        )
    for row in block.rows:
        table.add_row(*map(_draw_cell, row))
    return table


def _draw_fields(block: Fields) -> "RichTable":
    from rich.table import Table as RichTable
    from rich.text import Text

    grid = RichTable.grid(padding=(0, 2))
    grid.add_column(style="bold", no_wrap=True)
    grid.add_column(overflow="fold")
    for name, value in block.filled_pairs:
        grid.add_row(Text(name), _draw_cell(value))
    return grid


def _draw_cell(cell: Cell) -> "Text":
    from rich.text import Text

    if isinstance(cell, Bar):
        return Text("█" * max(1, round(cell.share * BAR_CELLS)), style="cyan")
    return Text(one_line(cell.to_minute if isinstance(cell, Time) else cell_text(cell)))


INTERRUPT, BROKEN_PIPE = 130, 141
"""128 + SIGINT, 128 + SIGPIPE: as a shell reports a program that the signal ended."""

_UNWRITTEN = frozenset({errno.EBADF, errno.EDQUOT, errno.EFBIG, errno.EIO, errno.ENOSPC})


def show[T](thing: T, shape: Callable[[T], object], view: Callable[[T], Iterable[Block]], as_json: bool) -> None:
    """Prints `thing` in its documented JSON shape, or as `view` lays it out."""
    is_terminal = sys.stdout.isatty()
    if as_json:
        _out(escape_unsafe(json.dumps(shape(thing), ensure_ascii=False, indent=2 if is_terminal else None)))
    elif is_terminal:
        draw(view(thing))
    else:
        for text in plain_texts(view(thing)):
            _out(text)


def print_raw(text: str) -> None:
    """A file's content: byte for byte in a pipe, escaped on a terminal."""
    _out(escape_unsafe(text) if sys.stdout.isatty() else text, end="")


def print_line(text: str) -> None:
    """One line of many, which is read as it comes."""
    _out(text)
    with suppress(BrokenPipeError):  # the next line finds it closed, and ends
        sys.stdout.flush()


def note(text: str) -> None:
    """A remark beside the answer, on stderr."""
    if text:
        print(f"note: {one_line(text)}", file=sys.stderr)  # noqa: T201 - printing is what this module is for


def complain(text: str) -> None:
    """What went wrong, in one line on stderr."""
    print(f"error: {one_line(text)}", file=sys.stderr)  # noqa: T201


def leave_unwritten(error: OSError) -> NoReturn:
    """Ends when stdout takes nothing more: quietly if nobody reads it, else with the reason.

    Keeps the interpreter from flushing it once more at exit.
    """
    nobody_reads = isinstance(error, BrokenPipeError)
    if not nobody_reads:
        complain(f"standard output cannot be written: {error.strerror}")
    with suppress(OSError):
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
    raise SystemExit(BROKEN_PIPE if nobody_reads else 1)


def is_of_a_stream(error: OSError) -> bool:
    """Whether a stream takes nothing more. An error of a file names the file, or is already an error of ours."""
    return error.filename is None and error.errno in _UNWRITTEN


def flush() -> None:
    """Ends the program if stdout does not take what was printed."""
    try:
        sys.stdout.flush()
    except OSError as error:
        leave_unwritten(error)


def open_closed_streams() -> None:
    """Stdin, stdout and stderr where whoever started this closed them, so that no file we open gets their number.

    A closed stdout takes nothing, as before. Messages for a closed stderr are dropped.
    """
    for name, flags, mode in (("stdin", os.O_RDONLY, "r"), ("stdout", os.O_RDONLY, "w"), ("stderr", os.O_WRONLY, "w")):
        if getattr(sys, name) is None:
            number = os.open(os.devnull, flags)
            setattr(sys, name, open(number, mode, encoding="utf-8", closefd=False))  # noqa: SIM115 - till the end


def _out(text: str, *, end: str = "\n") -> None:
    try:
        print(text, end=end)  # noqa: T201
    except OSError as error:
        leave_unwritten(error)
