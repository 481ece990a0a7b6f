"""The parameters of a tool: what its input schema says of the arguments, wherever at its top it says so.

A schema may compose them: by `$ref`, `allOf`, `anyOf`, `oneOf`, `then`, `else` and `dependentSchemas`. A schema is
foreign text: it may refer to itself, and be of any size, so that the work is bounded. Hosts refuse some names of
properties: others stand for them.
"""

import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import unquote

from waygraph.registry.model.nouns import JsonText, parse_field
from waygraph.registry.model.numbers import read_digits
from waygraph.registry.model.process import remember

MOST_READ, CHARS_A_READ = 20_000, 8
"""Subschemas and properties of one composed schema that are looked at, in all and by its length: a listing may hold
very many small schemas. What is beyond them is left out."""
MOST_DEEP = 64
COMPOSING = ("$ref", "allOf", "anyOf", "oneOf", "if", "then", "else", "dependentSchemas", "not", "enum", "const")
"""Keywords at the top of a schema that some hosts refuse there."""


@dataclass(frozen=True, slots=True)
class Parameters:
    """`properties`: the schema of each by its name, in the order of the source; `required`: those always needed."""

    properties: Mapping[str, Any] = field(default_factory=dict)
    required: frozenset[str] = frozenset()


def parameters_of(schema: Any, whole: Any = None, most_read: int = MOST_READ) -> Parameters:
    """Of a schema that is a part of `whole`, to which its references lead; None: it is the whole."""
    return _Reader(schema if whole is None else whole, most_read).read(schema)


