"""Keywords of JSON Schema that the library checks without any bound, or tells poorly: checked by us, in linear time."""

import json
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import TYPE_CHECKING, Any

from waygraph.registry.access.schemas.patterns import matcher
from waygraph.registry.access.schemas.steps import spend
from waygraph.registry.access.schemas.words import expected_of, short, unknown_name

if TYPE_CHECKING:
    from jsonschema.exceptions import ValidationError

    Faults = Iterator[ValidationError]
    Keyword = Callable[[Any, Any, Any, Any], Iterable[ValidationError] | None]

_CHARS_A_STEP = 1024
"""Of a text that is searched or written, in about the time of a keyword."""


def _fault(message: str) -> "Faults":
    from jsonschema.exceptions import ValidationError

    yield ValidationError(message)


def _pattern(validator: Any, pattern: Any, instance: Any, schema: Any) -> "Faults":  # noqa: ARG001
    if isinstance(instance, str) and isinstance(pattern, str):
        spend(len(instance) // _CHARS_A_STEP)
        matches = matcher(pattern)
        if matches and not matches(instance):
            yield from _fault(f"must match the pattern {short(pattern)}")


def _properties(validator: Any, properties: Any, instance: Any, schema: Any) -> "Faults":  # noqa: ARG001
    """The library tells no place for what `false` excludes."""
    if not validator.is_type(instance, "object"):
        return
    for name, inner in properties.items():
        if name in instance and inner is False:
            yield from _at(name, "is not taken")
        elif name in instance:
            yield from validator.descend(instance[name], inner, path=name, schema_path=name)


def _pattern_properties(validator: Any, by_pattern: Any, instance: Any, schema: Any) -> "Faults":  # noqa: ARG001
    if not validator.is_type(instance, "object"):
        return
    for pattern, inner in by_pattern.items():
        spend(len(instance) // 4)
        matches = matcher(pattern)
        for name, value in instance.items() if matches else ():
            if matches and matches(name):
                yield from validator.descend(value, inner, path=name, schema_path=pattern)


def _additional_properties(validator: Any, inner: Any, instance: Any, schema: Any) -> "Faults":
    """A pattern that cannot be run may mean any name: then none is one too many."""
    if not validator.is_type(instance, "object"):
        return
    known = schema.get("properties", {})
    matchers = [matcher(pattern) for pattern in schema.get("patternProperties", {})]
    spend(len(matchers) * len(instance) // 4)
    for name, value in instance.items():
        if name in known or any(matches is None or matches(name) for matches in matchers):
            continue
        if inner is not False:
            yield from validator.descend(value, inner, path=name)
        elif known or not matchers:
            yield from _at(name, unknown_name(name, known))
        else:
            yield from _at(name, "is not taken")


def _at(name: str, message: str) -> "Faults":
    from jsonschema.exceptions import ValidationError

    yield ValidationError(message, path=(name,))


def _required(validator: Any, names: Any, instance: Any, schema: Any) -> "Faults":
    if validator.is_type(instance, "object") and isinstance(names, list):
        properties = schema.get("properties", {})
        for name in names:
            if name not in instance:
                yield from _at(str(name), f"is required{expected_of(properties, name)}")


def _unique_items(validator: Any, wanted: Any, instance: Any, schema: Any) -> "Faults":  # noqa: ARG001
    """By their canonical text: in one pass, where the library compares each with each."""
    if wanted is True and isinstance(instance, list):
        texts = set[str]()
        for item in instance:
            texts.add(text := json.dumps(item, sort_keys=True))
            spend(len(text) // _CHARS_A_STEP)
        if len(texts) < len(instance):
            yield from _fault("must not hold the same item twice")


OWN: Mapping[str, "Keyword"] = {
    "pattern": _pattern,
    "patternProperties": _pattern_properties,
    "properties": _properties,
    "additionalProperties": _additional_properties,
    "required": _required,
    "uniqueItems": _unique_items,
}
