"""What an operation takes and how it is called: its parameters and body as one schema, and where each argument goes.

An operation's tool keeps under the annotation `http` all that a call needs:

    {"method": "PUT", "path": "/pets/{petId}",
     "parameters": {"petId": {"in": "path"}, "id_2": {"in": "query", "name": "id"}},
     "body": {"type": "application/json", "fields": {"body_petId": "petId"}}}

An argument named under `parameters` goes where `in` says, under `name` if that is another. With `body.argument`, that
argument is the whole body; else every other argument is a field of the body, under the name in `body.fields` if it
has another there. `style`, `explode`, `allowReserved`, `collectionFormat`, `content` are as the document states them.
"""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from itertools import islice
from typing import Any

from waygraph.ingest.manifest.fields import escape_pointer, fields_of, items_of, text_of
from waygraph.ingest.sources.formats.openapi_schemas import MAX_SCHEMA_CHARS, Converted, Schemas

PLACES = ("path", "query", "header", "cookie")
"""In this order arguments get their names: what comes later gives way."""
_OF_HTTP = frozenset(("accept", "authorization", "content-type"))
"""Headers that are no parameters (OpenAPI 3.1.1, Parameter Object)."""
_SERIALIZED = ("style", "explode", "allowReserved", "collectionFormat")
_FORMS = ("application/x-www-form-urlencoded", "multipart/form-data")
_BODY = "body"
MAX_MEDIA = 50
"""So many media types of one body are looked at."""


@dataclass(frozen=True, slots=True)
class Parameter:
    """A parameter with its reference followed."""

    name: str
    place: str
    stated: Mapping[str, Any]
    pointer: str


@dataclass(frozen=True, slots=True)
class Body:
    """What is sent as `media` type. `demanded`: a call without it is wrong."""

    media: str
    schema: object
    pointer: str
    demanded: bool
    description: str = ""

    def with_media(self, media: str) -> "Body":
        return replace(self, media=media)


@dataclass(slots=True)
class Arguments:
    """The arguments of one operation, as they are told one by one."""

    schemas: Schemas
    pointer: str
    properties: dict[str, Any] = field(default_factory=dict)
    required: list[str] = field(default_factory=list)
    parameters: dict[str, dict[str, Any]] = field(default_factory=dict)
    body: dict[str, Any] = field(default_factory=dict)
    _refs: dict[str, None] = field(default_factory=dict)
    _chars: int = 0

    def schema(self) -> dict[str, Any]:
        """One schema of all arguments, as JSON Schema 2020-12."""
        made: dict[str, Any] = {"type": "object", "properties": self.properties}
        if self.required:
            made["required"] = self.required
        if definitions := self.schemas.definitions(self._refs, MAX_SCHEMA_CHARS - self._chars, self.pointer):
            made["$defs"] = definitions
        return made

    def call(self) -> dict[str, Any]:
        """Where each argument goes."""
        parts = {"parameters": self.parameters, "body": self.body}
        return {name: part for name, part in parts.items() if part}

    def take_parameter(self, parameter: Parameter) -> None:
        stated, place = parameter.stated, parameter.place
        media, schema, pointer = _schema_of(stated, parameter.pointer)
        remarks = {word: stated[word] for word in ("description", "deprecated") if stated.get(word)}
        name = self._free_name(parameter.name, (f"{parameter.name}_{place}",))
        demanded = place == "path" or stated.get("required") is True
        self._take(name, self.schemas.convert(schema, pointer), demanded, remarks)
        told = {word: stated[word] for word in _SERIALIZED if isinstance(stated.get(word), (str, bool))}
        renamed = {"name": parameter.name} if name != parameter.name else {}
        self.parameters[name] = {"in": place, **renamed, **told, **({"content": media} if media else {})}

    def take_body(self, body: Body) -> None:
        """Its fields one by one if it is a plain object, else as one argument."""
        self.body = {"type": body.media}
        fields = self.schemas.fields(body.schema, body.pointer) if _has_fields(body.media) else None
        told = {
            name: each for name, each in (fields or {}).items() if fields_of(each.schema).get("readOnly") is not True
        }
        if not told:
            self._take_whole(body)
            return
        renamed = {}
        for name, each in told.items():
            own = self._free_name(name, (f"{_BODY}_{name}",))
            if own != name:
                renamed[own] = name
            converted = self.schemas.convert(each.schema, each.pointer)
            is_file = body.media == _FORMS[1] and is_bytes(fields_of(converted.schema))
            encoded = {"contentEncoding": "base64"} if is_file else {}  # so that whoever calls it knows
            self._take(own, converted, each.required and body.demanded, encoded)
        if renamed:
            self.body["fields"] = renamed

    def _take_whole(self, body: Body) -> None:
        name = self._free_name(_BODY, ("request_body",))
        remarks: dict[str, Any] = {"description": body.description} if body.description else {}
        if _is_binary(body.media):
            remarks = {"contentEncoding": "base64", "contentMediaType": body.media, **remarks}
        self.body["argument"] = name
        self._take(name, self.schemas.convert(body.schema, body.pointer), body.demanded, remarks)

    def _take(self, name: str, converted: Converted, demanded: bool, remarks: Mapping[str, Any]) -> None:
        """An argument for which there is no room keeps its name alone."""
        told = {word: value for word, value in remarks.items() if isinstance(value, (str, bool))}
        chars = converted.chars + sum(len(str(value)) for value in told.values())
        if self._chars + chars > MAX_SCHEMA_CHARS:
            kept = f"since no more than {MAX_SCHEMA_CHARS} characters are kept"
            self.schemas.note(self.pointer, f"the schema of {name[:60]!r} is left out, {kept}")
            converted, told, chars = Converted({}), {}, 0
        schema = converted.schema if isinstance(converted.schema, dict) else {}
        self.properties[name] = {**schema, **told}
        self._chars += chars
        self._refs.update(dict.fromkeys(converted.refs))
        if demanded:
            self.required.append(name)

    def _free_name(self, wanted: str, others: Iterable[str]) -> str:
        """The first of these that no argument has yet, else with a number behind it."""
        for name in (wanted, *others):
            if name not in self.properties:
                return name
        number = 2
        while f"{wanted}_{number}" in self.properties:
            number += 1
        return f"{wanted}_{number}"


