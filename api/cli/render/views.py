"""What a registry holds and answers, laid out for people: answers, agents, tools, sources, the status, a write."""

import shlex
from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import count
from typing import TYPE_CHECKING

from waygraph.api.cli.render.output import Aside, Bar, Block, Fields, Lines, Table, Time
from waygraph.registry.model.nouns import KNOWN, Route, ToolMatch, ToolRoute, is_doubtful, notices_of, suspicions

if TYPE_CHECKING:
    from waygraph.registry.model.changes import About, ChangeSet, ListedAgent, SourceSummary, Status, Written
    from waygraph.registry.model.nouns import Agent, AgentMatch, Tool, Walked
    from waygraph.registry.model.usage import ToolUsage
    from waygraph.registry.routing.placement import Placement


def route(answer: Route | ToolRoute) -> Iterator[Block]:
    """The agents or tools; for a request in steps those of each step after them; pinned agents last."""
    yield _matches(answer)
    steps: Sequence[Route | ToolRoute] = answer.steps
    for number, step in enumerate(steps, 1):  # the whole request behind them
        title = f"step {number}: {step.query.text}" if number <= len(answer.query.steps) else "the whole request"
        yield _matches(step, " ".join(filter(None, (title, step.notice("not_walked")))))
    if isinstance(answer, Route) and answer.pinned:
        yield Table.of(answer.pinned, "agent=agent.id, description=agent.description", title="pinned")
    sure = "" if answer.confidence is None else f"confidence {answer.confidence:.2f}, "
    yield Aside(f"recipe {answer.recipe}, {sure}revision {answer.revision}, {answer.elapsed_ms:.1f} ms")


def _matches(answer: Route | ToolRoute, title: str = "") -> Table:
    numbers = count(1)
    columns = (
        "agent=agent.id, score, tools"
        if isinstance(answer, Route)
        else "tool=tool.id, score, description=tool.description"
    )
    return Table.of(
        answer.matches,
        f"#=number, {columns}",
        title,
        number=lambda _: next(numbers),
        tools=lambda match: [tool.name for tool in match.tools],
    )


def explained_route(answer: Route | ToolRoute) -> Iterator[Block]:
    """The route, how a model walked to it, then the votes of each agent or tool; of an agent's steps one after the
    other.
    """
    yield from route(answer)
    steps = answer.steps if isinstance(answer, Route) else ()
    for part in steps or (answer,):
        step = part.query.text if steps else ""
        if part.walked:
            yield _walk(part.walked, step)
        matches: Sequence[AgentMatch | ToolMatch] = part.matches
        for number, match in enumerate(matches, 1):
            yield _votes(number, match, step)


def _walk(walk: "Walked", step: str) -> Lines:
    """A line a category whose children were shown, as a tree, a line a group, and all that was selected."""
    lines = []
    for visit in sorted(walk.visits, key=lambda visit: visit.path.split("/")):
        indent, name = "  " * visit.path.count("/"), visit.path.rpartition("/")[2]
        rest = f" (not: {', '.join(visit.pruned)})" if visit.pruned else ""
        lines.append(f"{'  ' if name else ''}{indent}{name or 'all'} → {', '.join(visit.opened) or 'none'}{rest}")
    places = [", ".join(path or "all" for path in pick.paths) for pick in walk.picks]
    lines += [f"{pick.selected} of {pick.shown} in {at}" for pick, at in zip(walk.picks, places, strict=True)]
    lines += [f"selected: {', '.join(walk.selected)}"] if walk.selected else []
    lines += [walk.failure] if walk.failure else []
    opened_count = sum(len(visit.opened) for visit in walk.visits)
    total = opened_count + sum(len(visit.pruned) for visit in walk.visits)
    tokens = f"{walk.prompt_tokens} + {walk.completion_tokens} tokens"
    purpose = f" for {step}" if step else ""
    title = f"walk {walk.mode}{purpose}: {walk.calls} calls, {tokens}, {opened_count} of {total} categories opened"
    return Lines("\n".join(lines), title)


