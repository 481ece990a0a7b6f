"""Keywords of JSON Schema that the library checks without any bound, or tells poorly: checked by us, in linear time."""

import json
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import TYPE_CHECKING, Any

from waygraph.registry.schemas.patterns import matcher
from waygraph.registry.schemas.words import expected_of, short, unknown_name

if TYPE_CHECKING:
    from jsonschema.exceptions import ValidationError

    Faults = Iterator[ValidationError]
    Keyword = Callable[[Any, Any, Any, Any], Iterable[ValidationError] | None]


def _fault(message: str) -> "Faults":
    from jsonschema.exceptions import ValidationError

    yield ValidationError(message)


def _pattern(validator: Any, pattern: Any, instance: Any, schema: Any) -> "Faults":  # noqa: ARG001
    if isinstance(instance, str) and isinstance(pattern, str):
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
        texts = {json.dumps(item, sort_keys=True) for item in instance}
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
