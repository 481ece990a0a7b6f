"""JSON for `waygraph ingest`: every source's manifest, and what operators had set. Reader: ingest/sources/export.py.

An agent is one line, so that two exports can be compared line by line.
"""

import json
from collections.abc import Iterable, Sequence

from waygraph.registry.changes import AgentEntry, SourceSummary
from waygraph.registry.export.contents import Contents
from waygraph.registry.identity import parsed
from waygraph.registry.model import Agent, Tool
from waygraph.registry.wire import shapes

FORMAT_VERSION = 1


def as_json(contents: Contents) -> str:
    owned = contents.tools_by_agent()
    entities: list[Agent | Tool] = [*contents.agents, *contents.tools]
    parts = [
        f'"waygraph_export": {FORMAT_VERSION}',
        f'"revision": {contents.revision}',
        f'"agents": {_lines(_agent(agent, owned[agent.id]) for agent in contents.agents)}',
        f'"sources": {_lines(_source(source) for source in contents.sources)}',
        f'"operator": {_lines(shapes.settings(said) for said in contents.settings.values())}',
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
    """In the words of a catalogue, `docs/catalog.md`."""
    return {
        "id": agent.id,
        "name": agent.name,
        "description": agent.description,
        "kind": agent.kind,
        "version": agent.version,
        "transport": parsed(agent.transport),
        "tags": agent.tags,
        "visible_to": agent.visible_to,
        "tools": [_tool(tool) for tool in tools],
    }


def _tool(tool: Tool) -> dict[str, object]:
    return {
        "name": tool.name,
        "description": tool.description,
        "inputSchema": parsed(tool.input_schema),
        "outputSchema": parsed(tool.output_schema),
        "annotations": parsed(tool.annotations),
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