@remember
def parameters_of_text(text: JsonText) -> Parameters:
    """Of what is no schema at all none."""
    try:
        return parameters_of(parse_field(text), most_read=min(MOST_READ, 64 + len(text) // CHARS_A_READ))
    except (ValueError, RecursionError):
        return Parameters()


class _Reader:
    def __init__(self, whole: Any, most_read: int) -> None:
        self._whole, self._budget = whole, most_read

    def read(self, schema: Any, references: frozenset[str] = frozenset(), depth: int = 0) -> Parameters:
        if not isinstance(schema, dict) or depth > MOST_DEEP or self._budget <= 0:
            return Parameters()
        own = _own(schema)
        self._budget -= 1 + (len(own.properties) if depth else 0)
        return _all_of([own, *self._read_branches(schema, references, depth + 1)])

    def _read_branches(self, schema: dict[str, Any], references: frozenset[str], depth: int) -> Iterator[Parameters]:
        reference = schema.get("$ref")
        if isinstance(reference, str) and reference not in references:
            yield self.read(follow_reference(self._whole, reference), references | {reference}, depth)
        yield from (self.read(each, references, depth) for each in _list(schema.get("allOf")))
        branches = [_list(schema.get(key)) for key in ("anyOf", "oneOf")]
        branches += [[schema.get("then", {}), schema.get("else", {})]] if "then" in schema or "else" in schema else []
        dependent = schema.get("dependentSchemas")
        branches += [[each, {}] for each in dependent.values()] if isinstance(dependent, dict) else []
        for some in branches:
            alternatives = [self.read(each, references, depth) for each in some if _may_be_object(each)]
            if alternatives:
                yield _one_of(alternatives)


def _own(schema: dict[str, Any]) -> Parameters:
    properties, required_names = schema.get("properties"), schema.get("required")
    return Parameters(
        properties if isinstance(properties, dict) else {},
        frozenset(name for name in _list(required_names) if isinstance(name, str)),
    )


def _list(value: Any) -> list[Any]:
    return value if isinstance(value, list) else []


def _may_be_object(schema: Any) -> bool:
    kind = schema.get("type", "object") if isinstance(schema, dict) else "none"
    return kind == "object" or (isinstance(kind, list) and "object" in kind)


def _all_of(some: list[Parameters]) -> Parameters:
    if not any(each.properties or each.required for each in some[1:]):
        return some[0]
    properties: dict[str, Any] = {}
    for name, schemas in _by_name(some).items():
        objects = [each for each in schemas if isinstance(each, dict)]
        properties[name] = (
            {key: value for each in reversed(objects) for key, value in each.items()} if objects else schemas[0]
        )
    return Parameters(properties, frozenset().union(*(each.required for each in some)))


def _one_of(some: list[Parameters]) -> Parameters:
    properties = {name: _either(schemas) for name, schemas in _by_name(some).items()}
    return Parameters(properties, frozenset.intersection(*(each.required for each in some)))


def _by_name(some: Iterable[Parameters]) -> dict[str, list[Any]]:
    schemas_by_name: dict[str, list[Any]] = {}
    for each in some:
        for name, schema in each.properties.items():
            schemas_by_name.setdefault(name, []).append(schema)
    return schemas_by_name


def _either(schemas: list[Any]) -> Any:
    """One schema for what the alternatives say of one property: all their choices, if each names some."""
    distinct = [each for at, each in enumerate(schemas) if each not in schemas[:at]] if len(schemas) < 100 else schemas
    if len(distinct) == 1:
        return distinct[0]
    choices = [_choices(each) for each in distinct]
    if not all(choices):
        return {"anyOf": distinct}
    first = {key: value for key, value in distinct[0].items() if key not in ("const", "enum")}
    return first | {"enum": [each for some in choices for each in some]}


def _choices(schema: Any) -> list[Any]:
    if not isinstance(schema, dict):
        return []
    return [schema["const"]] if "const" in schema else _list(schema.get("enum"))


def resolve(schema: Any, whole: Any) -> Any:
    """What a schema says that only refers to another, by `$ref` or as the one of `allOf`; its own words come first."""
    references = set[str]()
    while isinstance(schema, dict):
        some = _list(schema.get("allOf"))
        reference = schema.get("$ref")
        if isinstance(reference, str) and reference not in references:
            references.add(reference)
            other = follow_reference(whole, reference)
        elif len(some) == 1 and isinstance(some[0], dict) and len(references) < MOST_DEEP:
            references.add(f"allOf {len(references)}")
            other = some[0]
        else:
            return schema
        own = {key: value for key, value in schema.items() if key not in ("$ref", "allOf")}
        schema = other | own if isinstance(other, dict) else own
    return schema


def follow_reference(schema: Any, reference: str) -> Any:
    """What a JSON pointer leads to in the document; None: nothing, or elsewhere."""
    if reference[:1] != "#":
        return None
    for step in unquote(reference[1:]).split("/")[1:]:
        name = step.replace("~1", "/").replace("~0", "~")
        key = read_digits(name) if isinstance(schema, list) else name
        schema = None if key is None else at(schema, [key])
    return schema


def at(schema: Any, path: Iterable[str | int]) -> Any:
    """What is at that path; None: nothing."""
    for step in path:
        try:
            schema = schema[step]
        except (LookupError, TypeError):
            return None
    return schema


MOST_NAME_CHARS = 64
_ILLEGAL = re.compile(r"[^a-zA-Z0-9_.-]+")
_MAPS = ("properties", "patternProperties", "dependentSchemas", "$defs", "definitions")
_ONE = ("items", "additionalProperties", "additionalItems", "contains", "not", "if", "then", "else", "propertyNames")
_SOME = ("anyOf", "oneOf", "allOf", "prefixItems", "items")


@remember
def host_names(text: JsonText) -> Mapping[str, str]:
    """Of the properties anywhere in a schema those that hosts refuse, each with the name that stands for it.

    The Messages API of Anthropic takes letters of ASCII, digits, `_`, `.` and `-`, 1 to 64 of them.
    """
    names = dict.fromkeys(_names_in(parse_field(text)))
    names_in_use = {name for name in names if _is_legal(name)}
    new_names: dict[str, str] = {}
    candidates: dict[str, Iterator[str]] = {}
    for name in (each for each in names if not _is_legal(each)):
        bare = _ILLEGAL.sub("_", name).strip("_")[:MOST_NAME_CHARS] or "_"
        some = candidates.setdefault(bare, _candidates(bare))
        new_names[name] = next(each for each in some if each not in names_in_use)
        names_in_use.add(new_names[name])
    return new_names


def _is_legal(name: str) -> bool:
    return 0 < len(name) <= MOST_NAME_CHARS and not _ILLEGAL.search(name)


def _candidates(name: str) -> Iterator[str]:
    yield name
    number = 2
    while True:
        yield f"{name[: MOST_NAME_CHARS - len(str(number)) - 1]}_{number}"
        number += 1


def _names_in(schema: Any) -> Iterator[str]:
    pending = [schema]
    while pending:
        part = pending.pop()
        if isinstance(part, dict):
            own = part.get("properties")
            yield from own if isinstance(own, dict) else ()
            pending += subschemas(part)


def subschemas(schema: dict[str, Any]) -> Iterator[Any]:
    """Those that stand in it, by whatever keyword."""
    for key in (*_MAPS, *_ONE, *_SOME):
        inner = schema.get(key)
        if key in _MAPS and isinstance(inner, dict):
            yield from inner.values()
        elif key in _ONE and isinstance(inner, dict):
            yield inner
        elif key in _SOME and isinstance(inner, list):
            yield from inner


def rename_properties(schema: Any, names: Mapping[str, str], depth: int = 0) -> Any:
    """The schema with these names of properties, at every level down to MOST_DEEP."""
    if not isinstance(schema, dict) or not names or depth > MOST_DEEP:
        return schema

    def inner(value: Any) -> Any:
        return rename_properties(value, names, depth + 1)

    result = dict(schema)
    for key, value in schema.items():
        if key in _MAPS and isinstance(value, dict):
            mapping = names if key in ("properties", "dependentSchemas") else {}
            result[key] = {mapping.get(name, name): inner(each) for name, each in value.items()}
        elif key in _SOME and isinstance(value, list):
            result[key] = [inner(each) for each in value]
        elif key in _ONE:
            result[key] = inner(value)
        elif key == "required" and isinstance(value, list):
            result[key] = _rename_in_list(value, names)
        elif key == "dependentRequired" and isinstance(value, dict):
            result[key] = {names.get(name, name): _rename_in_list(some, names) for name, some in value.items()}
        elif key == "$ref" and isinstance(value, str):
            result[key] = _rename_reference(value, names)
    return result


def _rename_in_list(some: Any, names: Mapping[str, str]) -> Any:
    return [names.get(name, name) if isinstance(name, str) else name for name in some] if _list(some) else some


def _rename_reference(reference: str, names: Mapping[str, str]) -> str:
    steps = reference.split("/")
    for place, step in enumerate(steps[1:], start=1):
        name = unquote(step).replace("~1", "/").replace("~0", "~")
        steps[place] = names.get(name, step) if steps[place - 1] == "properties" else step
    return "/".join(steps)


def original_arguments(text: JsonText, arguments: Mapping[str, Any]) -> Mapping[str, Any]:
    """The arguments by the names of the schema, where a host was told others; what is named so already stays."""
    if not arguments or not (names := host_names(text)):
        return arguments
    whole = parse_field(text)
    originals: Mapping[str, Any] = _Restorer(whole, names).restore(arguments, whole)
    return originals


class _Restorer:
    """Of arguments whose schema has these names for properties that hosts refuse. It reads each subschema once."""

    def __init__(self, whole: Any, names: Mapping[str, str]) -> None:
        self._whole, self._names = whole, names
        self._read: dict[int, tuple[Any, Mapping[str, Any], Mapping[str, str]]] = {}

    def restore(self, value: Any, schema: Any, depth: int = 0) -> Any:
        if depth > MOST_DEEP or not isinstance(schema, dict):
            return value
        if isinstance(value, list):
            items = items_of(schema, self._whole)
            return [self.restore(each, items, depth + 1) for each in value]
        if not isinstance(value, Mapping):
            return value
        properties, originals = self._names_at(schema)
        by_name = {key if key in properties else originals.get(key, key): each for key, each in value.items()}
        return {key: self.restore(each, properties.get(key), depth + 1) for key, each in by_name.items()}

    def _names_at(self, schema: dict[str, Any]) -> tuple[Mapping[str, Any], Mapping[str, str]]:
        if id(schema) not in self._read:
            properties = parameters_of(schema, self._whole).properties
            originals = {self._names[name]: name for name in properties if name in self._names}
            self._read[id(schema)] = (schema, properties, originals)  # kept, so that its id is no other's
        return self._read[id(schema)][1:]


def items_of(schema: Any, whole: Any) -> Any:
    target = resolve(schema, whole)
    if not isinstance(target, dict):
        return None
    some = [target, *(resolve(each, whole) for key in ("anyOf", "oneOf") for each in _list(target.get(key)))]
    return next((each["items"] for each in some if isinstance(each, dict) and "items" in each), None)


def lay_flat(schema: dict[str, Any]) -> dict[str, Any]:
    """An object of all the parameters, without what composes them at the top; what refers elsewhere stays."""
    if not any(key in schema for key in COMPOSING):
        return schema
    flat = {key: value for key, value in schema.items() if key not in (*COMPOSING, *_CLOSING)}
    parameters = parameters_of(schema)
    flat["properties"] = dict(parameters.properties)
    if parameters.required:
        flat["required"] = [name for name in parameters.properties if name in parameters.required]
    return flat


_CLOSING = ("additionalProperties", "unevaluatedProperties", "required")
"""What of a composed schema speaks of the properties at its top alone."""
