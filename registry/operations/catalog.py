"""What a registry holds, as far as somebody sees it: agents, tools, categories, sources, and how much there is."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Annotated, Any

from annotated_types import MinLen

from waygraph.registry.index.names import agent_named, tool_named
from waygraph.registry.index.search_index import SearchIndex
from waygraph.registry.model import shapes
from waygraph.registry.model.changes import About, ListedAgent, Page, SourceSummary, Status
from waygraph.registry.model.nouns import Agent, Filters, Principal, Tool
from waygraph.registry.model.shapes import Shape, TransportFilter
from waygraph.registry.model.validation import FILTER_LISTS, checked_filters
from waygraph.registry.operations.queries import (
    about,
    agents_page,
    seen_sources,
    seen_state,
    standing_sources,
    tools_page,
    with_members,
)
from waygraph.registry.operations.request import Graph, Id, PartRequest, Request, make_read

NO_FILTERS = Filters()


def filters_sent(filters: Filters) -> dict[str, Any]:
    """As parameters of an address."""
    values = {name: getattr(filters, field) for name, field in FILTER_LISTS.items()}
    values |= {"reachable": filters.reachable, "within": filters.within, "toolset": filters.toolset}
    return {name: value for name, value in values.items() if value}


@dataclass(frozen=True, kw_only=True)
class ListAgents(PartRequest[ListedAgent]):
    """The agents, by id, each with the number of its tools."""

    operation = make_read("agents", "/v1/agents", "Agents")
    listing = "agents"

    filters: Filters = NO_FILTERS

    def sent_fields(self) -> dict[str, Any]:
        place = {name: value for name, value in super().sent_fields().items() if name != "filters"}
        return {**filters_sent(checked_filters(self.filters)), **place}

    def answer(self, graph: Graph, principal: Principal | None) -> Page[ListedAgent]:
        given = checked_filters(self.filters)

        def read_page(index: SearchIndex) -> Page[ListedAgent]:
            return agents_page(index, with_members(index, given, principal), principal, self.start, self.most)

        return graph.look(read_page)

    def write_item(self, item: ListedAgent, transport: TransportFilter) -> Shape:
        return shapes.agent_line(item, transport)

    def read_item(self, document: Any) -> ListedAgent:
        return ListedAgent(shapes.read(Agent, document), document["tools"])


@dataclass(frozen=True, kw_only=True)
class GetAgent(Request[Agent]):
    """An agent alone."""

    operation = make_read("agent", "/v1/agents/{agent_id}", "AgentFacts")

    agent_id: Id
    """An agent's id."""

    def answer(self, graph: Graph, principal: Principal | None) -> Agent:
        return graph.look(lambda index: agent_named(index, self.agent_id, principal))

    def read(self, document: Any) -> Agent:
        return shapes.read(Agent, document["agent"])


@dataclass(frozen=True, kw_only=True)
class WholeRequest[A](Request[A]):
    """Answered with the schemas of tools."""

    def sent_fields(self) -> dict[str, Any]:
        return {**super().sent_fields(), "schema": True}


@dataclass(frozen=True, kw_only=True)
class GetAbout(WholeRequest[About]):
    """All that is known of an agent: its tools, what operators set, the sources that claim it."""

    operation = GetAgent.operation
    noun = About

    agent_id: Id
    """An agent's id."""

    def answer(self, graph: Graph, principal: Principal | None) -> About:
        return graph.look(lambda index: about(index, agent_id=self.agent_id, principal=principal))


@dataclass(frozen=True, kw_only=True)
class ListTools(WholeRequest[Page[Tool]], PartRequest[Tool]):
    """The tools of all agents, by id."""

    operation = make_read("tools", "/v1/tools", "Tools")
    listing, noun = "tools", Tool

    def answer(self, graph: Graph, principal: Principal | None) -> Page[Tool]:
        agent_id = getattr(self, "agent_id", None)
        return graph.look(lambda index: tools_page(index, agent_id, principal, self.start, self.most))


@dataclass(frozen=True, kw_only=True)
class ListToolsOfAgent(ListTools):
    """The tools of an agent, by id."""

    operation = make_read("agent_tools", "/v1/agents/{agent_id}/tools", "Tools")

    agent_id: Id
    """An agent's id."""


@dataclass(frozen=True, kw_only=True)
class GetTool(WholeRequest[Tool]):
    """One tool, by its agent and its name."""

    operation = make_read("tool", "/v1/tools/{agent_id}/{tool_name:path}", "DefinedTool")
    noun = Tool

    agent_id: Id
    """An agent's id."""
    tool_name: Annotated[str, MinLen(1)]
    """The name of one of its tools."""

    @staticmethod
    def of(name: str) -> "GetTool | GetToolByCallName":
        """By id or call name."""
        agent_id, slash, tool_name = name.partition("/")
        return GetTool(agent_id=agent_id, tool_name=tool_name) if slash else GetToolByCallName(call_name=name)

    @property
    def name(self) -> str:
        return f"{self.agent_id}/{self.tool_name}"

    def answer(self, graph: Graph, principal: Principal | None) -> Tool:
        return graph.look(lambda index: tool_named(index, self.name, principal))


@dataclass(frozen=True, kw_only=True)
class GetToolByCallName(WholeRequest[Tool]):
    """One tool, by its call name."""

    operation = make_read("tool_called", "/v1/tools/{call_name}", "DefinedTool")
    noun = Tool

    call_name: Id
    """The name under which hosts call it."""

    def answer(self, graph: Graph, principal: Principal | None) -> Tool:
        return graph.look(lambda index: tool_named(index, self.call_name, principal))


@dataclass(frozen=True, kw_only=True)
class ListSources(Request[list[SourceSummary]]):
    """The sources, each with the agents that it claims, what people call them, and which this service follows."""

    operation = make_read("sources", "/v1/sources", "Sources")

    def answer(self, graph: Graph, principal: Principal | None) -> list[SourceSummary]:
        return graph.look(lambda index: standing_sources(index, principal))

    def write(self, answer: Sequence[SourceSummary], transport: TransportFilter = None) -> Shape:
        return shapes.sources(answer, transport)

    def read(self, document: Any) -> list[SourceSummary]:
        return shapes.read_sources(document)


@dataclass(frozen=True, kw_only=True)
class GetStatus(Request[Status]):
    """How much is held, at which revision, and by what it is embedded. Where it lies is told to who sees everything."""

    operation = make_read("status", "/v1/status", "Status")

    def answer(self, graph: Graph, principal: Principal | None) -> Status:
        def read_status(index: SearchIndex) -> Status:
            sources = seen_sources(index, principal)
            return Status(
                location=graph.location,
                state=seen_state(index, principal),
                sources=len(sources),
                failures=tuple(failure for source in sources for failure in source.failures),
            )

        return graph.look(read_status)

    def write(self, answer: Status, transport: TransportFilter = None) -> Shape:
        return shapes.status(answer, transport)

    def read(self, document: Any) -> Status:
        return shapes.read_status(document)
