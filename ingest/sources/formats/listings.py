"""Lists: tools of an MCP server, services of A2X, Docker's MCP catalogue."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from waygraph.ingest.manifest.fields import fields_of, items_of, mostly, pointer
from waygraph.ingest.manifest.records import AgentRecord, Intake, ToolRecord, is_lines, shape_of

TOOLS_SHAPE = '{"tools": [{"name": …}]} or {"server": {"name": …}, "tools": […]}, also as a JSON-RPC answer'


def fits_tools(document: Any) -> bool:
    """A list of names alone is what an agent of some host may use."""
    tools = _result(document).get("tools") if isinstance(document, Mapping) else None
    return isinstance(tools, list) and (not tools or not all(isinstance(tool, str) for tool in tools))


def read_tools(document: Any, where: str, intake: Intake) -> Iterator[AgentRecord]:
    """The agent's key is the server's name, or the file's name where the dump does not say."""
    result = _result(document)
    above = "" if result is document else "/result"
    if not isinstance(server := result.get("server") or result.get("serverInfo") or {}, Mapping):
        intake.reject(f"{above}/server", "expected an object; the file's name is used instead")
        server = {}
    key = server.get("id") or server.get("name") or Path(where).stem
    if result.get("nextCursor"):
        reason = "one page of a list, of which `nextCursor` says that more follows: half a list is none"
        intake.reject_agent(f"{above}/nextCursor", reason, key=str(key))
        return
    yield AgentRecord(
        pointer=f"{above}/server",
        key=key,
        name=server.get("title") or server.get("name") or "",
        description=server.get("description") or server.get("instructions") or "",
        version=server.get("version"),
        transport=server.get("transport"),
        tools=tool_records(result["tools"], f"{above}/tools", intake),
    )


def tool_records(tools: Any, pointer: str, intake: Intake, *, own: bool = False) -> Iterator[ToolRecord]:
    """MCP tools as records; what is not an object is rejected.

    MCP knows no `questions`: but in a format of our `own`, those of another shape are something else, and left out.
    """
    if not isinstance(tools, list):
        intake.reject(pointer, f"tools: expected a list, found {type(tools).__name__}")
        return
    for number, tool in enumerate(tools):
        place = f"{pointer}/{number}"
        if not isinstance(tool, Mapping):
            intake.reject(place, f"expected a tool object, found {type(tool).__name__}")
            continue
        yield tool_record(tool, place, own=own)


def tool_record(tool: Mapping[str, Any], pointer: str, *, own: bool = False) -> ToolRecord:
    questions = tool.get("questions") or ()
    return ToolRecord(
        pointer=pointer,
        name=tool.get("name"),
        description=tool.get("description"),
        input_schema=tool.get("inputSchema", tool.get("input_schema")),
        output_schema=tool.get("outputSchema", tool.get("output_schema")),
        annotations=tool.get("annotations"),
        tags=tool.get("tags") or (),
        questions=questions if own or is_lines(questions) else (),
    )


def _result(document: Mapping[str, Any]) -> Mapping[str, Any]:
    """The list result itself, also when it comes inside a JSON-RPC answer."""
    result = document.get("result")
    return result if isinstance(result, Mapping) else document


# A2X's `service.json`: each service is an agent without tools. Its `inputSchema` is a flat map of properties and no
# JSON Schema, and nothing says how it is called.


def service_record(service: Mapping[str, Any], pointer: str) -> AgentRecord:
    """The agent that a service is, here and in an evaluation."""
    return AgentRecord(
        pointer=pointer,
        key=service.get("id"),
        name=service.get("name") or "",
        description=service.get("description"),
        kind="custom",
    )


def is_service(entry: Any) -> bool:
    """With `type` a2a it is an agent card, which says more."""
    fields = fields_of(entry)
    has_fields = isinstance(fields.get("id"), str) and isinstance(fields.get("metadata"), Mapping)
    return has_fields and fields.get("type") == "generic"


# Docker's MCP catalogue: `registry: {name: server}`, a list of such servers, or one `server.yaml`. Shapes as
# docker/mcp-registry writes them (pkg/catalog/types.go) and docker/mcp-gateway reads them.

DOCKER_SHAPE = (
    '{"registry": {name: {"title": …, "description": …, "image": …, "tools": […]}}}, a list of such servers with '
    '`name`, or a server.yaml: {"name": …, "type": "server", "about": {…}}'
)
_DOCKER_TYPES = ("server", "remote", "poci")
_TILE_FIELDS = frozenset({"title", "description", "image", "remote"})


