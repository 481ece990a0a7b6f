"""Schemas of an OpenAPI document as JSON Schema 2020-12, each able to stand alone.

`$ref` is followed within the document only. What a schema refers to comes along under `$defs`, so that recursion
stays a reference; of much, what is nearest. Keywords that JSON Schema 2020-12 has not, and those whose value is of
another type than it demands, are left out: what results is always a valid schema.
"""

import json
import re
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property, lru_cache
from typing import Any
from urllib.parse import unquote, urljoin, urlsplit

from waygraph.ingest.manifest.fields import fields_of, items_of
from waygraph.ingest.manifest.fields import pointer as json_pointer
from waygraph.ingest.sources.formats.old_forms import MAX_EXAMPLE_CHARS, plain_value, upgrade_schema
from waygraph.registry.model.identity import digest
from waygraph.registry.model.nouns import canonical_json
from waygraph.registry.model.numbers import read_digits, read_number, read_whole

MAX_SCHEMA_CHARS = 12_000
"""Of one schema with all that it brings along: some thousand tokens of a model that is to read it."""
MAX_DOCUMENT_CHARS = 100_000_000
"""Of all that the schemas of one document bring along: a few lines can refer to the same much many times."""
MAX_SHORT_CHARS = 40
"""A schema of so many is not shortened."""
MAX_PATTERN_CHARS = 1_000
MAX_DEPTH = 60
MAX_HOPS = 20
"""From one reference to the next."""
MAX_POINTER_PARTS = 200

_TYPES = frozenset("array boolean integer null number object string".split())
_WHOLE = frozenset("items additionalProperties not if then else contains propertyNames".split())
_WHOLE |= frozenset("unevaluatedItems unevaluatedProperties".split())
_LIST_WORDS = frozenset("allOf anyOf oneOf prefixItems".split())
_MAP_WORDS = frozenset("properties patternProperties dependentSchemas".split())
_AMBIGUOUS = re.compile(r"(?<!\\)\[\[|(?<!\\)\[[^\]]*(?:--|&&|~~|\|\|)")
"""Sets that Python will read otherwise one day."""
_LEGAL = re.compile(r"[A-Za-z0-9_.-]+")

Note = Callable[[str, str], None]
"""Takes the JSON pointer of what is left out, and the reason."""


def _is_number(value: object) -> bool:
    return read_number(value) is not None


def _is_count(value: object) -> bool:
    return read_whole(value, 0, 2**63) is not None


def _is_text(value: object) -> bool:
    return isinstance(value, str)


def _are_names(value: object) -> bool:
    return isinstance(value, list) and all(isinstance(item, str) for item in value) and len(set(value)) == len(value)


def _are_types(value: object) -> bool:
    values = value if isinstance(value, list) else [value]
    return bool(values) and all(isinstance(item, str) and item in _TYPES for item in values) and _are_names(values)


@lru_cache(maxsize=1024)
def _is_pattern(value: object) -> bool:
    """Whether it is a regular expression to a validator in Python too, and one that it takes without a warning."""
    if not isinstance(value, str) or len(value) > MAX_PATTERN_CHARS or _AMBIGUOUS.search(value):
        return False
    try:
        re.compile(value)
    except (re.error, OverflowError, RecursionError):
        return False
    return True


_CHECKS: dict[str, Callable[[object], bool]] = {
    "type": _are_types,
    "required": _are_names,
    "enum": lambda value: isinstance(value, list),
    "const": lambda value: True,  # noqa: ARG005
    "default": lambda value: True,  # noqa: ARG005
    "examples": lambda value: isinstance(value, list) and len(str(value)) <= MAX_EXAMPLE_CHARS,
    "multipleOf": lambda value: _is_number(value) and value > 0,  # type: ignore[operator]
    "dependentRequired": lambda value: isinstance(value, dict) and all(map(_are_names, value.values())),
    "pattern": lambda value: isinstance(value, str) and _is_pattern(value),
    **dict.fromkeys("title description format contentEncoding contentMediaType".split(), _is_text),
    **dict.fromkeys("minimum maximum exclusiveMinimum exclusiveMaximum".split(), _is_number),
    **dict.fromkeys("minLength maxLength minItems maxItems minProperties maxProperties".split(), _is_count),
    **dict.fromkeys("minContains maxContains".split(), _is_count),
    **dict.fromkeys("uniqueItems deprecated readOnly writeOnly".split(), lambda value: isinstance(value, bool)),
}


