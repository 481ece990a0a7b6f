"""What sources and operators changed, laid out for people."""

import json
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING

from waygraph.api.cli.render.blocks import Aside, Block, Cell, Fields, Lines, Table
from waygraph.api.cli.render.cli_json import Connected
from waygraph.api.cli.render.output import note
from waygraph.registry.model.shapes import Shape

if TYPE_CHECKING:
    from waygraph.api.cli.render.cli_json import Exported, Outcome
    from waygraph.ingest.upstream.logins import Login
    from waygraph.registry.access.api_keys import ApiKey, KeyState
    from waygraph.registry.embedding.weights import InstalledModel
    from waygraph.registry.model.changes import Approved, Change, CypherResult, Forgotten, OperatorSettings, Written
    from waygraph.registry.model.toolset import Toolset
    from waygraph.registry.model.transitions import LearningReport
    from waygraph.registry.model.usage import ToolUsage
    from waygraph.registry.storage.integrity.findings import Finding
    from waygraph.registry.storage.migrate import MigrationReport


def changes(found: "Sequence[Change]") -> Iterator[Block]:
    """A line for each, then the texts of each before and after."""
    yield Table(
        columns=("time", "revision", "agent", "tool", "change", "fields", "source"),
        rows=[
            (each.at, each.revision, each.agent_id, each.tool, each.what, each.fields, each.source) for each in found
        ],
    )
    for each in found:
        yield Table(
            columns=("field", "before", "after"),
            rows=_texts(each),
            title=f"{each.agent_id}{f'/{each.tool}' if each.tool else ''} {each.what}, {each.at}",
        )
        if each.flags:
            yield Lines("\n".join(each.flags), title="suspicious")
        if each.covered:
            yield Aside(f"an operator's own words stand over: {', '.join(each.covered)}")


def _texts(change: "Change") -> list[tuple[Cell, ...]]:
    before, after = json.loads(change.before), json.loads(change.after)
    return [(name, _text(before.get(name)), _text(after.get(name))) for name in {**before, **after}]


def _text(value: object) -> Cell:
    return value if value is None or isinstance(value, str) else json.dumps(value, ensure_ascii=False)


def view_usage(used: "Sequence[ToolUsage]") -> Iterator[Block]:
    counts = ("calls", "ok", "tool_error", "refused", "upstream_failed", "timed_out", "cancelled")
    times = ("p50_ms", "p95_ms", "last_at")
    yield Table(
        columns=("tool", *(name.replace("_", " ") for name in (*counts, *times))),
        rows=[(each.tool_id, *(getattr(each, name) for name in (*counts, *times))) for each in used],
    )


def view_approval(done: "Approved") -> Iterator[Block]:
    yield Fields((("agents", done.agents), ("tools", done.tools), ("revision", done.revision)))


def settings(said: "OperatorSettings") -> Iterator[Block]:
    yield Fields(_settings_fields(said))


def _settings_fields(said: "OperatorSettings") -> tuple[tuple[str, Cell], ...]:
    return (
        ("agent", said.agent_id),
        ("tags", said.tags),
        ("visible to", "as its source says" if said.visible_to is None else said.visible_to or "everyone"),
        ("pinned", said.pinned),
        ("hidden", said.hidden),
        ("removed", said.removed),
        *((("tools", said.tools),) if said.tools else ()),
    )


def view_write(done: "Written") -> Iterator[Block]:
    yield Fields((("revision", done.revision), ("texts embedded", done.texts_embedded)))


def view_toolset(found: "Toolset") -> Iterator[Block]:
    yield Fields(
        (
            ("toolset", found.name),
            ("description", found.description),
            *((name, getattr(found, name)) for name in ("tools", "agents", "tags")),
            ("callers", found.callers or "whoever may see anything in it"),
            ("members", found.members),
            ("not there", found.missing),
        )
    )
    yield Table(columns=("tool",), rows=[(each,) for each in found.includes])


def view_toolsets(found: "Sequence[Toolset]") -> Iterator[Block]:
    rows = [(each.name, len(each.includes), len(each.members), each.callers, each.description) for each in found]
    yield Table(columns=("toolset", "tools", "agents", "callers", "description"), rows=rows)


def view_learned(done: "LearningReport") -> Iterator[Block]:
    yield Fields((("transitions", done.transitions), ("revision", done.revision)))
    if done.unknown:
        yield Aside(f"{len(done.unknown)} agents and tools are not in this registry, such as {done.unknown[0]}")


