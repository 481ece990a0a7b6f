"""The nouns laid out for people: tables, fields and texts; how those look is decided elsewhere."""

import json
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from waygraph.api.cli.shown.blocks import Aside, Bar, Block, Cell, Fields, Lines, Table

if TYPE_CHECKING:
    from waygraph.api.cli.shown.pages import Exported, Outcome
    from waygraph.ingest.datasets.scalemcp.generate import Generated
    from waygraph.registry.authentication.keys import ApiKey, KeyState
    from waygraph.registry.changes import Approved, Change, OperatorSettings, SourceSummary
    from waygraph.registry.doctor.findings import Finding
    from waygraph.registry.embedding.weights import InstalledModel
    from waygraph.registry.graph.sandbox import CypherResult
    from waygraph.registry.migration.migrate import Migrated
    from waygraph.registry.model import Agent, AgentMatch, JsonText, Route, Tool, ToolRoute
    from waygraph.registry.pages import About, Listed
    from waygraph.registry.registry import Status
    from waygraph.registry.writing import Forgotten, Written


# -- answers -------------------------------------------------------------------------------------------


def route(found: "Route") -> Iterator[Block]:
    """The agents; for a request in steps each step's agents after them; pinned agents last."""
    yield _matches(found.matches)
    for number, step in enumerate(found.steps, 1):
        yield _matches(step.matches, title=f"step {number}: {step.query.text}")
    if found.pinned:
        yield Table(
            columns=("agent", "description"),
            rows=[(match.agent.id, match.agent.description) for match in found.pinned],
            title="pinned",
            brief=("description",),
        )
    yield Aside(_circumstances(found))


def explained_route(found: "Route") -> Iterator[Block]:
    """The route, then the votes of each agent."""
    yield from route(found)
    for part in found.steps or (found,):
        for number, match in enumerate(part.matches, 1):
            yield _votes(number, match, part.query.text if found.steps else "")


def tool_route(found: "ToolRoute") -> Iterator[Block]:
    yield Table(
        columns=("#", "tool", "score", "description"),
        rows=[
            (number, match.tool.id, match.score, match.tool.description)
            for number, match in enumerate(found.matches, 1)
        ],
        brief=("description",),
    )
    yield Aside(_circumstances(found))


def tool_route_with_schemas(found: "ToolRoute") -> Iterator[Block]:
    yield from tool_route(found)
    for match in found.matches:
        yield Lines(_pretty(match.tool.input_schema), title=f"input of {match.tool.id}")


def _circumstances(found: "Route | ToolRoute") -> str:
    sure = "" if found.confidence is None else f"confidence {found.confidence:.2f}, "
    return f"recipe {found.recipe}, {sure}revision {found.revision}, {found.elapsed_ms:.1f} ms"


def _matches(matches: "Sequence[AgentMatch]", title: str = "") -> Table:
    return Table(
        columns=("#", "agent", "score", "tools"),
        rows=[
            (number, match.agent.id, match.score, [tool.name for tool in match.tools])
            for number, match in enumerate(matches, 1)
        ],
        title=title,
    )


def _votes(number: int, match: "AgentMatch", step: str) -> Table:
    """The votes of one agent, and their sum: its score."""
    rows: list[tuple[Cell, ...]] = [
        (
            vote.entity_id,
            vote.leg,
            vote.rank,
            vote.score,
            vote.weight,
            vote.contribution,
            Bar(vote.contribution / match.score if match.score else 0.0),
        )
        for vote in match.votes
    ]
    total = sum(vote.contribution for vote in match.votes)
    return Table(
        columns=("entity", "leg", "rank", "score", "weight", "contribution", "share"),
        rows=[*rows, ("sum", None, None, None, None, total, None)],
        title=f"{number}. {match.agent.id}{f' for {step}' if step else ''}",
    )


# -- what is held --------------------------------------------------------------------------------------


def agents(listed: "Sequence[Listed]") -> Iterator[Block]:
    yield Table(
        columns=("agent", "kind", "tools", "tags", "marks", "description"),
        rows=[
            (
                each.agent.id,
                each.agent.kind,
                each.tools,
                each.agent.tags,
                _listed_marks(each.agent),
                each.agent.description,
            )
            for each in listed
        ],
        brief=("description",),
    )


def tools(listed: "Iterable[Tool]") -> Iterator[Block]:
    yield Table(
        columns=("tool", "marks", "description"),
        rows=[(tool.id, _approval_marks(tool), tool.description) for tool in listed],
        brief=("description",),
    )


def tool(held: "Tool") -> Iterator[Block]:
    yield Fields(
        (
            ("tool", held.id),
            ("agent", held.agent_id),
            ("call name", held.call_name),
            ("tags", held.tags),
            ("marks", _approval_marks(held)),
            ("status", held.status),
        )
    )
    yield from _flags(held)
    if held.description:
        yield Lines(held.description, title="description")
    if held.questions:
        yield Lines("\n".join(held.questions), title="questions")
    for title, text in (
        ("input", held.input_schema),
        ("output", held.output_schema),
        ("annotations", held.annotations),
    ):
        if text:
            yield Lines(_pretty(text), title=title)


