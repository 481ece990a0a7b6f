"""What is drawn of a registry: the map of the whole, and the graph around some of its nodes."""

from collections.abc import Collection, Sequence
from dataclasses import dataclass
from typing import Literal, get_args

from waygraph.registry.model.errors import InvalidQuery

EdgeKind = Literal["owns", "claims", "includes", "holds", "similar", "follows", "needs", "together", "teaches"]
"""An agent owns a tool, a source claims an agent, a toolset includes a tool, a category holds what stands in it, texts
are similar by their vectors, a call follows a call; a call of a tool needs an id that another tool gives, and a skill
needs a server; conversations call a tool together with another one; a skill teaches a tool."""
EDGE_KINDS: tuple[EdgeKind, ...] = get_args(EdgeKind)
NodeKind = Literal["agent", "tool", "source", "toolset", "category"]
NODE_KINDS: tuple[NodeKind, ...] = get_args(NodeKind)
MAX_NODES, MAX_CENTRES = 300, 50
"""Of a neighbourhood."""


@dataclass(frozen=True, slots=True, kw_only=True)
class MapRegion:
    """A circle around agents that do alike things. `name`: words that tell them from others."""

    name: str
    x: float
    y: float
    r: float


@dataclass(frozen=True, slots=True, kw_only=True)
class MapAgent:
    """A circle that holds an agent and its tools; its description is cut."""

    id: str
    name: str
    description: str
    kind: str
    tags: tuple[str, ...]
    is_pinned: bool
    is_hidden: bool
    region: int
    """Its place in `regions`."""
    x: float
    y: float
    r: float


@dataclass(frozen=True, slots=True, kw_only=True)
class MapTool:
    id: str
    name: str
    description: str
    tags: tuple[str, ...]
    agent: int
    """Its agent's place in `agents`."""
    x: float
    y: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Map:
    """Nothing overlaps, in units of its own: the dot of an agent has `agent_radius`."""

    revision: int
    agent_radius: float
    regions: tuple[MapRegion, ...]
    agents: tuple[MapAgent, ...]
    tools: tuple[MapTool, ...]
    edges: tuple["GraphEdge", ...]
    """Of the kinds `needs`, `together` and `teaches`."""


@dataclass(frozen=True, slots=True, kw_only=True)
class GraphNode:
    """`id`: its kind, a colon and its name, such as `tool:harbor-git/list_commits`."""

    id: str
    kind: NodeKind
    name: str
    description: str
    centre: bool
    more: int
    """How many neighbours are not shown; of a node that is no centre without similar ones and followers."""


@dataclass(frozen=True, slots=True)
class GraphEdge:
    kind: EdgeKind
    start: str
    end: str
    weight: float | None = None
    """Of `similar` the cosine, of `follows` how likely the call is the next, of `together` which share of the calls of
    the first one, less where little was counted; in (0, 1]."""

    def other(self, node: str) -> str:
        return self.end if self.start == node else self.start


@dataclass(frozen=True, slots=True, kw_only=True)
class Neighbourhood:
    """Some nodes, the centres first, and the edges between them."""

    revision: int
    nodes: tuple[GraphNode, ...]
    edges: tuple[GraphEdge, ...]


def check_neighbourhood(around: Sequence[str], kinds: Collection[str], limit: int) -> None:
    """Raises InvalidQuery."""
    if not 1 <= len(around) <= MAX_CENTRES or not 1 <= limit <= MAX_NODES:
        raise InvalidQuery(f"a neighbourhood has 1 to {MAX_CENTRES} centres and at most {MAX_NODES} nodes")
    if unknown := sorted(set(kinds).difference(EDGE_KINDS)):
        raise InvalidQuery(f"{unknown[0]!r} is no kind of edge; there are {', '.join(EDGE_KINDS)}")
    for node in around:
        if node.partition(":")[0] not in NODE_KINDS:
            raise InvalidQuery(
                f"{node[:100]!r} is no node; one begins with {', '.join(f'{each}:' for each in NODE_KINDS)}"
            )
