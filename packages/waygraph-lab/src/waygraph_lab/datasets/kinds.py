"""Kinds of documents that data sets come in: servers of LiveMCPBench and of Docker, services of A2X, JSON Lines of
awesome lists.

Entry points of the group `waygraph.kinds`.
"""

from collections.abc import Iterator, Mapping
from dataclasses import replace
from typing import Any

from waygraph.ingest.manifest.fields import fields_of, items_of, mostly, pointer
from waygraph.ingest.manifest.records import AgentRecord, Intake, ToolRecord, shape_of
from waygraph.ingest.sources.formats.listings import is_service, service_record, tool_record, tool_records
from waygraph.ingest.sources.kinds import Kind
from waygraph.registry.http.addresses import split_url
from waygraph.registry.model.identity import MAX_NAME_CHARS

LIVEMCPBENCH_SHAPE = '[{"name": …, "description": …, "tools": {server key: {"tools": […]}}}]'


def fits_livemcpbench(document: Any) -> bool:
    return mostly(document, lambda entry: isinstance(entry, Mapping) and isinstance(entry.get("tools"), Mapping))


def read_livemcpbench(document: Any, where: str, intake: Intake) -> Iterator[AgentRecord]:  # noqa: ARG001
    """An agent for each server key. The entry's name is its text, since some keys mislead."""
    for number, entry in enumerate(document):
        servers = entry.get("tools") if isinstance(entry, Mapping) else None
        if not isinstance(servers, Mapping):
            intake.reject_agent(pointer(number), "expected an entry with `tools: {server key: {…}}`")
            continue
        if not servers:
            intake.reject(pointer(number, "tools"), "names no server")
        for key, server in servers.items():
            place = pointer(number, "tools", key)
            if not isinstance(server, Mapping) or not isinstance(server.get("tools"), list):
                intake.reject(f"{place}/tools", "expected a list of tools", key=str(key))
                continue
            yield _livemcpbench_record(entry, key, server, place, intake)


def _livemcpbench_record(entry: Mapping[str, Any], key: str, server: Any, place: str, intake: Intake) -> AgentRecord:
    launch = fields_of(fields_of(entry.get("config")).get("mcpServers")).get(key)
    return AgentRecord(
        pointer=place,
        key=key,  # a number in YAML, say: refused as a name
        name=entry.get("name") or key,
        description=entry.get("description"),
        version=server.get("version"),
        transport=launch if isinstance(launch, Mapping) else None,
        tags=[entry["category"]] if isinstance(entry.get("category"), str) and entry["category"] else (),
        tools=tool_records(server["tools"], f"{place}/tools", intake),
    )


LINES_SHAPE = 'JSON Lines, one server a line: {"name": …, "url": …, "description": …, "category": …}'


def fits_lines(document: Any) -> bool:
    values = map(fields_of, items_of(document))
    return any(isinstance(each.get("name"), str) and isinstance(each.get("url"), str) for each in values)


def read_lines(document: Any, where: str, intake: Intake) -> Iterator[AgentRecord]:  # noqa: ARG001
    names: dict[str, object] = {}
    for number, server in enumerate(document):
        if fault := _fault(server):
            intake.reject_agent(f"/{number}", fault)
        else:
            yield _line_record(server, f"/{number}", names)


def _fault(server: object) -> str:
    """Why nothing can be said of the line's server, not even which it is."""
    if not isinstance(server, Mapping):
        return f"expected a server object, found {shape_of(server)}"
    if (url := server.get("url")) and not _address(url):
        shape = "another text" if isinstance(url, str) else shape_of(url)
        return f"url: expected an address such as https://host/path, found {shape}"
    return ""


def _line_record(server: Mapping[str, Any], pointer: str, names: dict[str, object]) -> AgentRecord:
    """The server's agent. `names`: address → name of the first server with that address."""
    name, url, category = server.get("name"), server.get("url"), server.get("category")
    address = _address(url)
    key = address if address and len(address) <= MAX_NAME_CHARS else name
    if key == address and names.setdefault(address, name) != name:  # several servers of one repository
        key = f"{address}#{name}"
    return AgentRecord(
        pointer=pointer,
        key=key,
        name=name or "",
        description=server.get("description"),
        transport={"homepage": url} if url else None,
        tags=[category] if category else (),
    )


def _address(url: object) -> str:
    """Host and path of a URL: without a login or a query, which may hold secrets. Empty if it is no URL."""
    parts = split_url(url.strip()) if isinstance(url, str) else None
    return "" if parts is None or not parts.hostname else f"{parts.hostname}{parts.path.rstrip('/')}"


SERVICES_SHAPE = '[{"id": …, "type": "generic", "name": …, "description": …, "metadata": {…}}]'


def fits_services(document: Any) -> bool:
    return mostly(document, is_service)


def read_services(document: Any, where: str, intake: Intake) -> Iterator[AgentRecord]:  # noqa: ARG001
    for number, service in enumerate(document):
        pointer = f"/{number}"
        if not isinstance(service, Mapping):
            intake.reject_agent(pointer, f"expected a service object, found {shape_of(service)}")
            continue
        yield service_record(service, pointer)


DOCKER_SHAPE = '[{"name": …, "title": …, "description": …, "category": …, "tools": […]}]'


def fits_docker(document: Any) -> bool:
    fields = map(fields_of, items_of(document))
    return mostly([isinstance(each.get("tools"), list) and "name" in each for each in fields], bool)


def read_docker(document: Any, where: str, intake: Intake) -> Iterator[AgentRecord]:  # noqa: ARG001
    """Servers of Docker's MCP catalogue, each with its list of tools."""
    for number, server in enumerate(document):
        if not isinstance(server, Mapping):
            intake.reject_agent(f"/{number}", f"expected a server object, found {shape_of(server)}")
            continue
        tags, category = server.get("tags") or [], server.get("category")
        yield AgentRecord(
            pointer=f"/{number}",
            key=server.get("name"),
            name=server.get("title") or "",
            description=server.get("description"),
            tags=[*tags, category] if isinstance(tags, list) and category else tags,
            tools=_docker_tools(server.get("tools") or [], f"/{number}/tools", intake),
        )


def _docker_tools(tools: Any, above: str, intake: Intake) -> Iterator[ToolRecord]:
    for number, tool in enumerate(items_of(tools)):
        record = tool_record(fields_of(tool), f"{above}/{number}")
        arguments = fields_of(tool).get("arguments")
        if record.input_schema is not None or arguments is None:
            yield record
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
            intake.reject(f"{above}/{number}/arguments", "expected a list of objects with a name each")


def _docker_property(argument: Mapping[str, Any]) -> dict[str, Any]:
    fields = {"type": argument.get("type"), "description": argument.get("desc"), "items": argument.get("items")}
    return {name: value for name, value in fields.items() if value}


SERVICE_LIST = Kind("service-list", SERVICES_SHAPE, fits_services, read_services)
LIVEMCPBENCH = Kind("livemcpbench", LIVEMCPBENCH_SHAPE, fits_livemcpbench, read_livemcpbench)
SERVER_LINES = Kind("server-lines", LINES_SHAPE, fits_lines, read_lines)
DOCKER_CATALOG = Kind("docker-catalog", DOCKER_SHAPE, fits_docker, read_docker)
