"""What is asked of a registry to find agents and tools: all that `find_tools` and evaluation need of one; and what one
endpoint of it shows: everything, the agents of a namespace, or a toolset.
"""

from collections import Counter
from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol

from waygraph.registry.model.changes import About, ListedAgent, Page, SourceSummary, Status
from waygraph.registry.model.errors import NotAllowed, UnknownName
from waygraph.registry.model.nouns import Agent, Filters, Principal, Query, Route, Tool, ToolRoute
from waygraph.registry.model.settings import Settings
from waygraph.registry.model.transitions import owner_of
from waygraph.registry.model.validation import check_query, checked_for_tools, cursor
from waygraph.registry.operations import catalog
from waygraph.registry.operations.request import Performer, checked_most
from waygraph.registry.routing.recipes import DEFAULT_RECIPE, Recipe

if TYPE_CHECKING:
    from waygraph.registry.operations.request import Request
    from waygraph.registry.operators.toolset import Toolset
    from waygraph.registry.taxonomy.tree import CategoryView


class Searchable(Performer, Protocol):
    """The reading half of a registry. Threads may share one.

    A list of a service comes in parts as large as it gives: each is of one revision, and a page says that of the last.
    """

    @property
    def settings(self) -> Settings: ...

    def route(
        self,
        query: str | Query,
        *,
        limit: int | None = None,
        recipe: str | Recipe = DEFAULT_RECIPE,
        agent_weight: float | None = None,
        tool_weight: float | None = None,
        principal: Principal | None = None,
    ) -> Route:
        """The agents that can do this, best first, each with the votes that put it there and its best tools.

        `limit` overrules the query's own, weights the recipe's α for agents and tools. Raises InvalidQuery,
        UnknownRecipe, RecipeNeedsTexts, and of a reranker that cannot be opened InvalidSetting, LanguageModelRefused,
        MissingExtra, ModelNotFound.
        """
        from waygraph.registry.operations.search import RouteAgents

        request = RouteAgents(
            query=check_query(query, None, limit), recipe=recipe, agent_weight=agent_weight, tool_weight=tool_weight
        )
        return self.perform(request, principal)

    def find_tools(
        self,
        query: str | Query,
        *,
        limit: int | None = None,
        agent_ids: Sequence[str] | None = None,
        recipe: str | Recipe = DEFAULT_RECIPE,
        principal: Principal | None = None,
    ) -> ToolRoute:
        """The tools that can do this, best first; `limit` and `agent_ids` overrule the query's own.

        Raises as `route`.
        """
        from waygraph.registry.operations.search import FindTools

        request = FindTools(query=checked_for_tools(query, limit, agent_ids, limits=None), recipe=recipe)
        return self.perform(request, principal)

    def agents(self, *, principal: Principal | None = None) -> list[Agent]:
        """Every agent the principal may see, by id."""
        return [each.agent for each in self.agents_page(principal=principal)]

    def agent(self, agent_id: str, *, principal: Principal | None = None) -> Agent:
        """Raises UnknownName, which suggests only what the principal may see."""
        return self.perform(catalog.GetAgent(agent_id=agent_id), principal)

    def tools(
        self,
        agent_id: str | None = None,
        *,
        after: str = "",
        limit: int | None = None,
        principal: Principal | None = None,
    ) -> Page[Tool]:
        """The tools of one agent, or of all that the principal may see, by id: those after the id `after`, at most
        `limit` of them. Raises UnknownName.
        """
        request = catalog.ListTools(agent=agent_id, cursor=cursor(after), limit=checked_most(limit))
        return self.perform(request, principal)

    def tool(self, name: str, *, principal: Principal | None = None) -> Tool:
        """By id (`agent/tool`) or by call name (`<agent>__<tool>`). Raises UnknownName, as `agent`."""
        return self.perform(catalog.GetTool(tool_id=name), principal)

    def lookup(self, name: str, *, principal: Principal | None = None) -> Agent | Tool:
        """The agent of that id, else the tool of that id or call name. Raises UnknownName, as `agent`."""
        if "/" in name:
            return self.tool(name, principal=principal)
        try:
            return self.agent(name, principal=principal)
        except UnknownName as no_agent:
            try:
                return self.tool(name, principal=principal)
            except UnknownName as no_tool:
                raise (no_tool if "__" in name else no_agent) from None

    def about(self, agent_id: str, *, principal: Principal | None = None) -> About:
        """All that is known of an agent, at one revision. Raises UnknownName."""
        return self.perform(catalog.GetAbout(agent_id=agent_id), principal)

    def agents_page(
        self,
        *,
        filters: Filters = catalog.NO_FILTERS,
        after: str = "",
        limit: int | None = None,
        principal: Principal | None = None,
    ) -> Page[ListedAgent]:
        """The agents that fit, by id: those after the id `after`, at most `limit` of them."""
        return self.perform(
            catalog.ListAgents(filters=filters, cursor=cursor(after), limit=checked_most(limit)), principal
        )

    def browse(
        self, path: str = "", *, filters: Filters = catalog.NO_FILTERS, principal: Principal | None = None
    ) -> "CategoryView":
        """A category of the current taxonomy by its path (`travel/flights`; empty: the root), its children with counts.

        Of what the principal may see and the filters let through. Raises UnknownName, of noun `taxonomy` if there is
        none, or none for this caller.
        """
        from waygraph.registry.operations.groupings import Browse

        return self.perform(Browse(path=path, filters=filters), principal)

    def toolsets(self, *, principal: Principal | None = None) -> "list[Toolset]":
        """Those that the principal may use, by name, each with what it may see of it."""
        from waygraph.registry.operations.groupings import ListToolsets

        return self.perform(ListToolsets(), principal)

    def toolset(self, name: str, *, principal: Principal | None = None) -> "Toolset":
        """Raises UnknownName, also for one that the principal may not use, or in which it may see nothing."""
        from waygraph.registry.operations.groupings import GetToolset

        return self.perform(GetToolset(name=name), principal)

    def sources(self, *, principal: Principal | None = None) -> list[SourceSummary]:
        """Each with its claims on agents that the principal may see; none of which it sees no agent."""
        return self.perform(catalog.ListSources(), principal)

    def status(self, *, principal: Principal | None = None) -> Status:
        """Its numbers are those of what the principal may see."""
        return self.perform(catalog.GetStatus(), principal)


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
        filters: Filters = catalog.NO_FILTERS,
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
        part, following = catalog.part_of(list(tools), after, limit)
        return replace(page, items=tuple(tools[each] for each in part), following=following)

    def browse(
        self, path: str = "", *, filters: Filters = catalog.NO_FILTERS, principal: Principal | None = None
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


def agents_of_namespace(registry: Searchable, namespace: str, principal: Principal | None = None) -> frozenset[str]:
    """Ids of at least one agent that the principal may see.

    Raises UnknownName for a namespace without any, as for one that is not there; only those with some are suggested.
    """
    owners: dict[str, set[str]] = {}
    for source in registry.sources(principal=principal):
        if source.namespace:
            owners.setdefault(source.namespace, set()).update(source.agent_ids)
    if agents := owners.get(namespace):
        return frozenset(agents)
    hint = "It is there as soon as a source is ingested with it (`waygraph ingest --namespace`)."
    raise UnknownName("namespace", namespace, (name for name, agents in owners.items() if agents), hint=hint)
