"""What is asked of a registry to find agents and tools: all that `find_tools` and evaluation need of one."""

from collections.abc import Sequence
from typing import TYPE_CHECKING, Protocol

from waygraph.registry.model.errors import UnknownName
from waygraph.registry.model.nouns import Agent, Filters, Principal, Query, Route, Tool, ToolRoute
from waygraph.registry.model.settings import Settings
from waygraph.registry.model.validation import check_query, checked_for_tools, cursor
from waygraph.registry.operations.catalog import (
    GetAbout,
    GetAgent,
    GetStatus,
    GetTool,
    ListAgents,
    ListSources,
    ListTools,
    ListToolsOfAgent,
)
from waygraph.registry.operations.request import Performer, checked_most
from waygraph.registry.routing.recipes import DEFAULT_RECIPE, Recipe

if TYPE_CHECKING:
    from waygraph.registry.model.changes import About, ListedAgent, Page, SourceSummary, Status
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
        return self.perform(GetAgent(agent_id=agent_id), principal)

    def tools(
        self,
        agent_id: str | None = None,
        *,
        after: str = "",
        limit: int | None = None,
        principal: Principal | None = None,
    ) -> "Page[Tool]":
        """The tools of one agent, or of all that the principal may see, by id: those after the id `after`, at most
        `limit` of them. Raises UnknownName.
        """
        start, most = cursor(after), checked_most(limit)
        if agent_id is None:
            return self.perform(ListTools(cursor=start, limit=most), principal)
        return self.perform(ListToolsOfAgent(agent_id=agent_id, cursor=start, limit=most), principal)

    def tool(self, name: str, *, principal: Principal | None = None) -> Tool:
        """By id (`agent/tool`) or by call name (`<agent>__<tool>`). Raises UnknownName, as `agent`."""
        return self.perform(GetTool.of(name), principal)

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

    def about(self, agent_id: str, *, principal: Principal | None = None) -> "About":
        """All that is known of an agent, at one revision. Raises UnknownName."""
        return self.perform(GetAbout(agent_id=agent_id), principal)

    def agents_page(
        self,
        *,
        filters: Filters = Filters(),  # noqa: B008 - frozen
        after: str = "",
        limit: int | None = None,
        principal: Principal | None = None,
    ) -> "Page[ListedAgent]":
        """The agents that fit, by id: those after the id `after`, at most `limit` of them."""
        return self.perform(ListAgents(filters=filters, cursor=cursor(after), limit=checked_most(limit)), principal)

    def browse(
        self,
        path: str = "",
        *,
        filters: Filters = Filters(),  # noqa: B008 - frozen
        principal: Principal | None = None,
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

    def sources(self, *, principal: Principal | None = None) -> "list[SourceSummary]":
        """Each with its claims on agents that the principal may see; none of which it sees no agent."""
        return self.perform(ListSources(), principal)

    def status(self, *, principal: Principal | None = None) -> "Status":
        """Its numbers are those of what the principal may see."""
        return self.perform(GetStatus(), principal)
