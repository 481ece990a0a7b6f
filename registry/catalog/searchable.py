"""What is asked of a registry to find agents and tools: all that `find_tools` and evaluation need of one."""

from collections.abc import Sequence
from typing import TYPE_CHECKING, Protocol

from waygraph.registry.model.nouns import Agent, Filters, Principal, Query, Route, Tool, ToolRoute
from waygraph.registry.model.settings import Settings
from waygraph.registry.routing.recipes import DEFAULT_RECIPE, Recipe

if TYPE_CHECKING:
    from waygraph.registry.model.changes import About, ListedAgent, Page, SourceSummary, Status
    from waygraph.registry.operators.toolset import Toolset
    from waygraph.registry.taxonomy.tree import CategoryView


class Searchable(Protocol):
    """The reading half of a registry. Threads may share one."""

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
        ...

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
        ...

    def agents(self, *, principal: Principal | None = None) -> list[Agent]:
        """Every agent the principal may see, by id."""
        ...

    def agent(self, agent_id: str, *, principal: Principal | None = None) -> Agent:
        """Raises UnknownName, which suggests only what the principal may see."""
        ...

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
        ...

    def tool(self, name: str, *, principal: Principal | None = None) -> Tool:
        """By id (`agent/tool`) or by call name (`<agent>__<tool>`). Raises UnknownName, as `agent`."""
        ...

    def lookup(self, name: str, *, principal: Principal | None = None) -> Agent | Tool:
        """The agent of that id, else the tool of that id or call name. Raises UnknownName, as `agent`."""
        ...

    def about(self, agent_id: str, *, principal: Principal | None = None) -> "About":
        """All that is known of an agent, at one revision. Raises UnknownName."""
        ...

    def agents_page(
        self,
        *,
        filters: Filters = Filters(),  # noqa: B008 - frozen
        after: str = "",
        limit: int | None = None,
        principal: Principal | None = None,
    ) -> "Page[ListedAgent]":
        """The agents that fit, by id: those after the id `after`, at most `limit` of them."""
        ...

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
        ...

    def toolsets(self, *, principal: Principal | None = None) -> "list[Toolset]":
        """Those that the principal may use, by name, each with what it may see of it."""
        ...

    def toolset(self, name: str, *, principal: Principal | None = None) -> "Toolset":
        """Raises UnknownName, also for one that the principal may not use, or in which it may see nothing."""
        ...

    def sources(self, *, principal: Principal | None = None) -> "list[SourceSummary]":
        """Each with its claims on agents that the principal may see; none of which it sees no agent."""
        ...

    def status(self, *, principal: Principal | None = None) -> "Status":
        """Its numbers are those of what the principal may see."""
        ...
