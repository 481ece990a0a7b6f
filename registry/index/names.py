"""What somebody may see of an index, by name: all that is hidden is unknown, and never suggested."""

from collections.abc import Iterable, Iterator, Sequence
from functools import cache
from itertools import chain

from waygraph.registry.access.visibility import Shows, as_seen, visible
from waygraph.registry.index.search_index import SearchIndex
from waygraph.registry.model.errors import UnknownName, nearest
from waygraph.registry.model.identity import call_name, call_prefix, tool_id
from waygraph.registry.model.nouns import Agent, Principal, Tool
from waygraph.registry.model.tool_settings import settings_of_tools

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
    may_see = shows(index, principal)
    return [as_seen(agent, may_see, principal) for agent in index.agents().values() if visible(agent, principal)]


def seen_tools(index: SearchIndex, ids: Sequence[str], principal: Principal | None) -> list[Tool]:
    """The tools of these ids, in that order, of agents that the principal may see. Raises KeyError."""
    may_see = shows(index, principal)
    return [as_seen(tool, may_see, principal) for tool in index.tools(ids)]


def agent_named(index: SearchIndex, agent_id: str, principal: Principal | None) -> Agent:
    """Raises UnknownName."""
    match = index.agents().get(agent_id)
    if match is None or not visible(match, principal):
        raise UnknownName("agent", agent_id, (agent.id for agent in visible_agents(index, principal)))
    return as_seen(match, shows(index, principal), principal)


def tool_named(index: SearchIndex, name: str, principal: Principal | None) -> Tool:
    """By id (`agent/tool`), else by call name. Raises UnknownName."""
    if match := _find_tools(index, [name], principal).get(name):
        return seen_tools(index, [match[1]], principal)[0]
    if "/" in name:
        raise UnknownName("tool", name, index.tool_ids(agent_named(index, name.partition("/")[0], principal).id))
    raise UnknownName("tool", name, _call_names_near(index, name, principal), some=True)


def find_named(index: SearchIndex, name: str, principal: Principal | None) -> Agent | Tool:
    """The agent of that id, else the tool of that id or call name. Raises UnknownName."""
    agent = index.agents().get(name)
    if agent is not None and visible(agent, principal):
        return as_seen(agent, shows(index, principal), principal)
    if "/" in name or "__" in name or _owners_of(index, name, principal):
        return tool_named(index, name, principal)
    return agent_named(index, name, principal)


def find_all_named(
    index: SearchIndex, names: Iterable[str], principal: Principal | None
) -> "dict[str, tuple[str, str]]":
    """Of each name the id of the agent, and of the tool if it is one's; names that are unknown are left out.

    As `find_named`, but that nothing is suggested, and that the engine is asked once.
    """
    agents, unique_names = index.agents(), list(dict.fromkeys(names))
    ids = {name: (name, "") for name in unique_names if name in agents and visible(agents[name], principal)}
    return ids | _find_tools(index, [name for name in unique_names if name not in ids], principal)


def _find_tools(index: SearchIndex, names: Iterable[str], principal: Principal | None) -> "dict[str, tuple[str, str]]":
    """Of each of these that is a tool's id or call name the ids of its agent and of it."""
    owners = {name: _owners_of(index, name, principal) for name in names}
    ids = index.tool_ids_of(list(dict.fromkeys(chain.from_iterable(owners.values()))))
    tools: dict[str, tuple[str, str]] = {}
    for name, among in owners.items():
        for owner in among:
            if name not in tools and (tool := _tool_called(index, name, owner, ids[owner])):
                tools[name] = (owner, tool)
    return tools


def _owners_of(index: SearchIndex, name: str, principal: Principal | None) -> list[str]:
    """The ids of the visible agents that may own a tool of this id or call name."""
    agents = index.agents()
    ids = [name.partition("/")[0]] if "/" in name else index.owners_called(name)
    return [agent_id for agent_id in ids if agent_id in agents and visible(agents[agent_id], principal)]


def _tool_called(index: SearchIndex, name: str, owner: str, ids: Sequence[str]) -> str | None:
    """The one among `ids`, all of one owner's tools, or that with this call name: its source's, or an operator's."""
    matching_id = name if name in ids else _tool_stated(name, owner, ids)
    if matching_id or not settings_of_tools(index.settings().get(owner)):
        return matching_id
    return next((tool.id for tool in index.tools(ids) if tool.call_name == name), None)


def _tool_stated(name: str, owner: str, ids: Iterable[str]) -> str | None:
    """The id that makes this call name."""
    plain = name.removeprefix(f"{owner}__")
    if call_name(owner, plain) == name:  # no other tool has it
        plain_id = tool_id(owner, plain)
        return plain_id if plain_id in ids else None
    return next((each for each, candidate in _call_names(owner, ids) if candidate == name), None)


def _call_names(owner: str, ids: Iterable[str]) -> Iterator[tuple[str, str]]:
    """Of each tool its id and its call name."""
    return ((each, call_name(owner, each.partition("/")[2])) for each in ids)


def _call_names_near(index: SearchIndex, name: str, principal: Principal | None) -> list[str]:
    """The call names of the tools of those visible agents that were probably meant."""
    if not (owners := _owners_of(index, name, principal)):
        by_prefix = {call_prefix(agent.id).rstrip("_"): agent.id for agent in visible_agents(index, principal)}
        owners = [by_prefix[prefix] for prefix in nearest(name.partition("__")[0], by_prefix, _AGENTS_SUGGESTED_FROM)]
    tools = index.tool_ids_of(owners)
    return [each for owner in owners for _, each in _call_names(owner, tools[owner])]