@dataclass(frozen=True)
class Conversion:
    """A schema, the names under `$defs` that it refers to, and its length in characters."""

    schema: Any
    refs: tuple[str, ...] = ()
    chars: int = 0

    def within(self, room: int) -> "Conversion | None":
        """The longest form that has room, the schema or an outline of it; None: not one has."""
        return self if self.chars <= room else next((each for each in self._shorter if each.chars <= room), None)

    @cached_property
    def _shorter(self) -> "tuple[Conversion, ...]":
        shorter = outlines(self.schema) if self.chars > MAX_SHORT_CHARS else ()
        return tuple(Conversion(each, tuple(refs), len(canonical_json(each))) for each, refs in shorter)


@dataclass(slots=True)
class Schemas:
    """The schemas of one document. `note` is told what is left out; of the same place once. `where`: its address."""

    document: Mapping[str, Any]
    note: Note
    where: str = ""
    _pointers: dict[str, str] = field(default_factory=dict)
    """Name under `$defs` → JSON pointer in the document."""
    _conversions: dict[str, Conversion] = field(default_factory=dict)
    """By JSON pointer: many operations use the same."""
    _fields: dict[str, "Fields | None"] = field(default_factory=dict)
    _notes: set[tuple[str, str]] = field(default_factory=set)
    _definition_chars: int = 0

    # -- references --------------------------------------------------------------------------------

    def follow(self, value: object, pointer: str) -> tuple[object, str]:
        """What a `$ref` stands for, and its pointer; None, with a note, for what cannot be had."""
        target, place, fault = self.resolve(value, pointer)
        if fault:
            self._note_once(place, fault)
        return target, place

    def resolve(self, value: object, pointer: str) -> tuple[object, str, str]:
        """What a `$ref` stands for, hop by hop, its pointer, and why it cannot be had."""
        for _ in range(MAX_HOPS):
            if not isinstance(value, Mapping) or not isinstance(value.get("$ref"), str):
                return value, pointer, ""
            target, fault = self._target(value["$ref"])
            if fault:
                return None, pointer, fault
            value, pointer = self._at(target), target
        return None, pointer, "references that lead from one to the next without end are left out"

    def _target(self, reference: str) -> tuple[str, str]:
        """The JSON pointer that a reference names, and why there is none in this document."""
        document, _, fragment = reference.partition("#")
        if document and not self._is_own(document):
            return "", f"a reference to another document is left out, since none is fetched{_reference_name(reference)}"
        if (target := unquote(fragment)).startswith("/") and self._at(target) is not None:
            return target, ""
        return "", "a reference to what this document does not hold is left out"

    def _is_own(self, document: str) -> bool:
        """Whether a reference names this very document."""
        place = self.where.partition("?")[0]
        try:
            return document == self.document.get("$self") or (place != "" and urljoin(place, document) == place)
        except ValueError:
            return False

    def _at(self, pointer: str, *, through: bool = True) -> object:
        """None if there is nothing. `through`: also below a `$ref`."""
        value: Any = self.document
        if pointer.count("/") > MAX_POINTER_PARTS:
            return None
        for part in pointer.split("/")[1:]:
            key = part.replace("~1", "/").replace("~0", "~")
            if through and isinstance(value, Mapping) and key not in value and isinstance(value.get("$ref"), str):
                document, _, fragment = value["$ref"].partition("#")
                value = None if document and not self._is_own(document) else self._at(unquote(fragment), through=False)
            if isinstance(value, Mapping):
                value = value.get(key)
            elif isinstance(value, list) and (at := read_digits(key, most=len(value) - 1)) is not None:
                value = value[at]
            else:
                return None
        return value

    def _note_once(self, pointer: str, reason: str) -> None:
        if (pointer, reason) not in self._notes:
            self._notes.add((pointer, reason))
            self.note(pointer, reason)

    # -- standing alone ----------------------------------------------------------------------------

    def convert(self, schema: object, pointer: str) -> Conversion:
        """The schema at the pointer by itself; what it refers to is named, not yet brought along."""
        if pointer not in self._conversions:
            refs: dict[str, None] = {}
            result = self._schema(schema, pointer, refs, 0)
            try:
                self._conversions[pointer] = Conversion(result, tuple(refs), len(canonical_json(result)))
            except RecursionError:
                self._note_once(pointer, "a schema with values that are nested too deeply is left out")
                self._conversions[pointer] = Conversion({})
        return self._conversions[pointer]

    def fields(self, schema: object, pointer: str) -> "Fields | None":
        """The properties of an object, also of its `allOf`; those of one of its `anyOf` or `oneOf` may be left out.

        None for what may be something else than an object, and where the parts contradict one another.
        """
        target, pointer = self.follow(schema, pointer)
        if pointer not in self._fields:
            look = _Look()
            properties = _fields(self, target, pointer, look)
            self._fields[pointer] = None if properties is None else _in_order(properties, look.is_open)
        return self._fields[pointer]

    def definitions(self, refs: Iterable[str], room: int, pointer: str) -> dict[str, Any]:
        """What these names stand for, and what that refers to in turn, nearest first, in `room` characters.

        What finds no room is shortened, at last to what may be anything.
        """
        definitions: dict[str, Any] = {}
        waiting, shortened_names = deque(refs), []
        while waiting:
            if (name := waiting.popleft()) in definitions:
                continue
            whole = self.convert(self._at(self._pointers[name]), self._pointers[name])
            conversion = whole.within(room if self._definition_chars <= MAX_DOCUMENT_CHARS else 0) or Conversion({})
            if conversion is not whole:
                shortened_names.append(name)
            room -= conversion.chars
            self._definition_chars += conversion.chars
            definitions[name] = conversion.schema
            waiting.extend(conversion.refs)
        self.note_names(
            pointer, f"schemas are shortened, since {MAX_SCHEMA_CHARS} characters are kept", shortened_names
        )
        return definitions

    def note_names(self, pointer: str, what: str, names: Sequence[str]) -> None:
        """Notes what became of these, the first three by name."""
        if names:
            first_names = ", ".join(name[:60] for name in names[:3])
            self._note_once(pointer, f"{what}: {first_names}" + (f" and {len(names) - 3} more" if names[3:] else ""))

    # -- one schema --------------------------------------------------------------------------------

    def _schema(self, schema: object, pointer: str, refs: dict[str, None], depth: int) -> Any:
        if not isinstance(schema, Mapping):
            return schema if isinstance(schema, bool) else {}
        if depth > MAX_DEPTH:
            self._note_once(pointer, f"what is nested deeper than {MAX_DEPTH} schemas is left out")
            return {}
        result = dict(self._keywords(schema, pointer, refs, depth))
        if isinstance(reference := schema.get("$ref"), str):
            target, fault = self._target(reference)
            if fault:
                self._note_once(pointer, fault)
            else:
                name = self._name(target)
                self._pointers[name] = target
                refs[name] = None
                result["$ref"] = f"#/$defs/{name}"
        return upgrade_schema(result, schema)

    def _keywords(
        self, schema: Mapping[str, Any], pointer: str, refs: dict[str, None], depth: int
    ) -> Iterator[tuple[str, Any]]:
        def below(value: object, *parts: object) -> Any:
            return self._schema(value, pointer + json_pointer(*parts), refs, depth + 1)

        for word, value in schema.items():
            if word in _WHOLE and isinstance(value, (Mapping, bool)):
                yield word, below(value, word)
            elif word in _LIST_WORDS and isinstance(value, list) and value:
                yield word, [below(item, word, number) for number, item in enumerate(value)]
            elif word in _MAP_WORDS and isinstance(value, Mapping):
                schemas = {
                    name: item for name, item in value.items() if word != "patternProperties" or _is_pattern(name)
                }
                yield word, {name: below(item, word, name) for name, item in schemas.items()}
            elif word in _CHECKS and (plain := plain_value(value)) and _CHECKS[word](plain[0]):
                yield word, plain[0]

    def _name(self, pointer: str) -> str:
        """`Pet` of `#/components/schemas/Pet`; another place with what tells it apart."""
        folder, _, name = pointer.rpartition("/")
        home = "/components/schemas" if "openapi" in self.document else "/definitions"
        if folder == home and _LEGAL.fullmatch(name):
            return name
        return f"{re.sub(r'[^A-Za-z0-9_.-]+', '-', name)[:60]}-{digest(pointer)[:8]}"


