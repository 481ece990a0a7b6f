"""Intervals and paired tests: what they promise, beside the normal approximation and full enumeration."""

import tracemalloc
from collections.abc import Callable
from itertools import product

import numpy as np
import pytest

from waygraph.registry.evaluation.metrics import interval, paired_p

CELLS = "waygraph.registry.evaluation.metrics._CELLS"
QUERIES = 1714
"""As many as the largest judged set has."""


def noise(queries: int, seed: int, mean: float = 0.0) -> list[float]:
    """Normal values of standard deviation 1."""
    drawn: list[float] = np.random.default_rng(seed).normal(mean, size=queries).tolist()
    return drawn


def width(values: list[float], level: float = 0.95) -> float:
    lower, upper = interval(values, level=level)
    return upper - lower


# -- interval ----------------------------------------------------------------------------------------


@pytest.mark.parametrize("values", [noise(30, 1), [0.0] * 9 + [1.0], [0.0, 1.0] * 50, noise(QUERIES, 2)], ids=len)
def test_the_interval_is_around_the_mean(values: list[float]) -> None:
    lower, upper = interval(values)
    assert lower < np.mean(values) < upper


def test_the_interval_holds_the_true_mean_as_often_as_it_says() -> None:
    """Of 300 samples of 60 queries some 95 % have 0.3, the mean that they were drawn with, inside."""
    intervals = [interval(noise(60, seed, mean=0.3), rounds=400) for seed in range(300)]
    assert 0.91 < np.mean([lower <= 0.3 <= upper for lower, upper in intervals]) < 0.98


@pytest.mark.parametrize(("level", "deviations"), [(0.80, 1.2816), (0.95, 1.9600), (0.99, 2.5758)])
def test_the_interval_is_as_wide_as_the_normal_one(level: float, deviations: float) -> None:
    """With many queries: two times so many standard errors."""
    values = noise(800, 3)
    assert width(values, level) == pytest.approx(2 * deviations * np.std(values) / 800**0.5, rel=0.08)


def test_more_queries_make_the_interval_narrower() -> None:
    """Four times as many halve it."""
    few, more, many = (width(noise(queries, 4)) for queries in (50, 200, 800))
    assert few / more == pytest.approx(2, rel=0.25)
    assert more / many == pytest.approx(2, rel=0.25)


def test_the_interval_depends_on_its_seed_alone() -> None:
    values = noise(40, 5)
    assert interval(values, seed=1) == interval(values, seed=1)
    assert interval(values, seed=1) != interval(values, seed=2)


@pytest.mark.parametrize("values", [[0.3] * 7, [1.0], [0.0] * 100], ids=len)
def test_equal_values_have_an_interval_of_one_point(values: list[float]) -> None:
    assert interval(values) == pytest.approx((values[0], values[0]))


def test_an_interval_of_nothing_is_refused() -> None:
    with pytest.raises(ValueError, match="values is empty"):
        interval([])


# -- paired test -------------------------------------------------------------------------------------


def test_a_clear_difference_has_the_smallest_p() -> None:
    """No round of 10,000 comes near it, and p is not 0 for that."""
    base = noise(100, 6)
    assert paired_p([value + 1 + 0.1 * extra for value, extra in zip(base, noise(100, 7), strict=True)], base) == (
        1 / 10_001
    )


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


@pytest.mark.parametrize(("one", "other"), [([], []), ([1.0], []), ([1.0], [1.0, 2.0])])
def test_runs_of_other_queries_are_refused(one: list[float], other: list[float]) -> None:
    with pytest.raises(ValueError, match=f"{len(one)} and {len(other)} values"):
        paired_p(one, other)


# -- blocks ------------------------------------------------------------------------------------------


@pytest.mark.parametrize("cells", [1, 64, 1000])
def test_the_size_of_a_block_does_not_matter(cells: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """All rounds are played, be it one at a time."""
    one, other = noise(30, 9), noise(30, 10)
    whole, p = interval(one, rounds=500), paired_p(one, other, rounds=5000)
    monkeypatch.setattr(CELLS, cells)
    assert interval(one, rounds=500) == pytest.approx(whole)
    assert paired_p(one, other, rounds=5000) == pytest.approx(p, abs=0.02)


def run_interval() -> None:
    interval(noise(QUERIES, 11), rounds=10_000)


def run_paired_p() -> None:
    paired_p(noise(QUERIES, 11), noise(QUERIES, 12), rounds=10_000)


@pytest.mark.parametrize("work", [run_interval, run_paired_p])
def test_memory_stays_bounded(work: Callable[[], None]) -> None:
    """1,714 queries in 10,000 rounds are 131 MiB of float64; never is a third of that held at once."""
    tracemalloc.start()
    try:
        work()
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert peak < 40 * 2**20
