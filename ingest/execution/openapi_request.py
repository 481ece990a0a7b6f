"""Arguments as an HTTP request has them: OpenAPI's styles of parameters (3.1.1, 4.8.12) and Swagger 2's formats.

Pure. What stands in a path, a header or a cookie cannot leave its place there: separators in a value are escaped, and a
value that no escape makes harmless is a Fault.
"""

import binascii
import json
import re
from base64 import b64decode
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import quote, urlencode

from waygraph.ingest.manifest.fields import fields_of
from waygraph.ingest.manifest.fields import text_of as stripped
from waygraph.ingest.sources.formats.openapi_calls import is_bytes, is_json

_RESERVED_CHARS = ":/?@!$'()*,;"
"""Of RFC 3986, without those that end or part what stands in a query."""
_SWAGGER_STYLES = {"csv": "form", "ssv": "spaceDelimited", "tsv": "tabDelimited", "pipes": "pipeDelimited"}
_BETWEEN = {"form": ",", "spaceDelimited": "%20", "pipeDelimited": "%7C", "tabDelimited": "%09"}
_CONTROL = re.compile(r"[\x00-\x1f\x7f]")
MAX_DEPTH = 20
"""Of objects within objects of a `deepObject`."""


class Fault(Exception):
    """Why a value cannot be sent where it belongs. `argument` is the argument's name."""

    def __init__(self, argument: str, expected: str) -> None:
        self.argument, self.expected = argument, expected
        super().__init__(expected)


@dataclass(frozen=True, slots=True, kw_only=True)
class Parameter:
    """How one argument is sent. `style` and `explode` as they hold, defaults of its place included."""

    argument: str
    name: str
    place: str
    style: str
    explode: bool
    allows_reserved: bool = False
    content: str = ""


def parameter_of(argument: str, fields: Mapping[str, Any], *, swagger: bool) -> Parameter:
    """Of an entry of the annotation `http.parameters`."""
    place = str(fields.get("in", ""))
    style = fields.get("style") or ("simple" if place in ("path", "header") else "form")
    explode = fields.get("explode", style == "form")
    if swagger or "collectionFormat" in fields:
        multi = fields.get("collectionFormat") == "multi"
        style = _SWAGGER_STYLES.get(str(fields.get("collectionFormat")), "form") if place == "query" else "simple"
        style, explode = "form" if multi else style, multi
    return Parameter(
        argument=argument,
        name=str(fields.get("name") or argument),
        place=place,
        style=str(style),
        explode=explode is True,
        allows_reserved=fields.get("allowReserved") is True,
        content=str(fields.get("content") or ""),
    )


def text_of(value: object) -> str:
    """A value that stands alone: a text as it is, anything else as JSON has it."""
    return value if isinstance(value, str) else json.dumps(value, ensure_ascii=False, separators=(",", ":"))


# -- path ------------------------------------------------------------------------------------------


def in_path(parameter: Parameter, value: Any) -> str:
    """What stands in place of `{name}`. Raises Fault for what is empty: that would be another path."""
    if parameter.content:
        value = text_of(value)
    if value is None or value in ("", [], {}):
        raise Fault(parameter.argument, "a value that is not empty: it is part of a path")
    name, explode = quote(parameter.name, safe=""), parameter.explode
    match parameter.style:
        case "label":
            between = "." if explode else ","
            return "." + between.join(_parts(value, "=" if explode else ","))
        case "matrix" if isinstance(value, Mapping) and explode:
            return "".join(f";{part}" for part in _parts(value, "="))
        case "matrix" if isinstance(value, list) and explode:
            return "".join(f";{name}={part}" for part in _parts(value, ","))
        case "matrix":
            return f";{name}={','.join(_parts(value, ','))}"
        case _:
            return ",".join(_parts(value, "=" if explode else ","))


def _parts(value: Any, between: str, safe: str = "") -> Iterator[str]:
    """The items of a list, the pairs of an object, or the one value, each escaped."""
    if isinstance(value, Mapping):
        for key, item in value.items():
            yield f"{quote(str(key), safe=safe)}{between}{quote(text_of(item), safe=safe)}"
    else:
        for item in value if isinstance(value, list) else [value]:
            yield quote(text_of(item), safe=safe)


