"""What a name means among the agents and tools that somebody may see: the others are unknown, and never suggested."""

from collections.abc import Iterable, Iterator, Sequence
from functools import cache

from waygraph.registry.access import visible
from waygraph.registry.errors import UnknownName
from waygraph.registry.flags import Shows, as_seen
from waygraph.registry.identity import call_name, call_prefix, tool_id
from waygraph.registry.index.search_index import SearchIndex
from waygraph.registry.model import Agent, Principal, Tool
from waygraph.registry.nearest import nearest

_AGENTS_SUGGESTED_FROM = 3
"""How many agents' tools an unknown call name is compared with."""


def shows(index: SearchIndex, principal: Principal | None) -> Shows | None:
    """Whether the principal may see the agent of an id. None: it sees everything.

    Of all agents, not only of those that a search found; they are read when the first one is asked for.
    """
    if principal is None:
        return None
    agents = cache(index.agents)
    return lambda agent_id: agent_id in agents() and visible(agents()[agent_id], principal)


def visible_agents(index: SearchIndex, principal: Principal | None) -> list[Agent]:
    seen = shows(index, principal)
    return [as_seen(agent, seen) for agent in index.agents().values() if visible(agent, principal)]


def seen_tools(index: SearchIndex, ids: Sequence[str], principal: Principal | None) -> list[Tool]:
    """The tools of these ids, in that order, of agents that the principal may see. Raises KeyError."""
    seen = shows(index, principal)
    return [as_seen(tool, seen) for tool in index.tools(ids)]


def agent_named(index: SearchIndex, agent_id: str, principal: Principal | None) -> Agent:
    """Raises UnknownName."""
    found = index.agents().get(agent_id)
    if found is None or not visible(found, principal):
        raise UnknownName("agent", agent_id, (agent.id for agent in visible_agents(index, principal)))
    return as_seen(found, shows(index, principal))


def tool_named(index: SearchIndex, name: str, principal: Principal | None) -> Tool:
    """By id (`agent/tool`), else by call name. Raises UnknownName."""
    if "/" in name:
        owner = agent_named(index, name.partition("/")[0], principal)
        ids = index.tool_ids(owner.id)
        if name not in ids:
            raise UnknownName("tool", name, ids)
        return seen_tools(index, [name], principal)[0]
    for owner in _bearers(index, name, principal):
        found = _tool_called(name, owner.id, index.tool_ids(owner.id))
        if found:
            return seen_tools(index, [found], principal)[0]
    raise UnknownName("tool", name, _call_names_near(index, name, principal), some=True)


def named(index: SearchIndex, name: str, principal: Principal | None) -> Agent | Tool:
    """The agent of that id, else the tool of that id or call name. Raises UnknownName."""
    found = index.agents().get(name)
    if found is not None and visible(found, principal):
        return as_seen(found, shows(index, principal))
    if "/" in name or "__" in name or _bearers(index, name, principal):
        return tool_named(index, name, principal)
    return agent_named(index, name, principal)


def _bearers(index: SearchIndex, name: str, principal: Principal | None) -> list[Agent]:
    """The visible agents that may own a tool of this call name."""
    agents = index.agents()
    owners = (agents[agent_id] for agent_id in index.owners_called(name) if agent_id in agents)
    return [owner for owner in owners if visible(owner, principal)]


def _tool_called(name: str, owner: str, ids: Iterable[str]) -> str | None:
    """The id among `ids`, all of one owner's tools, that makes this call name."""
    plain = name.removeprefix(f"{owner}__")
    if call_name(owner, plain) == name:  # no other tool has it
        wanted = tool_id(owner, plain)
        return wanted if wanted in ids else None
    return next((given for given, made in _made(owner, ids) if made == name), None)


def _made(owner: str, ids: Iterable[str]) -> Iterator[tuple[str, str]]:
    """Of each tool its id and its call name."""
    return ((given, call_name(owner, given.partition("/")[2])) for given in ids)


def _call_names_near(index: SearchIndex, name: str, principal: Principal | None) -> list[str]:
    """The call names of the tools of those visible agents that were probably meant."""
    owners = _bearers(index, name, principal)
    if not owners:
        by_prefix = {call_prefix(agent.id).rstrip("_"): agent for agent in visible_agents(index, principal)}
        near = nearest(name.partition("__")[0], by_prefix, _AGENTS_SUGGESTED_FROM)
        owners = [by_prefix[prefix] for prefix in near]
    tools = index.tool_ids_of([owner.id for owner in owners])
    return [made for owner in owners for _, made in _made(owner.id, tools[owner.id])]
