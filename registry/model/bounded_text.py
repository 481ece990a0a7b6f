"""Bounds of what a few lines of a text can unfold to, and TOML to plain values within them."""

import re
import tomllib
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
_BRACKET = re.compile(r"[\[{]|([\]}])")


class UnboundedText(ValueError):
    """Nested too deeply, or one that stands for too much."""


def toml_document(text: str) -> dict[str, Any]:
    """Raises ValueError, which is UnboundedText for what is not parsed at all."""
    text = text.removeprefix(BOM)
    bare, depth = _TEXT_OR_COMMENT.sub("_", text), 0
    if any(key.count(".") >= MAX_NAMES for key in _KEY.findall(bare)):
        raise UnboundedText(f"has a key of more than {MAX_NAMES} names")
    if sum(map(bare.count, ".=[{,")) > MAX_PARTS:
        raise UnboundedText(f"has more than {MAX_PARTS:,} names, lists and tables")
    for bracket in _BRACKET.finditer(bare):
        depth = depth - 1 if bracket[1] else depth + 1
        if depth > MAX_DEPTH:
            raise UnboundedText(TOO_DEEP)
    try:
        return tomllib.loads(text)
    except RecursionError:
        raise UnboundedText(TOO_DEEP) from None