def _votes(number: int, match: "AgentMatch | ToolMatch", step: str) -> Table:
    """The votes of one agent or tool, and their sum: its score."""
    name = match.tool.id if isinstance(match, ToolMatch) else match.agent.id
    votes = Table.of(
        match.votes,
        "entity=entity_id, leg, rank, score, weight, contribution, share",
        title=f"{number}. {name}{f' for {step}' if step else ''}",
        share=lambda vote: Bar(vote.contribution / match.score if match.score else 0.0),
    )
    total = sum(vote.contribution for vote in match.votes)
    return votes._replace(rows=[*votes.rows, ("sum", None, None, None, None, total, None)])


def placement(of: "Placement") -> Iterator[Block]:
    """The sentence, its place beside the last one shown, leg by leg."""
    yield Lines(of.sentence)
    columns = f"{of.kind}=id, rank, score, last shown=last_id, its score=last_score, held words, missing words"
    yield Fields.of(of, columns)
    sums: dict[str, list[float]] = {}
    for column, votes in enumerate((of.votes, of.last_votes)):
        for vote in votes:
            sums.setdefault(vote.leg, [0.0, 0.0])[column] += vote.contribution
    yield Table(columns=("leg", of.id, of.last_id or "none"), rows=[(leg, *both) for leg, both in sums.items()])


def agents(items: "Sequence[ListedAgent]") -> Iterator[Block]:
    """The marks include the status if anything is known of it."""

    def marks(each: "ListedAgent") -> list[str]:
        return [*_marks(each.agent), *([] if each.agent.status == KNOWN else [each.agent.status])]

    columns = "agent=agent.id, kind=agent.kind, tools, tags=agent.tags, marks, description=agent.description"
    yield Table.of(items, columns, marks=marks)


def tools(items: "Iterable[Tool]") -> Iterator[Block]:
    yield Table.of(items, "tool=id, marks, description", marks=_approval_marks)


def tool(entity: "Tool") -> Iterator[Block]:
    yield Fields.of(entity, "tool=id, agent=agent_id, call name, tags, marks, status", marks=_approval_marks)
    yield from _flags(entity)
    yield from _titled_lines({"description": entity.description, "questions": "\n".join(entity.questions)})
    schemas = {"input": entity.input_schema, "output": entity.output_schema, "annotations": entity.annotations}
    yield from (Lines.of_json(text, title) for title, text in schemas.items() if text)


def about(facts: "About") -> Iterator[Block]:
    from waygraph.ingest.hosts.hosts import titles_of
    from waygraph.registry.model.box_wishes import decisions_of

    agent, setting, titles = facts.agent, facts.settings, titles_of(facts.sources)
    sources = [title if title.endswith(name) else f"{title} ({name})" for name, title in titles.items()]
    columns = "agent=agent.id, name=agent.name, kind=agent.kind, version=agent.version, tags=agent.tags, marks, "
    columns += "status=agent.status, sources, of its tools"
    ids = [each.id for each in facts.tools for _ in notices_of(each.flags)]
    notices = notice_line(len(ids), ids[0]) if ids else ""
    yield Fields.of(
        facts, columns, marks=lambda _: _marks(agent), sources=lambda _: sources, of_its_tools=lambda _: notices
    )
    yield from _flags(agent)
    yield from _titled_lines({"description": agent.description})
    if agent.transport:
        yield Lines.of_json(agent.transport, title="transport")
    if setting:  # only what differs from those of an untouched agent
        lines = [f"tags: {', '.join(setting.tags)}"] if setting.tags else []
        if setting.visible_to is not None:
            lines.append(f"visible to: {', '.join(setting.visible_to) or 'everyone'}")
        lines += [name for name in ("pinned", "hidden", "removed") if getattr(setting, name)]
        decisions = decisions_of(setting).items()
        lines += [f"its server {wish}: {f'refused, {reason}' if reason else 'granted'}" for wish, reason in decisions]
        yield Lines("\n".join(lines) or "nothing", title="set by an operator")
    yield from tools(facts.tools)


def _titled_lines(texts: dict[str, str]) -> Iterator[Lines]:
    return (Lines(text, title) for title, text in texts.items() if text)


def status(summary: "Status", sources: "Sequence[SourceSummary]", titles: "Mapping[str, str]") -> Iterator[Block]:
    """`sources`: for what of them fails and has notices. `titles`: as in `sources`."""
    columns = "registry=location, revision=state.revision, agents=state.agents, tools=state.tools, sources, embedder, "
    columns += "texts=state.texts, dimension=state.dimension"
    yield Fields.of(summary, columns, embedder=lambda each: each.state.embedder or "none: searched by words only")
    yield from _remarks(sources, titles)


