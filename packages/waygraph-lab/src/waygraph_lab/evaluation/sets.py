"""Answers that are sets, as large as their method likes: how many of the right ones they hold, and what they cost.

Hit rate, recall and precision are those of A2X, section 4.1: of the ids that were returned, in whatever order.
"""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass

from waygraph_lab.evaluation.dataset import Asked
from waygraph_lab.evaluation.metrics import Gold, Mean, hit, means, recall

SET_METRICS = ("Hit", "Recall", "Precision", "Size")
COSTS = ("Calls", "Tokens")


@dataclass(frozen=True, slots=True, kw_only=True)
class SetAnswer:
    """`ids`: without repeats. `calls`: of a language model; `tokens`: what it read and wrote for them."""

    ids: Sequence[str]
    calls: int = 0
    tokens: int = 0


def measure_set(ids: Sequence[str], gold: Gold) -> dict[str, float]:
    """`SET_METRICS` of one query: of no id the precision is 0. Raises ValueError without gold."""
    depth = max(1, len(ids))
    right = frozenset().union(*gold).intersection(ids)
    return {
        "Hit": hit(ids, gold, depth),
        "Recall": recall(ids, gold, depth),
        "Precision": len(right) / depth,
        "Size": float(len(ids)),
    }


def judge_sets(asked: Iterable[Asked], answer: Callable[[Asked], SetAnswer]) -> dict[str, Mean]:
    """Means over queries of `SET_METRICS` and `COSTS`. Raises ValueError without a query."""
    judged = []
    for query in asked:
        given = answer(query)
        costs = dict(zip(COSTS, map(float, (given.calls, given.tokens)), strict=True))
        judged.append(measure_set(given.ids, query.gold) | costs)
    if not judged:
        raise ValueError("there is no query to judge")
    return means(judged)
