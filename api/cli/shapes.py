"""The nouns as JSON. Each function is one shape of docs/json-output.md, and a test compares the two."""

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from waygraph.api.cli.pages import AgentPage, Exported, Listed, Outcome
    from waygraph.ingest.datasets.scalemcp.generate import Generated
    from waygraph.registry.changes import OperatorSettings, Rejected, SourceSummary, SyncReport, Updated
    from waygraph.registry.doctor.findings import Finding
    from waygraph.registry.embedding.weights import InstalledModel
    from waygraph.registry.evaluation import tables as evaluation
    from waygraph.registry.evaluation.difference import Changed, Difference, Side
    from waygraph.registry.evaluation.record import Record
    from waygraph.registry.graph.sandbox import CypherResult
    from waygraph.registry.migration.migrate import Migrated
    from waygraph.registry.model import Agent, AgentMatch, JsonText, Query, Route, Tool, ToolMatch, ToolRoute, Vote
    from waygraph.registry.registry import Status
    from waygraph.registry.writing import Written

type Shape = dict[str, object]


# -- answers -------------------------------------------------------------------------------------------


def route(found: "Route") -> Shape:
    return {
        "query": query(found.query),
        "matches": [agent_match(match) for match in found.matches],
        "pinned": [agent_match(match) for match in found.pinned],
        "steps": [route(step) for step in found.steps],
        **_circumstances(found),
    }


def tool_route(found: "ToolRoute") -> Shape:
    return {
        "query": query(found.query),
        "matches": [tool_match(match) for match in found.matches],
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
    }


def agent_match(match: "AgentMatch") -> Shape:
    return {
        "agent": agent(match.agent),
        "score": match.score,
        "tools": [tool(each) for each in match.tools],
        "votes": [vote(each) for each in match.votes],
    }


def tool_match(match: "ToolMatch") -> Shape:
    return {
        "tool": tool(match.tool),
        "agent": agent(match.agent),
        "score": match.score,
        "votes": [vote(each) for each in match.votes],
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
        "reason": found.reason,
        "elapsed_ms": found.elapsed_ms,
    }


# -- what is held --------------------------------------------------------------------------------------


def agent(held: "Agent") -> Shape:
    return {
        "id": held.id,
        "name": held.name,
        "description": held.description,
        "kind": held.kind,
        "version": held.version,
        "transport": _parsed(held.transport),
        "tags": list(held.tags),
        "visible_to": list(held.visible_to),
        "pinned": held.pinned,
        "hidden": held.hidden,
        "status": held.status,
    }


def tool(held: "Tool") -> Shape:
    return {
        "id": held.id,
        "agent_id": held.agent_id,
        "name": held.name,
        "call_name": held.call_name,
        "description": held.description,
        "input_schema": _parsed(held.input_schema),
        "output_schema": _parsed(held.output_schema),
        "annotations": _parsed(held.annotations),
        "tags": list(held.tags),
        "questions": list(held.questions),
        "status": held.status,
    }


def agents(listed: "Iterable[Listed]") -> Shape:
    return {"agents": [{**agent(each.agent), "tools": each.tools} for each in listed]}


def tools(listed: "Iterable[Tool]") -> Shape:
    return {"tools": [tool(each) for each in listed]}


def agent_page(page: "AgentPage") -> Shape:
    return {
        "agent": agent(page.agent),
        "tools": [tool(each) for each in page.tools],
        "settings": settings(page.settings) if page.settings else None,
        "sources": [source.name for source in page.sources],
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
        "seen_at": held.seen_at,
        "agents": list(held.agent_ids),
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


def ingest(outcomes: "Iterable[Outcome]") -> Shape:
    return {
        "sources": [
            {"given": each.given, "error": each.error, "report": report(each.report) if each.report else None}
            for each in outcomes
        ]
    }


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


# -- the rest ------------------------------------------------------------------------------------------


def cypher(result: "CypherResult") -> Shape:
    return {
        "columns": list(result.columns),
        "rows": [list(row) for row in result.rows],
        "truncated": result.truncated,
        "elapsed_ms": result.elapsed_ms,
    }


def models(held: "Iterable[InstalledModel]") -> Shape:
    return {
        "models": [
            {"spec": each.spec, "path": str(each.path), "sha256": each.sha256, "where": each.where} for each in held
        ]
    }


def model_place(place: tuple[str, Path]) -> Shape:
    spec, folder = place
    return {"spec": spec, "path": str(folder)}


def exported(done: "Exported") -> Shape:
    return {"format": done.form, "path": done.path, "size_bytes": done.size_bytes, "content": done.content}


def migrated(done: "Migrated") -> Shape:
    return {
        "from": done.source,
        "to": done.target,
        "revision": done.revision,
        "agents": done.agents,
        "tools": done.tools,
        "sources": done.sources,
        "claims": done.claims,
        "settings": done.settings,
        "vectors": done.vectors,
        "copied": done.copied,
        "sha256": done.sha256,
        "seconds": done.seconds,
    }


def generated(made: "Generated") -> Shape:
    return {
        "folder": str(made.folder),
        "companies": made.companies,
        "agents": made.agents,
        "tools": made.tools,
        "queries": made.queries,
        "daily": made.daily,
        "mean_gold_tools": made.mean_gold_tools,
        "daily_mean_gold_tools": made.daily_mean_gold_tools,
        "checksum": made.checksum,
    }


def findings(found: "Sequence[Finding]") -> Shape:
    return {
        "ok": all(each.ok for each in found),
        "findings": [
            {"check": each.check, "ok": each.ok, "detail": each.detail, "advice": each.advice} for each in found
        ],
    }


def _parsed(text: "JsonText") -> Mapping[str, object] | None:
    """The value of canonical JSON; None if there is none."""
    parsed: Mapping[str, object] | None = json.loads(text) if text else None
    return parsed


def evaluated(record: "Record") -> Shape:
    """As the record has it, without its queries."""
    return dict(record)


def tables(found: "Iterable[evaluation.Table]") -> Shape:
    return {"tables": [asdict(each) for each in found]}


def drawn(paths: "Iterable[Path]") -> Shape:
    return {"drawn": [str(path) for path in paths]}


def differences(found: "Iterable[Difference]") -> Shape:
    return {"differences": [_difference(each) for each in found]}


def _difference(found: "Difference") -> Shape:
    return {
        "name": found.name,
        "metric": found.metric,
        "queries": found.queries,
        "a": found.one,
        "b": found.other,
        "p": found.p,
        "won": found.won,
        "lost": found.lost,
        "changed": [_changed_query(each) for each in found.changed],
    }


def _changed_query(query: "Changed") -> Shape:
    return {
        "id": query.id,
        "text": query.text,
        "gold": [sorted(item) for item in query.gold],
        "a": _side(query.one),
        "b": _side(query.other),
    }


def _side(side: "Side") -> Shape:
    return {"value": side.value, "agents": list(side.agents), "votes": dict(side.votes)}
