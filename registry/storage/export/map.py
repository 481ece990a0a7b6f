"""The whole registry as a map: where each agent and tool stands, made once a revision for who sees the same.

Agents that do alike things stand side by side, tools in rings around theirs. Likeness is the cosine of the agents'
features. Louvain communities of the graph of nearest neighbours become regions; a spring layout says where each region,
and each agent in its region, would like to be; circles are then set down as near to that as they fit, so nothing
overlaps at any size.
"""

import math
from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import chain, count, groupby
from operator import attrgetter
from typing import Any, NamedTuple

import networkx as nx
import numpy as np
from numpy.typing import NDArray

from waygraph.registry.embedding.embedder import Matrix, Vector
from waygraph.registry.index.names import seen_tools, visible_agents
from waygraph.registry.index.search_index import SearchIndex
from waygraph.registry.model.nouns import Agent, Principal, Tool
from waygraph.registry.model.pictures import GraphEdge, Map, MapAgent, MapRegion, MapTool
from waygraph.registry.operations.graph_views import seen_edges
from waygraph.registry.taxonomy.category_names import CategoryNamer, EmbedNames
from waygraph.registry.taxonomy.prompts import Service
from waygraph.registry.taxonomy.vectors_build import word_vectors

type Vectors = Mapping[str, Vector]

TEXT_CHARS = 200
"""Of a description, as the map has it."""


class MapParts(NamedTuple):
    """What a map is drawn of: all that somebody sees. `vectors`: agent id → float32 of shape (dimension,)."""

    agents: Sequence[Agent]
    tools_by_agent: Mapping[str, Sequence[Tool]]
    vectors: Vectors
    edges: Sequence[GraphEdge]
    revision: int


def read_map(index: SearchIndex, principal: Principal | None) -> MapParts:
    """Of what the principal may see."""
    agents = visible_agents(index, principal)
    ids = [agent.id for agent in agents]
    tool_ids = list(chain.from_iterable(index.tool_ids_of(ids).values()))
    by_agent = groupby(seen_tools(index, tool_ids, principal), key=attrgetter("agent_id"))
    tools = {agent_id: list[Tool]() for agent_id in ids} | {agent_id: list(some) for agent_id, some in by_agent}
    edges = list(seen_edges(index, tools, principal))
    return MapParts(agents, tools, index.vectors_of(ids), edges, index.state.revision)


def lay_out_map(parts: MapParts, embed: EmbedNames | None = None) -> Map:
    """Without vectors words decide what is alike. `embed` chooses the names of regions, as it does for categories: by
    float32 of shape (names, dimension).
    """
    agents, tools_by_agent = parts.agents, parts.tools_by_agent
    services = [_service_of(agent, tools_by_agent[agent.id]) for agent in agents]
    features = features_of(services, parts.vectors)
    layout = lay_out(features, [len(tools_by_agent[agent.id]) for agent in agents])
    map_agents: list[MapAgent] = []
    map_tools: list[MapTool] = []
    for row, (agent, circle, region) in enumerate(zip(agents, layout.agents, layout.region_of, strict=True)):
        facts = {"kind": agent.kind, "is_pinned": agent.pinned, "is_hidden": agent.hidden, "region": region}
        map_agents.append(MapAgent(**_facts(agent, circle.x, circle.y, **facts, r=round(circle.radius, 1))))
        own_tools = tools_by_agent[agent.id]
        places = tool_places(circle, len(own_tools))
        map_tools += [MapTool(**_facts(tool, *at), agent=row) for tool, at in zip(own_tools, places, strict=True)]
    names = region_names(services, layout, features, embed if parts.vectors else None)
    regions = (
        MapRegion(name=name, x=round(each.x, 1), y=round(each.y, 1), r=round(each.radius, 1))
        for name, each in zip(names, layout.regions, strict=True)
    )
    return Map(
        revision=parts.revision,
        agent_radius=AGENT_RADIUS,
        regions=tuple(regions),
        agents=tuple(map_agents),
        tools=tuple(map_tools),
        edges=tuple(parts.edges),
    )


