"""Answers requests over a registry that is here, by the function of each kind; those that need its store stand here."""

from typing import TYPE_CHECKING

from waygraph.registry.model.changes import CypherResult
from waygraph.registry.model.nouns import Principal
from waygraph.registry.model.pictures import Map
from waygraph.registry.model.usage import SearchGaps, ToolUsage, UsagePart
from waygraph.registry.operations.pictures import DrawMap, Export, RunCypher
from waygraph.registry.operations.request import ANSWERS, Request, answers
from waygraph.registry.operations.search import FindPlacement
from waygraph.registry.operations.usage import GetSearchGaps, ListUsage, ListUsageDays
from waygraph.registry.routing.placement import Placement
from waygraph.registry.storage.graph_access import GraphAccess
from waygraph.registry.storage.usage_file import read_days, read_gaps, read_usage

if TYPE_CHECKING:
    from waygraph.registry.storage.local_registry import LocalRegistry


def answer[A](registry: "LocalRegistry", request: Request[A], principal: Principal | None) -> A:
    """What the registry answers. Raises as the request's function."""
    result: A = ANSWERS[type(request)](registry, request, principal)
    return result


@answers(FindPlacement)
def find_placement(registry: "LocalRegistry", request: FindPlacement, principal: Principal | None) -> Placement:
    return registry.place(request, principal)


@answers(Export)
def export(graph: GraphAccess, request: Export, _: Principal | None) -> str:
    from waygraph.registry.storage.export.formats import export

    return export(graph, request.format)


@answers(RunCypher)
def run_cypher(graph: GraphAccess, request: RunCypher, _: Principal | None) -> CypherResult:
    return graph.store.run_read_only(request.statement, request.params)


@answers(DrawMap)
def draw_map(graph: GraphAccess, _: DrawMap, principal: Principal | None) -> Map:
    from waygraph.registry.storage.export.map import lay_out_map, read_map

    store = graph.store

    def key() -> object:
        state = store.index(fresh=True).state
        return state.revision, state.commit, None if principal is None else frozenset(principal.groups)

    return graph.kept_map(key, lambda: lay_out_map(*store.look(lambda index: read_map(index, principal))))


@answers(ListUsage)
def list_usage(graph: GraphAccess, request: ListUsage, principal: Principal | None) -> list[ToolUsage]:
    return read_usage(
        graph.store,
        graph.settings,
        agent_id=request.agent,
        sort=request.sort,
        limit=request.limit,
        principal=principal,
    )


@answers(ListUsageDays)
def list_usage_days(graph: GraphAccess, request: ListUsageDays, _: Principal | None) -> list[UsagePart]:
    return read_days(graph.store, graph.settings, of=request.of, by=request.by, name=request.name, days=request.days)


@answers(GetSearchGaps)
def get_search_gaps(graph: GraphAccess, _: GetSearchGaps, __: Principal | None) -> SearchGaps:
    return read_gaps(graph.store, graph.settings)