# -- query -----------------------------------------------------------------------------------------


def in_query(parameter: Parameter, value: Any) -> list[str]:
    """The `name=value` parts, escaped; none for null and for what is empty and has no part."""
    safe = _RESERVED_CHARS if parameter.allows_reserved else ""
    if value is None:
        return []
    if parameter.content or not isinstance(value, (list, Mapping)):
        return [_pair(parameter.name, text_of(value), safe)]
    if parameter.style == "deepObject" and isinstance(value, Mapping):
        return [_pair(name, text_of(item), safe) for name, item in _deep(parameter.name, value, MAX_DEPTH)]
    if not value:
        return []
    if parameter.explode:
        return [_pair(name, text_of(item), safe) for name, item in _explode(parameter.name, value)]
    between = _BETWEEN.get(parameter.style, ",")
    return [f"{quote(parameter.name, safe='')}={between.join(_parts(value, between, safe))}"]


def _pair(name: str, value: str, safe: str) -> str:
    return f"{quote(name, safe='[]')}={quote(value, safe=safe)}"


def _explode(name: str, value: Any) -> Iterator[tuple[str, Any]]:
    if isinstance(value, Mapping):
        yield from ((str(key), item) for key, item in value.items())
    else:
        yield from ((name, item) for item in value)


def _deep(name: str, value: Any, depth: int) -> Iterator[tuple[str, Any]]:
    """`filter[owner][name]=x`; a list repeats its name."""
    if isinstance(value, Mapping) and depth:
        for key, item in value.items():
            yield from _deep(f"{name}[{key}]", item, depth - 1)
    elif isinstance(value, list):
        yield from ((name, item) for item in value)
    elif value is not None:
        yield name, value


# -- headers and cookies ---------------------------------------------------------------------------


def in_header(parameter: Parameter, value: Any) -> str:
    """Raises Fault for what no header may hold."""
    if parameter.content or not isinstance(value, (list, Mapping)):
        text = text_of(value)
    elif isinstance(value, Mapping):
        between = "=" if parameter.explode else ","
        text = ",".join(f"{key}{between}{text_of(item)}" for key, item in value.items())
    else:
        text = ",".join(map(text_of, value))
    if _CONTROL.search(text) or not text.isascii():
        raise Fault(parameter.argument, "printable ASCII on one line: it is a header")
    return text.strip()


def in_cookie(parameter: Parameter, value: Any) -> list[tuple[str, str]]:
    """Names and escaped values."""
    if parameter.content or not isinstance(value, (list, Mapping)):
        return [(parameter.name, quote(text_of(value), safe=""))]
    if parameter.explode:
        return [(name, quote(text_of(item), safe="")) for name, item in _explode(parameter.name, value)]
    return [(parameter.name, ",".join(_parts(value, ",")))]


FORM, PARTS = "application/x-www-form-urlencoded", "multipart/form-data"
_WITH_BODY = frozenset({"POST", "PUT", "PATCH"})
_PLAIN = "application/octet-stream"
_MEDIA = re.compile(r"[\w.+-]+/[\w.+-]+(?:\s*;[ -~]*)?", re.ASCII)
_STYLES = frozenset(("style", "explode", "allowReserved", "collectionFormat"))
_SEPARATORS = {"csv": ",", "ssv": " ", "tsv": "\t", "pipes": "|"}
"""Between the items of a list in one part."""
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
    if not (body := fields_of(http.get("body"))):
        return Body()
    media = str(body.get("type") or "application/json")
    encoding = fields_of(body.get("encoding"))
    if whole := stripped(body.get("argument")):
        schema = fields_of(properties.get(whole))
        return _whole(media, whole, arguments, schema, encoding) if whole in arguments else Body()
    names = fields_of(body.get("fields"))
    parameters = fields_of(http.get("parameters"))
    values = {str(names.get(key, key)): value for key, value in arguments.items() if key not in parameters}
    if not values and http.get("method") not in _WITH_BODY:
        return Body()
    schemas = {str(names.get(key, key)): fields_of(schema) for key, schema in properties.items()}
    return _fields(_exact(media), values, schemas, encoding)


