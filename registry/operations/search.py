"""Searches as a service takes them: the query, the recipe by its name, and where somebody stands in a ranking."""

from collections.abc import Mapping
from dataclasses import asdict, dataclass, replace
from typing import Any, NamedTuple

from waygraph.registry.model import shapes
from waygraph.registry.model.errors import InvalidQuery
from waygraph.registry.model.nouns import Mode, Principal, Query, Route, ToolRoute
from waygraph.registry.model.tool_calls import ToolResult
from waygraph.registry.model.validation import FILTER_LISTS, check_query
from waygraph.registry.operations.request import Graph, Operation, Request, path_segment
from waygraph.registry.routing.placement import Placement
from waygraph.registry.routing.recipes import BY_OPERATOR, DEFAULT_RECIPE, HYBRID, RECIPES, Recipe, Rerank, with_rerank
from waygraph.registry.routing.router import Ask, without_history


def _search(name: str, path: str, answer: type | str) -> Operation:
    return Operation(name, "POST", path, "search", "route", answer)


@dataclass(frozen=True, kw_only=True)
class SearchRequest[A](Request[A]):
    """A query, by a recipe: one of the known ones by its name, since a service knows no other."""

    query: Query
    recipe: str | Recipe = DEFAULT_RECIPE

    def sent_fields(self) -> dict[str, Any]:
        return query_json(check_query(self.query), service_recipe(self.recipe))

    def as_asked[R: (Route, ToolRoute)](self, route: R) -> R:
        """With the query as it was asked, and the steps into which the service split it."""
        return replace(route, query=replace(without_history(check_query(self.query)), steps=route.query.steps))


@dataclass(frozen=True, kw_only=True)
class WeightedRequest[A](SearchRequest[A]):
    """A query for agents: the weights stand in place of the recipe's."""

    agent_weight: float | None = None
    tool_weight: float | None = None

    def sent_fields(self) -> dict[str, Any]:
        recipe = service_recipe(self.recipe)
        Ask.of(RECIPES.get(recipe.name, HYBRID), self.agent_weight, self.tool_weight, None)
        weights = {"agent_weight": self.agent_weight, "tool_weight": self.tool_weight}
        given = {kind: weight for kind, weight in weights.items() if weight is not None}
        return super().sent_fields() | given


@dataclass(frozen=True, kw_only=True)
class RouteAgents(WeightedRequest[Route]):
    """The agents that can do this, best first, each with its best tools."""

    operation = _search("route", "/v1/route", "Route")

    def answer(self, graph: Graph, principal: Principal | None) -> Route:
        return graph.rank_agents(self, principal)

    def read(self, document: Any) -> Route:
        return self.as_asked(shapes.read(Route, document))


@dataclass(frozen=True, kw_only=True)
class FindTools(SearchRequest[ToolRoute]):
    """The tools that can do this, best first, whoever owns them."""

    operation = _search("search_tools", "/v1/tools/search", "ToolRoute")

    def answer(self, graph: Graph, principal: Principal | None) -> ToolRoute:
        return graph.rank_tools(self, principal)

    def read(self, document: Any) -> ToolRoute:
        return self.as_asked(shapes.read(ToolRoute, document))


@dataclass(frozen=True, kw_only=True)
class FindPlacement(WeightedRequest[Placement]):
    """Where an agent stands among the agents for a request, or a tool among the tools, and why it is not shown."""

    operation = _search("why", "/v1/route/why", Placement)

    id: str
    """An agent by its id; a tool by its id (agent/tool) or call name."""

    def sent_fields(self) -> dict[str, Any]:
        path_segment("tool" if "/" in self.id else "agent", self.id)  # what no service takes is no name
        return {**super().sent_fields(), "id": self.id}

    def answer(self, graph: Graph, principal: Principal | None) -> Placement:
        return graph.place(self, principal)


@dataclass(frozen=True, kw_only=True)
class CallTool(Request[ToolResult]):
    """Run a tool, by its id or call name, by the same policy as for hosts of MCP. Nobody can be asked: a tool that a
    person has to agree to is refused, unless one has given `consent` in the explorer.
    """

    operation = Operation(
        "call_tool", "POST", "/v1/tools/{tool_id:path}/call", "catalog", "use", dict, is_write=True,
        failures={502: "The tool's server gave no answer.", 504: "No answer came in time."},
    )  # fmt: skip
    refusal = InvalidQuery

    tool_id: str
    """A tool's id or its call name."""
    arguments: Mapping[str, Any]
    timeout_s: float | None = None
    consent: str = ""
    for_model: bool = False

    def read(self, document: Any) -> ToolResult:
        return ToolResult.read(document)


class ServiceRecipe(NamedTuple):
    """A recipe as a service takes it: by name, whether its own reranker is to follow, the mode of its walk, and whether
    its own model is to split.
    """

    name: str
    is_reranked: bool = False
    mode: str = ""
    is_split: bool = False


def query_json(query: Query, recipe: ServiceRecipe) -> dict[str, object]:
    filters = query.filters
    # A service of before does not know some of these.
    optional_fields = {
        "text": query.text,
        "steps": query.steps,
        "rerank": recipe.is_reranked,
        "mode": recipe.mode,
        "by_steps": recipe.is_split,
        "strict": query.strict,
        "history": [asdict(turn) for turn in query.history],
    }
    return {
        **{name: value for name, value in optional_fields.items() if value},
        "limit": query.limit,
        "recipe": recipe.name,
        "filters": {
            **{field: values for field in FILTER_LISTS.values() if (values := getattr(filters, field))},
            "reachable": filters.reachable,
            **{name: value for name in ("within", "toolset") if (value := getattr(filters, name))},
        },
        "explain": True,
        "schema": True,
    }


def service_recipe(recipe: str | Recipe) -> ServiceRecipe:
    """Raises InvalidQuery for a recipe that is none of the known ones, or is no recipe."""
    if isinstance(recipe, str):
        return ServiceRecipe(recipe)
    Ask.of(recipe, None, None, None)
    is_split = recipe.steps_by == BY_OPERATOR
    plain = replace(recipe, steps_by="") if is_split else recipe
    mode = recipe.walk.mode if recipe.walk else Mode.ALL
    plain = replace(plain, walk=replace(recipe.walk, mode=Mode.ALL)) if recipe.walk else plain
    for each in RECIPES.values():
        if plain in (each, with_rerank(each, Rerank(spec=BY_OPERATOR))):
            return ServiceRecipe(each.name, plain != each, "" if mode is Mode.ALL else mode, is_split)
    raise InvalidQuery(
        f"a service takes recipes by name, and {recipe.name!r} is not one that it knows as it is here (a reranker "
        f"other than its own, which is {BY_OPERATOR!r}, and other weights or legs need the registry itself)"
    )
