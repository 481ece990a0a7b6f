"""A tool's schema made fit to check with: foreign, so it never makes us fetch, wait or fail.

`$ref` stays inside the document, patterns run in an engine whose time grows with the text alone, and a check ends after
so many steps, which large arguments use up as well as large schemas. What cannot be checked passes: the tool's own
server checks again.
"""

import json
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import suppress
from functools import lru_cache
from itertools import islice
from typing import TYPE_CHECKING, Any

from waygraph.registry.access.schemas.keywords import OWN
from waygraph.registry.access.schemas.steps import OutOfSteps, counted, spend
from waygraph.registry.model.identity import describes_object

if TYPE_CHECKING:
    from jsonschema.exceptions import ValidationError
    from jsonschema.protocols import Validator

    Faults = Iterator[ValidationError]
    Keyword = Callable[[Any, Any, Any, Any], Iterable[ValidationError] | None]

MAX_DEPTH = 100
"""Of arguments, and of a schema."""
MAX_SCHEMA_CHARS = 256 * 1024
"""A longer one is not checked with."""
MAX_SCHEMA_STEPS = 50_000
"""Of the check whether a schema is one: it is as foreign as what it describes. What needs more is not checked with."""
_SCHEMAS_KEPT = 256
_UNCHECKED = ("unevaluatedItems", "unevaluatedProperties", "format", "contentEncoding", "contentMediaType")
_WALKING = frozenset(
    "additionalItems additionalProperties contains items patternProperties propertyNames uniqueItems".split()
)
_REFERENCES = ("$ref", "$dynamicRef", "$recursiveRef")


def faults(schema_text: str, arguments: Mapping[str, Any], most: int) -> "list[ValidationError]":
    """The first `most` that are found before the steps end or the schema proves broken; of an unfit schema none."""
    found: list[ValidationError] = []
    validator = _validator(schema_text)
    if validator is None:
        return found
    with counted(), suppress(OutOfSteps, *_troubles()):
        for fault in islice(validator.iter_errors(dict(arguments)), most):
            found.append(fault)  # noqa: PERF402 - those found before the end count
    return found


def _troubles() -> tuple[type[Exception], ...]:
    """What a schema that is broken deep inside makes the library raise."""
    from jsonschema.exceptions import UndefinedTypeCheck, UnknownType
    from referencing.exceptions import Unresolvable

    of_library = (UndefinedTypeCheck, UnknownType, Unresolvable)
    return (RecursionError, ArithmeticError, AttributeError, LookupError, TypeError, ValueError, *of_library)


@lru_cache(maxsize=_SCHEMAS_KEPT)
def _validator(schema_text: str) -> "Validator | None":
    """None for a schema that is broken, too large, or of something else than an object."""
    schema = _usable(schema_text)
    if schema is None:
        return None
    from jsonschema.validators import Draft202012Validator, validator_for
    from referencing import Registry

    dialect = validator_for(schema, default=Draft202012Validator)
    bounded = _bounded(dialect)
    troubles: tuple[type[Exception], ...] = (OutOfSteps, *_troubles())
    try:
        with counted(MAX_SCHEMA_STEPS):
            is_broken = any(True for _ in bounded(dialect.META_SCHEMA).iter_errors(schema))
    except troubles:
        return None
    return None if is_broken else bounded(schema, registry=Registry())  # one that fetches nothing


def _usable(schema_text: str) -> dict[str, Any] | None:
    if not schema_text or len(schema_text) > MAX_SCHEMA_CHARS:
        return None
    try:
        schema = json.loads(schema_text)
    except (ValueError, RecursionError):
        return None
    if not isinstance(schema, dict) or is_too_deep(schema):
        return None
    if not isinstance(schema.get("$schema", ""), str):
        return None
    return schema if describes_object({"type": "object"} | schema) else None


def is_too_deep(value: object) -> bool:
    """Whether it is nested deeper than `MAX_DEPTH`."""
    level = [value]
    for _ in range(MAX_DEPTH):
        level = [
            inner
            for each in level
            if isinstance(each, (Mapping, list, tuple))
            for inner in (each.values() if isinstance(each, Mapping) else each)
        ]
        if not level:
            return False
    return True


@lru_cache
def _bounded(dialect: "type[Validator]") -> "Callable[..., Validator]":
    """The dialect with a step counted for each keyword, and our own keywords where the library's know no bound."""
    from jsonschema import validators

    extend: Callable[..., Any] = validators.extend  # it has no types
    keywords: dict[str, Keyword] = {
        name: _stepwise(OWN.get(name, keyword), walks=name in _WALKING)
        for name, keyword in dialect.VALIDATORS.items()
        if keyword and name not in _UNCHECKED
    }
    keywords |= {name: _unless_elsewhere(keywords[name]) for name in _REFERENCES if name in keywords}
    made: Callable[..., Validator] = extend(dialect, keywords)
    for name in _UNCHECKED:
        made.VALIDATORS.pop(name, None)  # type: ignore[attr-defined]
    _stays(made)
    return made


def _stays(made: Any) -> None:
    """A `$schema` further in, or a reference back to one, would have the library go on with its own unbounded kind."""

    def evolve(self: Any, **changes: Any) -> Any:
        held = {field.alias: getattr(self, field.name) for field in made.__attrs_attrs__ if field.init}
        return made(**{**held, **changes})

    made.evolve = evolve


def _stepwise(keyword: "Keyword", *, walks: bool) -> "Keyword":
    """`walks`: it looks at all that the instance holds, though each may cost no keyword."""

    def run(validator: Any, value: Any, instance: Any, schema: Any) -> "Faults":
        held = len(instance) // 4 if walks and isinstance(instance, (list, dict)) else 0
        spend(1 + held + (len(value) // 16 if isinstance(value, (list, dict)) else 0))
        yield from keyword(validator, value, instance, schema) or ()

    return run


def _unless_elsewhere(keyword: "Keyword") -> "Keyword":
    """A reference to what is not in the document checks nothing; what stands beside it is checked."""

    def run(validator: Any, value: Any, instance: Any, schema: Any) -> "Faults":
        from referencing.exceptions import Unresolvable

        with suppress(Unresolvable):
            yield from keyword(validator, value, instance, schema) or ()

    return run
