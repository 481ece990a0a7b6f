"""The graph, asked, drawn and written: Cypher, the map, what stands around some nodes, exports."""

from collections import defaultdict
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import chain, zip_longest
from typing import Annotated, Any, cast, get_args

from annotated_types import Ge, Le, MaxLen, MinLen

from waygraph.registry.index.names import seen_tools, visible_agents
from waygraph.registry.index.search_index import Leg, QueryText, Scope, SearchIndex
from waygraph.registry.model import pictures
from waygraph.registry.model.changes import CypherResult
from waygraph.registry.model.errors import CypherRefused, UnknownName
from waygraph.registry.model.nouns import Principal, Tool
from waygraph.registry.model.transitions import is_tool, owner_of
from waygraph.registry.model.validation import MAX_NAME_CHARS
from waygraph.registry.operations.catalog import seen_sources
from waygraph.registry.operations.request import MEDIA_TYPES, ExportFormat, Graph, Operation, Request, make_read
from waygraph.registry.operators.skill_links import LINKS
from waygraph.registry.operators.toolset import seen_toolsets
from waygraph.registry.routing.needs import Givers
from waygraph.registry.taxonomy.browse import seen_taxonomy


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
class DrawMap(Request[pictures.Map]):
    """Where each agent and tool stands on the map of all that the caller may see: alike agents side by side. It is made
    once a revision, which may take seconds.
    """

    operation = make_read("map", "/v1/map", pictures.Map, is_slow=True)

    def answer(self, graph: Graph, principal: Principal | None) -> pictures.Map:
        return graph.draw_map(principal)


@dataclass(frozen=True, kw_only=True)
class GetNeighbourhood(Request[pictures.Neighbourhood]):
    """The graph around some nodes: these, their neighbours as far as the limit allows, and the edges between them."""

    operation = make_read("graph", "/v1/graph", pictures.Neighbourhood)

    around: Annotated[
        Sequence[Annotated[str, MinLen(1), MaxLen(2 * MAX_NAME_CHARS)]], MinLen(1), MaxLen(pictures.MAX_CENTRES)
    ]
    """Nodes, such as `agent:ID` or `category:travel/flights`."""
    kinds: Annotated[Sequence[pictures.EdgeKind], MaxLen(len(pictures.EDGE_KINDS))] = ()
    """Only edges of these kinds; none: all."""
    limit: Annotated[int, Ge(1), Le(pictures.MAX_NODES)] = 60
    """How many nodes to give at most."""

    def __post_init__(self) -> None:
        pictures.check_neighbourhood(self.around, self.kinds, self.limit)

    def answer(self, graph: Graph, principal: Principal | None) -> pictures.Neighbourhood:
        return graph.look(lambda index: seen_neighbourhood(index, self.around, self.kinds, self.limit, principal))


@dataclass(frozen=True, kw_only=True)
class Export(Request[str]):
    """The whole registry as a file. It needs the scope `admin` and a caller who sees everything."""

    operation = Operation(
        "export", "GET", "/v1/export", "catalog", "read", str,
        is_slow=True, is_for_admin=True, whole="an export", media_types=tuple(MEDIA_TYPES.values()),
    )  # fmt: skip

    format: ExportFormat = "json"
    """What to write."""

    def __post_init__(self) -> None:
        if self.format not in (formats := get_args(ExportFormat)):
            raise UnknownName("export format", self.format, formats)

    def answer(self, graph: Graph, principal: Principal | None) -> str:
        return graph.export(self.format)

    def read(self, document: Any) -> str:
        return str(document)


TEXT_CHARS = 200
MOST_SIMILAR, LEAST_COSINE = 8, 0.3
MOST_FOLLOWERS, LEAST_CHANCE = 8, 0.02