def _reference_name(reference: str) -> str:
    """The document that a reference names, without what may be secret in its address."""
    try:
        parts = urlsplit(reference)
        return f": {((parts.hostname or '') + parts.path)[:80]}"
    except ValueError:
        return ""


# -- what an object holds --------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Field:
    """A property of an object, as the document states it."""

    schema: object
    pointer: str
    required: bool = False


@dataclass(frozen=True, slots=True)
class Fields:
    """The properties that a caller may set, required ones first. `is_open`: the schema names others as possible."""

    properties: Mapping[str, Field]
    is_open: bool


@dataclass(slots=True)
class _Look:
    """What one walk over the parts of an object has met."""

    pointers: set[str] = field(default_factory=set)
    is_open: bool = False


MAX_PARTS = 100
"""Of one object: the schemas that tell its properties."""
_OPEN = ("additionalProperties", "patternProperties", "unevaluatedProperties")
_OBJECT = ("object", ["object"], ["object", "null"], ["null", "object"])


def is_object(schemas: Schemas, schema: object, pointer: str, hops: int = 0) -> bool:
    """Whether it describes an object for certain."""
    target, pointer = schemas.follow(schema, pointer)
    if not isinstance(target, Mapping) or hops > MAX_HOPS:
        return False
    if "type" in target:
        return target["type"] in _OBJECT
    parts = items_of(target.get("allOf"))[:MAX_HOPS]
    return "properties" in target or any(is_object(schemas, part, pointer, hops + 1) for part in parts[:1])


