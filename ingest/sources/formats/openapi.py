"""OpenAPI 3.0, 3.1, 3.2 and Swagger 2: a service is an agent, each of its operations a tool.

How a tool is called over HTTP is kept in its annotations: see `openapi_calls`. What is in `webhooks` and `callbacks`
is called by the service, and is no tool.
"""

import re
from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from itertools import islice
from pathlib import PurePath
from typing import Any
from urllib.parse import urljoin, urlsplit

from waygraph.ingest.manifest.fields import escape_pointer, fields_of, items_of, scalar_of, tags_of, text_of, version_of
from waygraph.ingest.manifest.records import AgentRecord, Intake, ToolRecord, is_lines, shape_of
from waygraph.ingest.manifest.transport import references_only
from waygraph.ingest.sources.formats.openapi_calls import (
    MAX_MEDIA,
    Arguments,
    body_of,
    is_json,
    media_of,
    parameters_of,
)
from waygraph.ingest.sources.formats.openapi_schemas import MAX_SCHEMA_CHARS, Schemas, is_object
from waygraph.registry.index.analyser import fold
from waygraph.registry.model.identity import digest, name_fault

SHAPE = '{"openapi": "3.…", "info": {"title": …}, "paths": {…}}, or the same with "swagger": "2.0"'
METHODS = ("get", "put", "post", "delete", "options", "head", "patch", "trace", "query")
_SAFE = frozenset(("get", "head", "options", "trace", "query"))
"""Methods that only ask (RFC 9110, 9.2.1)."""
_REPEATABLE = frozenset(("put", "delete"))
MAX_OPERATIONS = 20_000
MAX_SHARED = 20
"""So many paths may refer to one description of what can be done there."""
MAX_TOOL_NAME_CHARS = 128
DEPRECATED = "deprecated"
_VERSION = re.compile(r"[23](\.|$)")
_ANSWERS = re.compile(r"2\d\d|2[xX]{2}|default")


def fits(document: Any) -> bool:
    return (
        isinstance(document, Mapping)
        and ("openapi" in document or "swagger" in document)
        and ("info" in document or "paths" in document)
    )


def read(document: Any, where: str, intake: Intake) -> Iterator[AgentRecord]:
    """The agent's key is the title of the service, or the file's name where it has none."""
    word = "openapi" if "openapi" in document else "swagger"
    if not _VERSION.match(version := scalar_of(document[word])):
        found = repr(version[:20]) if version else shape_of(document[word])
        intake.reject_agent(f"/{word}", f"this Waygraph reads OpenAPI 3 and Swagger 2, found {found}")
        return
    yield _Service(document, where, intake).agent()


