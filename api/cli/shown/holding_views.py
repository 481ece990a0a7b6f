"""What a registry holds, laid out for people: agents, tools, sources, its status."""

from collections.abc import Iterable, Iterator, Sequence
from typing import TYPE_CHECKING

from waygraph.api.cli.shown.blocks import Block, Fields, Lines, Table

if TYPE_CHECKING:
    from waygraph.registry.changes import OperatorSettings, SourceSummary
    from waygraph.registry.model import Agent, Tool
    from waygraph.registry.pages import About, Listed
    from waygraph.registry.registry import Status


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
    from waygraph.registry.model import is_doubtful

    flagged = ("flagged" if is_doubtful(entity) else "flagged, approved") if entity.flags else ""
    return [mark for mark in ("waits for approval" * entity.pending, flagged) if mark]


def _flags(entity: "Agent | Tool") -> Iterator[Block]:
    if entity.flags:
        yield Lines("\n".join(entity.flags), title="suspicious")


def _said(said: "OperatorSettings") -> str:
    """The settings that differ from those of an untouched agent, a line each."""
    lines = [f"tags: {', '.join(said.tags)}"] if said.tags else []
    if said.visible_to is not None:
        lines.append(f"visible to: {', '.join(said.visible_to) or 'everyone'}")
    lines += [name for name in ("pinned", "hidden", "removed") if getattr(said, name)]
    return "\n".join(lines) or "nothing"
