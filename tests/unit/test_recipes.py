"""Recipes of one's own: what cannot be is refused when it is made, not when it is asked."""

from dataclasses import replace
from math import inf, nan
from typing import Any

import pytest

from waygraph.registry import RECIPES, RecipeLeg
from waygraph.registry.model.errors import InvalidSetting

HYBRID = RECIPES["hybrid"]


@pytest.mark.parametrize(
    ("said", "why"),
    [
        ({"legs": ()}, r"legs=\(\): expected one RecipeLeg or more"),
        ({"legs": ("agent_text",)}, r"legs=\('agent_text',\): expected one RecipeLeg"),
        ({"depth": 0}, "depth=0: expected a whole number from 1"),
        ({"depth": 1.5}, "depth=1.5: expected a whole number"),
        ({"depth": "5"}, "depth='5': expected a whole number"),
        ({"merge": "foo"}, "merge='foo': expected one of one_list, by_owner, by_score"),
        ({"agent_weight": -1.0}, "agent_weight=-1.0: expected a number from 0"),
        ({"rerank": "openai:x"}, "rerank='openai:x': expected a Rerank"),
    ],
)
def test_a_recipe_that_cannot_be_is_refused_with_its_name(said: dict[str, Any], why: str) -> None:
    with pytest.raises(InvalidSetting, match=f"recipe 'hybrid': {why}"):
        replace(HYBRID, **said)


@pytest.mark.parametrize(
    ("said", "why"),
    [
        ({"leg": "nope"}, "leg='nope': expected one of agent_vector, "),
        ({"kind": "nope"}, "kind='nope': expected agent or tool"),
        ({"kind": "agent"}, "kind='agent' of name: expected tool"),
        ({"leg": "agent_text"}, "kind='tool' of agent_text: expected agent"),
        ({"share": -1}, "share=-1: expected a number from 0"),
        ({"share": nan}, "share=nan: expected a number"),
        ({"k": inf}, "k=inf: expected a number"),
        ({"k": "a"}, "k='a': expected a number"),
    ],
)
def test_a_leg_that_cannot_be_is_refused(said: dict[str, Any], why: str) -> None:
    given: dict[str, Any] = {"leg": "name", "kind": "tool"}
    with pytest.raises(InvalidSetting, match=why):
        RecipeLeg(**(given | said))
