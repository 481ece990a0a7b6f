"""Retrieval and abstention metrics. Pure.

A gold item is the set of agent ids any one of which is right; a query has one or more. A query that got no
answer is an empty ranking: it scores 0 and is counted, since averages divide by judged queries.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from math import floor, log2

Gold = Sequence[frozenset[str]]


@dataclass(frozen=True, slots=True)
class Judged:
    """A query's answer, best first and without repeats, beside what is right."""

    ranked: Sequence[str]
    gold: Gold


def gold_items(alternatives: Iterable[Iterable[str]]) -> tuple[frozenset[str], ...]:
    """Distinct items in the order of first appearance: two tools of one agent are one need."""
    return tuple(dict.fromkeys(frozenset(items) for items in alternatives))


def recall(ranked: Sequence[str], gold: Gold, depth: int) -> float:
    """Found gold items / gold items, in [0, 1]; an item is found if any of its agents is in the first `depth`."""
    top = set(ranked[:depth])
    return sum(not item.isdisjoint(top) for item in gold) / len(gold)


def ndcg(ranked: Sequence[str], gold: Gold, depth: int) -> float:
    """DCG / ideal DCG, in [0, 1]: gain 1 for an agent that finds an item not found before it, discount 1/log2(rank+1).

    The ideal finds one item at each of the first min(items, depth) ranks.
    """
    open_items = list(gold)
    gained = 0.0
    for place, agent in enumerate(ranked[:depth], start=1):
        found = next((item for item in open_items if agent in item), None)
        if found is not None:
            open_items.remove(found)
            gained += _discount(place)
    return gained / sum(_discount(place) for place in range(1, min(len(gold), depth) + 1))


def mean_recall(judged: Sequence[Judged], depth: int) -> float:
    return sum(recall(j.ranked, j.gold, depth) for j in judged) / len(judged)


def mean_ndcg(judged: Sequence[Judged], depth: int) -> float:
    return sum(ndcg(j.ranked, j.gold, depth) for j in judged) / len(judged)


def auroc(present: Sequence[float], absent: Sequence[float]) -> float:
    """The chance that an answerable query scores above an unanswerable one; a tie is half. In [0, 1]."""
    above = sum((p > a) + 0.5 * (p == a) for p in present for a in absent)
    return above / (len(present) * len(absent))


def threshold_losing(right: Sequence[float], share: float) -> float:
    """The highest score t such that at most `share` of the right answers score below t."""
    return sorted(right)[floor(share * len(right))]


def share_below(scores: Sequence[float], threshold: float) -> float:
    return sum(score < threshold for score in scores) / len(scores)


def percentile(values: Sequence[float], share: float) -> float:
    """The smallest value that at least `share` of all values do not exceed (nearest rank)."""
    ordered = sorted(values)
    return ordered[max(0, min(len(ordered) - 1, -int(-share * len(ordered) // 1) - 1))]


def _discount(place: int) -> float:
    return 1 / log2(place + 1)
