"""The nouns as JSON, and read back: the shapes of docs/json-output.schema.json, which a test compares.

`shape` writes a noun by its fields. Beside it stand the shapes that leave fields out or join nouns.
"""

import ast
import inspect
import json
import sys
from collections.abc import Callable, Iterable, Mapping
from dataclasses import replace
from functools import cache
from itertools import pairwise
from typing import TYPE_CHECKING, Any

from waygraph.registry.model import nouns
from waygraph.registry.model.changes import (
    About,
    Change,
    ChangeSet,
    Failure,
    ListedAgent,
    OperatorSettings,
    SourceSummary,
    Status,
    SyncReport,
    Updated,
    Waiting,
)

if TYPE_CHECKING:
    from pydantic import TypeAdapter

type Shape = dict[str, Any]
type TransportFilter = Callable[[nouns.JsonText], nouns.JsonText] | None
"""What is shown of an agent's transport; None: all of it."""

_NOT_BRIEF = {"input_schema", "output_schema", "annotations", "questions", "content_hash", "approved_hash"}
_BRIEF_TOOLS = {"tools": {"__all__": _NOT_BRIEF}}
_BRIEF_MATCHES = {"matches": {"__all__": _BRIEF_TOOLS}, "pinned": {"__all__": _BRIEF_TOOLS}}
_BRIEF_ROUTE = {**_BRIEF_MATCHES, "steps": {"__all__": _BRIEF_MATCHES}}
_BRIEF_TOOL_MATCHES = {"matches": {"__all__": {"tool": _NOT_BRIEF}}}
_BRIEF_TOOL_ROUTE = {**_BRIEF_TOOL_MATCHES, "steps": {"__all__": _BRIEF_TOOL_MATCHES}}


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
        document: Shape = adapter.dump_python(noun, mode="json", exclude=exclude, warnings=False)
    except ValueError:  # pydantic stops at a depth that a schema may have in a registry of before
        document = json.loads(json.dumps(adapter.dump_python(noun, exclude=exclude, warnings=False)))
    return document


def read[T](kind: type[T], document: object) -> T:
    """The noun of a shape. Raises ValueError where a field is missing or of another type."""
    any_kind: Any = kind
    noun: T = _adapter(any_kind).validate_python(document)
    return noun


# -- answers -------------------------------------------------------------------------------------------


def route(answer: nouns.Route, *, votes: bool = True, schemas: bool = True, transport: TransportFilter = None) -> Shape:
    """Without `votes` their lists are empty; without `schemas` tools are brief."""
    return shape(_shown_route(answer, votes, transport), exclude=None if schemas else _BRIEF_ROUTE)


def tool_route(
    answer: nouns.ToolRoute, *, votes: bool = True, schemas: bool = True, transport: TransportFilter = None
) -> Shape:
    """As `route`."""
    return shape(_shown_route(answer, votes, transport), exclude=None if schemas else _BRIEF_TOOL_ROUTE)


def _shown_route[R: (nouns.Route, nouns.ToolRoute)](answer: R, votes: bool, transport: TransportFilter) -> R:
    steps = tuple(_shown_route(step, votes, transport) for step in answer.steps)
    route = replace(answer, matches=_shown_matches(answer.matches, votes, transport), steps=steps)
    if isinstance(route, nouns.ToolRoute):
        return route
    return replace(route, pinned=_shown_matches(route.pinned, votes, transport))


def _shown_matches[M: (nouns.AgentMatch, nouns.ToolMatch)](
    matches: tuple[M, ...], votes: bool, transport: TransportFilter
) -> tuple[M, ...]:
    return tuple(
        replace(match, votes=match.votes if votes else (), agent=_shown_agent(match.agent, transport))
        for match in matches
    )


def _shown_agent(agent: nouns.Agent, transport: TransportFilter) -> nouns.Agent:
    if transport is None:
        return agent
    return replace(agent, transport=transport(agent.transport), status=nouns.public_status(agent.status))


# -- what is held --------------------------------------------------------------------------------------


def tool(item: nouns.Tool, *, schemas: bool = True) -> Shape:
    """Without `schemas` as a list or an answer names it."""
    return shape(item, exclude=None if schemas else _NOT_BRIEF)


def agents(items: Iterable[ListedAgent], transport: TransportFilter = None) -> Shape:
    return {"agents": [agent_line(each, transport) for each in items]}


def agent_line(item: ListedAgent, transport: TransportFilter = None) -> Shape:
    return {**shape(_shown_agent(item.agent, transport)), "tools": item.tools}


def tools(items: Iterable[nouns.Tool], *, schemas: bool = True) -> Shape:
    return {"tools": [tool(each, schemas=schemas) for each in items]}


def about(details: About, *, schemas: bool = True, transport: TransportFilter = None) -> Shape:
    result = replace(details, agent=_shown_agent(details.agent, transport))
    if details.settings:
        result = replace(result, settings=_shown_settings(details.settings, transport))
    return shape(result, exclude=None if schemas else _BRIEF_TOOLS)


