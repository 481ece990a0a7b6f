"""Approval: what waits for it, what it says, and that it is given."""

from collections.abc import Collection, Sequence
from dataclasses import replace

from waygraph.registry.access.visibility import Shows, as_seen
from waygraph.registry.graph.engine import GraphSession
from waygraph.registry.graph.read import GraphView, Part
from waygraph.registry.graph.write import put_agent_props, put_tool_props, write_vectors
from waygraph.registry.model import validation
from waygraph.registry.model.changes import AgentEntry, Approved
from waygraph.registry.model.errors import InvalidSetting, UnknownName
from waygraph.registry.model.identity import call_name, is_broken
from waygraph.registry.model.nouns import Agent, Principal, Tool, is_doubtful
from waygraph.registry.model.tool_settings import settings_of_tools
from waygraph.registry.operators.rights import refuse_non_operator
from waygraph.registry.operators.sources import claims_of
from waygraph.registry.writer import WriteSession

OF_SOURCE = "source:"
"""Before a source's name: all that waits of it."""
MAX_NAME_CHARS = len(OF_SOURCE) + validation.MAX_NAME_CHARS
"""Of a name that is approved, with what stands before a source's."""
HINT = "All that waits of a source: `waygraph approve --all-of SOURCE`; over REST and in Python the name `source:NAME`."


def waits(entity: Agent | Tool) -> bool:
    """Whether it is out of routing until somebody approves it, or flagged and not approved as it is now."""
    return entity.pending or is_doubtful(entity)


def _approval_of(entity: Agent | Tool) -> dict[str, object]:
    """The properties that say that it is approved as it is now."""
    return {"pending": False, "approved_hash": entity.content_hash}


def waiting(graph: GraphView, name: str, principal: Principal | None) -> tuple[list[Agent], list[Tool]]:
    """What waits under a name: an agent's id, a tool's id or call name, or a source's behind `source:`; by id. What is
    flagged and not approved waits, too, but in the name of a whole source.

    Raises UnknownName, also for what the principal may not see. Whether the source is known the caller has looked.
    """
    shows = graph.view_for(principal)
    if name.startswith(OF_SOURCE):
        agents, tools = _of_agents(graph, spoken_agents(graph, name.removeprefix(OF_SOURCE)), shows)
        # What is flagged and in routing is approved by its own name: nobody looks at a whole source word for word.
        return [agent for agent in agents if agent.pending], [tool for tool in tools if tool.pending]
    if graph.shows(name, principal):
        _refuse_two_meanings(graph, name, principal)
        return _of_agents(graph, [name], shows)
    return [], [tool for tool in [find_held_tool(graph, name, principal)] if waits(as_seen(tool, shows))]


def checked_names(names: Sequence[str]) -> tuple[str, ...]:
    """Each once. Raises InvalidSetting for none, UnknownName for what nothing can be called."""
    if not names:
        raise InvalidSetting("say what to approve: agents, tools, or `source:NAME` for all that waits of a source")
    for name in names:
        if not 0 < len(name) <= MAX_NAME_CHARS or is_broken(name):
            raise UnknownName("agent or tool", name[:MAX_NAME_CHARS], (), hint=HINT)
    return tuple(dict.fromkeys(names))


def all_waiting(graph: GraphView, names: Sequence[str], principal: Principal | None) -> tuple[list[Agent], list[Tool]]:
    """What waits under any of these names, each once, by id. Raises as `waiting`."""
    agents: dict[str, Agent] = {}
    tools: dict[str, Tool] = {}
    for name in names:
        some_agents, some_tools = waiting(graph, name, principal)
        agents |= {agent.id: agent for agent in some_agents}
        tools |= {tool.id: tool for tool in some_tools}
    return [agents[agent_id] for agent_id in sorted(agents)], [tools[tool_id] for tool_id in sorted(tools)]


def spoken_agents(graph: GraphView, source: str) -> list[str]:
    """The agents whose texts are the source's: a live source speaks before a catalogue, then who said what is held,

    then the earliest.
    """
    speakers: dict[str, tuple[int, bool, str, str]] = {}
    for claim in graph.claims:
        said_otherwise = claim.hash != graph.agents[claim.agent_id].bundle_hash
        rank = (-claim.rank, said_otherwise, claim.since, claim.source)
        speakers[claim.agent_id] = min(rank, speakers.get(claim.agent_id, rank))
    return sorted(agent_id for agent_id, (*_, name) in speakers.items() if name == source)


def approved_entries(graph: GraphView, agents: Sequence[Agent], tools: Sequence[Tool]) -> list[AgentEntry]:
    """The agents that change, or whose tools do, whole, as they are once these are approved."""
    tool_ids = {tool.id for tool in tools}
    agent_ids = sorted({agent.id for agent in agents} | {tool.agent_id for tool in tools})
    tools_by_agent = graph.tools_of(agent_ids)
    return [
        AgentEntry(
            key=agent_id,
            agent=graph.agents[agent_id].agent,
            tools=tuple(
                replace(item.tool, pending=item.tool.pending and item.tool.id not in tool_ids)
                for item in tools_by_agent.get(agent_id, ())
            ),
        )
        for agent_id in agent_ids
    ]


