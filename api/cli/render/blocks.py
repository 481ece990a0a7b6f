"""What an answer is laid out in, before anyone knows whether a terminal or a pipe will show it.

Named tuples, which are made in a seventh of the time of frozen dataclasses: whoever is shown an answer waits for them.
"""

import json
import re
from collections.abc import Sequence
from typing import NamedTuple

from waygraph.registry.model.nouns import JsonText

# Untrusted text made safe to show: what would steer a terminal or reorder a line is spelled out instead.
#
# Tool descriptions are written by strangers. An escape sequence in one must not colour, clear or retitle the
# reader's terminal, and a bidi override or an invisible character must not hide what a model will read.


_UNSAFE = re.compile(
    "["
    "\x00-\x09\x0b-\x1f\x7f-\x9f"  # control characters, C1 too (0x9b starts a sequence); a line break is none
    "\xad\u061c\u180e\u200b\u200e\u200f"  # soft hyphen, zero-width space, direction marks; scripts need joiners
    "\u2028\u2029\u202a-\u202e"  # line separators, bidi embeddings and overrides
    "\u2060-\u206f\ufeff\ufff9-\ufffb"  # invisible operators, bidi isolates, byte order mark, annotations
    "\U000e0000-\U000e007f"  # tag characters: text that a model reads and a person does not see
    "\ud800-\udfff"  # halves of surrogate pairs
    "]"
)


def one_line(text: str) -> str:
    """The text as one line: white space becomes single spaces, unsafe characters become `\\u202e` and the like."""
    return escaped(" ".join(text.split()))


def many_lines(text: str) -> str:
    """The same with its line breaks kept and tabs widened."""
    return escaped("\n".join(text.expandtabs(4).splitlines()))


def escaped(text: str) -> str:
    """Every unsafe character spelled as JSON spells it, so that JSON stays the same JSON."""
    return _UNSAFE.sub(_spelled, text)


def _spelled(found: re.Match[str]) -> str:
    units = found.group().encode("utf-16-be", "surrogatepass")
    return "".join(f"\\u{units[at]:02x}{units[at + 1]:02x}" for at in range(0, len(units), 2))


class Bar(NamedTuple):
    """A share from 0 to 1: a bar on a terminal, a percentage in a pipe."""

    share: float


type Cell = str | int | float | bool | Sequence[str] | Bar | None


class Table(NamedTuple):
    """Rows under columns. On a terminal the columns in `brief` are cut to the line; in a pipe nothing is cut."""

    columns: Sequence[str]
    rows: Sequence[Sequence[Cell]]
    title: str = ""
    brief: Sequence[str] = ()


class Fields(NamedTuple):
    """One thing's names and values."""

    pairs: Sequence[tuple[str, Cell]]

    @property
    def said(self) -> list[tuple[str, Cell]]:
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
    return one_line(text)
