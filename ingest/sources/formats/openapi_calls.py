"""What an operation takes and how it is called: its parameters and body as one schema, and where each argument goes.

An operation's tool keeps under the annotation `http` all that a call needs:

    {"method": "PUT", "path": "/pets/{petId}",
     "parameters": {"petId": {"in": "path"}, "id_2": {"in": "query", "name": "id"}},
     "body": {"type": "application/json", "fields": {"body_petId": "petId"}}}

An argument named under `parameters` goes where `in` says, under `name` if that is another. With `body.argument`, that
argument is the whole body; else every other argument is a field of the body, under the name in `body.fields` if it
has another there. `style`, `explode`, `allowReserved`, `collectionFormat`, `content` are as the document states them.
So is `body.encoding`, which has the first four and `contentType` for the fields of a form.
"""

import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from itertools import islice
from typing import Any

from waygraph.ingest.manifest.fields import escape_pointer, fields_of, items_of, text_of
from waygraph.ingest.manifest.records import shape_of
from waygraph.ingest.sources.formats.openapi_schemas import MAX_SCHEMA_CHARS, Conversion, Schemas

PLACES = ("path", "query", "header", "cookie")
"""In this order arguments get their names: what comes later gives way."""
_OF_HTTP = frozenset(("accept", "authorization", "content-type"))
"""Headers that are no parameters (OpenAPI 3.1.1, Parameter Object)."""
HEADERS_NOT_SENT = frozenset(
    "authorization connection content-length content-type cookie expect host keep-alive proxy-authorization "
    "proxy-connection te trailer transfer-encoding upgrade x-http-method x-http-method-override "
    "x-method-override x-original-url x-rewrite-url".split()
)
"""Headers that no argument may set: they are HTTP's own, credentials, or make another request of it."""
PLACEHOLDER = re.compile(r"\{([^{}]+)\}")
"""In a path."""
STYLE_FIELDS = ("style", "explode", "allowReserved", "collectionFormat")
FORMS = ("application/x-www-form-urlencoded", "multipart/form-data")
_TEXTS = ("xml", "yaml", "javascript", "ndjson", "jsonl")
"""Ends of media types that are text, though they do not begin with `text/`."""
_BODY = "body"
MAX_MEDIA = 50
"""So many media types of one body are looked at."""
MAX_FIELDS = 2_000
"""So many fields of one body are looked at, required ones first: more names have no room."""
_ROOM = f"since {MAX_SCHEMA_CHARS} characters are kept"


@dataclass(frozen=True, slots=True)
class Parameter:
    """A parameter with its reference followed. `argument`: the name of its argument, if it is another."""

    name: str
    place: str
    fields: Mapping[str, Any]
    pointer: str
    argument: str = ""


@dataclass(frozen=True, slots=True)
class Body:
    """What is sent as `media` type. `is_required`: a call without it is wrong."""

    media: str
    schema: object
    pointer: str
    is_required: bool
    description: str = ""
    encoding: Mapping[str, Any] = field(default_factory=dict)
    """Of a form, by field: what the document states of its serialization."""


@dataclass(frozen=True, slots=True)
class _Argument:
    conversion: Conversion
    is_required: bool
    remarks: Mapping[str, Any]

    @property
    def kind(self) -> dict[str, Any]:
        """What is kept of its schema where there is no room: the type."""
        schema = self.conversion.schema
        return {"type": schema["type"]} if isinstance(schema, dict) and "type" in schema else {}

    def within(self, room: int) -> tuple[Conversion, bool]:
        """Its schema, as far as there is room for it, and whether that is all of it."""
        words = {word: value for word, value in self.remarks.items() if isinstance(value, (str, bool))}
        chars = self.conversion.chars + sum(len(str(value)) for value in words.values())
        schema = self.conversion.schema if isinstance(self.conversion.schema, dict) else {}
        if chars <= room:
            return Conversion({**schema, **words}, self.conversion.refs, chars), True
        shorter = self.conversion.within(room)
        return (shorter if shorter and isinstance(shorter.schema, dict) else Conversion(self.kind)), False


