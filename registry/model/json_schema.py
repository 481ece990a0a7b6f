"""Values against JSON Schemas that are ours, and schemas of others against the meta-schema. Nothing is fetched."""

from collections.abc import Callable, Mapping
from typing import Any, Protocol


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


def fits_draft_7(schema: Mapping[str, Any]) -> bool:
    """Whether each keyword of draft 7 has a value of the kind that it takes."""
    import jsonschema_rs

    try:
        return jsonschema_rs.meta.is_valid({**schema, "$schema": "http://json-schema.org/draft-07/schema#"})
    except (ValueError, RecursionError):
        return False
