"""Names that come more than once, first of all in an object of JSON: there the last value counts, as for other programs
that read the same file, and that there were others is told.
"""

from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from typing import Any

from waygraph.ingest.sources.pointer import pointer

type Note = Callable[[str], None]
"""Told the JSON pointer of a name that is there more than once."""

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
        names = {id(made): found for made, found in self._found}
        for place, value in _places(document) if names else ():
            for name in names.get(id(value), ()):
                note(f"{place}{pointer(name)}")


def _places(document: object) -> Iterator[tuple[str, object]]:
    """Every value with its JSON pointer, in order. Not by recursion: a document may be nested deeper than that goes."""
    left: list[tuple[str, object]] = [("", document)]
    while left:
        place, value = left.pop()
        yield place, value
        inside = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
        left += reversed([(f"{place}{pointer(name)}", item) for name, item in inside])