def usage(usages: "Iterable[ToolUsage]") -> Iterator[Block]:
    counts = "calls, ok, tool error, refused, upstream failed, timed out, cancelled"
    spare = ("ok", "cancelled", "refused", "p50 ms", "timed out", "upstream failed", "tool error")
    yield Table.of(usages, f"tool=tool_id, door, {counts}, p50 ms, p95 ms, last at", spare=spare)


def sources(summaries: "Sequence[SourceSummary]", titles: "Mapping[str, str]") -> Iterator[Block]:
    """`titles`: what people call each, by name."""
    yield Table.of(
        summaries,
        "source, kind, namespace, agents, policy, waiting, not answering, last seen, place=name",
        spare=("kind", "policy", "namespace", "waiting", "not answering"),
        source=lambda each: titles[each.name],
        kind=lambda each: "live" if each.rank else "catalogue",
        agents=lambda each: len(each.claims),
        waiting=lambda each: each.standing.pending + each.standing.pending_tools if each.standing else 0,
        not_answering=lambda each: each.standing.unreachable + each.standing.failing if each.standing else 0,
        last_seen=lambda each: Time(each.seen_at),
    )
    yield from _remarks(summaries, titles)
    for each in summaries:
        if each.pause_s:
            yield Aside(f"{titles[each.name]} changes often: a watch writes it at most once in {each.pause_s} s")


def _remarks(sources: "Sequence[SourceSummary]", titles: "Mapping[str, str]") -> Iterator[Block]:
    """What of sources does not work, then a line for each that has notices."""
    every = [each for source in sources for each in source.failures]
    failures = [(titles[each.source], each.key or "the source itself", each.since, each.reason) for each in every]
    standings = [(titles[of.name], of.standing) for of in sources if of.standing and of.standing.notices]
    notices = [(title, notice_line(each.notices, each.notices_at)) for title, each in standings]
    tables = Table(("source", "fails", "since", "reason"), failures), Table(("source", "notices"), notices)
    yield from (table for table in tables if table.rows)


def flag_remarks(changes: "ChangeSet") -> Iterator[tuple[str, str, str]]:
    """What looks suspicious and what follows of it, and one line for all notices: a kind, a name and a text."""
    from waygraph.ingest.hosts.hosts import title_of

    for each in changes.flagged:
        if reasons := suspicions(each.flags):
            what = "calls are denied" if "/" in each.id else "no model reads its description"
            yield "suspicious", each.id, "; ".join((*reasons, f"{what} until `waygraph approve` accepts it"))
    ids = [each.id for each in changes.flagged for _ in notices_of(each.flags)]
    if ids:
        yield "notices", title_of(changes.source), notice_line(len(ids), ids[0])


def notice_line(count: int, first: str) -> str:
    """How many notices there are, and where a person reads the `first`: the id of an agent or tool."""
    return f"{count} {'notice' if count == 1 else 'notices'}: waygraph show {shlex.quote(first)}"


def _marks(agent: "Agent") -> list[str]:
    """What sets an agent apart."""
    groups = f"only {', '.join(agent.visible_to)}" if agent.visible_to else ""
    marks = ("pinned" * agent.pinned, "hidden" * agent.hidden, groups, *_approval_marks(agent))
    return [mark for mark in marks if mark]


def _approval_marks(entity: "Agent | Tool") -> list[str]:
    """Whether it waits or was rejected, and whether its text is flagged."""
    flag_mark = ("flagged" if is_doubtful(entity) else "flagged, approved") if suspicions(entity.flags) else ""
    state = f"rejected: {entity.rejection}" if entity.rejection else "waits for approval" * entity.pending
    return [mark for mark in (state, flag_mark) if mark]


def _flags(entity: "Agent | Tool") -> Iterator[Lines]:
    texts = {"suspicious": suspicions(entity.flags), "notice": notices_of(entity.flags)}
    return _titled_lines({title: "\n".join(each) for title, each in texts.items()})


def write(result: "Written") -> Iterator[Block]:
    yield Fields.of(result, "revision, texts embedded")
