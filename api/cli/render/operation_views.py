"""What sources and operators changed, laid out for people."""

import json
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING

from waygraph.api.cli.render.blocks import Aside, Block, Cell, Fields, Lines, Table
from waygraph.api.cli.render.cli_json import ConnectOutcome
from waygraph.api.cli.render.output import note
from waygraph.registry.model.shapes import Shape

if TYPE_CHECKING:
    from waygraph.api.cli.render.cli_json import Export, Outcome
    from waygraph.ingest.logins.store import Login
    from waygraph.registry.access.api_keys import ApiKey, KeyState
    from waygraph.registry.embedding.weights import InstalledModel
    from waygraph.registry.model.changes import Approved, Change, CypherResult, Forgotten, OperatorSettings, Written
    from waygraph.registry.model.transitions import LearningReport
    from waygraph.registry.model.usage import ToolUsage
    from waygraph.registry.operators.toolset import Toolset
    from waygraph.registry.storage.integrity.findings import Finding
    from waygraph.registry.storage.migrate import MigrationReport


def changes(records: "Sequence[Change]") -> Iterator[Block]:
    """A line for each, then the texts of each before and after."""
    yield Table(
        columns=("time", "revision", "agent", "tool", "change", "fields", "source"),
        rows=[
            (each.at, each.revision, each.agent_id, each.tool, each.what, each.fields, each.source) for each in records
        ],
    )
    for each in records:
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


def view_usage(usages: "Sequence[ToolUsage]") -> Iterator[Block]:
    counts = ("calls", "ok", "tool_error", "refused", "upstream_failed", "timed_out", "cancelled")
    times = ("p50_ms", "p95_ms", "last_at")
    yield Table(
        columns=("tool", *(name.replace("_", " ") for name in (*counts, *times))),
        rows=[(each.tool_id, *(getattr(each, name) for name in (*counts, *times))) for each in usages],
    )


def view_approval(approval: "Approved") -> Iterator[Block]:
    yield Fields((("agents", approval.agents), ("tools", approval.tools), ("revision", approval.revision)))


def settings(setting: "OperatorSettings") -> Iterator[Block]:
    yield Fields(_settings_fields(setting))


def _settings_fields(setting: "OperatorSettings") -> tuple[tuple[str, Cell], ...]:
    return (
        ("agent", setting.agent_id),
        ("tags", setting.tags),
        ("visible to", "as its source says" if setting.visible_to is None else setting.visible_to or "everyone"),
        ("pinned", setting.pinned),
        ("hidden", setting.hidden),
        ("removed", setting.removed),
        *((("tools", setting.tools),) if setting.tools else ()),
    )


def view_write(result: "Written") -> Iterator[Block]:
    yield Fields((("revision", result.revision), ("texts embedded", result.texts_embedded)))


def view_toolset(toolset: "Toolset") -> Iterator[Block]:
    yield Fields(
        (
            ("toolset", toolset.name),
            ("description", toolset.description),
            *((name, getattr(toolset, name)) for name in ("tools", "agents", "tags")),
            ("callers", toolset.callers or "whoever may see anything in it"),
            ("members", toolset.members),
            ("not there", toolset.missing),
        )
    )
    yield Table(columns=("tool",), rows=[(each,) for each in toolset.includes])


def view_toolsets(toolsets: "Sequence[Toolset]") -> Iterator[Block]:
    rows = [(each.name, len(each.includes), len(each.members), each.callers, each.description) for each in toolsets]
    yield Table(columns=("toolset", "tools", "agents", "callers", "description"), rows=rows)


def view_learned(result: "LearningReport") -> Iterator[Block]:
    yield Fields((("transitions", result.transitions), ("revision", result.revision)))
    if result.unknown:
        yield Aside(f"{len(result.unknown)} agents and tools are not in this registry, such as {result.unknown[0]}")


def view_forget(result: "Forgotten") -> Iterator[Block]:
    """The numbers, then each agent that went, with its tools, and the sources that are to be read again."""
    yield Fields((("agents", len(result.agents)), ("tools", len(result.tools)), ("revision", result.revision)))
    if result.agents:
        names: dict[str, list[str]] = {agent_id: [] for agent_id in result.agents}
        for tool_id in result.tools:
            agent_id, _, name = tool_id.partition("/")
            names[agent_id].append(name)
        yield Table(columns=("removed", "tools"), rows=list(names.items()))
    if result.ingest_again:
        yield Table(columns=("ingest again",), rows=[(name,) for name in result.ingest_again])


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
        (change.id, change.fields)
        for each in outcomes
        if each.report
        for change in each.report.changes.changed_behaviour
    ]
    if telling:
        yield Table(columns=("tool", "fields"), rows=telling, title="changed behaviour")


def _numbers(outcome: "Outcome") -> tuple[Cell, ...]:
    report = outcome.report
    if report is None:
        return (outcome.source, "failed", "", None, None, None, None)
    changes = report.changes
    return (
        f"{changes.source} (dry run)" if report.dry_run else changes.source,
        _tally(changes.created_agents, changes.updated_agents, changes.removed_agents, changes.unchanged_agents),
        _tally(changes.created_tools, changes.updated_tools, changes.removed_tools, changes.unchanged_tools),
        len(changes.rejected),
        report.texts_embedded,
        f"{report.seconds:.2f}",
        report.revision,
    )


