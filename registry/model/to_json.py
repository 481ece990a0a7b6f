"""The nouns as JSON. Each function is one shape of docs/json-output.md, and a test compares the two.

`nouns` reads them back.
"""

from base64 import urlsafe_b64decode, urlsafe_b64encode
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import TYPE_CHECKING

from waygraph.registry.model.errors import InvalidQuery
from waygraph.registry.model.identity import canonical_json, parsed

if TYPE_CHECKING:
    from waygraph.registry.model.changes import (
        Approved,
        Change,
        Forgotten,
        OperatorSettings,
        Rejected,
        SourceSummary,
        Standing,
        SyncReport,
        Updated,
        Written,
    )
    from waygraph.registry.model.nouns import Agent, AgentMatch, Query, Route, Tool, ToolMatch, ToolRoute, Vote
    from waygraph.registry.model.views import About, CypherResult, Listed, Status


# What a service takes and gives at most: its own checks, and what its client asks for.


MAX_PART = 1000
"""Of a list, or of matches, in one answer."""
MAX_ID_CHARS = 256
"""Of an agent's id, of a call name."""
MAX_NAMES = 1000
"""Of what is approved at once, and of the values of a filter."""
MAX_NAME_CHARS = 512
"""Of a source's name, a tag, a group."""


# Cursors: where a list goes on, in a text that says nothing to whoever carries it.


def cursor(after: str) -> str:
    """Of the id after which the list goes on; empty if it does not."""
    return urlsafe_b64encode(after.encode("utf-8", "surrogatepass")).decode().rstrip("=")


def after(text: str) -> str:
    """The id that a cursor stands for. Raises InvalidQuery for a text that is none."""
    try:
        padded = text.encode("ascii") + b"=" * (-len(text) % 4)
        found = urlsafe_b64decode(padded).decode("utf-8", "surrogatepass")
    except ValueError:
        found = ""
    if cursor(found) != text:  # the decoder passes over what is no base64
        raise InvalidQuery("this cursor is not one that a list ended with")
    return found


type Shape = dict[str, object]
type TransportFilter = Callable[[str], str] | None
"""What is shown of an agent's transport, as JSON texts; None: all of it."""


# -- answers -------------------------------------------------------------------------------------------


def route(found: "Route", *, votes: bool = True, schemas: bool = True, transport: TransportFilter = None) -> Shape:
    """Without `votes` their lists are empty; without `schemas` tools are brief."""
    return {
        "query": query(found.query),
        "matches": [agent_match(match, votes=votes, schemas=schemas, transport=transport) for match in found.matches],
        "pinned": [agent_match(match, votes=votes, schemas=schemas, transport=transport) for match in found.pinned],
        "steps": [route(step, votes=votes, schemas=schemas, transport=transport) for step in found.steps],
        **_circumstances(found),
    }


def tool_route(
    found: "ToolRoute", *, votes: bool = True, schemas: bool = True, transport: TransportFilter = None
) -> Shape:
    """As `route`."""
    return {
        "query": query(found.query),
        "matches": [tool_match(match, votes=votes, schemas=schemas, transport=transport) for match in found.matches],
        **_circumstances(found),
    }


def query(asked: "Query") -> Shape:
    return {
        "text": asked.text,
        "steps": list(asked.steps),
        "limit": asked.limit,
        "tags": list(asked.filters.tags),
        "kinds": list(asked.filters.kinds),
        "agent_ids": list(asked.filters.agent_ids),
        "reachable": asked.filters.reachable,
    }


def agent_match(match: "AgentMatch", *, votes: bool, schemas: bool, transport: TransportFilter = None) -> Shape:
    of_tool = tool if schemas else brief_tool
    return {
        "agent": agent(match.agent, transport),
        "score": match.score,
        "tools": [of_tool(each) for each in match.tools],
        "votes": [vote(each) for each in match.votes] if votes else [],
    }


