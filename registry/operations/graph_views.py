"""The graph, asked, drawn and written: Cypher, the map, what stands around some nodes, exports."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Annotated, Any, Literal

from annotated_types import Ge, Le, MaxLen, MinLen

from waygraph.registry.model.changes import CypherResult
from waygraph.registry.model.errors import CypherRefused
from waygraph.registry.model.nouns import Principal
from waygraph.registry.model.pictures import (
    EDGE_KINDS,
    MAX_CENTRES,
    MAX_NODES,
    EdgeKind,
    Map,
    Neighbourhood,
    check_neighbourhood,
)
from waygraph.registry.model.validation import MAX_NAME_CHARS
from waygraph.registry.operations.neighbourhood import seen_neighbourhood
from waygraph.registry.operations.request import MEDIA_TYPES, Graph, Operation, Request, make_read


@dataclass(frozen=True, kw_only=True)
class RunCypher(Request[CypherResult]):
    """Ask the graph in Cypher. A statement only reads, with a limit of rows, time and memory.

    It needs a caller who sees everything and has the scope `admin`: a statement reads every property of every agent.
    """

    operation = Operation(
        "cypher", "POST", "/v1/cypher", "cypher", "cypher", CypherResult,
        is_recorded=True, is_for_admin=True, whole="Cypher", body="CypherRequest", audit=("cypher", "{statement}"),
    )  # fmt: skip
    refusal = CypherRefused

    statement: Annotated[str, MinLen(1)]
    """A statement that only reads."""
    params: Mapping[str, Any] = field(default_factory=dict)

    def answer(self, graph: Graph, principal: Principal | None) -> CypherResult:
        return graph.run_cypher(self.statement, self.params)


@dataclass(frozen=True, kw_only=True)
class DrawMap(Request[Map]):
    """Where each agent and tool stands on the map of all that the caller may see: alike agents side by side. It is made
    once a revision, which may take seconds.
    """

    operation = make_read("map", "/v1/map", Map, is_slow=True)

    def answer(self, graph: Graph, principal: Principal | None) -> Map:
        return graph.draw_map(principal)


@dataclass(frozen=True, kw_only=True)
class GetNeighbourhood(Request[Neighbourhood]):
    """The graph around some nodes: these, their neighbours as far as the limit allows, and the edges between them."""

    operation = make_read("graph", "/v1/graph", Neighbourhood)

    around: Annotated[Sequence[Annotated[str, MinLen(1), MaxLen(2 * MAX_NAME_CHARS)]], MinLen(1), MaxLen(MAX_CENTRES)]
    """Nodes, such as `agent:ID` or `category:travel/flights`."""
    kinds: Annotated[Sequence[EdgeKind], MaxLen(len(EDGE_KINDS))] = ()
    """Only edges of these kinds; none: all."""
    limit: Annotated[int, Ge(1), Le(MAX_NODES)] = 60
    """How many nodes to give at most."""

    def __post_init__(self) -> None:
        check_neighbourhood(self.around, self.kinds, self.limit)

    def answer(self, graph: Graph, principal: Principal | None) -> Neighbourhood:
        centres, kinds, limit = self.around, self.kinds, self.limit
        return graph.look(lambda index: seen_neighbourhood(index, centres, kinds, limit, principal))


ExportFormat = Literal["json", "graphml", "html"]


@dataclass(frozen=True, kw_only=True)
class Export(Request[str]):
    """The whole registry as a file. It needs the scope `admin` and a caller who sees everything."""

    operation = Operation(
        "export", "GET", "/v1/export", "catalog", "read", str,
        is_slow=True, is_for_admin=True, whole="an export", media_types=tuple(MEDIA_TYPES.values()),
    )  # fmt: skip

    format: ExportFormat = "json"
    """What to write."""

    def answer(self, graph: Graph, principal: Principal | None) -> str:
        return graph.export(self.format)

    def read(self, document: Any) -> str:
        return str(document)
