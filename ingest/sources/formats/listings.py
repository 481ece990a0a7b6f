"""Lists: tools of an MCP server, services of A2X."""

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from waygraph.ingest.manifest.fields import fields_of
from waygraph.ingest.manifest.records import AgentRecord, Intake, ToolRecord, is_lines

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
