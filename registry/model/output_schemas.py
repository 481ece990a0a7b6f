"""Schemas and what they promise: values against ours, and of a tool's answers what every host can compile and keeps.

A host on the SDK in TypeScript compiles each schema of an answer when it lists tools. It refuses the whole list for
one that it cannot compile, and each answer that does not fit. So only what surely compiles there is promised.
"""

import json
import re
from collections.abc import Callable, Iterator, Mapping
from typing import Any, Protocol

from waygraph.registry.model.arguments import MAX_SCHEMA_CHARS, compile_schema, is_affordable
from waygraph.registry.model.parameters import MOST_DEEP, follow_reference, subschemas


class Validator(Protocol):
    def is_valid(self, instance: Any) -> bool: ...


def validator_of(schema: Mapping[str, Any], formats: Mapping[str, Callable[[str], bool]]) -> Validator:
    """Of draft 2020-12, which looks at these formats."""
    import jsonschema_rs

    return jsonschema_rs.Draft202012Validator(dict(schema), validate_formats=True, formats=dict(formats))


def is_valid(validator: Validator, value: Any) -> bool:
    """False also for what cannot be looked at: a number that JSON does not have, or values nested too deep."""
    try:
        return validator.is_valid(value)
    except ValueError:
        return False


_REFUSED_KEYWORDS = frozenset({"id", "$id", "$async", "$anchor", "$dynamicRef", "$recursiveRef", "nullable"})
"""Keywords that ajv refuses, or reads in a way of its own."""
_PATTERN = re.compile(
    r"(?:\\[dDwWsSbBnrt^$.*+?()|/\\\[\]{}]"
    r"|\[\^?(?:\\[dDwWsSnrt^$.*+?()|/\\\[\]{}-]|[^\\\]\[])+\]"
    r"|\((?!\?)|\)|\(\?(?:[:=!]|<[=!])|\{\d{1,4}(?:,\d{0,4})?\}|[^\\\[\](){}])*+"
)
"""A pattern as all engines read it, among them those of ECMAScript with `u`."""


def compiles(schema: Mapping[str, Any]) -> bool:
    """Whether every host can compile it: of no reference to elsewhere, and no keyword of another value than agreed."""
    try:
        text = json.dumps(schema, allow_nan=False)
    except (ValueError, RecursionError):
        return False
    if len(text) > MAX_SCHEMA_CHARS or not _is_of_draft(schema):
        return False
    return all(_is_portable(part, schema) for part in _parts(schema)) and compile_schema(text)[1] is not None


def keeps(schema: Mapping[str, Any], value: object) -> bool:
    """Whether an answer is what the schema promises; what cannot be checked within bounds is not."""
    whole, validator = compile_schema(json.dumps(schema))
    if validator is None or not isinstance(value, Mapping) or not is_affordable(whole, value):
        return False
    return is_valid(validator, dict(value))


def _is_of_draft(schema: Mapping[str, Any]) -> bool:
    """Whether each keyword has a value of the kind that it takes, by draft 7's meta-schema, which has no `$defs`."""
    import jsonschema_rs

    definitions = [each for key in ("definitions", "$defs") if isinstance(each := schema.get(key, {}), Mapping)]
    by_place = {f"{place}{name}": each for place, some in enumerate(definitions) for name, each in some.items()}
    draft_7 = {"$schema": "http://json-schema.org/draft-07/schema#"}
    try:
        return jsonschema_rs.meta.is_valid({**schema, "definitions": by_place} | draft_7)
    except (ValueError, RecursionError):
        return False


def _parts(schema: Any) -> Iterator[dict[str, Any] | None]:
    """The schema and all within it; None for what is nested too deep to be looked at."""
    pending = [(schema, 0)]
    while pending:
        part, depth = pending.pop()
        if depth > MOST_DEEP:
            yield None
            return
        if isinstance(part, dict):
            yield part
            pending += [(each, depth + 1) for each in subschemas(part)]


def _is_portable(part: dict[str, Any] | None, whole: Mapping[str, Any]) -> bool:
    if part is None or not _REFUSED_KEYWORDS.isdisjoint(part):
        return False
    if part.get("enum", [None]) == []:
        return False
    if "$ref" in part and follow_reference(whole, str(part["$ref"])) is None:
        return False
    patterns = [part.get("pattern", ""), *part.get("patternProperties", ())]
    return all(_is_portable_pattern(pattern) for pattern in patterns)


def _is_portable_pattern(pattern: str) -> bool:
    try:
        re.compile(pattern)
    except (re.error, RecursionError, OverflowError):
        return False
    return _PATTERN.fullmatch(pattern) is not None
