"""Metrics of one ranking: by hand, by what must hold of any ranking, and beside trec_eval's own."""

import random
from collections.abc import Sequence
from itertools import permutations
from math import log2

import ir_measures
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from waygraph_lab.evaluation.metrics import DEPTHS, METRICS, Gold

A, B, C = frozenset("a"), frozenset("b"), frozenset("c")
AB, CD = frozenset("ab"), frozenset("cd")
SECOND, THIRD, FOURTH = 1 / log2(3), 1 / log2(4), 1 / log2(5)
"""Discounts of these ranks; that of the first is 1."""

IDS = "abcdefghijkl"
rankings = st.lists(st.sampled_from(IDS), unique=True)
golds = st.lists(st.frozensets(st.sampled_from(IDS), min_size=1, max_size=3), min_size=1, max_size=5)
"""Items may overlap and repeat."""
depths = st.integers(1, 14)
metrics = pytest.mark.parametrize("name", METRICS)
unhurried = settings(deadline=None, suppress_health_check=[HealthCheck.too_slow])


def apart(order: Sequence[str], sizes: Sequence[int]) -> list[frozenset[str]]:
    """Items without an id in common: the first `sizes[0]` ids, then the next `sizes[1]` …"""
    starts = [sum(sizes[:at]) for at in range(len(sizes))]
    return [frozenset(order[start : start + size]) for start, size in zip(starts, sizes, strict=True)]


separate_golds = st.builds(apart, st.permutations(IDS), st.lists(st.integers(1, 3), min_size=1, max_size=4))


@pytest.mark.parametrize(
    ("ranked", "gold", "depth", "recall", "ndcg", "ap", "rr", "hit", "success"),
    [
        pytest.param("a", [A], 1, 1, 1, 1, 1, 1, 1, id="the one right id first"),
        pytest.param("xa", [A], 5, 1, SECOND, 1 / 2, 1 / 2, 1, 1, id="the one right id second"),
        pytest.param("xa", [A], 1, 0, 0, 0, 0, 0, 0, id="right, but below the depth"),
        pytest.param("", [A, B], 5, 0, 0, 0, 0, 0, 0, id="no answer"),
        pytest.param(
            "xbad",
            [AB, CD],
            5,
            1,
            (SECOND + FOURTH) / (1 + SECOND),
            1 / 2,
            1 / 2,
            1,
            1,
            id="a second way finds nothing",
        ),
        pytest.param("xbad", [AB, CD], 3, 1 / 2, SECOND / (1 + SECOND), 1 / 4, 1 / 2, 1, 0, id="one of two items"),
        pytest.param("axb", [A, B], 3, 1, (1 + THIRD) / (1 + SECOND), 5 / 6, 1, 1, 1, id="a gap between two items"),
        pytest.param("abc", [A, B, C], 2, 2 / 3, 1, 2 / 3, 1, 1, 0, id="more items than the depth"),
        pytest.param("ax", [A, A], 2, 1, 1 / (1 + SECOND), 1 / 2, 1, 1, 0, id="an item twice, one id for it"),
        pytest.param("bxa", [AB, AB], 3, 1, (1 + THIRD) / (1 + SECOND), 5 / 6, 1, 1, 1, id="an item twice, two ids"),
        pytest.param("ab", [AB, A], 2, 1, 1, 1, 1, 1, 1, id="the wide item first"),
        pytest.param("ab", [A, AB], 2, 1, 1, 1, 1, 1, 1, id="the narrow item first"),
        pytest.param("ba", [AB, A], 2, 1, 1, 1, 1, 1, 1, id="an id passes to what is still open"),
    ],
)
def test_metrics_by_hand(  # noqa: PLR0917 - a row of the table
    ranked: str,
    gold: Gold,
    depth: int,
    recall: float,
    ndcg: float,
    ap: float,
    rr: float,
    hit: float,
    success: float,
) -> None:
    found = {name: metric(ranked, gold, depth) for name, metric in METRICS.items()}
    told = {"Recall": recall, "nDCG": ndcg, "mAP": ap, "MRR": rr, "Hit": hit, "Success": success}
    assert found == pytest.approx(told)


