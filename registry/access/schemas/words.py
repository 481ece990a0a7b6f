"""How a fault in a call's arguments is said: in short, and never with the value that was given, which may be secret."""

import json
from collections.abc import Iterable, Mapping
from itertools import islice
from typing import Any

from waygraph.registry.model.errors import nearest

TOLD_CHARS = 120
_LISTED = 12

_LIMITS = {
    "const": "must be",
    "minimum": "must be at least",
    "maximum": "must be at most",
    "exclusiveMinimum": "must be more than",
    "exclusiveMaximum": "must be less than",
    "multipleOf": "must be a multiple of",
    "minLength": "characters needed, at least:",
    "maxLength": "characters allowed, at most:",
    "minItems": "items needed, at least:",
    "maxItems": "items allowed, at most:",
    "minProperties": "properties needed, at least:",
    "maxProperties": "properties allowed, at most:",
}
_OTHERS = {
    "oneOf": "must fit exactly one of the alternatives",
    "anyOf": "fits none of the alternatives",
    "not": "is what the schema excludes",
    "contains": "no item is of the kind that must be among them",
    "dependentRequired": "another property is needed beside it",
    "dependencies": "another property is needed beside it",
    "None": "is not taken",
}


def expected(keyword: str, value: Any, instance: Any) -> str:
    if keyword == "type":
        return f"expected {kinds(value)}, not {kind(instance)}"
    if keyword == "enum" and isinstance(value, list):
        return f"must be one of {listed(value)}"
    told = _LIMITS.get(keyword)
    if told:
        return f"{told} {short(value)}"
    return _OTHERS.get(keyword) or f"does not fit `{keyword[:TOLD_CHARS]}` of the schema"


def unknown_name(name: str, known: Iterable[str]) -> str:
    names = list(known)
    if not names:
        return "is not taken: this object is empty"
    near = nearest(name, names)
    meant = f"; did you mean {short(near[0])}?" if near else ""
    return f"is not known; known: {listed(names)}{meant}"


def expected_of(properties: Any, name: Any) -> str:
    inner = properties.get(name) if isinstance(properties, dict) else None
    kind = inner.get("type") if isinstance(inner, dict) else None
    return f" ({kinds(kind)})" if kind else ""


def kinds(value: Any) -> str:
    kinds = value if isinstance(value, list) else [value]
    return " or ".join(str(kind)[:TOLD_CHARS] for kind in kinds[:7])


def kind(value: object) -> str:
    """JSON's name of what it is."""
    if value is None:
        return "null"
    for types, name in _KINDS:
        if isinstance(value, types):
            return name
    return "a value that JSON does not have"


_KINDS: tuple[tuple[type | tuple[type, ...], str], ...] = (
    (bool, "boolean"),
    (str, "string"),
    (int, "integer"),
    (float, "number"),
    (Mapping, "object"),
    ((list, tuple), "array"),
)


def listed(values: Iterable[Any]) -> str:
    told = [short(value) for value in islice(values, _LISTED + 1)]
    return ", ".join([*told[:_LISTED], "…"] if len(told) > _LISTED else told)


def short(value: object) -> str:
    told = json.dumps(value, ensure_ascii=False)
    return told if len(told) <= TOLD_CHARS else told[: TOLD_CHARS - 1] + "…"
