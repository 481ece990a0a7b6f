"""What an export holds: one revision of the graph, read whole."""

from collections.abc import Mapping
from dataclasses import dataclass

from waygraph.registry.graph.engine import GraphSession
from waygraph.registry.graph.read import (
    Vectors,
    overlaid,
    read_agents,
    read_claims,
    read_settings,
    read_sources,
    read_state,
    read_tools,
    read_vectors,
)
from waygraph.registry.model.changes import OperatorSettings, SourceSummary
from waygraph.registry.model.errors import RegistryNotFound
from waygraph.registry.model.nouns import Agent, Tool


@dataclass(frozen=True, slots=True, kw_only=True)
class Contents:
    """Agents as their sources state them, each list in order of id."""

    revision: int
    agents: tuple[Agent, ...]
    tools: tuple[Tool, ...]
    sources: tuple[SourceSummary, ...]
    settings: Mapping[str, OperatorSettings]

    def tools_by_agent(self) -> dict[str, list[Tool]]:
        owned: dict[str, list[Tool]] = {agent.id: [] for agent in self.agents}
        for tool in self.tools:
            owned[tool.agent_id].append(tool)
        return owned

    def agents_as_they_hold(self) -> list[Agent]:
        """Each with the operator's word over its source's."""
        return [overlaid(agent, self.settings) for agent in self.agents]


def read_contents(session: GraphSession) -> Contents:
    """Raises RegistryNotFound if the graph is not a registry."""
    state = read_state(session)
    if state is None:
        raise RegistryNotFound("the graph")
    return Contents(
        revision=state.revision,
        agents=tuple(item.agent for item in read_agents(session).values()),
        tools=tuple(item.tool for item in read_tools(session)),
        sources=tuple(read_sources(session, read_claims(session))),
        settings=read_settings(session),
    )


def read_contents_and_vectors(session: GraphSession) -> tuple[Contents, Vectors]:
    """The contents, and agent id → vector: float32 of shape (dimension,)."""
    contents = read_contents(session)
    return contents, read_vectors(session, agents=[agent.id for agent in contents.agents])
