"""Where agents and tools stand on the map: agents that do alike things side by side, tools in rings around theirs.

Likeness is the cosine of the agents' features. Louvain communities of the graph of nearest neighbours become
regions; a spring layout says where each region, and each agent in its region, would like to be; circles are then
set down as near to that as they fit, so nothing overlaps at any size.
"""

import math
from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import count

import networkx as nx
import numpy as np
from numpy.typing import NDArray

type Matrix = NDArray[np.floating]
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


def lay_out(features: Matrix, tool_counts: Sequence[int]) -> Layout:
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
    sizes = [_reach(places, [radii[row] for row in rows]) for places, rows in zip(inner, regions, strict=True)]
    outer = _settle_circles(
        _between(likeness, regions), range(len(regions)), [size + REGION_MARGIN for size in sizes], stretch=LANDSCAPE
    )
    return _assemble_layout(regions, inner, outer, radii, sizes)


def likeness_of(features: Matrix) -> Likeness:
    """A graph of each agent with its nearest neighbours; the weight of an edge is the cosine, above LEAST_COSINE.

    `features` is float32 of shape (agents, dimension), rows of length 1 or 0.
    """
    graph: Likeness = nx.Graph()
    graph.add_nodes_from(range(len(features)))
    for first in range(0, len(features), _BLOCK_ROWS):
        cosines = features[first : first + _BLOCK_ROWS] @ features.T
        for row, others in enumerate(_nearest(cosines).tolist(), start=first):
            _link(graph, row, [(other, float(cosines[row - first, other])) for other in others if other != row])
    return graph


def _nearest(cosines: Matrix) -> NDArray[np.intp]:
    """Columns of the highest in each row, the highest first: of one more than neighbours, for each is like itself."""
    number = min(NEIGHBOURS + 1, cosines.shape[1])
    some = np.sort(np.argpartition(-cosines, number - 1, axis=1)[:, :number], axis=1)
    best = np.argsort(-np.take_along_axis(cosines, some, axis=1), axis=1, kind="stable")
    return np.take_along_axis(some, best, axis=1)


def _link(graph: Likeness, row: int, others: Sequence[tuple[int, float]]) -> None:
    for other, cosine in others[:NEIGHBOURS]:
        if cosine > LEAST_COSINE:
            graph.add_edge(row, other, weight=round(cosine, 4))


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


def _settle_circles(graph: Likeness, rows: Sequence[int], radii: Sequence[float], stretch: float = 1.0) -> Matrix:
    """(rows, 2): centres of circles that do not overlap, near to where a spring layout of the graph has them."""
    if len(rows) > _SPRING_NODES:
        return _in_lines(radii)
    room = math.sqrt(sum(radius**2 for radius in radii)) * TIGHTNESS
    spread = np.asarray([math.sqrt(stretch), 1 / math.sqrt(stretch)])
    return _pack_circles(_wish_places(graph, rows) * room * spread, radii, stretch)


def _wish_places(graph: Likeness, rows: Sequence[int]) -> Matrix:
    """(rows, 2), within -1 and 1."""
    plain: Likeness = nx.Graph()  # a subgraph's own order of nodes is not ours
    plain.add_nodes_from(rows)
    plain.add_weighted_edges_from(sorted(graph.edges(data="weight", default=1.0)))
    places = nx.spring_layout(plain, weight="weight", seed=SEED, iterations=80)
    return np.asarray([places[row] for row in rows], dtype=np.float64).reshape(-1, 2)


def _in_lines(radii: Sequence[float]) -> Matrix:
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


def _pack_circles(wishes: Matrix, radii: Sequence[float], stretch: float) -> Matrix:
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
    wish: Matrix, radius: float, circles: tuple[Matrix, Matrix], stretch: float, inner_radius: float
) -> Matrix:
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
            point: Matrix = points[free[np.argmin(np.hypot(*points[free].T))]]
            return point
    raise AssertionError("unreachable")


def _reach(places: Matrix, radii: Sequence[float]) -> float:
    """Radius of the circle around (0, 0) that holds all circles."""
    return float((np.hypot(*places.T) + np.asarray(radii)).max())


def _assemble_layout(
    regions: Sequence[Sequence[int]],
    inner: Sequence[Matrix],
    outer: Matrix,
    radii: Sequence[float],
    sizes: Sequence[float],
) -> Layout:
    agents = [Circle(0.0, 0.0, 0.0)] * len(radii)
    region_of = [0] * len(radii)
    for number, rows in enumerate(regions):
        for row, place in zip(rows, inner[number] + outer[number], strict=True):
            agents[row] = Circle(float(place[0]), float(place[1]), radii[row])
            region_of[row] = number
    circles = [Circle(float(x), float(y), size) for (x, y), size in zip(outer, sizes, strict=True)]
    return Layout(agents=tuple(agents), region_of=tuple(region_of), regions=tuple(circles))
