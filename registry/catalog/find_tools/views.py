"""What one endpoint of a registry shows: everything, the agents of a namespace, or a toolset."""

from collections import Counter
from dataclasses import replace
from typing import TYPE_CHECKING, Any, NamedTuple

from waygraph.registry.catalog.find_tools.find import agents_of_namespace
from waygraph.registry.catalog.searchable import Searchable
from waygraph.registry.model.changes import About, ListedAgent, Page, SourceSummary, Status
from waygraph.registry.model.errors import NotAllowed, UnknownName
from waygraph.registry.model.nouns import Agent, Filters, Principal, Query, Route, Tool, ToolRoute
from waygraph.registry.model.settings import Settings
from waygraph.registry.model.transitions import owner_of
from waygraph.registry.operations.catalog import part_of

if TYPE_CHECKING:
    from waygraph.registry.operations.request import Request
    from waygraph.registry.operators.toolset import Toolset
    from waygraph.registry.taxonomy.tree import CategoryView


class View(NamedTuple):
    """A registry as one endpoint shows it. `agent_ids`: the only agents; None: all."""

    registry: Searchable
    agent_ids: frozenset[str] | None = None

    def shows_whole(self, agent: Agent) -> bool:
        """Whether it shows all that the agent has, not some of its tools alone."""
        if isinstance(self.registry, NarrowedRegistry):
            return self.registry.chooses(agent)
        return self.agent_ids is None or agent.id in self.agent_ids

    def shows_tool(self, agent: Agent, tool: Tool) -> bool:
        """Whether it shows this tool of the agent, which may be one that no registry holds: that reads a skill."""
        if self.shows_whole(agent):
            return True
        return isinstance(self.registry, NarrowedRegistry) and self.registry.includes(tool)


def open_view(registry: Searchable, name: str, principal: Principal | None = None, *, only: str = "") -> View:
    """The toolset of this name if the principal may use it, else the namespace; empty: all. Raises UnknownName.

    `only`: the toolset that the caller is kept to, whatever else the principal may see.
    """
    if only:
        toolsets = {each.name: each for each in registry.toolsets(principal=principal)} if name in ("", only) else {}
        if only not in toolsets:
            raise UnknownName("toolset", name or only, ())
        return View(NarrowedRegistry(registry, toolsets[only]))
    if not name:
        return View(registry)
    try:
        toolset = registry.toolset(name, principal=principal)
    except UnknownName:
        return View(registry, agents_of_namespace(registry, name, principal))
    return View(NarrowedRegistry(registry, toolset))


class NarrowedRegistry:
    """Implements Searchable: of a registry only what is in a toolset, as somebody sees it."""

    def __init__(self, registry: Searchable, toolset: "Toolset") -> None:
        self._registry, self._toolset = registry, toolset
        self._tools, self._agents = frozenset(toolset.includes), frozenset(toolset.members)

    @property
    def settings(self) -> Settings:
        return self._registry.settings

    def perform[A](self, request: "Request[A]", principal: Principal | None = None) -> A:  # noqa: ARG002 - refused
        """Raises NotAllowed: a request is of the whole registry, and each method here narrows what it gives."""
        raise NotAllowed("a request is answered by the whole registry, and this is a toolset of it")

    def chooses(self, agent: Agent) -> bool:
        """Whether the toolset has the agent as a whole."""
        return self._toolset.chooses(agent)

    def includes(self, tool: Tool) -> bool:
        return tool.id in self._tools

    def route(self, query: str | Query, **options: Any) -> Route:
        return self._registry.route(self._within(query), **options)

    def find_tools(self, query: str | Query, **options: Any) -> ToolRoute:
        return self._registry.find_tools(self._within(query), **options)

    def agents(self, *, principal: Principal | None = None) -> list[Agent]:
        return [agent for agent in self._registry.agents(principal=principal) if agent.id in self._agents]

    def agent(self, agent_id: str, *, principal: Principal | None = None) -> Agent:
        self._require_agent(agent_id)
        return self._registry.agent(agent_id, principal=principal)

    def tool(self, name: str, *, principal: Principal | None = None) -> Tool:
        try:
            tool = self._registry.tool(name, principal=principal)
        except UnknownName:
            tool = None
        if tool is None or tool.id not in self._tools:
            raise UnknownName("tool", name, (each.call_name for each in self.tools(principal=principal)), some=True)
        return tool

    def lookup(self, name: str, *, principal: Principal | None = None) -> Agent | Tool:
        if name in self._agents or not ("/" in name or "__" in name):
            return self.agent(name, principal=principal)
        return self.tool(name, principal=principal)

    def about(self, agent_id: str, *, principal: Principal | None = None) -> About:
        self._require_agent(agent_id)
        about = self._registry.about(agent_id, principal=principal)
        return replace(about, tools=tuple(tool for tool in about.tools if tool.id in self._tools))

    def agents_page(
        self,
        *,
        filters: Filters = Filters(),  # noqa: B008 - frozen
        after: str = "",
        limit: int | None = None,
        principal: Principal | None = None,
    ) -> Page[ListedAgent]:
        filters = replace(filters, toolset=self._toolset.name)
        page = self._registry.agents_page(filters=filters, after=after, limit=limit, principal=principal)
        tools = Counter(map(owner_of, self._tools))
        return replace(page, items=tuple(replace(each, tools=tools[each.agent.id]) for each in page.items))

    def tools(
        self,
        agent_id: str | None = None,
        *,
        after: str = "",
        limit: int | None = None,
        principal: Principal | None = None,
    ) -> Page[Tool]:
        if agent_id is not None:
            self._require_agent(agent_id)
        page = self._registry.tools(agent_id, principal=principal)
        tools = {tool.id: tool for tool in page if tool.id in self._tools}
        part, following = part_of(list(tools), after, limit)
        return replace(page, items=tuple(tools[each] for each in part), following=following)

    def browse(
        self,
        path: str = "",
        *,
        filters: Filters = Filters(),  # noqa: B008 - frozen
        principal: Principal | None = None,
    ) -> "CategoryView":
        return self._registry.browse(path, filters=replace(filters, toolset=self._toolset.name), principal=principal)

    def toolsets(self, *, principal: Principal | None = None) -> "list[Toolset]":  # noqa: ARG002 - as it was seen
        return [self._toolset]

    def toolset(self, name: str, *, principal: Principal | None = None) -> "Toolset":  # noqa: ARG002
        if name != self._toolset.name:
            raise UnknownName("toolset", name, [self._toolset.name])
        return self._toolset

    def sources(self, *, principal: Principal | None = None) -> list[SourceSummary]:
        parts = (source.limit_to(self._agents) for source in self._registry.sources(principal=principal))
        return [source for source in parts if source.claims]

    def status(self, *, principal: Principal | None = None) -> Status:
        status = self._registry.status(principal=principal)
        state = replace(status.state, agents=len(self._agents), tools=len(self._tools))
        sources = self.sources(principal=principal)
        failures = tuple(failure for source in sources for failure in source.failures)
        return replace(status, state=state, sources=len(sources), failures=failures)

    def _within(self, query: str | Query) -> Query:
        full_query = Query(text=query) if isinstance(query, str) else query
        return replace(full_query, filters=replace(full_query.filters, toolset=self._toolset.name))

    def _require_agent(self, agent_id: str) -> None:
        if agent_id not in self._agents:
            raise UnknownName("agent", agent_id, self._agents)
