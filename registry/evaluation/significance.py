"""How sure a mean over queries is, and whether two differ by more than chance. Pure, given the seed.

Values are one number per query; two runs are compared query by query, in the same order.
"""

from collections.abc import Iterator, Sequence

import numpy as np

_CELLS = 2**20
"""Rounds × queries held at once: 8 MiB of float64."""
_ROUNDING = 1e-9
"""Part of Σ|difference| within which two sums are equal: metrics are fractions, whose sums tie but for rounding."""


def interval(values: Sequence[float], *, seed: int = 0, rounds: int = 2000, level: float = 0.95) -> tuple[float, float]:
    """Lower and upper bound of the mean: the percentile bootstrap over queries; `level` in (0, 1).

    Source: Efron and Tibshirani, "An Introduction to the Bootstrap" (1993), chapter 13. Raises ValueError for no
    values.
    """
    if len(values) == 0:
        raise ValueError("values is empty; an interval needs one value per query, at least one")
    each = np.asarray(values, dtype=np.float64)
    drawn = np.random.default_rng(seed)
    means = np.concatenate(
        [each[drawn.integers(each.size, size=(n, each.size))].mean(axis=1) for n in _blocks(rounds, each.size)]
    )
    lower, upper = np.quantile(means, [(1 - level) / 2, (1 + level) / 2])
    return float(lower), float(upper)


def paired_p(one: Sequence[float], other: Sequence[float], *, seed: int = 0, rounds: int = 10_000) -> float:
    """How often chance alone makes the means differ as much, in (0, 1]; 1 for equal runs. Two-sided.

    Each round flips the sign of every difference by a coin, as if it were open which run gave which value: Smucker,
    Allan and Carterette (CIKM 2007), section 2.1. p = (1 + rounds at least as far from 0) / (1 + rounds), which is
    never 0: Phipson and Smyth, "Permutation P-values Should Never Be Zero" (2010). Raises ValueError for no values and
    for unequal lengths.
    """
    if len(one) == 0 or len(one) != len(other):
        raise ValueError(f"{len(one)} and {len(other)} values; a paired test needs as many of both, at least one")
    differences = np.asarray(one, dtype=np.float64) - np.asarray(other, dtype=np.float64)
    least = abs(differences.sum()) - _ROUNDING * np.abs(differences).sum()
    coin = np.random.default_rng(seed)
    as_far = 0
    for n in _blocks(rounds, differences.size):
        signs = 2 * coin.integers(2, size=(n, differences.size), dtype=np.int8) - 1
        as_far += int(np.count_nonzero(np.abs(signs @ differences) >= least))
    return (1 + as_far) / (1 + rounds)


def _blocks(rounds: int, queries: int) -> Iterator[int]:
    """The rounds, in portions that hold no more than `_CELLS` numbers, one round at least."""
    portion = max(1, _CELLS // queries)
    for start in range(0, rounds, portion):
        yield min(portion, rounds - start)