@dataclass(slots=True)
class Arguments:
    """The arguments of one operation, as they are told one by one. `is_open`: its body may have other fields."""

    schemas: Schemas
    pointer: str
    parameters: dict[str, dict[str, Any]] = field(default_factory=dict)
    body: dict[str, Any] = field(default_factory=dict)
    is_open: bool = False
    _arguments: dict[str, _Argument] = field(default_factory=dict)
    _omitted_count: int = 0
    """Fields of the body that were not looked at."""

    def __len__(self) -> int:
        return len(self._arguments)

    def schema(self) -> dict[str, Any]:
        """One schema of all arguments, as JSON Schema 2020-12. What is required has room first."""
        names, room = self._rank_names(), MAX_SCHEMA_CHARS
        properties: dict[str, Any] = {}
        refs: dict[str, None] = {}
        required_names, shortened_names = list[str](), list[str]()
        for name in names:
            conversion, is_whole = self._arguments[name].within(room)
            if not is_whole:
                shortened_names.append(name)
            properties[name], room = conversion.schema, room - conversion.chars
            refs.update(dict.fromkeys(conversion.refs))
            if self._arguments[name].is_required:
                required_names.append(name)
        self.schemas.note_names(self.pointer, f"schemas of arguments are shortened, {_ROOM}", shortened_names)
        result: dict[str, Any] = {"type": "object", "properties": properties}
        if required_names:
            result["required"] = required_names
        if definitions := self.schemas.definitions(refs, room, self.pointer):
            result["$defs"] = definitions
        return result if self.is_open else {**result, "additionalProperties": False}

    def _rank_names(self) -> list[str]:
        """The names for which there is room, required ones first. The others may be given, and are not listed."""
        ranking = sorted(self._arguments, key=lambda name: not self._arguments[name].is_required)
        room, names = MAX_SCHEMA_CHARS, list[str]()
        for name in ranking:
            room -= len(name) + len(str(self._arguments[name].kind)) + 6
            if room < 0:
                break
            names.append(name)
        if omitted_count := len(ranking) - len(names) + self._omitted_count:
            self.is_open = True
            first = ", ".join(name[:60] for name in ranking[len(names) :][:3])
            what = f"names of arguments are not listed, {_ROOM} of them: {omitted_count}"
            self.schemas.note(self.pointer, f"{what}, such as {first}" if first else what)
        return names

    def call(self) -> dict[str, Any]:
        """Where each argument goes."""
        return {name: part for name, part in {"parameters": self.parameters, "body": self.body}.items() if part}

    def take_parameter(self, parameter: Parameter) -> None:
        fields, place = parameter.fields, parameter.place
        media, schema, pointer = _schema_of(self.schemas, fields, parameter.pointer)
        remarks = {word: fields[word] for word in ("description", "deprecated") if fields.get(word)}
        preferred_name = parameter.argument or parameter.name
        name = self._free_name(preferred_name, (f"{preferred_name}_{place}",))
        is_required = place == "path" or fields.get("required") is True
        self._arguments[name] = _Argument(self.schemas.convert(schema, pointer), is_required, remarks)
        style = {word: fields[word] for word in STYLE_FIELDS if isinstance(fields.get(word), (str, bool))}
        alias = {"name": parameter.name} if name != parameter.name else {}
        self.parameters[name] = {"in": place, **alias, **style, **({"content": media} if media else {})}

    def take_body(self, body: Body) -> None:
        """Its fields one by one if it is a plain object, else as one argument."""
        self.body = {"type": body.media}
        fields = self.schemas.fields(body.schema, body.pointer) if _preference(body.media) < 4 else None
        if not fields or not fields.properties:
            self._take_whole(body)
            return
        aliases = {}
        self.is_open, self._omitted_count = fields.is_open, max(0, len(fields.properties) - MAX_FIELDS)
        for name, each in islice(fields.properties.items(), MAX_FIELDS):
            if (own := self._free_name(name, (f"{_BODY}_{name}",))) != name:
                aliases[own] = name
            conversion = self.schemas.convert(each.schema, each.pointer)
            is_file = body.media == FORMS[1] and is_bytes(fields_of(conversion.schema))
            remarks = {"contentEncoding": "base64"} if is_file else {}  # so that whoever calls it knows
            self._arguments[own] = _Argument(conversion, each.required and body.is_required, remarks)
        if aliases:
            self.body["fields"] = aliases
        self._take_encoding(body)

    def _take_encoding(self, body: Body) -> None:
        """Of a form: how its fields are serialized, where the document states it."""
        words = (*STYLE_FIELDS, "contentType") if body.media in FORMS else ()
        encodings = {
            name: {word: value for word in words if isinstance(value := fields_of(each).get(word), (str, bool))}
            for name, each in islice(body.encoding.items(), MAX_FIELDS)
        }
        if encoding := {name: words for name, words in encodings.items() if words}:
            self.body["encoding"] = encoding

    def _take_whole(self, body: Body) -> None:
        name = self._free_name(_BODY, ("request_body",))
        remarks: dict[str, Any] = {"description": body.description} if body.description else {}
        conversion = self.schemas.convert(body.schema, body.pointer)
        plain = plain_media(body.media)
        # The caller writes the body as text: it is in a language that no value of JSON is turned into.
        is_text = (_preference(body.media) >= 4 and plain.startswith("text/")) or plain.endswith(_TEXTS)
        if is_text and not _is_scalar(conversion.schema):
            text = f"The body as text of the media type {body.media[:100]}"
            remarks, conversion = {"description": body.description or text}, Conversion({"type": "string"})
        if _preference(body.media) == 5 and not plain.endswith(_TEXTS):
            remarks = {"contentEncoding": "base64", "contentMediaType": body.media, **remarks}
        self.body["argument"] = name
        self._take_encoding(body)
        self._arguments[name] = _Argument(conversion, body.is_required, remarks)

    def _free_name(self, preferred_name: str, others: Iterable[str]) -> str:
        """The first of these that no argument has yet, else with a number behind it."""
        for name in (preferred_name, *others):
            if name not in self._arguments:
                return name
        number = 2
        while f"{preferred_name}_{number}" in self._arguments:
            number += 1
        return f"{preferred_name}_{number}"


