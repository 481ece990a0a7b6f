"""Texts that strangers wrote: bounds of what a few lines can unfold to, TOML within them, and what is safe to show.

Tool descriptions are written by strangers. An escape sequence in one must not colour, clear or retitle the reader's
terminal. A bidi override or an invisible character must not hide what a model will read.
"""

import re
from typing import Any

BOM = "\ufeff"
MAX_DEPTH = 200
TOO_DEEP = f"is nested deeper than {MAX_DEPTH} levels"
MAX_NAMES = 32
"""Of a dotted key of TOML: its parser keeps each beginning of one."""
MAX_PARTS = 100_000
"""Names, lists and tables of TOML: each takes up to a kilobyte."""
# Each alternative ends with the text, if not before: so no text takes more than one pass.
_TEXT_OR_COMMENT = re.compile(
    r'(?s)"""(?:\\.|(?!""").)*+(?:"""|\Z)|\'\'\'(?:(?!\'\'\').)*+(?:\'\'\'|\Z)'
    r"|\"(?:\\.|[^\"\\\n])*+(?:\"|(?=\n)|\Z)|'[^'\n]*+(?:'|(?=\n)|\Z)|#[^\n]*+"
)
_KEY = re.compile(r"[^\n=,{}\[\]]+")


class UnboundedText(ValueError):
    """Nested too deeply, or one that stands for too much."""


def toml_document(text: str) -> dict[str, Any]:
    """Raises ValueError, which is UnboundedText for what is not parsed at all."""
    import tomllib  # most who show a text read none

    text = text.removeprefix(BOM)
    bare = _TEXT_OR_COMMENT.sub("_", text)
    if any(key.count(".") >= MAX_NAMES for key in _KEY.findall(bare)):
        raise UnboundedText(f"has a key of more than {MAX_NAMES} names")
    if sum(map(bare.count, ".=[{,")) > MAX_PARTS:
        raise UnboundedText(f"has more than {MAX_PARTS:,} names, lists and tables")
    try:
        return tomllib.loads(text)
    except RecursionError:
        raise UnboundedText(TOO_DEEP) from None


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


def escape_unsafe(text: str) -> str:
    """Every unsafe character spelled as JSON spells it, so that JSON stays the same JSON."""
    return _UNSAFE.sub(_spell_character, text)


def _spell_character(match: re.Match[str]) -> str:
    units = match.group().encode("utf-16-be", "surrogatepass")
    return "".join(f"\\u{units[at]:02x}{units[at + 1]:02x}" for at in range(0, len(units), 2))
