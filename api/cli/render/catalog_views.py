"""What a registry holds, laid out for people: agents, tools, sources, its status."""

from collections.abc import Iterable, Iterator, Sequence
from typing import TYPE_CHECKING

from waygraph.api.cli.render.blocks import Aside, Bar, Block, Cell, Fields, Lines, Table

if TYPE_CHECKING:
    from waygraph.registry.model.changes import About, ListedAgent, OperatorSettings, SourceSummary, Status
    from waygraph.registry.model.failures import Failure
    from waygraph.registry.model.nouns import Agent, AgentMatch, Route, Tool, ToolRoute, Walked


def route(answer: "Route") -> Iterator[Block]:
    """The agents; for a request in steps each step's agents after them; pinned agents last."""
    yield _matches(answer.matches)
    for number, step in enumerate(answer.steps, 1):
        yield _matches(step.matches, title=f"step {number}: {step.query.text}")
    if answer.pinned:
        yield Table(
            columns=("agent", "description"),
            rows=[(match.agent.id, match.agent.description) for match in answer.pinned],
            title="pinned",
            brief=("description",),
        )
    yield Aside(_circumstances(answer))


def explained_route(answer: "Route") -> Iterator[Block]:
    """The route, how a model walked to it, then the votes of each agent."""
    yield from route(answer)
    if answer.walked:
        yield Lines(_walk_lines(answer.walked), title=_walk_account(answer.walked))
    for part in answer.steps or (answer,):
        for number, match in enumerate(part.matches, 1):
            yield _votes(number, match, part.query.text if answer.steps else "")


def _walk_account(walk: "Walked") -> str:
    total = sum(len(visit.opened) + len(visit.pruned) for visit in walk.visits)
    opened_count = sum(len(visit.opened) for visit in walk.visits)
    tokens = f"{walk.prompt_tokens} + {walk.completion_tokens} tokens"
    return f"walk {walk.mode}: {walk.calls} calls, {tokens}, {opened_count} of {total} categories opened"


def _walk_lines(walk: "Walked") -> str:
    """A line a category whose children were shown, as a tree, then a line a group."""
    lines = []
    for visit in sorted(walk.visits, key=lambda visit: visit.path.split("/")):
        indent, name = "  " * visit.path.count("/"), visit.path.rpartition("/")[2]
        rest = f" (not: {', '.join(visit.pruned)})" if visit.pruned else ""
        lines.append(f"{'  ' if name else ''}{indent}{name or 'all'} → {', '.join(visit.opened) or 'none'}{rest}")
    places = [", ".join(path or "all" for path in pick.paths) for pick in walk.picks]
    lines += [f"{pick.selected} of {pick.shown} in {at}" for pick, at in zip(walk.picks, places, strict=True)]
    return "\n".join([*lines, walk.failure] if walk.failure else lines)


def tool_route(answer: "ToolRoute") -> Iterator[Block]:
    yield Table(
        columns=("#", "tool", "score", "description"),
        rows=[
            (number, match.tool.id, match.score, match.tool.description)
            for number, match in enumerate(answer.matches, 1)
        ],
        brief=("description",),
    )
    yield Aside(_circumstances(answer))


def tool_route_with_schemas(answer: "ToolRoute") -> Iterator[Block]:
    yield from tool_route(answer)
    for match in answer.matches:
        yield Lines.of_json(match.tool.input_schema, title=f"input of {match.tool.id}")


def _circumstances(answer: "Route | ToolRoute") -> str:
    sure = "" if answer.confidence is None else f"confidence {answer.confidence:.2f}, "
    return f"recipe {answer.recipe}, {sure}revision {answer.revision}, {answer.elapsed_ms:.1f} ms"


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


def agents(items: "Sequence[ListedAgent]") -> Iterator[Block]:
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
            for each in items
        ],
        brief=("description",),
    )


def tools(items: "Iterable[Tool]") -> Iterator[Block]:
    yield Table(
        columns=("tool", "marks", "description"),
        rows=[(tool.id, _approval_marks(tool), tool.description) for tool in items],
        brief=("description",),
    )


