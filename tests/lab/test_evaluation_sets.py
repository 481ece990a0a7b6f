"""Answers that are sets: what is right in them whatever their order and size, and what they cost."""

import pytest

from waygraph_lab.evaluation.dataset import Asked
from waygraph_lab.evaluation.estimate import count_tokens
from waygraph_lab.evaluation.sets import SetAnswer, judge_sets, measure_set

A, B, AB = frozenset("a"), frozenset("b"), frozenset("ab")


@pytest.mark.parametrize(
    ("ids", "gold", "hit", "recall", "precision"),
    [
        pytest.param("xa", [A], 1, 1, 1 / 2, id="the one right id, last"),
        pytest.param("ax", [A, B], 1, 1 / 2, 1 / 2, id="one of two items"),
        pytest.param("ab", [AB], 1, 1, 1, id="both ways to one item are right"),
        pytest.param("xyz", [A], 0, 0, 0, id="nothing right"),
        pytest.param("", [A], 0, 0, 0, id="an empty set"),
    ],
)
def test_a_set_is_judged_whatever_its_order(
    ids: str, gold: list[frozenset[str]], hit: float, recall: float, precision: float
) -> None:
    for order in (ids, ids[::-1]):
        measured = measure_set(list(order), gold)
        assert measured == {"Hit": hit, "Recall": recall, "Precision": precision, "Size": len(ids)}


def test_means_and_costs_are_over_queries() -> None:
    asked = [Asked(id=name, texts=(name,), gold=(frozenset(name),), gold_tools=()) for name in "ab"]
    found = judge_sets(asked, lambda query: SetAnswer(ids=["a", "x"], calls=3 if query.id == "a" else 5, tokens=100))
    assert {name: mean.value for name, mean in found.items()} == {
        "Hit": 0.5,
        "Recall": 0.5,
        "Precision": 0.25,
        "Size": 2,
        "Calls": 4,
        "Tokens": 100,
    }
    with pytest.raises(ValueError, match="no query"):
        judge_sets([], lambda _: SetAnswer(ids=[]))


@pytest.mark.parametrize(("text", "tokens"), [("", 0), ("four", 1), ("fives", 2), ("订机票", 3), ("订机票 now", 4)])
def test_a_token_is_four_letters_or_one_ideograph(text: str, tokens: int) -> None:
    assert count_tokens(text) == tokens
