"""Flat lists: the tools of an MCP server, services of A2X, servers of LiveMCPBench, and JSON Lines of awesome lists."""

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from waygraph.ingest.manifest.fields import fields_of, mostly, pointer
from waygraph.ingest.manifest.records import AgentRecord, Intake, ToolRecord, is_lines, shape_of
from waygraph.ingest.sources.parse import Line, Lines
from waygraph.registry.http.addresses import split_url
from waygraph.registry.model.identity import MAX_NAME_CHARS

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
    values = [fields_of(line.value) for line in document.lines] if isinstance(document, Lines) else []
    return any(isinstance(each.get("name"), str) and isinstance(each.get("url"), str) for each in values)


def read_lines(document: Any, where: str, intake: Intake) -> Iterator[AgentRecord]:  # noqa: ARG001
    names: dict[str, object] = {}
    for line in document.lines:
        if fault := _fault(line):
            intake.reject_agent(f"L{line.number}", fault)
        else:
            yield _line_record(line.value, f"L{line.number}", names)


def _fault(line: Line) -> str:
    """Why nothing can be said of the line's server, not even which it is."""
    if line.fault:
        return line.fault
    if not isinstance(line.value, Mapping):
        return f"expected a server object, found {shape_of(line.value)}"
    if (url := line.value.get("url")) and not _address(url):
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