def tool(entity: "Tool") -> Iterator[Block]:
    yield Fields(
        (
            ("tool", entity.id),
            ("agent", entity.agent_id),
            ("call name", entity.call_name),
            ("tags", entity.tags),
            ("marks", _approval_marks(entity)),
            ("status", entity.status),
        )
    )
    yield from _flags(entity)
    if entity.description:
        yield Lines(entity.description, title="description")
    if entity.questions:
        yield Lines("\n".join(entity.questions), title="questions")
    for title, text in (
        ("input", entity.input_schema),
        ("output", entity.output_schema),
        ("annotations", entity.annotations),
    ):
        if text:
            yield Lines.of_json(text, title=title)


def about(facts: "About") -> Iterator[Block]:
    agent = facts.agent
    yield Fields(
        (
            ("agent", agent.id),
            ("name", agent.name),
            ("kind", agent.kind),
            ("version", agent.version),
            ("tags", agent.tags),
            ("marks", _marks(agent)),
            ("status", agent.status),
            ("sources", facts.sources),
        )
    )
    yield from _flags(agent)
    if agent.description:
        yield Lines(agent.description, title="description")
    if agent.transport:
        yield Lines.of_json(agent.transport, title="transport")
    if facts.settings:
        yield Lines(_setting_lines(facts.settings), title="set by an operator")
    yield from tools(facts.tools)


def status(summary: "Status") -> Iterator[Block]:
    state = summary.state
    yield Fields(
        (
            ("registry", summary.location),
            ("revision", state.revision),
            ("agents", state.agents),
            ("tools", state.tools),
            ("sources", summary.sources),
            ("embedder", state.embedder or "none: searched by words only"),
            ("texts", state.texts),
            ("dimension", state.dimension),
        )
    )
    yield from _failures(summary.failures)


def sources(summaries: "Iterable[SourceSummary]") -> Iterator[Block]:
    summaries = list(summaries)
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
                each.seen_at or "never read",
            )
            for each in summaries
        ],
    )
    yield from _failures(failure for each in summaries for failure in each.failures)
    for each in summaries:
        if each.pause_s:
            yield Aside(f"{each.name} changes often: a watch writes its changes at most once in {each.pause_s} s")


def _failures(failures: "Iterable[Failure]") -> Iterator[Block]:
    """What of sources does not work."""
    rows = [(each.source, each.key or "the source itself", each.since, each.reason) for each in failures]
    if rows:
        yield Table(columns=("source", "fails", "since", "reason"), rows=rows)


def _marks(agent: "Agent") -> list[str]:
    """What sets an agent apart."""
    groups = f"only {', '.join(agent.visible_to)}" if agent.visible_to else ""
    marks = ("pinned" * agent.pinned, "hidden" * agent.hidden, groups, *_approval_marks(agent))
    return [mark for mark in marks if mark]


def _listed_marks(agent: "Agent") -> list[str]:
    """In a list, with the status if anything is known of it."""
    from waygraph.registry.model.nouns import KNOWN

    return [*_marks(agent), *([] if agent.status == KNOWN else [agent.status])]


def _approval_marks(entity: "Agent | Tool") -> list[str]:
    """Whether it waits, and whether its text is flagged."""
    from waygraph.registry.model.nouns import is_doubtful, suspicions

    flag_mark = ("flagged" if is_doubtful(entity) else "flagged, approved") if suspicions(entity.flags) else ""
    return [mark for mark in ("waits for approval" * entity.pending, flag_mark) if mark]


def _flags(entity: "Agent | Tool") -> Iterator[Block]:
    from waygraph.registry.model.nouns import NOTICE, suspicions

    suspicious = suspicions(entity.flags)
    notices = tuple(flag.removeprefix(NOTICE) for flag in entity.flags if flag not in suspicious)
    for title, lines in (("suspicious", suspicious), ("notice", notices)):
        if lines:
            yield Lines("\n".join(lines), title=title)


def _setting_lines(setting: "OperatorSettings") -> str:
    """The settings that differ from those of an untouched agent, a line each."""
    lines = [f"tags: {', '.join(setting.tags)}"] if setting.tags else []
    if setting.visible_to is not None:
        lines.append(f"visible to: {', '.join(setting.visible_to) or 'everyone'}")
    lines += [name for name in ("pinned", "hidden", "removed") if getattr(setting, name)]
    return "\n".join(lines) or "nothing"
