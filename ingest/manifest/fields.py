"""Fields of foreign formats: typed reads of values, and JSON that can be sent on."""

from collections import Counter
from collections.abc import Callable, Iterable, Mapping
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


def repeated_names(names: Iterable[str]) -> list[str]:
    """Those that come more than once, in order of the first time."""
    return [name for name, times in Counter(names).items() if times > 1]


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
