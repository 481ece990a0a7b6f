"""What an answer is laid out in, before anyone knows whether a terminal or a pipe will show it.

Named tuples, which are made in a seventh of the time of frozen dataclasses: whoever is shown an answer waits for them.
"""

import json
from collections.abc import Iterable, Sequence
from typing import NamedTuple

from waygraph.api.telemetry.escaping import escape_each, escape_unsafe
from waygraph.registry.model.nouns import JsonText


def one_line(text: str) -> str:
    """The text as one line: white space becomes single spaces, unsafe characters become `\\u202e` and the like."""
    return escape_unsafe(" ".join(text.split()))


def many_lines(text: str) -> str:
    """The same with its line breaks kept and tabs widened."""
    return escape_unsafe("\n".join(text.expandtabs(4).splitlines()))


class Bar(NamedTuple):
    """A share from 0 to 1: a bar on a terminal, a percentage in a pipe."""

    share: float


type Cell = str | int | float | bool | Sequence[str] | Bar | None


PIPED_CHARS = 200
"""Of a brief column in a pipe."""


class Table(NamedTuple):
    """Rows under columns. On a terminal the columns in `brief` are cut to the line, in a pipe to PIPED_CHARS unless
    they are wanted whole.
    """

    columns: Sequence[str]
    rows: Sequence[Sequence[Cell]]
    title: str = ""
    brief: Sequence[str] = ()


class Fields(NamedTuple):
    """One thing's names and values."""

    pairs: Sequence[tuple[str, Cell]]

    @property
    def filled_pairs(self) -> list[tuple[str, Cell]]:
        """The pairs that have a value."""
        return [(name, value) for name, value in self.pairs if value not in (None, "", (), [])]


class Lines(NamedTuple):
    """A text with its own line breaks, under a title."""

    text: str
    title: str = ""

    @classmethod
    def of_json(cls, text: JsonText, title: str) -> "Lines":
        """A line for each value."""
        return cls(json.dumps(json.loads(text), ensure_ascii=False, indent=2), title)


class Aside(NamedTuple):
    """A remark for a person at a terminal; a pipe does not get it."""

    text: str


type Block = Table | Fields | Lines | Aside


def cell_text(cell: Cell) -> str:
    """One line, escaped."""
    return one_line(_text(cell))


def cell_texts(cells: Iterable[Cell]) -> list[str]:
    """The same of each."""
    return escape_each(" ".join(_text(cell).split()) for cell in cells)


def _text(cell: Cell) -> str:
    match cell:
        case None:
            text = ""
        case bool():
            text = "yes" if cell else "no"
        case float():
            text = f"{cell:.4f}"
        case int():
            text = str(cell)
        case Bar():
            text = f"{cell.share:.0%}"
        case str():
            text = cell
        case _:
            text = ", ".join(cell)
    return text