def view_forget(done: "Forgotten") -> Iterator[Block]:
    """The numbers, then each agent that went, with its tools, and the sources that are to be read again."""
    yield Fields((("agents", len(done.agents)), ("tools", len(done.tools)), ("revision", done.revision)))
    if done.agents:
        names: dict[str, list[str]] = {agent_id: [] for agent_id in done.agents}
        for tool_id in done.tools:
            agent_id, _, name = tool_id.partition("/")
            names[agent_id].append(name)
        yield Table(columns=("removed", "tools"), rows=list(names.items()))
    if done.ingest_again:
        yield Table(columns=("ingest again",), rows=[(name,) for name in done.ingest_again])


def ingest(outcomes: "Sequence[Outcome]") -> Iterator[Block]:
    """The numbers of each source, then every change that has a name; created ones in a dry run only."""
    yield Table(
        columns=("source", "agents", "tools", "rejected", "embedded", "seconds", "revision"),
        rows=[_numbers(each) for each in outcomes],
    )
    changes = [row for each in outcomes for row in _named_changes(each)]
    if changes:
        yield Table(columns=("change", "what", "detail"), rows=changes)
    telling = [
        (updated.id, updated.fields)
        for each in outcomes
        if each.report
        for updated in each.report.changes.changed_behaviour
    ]
    if telling:
        yield Table(columns=("tool", "fields"), rows=telling, title="changed behaviour")


def _numbers(outcome: "Outcome") -> tuple[Cell, ...]:
    done = outcome.report
    if done is None:
        return (outcome.given, "failed", "", None, None, None, None)
    changes = done.changes
    return (
        f"{changes.source} (dry run)" if done.dry_run else changes.source,
        _tally(changes.created_agents, changes.updated_agents, changes.removed_agents, changes.unchanged_agents),
        _tally(changes.created_tools, changes.updated_tools, changes.removed_tools, changes.unchanged_tools),
        len(changes.rejected),
        done.texts_embedded,
        f"{done.seconds:.2f}",
        done.revision,
    )


def _tally(created: Sequence[object], updated: Sequence[object], removed: Sequence[object], unchanged: int) -> str:
    counted = (
        ("created", len(created)),
        ("updated", len(updated)),
        ("removed", len(removed)),
        ("unchanged", unchanged),
    )
    return ", ".join(f"{count} {name}" for name, count in counted if count) or "none"


def _named_changes(outcome: "Outcome") -> Iterator[tuple[Cell, ...]]:
    if outcome.report is None:
        return
    changes = outcome.report.changes
    if outcome.report.dry_run:
        yield from (("created", entity, None) for entity in (*changes.created_agents, *changes.created_tools))
    yield from (("updated", each.id, each.fields) for each in (*changes.updated_agents, *changes.updated_tools))
    yield from (("removed", entity, None) for entity in (*changes.removed_agents, *changes.removed_tools))
    yield from (("renamed", agent_id, f"{key} in the source") for key, agent_id in changes.renamed)
    yield from (("withheld", agent_id, "an operator removed it") for agent_id in changes.withheld)
    yield from (("waits", entity, "`waygraph approve` lets it into routing") for entity in changes.waiting)
    yield from (("suspicious", each.id, "; ".join(each.flags)) for each in changes.flagged)
    yield from (("rejected", each.where, each.reason) for each in changes.rejected)
    yield from (("cut", each.where, each.reason) for each in changes.cut)


# What the other commands tell, laid out for people: rows of Cypher, models, keys, copies, findings.


def cypher(result: "CypherResult") -> Iterator[Block]:
    yield Table(columns=result.columns, rows=[[_value(value) for value in row] for row in result.rows])
    yield Aside(f"{len(result.rows)} row{'s' * (len(result.rows) != 1)} in {result.elapsed_ms:.1f} ms")


def _value(value: object) -> Cell:
    """A value of the graph as it is read best: texts and numbers as they are, the rest as JSON."""
    if value is None or isinstance(value, (str, int)):
        return value
    return json.dumps(value, ensure_ascii=False)


def models(held: "Iterable[InstalledModel]") -> Iterator[Block]:
    yield Table(
        columns=("model", "languages", "where", "folder", "sha256"),
        rows=[(each.spec, each.languages, each.where, str(each.path), each.sha256) for each in held],
    )


