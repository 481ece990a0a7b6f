"""The candidate graph of ToolACE-MCP (sections 3.3.1 and 3.4): which candidates are near each other.

In a registry its edges are `(:Tool)-[:SIMILAR {cosine, revision}]->(:Tool)`, each pair once. They are made on demand;
an ingest takes away those of a tool whose vector it changes.
"""

from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple

from waygraph.cypher import load
from waygraph.registry.graph.engine import GraphSession
from waygraph.registry.graph.read import Vectors, read_tools, read_vectors
from waygraph.registry.graph.write import run_batches
from waygraph.registry.model.errors import InvalidSetting, RegistryNotFound

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    import numpy as np
    from numpy.typing import NDArray

    from waygraph.registry.model.changes import Written
    from waygraph.registry.storage.local_registry import LocalRegistry
    from waygraph.registry.writer import WriteSession

    Matrix = NDArray[np.float32]
    Rows = NDArray[np.int64]

_LEARNING_CLEAR_SIMILAR = load("learning/clear_similar")
_LEARNING_PUT_SIMILAR = load("learning/put_similar")

BLOCK_NUMBERS = 8_000_000
"""Cosines computed at a time: 32 MB."""
MAX_EDGES = 1_000_000


@dataclass(frozen=True, slots=True, kw_only=True)
class Nearness:
    """Which pairs are near, by one of three: a cosine of at least `above`; each with its `nearest`, whoever's they are;
    the closest pairs, so that a candidate has `mean_degree` edges on average.
    """

    above: float | None = None
    nearest: int | None = None
    mean_degree: float | None = None

    def __post_init__(self) -> None:
        values = [value for value in (self.above, self.nearest, self.mean_degree) if value is not None]
        if len(values) != 1:
            raise InvalidSetting("say one of a least cosine, a number of nearest ones, and a mean degree")
        if not 0 < values[0] <= (1 if self.above is not None else 1_000):
            raise InvalidSetting(f"{values[0]:g} is out of range: a cosine is in (0, 1], a degree in (0, 1000]")


class Pairs(NamedTuple):
    """`rows`: int64 of shape (pairs, 2), the lower row first; `cosines`: float32 of shape (pairs,), falling."""

    rows: "NDArray[np.int64]"
    cosines: "NDArray[np.float32]"


def near_pairs(vectors: "Matrix", nearness: Nearness) -> Pairs:
    """Of the rows of a float32 matrix of shape (candidates, dimension), each of length 1 or 0.

    In memory there are `BLOCK_NUMBERS` cosines and the pairs themselves. Only pairs of a positive cosine are near.
    Raises InvalidSetting for more than `MAX_EDGES` of them.
    """
    import numpy as np

    count, floor = len(vectors), nearness.above or float(np.finfo(np.float32).tiny)
    most = MAX_EDGES if nearness.mean_degree is None else max(1, round(count * nearness.mean_degree / 2))
    keys, cosines = np.zeros(0, np.int64), np.zeros(0, np.float32)  # a key: first row * count + second row
    height = max(1, BLOCK_NUMBERS // max(1, count))
    for start in range(0, count, height):
        block = vectors[start : start + height] @ vectors.T
        if nearness.nearest is not None:
            line, column = _nearest(block, start, nearness.nearest)
        else:
            line, column = _above(block, start, floor, most if nearness.mean_degree is not None else block.size)
        one, other = np.minimum(line + start, column), np.maximum(line + start, column)
        keys, first = np.unique(np.concatenate([keys, one * count + other]), return_index=True)
        cosines = np.concatenate([cosines, block[line, column]])[first]
        if nearness.mean_degree is None and len(keys) > MAX_EDGES:
            raise InvalidSetting(f"more than {MAX_EDGES:,} pairs are so near; ask for a mean degree instead")
        best = np.lexsort((keys, -cosines))[:most]
        keys, cosines = keys[best], cosines[best]
        if nearness.mean_degree is not None and len(keys) == most:
            floor = max(floor, float(cosines[-1]))
    return Pairs(np.stack([keys // max(1, count), keys % max(1, count)], axis=1), cosines)


def _nearest(block: "Matrix", start: int, number: int) -> "tuple[Rows, Rows]":
    """Line and column of the `number` nearest to each line of a block (float32, of shape (lines, candidates)), itself
    apart: int64, each of shape (pairs,). Line 0 is candidate `start`.
    """
    import numpy as np

    block[np.arange(len(block)), np.arange(start, start + len(block))] = -1
    number = min(number, block.shape[1])
    column = np.argpartition(block, -number, axis=1)[:, -number:].ravel()
    line = np.repeat(np.arange(len(block)), number)
    near = block[line, column] > 0
    return line[near], column[near]


def _above(block: "Matrix", start: int, floor: float, most: int) -> "tuple[Rows, Rows]":
    """The same of the pairs from `floor` on, each once; where there are more than `most`, of at least the best."""
    import numpy as np

    line, column = np.nonzero(block >= floor)
    once = column > line + start
    line, column = line[once], column[once]
    if len(line) > most:
        cosines = block[line, column]
        mask = cosines >= np.partition(cosines, -most)[-most]
        line, column = line[mask], column[mask]
    return line, column


@dataclass(frozen=True, slots=True, kw_only=True)
class LinkSummary:
    """The edges that there are now. `mean_degree` over all tools; `isolated`: tools without an edge."""

    revision: int
    tools: int
    edges: int
    mean_degree: float
    isolated: int
    least_cosine: float | None


def link_tools(registry: "LocalRegistry", nearness: Nearness | None) -> LinkSummary:
    """Replaces the edges by those of the vectors as they are now; None: by none.

    Raises InvalidSetting for a registry without vectors, RegistryNotFound, and what a write raises.
    """
    import numpy as np

    if not registry.store.exists:
        raise RegistryNotFound(registry.store.place)
    results: list[tuple[int, Pairs]] = []

    def choose(vectors: Vectors) -> list[dict[str, object]]:
        ids = list(vectors)
        if nearness is None:
            pairs = Pairs(np.zeros((0, 2), np.int64), np.zeros(0, np.float32))
        elif not ids:
            raise InvalidSetting("the registry has no vectors: get a model, then run `waygraph reindex`")
        else:
            pairs = near_pairs(np.stack(list(vectors.values())), nearness)
        results[:] = [(len(ids), pairs)]
        return [
            {"one": ids[one], "other": ids[other], "cosine": float(cosine)}
            for (one, other), cosine in zip(pairs.rows.tolist(), pairs.cosines, strict=True)
        ]

    revision = registry.change(lambda session: put_similar(session, choose)).revision
    tools, pairs = results[0]
    return LinkSummary(
        revision=revision,
        tools=tools,
        edges=len(pairs.rows),
        mean_degree=2 * len(pairs.rows) / tools if tools else 0.0,
        isolated=tools - len(np.unique(pairs.rows)),
        least_cosine=float(pairs.cosines[-1]) if len(pairs.cosines) else None,
    )


def put_similar(session: "WriteSession", choose: "Callable[[Vectors], Sequence[Mapping[str, object]]]") -> "Written":
    """Replaces the edges between near tools by those that it chooses: rows of `learning/put_similar`.

    It is given the vectors of the tools that have one.
    """
    revision = session.begin().revision
    rows = choose(read_vectors(session.engine, tools=[item.tool.id for item in read_tools(session.engine)]))

    def work(graph_session: GraphSession) -> None:
        graph_session.run(_LEARNING_CLEAR_SIMILAR)
        run_batches(graph_session, _LEARNING_PUT_SIMILAR, "rows", rows, revision=revision + 1)

    return session.write(work)