def _facts(noun: Agent | Tool, x: float, y: float, **more: object) -> dict[str, Any]:
    own = {"id": noun.id, "name": noun.name, "description": noun.description[:TEXT_CHARS], "tags": noun.tags}
    return {**own, **more, "x": round(x, 1), "y": round(y, 1)}


def _service_of(agent: Agent, tools: Sequence[Tool]) -> Service:
    """As it is sorted; its own name is one of its words, since a region of one server is called as that."""
    words = " ".join((agent.name, *(tool.name for tool in tools)))
    return Service(agent.id, "", agent.description[:2000], words, agent.tags)


CENTRAL, NAME_CHOICES = 3, 5
"""Agents of a region by which its name is chosen, and words among which it is: to embed more takes longer than to draw
the map, and hardly another name is chosen.
"""


def features_of(services: Sequence[Service], vectors: Vectors) -> Matrix:
    """The stored vectors, or in a registry without them those of words: float32 of shape (services, columns).

    Rows have length 1 or 0. `vectors`: agent id → float32 of shape (columns,).
    """
    vectors = vectors or word_vectors(services, by_rarity=True)
    none = np.zeros(len(next(iter(vectors.values()), ())), dtype=np.float32)
    return np.asarray([vectors.get(each.id, none) for each in services], dtype=np.float32)


def region_names(
    services: Sequence[Service], layout: "Layout", features: Matrix, embed: EmbedNames | None
) -> list[str]:
    """Words that many agents of a region have and others have not; no two regions have one name.

    `features`: float32 of shape (services, columns).
    """
    rows = [np.flatnonzero(np.equal(layout.region_of, region)) for region in range(len(layout.regions))]
    classes = [[services[row].id for row in members.tolist()] for members in rows]
    central = [_central(features[each]) for each in rows] if embed else []
    names, _ = CategoryNamer(services, embed).name_siblings(classes, (), members=central, most=NAME_CHOICES)
    return [name.replace("-", " ") for name in names]


def _central(rows: Matrix) -> Matrix:
    """Those nearest to their centre, at most `CENTRAL`. `rows`: float32 of shape (members, columns)."""
    return rows[np.argsort(-(rows @ rows.mean(axis=0)), kind="stable")[:CENTRAL]]


type Points = NDArray[np.floating]
type Likeness = nx.Graph[int]

NEIGHBOURS = 4
LEAST_COSINE = 0.05
SEED = 7
AGENT_RADIUS, RING_GAP, TOOL_GAP = 9.0, 11.0, 11.0
AGENT_MARGIN, REGION_MARGIN = 10.0, 28.0
LANDSCAPE = 1.3
TIGHTNESS = 0.5
"""How far apart circles wish to stand, as a share of the room they take."""
RESOLUTION = 2.0
"""Of the communities: the higher, the more and the smaller."""
_BLOCK_ROWS = 512
_SPRING_NODES = 400
"""Above it networkx needs scipy. A region is hardly ever that large, unless its agents are like no other."""


@dataclass(frozen=True, slots=True)
class Circle:
    x: float
    y: float
    radius: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Layout:
    """`agents[i]` is the circle of agent i with its tools, `region_of[i]` the number of its region."""

    agents: tuple[Circle, ...]
    region_of: tuple[int, ...]
    regions: tuple[Circle, ...]


def lay_out(features: Points, tool_counts: Sequence[int]) -> Layout:
    """Circles of agents and of their regions.

    `features` is float32 of shape (agents, dimension), rows of length 1 or 0; `tool_counts` has a number an agent.
    """
    if not tool_counts:
        return Layout(agents=(), region_of=(), regions=())
    likeness = likeness_of(features)
    regions = regions_of(likeness)
    radii = [agent_radius(number) for number in tool_counts]
    inner = [
        _settle_circles(likeness.subgraph(rows), rows, [radii[row] + AGENT_MARGIN for row in rows]) for rows in regions
    ]
    sizes = [  # the radius of the circle around (0, 0) that holds all of a region
        float((np.hypot(*places.T) + np.asarray([radii[row] for row in rows])).max())
        for places, rows in zip(inner, regions, strict=True)
    ]
    outer = _settle_circles(
        _between(likeness, regions), range(len(regions)), [size + REGION_MARGIN for size in sizes], stretch=LANDSCAPE
    )
    agents = [Circle(0.0, 0.0, 0.0)] * len(radii)
    region_of = [0] * len(radii)
    for number, rows in enumerate(regions):
        for row, place in zip(rows, inner[number] + outer[number], strict=True):
            agents[row] = Circle(float(place[0]), float(place[1]), radii[row])
            region_of[row] = number
    circles = [Circle(float(x), float(y), size) for (x, y), size in zip(outer, sizes, strict=True)]
    return Layout(agents=tuple(agents), region_of=tuple(region_of), regions=tuple(circles))


