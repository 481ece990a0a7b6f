"""Intervals and paired tests: what they promise, beside the normal approximation and full enumeration."""

from itertools import product

import numpy as np
import pytest

from waygraph_lab.evaluation.metrics import interval, paired_p

QUERIES = 1714
"""As many as the largest judged set has."""


def noise(queries: int, seed: int, mean: float = 0.0) -> list[float]:
    """Normal values of standard deviation 1."""
    drawn: list[float] = np.random.default_rng(seed).normal(mean, size=queries).tolist()
    return drawn


def test_the_interval_holds_the_true_mean_as_often_as_it_says() -> None:
    """Of 300 samples of 60 queries some 95 % have 0.3, the mean that they were drawn with, inside."""
    intervals = [interval(noise(60, seed, mean=0.3), rounds=400) for seed in range(300)]
    assert 0.91 < np.mean([lower <= 0.3 <= upper for lower, upper in intervals]) < 0.98


@pytest.mark.parametrize("queries", [1, 40, QUERIES])
def test_equal_runs_have_p_1(queries: int) -> None:
    values = noise(queries, 8)
    p = paired_p(values, list(values))
    assert p == 1.0
    assert type(p) is float


def test_p_is_even_where_nothing_differs() -> None:
    """Of 400 pairs of noise, 5 % have p ≤ 0.05, and so on: the test does not cry wolf."""
    ps = np.array([paired_p(noise(20, seed), noise(20, 1000 + seed), seed=seed, rounds=499) for seed in range(400)])
    assert ps.min() > 0
    assert ps.max() <= 1
    for share in (0.05, 0.25, 0.5, 0.75):
        assert np.mean(ps <= share) == pytest.approx(share, abs=0.06)
    assert np.mean(ps <= 0.05) > 0.01


def test_neither_run_comes_first() -> None:
    """The test is two-sided: to change the runs changes nothing, another seed little."""
    one, other = noise(30, 9), noise(30, 10)
    p = paired_p(one, other)
    assert 0.1 < p < 0.9
    assert paired_p(other, one) == p
    assert paired_p(other, one, seed=1) == pytest.approx(p, abs=0.02)
    assert paired_p(other, one, seed=1) != p


@pytest.mark.parametrize(
    "tenths",
    [(3, 1, 2, -1, -2, 4), (1, 1, 1, 1, 1, -1, -1, 2), (5, -4, 3, -2, 1, 0, 0), (1,), (7, 7, 7, 7, 7)],
    ids=str,
)
def test_p_is_that_of_all_signs(tenths: tuple[int, ...]) -> None:
    """Counted in whole tenths, where a tie is a tie; the floats that the test is given tie but for rounding."""
    flips = product((-1, 1), repeat=len(tenths))
    sums = [abs(sum(sign * tenth for sign, tenth in zip(signs, tenths, strict=True))) for signs in flips]
    exact = sum(far >= abs(sum(tenths)) for far in sums) / len(sums)
    one, other = [(tenth + 3) / 10 for tenth in tenths], [0.3] * len(tenths)
    assert paired_p(one, other, rounds=20_000) == pytest.approx(exact, abs=0.012)


# -- blocks ------------------------------------------------------------------------------------------
