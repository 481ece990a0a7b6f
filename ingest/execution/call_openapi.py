"""Operations of OpenAPI services are called as their tool's annotation `http` says: see `ingest.sources.openapi_calls`.

The document says which method, path and places of arguments; where the service is and with which credentials it is
asked says an operator alone (`services`). What a document names of its own is shown to a person, and never used.

Arguments are written by OpenAPI's styles of parameters (3.1.1, 4.8.12) and Swagger 2's formats. What stands in a path,
a header or a cookie cannot leave its place there: separators in a value are escaped, and a value that no escape makes
harmless is a Fault.
"""

import binascii
import json
import re
from base64 import b64decode
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import quote, unquote, unquote_plus, urlencode

from waygraph.ingest.execution.call import Part, Request, ToolCall, Web, result_of
from waygraph.ingest.execution.services import Incomplete, Login, Service, ServiceFinder, Services, confidential
from waygraph.ingest.manifest.fields import fields_of, text_of
from waygraph.ingest.sources.formats.openapi import METHODS
from waygraph.ingest.sources.formats.openapi_calls import (
    FORMS,
    HEADERS_NOT_SENT,
    PLACEHOLDER,
    STYLE_FIELDS,
    fold_header,
    is_bytes,
    is_json,
    plain_media,
)
from waygraph.ingest.upstream.connection import Result
from waygraph.registry.http.addresses import names_user
from waygraph.registry.http.client import origin_of
from waygraph.registry.model.arguments import unknown_name
from waygraph.registry.model.errors import InvalidArguments, NotCallable
from waygraph.registry.model.nouns import Agent, parse_field
from waygraph.registry.model.settings import Settings

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


def value_text(value: object) -> str:
    """A value that stands alone: a text as it is, anything else as JSON has it."""
    return value if isinstance(value, str) else json.dumps(value, ensure_ascii=False, separators=(",", ":"))


# -- path ------------------------------------------------------------------------------------------


def in_path(parameter: Parameter, value: Any) -> str:
    """What stands in place of `{name}`. Raises Fault for what is empty: that would be another path."""
    if parameter.content:
        value = value_text(value)
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
            yield f"{quote(str(key), safe=safe)}{between}{quote(value_text(item), safe=safe)}"
    else:
        for item in value if isinstance(value, list) else [value]:
            yield quote(value_text(item), safe=safe)


# -- query -----------------------------------------------------------------------------------------


def in_query(parameter: Parameter, value: Any) -> list[str]:
    """The `name=value` parts, escaped; none for null and for what is empty and has no part."""
    safe = _RESERVED_CHARS if parameter.allows_reserved else ""
    if value is None:
        return []
    if parameter.content or not isinstance(value, (list, Mapping)):
        return [_pair(parameter.name, value_text(value), safe)]
    if parameter.style == "deepObject" and isinstance(value, Mapping):
        return [_pair(name, value_text(item), safe) for name, item in _deep(parameter.name, value, MAX_DEPTH)]
    if not value:
        return []
    if parameter.explode:
        return [_pair(name, value_text(item), safe) for name, item in _explode(parameter.name, value)]
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
        text = value_text(value)
    elif isinstance(value, Mapping):
        between = "=" if parameter.explode else ","
        text = ",".join(f"{key}{between}{value_text(item)}" for key, item in value.items())
    else:
        text = ",".join(map(value_text, value))
    if _CONTROL.search(text) or not text.isascii():
        raise Fault(parameter.argument, "printable ASCII on one line: it is a header")
    return text.strip()


def in_cookie(parameter: Parameter, value: Any) -> list[tuple[str, str]]:
    """Names and escaped values."""
    if parameter.content or not isinstance(value, (list, Mapping)):
        return [(parameter.name, quote(value_text(value), safe=""))]
    if parameter.explode:
        return [(name, quote(value_text(item), safe="")) for name, item in _explode(parameter.name, value)]
    return [(parameter.name, ",".join(_parts(value, ",")))]