def seen_edges(
    index: SearchIndex, tools_by_agent: Mapping[str, Sequence[Tool]], principal: Principal | None
) -> Iterator[pictures.GraphEdge]:
    """What tools need, what they are called together with, each pair once, and what skills teach and need.

    `tools_by_agent`: every agent that the principal may see, with the tools whose links are wanted.
    """
    for tools in tools_by_agent.values():
        givers = Givers(tools)
        for tool in tools:
            if need := givers.need_of(tool):
                yield pictures.GraphEdge("needs", node_of(tool.id), node_of(need.tool.id))
    ids = [tool.id for tools in tools_by_agent.values() for tool in tools]
    partners = index.transitions.partners(ids, principal) if index.transitions else {}
    pairs = {tuple(sorted((other, partner.tool))): (other, partner) for other, partner in partners.items()}
    for _, (other, partner) in sorted(pairs.items()):
        yield pictures.GraphEdge("together", node_of(partner.tool), node_of(other), round(partner.share, 3))
    for skill in index.values(LINKS) if index.has_values("skill_links") else ():
        for other in sorted(skill.ids):
            if {skill.name, owner_of(other)} <= tools_by_agent.keys():
                kind: pictures.EdgeKind = "teaches" if is_tool(other) else "needs"
                yield pictures.GraphEdge(kind, node_of(skill.name), node_of(other))


def seen_neighbourhood(
    index: SearchIndex, around: Sequence[str], kinds: Collection[str], limit: int, principal: Principal | None
) -> pictures.Neighbourhood:
    """At most `limit` nodes: the centres, then their neighbours in turn, of each centre and kind the nearest first.

    Without `kinds` all edges count. Raises UnknownName for a centre that the principal may not see, or is not there.
    """
    view = _View(index, principal, kinds or pictures.EDGE_KINDS, around)
    centres = list(dict.fromkeys(map(view.require_node, around)))[:limit]
    edges_of = {centre: [*view.own_edges(centre), *view.near(centre)] for centre in centres}
    lists = (
        [edge.other(centre) for edge in edges if edge.kind == kind]
        for centre, edges in edges_of.items()
        for kind in pictures.EDGE_KINDS
    )
    in_turn = filter(None, chain.from_iterable(zip_longest(*lists)))
    nodes = list(dict.fromkeys([*centres, *in_turn]))[:limit]
    edges_of |= {node: view.own_edges(node) for node in nodes if node not in edges_of}
    others = {node: {edge.other(node) for edge in edges_of[node]}.difference(nodes) for node in nodes}
    edges = dict.fromkeys(chain.from_iterable(edges_of.values()))
    return pictures.Neighbourhood(
        revision=index.state.revision,
        nodes=tuple(view.describe(others, len(centres))),
        edges=tuple(edge for edge in edges if edge.start in others and edge.end in others),
    )


