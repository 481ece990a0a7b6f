"""Recipes of one's own: what cannot be is refused when it is made, not when it is asked."""

from dataclasses import replace
from math import inf, nan
from typing import Any, get_args

import pytest

from waygraph import RECIPES, RecipeLeg
from waygraph.api.cli import options
from waygraph.registry.model.changes import Policy
from waygraph.registry.model.errors import InvalidSetting
from waygraph.registry.routing.recipes import MINILM, Calibration

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
        ({"unread_words": -0.5}, "unread_words=-0.5: expected a number from 0"),
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


@pytest.mark.parametrize(
    ("model", "fingerprint", "holds"),
    [
        (MINILM, f"onnx:{MINILM}@53aa51172d14+int8", True),
        (MINILM, f"sentence-transformers:{MINILM}@c9745ed1d9f2", True),
        (MINILM, f"sentence-transformers:{MINILM}", True),
        (MINILM, "onnx:all-MiniLM-L6-v2@53aa51172d14.0a1b2c3d+int8", False),  # a folder of this name
        (MINILM, "onnx:my-minilm-tuned@53aa51172d14.0a1b2c3d+int8", False),
        (MINILM, f"onnx:{MINILM}-tuned@53aa51172d14+int8", False),
        (MINILM, f"openai:{MINILM}+tuned@384", False),
        (MINILM, f"onnx:mine@{MINILM}@53aa51172d14+int8", False),
        (MINILM, "", False),
        ("waygraph-minilm@53aa51172d14", "onnx:waygraph-minilm@53aa51172d14+int8", True),
        ("waygraph-minilm@53aa51172d14", "onnx:waygraph-minilm@0123456789ab+int8", False),  # trained anew
        ("waygraph-minilm@53aa51172d14", "onnx:waygraph-minilm@53aa51172d14.0a1b2c3d+int8", False),
        ("", "openai:any-model@native", True),
        ("", "", True),
    ],
)
def test_a_calibration_holds_for_the_very_model_it_was_measured_with(model: str, fingerprint: str, holds: bool) -> None:
    calibration = Calibration(offset=0.0, slope=1.0, least=0.0, model=model)
    assert calibration.holds_for(fingerprint) is holds
    assert replace(HYBRID, calibrations=(calibration,)).calibration(fingerprint) == (calibration if holds else None)


def test_the_help_names_what_the_core_knows() -> None:
    assert list(options.RECIPES) == sorted(RECIPES)
    assert get_args(options.Policy) == get_args(Policy)
