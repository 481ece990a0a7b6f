"""What the product answers with the turns before a request, and after a failure."""

from collections.abc import Collection, Iterable, Mapping
from dataclasses import replace
from typing import Any

from benchmarks.history.next_calls import Level, Scores
from waygraph.registry.model.nouns import Filters, Query, Turn
from waygraph.registry.registry import Registry
from waygraph.registry.routing.recipes import HYBRID, Recipe
from waygraph_lab.evaluation.dataset import Need

FOLDS = 5
AGENTS_KEPT, TOOLS_KEPT = 40, 100
EVERYTHING = Filters()
Found = Mapping[Level, Scores]


def find(
    registry: Registry,
    text: str,
    history: tuple[Turn, ...] = (),
    filters: Filters = EVERYTHING,
    recipe: Recipe = HYBRID,
) -> Found:
    """Agents and tools, best first, with their scores."""
    query = Query(text=text, history=history, filters=filters)
    agents = registry.route(replace(query, limit=AGENTS_KEPT), recipe=recipe).matches
    tools = registry.find_tools(replace(query, limit=TOOLS_KEPT), recipe=recipe).matches
    return {
        "agents": {match.agent.id: match.score for match in agents},
        "tools": {match.tool.id: match.score for match in tools},
    }


def recover(registry: Registry, needs: Iterable[tuple[Need, Collection[str]]]) -> dict[str, Any]:
    """Needs, with the tools that are right. A first offer that is right is declared failed. An offer that is wrong is
    neither that tool again nor another right one."""
    names = ("right first", "differs", "another is right", "and is offered", "wrong")
    counts: dict[str, int] = dict.fromkeys(names, 0)
    for need, right in needs:
        first = first_tool(registry, need.text, need.history)
        if first in right:
            again = first_tool(registry, need.text, (*need.history, Turn(role="call", tool=first, outcome="failed")))
            others = set(right) - {first}
            counts["right first"] += 1
            counts["differs"] += again != first
            counts["another is right"] += bool(others)
            counts["and is offered"] += again in others
            counts["wrong"] += again not in right
    return counts


def first_tool(registry: Registry, text: str, history: tuple[Turn, ...] = ()) -> str:
    matches = registry.find_tools(Query(text=text, limit=1, history=history)).matches
    return matches[0].tool.id if matches else ""


def with_shares(used: float, under_way: float, topic: float | None = None) -> Recipe:
    """`hybrid` with other shares of its history."""
    assert HYBRID.history
    shares = replace(
        HYBRID.history, used=used, under_way=under_way, topic=HYBRID.history.topic if topic is None else topic
    )
    return replace(HYBRID, name=f"used {used:g}, topic {shares.topic:g}", history=shares, calibrations=())


TRIED = tuple(with_shares(used, 2 * used, topic) for used in (0.075, 0.15, 0.3) for topic in (0.25, 0.5, 0.75))
"""Of which the best on other families is reported beside what ships."""
