"""Fields of foreign formats: typed reads of values, and names that an object of JSON has more than once.

Of a repeated name the last value counts, as for other programs that read the same file; the repetition is reported.
"""

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping
from itertools import islice
from typing import Any

from pydantic_core import to_json

from waygraph.registry.model.identity import name_fault, replace_surrogates

# JSON pointers (RFC 6901).


def pointer(*parts: object) -> str:
    """`/mcpServers/a~1b` of `mcpServers` and `a/b`."""
    return "".join(f"/{escape_pointer(part)}" for part in parts)


def escape_pointer(part: object) -> str:
    """`a~1b` of `a/b`."""
    return str(part).replace("~", "~0").replace("/", "~1")


type Note = Callable[[str], None]
"""Told the JSON pointer of a name that is there more than once."""

type Path = tuple[()] | tuple[Path, str | int]
"""Where a value is: that of what holds it, and its name there. The text is made of those that are told alone."""

MOST_TOLD = 100
"""Of one document."""
_NAME_CHARS, _TOLD_CHARS = 200, 4_000

REPEATED = "is there more than once; the last one counts"


def ignore_fault(place: str) -> None:
    """For who only wants the values."""


def repeated_names(names: Iterable[str]) -> list[str]:
    """Those that come more than once, in order of the first time."""
    return [name for name, times in Counter(names).items() if times > 1]


class Objects:
    """Makes the objects of one JSON text, as its parser finds them, and keeps what their names say."""

    def __init__(self) -> None:
        self._repeats: list[tuple[dict[str, Any], list[str]]] = []

    def __call__(self, pairs: list[tuple[str, Any]]) -> dict[str, Any]:
        if len(result := dict(pairs)) < len(pairs):
            self._repeats.append((result, repeated_names(name for name, _ in pairs)))
        return result

    def tell(self, document: object, note: Note) -> None:
        """Of the objects that are still in the document: where a name comes twice, the first value is in it no more."""
        for place in islice(self._places(document), MOST_TOLD) if self._repeats else ():
            note(place)

    def _places(self, document: object) -> Iterator[str]:
        """Not by recursion: a document may be nested deeper than that goes."""
        names = {id(mapping): keys for mapping, keys in self._repeats}
        rest: list[tuple[Path, object]] = [((), document)]
        while rest:
            path, value = rest.pop()
            yield from (show_pointer((path, name)) for name in names.get(id(value), ()))
            inside = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
            rest += reversed([((path, name), item) for name, item in inside if isinstance(item, (dict, list))])


def show_pointer(path: Path) -> str:
    """The JSON pointer, cut to what a person reads: names may be as long as their document."""
    names: list[str | int] = []
    while path:
        path, name = path
        names.append(name)
    return "".join(pointer(name)[:_NAME_CHARS] for name in reversed(names))[:_TOLD_CHARS]


MAX_TAGS = 50
"""Of an agent or a tool."""
MAX_NUMBER_BITS = 256
"""Python writes no number of very many digits, and YAML can hold one."""


def mostly(entries: object, look: Callable[[Any], bool]) -> bool:
    """Whether it is a list of which at least half look so: no single record makes another kind of it."""
    return isinstance(entries, list) and bool(entries) and 2 * sum(map(look, entries)) >= len(entries)


def fields_of(value: object) -> Mapping[str, Any]:
    """The object itself; what is none has no fields."""
    return value if isinstance(value, Mapping) else {}


def items_of(value: object) -> list[Any]:
    return value if isinstance(value, list) else []


def text_of(value: object) -> str:
    """A text without the space around it, or nothing."""
    return value.strip() if isinstance(value, str) else ""


def map_texts(value: Any, change: Callable[[str], str]) -> Any:
    """The value with each text in it changed, however deep; names stay."""
    if isinstance(value, str):
        return change(value)
    if isinstance(value, Mapping):
        return {name: map_texts(part, change) for name, part in value.items()}
    return [map_texts(part, change) for part in value] if isinstance(value, list) else value


def lines_of(value: object) -> list[str]:
    """The texts of a list that say something."""
    return [item.strip() for item in items_of(value) if isinstance(item, str) and item.strip()]


def tags_of(values: Iterable[object]) -> list[str]:
    """Those that can be tags, each once, in their order; at most MAX_TAGS."""
    legal = (value.strip() for value in values if isinstance(value, str) and not name_fault(value))
    return list(dict.fromkeys(legal))[:MAX_TAGS]


def scalar_of(value: object) -> str:
    """A text, number or truth value as text; nothing for anything else."""
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, int) and value.bit_length() > MAX_NUMBER_BITS:
        return ""
    return str(value) if isinstance(value, (int, float)) else text_of(value)


def version_of(value: object) -> object:
    """A number as text."""
    return scalar_of(value) or value


# JSON that can be sent on: a parser that forgives takes what no writer of JSON gives, and a message with it would end
# the connection to the host that it is for.


MOST_DEPTH = 190
"""Hosts on pydantic read 200 levels, those of the message around the value among them."""
_WRITTEN_DEPTH = 254
"""Of what pydantic writes."""
TOO_DEEP = f"(nested deeper than {MOST_DEPTH} levels, which is left out)"


def sendable[T](value: T) -> T:
    """The value itself if it can be written; else a copy with `?` for half a character and a note for what is too
    deep.
    """
    deeper: object = value
    for _ in range(_WRITTEN_DEPTH - MOST_DEPTH):  # so that the writer's own bound, in native code, stands for ours
        deeper = (deeper,)
    try:
        to_json(deeper)
    except (ValueError, RecursionError):
        copy: T = _clean_value(value, MOST_DEPTH)
        return copy
    return value


def _clean_value(value: Any, levels: int) -> Any:
    if isinstance(value, str):
        return replace_surrogates(value)
    if not isinstance(value, (Mapping, list)):
        return value
    if not levels:
        return TOO_DEEP
    if isinstance(value, list):
        return [_clean_value(part, levels - 1) for part in value]
    return {replace_surrogates(str(key)): _clean_value(part, levels - 1) for key, part in value.items()}
