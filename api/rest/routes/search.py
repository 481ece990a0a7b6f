"""Which agents, and which of their tools, can do this?"""

from functools import partial
from typing import TYPE_CHECKING

from fastapi import APIRouter
from fastapi.responses import Response

from waygraph.api.rest.dependencies import ForRoute, Service, Serving
from waygraph.api.rest.openapi import operation
from waygraph.api.rest.problems import as_json, problem_of
from waygraph.api.rest.requests import BatchRequest, RouteRequest, SearchRequest
from waygraph.registry.access.visibility import Caller
from waygraph.registry.catalog.tool_formats import definitions
from waygraph.registry.model import shapes
from waygraph.registry.model.errors import WaygraphError
from waygraph.registry.routing.recipes import RECIPES

if TYPE_CHECKING:
    from collections.abc import Sequence

    from waygraph.registry.catalog.tool_formats import ToolFormat
    from waygraph.registry.model.nouns import Tool
    from waygraph.registry.model.shapes import Shape

router = APIRouter(prefix="/v1", tags=["search"])


@router.post("/route", **operation("route"))
async def route(asked: RouteRequest, service: Serving, caller: ForRoute) -> Response:
    """The agents that can do this, best first, each with its best tools."""
    return await service.lanes.ask(lambda: as_json(_route(asked, service, caller)))


@router.post("/route/batch", **operation("route_batch"))
async def route_batch(asked: BatchRequest, service: Serving, caller: ForRoute) -> Response:
    """Many requests at once: for each its route, or the problem with it. Each counts against the rate limit."""
    answers = []
    for number, one in enumerate(asked.requests):
        is_counted = number == 0  # as the request that they all came in
        answers.append(await service.lanes.ask(partial(_route_or_nearest, one, service, caller, is_counted=is_counted)))
    return as_json({"answers": answers})


@router.post("/tools/search", **operation("search_tools"))
async def search_tools(asked: SearchRequest, service: Serving, caller: ForRoute) -> Response:
    """The tools that can do this, best first, whoever owns them."""

    def find() -> "Shape":
        route = service.registry.find_tools(asked.query(), recipe=asked.chosen_recipe(), principal=caller.principal)
        shape = shapes.tool_route(
            route, votes=asked.explain, schemas=asked.tool_schema, transport=caller.transport_filter
        )
        return {**shape, **define_tools([match.tool for match in route.matches], asked.format)}

    return as_json(await service.lanes.ask(find))


@router.get("/recipes", **operation("recipes"))
async def recipes(caller: ForRoute) -> Response:  # noqa: ARG001 - it has to be one who may route
    """The ways to rank, by name."""
    return as_json({"recipes": [{"name": recipe.name, "purpose": recipe.purpose} for recipe in RECIPES.values()]})


def _route(request: RouteRequest, service: Service, caller: Caller) -> "Shape":
    route = service.registry.route(
        request.query(),
        recipe=request.chosen_recipe(),
        agent_weight=request.agent_weight,
        tool_weight=request.tool_weight,
        principal=caller.principal,
    )
    shape = shapes.route(route, votes=request.explain, schemas=request.tool_schema, transport=caller.transport_filter)
    return {**shape, **define_tools([tool for match in route.matches for tool in match.tools], request.format)}


def _route_or_nearest(request: RouteRequest, service: Service, caller: Caller, *, is_counted: bool) -> "Shape":
    try:
        if not is_counted:
            service.count(caller)
        return {"route": _route(request, service, caller), "problem": None}
    except WaygraphError as error:
        return {"route": None, "problem": problem_of(error)}


def define_tools(tools: "Sequence[Tool]", tool_format: "ToolFormat | None") -> "Shape":
    return {"definitions": definitions(tools, tool_format)} if tool_format else {}
