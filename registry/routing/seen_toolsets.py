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
    tagged: dict[str, set[str]] = {}
    for agent in agents:
        for tag in agent.tags:
            tagged.setdefault(tag, set()).add(agent.id)
    known = {agent.id for agent in agents}
    return [seen for each in toolsets if (seen := _as_seen(each, known, tagged, principal)) is not None]


def seen_toolset(index: SearchIndex, name: str, principal: Principal | None) -> Toolset:
    """Raises UnknownName, in the same words and after the same work for one that is not there and for one that the
    principal may not use.
    """
    seen = {each.name: each for each in seen_toolsets(index, principal)}
    if name not in seen:
        raise UnknownName("toolset", name, seen)
    return seen[name]


def _as_seen(
    toolset: Toolset, known: Collection[str], tagged: Mapping[str, Collection[str]], principal: Principal | None
) -> Toolset | None:
    """`known`: ids of the agents that the principal may see, `tagged` by tag. None: it must not learn of it."""
    includes = tuple(each for each in toolset.includes if owner_of(each) in known)
    members = set(map(owner_of, includes)).union(
        (each for each in toolset.agents if each in known), *(tagged.get(tag, ()) for tag in toolset.tags)
    )
    seen = replace(toolset, includes=includes, members=tuple(sorted(members)))
    if principal is None:
        return replace(seen, missing=toolset.missing_names(known, tagged))
    may_use = not toolset.callers or not set(toolset.callers).isdisjoint(principal.groups)
    if not (may_use and members):
        return None
    return replace(
        seen,
        tools=tuple(each for each in toolset.tools if each in includes),
        agents=tuple(each for each in toolset.agents if each in known),
        tags=tuple(each for each in toolset.tags if each in tagged),
        callers=(),
    )