_WITH_BODY = frozenset({"POST", "PUT", "PATCH"})
_PLAIN = "application/octet-stream"
_MEDIA = re.compile(r"[\w.+-]+/[\w.+-]+(?:\s*;[ -~]*)?", re.ASCII)
_SEPARATORS = {"csv": ",", "ssv": " ", "tsv": "\t", "pipes": "|"}
"""Between the items of a list in one part."""


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
    if whole := text_of(body.get("argument")):
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


def _whole(
    pattern: str, argument: str, arguments: Mapping[str, Any], schema: Mapping[str, Any], encoding: Mapping[str, Any]
) -> Body:
    value, media = arguments[argument], _exact(pattern, is_raw=is_bytes(schema))
    if plain_media(media) in FORMS and isinstance(value, Mapping):
        return _fields(media, value, fields_of(schema.get("properties")), encoding)
    if is_bytes(schema):
        return Body(media=media, content=_bytes(argument, value))
    if isinstance(value, str) and not is_json(media):
        return Body(media=media, content=value.encode())
    return _json_body(media, value)


def _json_body(media: str, value: Any) -> Body:
    """An object is no list of operations: where a document names a JSON Patch first, it is sent as a merge patch."""
    is_patch = plain_media(media) == "application/json-patch+json" and isinstance(value, Mapping)
    return Body(media="application/merge-patch+json" if is_patch else media, content=_json(value))


def _fields(
    media: str, values: Mapping[str, Any], schemas: Mapping[str, Mapping[str, Any]], encoding: Mapping[str, Any]
) -> Body:
    match plain_media(media):
        case "application/x-www-form-urlencoded":
            return Body(media=media, content="&".join(_pairs(values, encoding)).encode())
        case "multipart/form-data":
            parts = list[Part]()
            for name, value in values.items():
                parts += _body_parts(name, value, schemas.get(name, {}), fields_of(encoding.get(name)))
            return Body(media=media, parts=tuple(parts))
        case _:
            return _json_body(media, values)


def _pairs(values: Mapping[str, Any], encoding: Mapping[str, Any]) -> Iterator[str]:
    """Objects as JSON, lists as repeated names, as OpenAPI has it where no encoding is stated."""
    for name, value in values.items():
        if (words := fields_of(encoding.get(name))).keys().isdisjoint(STYLE_FIELDS):
            items = value if isinstance(value, list) else [value]
            yield from (urlencode([(name, value_text(item))]) for item in items if item is not None)
        else:
            yield from in_query(parameter_of(name, {**words, "in": "query"}, swagger=False), value)


def _body_parts(name: str, value: Any, schema: Mapping[str, Any], encoding: Mapping[str, Any]) -> Iterator[Part]:
    items = fields_of(schema.get("items")) if isinstance(value, list) else schema
    # Of several the first; empty: none is stated, or only a pattern.
    media = text_of(encoding.get("contentType")).partition(",")[0].strip()
    media = media if _MEDIA.fullmatch(media) else ""
    if isinstance(value, list) and (between := _SEPARATORS.get(str(encoding.get("collectionFormat")))):
        value = between.join(map(value_text, value))
    for item in value if isinstance(value, list) else [value]:
        if is_bytes(items):
            yield name, (name, _bytes(name, item), media or str(items.get("contentMediaType") or _PLAIN))
        elif isinstance(item, (Mapping, list)):
            yield name, (None, _json(item), media or "application/json")
        elif item is not None:
            yield name, (None, value_text(item).encode(), media or None)


def _bytes(argument: str, value: object) -> bytes:
    try:
        return b64decode(value, validate=True) if isinstance(value, str) else _json(value)
    except (binascii.Error, ValueError):
        raise Fault(argument, "base64: it is sent as bytes") from None


def _json(value: object) -> bytes:
    return json.dumps(value, ensure_ascii=False, separators=(",", ":")).encode("utf-8", "surrogatepass")


_TOKEN = re.compile(r"[A-Za-z0-9!#$%&'*+.^_`|~-]+")
_BETWEEN_PARTS = re.compile(r"[/\\]")
_ACCEPT = "application/json, */*;q=0.5"