def parameters_of(
    schemas: Schemas, shared: object, shared_at: str, own: object, own_at: str
) -> tuple[list[Parameter], Body | None]:
    """Those of the path and the operation's own, which overrule them, by place; and the body Swagger 2 has there."""
    told: dict[tuple[str, str], Parameter] = {}
    for listed, place in ((shared, shared_at), (own, own_at)):
        for parameter in _follow_parameters(schemas, listed, place):
            told[parameter.place, parameter.name] = parameter
    by_place = [each for place in PLACES for each in told.values() if each.place == place]
    kept = [each for each in by_place if each.place != "header" or each.name.casefold() not in _OF_HTTP]
    return kept, _older_body(list(told.values()), own_at)


def _follow_parameters(schemas: Schemas, listed: object, pointer: str) -> Iterator[Parameter]:
    for number, item in enumerate(items_of(listed)):
        stated, place = schemas.follow(item, f"{pointer}/{number}")
        told = fields_of(stated)
        name, where = told.get("name"), told.get("in")
        if isinstance(name, str) and name and isinstance(where, str) and where in (*PLACES, "body", "formData"):
            yield Parameter(name, where, told, place)
        elif stated is not None:  # what could not be followed is noted there
            schemas.note(place, "a parameter without a name, or in no place that is known, is left out")


def _schema_of(stated: Mapping[str, Any], pointer: str) -> tuple[str, object, str]:
    """Media type (if it has one), schema and its pointer; in Swagger 2 the parameter itself is the schema."""
    if "schema" in stated:
        return "", stated["schema"], f"{pointer}/schema"
    if content := fields_of(stated.get("content")):
        media = next(iter(content))
        return media, fields_of(content[media]).get("schema", {}), f"{pointer}/content/{escape_pointer(media)}/schema"
    return "", {word: value for word, value in stated.items() if word not in ("required", "description")}, pointer


# -- bodies ----------------------------------------------------------------------------------------


def body_of(schemas: Schemas, stated: object, pointer: str) -> Body | None:
    """The body of OpenAPI 3 in the media type that is best to write: JSON, a form, text, else the first."""
    request, pointer = schemas.follow(stated, pointer)
    content = fields_of(fields_of(request).get("content"))
    if not content:
        return None
    media = min(islice(content, MAX_MEDIA), key=_preference)
    told = fields_of(content[media])
    return Body(
        media=media,
        schema=told.get("schema", {}),
        pointer=f"{pointer}/content/{escape_pointer(media)}/schema",
        demanded=fields_of(request).get("required") is True,
        description=text_of(fields_of(request).get("description")),
    )


def _older_body(parameters: list[Parameter], pointer: str) -> Body | None:
    """Swagger 2: a parameter in `body`, or those in `formData` together."""
    if whole := next((each for each in parameters if each.place == "body"), None):
        described = text_of(whole.stated.get("description"))
        schema = whole.stated.get("schema", {})
        return Body("", schema, f"{whole.pointer}/schema", whole.stated.get("required") is True, described)
    form = [each for each in parameters if each.place == "formData"]
    if not form:
        return None
    schema = {
        "type": "object",
        "properties": {each.name: {**each.stated, "required": None, "name": None} for each in form},
        "required": [each.name for each in form if each.stated.get("required") is True],
    }
    media = _FORMS[any(each.stated.get("type") == "file" for each in form)]
    return Body(media, schema, pointer, True)


def media_of(listed: object, body: Body) -> str:
    """The media type of a body of Swagger 2, by what the operation consumes."""
    consumed = [item for item in items_of(listed) if isinstance(item, str) and item]
    if body.media:  # a form
        return _FORMS[1] if _FORMS[1] in consumed else body.media
    return min(consumed, key=_preference, default="application/json")


def is_json(media: str) -> bool:
    plain = media.partition(";")[0].strip().casefold()
    return plain == "application/json" or plain.endswith(("/json", "+json")) or plain == "*/*"


def is_bytes(schema: Mapping[str, Any]) -> bool:
    """Whether a text of this schema is base64 and sent as the bytes that it stands for (OpenAPI 3.0 and 3.1)."""
    return schema.get("format") == "binary" or not {"contentEncoding", "contentMediaType"}.isdisjoint(schema)


def _preference(media: str) -> int:
    """The least is best."""
    plain = media.partition(";")[0].strip().casefold()
    if plain == "application/json":
        return 0
    if is_json(media):
        return 1
    return 2 + _FORMS.index(plain) if plain in _FORMS else (4 if plain.startswith("text/") else 5)


def _has_fields(media: str) -> bool:
    return _preference(media) < 4


def _is_binary(media: str) -> bool:
    plain = media.partition(";")[0].strip().casefold()
    return _preference(media) == 5 and not plain.endswith(("xml", "yaml", "javascript", "ndjson", "jsonl"))
