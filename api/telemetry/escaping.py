"""Untrusted text made safe to show: what would steer a terminal or reorder a line is spelled out instead.

Tool descriptions are written by strangers. An escape sequence in one must not colour, clear or retitle the reader's
terminal. A bidi override or an invisible character must not hide what a model will read.
"""

import re

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
