"""The nouns as JSON, and read back: the shapes of docs/json-output.md, which a test compares.

`shape` writes a noun by its fields. Beside it stand the shapes that leave fields out or join nouns.
"""

import json
from collections.abc import Callable, Iterable, Mapping
from dataclasses import replace
from functools import cache
from typing import TYPE_CHECKING, Any

from waygraph.registry.model.changes import (
    About,
    Change,
    ChangeSet,
    IndexState,
    Listed,
    OperatorSettings,
    Page,
    SourceSummary,
    Status,
    SyncReport,
    Updated,
)
from waygraph.registry.model.failures import Failure
from waygraph.registry.model.nouns import (
    Agent,
    AgentMatch,
    JsonText,
    Route,
    Tool,
    ToolMatch,
    ToolRoute,
    canonical_json,
    parse_field,
    public_status,
)
from waygraph.registry.model.toolset import Toolset
from waygraph.registry.model.usage import ToolUsage

if TYPE_CHECKING:
    from pydantic import TypeAdapter

type Shape = dict[str, Any]
type TransportFilter = Callable[[JsonText], JsonText] | None
"""What is shown of an agent's transport; None: all of it."""

_NOT_BRIEF = {"input_schema", "output_schema", "annotations", "questions", "content_hash", "approved_hash"}
_BRIEF_TOOLS = {"tools": {"__all__": _NOT_BRIEF}}
_BRIEF_MATCHES = {"matches": {"__all__": _BRIEF_TOOLS}, "pinned": {"__all__": _BRIEF_TOOLS}}
_BRIEF_ROUTE = {**_BRIEF_MATCHES, "steps": {"__all__": _BRIEF_MATCHES}}
_BRIEF_TOOL_ROUTE = {"matches": {"__all__": {"tool": _NOT_BRIEF}}}


@cache
def _adapter(kind: Any) -> "TypeAdapter[Any]":
    """pydantic takes longer to import than a route takes: it is imported where the first noun becomes JSON."""
    from pydantic import TypeAdapter

    return TypeAdapter(kind)


def shape(noun: object, *, exclude: Any = None) -> Shape:
    """A noun by its fields. `exclude`: fields to leave out, as pydantic takes them."""
    kind: Any = type(noun)
    adapter = _adapter(kind)
    try:
        written: Shape = adapter.dump_python(noun, mode="json", exclude=exclude, warnings=False)
    except ValueError:  # pydantic stops at a depth that a schema may have in a registry of before
        written = json.loads(json.dumps(adapter.dump_python(noun, exclude=exclude, warnings=False)))
    return written


def read[T](kind: type[T], told: object) -> T:
    """The noun of a shape. Raises ValueError where a field is missing or of another type."""
    known: Any = kind
    noun: T = _adapter(known).validate_python(told)
    return noun


# -- answers -------------------------------------------------------------------------------------------


def route(found: Route, *, votes: bool = True, schemas: bool = True, transport: TransportFilter = None) -> Shape:
    """Without `votes` their lists are empty; without `schemas` tools are brief."""
    return shape(_shown_route(found, votes, transport), exclude=None if schemas else _BRIEF_ROUTE)


def tool_route(
    found: ToolRoute, *, votes: bool = True, schemas: bool = True, transport: TransportFilter = None
) -> Shape:
    """As `route`."""
    shown = replace(found, matches=_shown_matches(found.matches, votes, transport))
    return shape(shown, exclude=None if schemas else _BRIEF_TOOL_ROUTE)


def _shown_route(found: Route, votes: bool, transport: TransportFilter) -> Route:
    return replace(
        found,
        matches=_shown_matches(found.matches, votes, transport),
        pinned=_shown_matches(found.pinned, votes, transport),
        steps=tuple(_shown_route(step, votes, transport) for step in found.steps),
    )


def _shown_matches[M: (AgentMatch, ToolMatch)](
    matches: tuple[M, ...],
    votes: bool,
    transport: TransportFilter,
) -> tuple[M, ...]:
    return tuple(
        replace(match, votes=match.votes if votes else (), agent=_shown_agent(match.agent, transport))
        for match in matches
    )


def _shown_agent(held: Agent, transport: TransportFilter) -> Agent:
    if transport is None:
        return held
    return replace(held, transport=transport(held.transport), status=public_status(held.status))


# -- what is held --------------------------------------------------------------------------------------


def tool(held: Tool, *, schemas: bool = True) -> Shape:
    """Without `schemas` as a list or an answer names it."""
    return shape(held, exclude=None if schemas else _NOT_BRIEF)


def agents(listed: Iterable[Listed], transport: TransportFilter = None) -> Shape:
    return {"agents": [{**shape(_shown_agent(each.agent, transport)), "tools": each.tools} for each in listed]}


def read_agents(told: Mapping[str, Any]) -> Page[Listed]:
    return _page(told, (Listed(read(Agent, each), each["tools"]) for each in told["agents"]))


def tools(listed: Iterable[Tool], *, schemas: bool = True) -> Shape:
    return {"tools": [tool(each, schemas=schemas) for each in listed]}


def read_tools(told: Mapping[str, Any]) -> Page[Tool]:
    return _page(told, (read(Tool, each) for each in told["tools"]))


