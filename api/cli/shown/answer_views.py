"""What agents and tools were found, laid out for people."""

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

from waygraph.api.cli.shown.blocks import Aside, Bar, Block, Cell, Lines, Table

if TYPE_CHECKING:
    from waygraph.registry.model import AgentMatch, Route, ToolRoute


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
