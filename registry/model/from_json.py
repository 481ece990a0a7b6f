"""The nouns read back from JSON: the other way of `shapes`. What a service says is checked only as far as it is used.

Raises KeyError, TypeError or ValueError for a document that is not of the shape; the client says what it came from.
"""

from collections.abc import Mapping, Sequence
from typing import Any

from waygraph.registry.model.changes import (
    Approved,
    Change,
    ChangeSet,
    Flagged,
    Forgotten,
    OperatorSettings,
    Rejected,
    SourceSummary,
    Standing,
    SyncReport,
    Updated,
)
from waygraph.registry.model.identity import canonical_json
from waygraph.registry.model.nouns import (
    Agent,
    AgentMatch,
    Filters,
    JsonText,
    Query,
    Route,
    Tool,
    ToolMatch,
    ToolRoute,
    Vote,
)
from waygraph.registry.model.views import About, CypherResult, IndexState, Listed, Page, Status

type Json = Mapping[str, Any]

_AGENT_PLAIN = ("id", "name", "description", "kind", "version", "pinned", "hidden", "pending", "status")
_HASHES = ("content_hash", "approved_hash")
_TOOL_PLAIN = ("id", "agent_id", "name", "call_name", "description", "pending", "status")
_CHANGE_PLAIN = ("id", "at", "revision", "source", "agent_id", "tool", "what", "before_hash", "after_hash")
_VOTE = ("entity_id", "kind", "leg", "rank", "score", "weight", "contribution")
_CIRCUMSTANCES = ("recipe", "revision", "confidence", "notice", "not_reranked", "reason", "elapsed_ms")


def route(told: Json) -> Route:
    return Route(
        query=query(told["query"]),
        matches=tuple(map(agent_match, told["matches"])),
        pinned=tuple(map(agent_match, told["pinned"])),
        steps=tuple(map(route, told["steps"])),
        **_of(told, _CIRCUMSTANCES),
    )


def tool_route(told: Json) -> ToolRoute:
    return ToolRoute(
        query=query(told["query"]), matches=tuple(map(tool_match, told["matches"])), **_of(told, _CIRCUMSTANCES)
    )


def query(told: Json) -> Query:
    filters = Filters(
        tags=_texts(told["tags"]),
        kinds=tuple(told["kinds"]),
        agent_ids=_texts(told["agent_ids"]),
        reachable=told["reachable"],
    )
    return Query(text=told["text"], steps=_texts(told["steps"]), limit=told["limit"], filters=filters)


def agent_match(told: Json) -> AgentMatch:
    return AgentMatch(
        agent=agent(told["agent"]),
        score=told["score"],
        votes=tuple(map(vote, told["votes"])),
        tools=tuple(map(tool, told["tools"])),
    )


def tool_match(told: Json) -> ToolMatch:
    return ToolMatch(
        tool=tool(told["tool"]),
        agent=agent(told["agent"]),
        score=told["score"],
        votes=tuple(map(vote, told["votes"])),
    )


def vote(told: Json) -> Vote:
    return Vote(**_of(told, _VOTE))


def agent(told: Json) -> Agent:
    return Agent(
        **_of(told, (*_AGENT_PLAIN, *_HASHES)),
        flags=_texts(told["flags"]),
        transport=_json_text(told["transport"]),
        tags=_texts(told["tags"]),
        visible_to=_texts(told["visible_to"]),
    )


def tool(told: Json) -> Tool:
    """Whole, as `shapes.tool` gives it."""
    return Tool(
        **_of(told, (*_TOOL_PLAIN, *_HASHES)),
        flags=_texts(told["flags"]),
        input_schema=_json_text(told["input_schema"]),
        output_schema=_json_text(told["output_schema"]),
        annotations=_json_text(told["annotations"]),
        tags=_texts(told["tags"]),
        questions=_texts(told["questions"]),
    )


def agents_page(told: Json) -> Page[Listed]:
    items = tuple(Listed(agent(each), each["tools"]) for each in told["agents"])
    return Page(items=items, revision=told["revision"], following=told["following"])


def tools_page(told: Json) -> Page[Tool]:
    return Page(items=tuple(map(tool, told["tools"])), revision=told["revision"], following=told["following"])


