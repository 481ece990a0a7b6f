"""Toolsets as somebody sees them: those that it may use, each with what it may see of it anyway."""

from collections.abc import Collection
from dataclasses import replace

from waygraph.registry.access.visibility import visible
from waygraph.registry.index.search_index import SearchIndex
from waygraph.registry.model.errors import UnknownName
from waygraph.registry.model.nouns import Agent, Principal
from waygraph.registry.model.toolset import Toolset
from waygraph.registry.model.transitions import owner_of


def seen_toolsets(index: SearchIndex, principal: Principal | None) -> list[Toolset]:
    toolsets = index.toolsets()
    agents = [agent for agent in index.agents().values() if visible(agent, principal)] if toolsets else []
    return [seen for each in toolsets if (seen := _as_seen(each, agents, principal)) is not None]


def seen_toolset(index: SearchIndex, name: str, principal: Principal | None) -> Toolset:
    """Raises UnknownName, in the same words for one that is not there and for one that the principal may not use."""
    seen = {each.name: each for each in seen_toolsets(index, principal)}
    if name not in seen:
        raise UnknownName("toolset", name, seen)
    return seen[name]


def _as_seen(toolset: Toolset, agents: Collection[Agent], principal: Principal | None) -> Toolset | None:
    """`agents`: those that the principal may see. None: of this toolset it must not learn."""
    if principal is not None and toolset.callers and set(toolset.callers).isdisjoint(principal.groups):
        return None
    known = {agent.id for agent in agents}
    includes = tuple(each for each in toolset.includes if owner_of(each) in known)
    members = tuple(sorted({*map(owner_of, includes), *(agent.id for agent in agents if toolset.chooses(agent))}))
    if principal is None:
        return replace(toolset, members=members, missing=toolset.missing_names(agents))
    if not members:
        return None
    tags = {tag for agent in agents for tag in agent.tags}
    return replace(
        toolset,
        tools=tuple(each for each in toolset.tools if each in includes),
        agents=tuple(each for each in toolset.agents if each in known),
        tags=tuple(each for each in toolset.tags if each in tags),
        callers=(),
        includes=includes,
        members=members,
    )
