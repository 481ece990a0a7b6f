"""Operations of OpenAPI services are called as their tool's annotation `http` says: see `ingest.sources.openapi_calls`.

The document says which method, path and places of arguments; where the service is and with which credentials it is
asked says an operator alone (`services`). What a document names of its own is shown to a person, and never used.
"""

import json
import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any
from urllib.parse import quote, unquote, unquote_plus

from waygraph.ingest.execution.call import Request, ToolCall, Web, result_of
from waygraph.ingest.execution.openapi_request import (
    Body,
    Fault,
    Parameter,
    body_of,
    in_cookie,
    in_header,
    in_path,
    in_query,
    parameter_of,
)
from waygraph.ingest.execution.services import Incomplete, Login, Service, ServiceFinder, Services, confidential
from waygraph.ingest.manifest.fields import fields_of, text_of
from waygraph.ingest.sources.formats.openapi import METHODS
from waygraph.ingest.sources.formats.openapi_calls import HEADERS_NOT_SENT, PLACEHOLDER, fold_header
from waygraph.ingest.upstream.connection import Result
from waygraph.registry.http.addresses import names_user
from waygraph.registry.http.client import origin_of
from waygraph.registry.model.arguments import unknown_name
from waygraph.registry.model.errors import InvalidArguments, NotCallable
from waygraph.registry.model.nouns import Agent, parse_field
from waygraph.registry.model.settings import Settings

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
            raise NotCallable(
                call.name,
                "it does not say by which method and path it is called: ingest the service's OpenAPI document",
            )
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
            raise Elsewhere(
                f"this operation is at {own[:200]!r}, and its document says no value of {placeholder[0][:80]}"
            )
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
            if (
                value is not None
                and _TOKEN.fullmatch(parameter.name)
                and fold_header(parameter.name) not in HEADERS_NOT_SENT
            ):
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
