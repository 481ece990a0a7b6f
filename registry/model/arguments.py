"""The arguments of a call, checked against the tool's own JSON Schema before anything is sent.

A schema is foreign text. It must not make us fetch, wait, crash or fail, so what cannot be checked within the limits
below passes: the tool's own server checks again.
"""

import json
import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from functools import lru_cache
from itertools import cycle, islice
from typing import TYPE_CHECKING, Any

from waygraph.registry.model.errors import InvalidArguments, nearest
from waygraph.registry.model.identity import describes_object
from waygraph.registry.model.nouns import Tool, parse_field
from waygraph.registry.model.parameters import (
    at,
    follow_reference,
    items_of,
    parameters_of,
    parameters_of_text,
    resolve,
    subschemas,
)

if TYPE_CHECKING:
    from jsonschema_rs import ValidationError, Validator

MAX_FAULTS = 8
"""The most that one error names."""
MAX_DEPTH = 100
"""Of arguments, and of a schema."""
MAX_SCHEMA_CHARS = 256 * 1024
MAX_STEPS = 10_000
"""Pairs of a subschema and a value that one check may look at."""
_MAX_STEPS_DEEP = 500
"""The validator recurses on the stack of its thread: 20,000 levels end the process."""
_CHARS_A_STEP = 4
"""Of a text that a pattern is matched against: some 40 µs each with the heaviest pattern."""
_ITEMS_A_STEP = 4
_MAX_PATTERN_BYTES, _MAX_PATTERNS_BYTES = 128 * 1024, 2 * 1024 * 1024
"""Of one compiled pattern, and of all in a schema."""
_MAX_BROKEN_PATTERNS = 8
_SCHEMAS_KEPT = 64
_MAX_CHARS = 120
"""Of a name or a value of the schema, in an error."""
_MAX_LISTED = 12
_ALTERNATIVES_DEEP = 4
_MAX_PARTS_INSIDE = 50
"""Of one property: so many subschemas are looked through for a name."""
_NAMES = re.compile(r'"(?:\$?id|\$anchor|\$dynamicAnchor|\$recursiveAnchor)": [^{]')
"""In a schema's text: what gives a part of it a name that a reference may use."""


def check_arguments(tool: Tool, arguments: object) -> None:
    """Raises InvalidArguments, with a JSON pointer and what is expected there for each fault, and nothing else.

    Values are not repeated: they may be secret, and errors are logged.
    """
    if not isinstance(arguments, Mapping):
        raise InvalidArguments(tool.call_name, [("", f"expected an object, not {json_kind(arguments)}")])
    if fault := _json_fault(arguments):
        raise InvalidArguments(tool.call_name, [("", fault)])
    schema, validator = compile_schema(tool.input_schema, lenient=True)
    if validator is None or not is_affordable(schema, arguments):
        return
    errors = islice(validator.iter_errors(dict(arguments)), 4 * MAX_FAULTS)
    if faults := {fault for error in errors for fault in _describe(error, _Check(schema, arguments))}:
        raise InvalidArguments(tool.call_name, sorted(faults)[:MAX_FAULTS])


type Mending = tuple[str, str, str]
"""A place in the arguments (a JSON pointer), the type of what was given there, and of what is sent."""
NOTHING = "nothing"


def mend_arguments(tool: Tool, arguments: Mapping[str, Any]) -> tuple[Mapping[str, Any], tuple[Mending, ...]]:
    """The arguments with each value of a wrong type read as the one type that the schema leaves it, and what changed.

    A text is read as JSON and a number as a text, where the schema takes the one and not the other. Null is left out
    where it is not taken and nothing is required.
    """
    schema, _ = compile_schema(tool.input_schema, lenient=True)
    if schema is None or not isinstance(arguments, Mapping) or _is_too_deep(arguments):
        return arguments, ()
    mender = _Mender(schema)
    return mender.mend(arguments, schema, ""), tuple(mender.changes)


def types_of(tool: Tool, name: str) -> frozenset[str]:
    """The types that a parameter takes, by JSON Schema's names; none: the schema does not say."""
    schema = parse_field(tool.input_schema)
    return _Mender(schema).kinds(parameters_of(schema).properties.get(name))


def fits(tool: Tool, arguments: Mapping[str, Any]) -> bool:
    """Whether the tool knows each of these arguments, and takes them as they are meant."""
    if not arguments or not arguments.keys() <= parameters_of_text(tool.input_schema).properties.keys():
        return False
    try:
        check_arguments(tool, mend_arguments(tool, arguments)[0])
    except InvalidArguments:
        return False
    return True


