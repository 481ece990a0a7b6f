"""What plainly fits a schema of the commonest kind: named parameters, each a text, a number or a truth value.

The library walks a schema with an object for each step, which takes longer than all else that a gateway does with a
call of its own. Here only a yes counts: what is not plain is left to the library, and so is every fault.
"""

import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from math import isfinite
from typing import Any

from waygraph.registry.model.process import remembered

_SAYS_NOTHING = frozenset({"title", "description", "default", "examples"})
_OF_SCHEMA = _SAYS_NOTHING | {"$schema", "type", "properties", "required", "additionalProperties"}
_OF_PARAMETER = _SAYS_NOTHING | {"type"}


def _is_integer(value: object) -> bool:
    return type(value) is int


def _is_number(value: object) -> bool:
    return type(value) is int or (type(value) is float and isfinite(value))


_KINDS: Mapping[object, Callable[[object], bool]] = {
    "string": lambda value: type(value) is str,
    "integer": _is_integer,
    "number": _is_number,
    "boolean": lambda value: type(value) is bool,
}


@dataclass(frozen=True, slots=True)
class _Plain:
    """By name what a parameter may be, and which must be there."""

    kinds: Mapping[str, Callable[[object], bool]]
    required: tuple[str, ...]


def plainly_fits(schema_text: str, arguments: Mapping[str, Any]) -> bool:
    """Whether it is sure, without the library, that these arguments are JSON and fit. False: not sure."""
    plain = _plain(schema_text)
    return (
        plain is not None
        and all(name in plain.kinds and plain.kinds[name](value) for name, value in arguments.items())
        and all(name in arguments for name in plain.required)
    )


@remembered
def _plain(schema_text: str) -> _Plain | None:
    try:
        schema = json.loads(schema_text)
    except (ValueError, RecursionError):
        return None
    if not isinstance(schema, dict) or not schema.keys() <= _OF_SCHEMA or schema.get("type") != "object":
        return None
    properties, required = schema.get("properties", {}), schema.get("required", [])
    if not isinstance(properties, dict) or not isinstance(required, list):
        return None
    kinds = {name: kind for name, each in properties.items() if (kind := _kind_of(each))}
    return _Plain(kinds, tuple(map(str, required)))


def _kind_of(parameter: object) -> Callable[[object], bool] | None:
    if not isinstance(parameter, dict) or not parameter.keys() <= _OF_PARAMETER:
        return None
    kind = parameter.get("type")
    return _KINDS.get(kind) if isinstance(kind, str) else None