def tool_match(match: "ToolMatch", *, votes: bool, schemas: bool, transport: TransportFilter = None) -> Shape:
    return {
        "tool": tool(match.tool) if schemas else brief_tool(match.tool),
        "agent": agent(match.agent, transport),
        "score": match.score,
        "votes": [vote(each) for each in match.votes] if votes else [],
    }


def vote(cast: "Vote") -> Shape:
    return {
        "entity_id": cast.entity_id,
        "kind": cast.kind,
        "leg": cast.leg,
        "rank": cast.rank,
        "score": cast.score,
        "weight": cast.weight,
        "contribution": cast.contribution,
    }


def _circumstances(found: "Route | ToolRoute") -> Shape:
    return {
        "recipe": found.recipe,
        "revision": found.revision,
        "confidence": found.confidence,
        "notice": found.notice,
        "not_reranked": found.not_reranked,
        "reason": found.reason,
        "elapsed_ms": found.elapsed_ms,
    }


# -- what is held --------------------------------------------------------------------------------------


def agent(held: "Agent", transport: TransportFilter = None) -> Shape:
    return {
        "id": held.id,
        "name": held.name,
        "description": held.description,
        "kind": held.kind,
        "version": held.version,
        "transport": parsed(transport(held.transport) if transport else held.transport),
        "tags": list(held.tags),
        "visible_to": list(held.visible_to),
        "pinned": held.pinned,
        "hidden": held.hidden,
        "pending": held.pending,
        "flags": list(held.flags),
        "status": held.status,
        "content_hash": held.content_hash,
        "approved_hash": held.approved_hash,
    }


def tool(held: "Tool") -> Shape:
    return {
        "id": held.id,
        "agent_id": held.agent_id,
        "name": held.name,
        "call_name": held.call_name,
        "description": held.description,
        "input_schema": parsed(held.input_schema),
        "output_schema": parsed(held.output_schema),
        "annotations": parsed(held.annotations),
        "tags": list(held.tags),
        "questions": list(held.questions),
        "pending": held.pending,
        "flags": list(held.flags),
        "status": held.status,
        "content_hash": held.content_hash,
        "approved_hash": held.approved_hash,
    }


def brief_tool(held: "Tool") -> Shape:
    """A tool as a list or an answer names it, without its schemas."""
    return {
        "id": held.id,
        "agent_id": held.agent_id,
        "name": held.name,
        "call_name": held.call_name,
        "description": held.description,
        "tags": list(held.tags),
        "pending": held.pending,
        "flags": list(held.flags),
        "status": held.status,
    }


def agents(listed: "Iterable[Listed]", transport: TransportFilter = None) -> Shape:
    return {"agents": [{**agent(each.agent, transport), "tools": each.tools} for each in listed]}


def tools(listed: "Iterable[Tool]", *, schemas: bool = True) -> Shape:
    return {"tools": [tool(each) if schemas else brief_tool(each) for each in listed]}


def about(known: "About", *, schemas: bool = True, transport: TransportFilter = None) -> Shape:
    return {
        "agent": agent(known.agent, transport),
        **tools(known.tools, schemas=schemas),
        "settings": settings(known.settings) if known.settings else None,
        "sources": list(known.sources),
        "revision": known.revision,
    }


def status(found: "Status") -> Shape:
    state = found.state
    return {
        "location": found.location,
        "revision": state.revision,
        "agents": state.agents,
        "tools": state.tools,
        "sources": found.sources,
        "embedder": state.embedder,
        "embedder_spec": state.embedder_spec,
        "texts": state.texts,
        "dimension": state.dimension,
        "schema_version": state.schema_version,
    }


def sources(held: "Iterable[SourceSummary]") -> Shape:
    return {"sources": [source(each) for each in held]}


def source(held: "SourceSummary") -> Shape:
    return {
        "name": held.name,
        "namespace": held.namespace,
        "rank": held.rank,
        "policy": held.policy,
        "seen_at": held.seen_at,
        "standing": standing(held.standing) if held.standing else None,
        "agents": list(held.agent_ids),
        "claims": [{"key": key, "agent_id": agent_id} for key, agent_id in held.claims],
    }


