"""Searches as a service takes them: the query, the recipe by its name, and where somebody stands in a ranking."""

from dataclasses import asdict, dataclass, replace
from typing import Any, NamedTuple

from waygraph.registry.model.errors import InvalidQuery
from waygraph.registry.model.nouns import Mode, Principal, Query
from waygraph.registry.model.validation import FILTER_LISTS
from waygraph.registry.operations.request import Graph, Operation, Request, path_segment
from waygraph.registry.routing.placement import Placement
from waygraph.registry.routing.recipes import BY_OPERATOR, DEFAULT_RECIPE, HYBRID, RECIPES, Recipe, Rerank, with_rerank
from waygraph.registry.routing.router import Ask


@dataclass(frozen=True, kw_only=True)
class FindPlacement(Request[Placement]):
    """Where an agent stands among the agents for a request, or a tool among the tools, and why it is not shown."""

    operation = Operation("why", "POST", "/v1/route/why", "search", "route", Placement)

    id: str
    """An agent by its id; a tool by its id (agent/tool) or call name."""
    query: Query
    recipe: str | Recipe = DEFAULT_RECIPE
    agent_weight: float | None = None
    tool_weight: float | None = None

    def sent_fields(self) -> dict[str, Any]:
        path_segment("tool" if "/" in self.id else "agent", self.id)  # what no service takes is no name
        return {**route_json(self.query, self.recipe, self.agent_weight, self.tool_weight), "id": self.id}

    def answer(self, graph: Graph, principal: Principal | None) -> Placement:
        return graph.place(self, principal)


def route_json(
    query: Query, recipe: str | Recipe, agent_weight: float | None, tool_weight: float | None
) -> dict[str, object]:
    by_name = service_recipe(recipe)
    Ask.of(RECIPES.get(by_name.name, HYBRID), agent_weight, tool_weight, None)
    own_weights = {"agent_weight": agent_weight, "tool_weight": tool_weight}
    weights = {kind: weight for kind, weight in own_weights.items() if weight is not None}
    return {**query_json(query, by_name), **weights}


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
    return {
        **({"text": query.text} if query.text else {}),
        **({"steps": query.steps} if query.steps else {}),
        "limit": query.limit,
        "recipe": recipe.name,
        "filters": {
            **{field: values for field in FILTER_LISTS.values() if (values := getattr(filters, field))},
            "reachable": filters.reachable,
            # A service of before does not know these.
            **{name: value for name in ("within", "toolset") if (value := getattr(filters, name))},
        },
        "explain": True,
        "schema": True,
        # Nor any of these.
        **({"rerank": True} if recipe.is_reranked else {}),
        **({"mode": recipe.mode} if recipe.mode else {}),
        **({"by_steps": True} if recipe.is_split else {}),
        **({"strict": True} if query.strict else {}),
        **({"history": [asdict(turn) for turn in query.history]} if query.history else {}),
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