@dataclass(slots=True)
class _Service:
    document: Mapping[str, Any]
    where: str
    intake: Intake
    schemas: Schemas = field(init=False)
    names: set[str] = field(default_factory=set)
    """Of the tools so far."""

    def __post_init__(self) -> None:
        self.schemas = Schemas(self.document, self.intake.note_cut)

    def agent(self) -> AgentRecord:
        info = fields_of(self.document.get("info"))
        title = text_of(info.get("title"))
        key = PurePath(self.where.partition("?")[0]).stem if name_fault(title) else title
        tools = list(self._tools())
        tags = tags_of(tag for tool in tools if is_lines(tool.tags) for tag in tool.tags)
        return AgentRecord(
            pointer="/info",
            key=key,
            name="" if name_fault(title) else title,
            description="\n\n".join(filter(None, map(text_of, (info.get("summary"), info.get("description"))))),
            kind="openapi",
            version=version_of(info.get("version")),
            transport=self._transport(key),
            tags=[tag for tag in tags if tag != DEPRECATED],
            tools=tools,
        )

    def _transport(self, title: str) -> dict[str, object]:
        """Where the service is. Its title too: several may have one address."""
        spec = "openapi" if "openapi" in self.document else "swagger"
        transport = _address(self._servers(self.document), self.where)
        transport["spec"] = {"title": title, spec: scalar_of(self.document[spec])[:20]}
        schemes = fields_of(self.document.get("components")).get("securitySchemes")
        if named := tags_of(fields_of(schemes or self.document.get("securityDefinitions"))):
            transport["security"] = sorted(named)
        return transport

    def _servers(self, stated: Mapping[str, Any]) -> list[str]:
        """The addresses, with the defaults of their variables; of Swagger 2 the one of each scheme."""
        if host := text_of(stated.get("host")):
            schemes = [text_of(scheme) for scheme in items_of(stated.get("schemes"))] or ["https"]
            path = text_of(stated.get("basePath"))
            return [f"{scheme}://{host}{path}" for scheme in sorted(schemes, key="https".__ne__)]
        if "servers" not in stated:
            return list(filter(None, [text_of(stated.get("basePath"))]))
        return list(filter(None, map(_server, items_of(stated["servers"]))))

    # -- operations --------------------------------------------------------------------------------

    def _tools(self) -> Iterator[ToolRecord]:
        count = 0
        for path, method, item, operation, pointer in self._operations():
            count += 1
            if count > MAX_OPERATIONS:
                self.intake.reject("/paths", f"of more operations than {MAX_OPERATIONS} the others are left out")
                return
            if not isinstance(operation, Mapping):
                self.intake.reject(pointer, f"expected an operation object, found {shape_of(operation)}")
                continue
            yield self._tool(path, method, item, operation, pointer)

    def _operations(self) -> Iterator[tuple[str, str, Mapping[str, Any], object, str]]:
        """Path, method, what holds for the whole path, the operation and its pointer."""
        paths = self.document.get("paths")
        if paths is not None and not isinstance(paths, Mapping):
            self.intake.reject("/paths", f"expected an object, found {shape_of(paths)}")
        shared: Counter[str] = Counter()
        for path, stated in fields_of(paths).items():
            if str(path).startswith("x-"):
                continue
            place = f"/paths/{escape_pointer(path)}"
            item, pointer = self.schemas.follow(stated, place)
            shared[pointer] += 1
            if not isinstance(item, Mapping) or shared[pointer] > MAX_SHARED:
                self.intake.reject(place, f"expected what can be done at a path, {_instead(item, stated)}")
                continue
            methods = [method for method in METHODS if method in item]
            if not methods:
                self.intake.note_cut(place, "there is nothing that can be done at this path")
            for method in methods:
                yield str(path), method, item, item[method], f"{pointer}/{method}"

    def _tool(
        self, path: str, method: str, item: Mapping[str, Any], operation: Mapping[str, Any], pointer: str
    ) -> ToolRecord:
        arguments = self._arguments(item, operation, pointer)
        deprecated = operation.get("deprecated") is True
        call = {"method": method.upper(), "path": path, **self._elsewhere(item, operation), **arguments.call()}
        return ToolRecord(
            pointer=pointer,
            name=self._name(path, method, operation),
            description=_description(path, method, operation),
            input_schema=arguments.schema(),
            output_schema=self._answer(operation, pointer),
            annotations={**_hints(method), **({"deprecated": True} if deprecated else {}), "http": call},
            tags=tags_of([*items_of(operation.get("tags")), *([DEPRECATED] if deprecated else [])]),
        )

    def _name(self, path: str, method: str, operation: Mapping[str, Any]) -> str:
        """Its id, else method and path; what would be taken twice, with what tells it apart."""
        made = _legal(f"{method}_{path}")
        distinct = f"{made[: MAX_TOOL_NAME_CHARS - 9]}_{digest(method, path)[:8]}"
        stated = _legal(text_of(operation.get("operationId")))
        wanted = [name for name in (stated, made) if name and len(name) <= MAX_TOOL_NAME_CHARS]
        name = next((name for name in wanted if name not in self.names), distinct)
        self.names.add(name)
        return name

    def _arguments(self, item: Mapping[str, Any], operation: Mapping[str, Any], pointer: str) -> Arguments:
        arguments = Arguments(self.schemas, pointer)
        above = pointer.rpartition("/")[0]
        parameters, body = parameters_of(
            self.schemas,
            item.get("parameters"),
            f"{above}/parameters",
            operation.get("parameters"),
            f"{pointer}/parameters",
        )
        for parameter in parameters:
            arguments.take_parameter(parameter)
        if body is None:
            body = body_of(self.schemas, operation.get("requestBody"), f"{pointer}/requestBody")
        else:
            body = body.with_media(media_of(operation.get("consumes", self.document.get("consumes")), body))
        if body:
            arguments.take_body(body)
        return arguments

    def _elsewhere(self, item: Mapping[str, Any], operation: Mapping[str, Any]) -> dict[str, object]:
        """The address of an operation that is not where the service is."""
        for stated in (operation, item):
            if servers := self._servers({"servers": stated.get("servers")}):
                try:
                    told = references_only(_address(servers[:1], self.where))
                except ValueError:
                    continue
                return {"server": told.get("url") or told.get("path")}
        return {}

    def _answer(self, operation: Mapping[str, Any], pointer: str) -> dict[str, Any] | None:
        """The schema of what a good call gives, if that is an object in JSON."""
        responses = fields_of(operation.get("responses"))
        for code in sorted(filter(_ANSWERS.fullmatch, responses), key=str.casefold):
            place = f"{pointer}/responses/{code}"
            stated, place = self.schemas.follow(responses[code], place)
            if found := _json_schema(fields_of(stated), place):
                return self._object(*found, pointer)
        return None

    def _object(self, schema: object, place: str, pointer: str) -> dict[str, Any] | None:
        if not is_object(self.schemas, schema, place):
            return None
        stated, place = self.schemas.follow(schema, place)
        converted = self.schemas.convert(stated, place)
        if converted.chars > MAX_SCHEMA_CHARS:
            self.intake.note_cut(
                f"{pointer}/responses",
                f"longer than the {MAX_SCHEMA_CHARS} characters that are kept of a schema; left out",
            )
            return None
        made = {**converted.schema, "type": "object"}
        if definitions := self.schemas.definitions(converted.refs, MAX_SCHEMA_CHARS - converted.chars, pointer):
            made["$defs"] = definitions
        return made