def standing(counted: "Standing") -> Shape:
    return {
        "online": counted.online,
        "unreachable": counted.unreachable,
        "failing": counted.failing,
        "known": counted.known,
        "pending": counted.pending,
        "pending_tools": counted.pending_tools,
    }


# -- what changed --------------------------------------------------------------------------------------


def settings(said: "OperatorSettings") -> Shape:
    return {
        "agent_id": said.agent_id,
        "tags": list(said.tags),
        "visible_to": None if said.visible_to is None else list(said.visible_to),
        "pinned": said.pinned,
        "hidden": said.hidden,
        "removed": said.removed,
    }


def written(done: "Written") -> Shape:
    return {"revision": done.revision, "texts_embedded": done.texts_embedded}


def forgotten(done: "Forgotten") -> Shape:
    told = {"agents": done.agents, "tools": done.tools, "ingest_again": done.ingest_again}
    return {**written(done), **{name: list(ids) for name, ids in told.items()}}


def changes(found: "Iterable[Change]", transport: TransportFilter = None) -> Shape:
    return {"changes": [change(each, transport) for each in found]}


def change(kept: "Change", transport: TransportFilter = None) -> Shape:
    return {
        "id": kept.id,
        "at": kept.at,
        "revision": kept.revision,
        "source": kept.source,
        "agent_id": kept.agent_id,
        "tool": kept.tool,
        "what": kept.what,
        "fields": list(kept.fields),
        "before_hash": kept.before_hash,
        "after_hash": kept.after_hash,
        "before": _changed_texts(kept.before, transport),
        "after": _changed_texts(kept.after, transport),
        "flags": list(kept.flags),
    }


def _changed_texts(kept: str, transport: TransportFilter) -> object:
    """An excerpt of a transport that is too long to be kept whole is for those who read all of it."""
    fields = parsed(kept)
    if transport is None or not isinstance(fields, dict) or "transport" not in fields:
        return fields
    stated = fields["transport"]
    return fields | {"transport": parsed(transport(canonical_json(stated) if isinstance(stated, Mapping) else ""))}


def approved(done: "Approved") -> Shape:
    return {"agents": list(done.agents), "tools": list(done.tools), "revision": done.revision}


def report(done: "SyncReport") -> Shape:
    changes = done.changes
    return {
        "source": changes.source,
        "dry_run": done.dry_run,
        "revision": done.revision,
        "seconds": done.seconds,
        "texts_embedded": done.texts_embedded,
        "notice": done.notice,
        "agents": _changed(
            changes.created_agents, changes.updated_agents, changes.removed_agents, changes.unchanged_agents
        ),
        "tools": _changed(changes.created_tools, changes.updated_tools, changes.removed_tools, changes.unchanged_tools),
        "changed_behaviour": [_updated(each) for each in changes.changed_behaviour],
        "waiting": list(changes.waiting),
        "flagged": [{"id": each.id, "flags": list(each.flags)} for each in changes.flagged],
        "renamed": [{"key": key, "id": agent_id} for key, agent_id in changes.renamed],
        "withheld": list(changes.withheld),
        "rejected": [_rejected(each) for each in changes.rejected],
        "cut": [_rejected(each) for each in changes.cut],
    }


def _changed(created: Sequence[str], updated: "Iterable[Updated]", removed: Sequence[str], unchanged: int) -> Shape:
    return {
        "created": list(created),
        "updated": [_updated(each) for each in updated],
        "removed": list(removed),
        "unchanged": unchanged,
    }


def _updated(each: "Updated") -> Shape:
    return {"id": each.id, "fields": list(each.fields)}


def _rejected(each: "Rejected") -> Shape:
    return {"where": each.where, "reason": each.reason}


# -- what Cypher gave ------------------------------------------------------------------------------------------


def cypher(result: "CypherResult") -> Shape:
    return {
        "columns": list(result.columns),
        "rows": [list(row) for row in result.rows],
        "truncated": result.truncated,
        "elapsed_ms": result.elapsed_ms,
    }
