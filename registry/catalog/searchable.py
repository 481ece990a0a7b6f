"""What is asked of a registry to find agents and tools: all that `find_tools` and evaluation need of one; and what one
endpoint of it shows: everything, the agents of a namespace, or a toolset.
"""

from collections import Counter
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import replace
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol

from waygraph.registry.model.changes import About, ListedAgent, Page, SourceSummary, Status
from waygraph.registry.model.errors import NotAllowed, UnknownName
from waygraph.registry.model.nouns import Agent, Filters, Principal, Query, Route, Tool, ToolRoute
from waygraph.registry.model.settings import Settings
from waygraph.registry.model.transitions import owner_of
from waygraph.registry.model.validation import as_query, checked_filters, cursor
from waygraph.registry.operations import catalog
from waygraph.registry.operations.request import ALL, Performer, checked_most
from waygraph.registry.routing.recipes import DEFAULT_RECIPE, Recipe

if TYPE_CHECKING:
    from waygraph.registry.operations.groupings import Browse
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
            query=as_query(query, limit), recipe=recipe, agent_weight=agent_weight, tool_weight=tool_weight
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

        request = FindTools(query=as_query(query, limit, agent_ids), recipe=recipe)
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


class NarrowedRegistry(Searchable):
    """Of a registry only what is in a toolset, as somebody sees it."""

    def __init__(self, registry: Searchable, toolset: "Toolset") -> None:
        self._registry, self._toolset = registry, toolset
        self._tools, self._agents = frozenset(toolset.includes), frozenset(toolset.members)

    @property
    def settings(self) -> Settings:
        return self._registry.settings

    def chooses(self, agent: Agent) -> bool:
        """Whether the toolset has the agent as a whole."""
        return self._toolset.chooses(agent)

    def includes(self, tool: Tool) -> bool:
        return tool.id in self._tools

    def perform(self, request: "Request[Any]", principal: Principal | None = None) -> Any:
        """Raises NotAllowed for what tells of more than agents and tools."""
        from waygraph.registry.operations import groupings, search

        narrower = request
        agent_id: str | None = None
        match request:
            case search.RouteAgents() | search.FindTools():
                narrower = replace(request, query=self._narrow(request.query))
            case catalog.ListAgents() | groupings.Browse():
                narrower = self._narrow(request)
            case catalog.ListTools(agent=agent_id):
                narrower = replace(request, cursor="", limit=ALL)
            case groupings.ListToolsets():
                return [self._toolset]
            case groupings.GetToolset(name=name):
                if name != self._toolset.name:
                    raise UnknownName("toolset", name, [self._toolset.name])
                return self._toolset
            case catalog.GetTool(tool_id=name):
                with suppress(UnknownName):
                    if self.includes(tool := self._registry.perform(request, principal)):
                        return tool
                raise UnknownName("tool", name, (each.call_name for each in self.tools(principal=principal)), some=True)
            case catalog.GetAgent(agent_id=agent_id) | catalog.GetAbout(agent_id=agent_id):
                pass
            case catalog.ListSources() | catalog.GetStatus():
                pass
            case _:
                raise NotAllowed("a toolset is no whole registry, and answers only what is asked of agents and tools")
        if agent_id is not None and agent_id not in self._agents:
            raise UnknownName("agent", agent_id, self._agents)
        return self._limit(request, self._registry.perform(narrower, principal), principal)

    def _limit(self, request: "Request[Any]", answer: Any, principal: Principal | None) -> Any:
        match request:
            case catalog.ListAgents():
                tools = Counter(map(owner_of, self._tools))
                return replace(answer, items=tuple(replace(each, tools=tools[each.agent.id]) for each in answer))
            case catalog.GetAbout():
                return replace(answer, tools=tuple(filter(self.includes, answer.tools)))
            case catalog.ListTools():
                items = {tool.id: tool for tool in answer if self.includes(tool)}
                part, following = catalog.part_of(list(items), request.start, request.most)
                return replace(answer, items=tuple(map(items.__getitem__, part)), following=following)
            case catalog.ListSources():
                return [source for each in answer if (source := each.limit_to(self._agents)).claims]
            case catalog.GetStatus():
                sources = self.sources(principal=principal)
                state = replace(answer.state, agents=len(self._agents), tools=len(self._tools))
                failures = tuple(failure for source in sources for failure in source.failures)
                return replace(answer, state=state, sources=len(sources), failures=failures)
        return answer

    def _narrow[R: Query | catalog.ListAgents | Browse](self, wide: R) -> R:
        return replace(wide, filters=replace(checked_filters(wide.filters), toolset=self._toolset.name))


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
