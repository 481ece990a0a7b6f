"""What sources and operators changed, laid out for people."""

import json
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

from waygraph.api.cli.shown.blocks import Block, Cell, Fields, Lines, Table

if TYPE_CHECKING:
    from waygraph.api.cli.shown.pages import Outcome
    from waygraph.registry.changes import Approved, Change, OperatorSettings
    from waygraph.registry.writing import Forgotten, Written


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


def _texts(change: "Change") -> list[tuple[Cell, ...]]:
    before, after = json.loads(change.before), json.loads(change.after)
    return [(name, _text(before.get(name)), _text(after.get(name))) for name in {**before, **after}]


def _text(value: object) -> Cell:
    return value if value is None or isinstance(value, str) else json.dumps(value, ensure_ascii=False)


def approved(done: "Approved") -> Iterator[Block]:
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
    )


def written(done: "Written") -> Iterator[Block]:
    yield Fields((("revision", done.revision), ("texts embedded", done.texts_embedded)))


def forgotten(done: "Forgotten") -> Iterator[Block]:
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