def _tally(additions: Sequence[object], updates: Sequence[object], removals: Sequence[object], same_count: int) -> str:
    counts = (
        ("created", len(additions)),
        ("updated", len(updates)),
        ("removed", len(removals)),
        ("unchanged", same_count),
    )
    return ", ".join(f"{count} {name}" for name, count in counts if count) or "none"


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


def cypher(result: "CypherResult") -> Iterator[Block]:
    yield Table(columns=result.columns, rows=[[_value(value) for value in row] for row in result.rows])
    yield Aside(f"{len(result.rows)} row{'s' * (len(result.rows) != 1)} in {result.elapsed_ms:.1f} ms")


def _value(value: object) -> Cell:
    """A value of the graph as it is read best: texts and numbers as they are, the rest as JSON."""
    if value is None or isinstance(value, (str, int)):
        return value
    return json.dumps(value, ensure_ascii=False)


def models(entries: "Iterable[InstalledModel]") -> Iterator[Block]:
    yield Table(
        columns=("model", "languages", "where", "folder", "sha256"),
        rows=[(each.spec, each.languages, each.where, str(each.path), each.sha256) for each in entries],
    )


def model_place(place: tuple[str, Path]) -> Iterator[Block]:
    """The folder alone, for `cd "$(waygraph model path)"`."""
    yield Lines(str(place[1]))


def created_key(new_key: "tuple[ApiKey, str]") -> Iterator[Block]:
    key, text = new_key
    yield Fields((("key", text), *_of_key(key)))


def api_key(key_and_state: "tuple[ApiKey, KeyState]") -> Iterator[Block]:
    key, state = key_and_state
    yield Fields((*_of_key(key), ("state", state), ("revoked", key.revoked_at)))


def api_keys(keys: "Iterable[tuple[ApiKey, KeyState]]") -> Iterator[Block]:
    yield Table(
        columns=("id", "name", "state", "scopes", "sees", "created", "expires"),
        rows=[(key.id, key.name, state, key.scopes, _sees(key), key.created_at, key.expires_at) for key, state in keys],
    )


def logins(entries: "Iterable[Login]") -> Iterator[Block]:
    rows = [(login.caller, login.agent_id, login.by, login.at) for login in entries]
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


def view_export(export: "Export") -> Iterator[Block]:
    yield Fields((("written", export.path), ("format", export.format), ("size in bytes", export.size_bytes)))


def view_migration(migration: "MigrationReport") -> Iterator[Block]:
    yield Fields(
        (
            ("from", migration.source),
            ("to", migration.target),
            ("revision", migration.revision),
            ("agents", migration.agents),
            ("tools", migration.tools),
            ("sources", migration.sources),
            ("claims", migration.claims),
            ("operators' words", migration.settings),
            ("vectors", migration.vectors),
            ("rows copied", migration.copied),
            ("sha256", migration.sha256),
            ("seconds", f"{migration.seconds:.2f}"),
        )
    )


def findings(checks: "Iterable[Finding]") -> Iterator[Block]:
    yield Table(
        columns=("check", "ok", "detail", "advice"),
        rows=[(each.check, each.ok, each.detail, each.advice) for each in checks],
    )


def shape(outcome: ConnectOutcome) -> Shape:
    return {**asdict(outcome), "stays": dict(outcome.stays)}


def view(outcome: ConnectOutcome) -> Iterator[Block]:
    yield Fields(
        [
            ("host", outcome.host),
            ("file", outcome.file),
            ("state", _state(outcome)),
            ("backup", outcome.backup),
            ("behind the gateway", outcome.taken),
            ("kept in", outcome.kept_in),
            ("put back", outcome.restored),
        ]
    )
    if outcome.stays:
        yield Table(("stays with the host", "reason"), list(outcome.stays.items()))
    if outcome.entry:
        yield Lines(outcome.entry)
    if outcome.difference:
        yield Lines("\n".join(outcome.difference))


def remark(outcome: ConnectOutcome) -> None:
    """What a person has to do, or should know."""
    if outcome.entry:
        note(f"{outcome.host} keeps it in {outcome.file}; --write puts it there")
    if outcome.changed and not outcome.dry_run and outcome.restart:
        note(outcome.restart)
    if outcome.lacking:
        names = ", ".join(outcome.lacking)
        note(f"{outcome.host} hands on no variables of its environment: {names} must be set where it starts programs")
    if outcome.kept:
        note(f"the file has other servers of these names now, which stay: {', '.join(outcome.kept)}")


def _state(outcome: ConnectOutcome) -> str:
    if not outcome.changed:
        return "as it was"
    if outcome.dry_run:
        return "would change"
    return "as it was before the import" if outcome.whole else "written"


def view_numbers(noun: object) -> Iterator[Block]:
    """A noun of names and numbers; what it counts by names is in one line."""
    from waygraph.registry.model import shapes

    yield Fields([(name.replace("_", " "), _number_cell(value)) for name, value in shapes.shape(noun).items()])


def _number_cell(value: object) -> Cell:
    if isinstance(value, dict):
        return ", ".join(f"{count} {name.replace('_', ' ')}" for name, count in value.items())
    return f"{value:.3g}" if isinstance(value, float) else None if value is None else str(value)