@dataclass(frozen=True, slots=True, kw_only=True)
class OpenApiCaller:
    """A ToolCaller for agents of the kind `openapi`."""

    finder: ServiceFinder
    web: Web
    settings: Settings

    async def call(self, call: ToolCall) -> Result:
        """As `ToolCaller.call`; an answer of status 400 and above is a result that is an error.

        Raises InvalidArguments for values that cannot be sent where they belong.
        """
        name = call.name
        operation = Operation.of(call)
        if (service := await self.finder.service(call.agent)) is None:
            raise NotCallable(name, not_configured(call.agent, self.finder.services))
        try:
            login = service.login(self.finder.surroundings)
            request = operation.request(call.arguments, service, login)
        except (Incomplete, Elsewhere) as reason:
            raise NotCallable(name, f"{reason} ({self.finder.place_of(service)})") from None
        except Fault as fault:
            raise InvalidArguments(name, [(f"/{fault.argument}", fault.expected)]) from None
        return result_of(await self.web.ask(request), name, confidential(login, service.base_url), self.settings)


class Elsewhere(Exception):
    """Why an operation is not at the address that is configured."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Operation:
    """What a tool's annotation says of its operation, and of which version of OpenAPI it is."""

    http: Mapping[str, Any]
    properties: Mapping[str, Any]
    swagger: bool

    @classmethod
    def of(cls, call: ToolCall) -> "Operation":
        """Raises NotCallable for a tool that does not say how it is called."""
        http = fields_of(fields_of(parse_field(call.tool.annotations)).get("http"))
        method, path = text_of(http.get("method")), text_of(http.get("path"))
        if method.lower() not in METHODS or not path.startswith("/"):
            reason = "it does not say by which method and path it is called: ingest the service's OpenAPI document"
            raise NotCallable(call.name, reason)
        spec = fields_of(fields_of(parse_field(call.agent.transport)).get("spec"))
        properties = fields_of(fields_of(parse_field(call.tool.input_schema)).get("properties"))
        return cls(http=http, properties=properties, swagger="swagger" in spec)

    def request(self, arguments: Mapping[str, Any], service: Service, login: Login) -> Request:
        """Raises Fault, Elsewhere."""
        self._refuse_unsent(arguments)
        body = body_of(self.http, arguments, self.properties)
        query = [
            *_without(self._query(arguments), login),
            *(f"{quote(name)}={quote(text, safe='')}" for name, text in login.query.items()),
        ]
        path, _, fixed_query = self._path(arguments).partition("?")
        query_text = "&".join(filter(None, (*_without(fixed_query.split("&"), login), *query)))
        return Request(
            method=str(self.http["method"]).upper(),
            url=f"{self._base(service)}{path}{'?' if query_text else ''}{query_text}",
            headers=self._headers(arguments, login, body),
            content=body.content,
            parts=body.parts,
            allow_private=service.allow_private,
        )

    def _refuse_unsent(self, arguments: Mapping[str, Any]) -> None:
        """Raises Fault for an argument that would go nowhere: a document may list fewer than an operation takes."""
        body, parameters = fields_of(self.http.get("body")), fields_of(self.http.get("parameters"))
        names = {*parameters, *filter(None, [text_of(body.get("argument"))])}
        for name in arguments if not body or "argument" in body else ():
            if name not in names:
                raise Fault(name, unknown_name(name, names))

    def _base(self, service: Service) -> str:
        """That of the service, or the address of its own that an operation has on an origin that is configured."""
        if not (own := text_of(self.http.get("server")).rstrip("/")):
            return service.base_url
        if names_user(own):
            raise Elsewhere("this operation names a login in its own address, and none but an operator's is used")
        if placeholder := PLACEHOLDER.search(own):
            name = placeholder[0][:80]
            raise Elsewhere(f"this operation is at {own[:200]!r}, and its document says no value of {name}")
        if own.startswith("/") and not own.startswith("//"):
            return origin_of(service.base_url) + own
        if origin_of(own) in (origin_of(service.base_url), *service.also) and "?" not in own and "#" not in own:
            return own
        raise Elsewhere(f"this operation is at {own[:200]!r}; if you trust that origin, write it under `also`")

    def _path(self, arguments: Mapping[str, Any]) -> str:
        parameters = {each.name: each for each in self._parameters("path")}

        def value(name: str) -> str:
            if (parameter := parameters.get(name)) is None or parameter.argument not in arguments:
                raise Fault(name, "a value: it is part of the path")
            return in_path(parameter, arguments[parameter.argument])

        template, _, fixed_query = str(self.http["path"]).partition("#")[0].partition("?")
        pieces = PLACEHOLDER.split(template)  # text, name, text, name …
        path = "".join(
            value(piece) if place % 2 else quote(piece, safe="/:@!$&'()*+,;=~%") for place, piece in enumerate(pieces)
        )
        if _leads_elsewhere(path) or path.startswith("//"):
            leading = [name for name in pieces[1::2] if _leads_elsewhere(value(name))] or pieces[1::2]
            argument = parameters[leading[0]].argument if leading else ""
            raise Fault(argument, "a value that leaves the path where it is: no part of it may be . or ..")
        query = "".join(
            quote(value(piece), safe="%") if place % 2 else quote(piece, safe="=&:/%+,;@")
            for place, piece in enumerate(PLACEHOLDER.split(fixed_query))
        )
        return f"{path}?{query}" if query else path

    def _query(self, arguments: Mapping[str, Any]) -> Iterator[str]:
        for parameter in self._parameters("query"):
            if parameter.argument in arguments:
                yield from in_query(parameter, arguments[parameter.argument])

    def _headers(self, arguments: Mapping[str, Any], login: Login, body: Body) -> dict[str, str]:
        """What an operator sends stands before what an argument says."""
        headers = {"Accept": _ACCEPT}
        for parameter in self._parameters("header"):
            value = arguments.get(parameter.argument)
            is_legal = _TOKEN.fullmatch(parameter.name) and fold_header(parameter.name) not in HEADERS_NOT_SENT
            if value is not None and is_legal:
                headers[parameter.name] = in_header(parameter, value)
        if body.content:
            headers["Content-Type"] = body.media
        if cookies := "; ".join(self._cookies(arguments, login)):
            headers["Cookie"] = cookies
        own = {fold_header(name) for name in login.headers}
        return {**{name: value for name, value in headers.items() if fold_header(name) not in own}, **login.headers}

    def _cookies(self, arguments: Mapping[str, Any], login: Login) -> Iterator[str]:
        for parameter in self._parameters("cookie"):
            value = arguments.get(parameter.argument)
            for name, text in in_cookie(parameter, value) if value is not None else ():
                if _TOKEN.fullmatch(name) and name not in login.cookies:
                    yield f"{name}={text}"
        yield from (f"{name}={text}" for name, text in login.cookies.items())

    def _parameters(self, place: str) -> Iterator[Parameter]:
        for argument, fields in fields_of(self.http.get("parameters")).items():
            if fields_of(fields).get("in") == place:
                yield parameter_of(argument, fields_of(fields), swagger=self.swagger)


def _leads_elsewhere(path: str) -> bool:
    """Also within a part: many servers and proxies take an escaped slash for one before they look at dots, and some
    leave out what follows a semicolon.
    """
    return any(part.partition(";")[0] in (".", "..") for part in _BETWEEN_PARTS.split(unquote(path)))


def _without(parts: Iterable[str], login: Login) -> Iterator[str]:
    """Of a query, what an operator sends is sent by nobody else."""
    return (part for part in parts if unquote_plus(part.partition("=")[0]) not in login.query)


def not_configured(agent: Agent, services: Services) -> str:
    """What to write where."""
    address = text_of(fields_of(parse_field(agent.transport)).get("url"))
    url = address[:200] if address.isprintable() else ""
    says = f"; its document names {url!r}, which you have to check" if url else ""
    name = json.dumps(agent.id, ensure_ascii=False)
    return (
        "it is not configured where its service is. What its document says is not enough: write "
        f'[[service]] agent = {name} base_url = "https://…" (three lines{says}; with `auth` if it needs a login: '
        f"docs/calling.md) into {services.where_to_write()}"
    )