def _exact(media: str, *, is_raw: bool = False) -> str:
    """A pattern such as `*/*` is sent as what fits it best. `is_raw`: it is sent as bytes."""
    if "*" not in media:
        return media
    return "text/plain" if media.startswith("text/") else _PLAIN if is_raw else "application/json"


def _plain(media: str) -> str:
    return media.partition(";")[0].strip().casefold()


def _whole(
    pattern: str, argument: str, arguments: Mapping[str, Any], schema: Mapping[str, Any], encoding: Mapping[str, Any]
) -> Body:
    value, media = arguments[argument], _exact(pattern, is_raw=is_bytes(schema))
    if _plain(media) in (FORM, PARTS) and isinstance(value, Mapping):
        return _fields(media, value, fields_of(schema.get("properties")), encoding)
    if is_bytes(schema):
        return Body(media=media, content=_bytes(argument, value))
    if isinstance(value, str) and not is_json(media):
        return Body(media=media, content=value.encode())
    return _json_body(media, value)


def _json_body(media: str, value: Any) -> Body:
    """An object is no list of operations: where a document names a JSON Patch first, it is sent as a merge patch."""
    is_patch = _plain(media) == "application/json-patch+json" and isinstance(value, Mapping)
    return Body(media="application/merge-patch+json" if is_patch else media, content=_json(value))


def _fields(
    media: str, values: Mapping[str, Any], schemas: Mapping[str, Mapping[str, Any]], encoding: Mapping[str, Any]
) -> Body:
    match _plain(media):
        case "application/x-www-form-urlencoded":
            return Body(media=media, content="&".join(_pairs(values, encoding)).encode())
        case "multipart/form-data":
            parts = (
                part
                for name, value in values.items()
                for part in _body_parts(name, value, schemas.get(name, {}), fields_of(encoding.get(name)))
            )
            return Body(media=media, parts=tuple(parts))
        case _:
            return _json_body(media, values)


def _pairs(values: Mapping[str, Any], encoding: Mapping[str, Any]) -> Iterator[str]:
    """Objects as JSON, lists as repeated names, as OpenAPI has it where no encoding is stated."""
    for name, value in values.items():
        if _STYLES.isdisjoint(words := fields_of(encoding.get(name))):
            items = value if isinstance(value, list) else [value]
            yield from (urlencode([(name, text_of(item))]) for item in items if item is not None)
        else:
            yield from in_query(parameter_of(name, {**words, "in": "query"}, swagger=False), value)


def _body_parts(name: str, value: Any, schema: Mapping[str, Any], encoding: Mapping[str, Any]) -> Iterator[Part]:
    items = fields_of(schema.get("items")) if isinstance(value, list) else schema
    media = _first_media(encoding)
    if isinstance(value, list) and (between := _SEPARATORS.get(str(encoding.get("collectionFormat")))):
        value = between.join(map(text_of, value))
    for item in value if isinstance(value, list) else [value]:
        if is_bytes(items):
            yield name, (name, _bytes(name, item), media or str(items.get("contentMediaType") or _PLAIN))
        elif isinstance(item, (Mapping, list)):
            yield name, (None, _json(item), media or "application/json")
        elif item is not None:
            yield name, (None, text_of(item).encode(), media or None)


def _first_media(encoding: Mapping[str, Any]) -> str:
    """The media type of a part, of several the first; empty: none is stated, or only a pattern."""
    media = stripped(encoding.get("contentType")).partition(",")[0].strip()
    return media if _MEDIA.fullmatch(media) else ""


def _bytes(argument: str, value: object) -> bytes:
    try:
        return b64decode(value, validate=True) if isinstance(value, str) else _json(value)
    except (binascii.Error, ValueError):
        raise Fault(argument, "base64: it is sent as bytes") from None


def _json(value: object) -> bytes:
    return json.dumps(value, ensure_ascii=False, separators=(",", ":")).encode("utf-8", "surrogatepass")
