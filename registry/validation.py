"""What pydantic found wrong with an input, in the words of everything else here: what is expected, and no jargon."""

from collections.abc import Mapping
from typing import Any

_TEXT, _WHOLE, _NUMBER, _OBJECT, _LIST = "a text", "a whole number", "a number", "an object", "a list"
_EXPECTED: Mapping[str, str] = {
    "string_type": _TEXT,
    "int_type": _WHOLE,
    "int_parsing": _WHOLE,
    "int_from_float": _WHOLE,
    "float_type": _NUMBER,
    "float_parsing": _NUMBER,
    "finite_number": "a finite number",
    "bool_type": "true or false",
    "bool_parsing": "true or false",
    "none_required": "null",
    "list_type": _LIST,
    "tuple_type": _LIST,
    "dict_type": _OBJECT,
    "mapping_type": _OBJECT,
    "model_type": _OBJECT,
    "model_attributes_type": _OBJECT,
    "dataclass_type": _OBJECT,
    "literal_error": "{expected}",
    "enum": "{expected}",
    "greater_than": "a number above {gt}",
    "greater_than_equal": "a number from {ge}",
    "less_than": "a number below {lt}",
    "less_than_equal": "a number up to {le}",
    "too_short": "{min_length} or more entries",
    "too_long": "{max_length} or fewer entries",
    "string_too_short": "a text of {min_length} or more characters",
    "string_too_long": "a text of {max_length} or fewer characters",
    "string_pattern_mismatch": "a text that matches {pattern}",
}
"""By the type of an error, https://docs.pydantic.dev/latest/errors/validation_errors/."""
_OTHERS: Mapping[str, str] = {"missing": "is missing", "extra_forbidden": "is not known", "value_error": "{error}"}


def reason_of(fault: Mapping[str, Any]) -> str:
    """Of one of the errors that a ValidationError or a RequestValidationError tells."""
    kind, facts = fault["type"], fault.get("ctx") or {}
    if kind in _OTHERS:
        return _filled(_OTHERS[kind], facts) or fault["msg"]
    said = _filled(_EXPECTED.get(kind, ""), facts)
    return f"expected {said}" if said else fault["msg"]


def _filled(words: str, facts: Mapping[str, Any]) -> str:
    """Empty where the facts are left out."""
    try:
        return words.format_map(
            {name: f"{fact:g}" if isinstance(fact, float) else fact for name, fact in facts.items()}
        )
    except KeyError:
        return ""