class _Mender:
    def __init__(self, whole: Any) -> None:
        self._whole = whole
        self.changes: list[Mending] = []

    def mend(self, value: Any, schema: Any, place: str) -> Any:
        kinds = self.kinds(schema)
        if kinds and json_kind(value) not in kinds and (reading := _read_as(kinds, value)) is not value:
            self.changes.append((place, json_kind(value), json_kind(reading)))
            value = reading
        if isinstance(value, list) and value:
            items = items_of(schema, self._whole)
            return [self.mend(each, items, f"{place}/{at}") for at, each in enumerate(value)]
        if not isinstance(value, Mapping) or not value:
            return value
        parameters = parameters_of(schema, self._whole)
        values = {}
        for name, each in value.items():
            inner, inner_place = parameters.properties.get(name), f"{place}/{_escape(name)}"
            if each is None and name not in parameters.required and "null" not in (self.kinds(inner) or {"null"}):
                self.changes.append((inner_place, "null", NOTHING))
            else:
                values[name] = self.mend(each, inner, inner_place)
        return values

    def kinds(self, schema: Any, depth: int = 0) -> frozenset[str]:
        """The types that it takes; none: it does not say."""
        part = resolve(schema, self._whole)
        if not isinstance(part, dict) or depth > _ALTERNATIVES_DEEP:
            return frozenset()
        if types := part.get("type"):
            kinds = frozenset(map(str, types if isinstance(types, list) else [types]))
        elif values := part.get("enum") or [part[key] for key in ("const",) if key in part]:
            kinds = frozenset(map(json_kind, values))
        elif alternatives := part.get("anyOf") or part.get("oneOf"):
            each_kinds = [self.kinds(each, depth + 1) for each in alternatives]
            kinds = frozenset().union(*each_kinds) if all(each_kinds) else frozenset()
        elif all_kinds := [own for each in part.get("allOf", ()) if (own := self.kinds(each, depth + 1))]:
            kinds = frozenset.intersection(*all_kinds)
        else:
            kinds = frozenset({"object"} if "properties" in part else {"array"} if "items" in part else ())
        return kinds | ({"integer"} if "number" in kinds else set()) | ({"null"} if part.get("nullable") else set())


def _read_as(kinds: frozenset[str], value: Any) -> Any:
    """The value as one of these types; the same object if it is plainly none of them."""
    if isinstance(value, (bool, int, float)) and "string" in kinds:
        return json.dumps(value)
    if not isinstance(value, str):
        return value
    try:
        reading = json.loads(value.lower() if value.strip() in ("True", "False") else value)
    except (ValueError, RecursionError):
        return value
    if isinstance(reading, float) and reading.is_integer() and "number" not in kinds:
        reading = int(reading)
    return reading if json_kind(reading) in kinds else value


def unknown_name(name: str, properties: Iterable[str]) -> str:
    """What an error says of a property that the schema does not have."""
    if not (names := list(properties)):
        return "is not taken: this object is empty"
    near = nearest(name, names)
    return f"is not known; known: {_list_values(names)}" + (f"; did you mean {_short(near[0])}?" if near else "")


def json_kind(value: object) -> str:
    """JSON's name of what it is."""
    return next((name for types, name in _KINDS if isinstance(value, types)), "a value that JSON does not have")


_KINDS: tuple[tuple[type | tuple[type, ...], str], ...] = (
    (type(None), "null"),
    (bool, "boolean"),
    (str, "string"),
    (int, "integer"),
    (float, "number"),
    (Mapping, "object"),
    ((list, tuple), "array"),
)


def _json_fault(arguments: Mapping[str, Any]) -> str:
    """What no JSON text in UTF-8 can hold; empty: nothing."""
    if _is_too_deep(arguments):
        return f"values are nested deeper than {MAX_DEPTH} levels"
    try:
        json.dumps(arguments, allow_nan=False, ensure_ascii=False).encode()
    except (TypeError, ValueError, RecursionError):
        return "holds a value that JSON does not have"
    return ""


def _is_too_deep(value: object) -> bool:
    level = [value]
    for _ in range(MAX_DEPTH):
        level = [inner for each in level for inner in _inner(each)]
        if not level:
            return False
    return True


def _inner(value: object) -> Iterable[Any]:
    if isinstance(value, Mapping):
        return value.values()
    return value if isinstance(value, (list, tuple)) else ()


# -- schemas ---------------------------------------------------------------------------------------