def parameters_of(
    schemas: Schemas, common: object, common_at: str, own: object, own_at: str
) -> tuple[list[Parameter], Body | None]:
    """Those of the path and the operation's own, which overrule them, by place; and the body Swagger 2 has there."""
    by_key: dict[tuple[str, str], Parameter] = {}
    for value, place in ((common, common_at), (own, own_at)):
        for parameter in _follow_parameters(schemas, value, place):
            by_key[parameter.place, parameter.name] = parameter
    by_place = [each for place in PLACES for each in by_key.values() if each.place == place]
    never = [each.name for each in by_place if each.place == "header" and fold_header(each.name) in HEADERS_NOT_SENT]
    unsaid = [name for name in never if name.casefold() not in _OF_HTTP]
    schemas.note_names(own_at, "headers that are HTTP's own, or a login, are left out", unsaid)
    parameters = [each for each in by_place if each.place != "header" or each.name not in never]
    return parameters, _older_body(list(by_key.values()), own_at)


def fold_header(header: str) -> str:
    """As servers that hand headers on as variables (CGI, WSGI) see its name: `X_Key` and `X-Key` are one."""
    return header.lower().replace("_", "-")


def parameters_in_place(schemas: Schemas, parameters: list[Parameter], path: str, pointer: str) -> list[Parameter]:
    """With one parameter for each placeholder of the path: the one of its name, else one that is meant, else a text."""
    placeholders = dict.fromkeys(PLACEHOLDER.findall(path.partition("#")[0]))
    by_name = {each.name: each for each in reversed(parameters)}  # of one name in several places the path's comes last
    spare = {_core(each.name): each for each in parameters if each.place == "path" and each.name not in placeholders}
    result: list[Parameter] = []
    missing, elsewhere = [], []
    for name in placeholders:
        if (parameter := by_name.get(name) or spare.pop(_core(name), None)) is None:
            missing.append(name)
            fields = {"required": True, "schema": {"type": "string", "description": f"Part of the path {path[:200]}"}}
            argument = re.sub(r"[^\w.-]+", "_", name.partition(":")[0]).strip("_") or name
            parameter = Parameter(name, "path", fields, pointer, argument)
        elif parameter.place != "path":
            elsewhere.append(name)
            fields = {word: value for word, value in parameter.fields.items() if word not in STYLE_FIELDS}
            parameter = replace(parameter, place="path", fields=fields)
        result.append(replace(parameter, name=name, argument=parameter.argument or parameter.name))
    schemas.note_names(pointer, "parts of the path that no parameter declares are required texts", missing)
    schemas.note_names(pointer, "parameters of the path are declared to be elsewhere, and go there", elsewhere)
    spare_names = [each.name for each in spare.values()]
    schemas.note_names(pointer, "parameters in the path that the path does not have are left out", spare_names)
    others = [by_name[name] for name in elsewhere]
    return [*result, *(each for each in parameters if each.place != "path" and each not in others)]


def _core(name: str) -> str:
    """What is left of a placeholder's name without case, separators, and what frameworks write behind it."""
    return re.sub(r"[\W_]", "", name.partition(":")[0]).casefold()