def about(known: About, *, schemas: bool = True, transport: TransportFilter = None) -> Shape:
    shown = replace(known, agent=_shown_agent(known.agent, transport))
    if known.settings:
        shown = replace(shown, settings=_shown_settings(known.settings, transport))
    return shape(shown, exclude=None if schemas else _BRIEF_TOOLS)


def settings(said: OperatorSettings, transport: TransportFilter = None) -> Shape:
    return shape(_shown_settings(said, transport))


def _shown_settings(said: OperatorSettings, transport: TransportFilter) -> OperatorSettings:
    """Values that operators fixed are launch data: without it none of what was said of tools is told."""
    return said if transport is None else replace(said, tools="")


def status(found: Status, transport: TransportFilter = None) -> Shape:
    state = shape(found.state, exclude={"commit"})
    counts = {name: state.pop(name) for name in ("revision", "agents", "tools")}
    failures = list(map(shape, _shown_failures(found.failures, transport)))
    return {"location": found.location, **counts, "sources": found.sources, **state, "failures": failures}


def read_status(told: Mapping[str, Any]) -> Status:
    failures = tuple(read(Failure, each) for each in told.get("failures", ()))  # a service of before knows none
    return Status(location=told["location"], state=read(IndexState, told), sources=told["sources"], failures=failures)


def sources(held: Iterable[SourceSummary], transport: TransportFilter = None) -> Shape:
    return {"sources": [source(each, transport) for each in held]}


def source(held: SourceSummary, transport: TransportFilter = None) -> Shape:
    shown = replace(held, failures=_shown_failures(held.failures, transport))
    claims = [{"key": key, "agent_id": agent_id} for key, agent_id in held.claims]
    return {**shape(shown, exclude={"claims"}), "agents": list(held.agent_ids), "claims": claims}


def _shown_failures(held: Iterable[Failure], transport: TransportFilter) -> tuple[Failure, ...]:
    """A reason may quote a command or a path, as a status may."""
    return tuple(held if transport is None else (each.without_reason for each in held))


def read_sources(told: Mapping[str, Any]) -> list[SourceSummary]:
    return [
        read(SourceSummary, {**each, "claims": [(claim["key"], claim["agent_id"]) for claim in each["claims"]]})
        for each in told["sources"]
    ]


# -- what changed --------------------------------------------------------------------------------------


def changes(found: Iterable[Change], transport: TransportFilter = None) -> Shape:
    return {"changes": [shape(_shown_change(each, transport)) for each in found]}


def _shown_change(kept: Change, transport: TransportFilter) -> Change:
    if transport is None:
        return kept
    return replace(kept, before=_shown_fields(kept.before, transport), after=_shown_fields(kept.after, transport))


def _shown_fields(kept: JsonText, transport: Callable[[JsonText], JsonText]) -> JsonText:
    """An excerpt of a transport that is too long to be kept whole is for those who read all of it."""
    fields = parse_field(kept)
    if not isinstance(fields, dict) or "transport" not in fields:
        return kept
    stated = fields["transport"]
    shown = transport(canonical_json(stated) if isinstance(stated, Mapping) else "")
    return canonical_json(fields | {"transport": parse_field(shown)})


def read_changes(told: Mapping[str, Any]) -> Page[Change]:
    return _page(told, (read(Change, each) for each in told["changes"]))


def toolsets(held: Iterable[Toolset]) -> list[Shape]:
    return list(map(shape, held))


def usage(used: Iterable[ToolUsage]) -> Shape:
    return {"usage": list(map(shape, used))}


def read_usage(told: Mapping[str, Any]) -> list[ToolUsage]:
    return [read(ToolUsage, each) for each in told["usage"]]


def report(done: SyncReport) -> Shape:
    changes = done.changes
    return {
        "source": changes.source,
        **shape(done, exclude={"changes"}),
        "agents": _changes_json(changes, "agents"),
        "tools": _changes_json(changes, "tools"),
        "changed_behaviour": list(map(shape, changes.changed_behaviour)),
        "waiting": list(changes.waiting),
        "flagged": list(map(shape, changes.flagged)),
        "renamed": [{"key": key, "id": agent_id} for key, agent_id in changes.renamed],
        "withheld": list(changes.withheld),
        "rejected": [shape(each, exclude={"key"}) for each in changes.rejected],
        "cut": [shape(each, exclude={"key"}) for each in changes.cut],
    }


_PARTS = {"created": tuple[str, ...], "updated": tuple[Updated, ...], "removed": tuple[str, ...], "unchanged": int}


def _changes_json(changes: ChangeSet, kind: str) -> Shape:
    return {
        part: _adapter(of).dump_python(getattr(changes, f"{part}_{kind}"), mode="json") for part, of in _PARTS.items()
    }


def read_report(told: Mapping[str, Any]) -> SyncReport:
    """As far as a report says: what a change set plans to write is not in it."""
    parts = {f"{part}_{kind}": told[kind][part] for kind in ("agents", "tools") for part in _PARTS}
    changes = {**told, **parts, "renamed": [(each["key"], each["id"]) for each in told["renamed"]]}
    return read(SyncReport, {**told, "changes": changes})


def _page[T](told: Mapping[str, Any], items: Iterable[T]) -> Page[T]:
    return Page(items=tuple(items), revision=told["revision"], following=told["following"])