def _of_agents(graph: GraphView, agent_ids: Sequence[str], shows: Shows | None) -> tuple[list[Agent], list[Tool]]:
    tools_by_agent = graph.tools_of(agent_ids)
    agents = [graph.agents[agent_id].agent for agent_id in agent_ids]
    tools = [item.tool for agent_id in agent_ids for item in tools_by_agent.get(agent_id, ())]
    return (
        [agent for agent in agents if waits(as_seen(agent, shows))],
        [tool for tool in tools if waits(as_seen(tool, shows))],
    )


def _refuse_two_meanings(graph: GraphView, name: str, principal: Principal | None) -> None:
    """An agent may have been given the call name of another's tool for its id. Raises InvalidSetting."""
    agent_ids = [agent_id for agent_id in graph.agents if "__" in name and graph.shows(agent_id, principal)]
    tools = (item.tool for items in graph.tools_of(agent_ids).values() for item in items)
    if other := next((tool.id for tool in tools if tool.call_name == name), ""):
        raise InvalidSetting(
            f"{name!r} is the id of an agent and the call name of the tool {other!r}: approve tools by their ids, or "
            "all that waits of a source by `source:NAME`"
        )


def read_named(
    session: WriteSession, names: Collection[str], principal: Principal | None, sources: Collection[str] = ()
) -> GraphView:
    """The agents of these names, which may be those of their tools, and those that the sources claim.

    The whole graph where only that tells: for call names, for the error about a name that is unknown, and for a
    principal.
    """
    owners = {name.partition("/")[0] for name in names}
    graph = session.read_graph_view(Part(agent_ids=owners, sources=sources))
    # What waits is shown to a principal by whom its flags name, which may be any agent.
    is_enough = principal is None and not any("__" in name for name in names) and owners <= graph.agents.keys()
    return graph if is_enough else session.read_graph_view()


def find_held_tool(graph: GraphView, name: str, principal: Principal | None, hint: str = HINT) -> Tool:
    """As its source states it, by id or call name, its source's before an operator's. Raises UnknownName."""
    visible_ids = [agent_id for agent_id in graph.agents if graph.shows(agent_id, principal)]
    owner = name.partition("/")[0]
    owners = [owner] if "/" in name and owner in visible_ids else visible_ids
    tools = [item.tool for items in graph.tools_of(owners).values() for item in items]
    matches = [tool for tool in tools if name in (tool.id, tool.call_name)]
    match = next(iter(matches or (tool for tool in tools if name == _set_name(graph, tool))), None)
    if match is None:
        names = (
            [tool.id if "/" in name else tool.call_name for tool in tools]
            if "/" in name or "__" in name
            else visible_ids
        )
        raise UnknownName("agent or tool", name, names, hint=hint)
    return match


def _set_name(graph: GraphView, tool: Tool) -> str:
    """The call name that an operator gave it; empty: none."""
    setting = settings_of_tools(graph.settings_of(tool.agent_id)).get(tool.name)
    return call_name(tool.agent_id, setting.name) if setting and setting.name else ""


def approve(session: WriteSession, *names: str, principal: Principal | None = None) -> Approved:
    """What waits of agents, tools and sources (`source:NAME`) waits no more, as its text is now.

    An agent whose tools were left out of its text is embedded anew. Raises UnknownName; NotAllowed for who is no
    operator, and for a source that claims an agent which the principal may not see; and as `WriteSession.commit`.
    """
    refuse_non_operator("an approval", principal)
    session.set_apart(principal)
    revision = session.begin().revision
    sources = [name.removeprefix(OF_SOURCE) for name in names if name.startswith(OF_SOURCE)]
    graph = read_named(session, [name for name in names if not name.startswith(OF_SOURCE)], principal, sources)
    for source in sources:
        claims_of(session, graph, source, principal)
    agents, tools = all_waiting(graph, names, principal)
    if not (agents or tools):
        return Approved(revision=revision)
    entries = approved_entries(graph, agents, tools)
    # Without a tool that joins them, the agents' texts stay as they are.
    vectors = session.embed(graph, entries if any(tool.pending for tool in tools) else ())
    agent_ids = [entry.agent.id for entry in entries if entry.agent.id in vectors.vectors]

    def work(graph_session: GraphSession) -> None:
        write_vectors(graph_session, agent_ids, (), vectors)
        put_agent_props(graph_session, {agent.id: _approval_of(agent) for agent in agents})
        put_tool_props(graph_session, {tool.id: _approval_of(tool) for tool in tools})

    return Approved(
        agents=tuple(agent.id for agent in agents),
        tools=tuple(tool.id for tool in tools),
        revision=session.write(work, [entry.agent.id for entry in entries], vectors).revision,
    )
