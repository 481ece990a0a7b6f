"""Toolsets as somebody sees them: those that it may use, each with what it may see of it anyway."""

from collections.abc import Collection, Mapping
from dataclasses import replace

from waygraph.registry.access.visibility import visible
from waygraph.registry.index.search_index import SearchIndex
from waygraph.registry.model.errors import UnknownName
from waygraph.registry.model.nouns import Principal
from waygraph.registry.model.toolset import Toolset
from waygraph.registry.model.transitions import owner_of


def seen_toolsets(index: SearchIndex, principal: Principal | None) -> list[Toolset]:
    toolsets = index.toolsets()
    agents = [agent for agent in index.agents().values() if visible(agent, principal)] if toolsets else []
    ids_by_tag: dict[str, set[str]] = {}
    for agent in agents:
        for tag in agent.tags:
            ids_by_tag.setdefault(tag, set()).add(agent.id)
    agent_ids = {agent.id for agent in agents}
    return [toolset for each in toolsets if (toolset := _as_seen(each, agent_ids, ids_by_tag, principal)) is not None]


def seen_toolset(index: SearchIndex, name: str, principal: Principal | None) -> Toolset:
    """Raises UnknownName, in the same words and after the same work for one that is not there and for one that the
    principal may not use.
    """
    toolsets = {each.name: each for each in seen_toolsets(index, principal)}
    if name not in toolsets:
        raise UnknownName("toolset", name, toolsets)
    return toolsets[name]


def _as_seen(
    toolset: Toolset, agent_ids: Collection[str], ids_by_tag: Mapping[str, Collection[str]], principal: Principal | None
) -> Toolset | None:
    """`agent_ids`: of the agents that the principal may see; `ids_by_tag`: the same by tag.

    None: the principal must not learn of the toolset.
    """
    includes = tuple(each for each in toolset.includes if owner_of(each) in agent_ids)
    members = set(map(owner_of, includes)).union(
        (each for each in toolset.agents if each in agent_ids), *(ids_by_tag.get(tag, ()) for tag in toolset.tags)
    )
    view = replace(toolset, includes=includes, members=tuple(sorted(members)))
    if principal is None:
        return replace(view, missing=toolset.missing_names(agent_ids, ids_by_tag))
    may_use = not toolset.callers or not set(toolset.callers).isdisjoint(principal.groups)
    if not (may_use and members):
        return None
    return replace(
        view,
        tools=tuple(each for each in toolset.tools if each in includes),
        agents=tuple(each for each in toolset.agents if each in agent_ids),
        tags=tuple(each for each in toolset.tags if each in ids_by_tag),
        callers=(),
    )
