"""What operators say of an agent: the setting with some fields changed, and stored."""

from collections.abc import Mapping
from dataclasses import replace

from waygraph.registry.graph.engine import GraphSession
from waygraph.registry.graph.read import GraphView, Part, overlaid
from waygraph.registry.graph.schema import link_subjects
from waygraph.registry.graph.write import put_setting as put_setting_node
from waygraph.registry.graph.write import remove_agents
from waygraph.registry.model.changes import OperatorSettings, Written
from waygraph.registry.model.errors import UnknownName
from waygraph.registry.model.nouns import Principal
from waygraph.registry.operators.rights import refuse_setting
from waygraph.registry.writer import WriteSession, changed_entries_of, write_entry_vectors


def changed_setting(
    graph: GraphView, agent_id: str, changes: Mapping[str, object], principal: Principal | None = None
) -> OperatorSettings:
    """What operators said of an agent so far, with these fields changed.

    Raises UnknownName, also for what the principal may not see; what is removed only those see who see everything.
    Raises NotAllowed for what the principal may not set.
    """
    if not graph.shows(agent_id, principal) and (principal is not None or agent_id not in graph.settings):
        raise UnknownName("agent", agent_id, (each for each in graph.agents if graph.shows(each, principal)))
    before = graph.settings_of(agent_id)
    after = replace(before, **changes)  # type: ignore[arg-type]
    if agent_id in graph.agents:
        now, then = (overlaid(graph.agents[agent_id].agent, {agent_id: setting}) for setting in (before, after))
        refuse_setting(now, then, changes, principal)
    return after


def put_setting(session: WriteSession, setting: OperatorSettings) -> Written:
    """Stores what an operator says; an agent it removes goes with its tools.

    What is said of tools is embedded. Raises as `WriteSession.commit`.
    """
    session.begin()
    graph = session.read_graph_view(Part(agent_ids=[setting.agent_id]))
    agent_ids = [setting.agent_id] if setting.removed and setting.agent_id in graph.agents else []
    tools = [item.tool.id for items in graph.tools_of(agent_ids).values() for item in items]
    entries = changed_entries_of(graph, [setting], agent_ids)
    vectors = session.embed(graph, entries, [setting])

    def work(graph_session: GraphSession) -> None:
        remove_agents(graph_session, agent_ids, tools)
        put_setting_node(graph_session, setting)
        link_subjects(graph_session, [setting.agent_id])
        write_entry_vectors(graph_session, entries, vectors)

    return session.write(work, [setting.agent_id], vectors)
