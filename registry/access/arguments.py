"""Arguments of a call against the tool's own schema, before anything is sent: a mistake is told with its place."""

import json
from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Any

from waygraph.registry.access.schemas.bounded import MAX_DEPTH, faults, is_too_deep
from waygraph.registry.access.schemas.keywords import OWN
from waygraph.registry.access.schemas.plain import plainly_fits
from waygraph.registry.access.schemas.words import TOLD_CHARS, expected, kind, kinds
from waygraph.registry.model.errors import InvalidArguments
from waygraph.registry.model.nouns import Tool

if TYPE_CHECKING:
    from jsonschema.exceptions import ValidationError

FAULTS_TOLD = 8
_READ = 4 * FAULTS_TOLD
_ALTERNATIVES_DEEP = 4


def check_arguments(tool: Tool, arguments: object) -> None:
    """Raises InvalidArguments, with a JSON pointer and what was expected for each fault, and nothing else.

    Values are not repeated: they may be secret, and errors are logged. What its schema leaves uncheckable passes.
    """
    if not isinstance(arguments, Mapping):
        raise InvalidArguments(tool.call_name, [("", f"expected an object, not {kind(arguments)}")])
    if plainly_fits(tool.input_schema, arguments):
        return
    if fault := _not_json(arguments):
        raise InvalidArguments(tool.call_name, [("", fault)])
    found = {place for fault in faults(tool.input_schema, arguments, _READ) for place in _told(fault)}
    if found:
        raise InvalidArguments(tool.call_name, sorted(found)[:FAULTS_TOLD])


def _not_json(arguments: Mapping[str, Any]) -> str:
    """What no JSON text can hold; empty: nothing."""
    if is_too_deep(arguments):
        return f"values are nested deeper than {MAX_DEPTH} levels"
    try:
        json.dumps(arguments, allow_nan=False)
    except (TypeError, ValueError, RecursionError):
        return "holds a value that JSON does not have"
    return ""


def _told(error: "ValidationError", depth: int = 0) -> Iterator[tuple[str, str]]:
    """The places of a fault and what was expected there; of alternatives, what the nearest one wants."""
    place = "".join(f"/{_escaped(step)}" for step in error.absolute_path)
    keyword, value = str(error.validator), error.validator_value
    if keyword in OWN:
        yield place, error.message
    elif keyword in ("anyOf", "oneOf") and error.context and depth < _ALTERNATIVES_DEEP:
        yield from _of_alternatives(place, error, depth)
    else:
        yield place, expected(keyword, value, error.instance)


def _of_alternatives(place: str, error: "ValidationError", depth: int) -> Iterator[tuple[str, str]]:
    wanted = [each.validator_value for each in error.context if each.validator == "type" and not each.relative_path]
    if len(wanted) == len(error.context):
        yield place, f"expected {' or '.join(dict.fromkeys(map(kinds, wanted)))}, not {kind(error.instance)}"
        return
    nearest = max(error.context, key=lambda each: (len(each.relative_path), each.validator != "type"))
    yield from _told(nearest, depth + 1)


def _escaped(step: object) -> str:
    """RFC 6901, a long name cut."""
    return str(step)[:TOLD_CHARS].replace("~", "~0").replace("/", "~1")
