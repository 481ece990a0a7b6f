"""What a host takes, by the protocol's own schema: what does not fit is left out, and costs no more than itself.

A host on the strictest official SDK, that in TypeScript, refuses a whole list for one field of one item. So foreign
values pass this rule on their way to a host. An optional field that is null or does not fit is left out, and so is an
item of a list that cannot be mended. Fields that the protocol does not know stay.

The schemas are those of the wire types of the Python SDK. `_BESIDE` adds what official SDKs check beyond them.
"""

import json
import re
from collections.abc import Mapping
from functools import cache
from sys import modules
from typing import Any, Final

from mcp.types.methods import SERVER_REQUESTS, SERVER_RESULTS
from pydantic import AnyUrl, TypeAdapter, ValidationError

from waygraph.registry.catalog.tool_formats import Validator, is_valid, validator_of

VERSION = "2025-11-25"
"""Of the protocol: the last one with a handshake. Its schema is the strictest; later ones take more."""

type Schema = dict[str, Any]

_LARGEST_INTEGER = 2**53 - 1
"""That a JavaScript host takes as an integer."""
_BESIDE: Mapping[str, Schema] = {
    "blob": {"format": "base64"},
    "data": {"format": "base64"},
    "lastModified": {"format": "timestamp"},
    "size": {"minimum": 0},
    "uri": {"format": "url"},
    "url": {"format": "url"},
}
"""By the name of a field: its form, where the schema says no more than its type. `url`: with a scheme."""
_META: Schema = {
    "type": "object",
    "properties": {
        "progressToken": {"anyOf": [{"type": "string"}, {"type": "integer"}]},
        "io.modelcontextprotocol/related-task": {
            "type": "object",
            "properties": {"taskId": {"type": "string"}},
            "required": ["taskId"],
        },
    },
    "additionalProperties": True,
}
_BASE64 = re.compile(r"[A-Za-z0-9+/]*={0,2}")
_TIMESTAMP = re.compile(
    r"\d{4}-(?:0[1-9]|1[0-2])-(?:0[1-9]|[12]\d|3[01])T(?:[01]\d|2[0-3]):[0-5]\d(?::[0-5]\d(?:\.\d+)?)?"
    r"(?:Z|[+-](?:[01]\d|2[0-3]):[0-5]\d)",
    re.ASCII,
)
_URL: Final = TypeAdapter(AnyUrl)


class Unfit:
    """In place of a value that cannot be mended."""


UNFIT: Final = Unfit()


def mend_result(method: str, result: Mapping[str, Any]) -> Mapping[str, Any] | Unfit:
    """The result of a method as a host takes it; the same object if nothing is wrong with it."""
    mended: Mapping[str, Any] | Unfit = _mend(_shape_of_result(method), result)
    return mended


def mend_item(method: str, field: str, item: Any) -> Any:
    """One item of the list that a result has in this field; UNFIT if it cannot be mended."""
    return _mend(_shape_of_item(method, field), item)


def mend_question(method: str, params: Mapping[str, Any]) -> Any:
    """The parameters of a request to a host; UNFIT if they cannot be mended."""
    return _mend(_shape_of_question(method), params)


def _mend(shape: "_Shape", value: Any) -> Any:
    return value if shape.fits(value) else shape.mend(value, shape.schema)


class _Shape:
    """One schema of the protocol, with the definitions that it refers to."""

    def __init__(self, schema: Schema, definitions: Mapping[str, Schema]) -> None:
        self.schema, self._definitions = schema, definitions
        self._validator = _validator({**schema, "$defs": dict(definitions)})

    def fits(self, value: Any) -> bool:
        return is_valid(self._validator, value)

    def mend(self, value: Any, schema: Schema) -> Any:
        if reference := schema.get("$ref"):
            return self.mend(value, self._definitions[reference.rpartition("/")[2]])
        if alternatives := schema.get("anyOf"):
            # As the alternative that it fits as it is, else as the first as which it can be mended.
            mended = [each for each in (self.mend(value, one) for one in alternatives) if each is not UNFIT]
            return next((each for each in mended if each == value), mended[0] if mended else UNFIT)
        if schema.get("type") == "object":
            return self._mend_object(value, schema) if isinstance(value, Mapping) else UNFIT
        if schema.get("type") == "array":
            if not isinstance(value, list):
                return UNFIT
            items = (self.mend(each, schema.get("items", {})) for each in value)
            return [each for each in items if each is not UNFIT]
        return value if not schema or is_valid(_validator_of_leaf(json.dumps(schema)), value) else UNFIT

    def _mend_object(self, value: Mapping[str, Any], schema: Schema) -> Any:
        properties, required = schema.get("properties", {}), schema.get("required", ())
        others = schema.get("additionalProperties", True)
        kept: dict[str, Any] = {}
        for name, each in value.items():
            known = properties.get(name, others)
            mended = each if known is True else self.mend(each, known)
            if mended is not UNFIT:
                kept[name] = mended
            elif name not in properties:  # what a map of named things says of one cannot be taken from the others
                return UNFIT
        return kept if all(name in kept for name in required) else UNFIT


