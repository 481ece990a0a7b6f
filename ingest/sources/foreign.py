"""Fields of formats that are not ours. What is of another type than agreed is left out, if nobody is found by it."""

import datetime
from collections.abc import Callable, Iterable, Mapping
from typing import Any

from waygraph.registry.identity import name_fault

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


def lines_of(value: object) -> list[str]:
    """The texts of a list that say something."""
    return [item.strip() for item in items_of(value) if isinstance(item, str) and item.strip()]


def tags_of(values: Iterable[object]) -> list[str]:
    """Those that can be tags, each once, in their order; at most MAX_TAGS."""
    legal = (value.strip() for value in values if isinstance(value, str) and not name_fault(value))
    return list(dict.fromkeys(legal))[:MAX_TAGS]


def scalar_of(value: object) -> str:
    """A text, number, truth value or date of YAML as text; nothing for anything else."""
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, datetime.date):
        return value.isoformat()
    if isinstance(value, int) and value.bit_length() > MAX_NUMBER_BITS:
        return ""
    return str(value) if isinstance(value, (int, float)) else text_of(value)


def version_of(value: object) -> object:
    """YAML reads `2026-01-31` as a date."""
    return scalar_of(value) or value