def about(known: "About") -> Iterator[Block]:
    agent = known.agent
    yield Fields(
        (
            ("agent", agent.id),
            ("name", agent.name),
            ("kind", agent.kind),
            ("version", agent.version),
            ("tags", agent.tags),
            ("marks", _marks(agent)),
            ("status", agent.status),
            ("sources", known.sources),
        )
    )
    yield from _flags(agent)
    if agent.description:
        yield Lines(agent.description, title="description")
    if agent.transport:
        yield Lines(_pretty(agent.transport), title="transport")
    if known.settings:
        yield Lines(_said(known.settings), title="set by an operator")
    yield from tools(known.tools)


def status(found: "Status") -> Iterator[Block]:
    state = found.state
    yield Fields(
        (
            ("registry", found.location),
            ("revision", state.revision),
            ("agents", state.agents),
            ("tools", state.tools),
            ("sources", found.sources),
            ("embedder", state.embedder or "none: searched by words only"),
            ("texts", state.texts),
            ("dimension", state.dimension),
        )
    )


def sources(held: "Iterable[SourceSummary]") -> Iterator[Block]:
    yield Table(
        columns=("source", "kind", "namespace", "agents", "policy", "waiting", "not answering", "last seen"),
        rows=[
            (
                each.name,
                "live" if each.rank else "catalogue",
                each.namespace,
                len(each.claims),
                each.policy,
                each.standing.pending + each.standing.pending_tools if each.standing else 0,
                each.standing.unreachable + each.standing.failing if each.standing else 0,
                each.seen_at,
            )
            for each in held
        ],
    )


def _marks(agent: "Agent") -> list[str]:
    """What sets an agent apart."""
    groups = f"only {', '.join(agent.visible_to)}" if agent.visible_to else ""
    marks = ("pinned" * agent.pinned, "hidden" * agent.hidden, groups, *_approval_marks(agent))
    return [mark for mark in marks if mark]


def _listed_marks(agent: "Agent") -> list[str]:
    """In a list, with the status if anything is known of it."""
    from waygraph.registry.statuses import KNOWN

    return [*_marks(agent), *([] if agent.status == KNOWN else [agent.status])]


def _approval_marks(entity: "Agent | Tool") -> list[str]:
    """Whether it waits, and whether its text is flagged."""
    flagged = ("flagged" if entity.is_doubtful else "flagged, approved") if entity.flags else ""
    return [mark for mark in ("waits for approval" * entity.pending, flagged) if mark]


def _flags(entity: "Agent | Tool") -> Iterator[Block]:
    if entity.flags:
        yield Lines("\n".join(entity.flags), title="suspicious")


def _pretty(text: "JsonText") -> str:
    return json.dumps(json.loads(text), ensure_ascii=False, indent=2)


# -- what changed --------------------------------------------------------------------------------------


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


def _said(said: "OperatorSettings") -> str:
    """The settings that differ from those of an untouched agent, a line each."""
    lines = [f"tags: {', '.join(said.tags)}"] if said.tags else []
    if said.visible_to is not None:
        lines.append(f"visible to: {', '.join(said.visible_to) or 'everyone'}")
    lines += [name for name in ("pinned", "hidden", "removed") if getattr(said, name)]
    return "\n".join(lines) or "nothing"


def written(done: "Written") -> Iterator[Block]:
    yield Fields((("revision", done.revision), ("texts embedded", done.texts_embedded)))


def forgotten(done: "Forgotten") -> Iterator[Block]:
    """The numbers, then each agent that went, with its tools."""
    yield Fields((("agents", len(done.agents)), ("tools", len(done.tools)), ("revision", done.revision)))
    if done.agents:
        names: dict[str, list[str]] = {agent_id: [] for agent_id in done.agents}
        for tool_id in done.tools:
            agent_id, _, name = tool_id.partition("/")
            names[agent_id].append(name)
        yield Table(columns=("removed", "tools"), rows=list(names.items()))


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


# -- the rest ------------------------------------------------------------------------------------------


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
        columns=("model", "where", "folder", "sha256"),
        rows=[(each.spec, each.where, str(each.path), each.sha256) for each in held],
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
    return "everything" if key.everything else key.groups or "what is public"


def exported(done: "Exported") -> Iterator[Block]:
    yield Fields((("written", done.path), ("format", done.form), ("size in bytes", done.size_bytes)))


def migrated(done: "Migrated") -> Iterator[Block]:
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


def generated(made: "Generated") -> Iterator[Block]:
    yield Fields(
        (
            ("folder", str(made.folder)),
            ("companies", made.companies),
            ("agents", made.agents),
            ("tools", made.tools),
            ("queries", made.queries),
            ("daily sample", made.daily),
            ("tools a query", f"{made.mean_gold_tools:.2f}"),
            ("in the sample", f"{made.daily_mean_gold_tools:.2f}"),
            ("checksum", made.checksum),
        )
    )


def findings(found: "Iterable[Finding]") -> Iterator[Block]:
    yield Table(
        columns=("check", "ok", "detail", "advice"),
        rows=[(each.check, each.ok, each.detail, each.advice) for each in found],
    )