def _follow_parameters(schemas: Schemas, stated_list: object, pointer: str) -> Iterator[Parameter]:
    items, pointer = schemas.follow(stated_list, pointer)
    if items is not None and not isinstance(items, list):
        schemas.note(pointer, f"expected a list of parameters, found {shape_of(items)}")
    for number, item in enumerate(items_of(items)):
        target, place = schemas.follow(item, f"{pointer}/{number}")
        fields = fields_of(target)
        name, where = fields.get("name"), fields.get("in")
        if isinstance(name, str) and name and isinstance(where, str) and where in (*PLACES, "body", "formData"):
            yield Parameter(name, where, fields, place)
        elif target is not None:  # what could not be followed is noted there
            schemas.note(place, "a parameter without a name, or in no place that is known, is left out")


def _schema_of(schemas: Schemas, fields: Mapping[str, Any], pointer: str) -> tuple[str, object, str]:
    """Media type (if it has one), schema and its pointer; in Swagger 2 the parameter itself is the schema."""
    if "schema" in fields:
        return "", fields["schema"], f"{pointer}/schema"
    if content := fields_of(fields.get("content")):
        media = next(iter(content))
        media_object, at = schemas.follow(content[media], f"{pointer}/content/{escape_pointer(media)}")
        return media, fields_of(media_object).get("schema", {}), f"{at}/schema"
    return "", {word: value for word, value in fields.items() if word not in ("required", "description")}, pointer


# -- bodies ----------------------------------------------------------------------------------------


def body_of(schemas: Schemas, value: object, pointer: str) -> Body | None:
    """The body of OpenAPI 3 in the media type that is best to write: JSON, a form, text, else the first."""
    request, pointer = schemas.follow(value, pointer)
    content, at = schemas.follow(fields_of(request).get("content"), f"{pointer}/content")
    if not isinstance(content, Mapping) or not content:
        if request is not None:  # what could not be followed is noted there
            schemas.note(pointer, "a body without `content` is left out")
        return None
    media = min(islice(content, MAX_MEDIA), key=_preference)
    media_object, at = schemas.follow(content[media], f"{at}/{escape_pointer(media)}")
    return Body(
        media=media,
        schema=fields_of(media_object).get("schema", {}),
        pointer=f"{at}/schema",
        is_required=fields_of(request).get("required") is True,
        description=text_of(fields_of(request).get("description")),
        encoding=fields_of(fields_of(media_object).get("encoding")),
    )


def _older_body(parameters: list[Parameter], pointer: str) -> Body | None:
    """Swagger 2: a parameter in `body`, or those in `formData` together."""
    if whole := next((each for each in parameters if each.place == "body"), None):
        description = text_of(whole.fields.get("description"))
        schema = whole.fields.get("schema", {})
        return Body("", schema, f"{whole.pointer}/schema", whole.fields.get("required") is True, description)
    if not (form := [each for each in parameters if each.place == "formData"]):
        return None
    schema = {
        "type": "object",
        "properties": {each.name: {**each.fields, "required": None, "name": None} for each in form},
        "required": [each.name for each in form if each.fields.get("required") is True],
    }
    media = FORMS[any(each.fields.get("type") == "file" for each in form)]
    lists = [each for each in form if each.fields.get("type") == "array"]
    encoding = {each.name: {"collectionFormat": each.fields.get("collectionFormat", "csv")} for each in lists}
    return Body(media, schema, pointer, True, encoding=encoding)


def media_of(value: object, body: Body) -> str:
    """The media type of a body of Swagger 2, by what the operation consumes."""
    types = [item for item in items_of(value) if isinstance(item, str) and item]
    if body.media:  # a form
        return FORMS[1] if FORMS[1] in types else body.media
    return min(types, key=_preference, default="application/json")


def is_json(media: str) -> bool:
    plain = plain_media(media)
    return plain == "application/json" or plain.endswith(("/json", "+json")) or plain == "*/*"


def is_bytes(schema: Mapping[str, Any]) -> bool:
    """Whether a text of this schema is base64 and sent as the bytes that it stands for (OpenAPI 3.0 and 3.1)."""
    return schema.get("format") == "binary" or not {"contentEncoding", "contentMediaType"}.isdisjoint(schema)


def _preference(media: str) -> int:
    """The least is best."""
    if (plain := plain_media(media)) == "application/json":
        return 0
    if is_json(media):
        return 1
    return 2 + FORMS.index(plain) if plain in FORMS else (4 if plain.startswith("text/") else 5)


def _is_scalar(schema: object) -> bool:
    kind = fields_of(schema).get("type")
    kinds = kind if isinstance(kind, list) else [kind]
    return all(each in ("string", "number", "integer", "boolean", "null") for each in kinds)


def plain_media(media: str) -> str:
    return media.partition(";")[0].strip().casefold()