@metrics
def test_a_query_without_gold_is_refused(name: str) -> None:
    for ranked in ([], ["a"]):
        with pytest.raises(ValueError, match="gold is empty"):
            METRICS[name](ranked, [], 5)


@metrics
@unhurried
@given(gold=separate_golds, further=st.integers(0, 5), data=st.data())
def test_an_id_of_each_item_and_nothing_before_is_perfect(
    name: str, gold: Gold, further: int, data: st.DataObject
) -> None:
    """Any of an item's ids will do, and what comes after them does not matter."""
    ranked = [data.draw(st.sampled_from(sorted(item))) for item in gold]
    rest = [left for left in IDS if left not in ranked]
    assert METRICS[name](ranked + rest, gold, len(gold) + further) == pytest.approx(1)


@metrics
@unhurried
@given(ranked=rankings, gold=golds, depth=depths, data=st.data())
def test_what_is_below_the_depth_does_not_count(
    name: str, ranked: list[str], gold: Gold, depth: int, data: st.DataObject
) -> None:
    shuffled = ranked[:depth] + data.draw(st.permutations(ranked[depth:]))
    assert METRICS[name](shuffled, gold, depth) == METRICS[name](ranked, gold, depth)


@unhurried
@given(ranked=rankings, gold=golds, depth=depths)
def test_success_is_an_id_of_its_own_for_each_item(ranked: list[str], gold: Gold, depth: int) -> None:
    ways = permutations(ranked[:depth], len(gold))
    assert METRICS["Success"](ranked, gold, depth) == any(
        all(each in item for each, item in zip(way, gold, strict=True)) for way in ways
    )


@metrics
@unhurried
@given(ranked=st.permutations(IDS), gold=golds, depth=depths, data=st.data())
def test_a_right_id_is_worth_more_higher_up(
    name: str, ranked: list[str], gold: Gold, depth: int, data: st.DataObject
) -> None:
    right = [at for at, ranked_id in enumerate(ranked) if any(ranked_id in item for item in gold)]
    at = data.draw(st.sampled_from(right))
    below, above = [*ranked[:at], "x", *ranked[at:]], [*ranked[: at + 1], "x", *ranked[at + 1 :]]
    assert METRICS[name](above, gold, depth) >= METRICS[name](below, gold, depth)


THEIRS = {
    "Recall": ir_measures.R,
    "nDCG": ir_measures.nDCG,
    "mAP": ir_measures.AP,
    "MRR": ir_measures.RR,
    "Hit": ir_measures.Success,
}


def world(queries: int, seed: int) -> dict[str, tuple[list[str], list[frozenset[str]]]]:
    """Query → a ranking, some of them empty, and gold items of one id each."""
    chance = random.Random(seed)  # noqa: S311 - nothing secret
    names = [f"d{number}" for number in range(40)]
    return {
        f"q{query}": (
            chance.sample(names, chance.choice([0, 3, 12, 30])),
            [frozenset([name]) for name in chance.sample(names, chance.randint(1, 8))],
        )
        for query in range(queries)
    }


@pytest.mark.parametrize("seed", range(3))
def test_metrics_agree_with_trec_eval(seed: int) -> None:
    """Without alternatives every metric is what ir-measures says; its Success is our Hit."""
    asked = world(60, seed)
    measures = {THEIRS[name] @ depth: (name, depth) for name in THEIRS for depth in DEPTHS}
    relevant = [
        ir_measures.Qrel(query, name, 1) for query, (_, gold) in asked.items() for name in frozenset[str]().union(*gold)
    ]
    # It breaks ties by id: the scores fall strictly.
    run = [
        ir_measures.ScoredDoc(query, name, -float(rank))
        for query, (ranked, _) in asked.items()
        for rank, name in enumerate(ranked)
    ]
    told = {(m.query_id, *measures[m.measure]): m.value for m in ir_measures.iter_calc(list(measures), relevant, run)}
    ours = {
        (query, name, depth): METRICS[name](*asked[query], depth)
        for query in asked
        for name, depth in measures.values()
    }
    assert len({value for value in ours.values() if 0 < value < 1}) > 50
    assert told == pytest.approx(ours)
