"""JSON that can be sent on: a parser that forgives takes what no writer of JSON gives, and a message with it would end
the connection to the host that it is for.
"""

from collections.abc import Mapping
from typing import Any

from pydantic_core import to_json

from waygraph.registry.identity import mended

MOST_DEPTH = 190
"""Hosts on pydantic read 200 levels, those of the message around the value among them."""
_WRITTEN_DEPTH = 254
"""Of what pydantic writes."""
TOO_DEEP = f"(nested deeper than {MOST_DEPTH} levels, which is left out)"


def sendable[T](value: T) -> T:
    """The value itself if it can be written; else a copy with `?` for half a character and a note for what is too
    deep.
    """
    try:
        to_json(_deeper(value, _WRITTEN_DEPTH - MOST_DEPTH))
    except (ValueError, RecursionError):
        cleaned: T = _cleaned(value, MOST_DEPTH)
        return cleaned
    return value


def _deeper(value: object, levels: int) -> object:
    """So that the writer's own bound, which is looked at in native code, stands for ours."""
    for _ in range(levels):
        value = (value,)
    return value


def _cleaned(value: Any, levels: int) -> Any:
    if isinstance(value, str):
        return mended(value)
    if not isinstance(value, (Mapping, list)):
        return value
    if not levels:
        return TOO_DEEP
    if isinstance(value, list):
        return [_cleaned(part, levels - 1) for part in value]
    return {mended(str(key)): _cleaned(part, levels - 1) for key, part in value.items()}
