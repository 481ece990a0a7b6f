"""The exact scan: every row's cosine with a query, and the best of them."""

from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from numpy.typing import NDArray

    Vector = NDArray[np.float32]

_LINE = 64
"""Bytes of a processor's cache line."""


def laid_out(rows: "Vector") -> "Vector":
    """A copy in memory of this process, begun at a cache line: it gets large pages, a mapped file does not. A scan takes
    three fifths of the time where a model has just pushed the rows out of the caches.
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
    suspects = np.flatnonzero(scores == 0)
    if len(suspects):
        blank = ~rows[suspects].any(axis=1) if vector.any() else slice(None)
        scores[suspects[blank]] = -np.inf
    return scores


def best(scores: "Vector", depth: int) -> "NDArray[np.int64]":
    """Positions of the `depth` highest finite scores, best first, equal ones by position."""
    if len(scores) > depth:
        least = np.partition(scores, len(scores) - depth)[len(scores) - depth]
        positions = np.flatnonzero(scores >= least)
    else:
        positions = np.arange(len(scores))
    found = scores[positions]
    # Positions ascend, and a stable sort keeps them so among equal scores. What a mask left out is -inf, and last.
    order = np.argsort(-found, kind="stable")[: min(depth, np.count_nonzero(found > -np.inf))]
    return positions[order]