def likeness_of(features: Points) -> Likeness:
    """A graph of each agent with its nearest neighbours; the weight of an edge is the cosine, above LEAST_COSINE.

    `features` is float32 of shape (agents, dimension), rows of length 1 or 0.
    """
    graph: Likeness = nx.Graph()
    graph.add_nodes_from(range(len(features)))
    for first in range(0, len(features), _BLOCK_ROWS):
        cosines = features[first : first + _BLOCK_ROWS] @ features.T
        for row, others in enumerate(_nearest(cosines).tolist(), start=first):
            for other in [other for other in others if other != row][:NEIGHBOURS]:
                if (cosine := float(cosines[row - first, other])) > LEAST_COSINE:
                    graph.add_edge(row, other, weight=round(cosine, 4))
    return graph


def _nearest(cosines: Points) -> NDArray[np.intp]:
    """Columns of the highest in each row, the highest first: of one more than neighbours, for each is like itself."""
    number = min(NEIGHBOURS + 1, cosines.shape[1])
    some = np.sort(np.argpartition(-cosines, number - 1, axis=1)[:, :number], axis=1)
    best = np.argsort(-np.take_along_axis(cosines, some, axis=1), axis=1, kind="stable")
    return np.take_along_axis(some, best, axis=1)


def regions_of(likeness: Likeness) -> list[list[int]]:
    """Rows of the agents of each region, the largest region first; agents like no other share the last one."""
    alone = sorted(row for row in likeness if not likeness.degree(row))
    graph = likeness.subgraph([row for row in likeness if row not in set(alone)])
    communities = (
        nx.community.louvain_communities(graph, weight="weight", resolution=RESOLUTION, seed=SEED) if len(graph) else []
    )
    regions = sorted((sorted(rows) for rows in communities), key=lambda rows: (-len(rows), rows))
    return [*regions, alone] if alone else regions


def agent_radius(tools: int) -> float:
    """Of the circle that holds an agent and its rings of tools."""
    return AGENT_RADIUS + (RING_GAP * len(ring_sizes(tools)) + 3.0 if tools else 0.0)


def ring_sizes(tools: int) -> list[int]:
    """How many tools stand in each ring, from the inside."""
    sizes: list[int] = []
    for ring in count(1):
        if tools <= 0:
            return sizes
        room = int(2 * math.pi * (AGENT_RADIUS + RING_GAP * ring) / TOOL_GAP)
        sizes.append(min(tools, room))
        tools -= room
    raise AssertionError("unreachable")


def tool_places(agent: Circle, tools: int) -> list[tuple[float, float]]:
    """Points around the agent's centre, ring by ring, each ring filled evenly from the top."""
    places: list[tuple[float, float]] = []
    for ring, size in enumerate(ring_sizes(tools), start=1):
        radius = AGENT_RADIUS + RING_GAP * ring
        for position in range(size):
            angle = 2 * math.pi * position / size - math.pi / 2
            places.append((agent.x + radius * math.cos(angle), agent.y + radius * math.sin(angle)))
    return places


def _between(likeness: Likeness, regions: Sequence[Sequence[int]]) -> Likeness:
    """Regions as nodes; an edge weighs as much as all likeness between its two regions."""
    region_of = {row: number for number, rows in enumerate(regions) for row in rows}
    graph: Likeness = nx.Graph()
    graph.add_nodes_from(range(len(regions)))
    weights: defaultdict[tuple[int, int], float] = defaultdict(float)
    weight: float
    for one, other, weight in likeness.edges(data="weight"):
        low, high = sorted((region_of[one], region_of[other]))
        if low != high:
            weights[low, high] += weight
    graph.add_weighted_edges_from((low, high, weight) for (low, high), weight in weights.items())
    return graph