@cache
def _shape_of_result(method: str) -> _Shape:
    schema, definitions = _schema_of(SERVER_RESULTS[method, VERSION])
    properties = dict(schema["properties"])
    # A host of the modern era takes any value; for one of the handshake era it is made an object or a text elsewhere.
    properties |= {"structuredContent": {"type": ["object", "array", "string", "number", "boolean"]}}
    return _Shape(schema | {"properties": properties | {"_meta": _META}}, definitions)


@cache
def _shape_of_item(method: str, field: str) -> _Shape:
    schema, definitions = _schema_of(SERVER_RESULTS[method, VERSION])
    return _Shape(schema["properties"][field]["items"], definitions)


@cache
def _shape_of_question(method: str) -> _Shape:
    schema, definitions = _schema_of(SERVER_REQUESTS[method, VERSION])
    if form := definitions.get("RequestedSchema"):
        # What a form may ask for stands beside the wire type; the public types leave it open.
        wire_types = modules[SERVER_REQUESTS[method, VERSION].__module__]
        fields, of_fields = _schema_of(dict[str, wire_types.PrimitiveSchemaDefinition])  # type: ignore[name-defined]
        fields["additionalProperties"]["anyOf"].reverse()  # the SDK's first one is any text, also one of a choice
        form["properties"]["properties"], definitions = fields, {**definitions, **of_fields}
    return _Shape(schema["properties"]["params"], definitions)


def _schema_of(wire_type: Any) -> tuple[Schema, Mapping[str, Schema]]:
    schema = TypeAdapter(wire_type).json_schema(by_alias=True)
    strict: Schema = _make_strict(schema, "")
    return strict, strict.pop("$defs", {})


def _make_strict(schema: Any, name: str) -> Any:
    """Of a field called `name`: no null in place of nothing, and the form that a host checks."""
    if isinstance(schema, list):
        return [_make_strict(each, name) for each in schema]
    if not isinstance(schema, dict):
        return schema
    if "anyOf" in schema:
        # The other one is a schema that is true or false.
        left_out = ({"type": "null"}, {"type": "boolean"}) if len(schema["anyOf"]) > 1 else ()
        some = [_make_strict(each, name) for each in schema["anyOf"] if each not in left_out] or [{"type": "boolean"}]
        return some[0] if len(some) == 1 else {"anyOf": some}
    strict = {key: value for key, value in schema.items() if key not in ("default", "description", "title")}
    for key in ("properties", "$defs"):
        if isinstance(schema.get(key), dict):
            strict[key] = {each: _make_strict(value, each) for each, value in schema[key].items()}
    for key in ("items", "additionalProperties"):
        if key in schema:
            strict[key] = _make_strict(schema[key], "")
    if strict.get("type") == "integer":
        strict |= {"minimum": -_LARGEST_INTEGER, "maximum": _LARGEST_INTEGER}
    return strict | (_BESIDE.get(name, {}) if strict.get("type") in ("string", "integer") else {})


@cache
def _validator_of_leaf(schema: str) -> Validator:
    return _validator(json.loads(schema))


def _validator(schema: Schema) -> Validator:
    return validator_of(schema, {"base64": _is_base64, "timestamp": _is_timestamp, "url": is_url})


def _is_base64(text: str) -> bool:
    """As a browser takes it."""
    packed = text if text.isalnum() else re.sub(r"[ \t\n\f\r]+", "", text)
    bare = packed.rstrip("=")
    padded = len(packed) % 4 == 0 or len(bare) == len(packed)
    return padded and len(bare) % 4 != 1 and _BASE64.fullmatch(packed) is not None


def _is_timestamp(text: str) -> bool:
    return _TIMESTAMP.fullmatch(text) is not None


def is_url(text: str) -> bool:
    """Whether a host takes it as an address: it has a scheme."""
    try:
        _URL.validate_python(text)
    except ValidationError:
        return False
    return True