def about(told: Json) -> About:
    return About(
        agent=agent(told["agent"]),
        tools=tuple(map(tool, told["tools"])),
        settings=None if told["settings"] is None else settings(told["settings"]),
        sources=_texts(told["sources"]),
        revision=told["revision"],
    )


def status(told: Json) -> Status:
    names = ("revision", "embedder", "embedder_spec", "texts", "dimension", "agents", "tools", "schema_version")
    return Status(location=told["location"], state=IndexState(**_of(told, names)), sources=told["sources"])


def sources(told: Json) -> list[SourceSummary]:
    return [
        SourceSummary(
            **_of(each, ("name", "namespace", "rank", "policy", "seen_at")),
            claims=tuple((claim["key"], claim["agent_id"]) for claim in each["claims"]),
            standing=standing(each["standing"]),
        )
        for each in told["sources"]
    ]


def standing(told: Json) -> Standing:
    return Standing(**_of(told, ("online", "unreachable", "failing", "known", "pending", "pending_tools")))


def changes_page(told: Json) -> Page[Change]:
    return Page(items=tuple(map(change, told["changes"])), revision=told["revision"], following=told["following"])


def change(told: Json) -> Change:
    return Change(
        **_of(told, _CHANGE_PLAIN),
        fields=_texts(told["fields"]),
        before=_json_text(told["before"]),
        after=_json_text(told["after"]),
        flags=_texts(told["flags"]),
    )


def approved(told: Json) -> Approved:
    return Approved(agents=_texts(told["agents"]), tools=_texts(told["tools"]), revision=told["revision"])


def settings(told: Json) -> OperatorSettings:
    visible_to = told["visible_to"]
    return OperatorSettings(
        **_of(told, ("agent_id", "pinned", "hidden", "removed")),
        tags=_texts(told["tags"]),
        visible_to=None if visible_to is None else _texts(visible_to),
    )


def forgotten(told: Json) -> Forgotten:
    """A service of before tells no ids, or no sources."""
    return Forgotten(
        **_of(told, ("revision", "texts_embedded")),
        agents=_texts(told.get("agents", ())),
        tools=_texts(told.get("tools", ())),
        ingest_again=_texts(told.get("ingest_again", ())),
    )


def cypher(told: Json) -> CypherResult:
    return CypherResult(
        columns=_texts(told["columns"]),
        rows=tuple(map(tuple, told["rows"])),
        truncated=told["truncated"],
        elapsed_ms=told["elapsed_ms"],
    )


def report(told: Json) -> SyncReport:
    """As far as a report is told: what a change set plans to write is not."""
    agents, tools = told["agents"], told["tools"]
    changes = ChangeSet(
        source=told["source"],
        created_agents=_texts(agents["created"]),
        created_tools=_texts(tools["created"]),
        updated_agents=_updated(agents["updated"]),
        updated_tools=_updated(tools["updated"]),
        removed_agents=_texts(agents["removed"]),
        removed_tools=_texts(tools["removed"]),
        unchanged_agents=agents["unchanged"],
        unchanged_tools=tools["unchanged"],
        waiting=_texts(told["waiting"]),
        flagged=tuple(Flagged(id=each["id"], flags=_texts(each["flags"])) for each in told["flagged"]),
        renamed=tuple((each["key"], each["id"]) for each in told["renamed"]),
        withheld=_texts(told["withheld"]),
        rejected=_rejected(told["rejected"]),
        cut=_rejected(told["cut"]),
    )
    rest = _of(told, ("revision", "seconds", "texts_embedded", "dry_run", "notice"))
    return SyncReport(changes=changes, **rest)


def _updated(told: Sequence[Json]) -> tuple[Updated, ...]:
    return tuple(Updated(id=each["id"], fields=_texts(each["fields"])) for each in told)


def _rejected(told: Sequence[Json]) -> tuple[Rejected, ...]:
    return tuple(Rejected(where=each["where"], reason=each["reason"]) for each in told)


def _of(told: Json, names: Sequence[str]) -> dict[str, Any]:
    return {name: told[name] for name in names}


def _texts(told: Sequence[str]) -> tuple[str, ...]:
    return tuple(told)


def _json_text(told: object) -> JsonText:
    """Canonical; empty where there is none."""
    return "" if told is None else canonical_json(told)
