"""Which agents, and which of their tools, can do this?"""

from collections.abc import Sequence
from contextlib import suppress
from functools import partial
from time import perf_counter

from fastapi.responses import Response

from waygraph.api.rest.browser_sessions import is_of_page
from waygraph.api.rest.perform import serve
from waygraph.api.rest.problems import problem_of
from waygraph.api.rest.requests import BatchRequest, RouteRequest, SearchRequest, WhyRequest
from waygraph.api.rest.service import Exchange, handles
from waygraph.api.telemetry.logs import without_secrets
from waygraph.registry.catalog.tool_formats import ToolFormat, definitions
from waygraph.registry.model import shapes
from waygraph.registry.model.errors import RecipeNeedsTexts, WaygraphError
from waygraph.registry.model.nouns import Filters, Tool, ToolMatch
from waygraph.registry.model.shapes import Shape
from waygraph.registry.operations import table as operations
from waygraph.registry.operations.search import FindPlacement, FindTools, RouteAgents
from waygraph.registry.routing.answering import NO_MODEL, NO_TAXONOMY
from waygraph.registry.routing.placement import without_unread
from waygraph.registry.routing.recipes import RECIPES, Recipe
from waygraph.registry.taxonomy.browse import findable_taxonomy


@handles(RouteAgents.operation)
def route(exchange: Exchange, body: RouteRequest) -> Shape:
    """The agents that can do this, best first, each with its best tools."""
    start_s = perf_counter()
    route = exchange.registry.route(body.query(), **body.ranking(), principal=exchange.principal)
    _note_request(exchange, body, start_s, is_answered=bool(route.matches))
    shape = shapes.route(route, votes=body.explain, schemas=body.tool_schema, transport=exchange.transport_filter)
    best = [ToolMatch(tool=tool, agent=match.agent, score=0) for match in route.matches[:1] for tool in match.tools[:1]]
    if body.explain and best:
        shape["matches"][0]["cannot_run"] = exchange.refusal(best[0])
    return {**shape, **define_tools([tool for match in route.matches for tool in match.tools], body.format)}


@handles(operations.ROUTE_BATCH)
async def route_batch(exchange: Exchange, body: BatchRequest) -> Response:
    """Many requests at once: for each its route, or the problem with it. Each counts against the rate limit."""
    answers = []
    for number, one in enumerate(body.requests):
        is_counted = number == 0  # as the request that they all came in
        work = partial(_route_or_problem, exchange, one, is_counted=is_counted)
        answers.append(await exchange.service.lanes.ask(work))
    return exchange.as_json({"answers": answers})


def _route_or_problem(exchange: Exchange, request: RouteRequest, *, is_counted: bool) -> Shape:
    try:
        if not is_counted:
            exchange.service.count(exchange.caller)
        return {"route": route(exchange, request), "problem": None}
    except WaygraphError as error:
        return {"route": None, "problem": problem_of(error)}


@handles(FindTools.operation)
def search_tools(exchange: Exchange, body: SearchRequest) -> Shape:
    """The tools that can do this, best first, whoever owns them."""
    start_s = perf_counter()
    route = exchange.registry.find_tools(body.query(), recipe=body.chosen_recipe(), principal=exchange.principal)
    _note_request(exchange, body, start_s, is_answered=bool(route.matches))
    shape = shapes.tool_route(route, votes=body.explain, schemas=body.tool_schema, transport=exchange.transport_filter)
    for item, match in zip(shape["matches"], route.matches, strict=True):
        item["cannot_run"] = exchange.refusal(match)
    return {**shape, **define_tools([match.tool for match in route.matches], body.format)}


serve(
    FindPlacement,
    model=WhyRequest,
    make=lambda _, __, body: FindPlacement(id=body.id, query=body.query(), **body.ranking()),
    # In place of the answer, where the caller may not read what it quotes.
    extend=lambda exchange, answer: {} if "read" in exchange.caller.scopes else shapes.shape(without_unread(answer)),
)


def _note_request(exchange: Exchange, body: SearchRequest, start_s: float, *, is_answered: bool) -> None:
    """Not of the explorer, which asks while its person types."""
    usage, text = exchange.service.usage, body.text or " ".join(body.steps)
    if usage and text.strip() and not is_of_page(exchange.request):
        usage.note_request(without_secrets(text), exchange.caller.id, perf_counter() - start_s, is_answered=is_answered)


@handles(operations.RECIPES)
def recipes(exchange: Exchange) -> Shape:
    """The ways to rank, by name."""
    rows = [
        {"name": each.name, "purpose": each.purpose, "hindrance": _hindrance(exchange, each)}
        for each in RECIPES.values()
    ]
    return {"recipes": rows}


def _hindrance(exchange: Exchange, recipe: Recipe) -> str:
    """Why a recipe cannot answer here as it should; empty: it can, or there is no registry yet."""
    with suppress(WaygraphError):
        state = exchange.status.state
        if state.embedder and not recipe.takes(state.texts):
            return str(RecipeNeedsTexts(recipe.name, needs=str(recipe.texts), has=state.texts))
        if recipe.walk and not exchange.service.settings.walk:
            return NO_MODEL
        see = partial(findable_taxonomy, name=None, filters=Filters(), principal=exchange.principal)
        return "" if not recipe.walk or exchange.service.registry.look(see) else NO_TAXONOMY
    return ""


def define_tools(tools: "Sequence[Tool]", tool_format: ToolFormat | None) -> Shape:
    return {"definitions": definitions(tools, tool_format)} if tool_format else {}
