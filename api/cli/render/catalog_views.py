"""What a registry holds, laid out for people: agents, tools, sources, its status."""

from collections.abc import Iterable, Iterator, Sequence
from typing import TYPE_CHECKING

from waygraph.api.cli.render.blocks import Aside, Bar, Block, Cell, Fields, Lines, Table

if TYPE_CHECKING:
    from waygraph.registry.model.changes import About, ListedAgent, OperatorSettings, SourceSummary, Status
    from waygraph.registry.model.failures import Failure
    from waygraph.registry.model.nouns import Agent, AgentMatch, Route, Tool, ToolRoute
    from waygraph.registry.model.taxonomy import Walked


# What agents and tools were found, laid out for people.


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
    """The route, how a model walked to it, then the votes of each agent."""
    yield from route(found)
    if found.walked:
        yield Lines(_walk_lines(found.walked), title=_walk_account(found.walked))
    for part in found.steps or (found,):
        for number, match in enumerate(part.matches, 1):
            yield _votes(number, match, part.query.text if found.steps else "")


def _walk_account(walked: "Walked") -> str:
    shown = sum(len(visit.opened) + len(visit.pruned) for visit in walked.visits)
    opened = sum(len(visit.opened) for visit in walked.visits)
    tokens = f"{walked.prompt_tokens} + {walked.completion_tokens} tokens"
    return f"walk {walked.mode}: {walked.calls} calls, {tokens}, {opened} of {shown} categories opened"


def _walk_lines(walked: "Walked") -> str:
    """A line a category whose children were shown, as a tree, then a line a group."""
    lines = []
    for visit in sorted(walked.visits, key=lambda visit: visit.path.split("/")):
        indent, name = "  " * visit.path.count("/"), visit.path.rpartition("/")[2]
        pruned = f" (not: {', '.join(visit.pruned)})" if visit.pruned else ""
        lines.append(f"{'  ' if name else ''}{indent}{name or 'all'} → {', '.join(visit.opened) or 'none'}{pruned}")
    places = [", ".join(path or "all" for path in pick.paths) for pick in walked.picks]
    lines += [f"{pick.selected} of {pick.shown} in {at}" for pick, at in zip(walked.picks, places, strict=True)]
    return "\n".join([*lines, walked.failure] if walked.failure else lines)


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
        yield Lines.of_json(match.tool.input_schema, title=f"input of {match.tool.id}")


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


def agents(listed: "Sequence[ListedAgent]") -> Iterator[Block]:
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
            yield Lines.of_json(text, title=title)


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
        yield Lines.of_json(agent.transport, title="transport")
    if known.settings:
        yield Lines(_setting_lines(known.settings), title="set by an operator")
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
    yield from _failures(found.failures)


def sources(held: "Iterable[SourceSummary]") -> Iterator[Block]:
    held = list(held)
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
            for each in held
        ],
    )
    yield from _failures(failure for each in held for failure in each.failures)
    for each in held:
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

    flagged = ("flagged" if is_doubtful(entity) else "flagged, approved") if suspicions(entity.flags) else ""
    return [mark for mark in ("waits for approval" * entity.pending, flagged) if mark]


def _flags(entity: "Agent | Tool") -> Iterator[Block]:
    from waygraph.registry.model.nouns import NOTICE, suspicions

    suspicious = suspicions(entity.flags)
    notices = tuple(flag.removeprefix(NOTICE) for flag in entity.flags if flag not in suspicious)
    for title, lines in (("suspicious", suspicious), ("notice", notices)):
        if lines:
            yield Lines("\n".join(lines), title=title)


def _setting_lines(said: "OperatorSettings") -> str:
    """The settings that differ from those of an untouched agent, a line each."""
    lines = [f"tags: {', '.join(said.tags)}"] if said.tags else []
    if said.visible_to is not None:
        lines.append(f"visible to: {', '.join(said.visible_to) or 'everyone'}")
    lines += [name for name in ("pinned", "hidden", "removed") if getattr(said, name)]
    return "\n".join(lines) or "nothing"
