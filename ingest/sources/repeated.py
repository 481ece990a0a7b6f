"""Names that come more than once, first of all in an object of JSON: there the last value counts, as for other programs
that read the same file, and that there were others is told.
"""

from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from itertools import islice
from typing import Any

from waygraph.ingest.sources.pointer import pointer

type Note = Callable[[str], None]
"""Told the JSON pointer of a name that is there more than once."""

type Path = tuple[()] | tuple[Path, str | int]
"""Where a value is: that of what holds it, and its name there. The text is made of those that are told alone."""

MOST_TOLD = 100
"""Of one document."""
_NAME_CHARS, _TOLD_CHARS = 200, 4_000

REPEATED = "is there more than once; the last one counts"


def unheeded(place: str) -> None:
    """For who only wants the values."""


def repeated(names: Iterable[str]) -> list[str]:
    """Those that come more than once, in order of the first time."""
    return [name for name, times in Counter(names).items() if times > 1]


class Objects:
    """Makes the objects of one JSON text, as its parser finds them, and keeps what their names say."""

    def __init__(self) -> None:
        self._found: list[tuple[dict[str, Any], list[str]]] = []

    def __call__(self, pairs: list[tuple[str, Any]]) -> dict[str, Any]:
        made = dict(pairs)
        if len(made) < len(pairs):
            self._found.append((made, repeated(name for name, _ in pairs)))
        return made

    def tell(self, document: object, note: Note) -> None:
        """Of the objects that are still in the document: where a name comes twice, the first value is in it no more."""
        for place in islice(self._places(document), MOST_TOLD) if self._found else ():
            note(place)

    def _places(self, document: object) -> Iterator[str]:
        """Not by recursion: a document may be nested deeper than that goes."""
        names = {id(made): found for made, found in self._found}
        left: list[tuple[Path, object]] = [((), document)]
        while left:
            path, value = left.pop()
            yield from (told((path, name)) for name in names.get(id(value), ()))
            inside = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
            left += reversed([((path, name), item) for name, item in inside if isinstance(item, (dict, list))])


def told(path: Path) -> str:
    """The JSON pointer, cut to what a person reads: names may be as long as their document."""
    names: list[str | int] = []
    while path:
        path, name = path
        names.append(name)
    return "".join(pointer(name)[:_NAME_CHARS] for name in reversed(names))[:_TOLD_CHARS]
