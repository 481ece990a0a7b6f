"""Keeps toolsets true to what is written: an edge to each tool that a rule chooses, and no other."""

from collections.abc import Collection, Sequence

from waygraph.registry.graph.engine import GraphSession
from waygraph.registry.graph.read import overlaid, read_agents, read_agents_of, read_settings, read_tools, read_tools_of
from waygraph.registry.graph.toolsets import put_edges, read_toolsets
from waygraph.registry.model.changes import Change
from waygraph.registry.model.nouns import canonical_json
from waygraph.registry.model.toolset import RULE, Toolset
from waygraph.registry.model.transitions import owner_of


def choose_tools(
    session: GraphSession, toolsets: Sequence[Toolset], agent_ids: Collection[str] | None = None
) -> dict[str, set[str]]:
    """By name of each toolset the ids of the tools that its rule chooses, of these agents; None: of all."""
    settings = read_settings(session)
    items = read_agents(session) if agent_ids is None else read_agents_of(session, agent_ids)
    tools = read_tools(session) if agent_ids is None else read_tools_of(session, sorted(items))
    tool_ids: dict[str, list[str]] = {}
    for item in tools:
        tool_ids.setdefault(item.tool.agent_id, []).append(item.tool.id)
    agents = [overlaid(item.agent, settings) for item in items.values()]
    return {
        each.name: {tool for agent in agents for tool in each.chosen_tools(agent, tool_ids.get(agent.id, ()))}
        for each in toolsets
    }


def keep_toolsets(session: GraphSession, agent_ids: Collection[str]) -> None:
    """After these agents or their tools were changed: what is new joins, and what a rule chooses no more leaves."""
    toolsets = read_toolsets(session) if agent_ids else []
    if not toolsets:
        return
    now, agents = choose_tools(session, toolsets, agent_ids), set(agent_ids)
    before = {each.name: {tool for tool in each.includes if owner_of(tool) in agents} for each in toolsets}
    put_edges(session, {name: (before[name], now[name]) for name in now})


def toolset_change(was: Toolset | None, now: Toolset | None) -> Change:
    """What the log keeps of it; one of the two is there."""
    before, after = (each.rule_json() if each else {} for each in (was, now))
    differing = tuple(each for each in RULE if before.get(each) != after.get(each))
    return Change(
        source="",
        agent_id=f"toolset:{(now or was or Toolset(name='')).name}",
        what="changed" if was and now else "added" if now else "removed",
        fields=differing if was and now else (),
        before=canonical_json({each: before[each] for each in differing if before}),
        after=canonical_json({each: after[each] for each in differing if after}),
    )
