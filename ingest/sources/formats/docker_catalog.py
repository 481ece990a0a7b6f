"""Docker's MCP catalogue: `registry: {name: server}`, a list of such servers, or one `server.yaml`.

Shapes as docker/mcp-registry writes them (pkg/catalog/types.go) and docker/mcp-gateway reads them.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any

from waygraph.ingest.manifest.fields import fields_of, items_of, mostly, pointer
from waygraph.ingest.manifest.records import AgentRecord, Intake, ToolRecord, shape_of
from waygraph.ingest.sources.formats.listings import tool_record

SHAPE = (
    '{"registry": {name: {"title": …, "description": …, "image": …, "tools": […]}}}, a list of such servers with '
    '`name`, or a server.yaml: {"name": …, "type": "server", "about": {…}}'
)
TYPES = ("server", "remote", "poci")
_TILE_FIELDS = frozenset({"title", "description", "image", "remote"})


def fits(document: Any) -> bool:
    if isinstance(document, list):
        return mostly(document, _is_listed)
    if not isinstance(document, Mapping):
        return False
    registry = document.get("registry")
    tiles = [each for each in registry.values() if isinstance(each, Mapping)] if isinstance(registry, Mapping) else []
    return _is_server_file(document) or not all(map(_TILE_FIELDS.isdisjoint, tiles))


def read(document: Any, where: str, intake: Intake) -> Iterator[AgentRecord]:  # noqa: ARG001
    for place, key, server in _servers(document):
        if not isinstance(server, Mapping):
            intake.reject_agent(place, f"expected a server object, found {shape_of(server)}", key=key)
            continue
        name = key or server.get("name")
        if isinstance(tools := server.get("tools") or [], list):
            yield _record(server, name, place, _tools(tools, f"{place}/tools", intake))
        else:
            reason = f"expected a list of tools, found {shape_of(tools)}"
            intake.reject_agent(f"{place}/tools", reason, key=name if isinstance(name, str) else "")


def _servers(document: Any) -> Iterator[tuple[str, str, Any]]:
    """JSON pointer, key if the place tells it, and what stands there."""
    if isinstance(document, list):
        yield from ((f"/{number}", "", server) for number, server in enumerate(document))
    elif _is_server_file(document):
        yield "", "", document
    else:
        yield from ((pointer("registry", key), key, server) for key, server in document["registry"].items())


def _record(server: Mapping[str, Any], key: object, place: str, tools: Iterator[ToolRecord]) -> AgentRecord:
    about = fields_of(server.get("about")) or server
    meta = fields_of(server.get("meta")) or fields_of(server.get("metadata")) or server
    return AgentRecord(
        pointer=place,
        key=key,
        name=about.get("title") or "",
        description=about.get("description"),
        transport=_transport(server),
        tags=_tags(meta),
        tools=tools,
    )


def _tags(meta: Mapping[str, Any]) -> object:
    """The category among them; what is no list is for the intake to refuse."""
    tags, category = meta.get("tags") or [], meta.get("category")
    return [*tags, category] if isinstance(tags, Sequence) and not isinstance(tags, str) and category else tags


def _transport(server: Mapping[str, Any]) -> dict[str, Any] | None:
    """The address of a remote server, else the image and what it is run with; `{{…}}` is for Docker to fill in."""
    remote, run = fields_of(server.get("remote")), fields_of(server.get("run")) or server
    if remote.get("url"):
        fields = {"type": remote.get("transport_type"), "url": remote["url"], "headers": remote.get("headers")}
    else:
        fields = {"image": server.get("image"), "args": run.get("command"), "volumes": run.get("volumes")}
    return (
        {name: value for name, value in fields.items() if value} | _env(fields_of(server.get("config")) or server)
    ) or None


def _env(config: Mapping[str, Any]) -> dict[str, Any]:
    """The variables that it gets, those that hold secrets among them."""
    entries = map(fields_of, [*items_of(config.get("env")), *items_of(config.get("secrets"))])
    names = [name for each in entries if isinstance(name := each.get("env") or each.get("name"), str)]
    return {"env": {name: f"${{{name}}}" for name in names}} if names else {}


def _tools(tools: list[Any], above: str, intake: Intake) -> Iterator[ToolRecord]:
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
            yield replace(record, input_schema=_schema(arguments))
        else:
            intake.reject(f"{place}/arguments", "expected a list of objects with a name each")


def _schema(arguments: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    """Docker's list of arguments as a JSON Schema: one is required unless it says `optional`."""
    return {
        "type": "object",
        "properties": {argument["name"]: _property(argument) for argument in arguments},
        "required": [argument["name"] for argument in arguments if not argument.get("optional")],
    }


def _property(argument: Mapping[str, Any]) -> dict[str, Any]:
    fields = {
        "type": argument.get("type"),
        "description": argument.get("desc") or argument.get("description"),
        "items": argument.get("items"),
    }
    return {name: value for name, value in fields.items() if value}


def _is_listed(entry: Any) -> bool:
    return isinstance(entry, Mapping) and isinstance(entry.get("name"), str) and isinstance(entry.get("tools"), list)


def _is_server_file(document: Mapping[str, Any]) -> bool:
    return isinstance(document.get("about"), Mapping) and document.get("type") in TYPES and "name" in document
