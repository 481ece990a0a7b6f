"""What is shown of what a registry holds: lists in parts, and all that is known of one agent.

A function here looks at one index, so that what it gives is of one revision whatever is published meanwhile.
"""

from bisect import bisect_right
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import chain
from typing import TYPE_CHECKING

from waygraph.registry.access import fits
from waygraph.registry.checks import check_limit
from waygraph.registry.lookup import agent_named, seen_tools, visible_agents
from waygraph.registry.statuses import word_of

if TYPE_CHECKING:
    from waygraph.registry.changes import OperatorSettings, SourceSummary, Standing
    from waygraph.registry.index.search_index import IndexState, SearchIndex
    from waygraph.registry.model import Agent, Filters, Principal, Tool


@dataclass(frozen=True, slots=True)
class Listed:
    """An agent in a list, with the number of its tools."""

    agent: "Agent"
    tools: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Page[T]:
    """A part of a list, in order of id. `following`: where the next part begins; empty: nothing follows."""

    items: tuple[T, ...]
    revision: int
    following: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class About:
    """All that is known of one agent. `settings` None: no operator said anything of it."""

    agent: "Agent"
    tools: "tuple[Tool, ...]"
    settings: "OperatorSettings | None"
    sources: tuple[str, ...]
    """The names of those that claim it."""
    revision: int


def about(index: "SearchIndex", agent_id: str, principal: "Principal | None") -> About:
    """Raises UnknownName."""
    return About(
        agent=agent_named(index, agent_id, principal),
        tools=tuple(seen_tools(index, index.tool_ids(agent_id), principal)),
        settings=index.settings().get(agent_id),
        sources=tuple(source.name for source in index.sources() if agent_id in source.agent_ids),
        revision=index.state.revision,
    )


def agents_page(
    index: "SearchIndex", filters: "Filters", principal: "Principal | None", after: str, limit: int | None
) -> Page[Listed]:
    """The agents whose id comes after `after`, at most `limit` of them."""
    fitting = {agent.id: agent for agent in visible_agents(index, principal) if fits(agent, filters)}
    part, following = _part(list(fitting), after, limit)
    tools = index.tool_ids_of(part)
    items = tuple(Listed(fitting[agent_id], len(tools[agent_id])) for agent_id in part)
    return Page(items=items, revision=index.state.revision, following=following)


def tools_page(
    index: "SearchIndex", agent_id: str | None, principal: "Principal | None", after: str, limit: int | None
) -> "Page[Tool]":
    """The tools of an agent, or of all (None). Raises UnknownName."""
    owners = visible_agents(index, principal) if agent_id is None else [agent_named(index, agent_id, principal)]
    ids = sorted(chain.from_iterable(index.tool_ids_of([owner.id for owner in owners]).values()))
    part, following = _part(ids, after, limit)
    return Page(items=tuple(seen_tools(index, part, principal)), revision=index.state.revision, following=following)


def _part(ids: Sequence[str], after: str, limit: int | None) -> tuple[Sequence[str], str]:
    """Of ids in order: those after one, and the last of them if more follow. Raises InvalidQuery."""
    if limit is not None:
        check_limit(limit)
    start = bisect_right(ids, after) if after else 0
    end = len(ids) if limit is None else min(start + limit, len(ids))
    return ids[start:end], ids[end - 1] if end < len(ids) else ""


def seen_sources(index: "SearchIndex", principal: "Principal | None") -> "list[SourceSummary]":
    """Each with the claims on agents that the principal may see; without any it is none for it."""
    if principal is None:
        return list(index.sources())
    seen = {agent.id for agent in visible_agents(index, principal)}
    parts = [
        replace(source, claims=tuple(claim for claim in source.claims if claim[1] in seen))
        for source in index.sources()
    ]
    return [source for source in parts if source.claims]


def standing_sources(index: "SearchIndex", principal: "Principal | None") -> "list[SourceSummary]":
    """As `seen_sources`, each with how the agents stand that it claims."""
    agents = index.agents()
    waiting = Counter(tool_id.partition("/")[0] for tool_id in index.pending_tools())
    return [
        replace(source, standing=_standing([agents[agent_id] for agent_id in source.agent_ids], waiting))
        for source in seen_sources(index, principal)
    ]


def _standing(agents: "Sequence[Agent]", waiting: "Mapping[str, int]") -> "Standing":
    """`waiting`: how many tools of an agent wait."""
    from waygraph.registry.changes import Standing

    of_status: Counter[str] = Counter(word_of(agent.status) for agent in agents)
    return Standing(
        **of_status,
        pending=sum(agent.pending for agent in agents),
        pending_tools=sum(waiting.get(agent.id, 0) for agent in agents),
    )


def seen_state(index: "SearchIndex", principal: "Principal | None") -> "IndexState":
    """The state of the index, its numbers those of what the principal may see."""
    if principal is None:
        return index.state
    seen = visible_agents(index, principal)
    tools = index.tool_ids_of([agent.id for agent in seen])
    return replace(index.state, agents=len(seen), tools=sum(map(len, tools.values())))
