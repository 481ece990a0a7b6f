"""JSON for `waygraph ingest`: every source's manifest, and what operators had set.

Reader: `ingest/sources/formats/export.py`.

An agent is one line, so that two exports can be compared line by line.
"""

import json
from collections.abc import Iterable, Sequence
from typing import Any
from urllib.parse import quote, urlsplit

from waygraph.registry.model import shapes
from waygraph.registry.model.changes import AgentEntry, SourceSummary
from waygraph.registry.model.errors import InvalidSetting
from waygraph.registry.model.nouns import Agent, Tool, parse_field
from waygraph.registry.storage.snapshot import Contents

FORMAT_VERSION = 1


def as_json(contents: Contents) -> str:
    owned = contents.tools_by_agent()
    entities: list[Agent | Tool] = [*contents.agents, *contents.tools]
    parts = [
        f'"waygraph_export": {FORMAT_VERSION}',
        f'"revision": {contents.revision}',
        f'"agents": {_lines(_agent(agent, owned[agent.id]) for agent in contents.agents)}',
        f'"sources": {_lines(_source(source) for source in contents.sources)}',
        f'"operator": {_lines(shapes.shape(said) for said in contents.settings.values())}',
        f'"approval": {_lines(_approval(each) for each in entities if _has_approval(each))}',
    ]
    return "{\n" + ",\n".join(parts) + "\n}\n"


def _lines(rows: Iterable[object]) -> str:
    """A JSON list with a line for each row."""
    texts = [json.dumps(row, ensure_ascii=False, allow_nan=False) for row in rows]
    return "[\n" + ",\n".join(texts) + "\n]" if texts else "[]"


def as_catalogue(entry: AgentEntry) -> dict[str, object]:
    """An entry as a catalogue has it, under its source's own key."""
    return _agent(entry.agent, entry.tools) | {"id": entry.key} | ({"asked": False} if entry.unasked else {})


def _agent(agent: Agent, tools: Sequence[Tool]) -> dict[str, object]:
    """In the words of a catalogue, `docs/formats.md`."""
    return {
        "id": agent.id,
        "name": agent.name,
        "description": agent.description,
        "kind": agent.kind,
        "version": agent.version,
        "transport": parse_field(agent.transport),
        "tags": agent.tags,
        "visible_to": agent.visible_to,
        "tools": [_tool(tool) for tool in tools],
    }


def _tool(tool: Tool) -> dict[str, object]:
    return {
        "name": tool.name,
        "description": tool.description,
        "inputSchema": parse_field(tool.input_schema),
        "outputSchema": parse_field(tool.output_schema),
        "annotations": parse_field(tool.annotations),
        "tags": tool.tags,
        **({"questions": tool.questions} if tool.questions else {}),
    }


def _source(source: SourceSummary) -> dict[str, object]:
    return {
        "name": source.name,
        "namespace": source.namespace,
        "rank": source.rank,
        "policy": source.policy,
        "claims": source.claims,
    }


def _has_approval(entity: Agent | Tool) -> bool:
    return entity.pending or bool(entity.approved_hash)


def _approval(entity: Agent | Tool) -> dict[str, object]:
    """Whether it waits, and what of it was approved. Flags are found again."""
    return {"id": entity.id, "pending": entity.pending, "approved_hash": entity.approved_hash}


# The document of `/.well-known/ai-catalog.json`: AI Catalog 1.0, with a host (its conformance level 2).
#
# Specification: Agent-Card/ai-catalog, specification/ai-catalog.md. Media type: `application/ai-catalog+json`.


MEDIA_TYPE = "application/ai-catalog+json"
AGENT_TYPE = "application/vnd.waygraph.agent+json"
OPENAPI_TYPE = "application/vnd.oai.openapi+json"
SPEC_VERSION = "1.0"


def ai_catalog(agents: Iterable[Agent], host_name: str, base_url: str) -> dict[str, Any]:
    """The service itself, then the agents, in the order given: those that the asker may see.

    `host_name` is for people; `base_url` is where the service is reached from outside, with or without a slash at its
    end. Raises InvalidSetting for one that has no host: what names an entry begins with it.
    """
    publisher, base = _address(base_url)
    host = {"displayName": host_name}
    service = {
        "identifier": _identifier(publisher, "service", "waygraph"),
        "type": OPENAPI_TYPE,
        "url": f"{base}/openapi.json",
        "displayName": host_name,
        "description": "Finds the agents, and which of their tools, that can do what is asked for.",
    }
    entries = [service, *(_entry(agent, publisher, base) for agent in agents)]
    return {"specVersion": SPEC_VERSION, "host": host, "entries": entries}


def _address(base_url: str) -> tuple[str, str]:
    """Host, and URL without a slash at its end; without user and password. Raises InvalidSetting."""
    try:
        url = urlsplit(base_url)
    except ValueError:  # brackets that hold no address
        url = urlsplit("")
    if url.scheme not in ("http", "https") or not url.hostname:
        raise InvalidSetting("an AI catalogue needs the service's address, such as https://tools.example")
    place = url.netloc.rpartition("@")[2]
    return url.hostname, f"{url.scheme}://{place}{url.path.rstrip('/')}"


def _entry(agent: Agent, publisher: str, base: str) -> dict[str, Any]:
    # An identifier below the own host: what the entry leads to is this registry's record, which it publishes itself.
    return {
        "identifier": _identifier(publisher, agent.kind, agent.id),
        "type": AGENT_TYPE,
        "url": f"{base}/v1/agents/{quote(agent.id, safe='')}",
    } | _without_empty(
        displayName=agent.name, description=agent.description, tags=list(agent.tags), version=agent.version
    )


def _identifier(*parts: str) -> str:
    """`urn:air:<publisher>:<kind>:<id>`: different parts make different URNs, and can be read back from them."""
    return ":".join(("urn", "air", *(quote(part, safe="") for part in parts)))


def _without_empty(**members: Any) -> dict[str, Any]:
    """Without those that say nothing."""
    return {name: value for name, value in members.items() if value}