@lru_cache(maxsize=_SCHEMAS_KEPT)
def compile_schema(schema_text: str, *, lenient: bool = False) -> "tuple[Any, Validator | None]":
    """The schema, and its validator; None for a schema that is broken, too large, or not of an object.

    `lenient`: `oneOf` counts as `anyOf`. Services rarely count how many alternatives fit, and many of theirs overlap.
    """
    import jsonschema_rs

    schema = _read_schema(schema_text.replace("/oneOf/", "/anyOf/") if lenient else schema_text)
    if lenient and schema:
        _replace_one_of(schema)
    pattern_bytes = min(_MAX_PATTERN_BYTES, _MAX_PATTERNS_BYTES // (1 + schema_text.count('"pattern')))
    patterns = jsonschema_rs.RegexOptions(size_limit=pattern_bytes, dfa_size_limit=2 * pattern_bytes)
    for _ in range(_MAX_BROKEN_PATTERNS if schema else 0):
        try:
            # What is referred to outside the document may be anything, and is not fetched.
            return schema, jsonschema_rs.validator_for(
                schema, validate_formats=False, pattern_options=patterns, retriever=lambda _uri: True
            )
        except jsonschema_rs.ValidationError as exc:
            # A pattern that is broken, too heavy, or of another engine is taken out.
            holder = at(schema, exc.instance_path[:-1])
            is_pattern = exc.kind.name == "format" and exc.instance_path[-1] == "pattern"
            if not (is_pattern and isinstance(holder, dict)) or holder.pop("pattern", None) is None:
                break
        except (ValueError, jsonschema_rs.ReferencingError):
            break
    return None, None


def _read_schema(schema_text: str) -> Any:
    """None: not to be checked with."""
    try:
        schema = json.loads(schema_text) if len(schema_text) <= MAX_SCHEMA_CHARS else None
    except (ValueError, RecursionError):
        return None
    if not isinstance(schema, dict) or _is_too_deep(schema) or not describes_object({"type": "object"} | schema):
        return None
    # Whether a reference may lead elsewhere than its pointer says, so that no cost can be told beforehand.
    own = isinstance(schema.get("$id", schema.get("id")), str)
    return None if '"$ref"' in schema_text and len(_NAMES.findall(json.dumps(schema))) > own else schema


def _replace_one_of(schema: dict[str, Any]) -> None:
    """Turns each `oneOf` into `anyOf`, except where more fits would mean that less is taken."""
    pending: list[Any] = [schema]
    while pending:
        part = pending.pop()
        if not isinstance(part, dict):
            continue
        if "oneOf" in part:
            any_of = {"anyOf": part.pop("oneOf")}
            part |= {"allOf": [*_parts(part, "allOf"), any_of]} if "anyOf" in part else any_of
        pending += subschemas({key: each for key, each in part.items() if key not in ("not", "if")})


# -- what a check costs ----------------------------------------------------------------------------

_SAME_VALUE = ("allOf", "anyOf", "oneOf", "not", "if", "then", "else", "dependentSchemas", "dependencies")
_EACH_VALUE = (
    "additionalItems additionalProperties contains items patternProperties prefixItems propertyNames "
    "unevaluatedItems unevaluatedProperties"
).split()


def is_affordable(schema: Any, arguments: Mapping[str, Any]) -> bool:
    """Whether a check looks at few enough pairs of a subschema and a value, even if it never stops early.

    The validator has no limit of its own: alternatives that refer to alternatives take it years.
    """
    steps = 0
    pending: list[tuple[Any, Any, frozenset[str], int]] = [(schema, arguments, frozenset(), 0)]
    while pending:
        part, value, references, depth = pending.pop()
        if not isinstance(part, dict):
            continue
        steps += 1 + _steps(part, value)
        if steps > MAX_STEPS or depth > _MAX_STEPS_DEEP or "$dynamicRef" in part or "$recursiveRef" in part:
            return False
        if isinstance(name := part.get("$ref"), str) and name not in references:
            if name[:1] != "#" and ("$id" in schema or "id" in schema):
                return False
            pending.append((follow_reference(schema, name), value, references | {name}, depth + 1))
        pending += [(each, value, references, depth + 1) for key in _SAME_VALUE for each in _parts(part, key)]
        pending += [(each, inner, frozenset(), depth + 1) for each, inner in _inner_pairs(part, value)]
    return True


def _steps(part: dict[str, Any], value: Any) -> int:
    """What the keywords of one subschema cost that do not apply another one."""
    if isinstance(value, str):
        return len(value) // _CHARS_A_STEP if "pattern" in part else 0
    walks = "uniqueItems" in part or any(key in part for key in _EACH_VALUE)
    items = len(value) // _ITEMS_A_STEP if walks and isinstance(value, (Mapping, list, tuple)) else 0
    return items + len(part.get("enum", ())) // 16


def _inner_pairs(part: dict[str, Any], value: Any) -> Iterator[tuple[Any, Any]]:
    """The subschemas for what the value holds, each with what it is applied to."""
    if isinstance(value, Mapping):
        properties = part.get("properties", {})
        yield from ((properties[name], each) for name, each in value.items() if name in properties)
        names = [inner for inner in _parts(part, "propertyNames") for _ in value]
        names += [{"pattern": pattern} for pattern in part.get("patternProperties", ()) for _ in value]
        yield from zip(names, cycle(value), strict=False)
    for key in _EACH_VALUE:
        yield from ((inner, each) for inner in _parts(part, key) for each in _inner(value))


def _parts(part: dict[str, Any], key: str) -> Iterable[Any]:
    """The subschemas of a keyword that takes one, or several in a list or by name."""
    subschema = part.get(key)
    if key in ("dependentSchemas", "dependencies", "patternProperties"):
        return subschema.values() if isinstance(subschema, dict) else ()
    if isinstance(subschema, dict):
        return (subschema,)
    return subschema if isinstance(subschema, list) else ()


# -- what is wrong ---------------------------------------------------------------------------------

_LIMITS = {
    "const": "must be", "pattern": "must match the pattern", "minimum": "must be at least",
    "maximum": "must be at most", "exclusiveMinimum": "must be more than", "exclusiveMaximum": "must be less than",
    "multipleOf": "must be a multiple of", "minLength": "characters needed, at least:",
    "maxLength": "characters allowed, at most:", "minItems": "items needed, at least:",
    "maxItems": "items allowed, at most:", "minProperties": "properties needed, at least:",
    "maxProperties": "properties allowed, at most:",
}  # fmt: skip
_OTHERS = {
    "oneOf": "must fit exactly one of the alternatives", "anyOf": "fits none of the alternatives",
    "not": "is what the schema excludes", "contains": "no item is of the kind that must be among them",
    "uniqueItems": "must not hold the same item twice", "falseSchema": "is not taken",
}  # fmt: skip


@dataclass(frozen=True, slots=True)
class _Check:
    schema: Any
    arguments: Mapping[str, Any]


def _describe(error: "ValidationError", check: _Check, depth: int = 0) -> Iterator[tuple[str, str]]:
    """The places of one error and what is expected at each; of alternatives, what the nearest one expects."""
    place = "".join(f"/{_escape(step)}" for step in error.instance_path)
    holder = at(check.schema, error.schema_path[:-1])
    properties = holder.get("properties", {}) if isinstance(holder, dict) else {}
    facts: Any = error.kind.as_dict()
    match error.kind.name:
        case "required":
            kind = at(properties, [facts["property"], "type"])
            yield f"{place}/{_escape(facts['property'])}", "is required" + (f" ({_kinds(kind)})" if kind else "")
            yield from _names_beside(place, holder, facts["property"], error.instance, check)
        case "additionalProperties" | "unevaluatedProperties":
            for name in facts["unexpected"]:
                by_pattern = not properties and "patternProperties" in (holder or ())
                text = "is not taken" if by_pattern else _unknown(name, properties, error, check)
                yield f"{place}/{_escape(name)}", text
        case "propertyNames":
            yield from ((place, expectation) for _, expectation in _describe(facts["error"], check, depth))
        case "anyOf" | "oneOf" if any(facts["context"]) and depth < _ALTERNATIVES_DEEP:
            errors = [each for alternative in facts["context"] for each in alternative]
            yield from _describe_alternatives(place, errors, check, depth)
        case "falseSchema" if error.schema_path[-1:] == ["additionalProperties"]:  # at the object, of all its names
            names = list(at(check.arguments, error.instance_path) or ())
            yield from ((f"{place}/{_escape(name)}", _unknown(name, properties, error, check)) for name in names)
        case keyword:
            yield place, _expectation(keyword, next(iter(facts.values()), None), error.instance)


def _names_beside(place: str, holder: Any, missing: str, instance: Any, check: _Check) -> Iterator[tuple[str, str]]:
    """Names that the schema does not have, though it lets them pass: one may have been meant for what is missing."""
    limits = {"patternProperties", "additionalProperties", "unevaluatedProperties"}
    if not isinstance(holder, dict) or any(holder.get(key) not in (None, True) for key in limits):
        return  # such names are meant, or are told anyway
    properties = parameters_of(holder, check.schema).properties
    unknown = [name for name in instance if name not in properties] if properties else []
    for name in unknown:
        text = unknown_name(name, properties)
        if len(unknown) == 1 and "did you mean" not in text:
            text += f"; did you mean {_short(missing)}?"
        yield f"{place}/{_escape(name)}", text


def _unknown(name: str, properties: Mapping[str, Any], error: "ValidationError", check: _Check) -> str:
    """What is said of a property that is not known, with where its value belongs: an object further in or out."""
    value = at(check.arguments, [*error.instance_path, name])
    if isinstance(value, Mapping) and any(inner in properties for inner in value):
        fields = _list_values(inner for inner in value if inner in properties)
        return f"is not known; give what is in it by itself, without {_short(name)} around it: {fields}"
    text = unknown_name(name, properties)
    if "did you mean" in text:
        return text
    inside = [outer for outer, part in properties.items() if name in _names_inside(check.schema, part)]
    if not inside and len(free := [outer for outer, part in properties.items() if _is_free(part)]) == 1:
        inside = free
    if not inside:
        return text
    return f"{text}; put it into {_short(inside[0])}: {{{_short(inside[0])}: {{{_short(name)}: …}}}}"


def _names_inside(schema: Any, part: Any) -> set[str]:
    """The properties of an object that a subschema describes, those of its alternatives among them."""
    names: set[str] = set()
    pending, budget = [part], _MAX_PARTS_INSIDE
    while pending and budget:
        inner, budget = pending.pop(), budget - 1
        if isinstance(inner, dict):
            names |= set(inner["properties"]) if isinstance(inner.get("properties"), dict) else set()
            pending += [each for key in ("allOf", "anyOf", "oneOf") for each in _parts(inner, key)]
            pending += [follow_reference(schema, inner["$ref"])] if isinstance(inner.get("$ref"), str) else []
    return names


def _is_free(part: Any) -> bool:
    """Whether any object fits, so that nothing says what its values are."""
    if not isinstance(part, dict) or {"properties", "$ref", "allOf", "anyOf", "oneOf", "enum", "const"} & part.keys():
        return False
    return part.get("type", "object") == "object" and part.get("additionalProperties", True) in (True, {})


def _describe_alternatives(
    place: str, errors: "list[ValidationError]", check: _Check, depth: int
) -> Iterator[tuple[str, str]]:
    outermost = min(len(each.instance_path) for each in errors)
    kinds = [each.kind.as_dict()["types"] for each in errors if each.kind.name == "type"]
    if len(kinds) == len(errors) and all(len(each.instance_path) == outermost for each in errors):
        types = " or ".join(dict.fromkeys(map(_kinds, kinds)))
        yield place, f"expected {types}, not {json_kind(errors[0].instance)}"
        return
    nearest_one = max(errors, key=lambda each: (len(each.instance_path), each.kind.name != "type"))
    yield from _describe(nearest_one, check, depth + 1)


def _expectation(keyword: str, value: Any, instance: Any) -> str:
    if keyword == "type":
        return f"expected {_kinds(value)}, not {json_kind(instance)}"
    if keyword == "enum":
        return f"must be one of {_list_values(value)}"
    if limit := _LIMITS.get(keyword):
        return f"{limit} {_short(value)}"
    return _OTHERS.get(keyword) or f"does not fit `{keyword}` of the schema"


def _kinds(types: Any) -> str:
    """Types of JSON Schema, `null` last."""
    kinds = sorted(map(str, types), key=lambda kind: (kind == "null", kind)) if isinstance(types, list) else [types]
    return " or ".join(str(kind)[:_MAX_CHARS] for kind in kinds)


def _escape(step: object) -> str:
    """RFC 6901, a long name cut."""
    return str(step)[:_MAX_CHARS].replace("~", "~0").replace("/", "~1")


def _list_values(values: Iterable[Any]) -> str:
    texts = [_short(value) for value in islice(values, _MAX_LISTED + 1)]
    return ", ".join([*texts[:_MAX_LISTED], "…"] if len(texts) > _MAX_LISTED else texts)


def _short(value: object) -> str:
    text = json.dumps(value, ensure_ascii=False, default=str)
    return text if len(text) <= _MAX_CHARS else text[: _MAX_CHARS - 1] + "…"
