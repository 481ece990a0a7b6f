"""Addresses that are keys themselves: hosts of MCP servers hand out `https://host/s/NjQ4OTcwYWItZTFhMi/mcp`.

What a person's own config or command line has of that kind is a secret, and is found again there. What others publish,
such as an agent's card, is none, and would be lost: so this is no part of `references_only`.
"""

import re

REFERENCE = "${path_key}"
_PATH = re.compile(r"(?<=://)([^\s/?#]*)(/[^\s?#\"']*)")
_SEGMENT = re.compile(r"(?<=/)[\w%~-]{16,}(?:\.[\w%~-]{16,}){0,2}={0,2}(?=/|$)")
_UUID = re.compile(r"(?i)[0-9a-f]{8}-?(?:[0-9a-f]{4}-?){3}[0-9a-f]{12}")
_LONG_PIECE = re.compile(r"[A-Za-z0-9]{16,}")
_DIGIT_BESIDE_LETTER = re.compile(r"(?<=[A-Za-z])(?=\d)|(?<=\d)(?=[A-Za-z])")
_FEWEST_CHANGES = 4


def without_path_keys(text: str) -> str:
    """Any text, with a reference for each part of an address's path that looks like a key."""
    return _PATH.sub(lambda found: found[1] + _SEGMENT.sub(_told, found[2]), text)


def path_keys(text: str) -> frozenset[str]:
    """Those parts."""
    segments = [segment for found in _PATH.finditer(text) for segment in _SEGMENT.findall(found[2])]
    return frozenset(segment for segment in segments if _is_key(segment))


def _told(found: re.Match[str]) -> str:
    return REFERENCE if _is_key(found[0]) else found[0]


def _is_key(segment: str) -> bool:
    """Words, names and versions change little between letters and digits; what is made by chance does all the time."""
    changes = (len(_DIGIT_BESIDE_LETTER.findall(piece)) for piece in _LONG_PIECE.findall(segment))
    return bool(_UUID.fullmatch(segment)) or any(number >= _FEWEST_CHANGES for number in changes)
