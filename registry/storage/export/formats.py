"""What an export holds: one revision, read whole."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal, get_args

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
from waygraph.registry.model.errors import RegistryNotFound, UnknownName
from waygraph.registry.model.nouns import Agent, Tool
from waygraph.registry.registry import Registry


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
    """The contents, and the vectors of its agents."""
    contents = read_contents(session)
    return contents, read_vectors(session, agents=[agent.id for agent in contents.agents])


# The formats of an export, and the one call that writes them.


ExportFormat = Literal["json", "graphml", "html"]
FORMATS: tuple[ExportFormat, ...] = get_args(ExportFormat)


def export(registry: Registry, format: ExportFormat) -> str:  # noqa: A002 - what every caller calls it
    """The published revision as text. The same revision gives the same text.

    `json` holds what sources state, and apart from it what operators said; `graphml` and `html` show what holds
    now. Raises UnknownName, RegistryNotFound.
    """
    # networkx is imported only by the formats that need it.
    match format:
        case "json":
            from waygraph.registry.storage.export.json_export import as_json

            return as_json(registry.read(read_contents))
        case "graphml":
            from waygraph.registry.storage.export.graphml import as_graphml

            return as_graphml(registry.read(read_contents))
        case "html":
            from waygraph.registry.storage.export.page import as_page

            return as_page(*registry.read(read_contents_and_vectors))
        case _:
            raise UnknownName("export format", format, FORMATS)
