"""OpenAPI 3.0, 3.1, 3.2 and Swagger 2: a service is an agent, each of its operations a tool.

How a tool is called over HTTP is kept in its annotations: see `openapi_calls`. What is in `webhooks` and `callbacks`
is called by the service, and is no tool.
"""

import re
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from itertools import islice
from pathlib import PurePath
from typing import Any
from urllib.parse import urljoin, urlsplit

from waygraph.ingest.manifest.fields import escape_pointer, fields_of, items_of, scalar_of, tags_of, text_of, version_of
from waygraph.ingest.manifest.records import AgentRecord, Intake, ToolRecord, is_lines, shape_of
from waygraph.ingest.manifest.transport import references_only
from waygraph.ingest.sources.formats.old_forms import upgrade_api
from waygraph.ingest.sources.formats.openapi_calls import (
    MAX_MEDIA,
    Arguments,
    body_of,
    is_json,
    media_of,
    parameters_in_place,
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
MAX_OPERATIONS, MAX_ARGUMENTS = 20_000, 500_000
"""Of one document."""
MAX_REMARKS = 20
"""So many places are named of which the same is to be said; the others are counted."""
_OF_ITEM = frozenset(("$ref", "description", "parameters", "servers", "summary"))
MAX_SHARED = 20
"""So many paths may refer to one description of what can be done there."""
MAX_TOOL_NAME_CHARS = 128
DEPRECATED = "deprecated"
Report = Callable[[str, str], None]
"""Takes a JSON pointer and a reason."""
_VERSION = re.compile(r"[23](\.|$)")
_ANSWERS = re.compile(r"2\d\d|2[xX]{2}|default")


def fits(document: Any) -> bool:
    names = fields_of(document).keys()
    return bool(names & {"openapi", "swagger"}) and bool(names & {"info", "paths"})


def read(document: Any, where: str, intake: Intake) -> Iterator[AgentRecord]:
    """The agent's key is the title of the service, or the file's name where it has none."""
    word = "openapi" if "openapi" in document else "swagger"
    if not _VERSION.match(version := scalar_of(document[word])):
        shape = repr(version[:20]) if version else shape_of(document[word])
        intake.reject_agent(f"/{word}", f"this Waygraph reads OpenAPI 3 and Swagger 2, found {shape}")
        return
    yield _Service(upgrade_api(document), where, intake).agent()


@dataclass(frozen=True, slots=True)
class _Operation:
    """`item`: what holds for the whole path. `stated` None: it cannot be had, for the reason `fault`."""

    path: str
    method: str
    item: Mapping[str, Any]
    item_pointer: str
    value: object
    pointer: str
    fault: str


@dataclass(slots=True)
class _Service:
    document: Mapping[str, Any]
    where: str
    intake: Intake
    schemas: Schemas = field(init=False)
    names: set[str] = field(default_factory=set)
    """Of the tools so far."""
    _remarks: Counter[tuple[Report, str]] = field(default_factory=Counter)

    def __post_init__(self) -> None:
        self.schemas = Schemas(self.document, self._note, self.where)

    def _note(self, pointer: str, reason: str) -> None:
        self._report(self.intake.note_cut, pointer, reason)

    def _reject(self, pointer: str, reason: str) -> None:
        self._report(self.intake.reject, pointer, reason)

    def _report(self, report: Report, pointer: str, reason: str) -> None:
        """A document may have the same fault hundreds of times. What follows a colon tells one of a kind apart."""
        kind = (report, reason.partition(":")[0])
        self._remarks[kind] += 1
        if self._remarks[kind] <= MAX_REMARKS:
            report(pointer, reason)

    def agent(self) -> AgentRecord:
        info = fields_of(self.document.get("info"))
        title = text_of(info.get("title"))
        key = PurePath(self.where.partition("?")[0]).stem if name_fault(title) else title
        tools = list(self._tools())
        for (report, reason), count in self._remarks.items():
            if count > MAX_REMARKS:
                report("/paths", f"at {count - MAX_REMARKS} more places: {reason}")
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
        transport = _address(_servers(self.document), self.where)
        transport["spec"] = {"title": title, spec: scalar_of(self.document[spec])[:20]}
        if names := tags_of(self.document["components"]["securitySchemes"]):
            transport["security"] = sorted(names)
        return transport

    # -- operations --------------------------------------------------------------------------------

    def _tools(self) -> Iterator[ToolRecord]:
        arguments = 0
        for count, operation in enumerate(self._operations(), start=1):
            if count > MAX_OPERATIONS or arguments > MAX_ARGUMENTS:
                most = f"{MAX_OPERATIONS} operations or {MAX_ARGUMENTS} arguments"
                self.intake.reject("/paths", f"of more than {most} the other operations are left out")
                return
            if not isinstance(operation.value, Mapping):
                fault = operation.fault or f"expected an operation object, found {shape_of(operation.value)}"
                self._reject(operation.pointer, fault)
                continue
            tool_arguments = self._arguments(operation, operation.value)
            arguments += len(tool_arguments)
            yield self._tool(operation, operation.value, tool_arguments)

    def _operations(self) -> Iterator[_Operation]:
        paths, root = self.schemas.follow(self.document.get("paths"), "/paths")
        if paths is not None and not isinstance(paths, Mapping):
            self.intake.reject("/paths", f"expected an object, found {shape_of(paths)}")
        uses: Counter[str] = Counter()
        for path, path_item in fields_of(paths).items():
            if str(path).startswith("x-"):
                continue
            place = f"{root}/{escape_pointer(path)}"
            item, pointer, fault = self._whole(path_item, place)
            uses[pointer] += 1
            if uses[pointer] > MAX_SHARED:
                fault = f"a reference to what more than {MAX_SHARED} others refer to is left out"
            if fault or not isinstance(item, Mapping):
                self._reject(place, fault or f"expected what can be done at a path, found {shape_of(item)}")
                continue
            methods = {key.lower(): key for key in map(str, item) if key.lower() in METHODS}
            others = [key for key in item if key not in _OF_ITEM and key.lower() not in METHODS and key[:2] != "x-"]
            self.schemas.note_names(pointer, "what is no method that is known here is left out", others)
            if not methods:
                self._note(place, "there is nothing that can be done at this path")
            for method in filter(methods.__contains__, METHODS):
                operation = self._whole(item[methods[method]], f"{pointer}/{methods[method]}")
                yield _Operation(f"/{str(path).lstrip('/')}", method, item, pointer, *operation)

    def _whole(self, node: object, pointer: str) -> tuple[object, str, str]:
        """What a reference stands for, with what is said beside it; its pointer; why it cannot be had."""
        target, place, fault = self.schemas.resolve(node, pointer)
        beside = {key: value for key, value in fields_of(node).items() if key != "$ref"}
        if place == pointer or not beside or not isinstance(target, Mapping):
            return target, place, fault
        return {**target, **beside}, pointer, fault

    def _tool(self, operation: _Operation, fields: Mapping[str, Any], arguments: Arguments) -> ToolRecord:
        path, method = operation.path, operation.method
        is_deprecated = fields.get("deprecated") is True
        elsewhere = self._elsewhere(operation.item, fields, operation.pointer)
        return ToolRecord(
            pointer=operation.pointer,
            name=self._name(path, method, fields),
            description=_description(path, method, fields),
            input_schema=arguments.schema(),
            output_schema=self._answer(fields, operation.pointer),
            annotations={
                **_hints(method),
                **({"deprecated": True} if is_deprecated else {}),
                "http": {"method": method.upper(), "path": path, **elsewhere, **arguments.call()},
            },
            tags=tags_of([*items_of(fields.get("tags")), *([DEPRECATED] if is_deprecated else [])]),
        )

    def _name(self, path: str, method: str, operation: Mapping[str, Any]) -> str:
        """Its id, else method and path; what would be taken twice, with what tells it apart."""
        path_name = _legal(f"{method}_{path}")
        distinct = f"{path_name[: MAX_TOOL_NAME_CHARS - 9]}_{digest(method, path)[:8]}"
        operation_id = _legal(text_of(operation.get("operationId")))
        names = [name for name in (operation_id, path_name) if name and len(name) <= MAX_TOOL_NAME_CHARS]
        name = next((name for name in names if name not in self.names), distinct)
        self.names.add(name)
        return name

    def _arguments(self, operation: _Operation, fields: Mapping[str, Any]) -> Arguments:
        pointer = operation.pointer
        arguments = Arguments(self.schemas, pointer)
        parameters, body = parameters_of(
            self.schemas,
            operation.item.get("parameters"),
            f"{operation.item_pointer}/parameters",
            fields.get("parameters"),
            f"{pointer}/parameters",
        )
        for parameter in parameters_in_place(self.schemas, parameters, operation.path, pointer):
            arguments.take_parameter(parameter)
        if body is None:
            body = body_of(self.schemas, fields.get("requestBody"), f"{pointer}/requestBody")
        else:
            body = replace(body, media=media_of(fields.get("consumes", self.document.get("consumes")), body))
        if body:
            arguments.take_body(body)
        return arguments

    def _elsewhere(self, item: Mapping[str, Any], operation: Mapping[str, Any], pointer: str) -> dict[str, object]:
        """The address of an operation that is not where the service is."""
        for part in (operation, item):
            if servers := _servers(part):
                try:
                    address = references_only(_address(servers[:1], self.where))
                except ValueError:
                    self._note(f"{pointer}/servers", "an address that cannot be read is left out")
                    continue
                return {"server": address.get("url") or address.get("path")}
        return {}

    def _answer(self, operation: Mapping[str, Any], pointer: str) -> dict[str, Any] | None:
        """The schema of what a good call gives, if that is an object in JSON."""
        responses, root = self.schemas.follow(operation.get("responses"), f"{pointer}/responses")
        for code in sorted(filter(_ANSWERS.fullmatch, fields_of(responses)), key=str.casefold):
            response, place = self.schemas.follow(fields_of(responses)[code], f"{root}/{code}")
            if answer := self._json_schema(fields_of(response), place):
                return self._object(*answer, pointer)
        return None

    def _json_schema(self, response: Mapping[str, Any], pointer: str) -> tuple[object, str] | None:
        if "schema" in response:
            return response["schema"], f"{pointer}/schema"
        content, place = self.schemas.follow(response.get("content"), f"{pointer}/content")
        if (media := next(filter(is_json, islice(fields_of(content), MAX_MEDIA)), None)) is None:
            return None
        media_object, place = self.schemas.follow(fields_of(content)[media], f"{place}/{escape_pointer(media)}")
        return (fields_of(media_object)["schema"], f"{place}/schema") if "schema" in fields_of(media_object) else None

    def _object(self, schema: object, place: str, pointer: str) -> dict[str, Any] | None:
        if not is_object(self.schemas, schema, place):
            return None
        target, place = self.schemas.follow(schema, place)
        if (conversion := self.schemas.convert(target, place).within(MAX_SCHEMA_CHARS)) is None:
            self._note(f"{pointer}/responses", f"longer than the {MAX_SCHEMA_CHARS} characters that are kept; left out")
            return None
        result = {**conversion.schema, "type": "object"}
        if definitions := self.schemas.definitions(conversion.refs, MAX_SCHEMA_CHARS - conversion.chars, pointer):
            result["$defs"] = definitions
        return result


def _legal(text: str) -> str:
    """A name as MCP has it: letters, digits, `_`, `.`, `-`."""
    return re.sub(r"[^A-Za-z0-9.-]+", "_", text).strip("_")


def _description(path: str, method: str, operation: Mapping[str, Any]) -> str:
    """Summary and description, none that only repeats; of an operation that says nothing, what is called."""
    summary, description = text_of(operation.get("summary")), text_of(operation.get("description"))
    repeats_id = fold(summary) == fold(text_of(operation.get("operationId")))
    if repeats_id or description.casefold().startswith(summary.casefold()):
        summary = ""
    return "\n\n".join(filter(None, (summary, description))) or f"{method.upper()} {path}"


def _hints(method: str) -> dict[str, bool]:
    """The hints of MCP that a method gives by itself."""
    if method in _SAFE:
        return {"readOnlyHint": True}
    hints = {"destructiveHint": True} if method == "delete" else {}
    return {**hints, "idempotentHint": True} if method in _REPEATABLE else hints


# -- addresses -------------------------------------------------------------------------------------


def _servers(part: Mapping[str, Any]) -> list[str]:
    """The addresses, with the defaults of their variables."""
    return list(filter(None, map(_server, items_of(part.get("servers")))))


def _server(server: object) -> str:
    url = text_of(fields_of(server).get("url"))
    for name, variable in fields_of(fields_of(server).get("variables")).items():
        if value := scalar_of(fields_of(variable).get("default")):
            url = url.replace("{" + str(name) + "}", value)
    return url


def _address(servers: list[str], where: str) -> dict[str, object]:
    """`url`, and `servers` if there are several. One that is told by its path alone is where the document was got."""
    try:
        base = where if where.startswith(("http://", "https://")) else ""
        addresses = [urljoin(base, url) for url in servers or ["/"]]
        absolute = [url for url in addresses if urlsplit(url).netloc]
    except ValueError:
        return {}
    address: dict[str, object] = {"url": absolute[0]} if absolute else {}
    if not absolute and addresses[0].strip("/"):
        address["path"] = addresses[0]
    return {**address, "servers": absolute} if len(absolute) > 1 else address
