"""The names of a generation: folded name → rows of the entities that bear it.

One JSON object, a line a name, the lines sorted by their bytes: so a name is found without reading the rest. Builds of
before wrote it unsorted in one line, which is read whole.
"""

import json
import mmap
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

_FIRST, _LAST = b"{\n", b"\n}\n"
_encode = json.JSONEncoder(ensure_ascii=False, separators=(",", ":")).encode


def write_names(file: Path, names: Mapping[str, Sequence[int]]) -> None:
    """Raises OSError."""
    lines = sorted(_key(name) + _encode(rows).encode() for name, rows in names.items())
    file.write_bytes(_FIRST + b",\n".join(lines) + _LAST)


def open_names(file: Path) -> Callable[[str], Sequence[int]]:
    """What gives a folded name's rows; none for a name that nobody bears. Raises OSError, ValueError for damage."""
    with file.open("rb") as opened:
        lines = mmap.mmap(opened.fileno(), 0, access=mmap.ACCESS_READ)
    if lines[: len(_FIRST)] == _FIRST:
        return _Sorted(lines).rows
    whole: dict[str, list[int]] = json.loads(lines[:].decode("utf-8", "surrogatepass"))
    return lambda name: whole.get(name, ())


class _Sorted:
    def __init__(self, lines: mmap.mmap) -> None:
        if lines[-len(_LAST) :] != _LAST:
            raise ValueError("the names are cut short")
        self._lines = lines

    def rows(self, name: str) -> Sequence[int]:
        """By bisection. Raises ValueError for a line that is damaged."""
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
