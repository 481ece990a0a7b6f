"""The body of a request, by the media type that an operation takes."""

import binascii
import json
from base64 import b64decode
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import urlencode

from waygraph.ingest.calling.parameters import Fault, text_of
from waygraph.ingest.sources.foreign import fields_of
from waygraph.ingest.sources.foreign import text_of as stripped
from waygraph.ingest.sources.openapi_calls import is_bytes, is_json

FORM, PARTS = "application/x-www-form-urlencoded", "multipart/form-data"
_WITH_BODY = frozenset({"POST", "PUT", "PATCH"})
_PLAIN = "application/octet-stream"
Part = tuple[str, tuple[str | None, bytes, str | None]]
"""Name of a field; file name, content, media type."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Body:
    """What is sent: `content` as `media` type, or `parts` of a multipart body. Neither: nothing."""

    media: str = ""
    content: bytes = field(default=b"", repr=False)
    parts: tuple[Part, ...] = field(default=(), repr=False)


def body_of(http: Mapping[str, Any], arguments: Mapping[str, Any], properties: Mapping[str, Any]) -> Body:
    """Of the annotation `http` and the arguments that are no parameters. `properties`: the schemas of all arguments.

    Raises Fault for what cannot be sent so.
    """
    told = fields_of(http.get("body"))
    if not told:
        return Body()
    media = _exact(str(told.get("type") or "application/json"))
    if whole := stripped(told.get("argument")):
        return _whole(media, whole, arguments, fields_of(properties.get(whole))) if whole in arguments else Body()
    names = fields_of(told.get("fields"))
    parameters = fields_of(http.get("parameters"))
    given = {str(names.get(key, key)): value for key, value in arguments.items() if key not in parameters}
    if not given and http.get("method") not in _WITH_BODY:
        return Body()
    schemas = {str(names.get(key, key)): fields_of(schema) for key, schema in properties.items()}
    return _fields(media, given, schemas)


def _exact(media: str) -> str:
    """A pattern such as `*/*` is sent as what fits it best."""
    return "application/json" if "*" in media else media


def _plain(media: str) -> str:
    return media.partition(";")[0].strip().casefold()


def _whole(media: str, argument: str, arguments: Mapping[str, Any], schema: Mapping[str, Any]) -> Body:
    value = arguments[argument]
    if _plain(media) in (FORM, PARTS) and isinstance(value, Mapping):
        return _fields(media, value, fields_of(schema.get("properties")))
    if is_bytes(schema):
        return Body(media=media, content=_bytes(argument, value))
    if isinstance(value, str) and not is_json(media):
        return Body(media=media, content=value.encode())
    return Body(media=media, content=_json(value))


def _fields(media: str, given: Mapping[str, Any], schemas: Mapping[str, Mapping[str, Any]]) -> Body:
    match _plain(media):
        case "application/x-www-form-urlencoded":
            return Body(media=media, content=urlencode(list(_pairs(given))).encode())
        case "multipart/form-data":
            parts = (part for name, value in given.items() for part in _parts(name, value, schemas.get(name, {})))
            return Body(media=media, parts=tuple(parts))
        case _:
            return Body(media=media, content=_json(given))


def _pairs(given: Mapping[str, Any]) -> Iterator[tuple[str, str]]:
    """Objects as JSON, lists as repeated names, as OpenAPI has it where no encoding is told."""
    for name, value in given.items():
        for item in value if isinstance(value, list) else [value]:
            if item is not None:
                yield name, text_of(item)


def _parts(name: str, value: Any, schema: Mapping[str, Any]) -> Iterator[Part]:
    items = fields_of(schema.get("items")) if isinstance(value, list) else schema
    for item in value if isinstance(value, list) else [value]:
        if is_bytes(items):
            yield name, (name, _bytes(name, item), str(items.get("contentMediaType") or _PLAIN))
        elif isinstance(item, (Mapping, list)):
            yield name, (None, _json(item), "application/json")
        elif item is not None:
            yield name, (None, text_of(item).encode(), None)


def _bytes(argument: str, value: object) -> bytes:
    try:
        return b64decode(value, validate=True) if isinstance(value, str) else _json(value)
    except (binascii.Error, ValueError):
        raise Fault(argument, "base64: it is sent as bytes") from None


def _json(value: object) -> bytes:
    return json.dumps(value, ensure_ascii=False, separators=(",", ":")).encode("utf-8", "surrogatepass")
