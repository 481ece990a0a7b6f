"""Scores: the exact scan of vectors, also over codes of one bit and one byte a number, and the best of a list."""

from collections.abc import Callable
from importlib.util import find_spec
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from waygraph.registry.embedding.embedder import Vector

type Places = NDArray[np.int64]
_LINE = 64
"""Bytes of a processor's cache line."""
_CACHE_ROWS, _SAMPLE = 1024, 1024
"""Rows whose codes stay in the processor's cache; rows within a distance that is taken from a sample."""
_GROUPS = 4
"""For each of the best that are wanted: more are longer looked through, fewer leave more scores to be sorted."""


def has_codes() -> bool:
    """Whether whole numbers of one byte can be scanned here."""
    return find_spec("simsimd") is not None


def aligned_rows(rows: int, dimension: int) -> Vector:
    """Zeros that begin at a cache line: float32 of shape (rows, dimension)."""
    room = np.zeros(rows * dimension * 4 + _LINE, dtype=np.uint8)
    address: int = room.__array_interface__["data"][0]
    start = -address % _LINE
    zeros: Vector = room[start : start + rows * dimension * 4].view(np.float32).reshape(rows, dimension)
    return zeros


def best(scores: Vector, ranks: Places, depth: int) -> Places:
    """Positions of the `depth` highest scores, best first, equal ones by rank: int64 of shape (≤ depth,).

    `scores` is float32, `ranks` int64 of shape (rows,).
    """
    if len(scores) <= depth:
        return np.lexsort((ranks, -scores))
    positions = np.flatnonzero(scores >= floor(scores, depth))
    return positions[np.lexsort((ranks[positions], -scores[positions]))[:depth]]


def floor(scores: Vector, depth: int) -> float:
    """A little below the `depth`-th highest score, or that itself; never above it.

    `scores`: float32 of shape (rows,), more than `depth` of them.

    The `depth`-th highest of the maxima of some groups: each maximum is a score. They are had in a third of the time.
    """
    deep = max(1, len(scores) // (_GROUPS * depth))
    groups = len(scores) // deep
    maxima = scores[: deep * groups].reshape(deep, groups).max(axis=0)
    return float(np.partition(maxima, groups - depth)[groups - depth])


class Codes(NamedTuple):
    """Vectors as int8 of shape (rows, dimension), each number times its row's `scales` being about the vector's.

    `errors`: of each row at least the length of what that leaves out. Both float32 of shape (rows,). `signs`: whether
    each number is above 0, eight to a byte, uint8 of shape (rows, dimension / 8 rounded up).
    """

    codes: NDArray[np.int8]
    scales: Vector
    errors: Vector
    signs: NDArray[np.uint8]

    @classmethod
    def empty(cls, rows: int, dimension: int) -> "Codes":
        scales, errors = np.zeros((2, rows), np.float32)
        return cls(np.zeros((rows, dimension), np.int8), scales, errors, np.zeros((rows, -(-dimension // 8)), np.uint8))

    def grow(self, rows: int) -> "Codes":
        """A copy with room for so many."""
        wide, size = Codes.empty(rows, self.codes.shape[1]), len(self.codes)
        wide.codes[:size], wide.scales[:size], wide.errors[:size], wide.signs[:size] = self
        return wide

    def put(self, first: int, numbers: NDArray[np.void]) -> None:
        """Of the rows from `first` on: of `row_type`, of shape (rows,)."""
        some, codes = slice(first, first + len(numbers)), numbers["codes"]
        self.codes[some], self.scales[some], self.errors[some] = codes, numbers["scale"], numbers["error"]
        self.signs[some] = np.packbits(codes > 0, axis=1)

    def bounds(self, vector: Vector, rows: Places | slice) -> tuple[Vector, Vector]:
        """Of these rows: a score near the exact one, and the most that they differ by, float32 of shape (rows,).

        |q·x - q'·x'| ≤ |x - x'| |q| + |q - q'| |x'|, where q and x are of length 1 and q', x' are what their codes say.
        """
        codes, scale, error = encode_vector(vector)
        about = self._products(codes[None], rows) * (self.scales[rows] * np.float32(scale))
        return about, self.errors[rows] + np.float32(error * 1.01 + 2e-6)

    def _products(self, codes: NDArray[np.int8], rows: Places | slice) -> Vector:
        """`codes`: of shape (1, dimension). Rows are gathered a few at a time, which stay in the processor's cache."""
        import simsimd

        if isinstance(rows, slice):
            whole: Vector = np.asarray(simsimd.cdist(codes, self.codes[rows], "dot"))[0].astype(np.float32)
            return whole
        products = np.empty(len(rows), np.float32)
        for at in range(0, len(rows), _CACHE_ROWS):
            some = slice(at, at + _CACHE_ROWS)
            products[some] = np.asarray(simsimd.cdist(codes, np.take(self.codes, rows[some], axis=0), "dot"))[0]
        return products

    def sign_distances(self, vector: Vector, rows: int) -> Vector:
        """In how many numbers the signs of `vector` and of the first `rows` differ: float32 of shape (rows,)."""
        import simsimd

        signs = np.packbits(vector > 0)[None]
        counts = simsimd.cdist(signs, self.signs[:rows], "hamming", dtype="bin8", out_dtype="float32")
        distances: Vector = np.asarray(counts)[0]
        return distances


def nearness(distances: Vector, rows: Places, count: int) -> float:
    """The distance within which about `count` of `rows` are, as a sample of them says.

    `distances`: float32 of shape (rows of the index,).
    """
    step = max(1, count // _SAMPLE)
    return float(np.partition(distances[rows[::step]], count // step)[count // step])


def encode_vector(vector: Vector) -> tuple[NDArray[np.int8], float, float]:
    """Codes, int8 of shape (dimension,), their scale, and at least the length of what they leave out."""
    scale = float(np.abs(vector).max(initial=0)) / 127 or 1.0
    codes = np.rint(vector / scale).astype(np.int8)
    return codes, scale, float(np.linalg.norm(vector - codes * np.float32(scale))) * 1.0001 + 1e-7


def candidates(about: Vector, slack: Vector, rows: Places, depth: int, exact: Callable[[Places], Vector]) -> Places:
    """Of `rows` all that may be among the `depth` best: the others have surely less. `exact` gives rows' scores.

    `about` and `slack`: of each of them, float32 of shape (rows,). `rows` and the result: int64 of one dimension.
    """
    if len(rows) <= depth:
        return rows
    first = rows[about >= floor(about, depth)]
    # So many have at least this score.
    sure = np.partition(exact(first), len(first) - depth)[len(first) - depth]
    places: Places = rows[about + slack >= sure]
    return places