def _settle_circles(graph: Likeness, rows: Sequence[int], radii: Sequence[float], stretch: float = 1.0) -> Points:
    """(rows, 2): centres of circles that do not overlap, near to where a spring layout of the graph has them."""
    if len(rows) > _SPRING_NODES:
        return _in_lines(radii)
    plain: Likeness = nx.Graph()  # a subgraph's own order of nodes is not ours
    plain.add_nodes_from(rows)
    plain.add_weighted_edges_from(sorted(graph.edges(data="weight", default=1.0)))
    places = nx.spring_layout(plain, weight="weight", seed=SEED, iterations=50)
    wishes = np.asarray([places[row] for row in rows], dtype=np.float64).reshape(-1, 2)  # within -1 and 1
    room = math.sqrt(sum(radius**2 for radius in radii)) * TIGHTNESS
    spread = np.asarray([math.sqrt(stretch), 1 / math.sqrt(stretch)])
    return _pack_circles(wishes * room * spread, radii, stretch)


def _in_lines(radii: Sequence[float]) -> Points:
    """Line by line in a square, the largest first."""
    places = np.zeros((len(radii), 2))
    width = math.sqrt(sum((2 * radius) ** 2 for radius in radii))
    x = y = height = 0.0
    for row in np.argsort(-np.asarray(radii), kind="stable"):
        radius = radii[row]
        if x and x + 2 * radius > width:
            x, y, height = 0.0, y + height, 0.0
        places[row] = x + radius, y + radius
        x, height = x + 2 * radius, max(height, 2 * radius)
    return places - (places.min(axis=0) + places.max(axis=0)) / 2


def _pack_circles(wishes: Points, radii: Sequence[float], stretch: float) -> Points:
    """Sets circles down one by one, from the middle outwards, each at the free point nearest to its wish."""
    sizes, measure = np.asarray(radii, dtype=np.float64), np.asarray([1 / stretch, 1.0])
    order = np.lexsort((np.arange(len(sizes)), np.hypot(*(wishes - wishes.mean(axis=0)).T)))
    places, away = np.zeros_like(wishes), np.zeros(len(sizes))
    for position, row in enumerate(order):
        before = order[:position]
        # Where a smaller one found no room, there is none for this one: so far from its wish nobody need look.
        smaller = before[sizes[before] <= sizes[row]]
        between = np.hypot(*((wishes[smaller] - wishes[row]) * measure).T)
        inner_radius = float((away[smaller] - between).max(initial=0.0))
        places[row] = _free_point(
            wishes[row], float(sizes[row]), (places[before], sizes[before]), stretch, inner_radius
        )
        away[row] = np.hypot(*((places[row] - wishes[row]) * measure))
    return places - (places.min(axis=0) + places.max(axis=0)) / 2


def _free_point(
    wish: Points, radius: float, circles: tuple[Points, Points], stretch: float, inner_radius: float
) -> Points:
    """The nearest on rings around the wish, clear of `circles` (centres, radii). Rings within `inner_radius`
    of the wish are not looked at.
    """
    centres, radii = circles
    step, reach = radius / 3, radius + float(radii.max(initial=0.0))
    distances = np.hypot(*(centres - wish).T)
    for ring in count(int(inner_radius / step)):
        angles = np.arange(max(1, 6 * ring)) * (2 * math.pi / max(1, 6 * ring)) + ring
        offsets = np.stack([np.cos(angles) * stretch, np.sin(angles)], axis=1)
        points = wish + offsets * (ring * step)
        near = (distances > ring * step - reach) & (distances < ring * step * stretch + reach)
        gaps = np.linalg.norm(points[:, None, :] - centres[None, near, :], axis=2) - radii[near] - radius
        free = np.flatnonzero((gaps >= 0).all(axis=1))
        if len(free):
            # Of the free points of a ring the one nearest to the middle keeps the map dense.
            point: Points = points[free[np.argmin(np.hypot(*points[free].T))]]
            return point
    raise AssertionError("unreachable")