class _View:
    """What a principal sees of one index, by nodes."""

    def __init__(
        self, index: SearchIndex, principal: Principal | None, kinds: Collection[str], around: Collection[str]
    ) -> None:
        self._index, self._principal, self._kinds = index, principal, kinds
        taxonomy = seen_taxonomy(index, None, principal)
        paths = taxonomy.paths() if taxonomy else {}
        categories = {path: taxonomy.categories[each] for each, path in paths.items()} if taxonomy else {}
        agents = {agent.id: agent for agent in visible_agents(index, principal)}
        self._nouns: dict[str, dict[str, Any]] = {
            "agent": agents,
            "source": {source.name: source for source in seen_sources(index, principal, agents.values())},
            "toolset": {toolset.name: toolset for toolset in seen_toolsets(index, principal)},
            "category": categories,
        }
        # Of each node its edges, but for those to tools that agents own: these are many, and the index has them.
        self._edges: dict[str, list[pictures.GraphEdge]] = defaultdict(list)
        for name, source in self._nouns["source"].items():
            self._link(pictures.GraphEdge("claims", f"source:{name}", node_of(each)) for each in source.agent_ids)
        for name, toolset in self._nouns["toolset"].items():
            self._link(pictures.GraphEdge("includes", f"toolset:{name}", node_of(each)) for each in toolset.includes)
        for path, category in categories.items():
            children = (f"category:{paths[child]}" for child in category.children)
            # What stands in no category but the root has nothing in common.
            entities = category.holds if path or "category:" in around else ()
            ends = chain(children, map(node_of, entities))
            self._link(pictures.GraphEdge("holds", f"category:{path}", end) for end in ends)
        owners = {owner_of(node.partition(":")[2]) for node in around if node.startswith(("agent:", "tool:"))}
        tools = {each: index.tools(index.tool_ids(each)) if each in owners else [] for each in agents}
        self._link(seen_edges(index, tools, principal))

    def _link(self, edges: Iterable[pictures.GraphEdge]) -> None:
        for edge in edges:
            for node in (edge.start, edge.end) if edge.kind in self._kinds else ():
                self._edges[node].append(edge)

    def require_node(self, node: str) -> str:
        """The node itself. Raises UnknownName."""
        kind, _, name = node.partition(":")
        names = self._tool_ids(owner_of(name)) if kind == "tool" else self._nouns[kind]
        if name not in names:
            raise UnknownName(kind, name, names, some=True)
        return node

    def _tool_ids(self, agent_id: str) -> Sequence[str]:
        return self._index.tool_ids(agent_id) if agent_id in self._nouns["agent"] else ()

    def own_edges(self, node: str) -> list[pictures.GraphEdge]:
        """Those that the graph itself has."""
        kind, _, name = node.partition(":")
        edges = self._edges.get(node, [])
        if kind == "agent" and "owns" in self._kinds:
            return [*(pictures.GraphEdge("owns", node, f"tool:{tool}") for tool in self._tool_ids(name)), *edges]
        if kind == "tool" and "owns" in self._kinds:
            return [pictures.GraphEdge("owns", f"agent:{owner_of(name)}", node), *edges]
        return edges

    def near(self, node: str) -> Iterator[pictures.GraphEdge]:
        """By vectors, and by what is called after it; among what a route may name."""
        kind, _, name = node.partition(":")
        if kind not in ("agent", "tool"):
            return
        if "similar" in self._kinds:
            leg: Leg = "agent_vector" if kind == "agent" else "tool_vector"
            vector = self._index.vectors_of([name]).get(name)
            scope = Scope(principal=self._principal)
            # Without a vector there is no leg of vectors.
            hits = self._index.search([leg], vector, QueryText(), MOST_SIMILAR + 1, scope)
            for other, cosine in hits.scores_of(leg).items():
                if other != name and cosine >= LEAST_COSINE:  # one edge a pair, whichever of the two is a centre
                    start, end = sorted((node, node_of(other)))
                    yield pictures.GraphEdge("similar", start, end, round(cosine, 3))
        if "follows" in self._kinds and self._index.transitions:
            chances = self._index.transitions.follows([name], self._principal)
            # Of agents too it is known what follows, as far as their tools leave it open.
            followers = [each for each in chances if ("/" in each) == ("/" in name) and each != name]
            for other in sorted(followers, key=lambda each: (-chances[each], each))[:MOST_FOLLOWERS]:
                if chances[other] >= LEAST_CHANCE:
                    yield pictures.GraphEdge("follows", node, node_of(other), round(chances[other], 3))

    def describe(self, others: Mapping[str, Collection[str]], centres: int) -> Iterator[pictures.GraphNode]:
        """`others`: the neighbours of each that are not shown; the first nodes are the centres."""
        ids = [node.partition(":")[2] for node in others if node.startswith("tool:")]
        nouns = {**self._nouns, "tool": {tool.id: tool for tool in seen_tools(self._index, ids, self._principal)}}
        for place, node in enumerate(others):
            kind, _, name = node.partition(":")
            noun = nouns[kind][name]
            yield pictures.GraphNode(
                id=node,
                kind=cast("pictures.NodeKind", kind),
                name=noun.name or "all categories",
                description=getattr(noun, "description", "")[:TEXT_CHARS],
                centre=place < centres,
                more=len(others[node]),
            )


def node_of(entity: str) -> str:
    """Of an agent or a tool, by its id."""
    return f"tool:{entity}" if "/" in entity else f"agent:{entity}"