def fits_docker(document: Any) -> bool:
    if isinstance(document, list):
        return mostly(document, _is_listed)
    if not isinstance(document, Mapping):
        return False
    registry = document.get("registry")
    tiles = [each for each in registry.values() if isinstance(each, Mapping)] if isinstance(registry, Mapping) else []
    return _is_server_file(document) or not all(map(_TILE_FIELDS.isdisjoint, tiles))


def read_docker(document: Any, where: str, intake: Intake) -> Iterator[AgentRecord]:  # noqa: ARG001
    for place, key, server in _docker_servers(document):
        if not isinstance(server, Mapping):
            intake.reject_agent(place, f"expected a server object, found {shape_of(server)}", key=key)
            continue
        name = key or server.get("name")
        if isinstance(tools := server.get("tools") or [], list):
            yield _docker_record(server, name, place, _docker_tools(tools, f"{place}/tools", intake))
        else:
            reason = f"expected a list of tools, found {shape_of(tools)}"
            intake.reject_agent(f"{place}/tools", reason, key=name if isinstance(name, str) else "")


def _docker_servers(document: Any) -> Iterator[tuple[str, str, Any]]:
    """JSON pointer, key if the place tells it, and what stands there."""
    if isinstance(document, list):
        yield from ((f"/{number}", "", server) for number, server in enumerate(document))
    elif _is_server_file(document):
        yield "", "", document
    else:
        yield from ((pointer("registry", key), key, server) for key, server in document["registry"].items())


def _docker_record(server: Mapping[str, Any], key: object, place: str, tools: Iterator[ToolRecord]) -> AgentRecord:
    about = fields_of(server.get("about")) or server
    meta = fields_of(server.get("meta")) or fields_of(server.get("metadata")) or server
    tags, category = meta.get("tags") or [], meta.get("category")
    return AgentRecord(
        pointer=place,
        key=key,
        name=about.get("title") or "",
        description=about.get("description"),
        transport=_docker_transport(server),
        tags=([*tags, category] if isinstance(tags, Sequence) and not isinstance(tags, str) and category else tags),
        tools=tools,
    )


def _docker_transport(server: Mapping[str, Any]) -> dict[str, Any] | None:
    """The address of a remote server, else the image and what it is run with; `{{…}}` is for Docker to fill in."""
    remote, run = fields_of(server.get("remote")), fields_of(server.get("run")) or server
    if remote.get("url"):
        fields = {"type": remote.get("transport_type"), "url": remote["url"], "headers": remote.get("headers")}
    else:
        fields = {"image": server.get("image"), "args": run.get("command"), "volumes": run.get("volumes")}
    return (
        {name: value for name, value in fields.items() if value}
        | _docker_env(fields_of(server.get("config")) or server)
    ) or None


def _docker_env(config: Mapping[str, Any]) -> dict[str, Any]:
    """The variables that it gets, those that hold secrets among them."""
    entries = map(fields_of, [*items_of(config.get("env")), *items_of(config.get("secrets"))])
    names = [name for each in entries if isinstance(name := each.get("env") or each.get("name"), str)]
    return {"env": {name: f"${{{name}}}" for name in names}} if names else {}


def _docker_tools(tools: list[Any], above: str, intake: Intake) -> Iterator[ToolRecord]:
    for number, tool in enumerate(tools):
        place = f"{above}/{number}"
        if not isinstance(tool, Mapping):
            intake.reject(place, f"expected a tool object, found {shape_of(tool)}")
            continue
        record = tool_record(tool, place)
        arguments = tool.get("arguments")
        if record.input_schema is not None or arguments is None:
            yield replace(record, input_schema=record.input_schema or tool.get("parameters"))
        elif isinstance(arguments, list) and all(isinstance(fields_of(each).get("name"), str) for each in arguments):
            # Docker's list of arguments as a JSON Schema: one is required unless it says `optional`.
            yield replace(
                record,
                input_schema={
                    "type": "object",
                    "properties": {argument["name"]: _docker_property(argument) for argument in arguments},
                    "required": [argument["name"] for argument in arguments if not argument.get("optional")],
                },
            )
        else:
            intake.reject(f"{place}/arguments", "expected a list of objects with a name each")


def _docker_property(argument: Mapping[str, Any]) -> dict[str, Any]:
    fields = {
        "type": argument.get("type"),
        "description": argument.get("desc") or argument.get("description"),
        "items": argument.get("items"),
    }
    return {name: value for name, value in fields.items() if value}


def _is_listed(entry: Any) -> bool:
    return isinstance(entry, Mapping) and isinstance(entry.get("name"), str) and isinstance(entry.get("tools"), list)


def _is_server_file(document: Mapping[str, Any]) -> bool:
    return isinstance(document.get("about"), Mapping) and document.get("type") in _DOCKER_TYPES and "name" in document