def settings(setting: OperatorSettings, transport: TransportFilter = None) -> Shape:
    return shape(_shown_settings(setting, transport))


def _shown_settings(setting: OperatorSettings, transport: TransportFilter) -> OperatorSettings:
    """Values that operators fixed are launch data: without it none of what was said of tools is told, nor by whom."""
    return setting if transport is None else replace(setting, tools="", rejections="", wishes="")


def status(registry_status: Status, transport: TransportFilter = None) -> Shape:
    result = replace(registry_status, failures=_shown_failures(registry_status.failures, transport))
    document = shape(result, exclude={"state"})
    failures = document.pop("failures")
    return {**document, **shape(result.state, exclude={"commit"}), "failures": failures}


def read_status(document: Mapping[str, Any]) -> Status:
    return read(Status, {**document, "state": document})


def sources(summaries: Iterable[SourceSummary], transport: TransportFilter = None) -> Shape:
    return {"sources": [source(each, transport) for each in summaries]}


def source(summary: SourceSummary, transport: TransportFilter = None) -> Shape:
    result = replace(summary, failures=_shown_failures(summary.failures, transport))
    claims = [{"key": key, "agent_id": agent_id} for key, agent_id in summary.claims]
    return {**shape(result, exclude={"claims"}), "agents": list(summary.agent_ids), "claims": claims}


def _shown_failures(failures: Iterable[Failure], transport: TransportFilter) -> tuple[Failure, ...]:
    """A reason may quote a command or a path, as a status may."""
    return tuple(failures if transport is None else (each.without_reason for each in failures))


def read_sources(document: Mapping[str, Any]) -> list[SourceSummary]:
    return [
        read(SourceSummary, {**each, "claims": [(claim["key"], claim["agent_id"]) for claim in each["claims"]]})
        for each in document["sources"]
    ]


# -- what changed --------------------------------------------------------------------------------------


def changes(items: Iterable[Change]) -> Shape:
    return {"changes": list(map(shape, items))}


def shown_waiting(item: Waiting, transport: TransportFilter) -> Waiting:
    return replace(item, change=item.change and shown_change(item.change, transport))


def shown_change(change: Change, transport: TransportFilter) -> Change:
    if transport is None:
        return change
    return replace(change, before=_shown_fields(change.before, transport), after=_shown_fields(change.after, transport))


def _shown_fields(text: nouns.JsonText, transport: Callable[[nouns.JsonText], nouns.JsonText]) -> nouns.JsonText:
    """An excerpt of a transport that is too long to be kept whole is for those who read all of it."""
    fields = nouns.parse_field(text)
    if not isinstance(fields, dict) or "transport" not in fields:
        return text
    value = fields["transport"]
    public_text = transport(nouns.canonical_json(value) if isinstance(value, Mapping) else "")
    return nouns.canonical_json(fields | {"transport": nouns.parse_field(public_text)})


def toolsets(items: Iterable[object]) -> list[Shape]:
    return list(map(shape, items))


def report(sync_report: SyncReport) -> Shape:
    changes = sync_report.changes
    return {
        "source": changes.source,
        **shape(sync_report, exclude={"changes"}),
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


def read_report(document: Mapping[str, Any]) -> SyncReport:
    """As far as a report says: what a change set plans to write is not in it."""
    parts = {f"{part}_{kind}": document[kind][part] for kind in ("agents", "tools") for part in _PARTS}
    changes = {**document, **parts, "renamed": [(each["key"], each["id"]) for each in document["renamed"]]}
    return read(SyncReport, {**document, "changes": changes})


def field_owners(kind: type) -> dict[str, type]:
    """The fields of a noun or answer, in the order of its JSON, each with the class that states it."""
    owners: dict[str, type] = {}
    for base in reversed(kind.__mro__):
        for name in inspect.get_annotations(base):
            owners.pop(name, None)
            owners[name] = base
    return owners


def field_texts(kind: type) -> dict[str, str]:
    """The text below each field that has one."""
    return {name: text for name, base in field_owners(kind).items() if (text := _own_texts(base).get(name))}


@cache
def _own_texts(kind: type) -> dict[str, str]:
    """Of the fields that the class itself states."""
    texts = {}
    for before, after in pairwise(_classes(kind.__module__).get(kind.__name__, ())):
        match before, after:
            case ast.AnnAssign(target=ast.Name(name)), ast.Expr(value=ast.Constant(value=str(text))):
                texts[name] = inspect.cleandoc(text)
    return texts


@cache
def _classes(module: str) -> dict[str, list[ast.stmt]]:
    """What stands in each class of a module."""
    tree = ast.parse(inspect.getsource(sys.modules[module]))
    return {each.name: each.body for each in tree.body if isinstance(each, ast.ClassDef)}
