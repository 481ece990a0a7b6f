"""The parameters of a tool: what its input schema says of the arguments, wherever at its top it says so.

A schema may compose them: by `$ref`, `allOf`, `anyOf`, `oneOf`, `then`, `else` and `dependentSchemas`. A schema is
foreign text: it may refer to itself, and be of any size, so that the work is bounded.
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
        self._whole, self._left = whole, most_read

    def read(self, schema: Any, followed: frozenset[str] = frozenset(), depth: int = 0) -> Parameters:
        if not isinstance(schema, dict) or depth > MOST_DEEP or self._left <= 0:
            return Parameters()
        own = _own(schema)
        self._left -= 1 + (len(own.properties) if depth else 0)
        return _all_of([own, *self._read_branches(schema, followed, depth + 1)])

    def _read_branches(self, schema: dict[str, Any], followed: frozenset[str], depth: int) -> Iterator[Parameters]:
        reference = schema.get("$ref")
        if isinstance(reference, str) and reference not in followed:
            yield self.read(follow_reference(self._whole, reference), followed | {reference}, depth)
        yield from (self.read(each, followed, depth) for each in _list(schema.get("allOf")))
        branches = [_list(schema.get(key)) for key in ("anyOf", "oneOf")]
        branches += [[schema.get("then", {}), schema.get("else", {})]] if "then" in schema or "else" in schema else []
        dependent = schema.get("dependentSchemas")
        branches += [[each, {}] for each in dependent.values()] if isinstance(dependent, dict) else []
        for some in branches:
            told = [self.read(each, followed, depth) for each in some if _may_be_object(each)]
            if told:
                yield _one_of(told)


def _own(schema: dict[str, Any]) -> Parameters:
    properties, required = schema.get("properties"), schema.get("required")
    return Parameters(
        properties if isinstance(properties, dict) else {},
        frozenset(name for name in _list(required) if isinstance(name, str)),
    )


def _list(value: Any) -> list[Any]:
    return value if isinstance(value, list) else []


def _may_be_object(schema: Any) -> bool:
    kind = schema.get("type", "object") if isinstance(schema, dict) else "none"
    return kind == "object" or (isinstance(kind, list) and "object" in kind)


def _all_of(some: list[Parameters]) -> Parameters:
    if not any(each.properties or each.required for each in some[1:]):
        return some[0]
    merged: dict[str, Any] = {}
    for name, schemas in _by_name(some).items():
        said = [each for each in schemas if isinstance(each, dict)]
        merged[name] = {key: value for each in reversed(said) for key, value in each.items()} if said else schemas[0]
    return Parameters(merged, frozenset().union(*(each.required for each in some)))


def _one_of(some: list[Parameters]) -> Parameters:
    merged = {name: _either(schemas) for name, schemas in _by_name(some).items()}
    return Parameters(merged, frozenset.intersection(*(each.required for each in some)))


def _by_name(some: Iterable[Parameters]) -> dict[str, list[Any]]:
    found: dict[str, list[Any]] = {}
    for each in some:
        for name, schema in each.properties.items():
            found.setdefault(name, []).append(schema)
    return found


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
    followed = set[str]()
    while isinstance(schema, dict):
        some = _list(schema.get("allOf"))
        reference = schema.get("$ref")
        if isinstance(reference, str) and reference not in followed:
            followed.add(reference)
            other = follow_reference(whole, reference)
        elif len(some) == 1 and isinstance(some[0], dict) and len(followed) < MOST_DEEP:
            followed.add(f"allOf {len(followed)}")
            other = some[0]
        else:
            return schema
        said = {key: value for key, value in schema.items() if key not in ("$ref", "allOf")}
        schema = other | said if isinstance(other, dict) else said
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


# Names of properties as hosts take them.


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
    taken = {name for name in names if _is_legal(name)}
    told: dict[str, str] = {}
    candidates: dict[str, Iterator[str]] = {}
    for name in (each for each in names if not _is_legal(each)):
        bare = _ILLEGAL.sub("_", name).strip("_")[:MOST_NAME_CHARS] or "_"
        some = candidates.setdefault(bare, _candidates(bare))
        told[name] = next(each for each in some if each not in taken)
        taken.add(told[name])
    return told


def _is_legal(name: str) -> bool:
    return 0 < len(name) <= MOST_NAME_CHARS and not _ILLEGAL.search(name)


def _candidates(name: str) -> Iterator[str]:
    yield name
    number = 2
    while True:
        yield f"{name[: MOST_NAME_CHARS - len(str(number)) - 1]}_{number}"
        number += 1


def _names_in(schema: Any) -> Iterator[str]:
    left = [schema]
    while left:
        part = left.pop()
        if isinstance(part, dict):
            own = part.get("properties")
            yield from own if isinstance(own, dict) else ()
            left += subschemas(part)


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

    told = dict(schema)
    for key, value in schema.items():
        if key in _MAPS and isinstance(value, dict):
            renamed = names if key in ("properties", "dependentSchemas") else {}
            told[key] = {renamed.get(name, name): inner(each) for name, each in value.items()}
        elif key in _SOME and isinstance(value, list):
            told[key] = [inner(each) for each in value]
        elif key in _ONE:
            told[key] = inner(value)
        elif key == "required" and isinstance(value, list):
            told[key] = _rename_in_list(value, names)
        elif key == "dependentRequired" and isinstance(value, dict):
            told[key] = {names.get(name, name): _rename_in_list(some, names) for name, some in value.items()}
        elif key == "$ref" and isinstance(value, str):
            told[key] = _rename_reference(value, names)
    return told


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
    restored: Mapping[str, Any] = _Restorer(whole, names).restore(arguments, whole)
    return restored


class _Restorer:
    """Of arguments whose schema has these names for properties that hosts refuse. It reads each subschema once."""

    def __init__(self, whole: Any, names: Mapping[str, str]) -> None:
        self._whole, self._names = whole, names
        self._read: dict[int, tuple[Any, Mapping[str, Any], Mapping[str, str]]] = {}

    def restore(self, value: Any, schema: Any, depth: int = 0) -> Any:
        if depth > MOST_DEEP or not isinstance(schema, dict):
            return value
        if isinstance(value, list):
            items = _items_of(schema, self._whole)
            return [self.restore(each, items, depth + 1) for each in value]
        if not isinstance(value, Mapping):
            return value
        properties, originals = self._names_at(schema)
        named = {key if key in properties else originals.get(key, key): each for key, each in value.items()}
        return {key: self.restore(each, properties.get(key), depth + 1) for key, each in named.items()}

    def _names_at(self, schema: dict[str, Any]) -> tuple[Mapping[str, Any], Mapping[str, str]]:
        if id(schema) not in self._read:
            properties = parameters_of(schema, self._whole).properties
            originals = {self._names[name]: name for name in properties if name in self._names}
            self._read[id(schema)] = (schema, properties, originals)  # kept, so that its id is no other's
        return self._read[id(schema)][1:]


def _items_of(schema: Any, whole: Any) -> Any:
    found = resolve(schema, whole)
    if not isinstance(found, dict):
        return None
    some = [found, *(resolve(each, whole) for key in ("anyOf", "oneOf") for each in _list(found.get(key)))]
    return next((each["items"] for each in some if isinstance(each, dict) and "items" in each), None)


def lay_flat(schema: dict[str, Any]) -> dict[str, Any]:
    """An object of all the parameters, without what composes them at the top; what refers elsewhere stays."""
    if not any(key in schema for key in COMPOSING):
        return schema
    told = {key: value for key, value in schema.items() if key not in (*COMPOSING, *_CLOSING)}
    parameters = parameters_of(schema)
    told["properties"] = dict(parameters.properties)
    if parameters.required:
        told["required"] = [name for name in parameters.properties if name in parameters.required]
    return told


_CLOSING = ("additionalProperties", "unevaluatedProperties", "required")
"""What of a composed schema speaks of the properties at its top alone."""