def _instead(item: object, stated: object) -> str:
    """What was found where no path is."""
    if isinstance(item, Mapping):
        return f"found a reference to what more than {MAX_SHARED} others refer to"
    return f"found {shape_of(item)}" if stated is None or item is not None else "found a reference that leads nowhere"


def _json_schema(response: Mapping[str, Any], pointer: str) -> tuple[object, str] | None:
    if "schema" in response:
        return response["schema"], f"{pointer}/schema"
    content = fields_of(response.get("content"))
    media = next(filter(is_json, islice(content, MAX_MEDIA)), None)
    if media is None or "schema" not in fields_of(content[media]):
        return None
    return content[media]["schema"], f"{pointer}/content/{escape_pointer(media)}/schema"


def _legal(text: str) -> str:
    """A name as MCP has it: letters, digits, `_`, `.`, `-`."""
    return re.sub(r"[^A-Za-z0-9.-]+", "_", text).strip("_")


def _description(path: str, method: str, operation: Mapping[str, Any]) -> str:
    """Summary and description, none that only repeats; of an operation that says nothing, what is called."""
    summary, described = text_of(operation.get("summary")), text_of(operation.get("description"))
    if described.casefold().startswith(summary.casefold()) or fold(summary) == fold(
        text_of(operation.get("operationId"))
    ):
        summary = ""
    return "\n\n".join(filter(None, (summary, described))) or f"{method.upper()} {path}"


def _hints(method: str) -> dict[str, bool]:
    """The hints of MCP that a method gives by itself."""
    if method in _SAFE:
        return {"readOnlyHint": True}
    hints = {"destructiveHint": True} if method == "delete" else {}
    return {**hints, "idempotentHint": True} if method in _REPEATABLE else hints


# -- addresses -------------------------------------------------------------------------------------


def _server(stated: object) -> str:
    url = text_of(fields_of(stated).get("url"))
    for name, variable in fields_of(fields_of(stated).get("variables")).items():
        default = fields_of(variable).get("default")
        if told := scalar_of(default):
            url = url.replace("{" + str(name) + "}", told)
    return url


def _address(servers: list[str], where: str) -> dict[str, object]:
    """`url`, and `servers` if there are several. One that is told by its path alone is where the document was got."""
    try:
        told = [urljoin(where, url) if where.startswith(("http://", "https://")) else url for url in servers or ["/"]]
        absolute = [url for url in told if urlsplit(url).netloc]
    except ValueError:
        return {}
    address: dict[str, object] = {"url": absolute[0]} if absolute else {}
    if not absolute and told[0].strip("/"):
        address["path"] = told[0]
    return {**address, "servers": absolute} if len(absolute) > 1 else address
