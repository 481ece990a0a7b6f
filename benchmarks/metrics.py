"""Means over queries, abstention metrics and percentiles. Pure.

A query that got no answer is an empty ranking: it scores 0 and is counted, since averages divide by judged queries.
How one ranking is measured lies in `waygraph.registry.evaluation.metrics`; its names are here too, for the benchmarks.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from math import floor

from waygraph.registry.evaluation.metrics import Gold, gold_items, ndcg, recall

__all__ = [
    "Gold",
    "Judged",
    "auroc",
    "gold_items",
    "mean_ndcg",
    "mean_recall",
    "ndcg",
    "percentile",
    "recall",
    "share_below",
    "threshold_losing",
]


@dataclass(frozen=True, slots=True)
class Judged:
    """A query's answer, best first and without repeats, beside what is right."""

    ranked: Sequence[str]
    gold: Gold


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
