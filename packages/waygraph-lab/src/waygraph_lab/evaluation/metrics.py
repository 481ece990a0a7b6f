"""How good one ranking is, by what is right: recall, nDCG, average precision and their kin. Pure.

A gold item is the set of ids any one of which is right; a query has one or more, and `ValueError` is raised for
none. A ranking is a list of ids, best first and without repeats; an empty one scores 0. `depth` is how many of its
first ids count, 1 or more.

`recall` asks of each item whether any of its ids is there, so one id may find several items. In every other metric an
id finds one item: a rank counts where the ids so far can be given to more items, each its own, than those before it.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from math import log2
from statistics import fmean

Gold = Sequence[frozenset[str]]
Metric = Callable[[Sequence[str], Gold, int], float]
"""ranked, gold, depth → a value in [0, 1], 1 = best."""


def gold_items(alternatives: Iterable[Iterable[str]]) -> tuple[frozenset[str], ...]:
    """Distinct items in the order of first appearance: two tools of one agent are one need."""
    return tuple(dict.fromkeys(frozenset(items) for items in alternatives))


def recall(ranked: Sequence[str], gold: Gold, depth: int) -> float:
    """Found gold items / gold items, in [0, 1]; an item is found if any of its ids is in the first `depth`."""
    _refuse_unjudged(gold)
    top = set(ranked[:depth])
    return sum(not item.isdisjoint(top) for item in gold) / len(gold)


def ndcg(ranked: Sequence[str], gold: Gold, depth: int) -> float:
    """DCG / ideal DCG, in [0, 1]: gain 1 for an id that finds an item more, discount 1/log2(rank+1).

    The ideal finds one item at each of the first min(items, depth) ranks.
    """
    ideal = range(1, min(len(gold), depth) + 1)
    return sum(map(_discount, _hit_ranks(ranked, gold, depth))) / sum(map(_discount, ideal))


def average_precision(ranked: Sequence[str], gold: Gold, depth: int) -> float:
    """Σ found so far / rank, over the ranks that find a new item, divided by the number of items; in [0, 1].

    As `map_cut` of trec_eval: with more items than `depth`, even the best ranking is below 1.
    """
    ranks = _hit_ranks(ranked, gold, depth)
    return sum(found / rank for found, rank in enumerate(ranks, start=1)) / len(gold)


def reciprocal_rank(ranked: Sequence[str], gold: Gold, depth: int) -> float:
    """1 / the rank of the first id that is right, in [0, 1]; 0 if there is none in the first `depth`."""
    return next((1 / rank for rank in _hit_ranks(ranked, gold, depth)), 0.0)


def hit(ranked: Sequence[str], gold: Gold, depth: int) -> float:
    """1 if any item is found in the first `depth`, else 0; others call this success."""
    return float(len(_hit_ranks(ranked, gold, depth)) > 0)


def success(ranked: Sequence[str], gold: Gold, depth: int) -> float:
    """1 if all items are found in the first `depth`, each by an id of its own, else 0."""
    return float(len(_hit_ranks(ranked, gold, depth)) == len(gold))


METRICS: Mapping[str, Metric] = {
    "Recall": recall,
    "nDCG": ndcg,
    "mAP": average_precision,
    "MRR": reciprocal_rank,
    "Hit": hit,
    "Success": success,
}
"""Each by the name of its mean over queries."""
DEPTHS = (1, 3, 5, 10, 20)


def measure_query(ranked: Sequence[str], gold: Gold) -> dict[str, float]:
    """Every metric of one query at every depth, such as `Recall@5`; values in [0, 1]."""
    return {f"{name}@{depth}": metric(ranked, gold, depth) for name, metric in METRICS.items() for depth in DEPTHS}


def _hit_ranks(ranked: Sequence[str], gold: Gold, depth: int) -> list[int]:
    """The ranks, rising and from 1, of the ids that find an item more. They do not depend on the order of `gold`."""
    _refuse_unjudged(gold)
    finders: dict[int, str] = {}
    return [rank for rank, each in enumerate(ranked[:depth], start=1) if _finds(each, gold, finders, set())]


def _finds(ranked_id: str, gold: Gold, finders: dict[int, str], tried: set[int]) -> bool:
    """Gives it an item of `gold`, whose finder takes another then, if there is one (Kuhn's augmenting paths)."""
    for place, item in enumerate(gold):
        if ranked_id in item and place not in tried:
            tried.add(place)
            if place not in finders or _finds(finders[place], gold, finders, tried):
                finders[place] = ranked_id
                return True
    return False


def _refuse_unjudged(gold: Gold) -> None:
    if not gold:
        raise ValueError("gold is empty; a query is judged by one item or more: leave out those without any")


def _discount(rank: int) -> float:
    return 1 / log2(rank + 1)


# How sure a mean over queries is, and whether two differ by more than chance. Pure, given the seed.
#
# Values are one number per query; two runs are compared query by query, in the same order.


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
    import numpy as np

    each = np.asarray(values, dtype=np.float64)
    drawn = np.random.default_rng(seed)
    drawn_means = np.concatenate(
        [each[drawn.integers(each.size, size=(n, each.size))].mean(axis=1) for n in _blocks(rounds, each.size)]
    )
    lower, upper = np.quantile(drawn_means, [(1 - level) / 2, (1 + level) / 2])
    return float(lower), float(upper)


@dataclass(frozen=True, slots=True, kw_only=True)
class Mean:
    """Over judged queries, with its 95 % bootstrap interval."""

    value: float
    low: float
    high: float

    @classmethod
    def of(cls, values: Sequence[float]) -> "Mean":
        low, high = interval(values)
        return cls(value=fmean(values), low=low, high=high)


def means(measured_queries: Sequence[Mapping[str, float]]) -> dict[str, Mean]:
    """Each metric over all queries; empty without queries."""
    names = measured_queries[0] if measured_queries else ()
    return {name: Mean.of([metrics[name] for metrics in measured_queries]) for name in names}


def paired_p(one: Sequence[float], other: Sequence[float], *, seed: int = 0, rounds: int = 10_000) -> float:
    """How often chance alone makes the means differ as much, in (0, 1]; 1 for equal runs. Two-sided.

    Each round flips the sign of every difference by a coin, as if it were open which run gave which value: Smucker,
    Allan and Carterette (CIKM 2007), section 2.1. p = (1 + rounds at least as far from 0) / (1 + rounds), which is
    never 0: Phipson and Smyth, "Permutation P-values Should Never Be Zero" (2010). Raises ValueError for no values and
    for unequal lengths.
    """
    if len(one) == 0 or len(one) != len(other):
        raise ValueError(f"{len(one)} and {len(other)} values; a paired test needs as many of both, at least one")
    import numpy as np

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