def model_place(place: tuple[str, Path]) -> Iterator[Block]:
    """The folder alone, for `cd "$(waygraph model path)"`."""
    yield Lines(str(place[1]))


def created_key(made: "tuple[ApiKey, str]") -> Iterator[Block]:
    key, text = made
    yield Fields((("key", text), *_of_key(key)))


def api_key(held: "tuple[ApiKey, KeyState]") -> Iterator[Block]:
    key, state = held
    yield Fields((*_of_key(key), ("state", state), ("revoked", key.revoked_at)))


def api_keys(held: "Iterable[tuple[ApiKey, KeyState]]") -> Iterator[Block]:
    yield Table(
        columns=("id", "name", "state", "scopes", "sees", "created", "expires"),
        rows=[(key.id, key.name, state, key.scopes, _sees(key), key.created_at, key.expires_at) for key, state in held],
    )


def logins(held: "Iterable[Login]") -> Iterator[Block]:
    rows = [(login.caller, login.agent_id, login.by, login.at) for login in held]
    yield Table(columns=("caller", "agent", "by", "since"), rows=rows)


def _of_key(key: "ApiKey") -> tuple[tuple[str, Cell], ...]:
    return (
        ("id", key.id),
        ("name", key.name),
        ("scopes", key.scopes),
        ("sees", _sees(key)),
        ("created", key.created_at),
        ("expires", key.expires_at),
    )


def _sees(key: "ApiKey") -> Cell:
    sees: Cell = "everything" if key.everything else key.groups or "what is public"
    return f"toolset {key.toolset}" if key.toolset else sees


def view_export(done: "Exported") -> Iterator[Block]:
    yield Fields((("written", done.path), ("format", done.form), ("size in bytes", done.size_bytes)))


def view_migration(done: "MigrationReport") -> Iterator[Block]:
    yield Fields(
        (
            ("from", done.source),
            ("to", done.target),
            ("revision", done.revision),
            ("agents", done.agents),
            ("tools", done.tools),
            ("sources", done.sources),
            ("claims", done.claims),
            ("operators' words", done.settings),
            ("vectors", done.vectors),
            ("rows copied", done.copied),
            ("sha256", done.sha256),
            ("seconds", f"{done.seconds:.2f}"),
        )
    )


def findings(found: "Iterable[Finding]") -> Iterator[Block]:
    yield Table(
        columns=("check", "ok", "detail", "advice"),
        rows=[(each.check, each.ok, each.detail, each.advice) for each in found],
    )


# How `connect` tells what became of a host's file.


def shape(done: Connected) -> Shape:
    return {**asdict(done), "stays": dict(done.stays)}


def view(done: Connected) -> Iterator[Block]:
    yield Fields(
        [
            ("host", done.host),
            ("file", done.file),
            ("state", _state(done)),
            ("backup", done.backup),
            ("behind the gateway", done.taken),
            ("kept in", done.kept_in),
            ("put back", done.restored),
        ]
    )
    if done.stays:
        yield Table(("stays with the host", "reason"), list(done.stays.items()))
    if done.entry:
        yield Lines(done.entry)
    if done.difference:
        yield Lines("\n".join(done.difference))


def remark(done: Connected) -> None:
    """What a person has to do, or should know."""
    if done.entry:
        note(f"{done.host} keeps it in {done.file}; --write puts it there")
    if done.changed and not done.dry_run and done.restart:
        note(done.restart)
    if done.lacking:
        names = ", ".join(done.lacking)
        note(f"{done.host} hands on no variables of its environment: {names} must be set where it starts programs")
    if done.kept:
        note(f"the file has other servers of these names now, which stay: {', '.join(done.kept)}")


def _state(done: Connected) -> str:
    if not done.changed:
        return "as it was"
    if done.dry_run:
        return "would change"
    return "as it was before the import" if done.whole else "written"


def view_numbers(made: object) -> Iterator[Block]:
    """A noun of names and numbers; what it counts by names is in one line."""
    from waygraph.registry.model import shapes

    yield Fields([(name.replace("_", " "), _number_cell(value)) for name, value in shapes.shape(made).items()])


def _number_cell(value: object) -> Cell:
    if isinstance(value, dict):
        return ", ".join(f"{count} {name.replace('_', ' ')}" for name, count in value.items())
    return f"{value:.3g}" if isinstance(value, float) else None if value is None else str(value)
