"""The exact scan: every row's cosine with a query, and the best of them."""

from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from waygraph.registry.embedding.protocol import Vector


_LINE = 64
"""Bytes of a processor's cache line."""
_GROUPS = 4
"""For each of the best that are wanted: more are longer looked through, fewer leave more scores to be sorted."""


def laid_out(rows: "Vector") -> "Vector":
    """A copy in memory of this process, begun at a cache line: large pages hold it, which do not hold a mapped file. A
    scan takes three fifths of the time where a model has just pushed the rows out of the caches.
    """
    room = np.empty(rows.nbytes + _LINE, dtype=np.uint8)
    address: int = room.__array_interface__["data"][0]
    start = -address % _LINE
    copy: Vector = room[start : start + rows.nbytes].view(rows.dtype).reshape(rows.shape)
    copy[...] = rows
    return copy


def cosines(rows: "Vector", vector: "Vector") -> "Vector":
    """Of unit rows with a unit vector; -inf where either is all zeros: it has no direction, and is near to nothing."""
    # vecdot, not @: one thread, and a row's score never depends on the rows beside it.
    scores: Vector = np.vecdot(rows, vector)
    if not scores.all():
        suspects = np.flatnonzero(scores == 0)
        blank = ~rows[suspects].any(axis=1) if vector.any() else slice(None)
        scores[suspects[blank]] = -np.inf
    return scores


def best(scores: "Vector", depth: int) -> "NDArray[np.int64]":
    """Positions of the `depth` highest finite scores, best first, equal ones by position."""
    floor = _floor(scores, depth)
    positions = (scores >= floor if floor > -np.inf else scores > -np.inf).nonzero()[0]
    # Positions ascend, and a stable sort keeps them so among equal scores.
    order = (-scores[positions]).argsort(kind="stable")[:depth]
    return positions[order]


def _floor(scores: "Vector", depth: int) -> float:
    """A little below the `depth`-th highest score, or that itself; never above it.

    The `depth`-th highest of the maxima of some groups: each maximum is a score. They are had in a third of the time.
    """
    if len(scores) <= depth:
        return -np.inf
    deep = max(1, len(scores) // (_GROUPS * depth))
    groups = len(scores) // deep
    maxima = scores[: deep * groups].reshape(deep, groups).max(axis=0)
    return float(np.partition(maxima, groups - depth)[groups - depth])
