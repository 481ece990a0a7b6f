"""LiveMCPBench's `tools.json`: a list of servers, each with `tools: {server key: {"tools": [MCP tool]}}`."""

from collections.abc import Iterator, Mapping
from typing import Any

from waygraph.ingest.manifest.fields import mostly, pointer
from waygraph.ingest.manifest.records import AgentRecord, Intake
from waygraph.ingest.sources.formats.tools_list import tool_records

SHAPE = '[{"name": …, "description": …, "tools": {server key: {"tools": […]}}}]'


def fits(document: Any) -> bool:
    return mostly(document, lambda entry: isinstance(entry, Mapping) and isinstance(entry.get("tools"), Mapping))


def read(document: Any, where: str, intake: Intake) -> Iterator[AgentRecord]:  # noqa: ARG001
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
            yield _record(entry, key, server, place, intake)


def _record(entry: Mapping[str, Any], key: str, server: Any, place: str, intake: Intake) -> AgentRecord:
    listed = server.get("tools") if isinstance(server, Mapping) else None
    return AgentRecord(
        pointer=place,
        key=key,  # a number in YAML, say: refused as a name
        name=entry.get("name") or key,
        description=entry.get("description"),
        version=server.get("version") if isinstance(server, Mapping) else "",
        transport=_launch(entry, key),
        tags=[entry["category"]] if isinstance(entry.get("category"), str) and entry["category"] else (),
        tools=tool_records(listed, f"{place}/tools", intake),
    )


def _launch(entry: Mapping[str, Any], key: str) -> object:
    config = entry.get("config")
    servers = config.get("mcpServers") if isinstance(config, Mapping) else None
    launch = servers.get(key) if isinstance(servers, Mapping) else None
    return launch if isinstance(launch, Mapping) else None
