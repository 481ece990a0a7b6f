"""The names of a generation: folded name → rows of the entities that bear it.

One JSON object, a line a name, the lines sorted by their bytes: so a name is found without reading the rest.
"""

import json
import mmap
from collections.abc import Mapping, Sequence
from pathlib import Path

_FIRST, _LAST = b"{\n", b"\n}\n"
_encode = json.JSONEncoder(ensure_ascii=False, separators=(",", ":")).encode


def write_names(file: Path, names: Mapping[str, Sequence[int]]) -> None:
    """Raises OSError."""
    lines = sorted(_key(name) + _encode(rows).encode() for name, rows in names.items())
    file.write_bytes(_FIRST + b",\n".join(lines) + _LAST)


class Names:
    """Reads what `write_names` wrote. Threads may share it. Raises OSError, ValueError for damage."""

    def __init__(self, file: Path) -> None:
        with file.open("rb") as opened:
            self._lines = mmap.mmap(opened.fileno(), 0, access=mmap.ACCESS_READ)
        if self._lines[: len(_FIRST)] != _FIRST or self._lines[-len(_LAST) :] != _LAST:
            raise ValueError("the names are cut short")

    def rows(self, name: str) -> Sequence[int]:
        """Of a folded name, by bisection; none for a name that nobody bears. Raises ValueError for a damaged line."""
        wanted = _key(name)
        # Both are where a line begins. No name's line is behind the last one, `}`: it begins with a quote.
        low, high = len(_FIRST), len(self._lines)
        while low < high:
            begin = self._lines.rfind(b"\n", low, (low + high) // 2) + 1 or low
            end = self._lines.find(b"\n", begin)
            line = self._lines[begin:end]
            if line.startswith(wanted):
                rows: list[int] = json.loads(line[len(wanted) :].removesuffix(b","))
                return rows
            low, high = (end + 1, high) if line < wanted else (low, begin)
        return ()


def _key(name: str) -> bytes:
    """What the name's line begins with, and no other's: a quote inside a name is escaped."""
    return f"{_encode(name)}:".encode("utf-8", "surrogatepass")