def _in_order(properties: Mapping[str, Field], is_open: bool) -> Fields:
    settable = [(name, each) for name, each in properties.items() if fields_of(each.schema).get("readOnly") is not True]
    return Fields(dict(sorted(settable, key=lambda item: not item[1].required)), is_open)


def _fields(schemas: Schemas, schema: object, pointer: str, look: _Look) -> dict[str, Field] | None:
    target, pointer = schemas.follow(schema, pointer)
    if pointer in look.pointers:
        return {}
    look.pointers.add(pointer)
    if not isinstance(target, Mapping) or target.get("type", "object") not in _OBJECT or len(look.pointers) > MAX_PARTS:
        return None
    look.is_open |= any(isinstance(target.get(word), Mapping) or target.get(word) is True for word in _OPEN)
    properties = fields_of(target.get("properties"))
    fields = {name: Field(each, pointer + json_pointer("properties", name)) for name, each in properties.items()}
    for word in ("allOf", "anyOf", "oneOf"):
        branches: dict[str, Field] = {}
        for number, part in enumerate(items_of(target.get(word))):
            branch = _fields(schemas, part, f"{pointer}/{word}/{number}", look)
            if branch is None or (word != "allOf" and _at_odds(branches, branch, fields)):
                return None
            optional = {name: replace(each, required=False) for name, each in branch.items()}
            branches |= branch if word == "allOf" else optional
        fields |= {name: each for name, each in branches.items() if name not in fields}
    for name in _required_names(schemas, target, pointer, set()):
        if name in fields:
            fields[name] = replace(fields[name], required=True)
    return fields


def _required_names(schemas: Schemas, schema: object, pointer: str, visited: set[str]) -> Iterator[str]:
    """Also those of the parts of `allOf`: one part often demands what another part describes."""
    target, pointer = schemas.follow(schema, pointer)
    if pointer in visited or len(visited) > MAX_PARTS:
        return
    visited.add(pointer)
    yield from (name for name in items_of(fields_of(target).get("required")) if isinstance(name, str))
    for number, part in enumerate(items_of(fields_of(target).get("allOf"))):
        yield from _required_names(schemas, part, f"{pointer}/allOf/{number}", visited)


def _at_odds(one: Mapping[str, Field], other: Mapping[str, Field], common: Mapping[str, Field]) -> bool:
    """Whether two branches say different things of one name, and what they narrow down is not known either."""
    return any(one[name].schema != other[name].schema for name in one.keys() & other.keys() - common.keys())


_OUTLINE_WORDS = ("type", "const", "format", "contentEncoding")
_DEPTHS = (8, 3, 1, 0)
MAX_CHOICES_CHARS = 400
"""Of an `enum`; of a longer one the first three stand as examples."""
_REFERENCE = "#/$defs/"


def outlines(schema: Any) -> Iterator[tuple[Any, dict[str, None]]]:
    """Each shorter than the one before, with the names under `$defs` that it refers to."""
    for depth in _DEPTHS:
        refs: dict[str, None] = {}
        yield _outline(schema, depth, refs), refs


def _outline(schema: Any, depth: int, refs: dict[str, None]) -> Any:
    if not isinstance(schema, Mapping):
        return schema
    outline = {word: schema[word] for word in _OUTLINE_WORDS if word in schema} | _choices(schema)
    if isinstance(reference := schema.get("$ref"), str) and reference.startswith(_REFERENCE):
        outline["$ref"] = reference
        refs[reference.removeprefix(_REFERENCE)] = None
    if not depth:
        return outline
    if isinstance(properties := schema.get("properties"), Mapping):
        outline["properties"] = {name: _outline(each, depth - 1, refs) for name, each in properties.items()}
    if isinstance(schema.get("required"), list):
        outline["required"] = schema["required"]
    if "items" in schema and "prefixItems" not in schema:  # which say what it is that is left for `items`
        outline["items"] = _outline(schema["items"], depth - 1, refs)
    for word in ("allOf", "anyOf"):
        if isinstance(parts := schema.get(word), list):
            outline[word] = [_outline(part, depth - 1, refs) for part in parts]
    if isinstance(parts := schema.get("oneOf"), list) and "anyOf" not in outline:  # several may fit an outline
        outline["anyOf"] = [_outline(part, depth - 1, refs) for part in parts]
    return outline


def _choices(schema: Mapping[str, Any]) -> dict[str, Any]:
    if not isinstance(choices := schema.get("enum"), list):
        return {}
    return {"enum": choices} if len(json.dumps(choices)) <= MAX_CHOICES_CHARS else {"examples": choices[:3]}
