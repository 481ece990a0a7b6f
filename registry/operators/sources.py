"""What is written of a source beside its manifest: how its agents answer, what of it fails, and its end."""

from collections.abc import Iterable, Mapping
from typing import Never

from waygraph.cypher import load
from waygraph.registry.graph.engine import GraphSession
from waygraph.registry.graph.read import GraphView, Part, outranked_sources
from waygraph.registry.graph.write import put_failures, put_props, put_settings, remove_agents
from waygraph.registry.model.changes import Forgotten, SourceStatuses, Written, continue_failures
from waygraph.registry.model.errors import NotAllowed, UnknownName
from waygraph.registry.model.nouns import Principal
from waygraph.registry.model.tool_settings import hide_tools
from waygraph.registry.operators.rights import refuse_non_operator, refuse_source
from waygraph.registry.writer import WriteSession

_REMOVE_SOURCE = load("node/remove", "Source")


def put_statuses(
    session: WriteSession, statuses: Mapping[str, str], attempts: SourceStatuses, pauses: Mapping[str, int]
) -> Written:
    """Agents' statuses, by id; unknown ids are left out. Where no status differs the revision stays.

    `attempts`: by source, the status of each key that was tried. `pauses`: of these sources, in seconds.
    """
    revision = session.begin().revision
    graph = session.read_graph_view(Part(agent_ids=statuses))
    sources, now = [graph.sources[name] for name in attempts if name in graph.sources], session.clock()
    differing = {
        agent_id: {"status": status}
        for agent_id, status in statuses.items()
        if agent_id in graph.agents and graph.agents[agent_id].agent.status != status
    }

    def work(graph_session: GraphSession) -> None:
        put_props(graph_session, differing)
        for each in sources:
            failures = continue_failures(each.name, each.failures, attempts[each.name], now, remaining=None)
            put_failures(graph_session, each.name, failures, pauses.get(each.name, each.pause_s))

    if differing:
        return session.write(work, differing)
    return session.touch(work) if sources else Written(revision=revision)


def forget_source(session: WriteSession, name: str, principal: Principal | None = None) -> Forgotten:
    """Removes a source, its claims, and the agents that only it claimed; of another what is held stays.

    Raises UnknownName; NotAllowed if it claims an agent that the principal may not see, or is another's, or has a
    policy, and the principal is no operator.
    """
    session.begin()
    graph = session.read_graph_view(Part(sources=[name]))
    mine = claims_of(session, graph, name, principal)
    refuse_source(graph.sources[name], [graph.overlaid(agent_id) for agent_id in mine], principal)
    if graph.policy_of(name) != "accept":
        refuse_non_operator("to forget a source that has a policy", principal)
    other_ids = {claim.agent_id for claim in graph.claims if claim.source != name}
    agent_ids = [agent_id for agent_id in mine if agent_id not in other_ids]
    tools = [item.tool.id for items in graph.tools_of(agent_ids).values() for item in items]
    settings = [hide_tools(graph.settings_of(agent_id), name, ()) for agent_id in mine]

    def work(graph_session: GraphSession) -> None:
        remove_agents(graph_session, agent_ids, tools)
        graph_session.run(_REMOVE_SOURCE, id=name)
        put_settings(graph_session, [each for each in settings if each != graph.settings_of(each.agent_id)])

    return Forgotten(
        revision=session.write(work, mine).revision,
        agents=tuple(sorted(agent_ids)),
        tools=tuple(sorted(tools)),
        ingest_again=outranked_sources(graph, name, mine),
    )


def claims_of(session: WriteSession, graph: GraphView, name: str, principal: Principal | None) -> list[str]:
    """The agents that a source claims, by a view of them. Raises UnknownName, NotAllowed, as the principal may see
    them.
    """
    if name not in graph.part_for(principal).sources:
        raise UnknownName("source", name, session.read_graph_view().part_for(principal).sources)
    agent_ids = [claim.agent_id for claim in graph.claims if claim.source == name]
    refuse_unseen(graph, agent_ids, principal)
    return agent_ids


def refuse_unseen(graph: GraphView, agent_ids: Iterable[str], principal: Principal | None) -> None:
    """Raises NotAllowed if one of these is held and the principal may not see it. Which one is not said."""
    if any(agent_id in graph.agents and not graph.shows(agent_id, principal) for agent_id in agent_ids):
        refuse_change()


def refuse_change() -> Never:
    """Raises NotAllowed; of which agent is not said."""
    raise NotAllowed("this would change an agent that the caller may not see; nothing was changed")
