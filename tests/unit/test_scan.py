"""The scan against what it means, word for word: every dot product, and a sort of all of them."""

import numpy as np
import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

from waygraph.registry.index.local.scoring import align_rows, best, cosines

RNG = np.random.default_rng(7)


def by_sorting(scores: np.ndarray, depth: int) -> list[int]:
    ordered = sorted(range(len(scores)), key=lambda at: (-scores[at], at))
    return [at for at in ordered if scores[at] > -np.inf][:depth]


COARSE = arrays(np.float32, st.integers(0, 400), elements=st.sampled_from([-np.inf, -1.0, 0.0, 0.25, 0.5, 1.0]))
"""Few values: most scores are equal to others, or left out by a mask."""


@given(COARSE, st.integers(1, 60))
@example(np.full(300, -np.inf, np.float32), 5)
@example(np.zeros(300, np.float32), 5)
def test_the_best_are_those_of_a_sort(scores: np.ndarray, depth: int) -> None:
    assert best(scores, depth).tolist() == by_sorting(scores, depth)


@pytest.mark.parametrize("size", [0, 1, 99, 100, 101, 799, 801, 5_527])
@pytest.mark.parametrize("kept", [1.0, 0.5, 0.01])
def test_the_best_of_many(size: int, kept: float) -> None:
    scores = RNG.normal(size=size).astype(np.float32)
    scores[RNG.random(size) > kept] = -np.inf
    assert best(scores, 100).tolist() == by_sorting(scores, 100)


@pytest.mark.parametrize("period", [5_000, 416, 12])
def test_the_best_in_one_place(period: int) -> None:
    """Neighbours, as the tools of one agent are; or so far apart that few of the groups compared first hold all."""
    scores = np.zeros(5_000, np.float32)
    there = np.arange(5_000) % period < 150 * period / 5_000
    scores[there] = 1 + RNG.random(np.count_nonzero(there)).astype(np.float32)
    assert best(scores, 100).tolist() == by_sorting(scores, 100)


def test_rows_laid_out_are_the_same_rows() -> None:
    rows = RNG.normal(size=(57, 384)).astype(np.float32)
    rows[3] = 0
    copy = align_rows(rows)
    assert copy.__array_interface__["data"][0] % 64 == 0
    assert not np.shares_memory(rows, copy)
    assert np.array_equal(copy, rows)
    assert np.array_equal(cosines(copy, rows[5]), cosines(rows, rows[5]))
    assert cosines(copy, rows[5])[3] == -np.inf
