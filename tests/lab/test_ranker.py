"""A learned ranker: its file, and the order that it gives."""

import json
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tests.lab.test_ranker_training import write_data
from waygraph.ingest.sources.read import read_path
from waygraph.ingest.sync.apply import sync
from waygraph.registry.model.errors import InvalidSetting
from waygraph.registry.model.nouns import Agent, AgentMatch, Query, Turn, Vote
from waygraph.registry.model.settings import Settings
from waygraph.registry.registry import Registry
from waygraph.registry.routing.recipes import BY_OPERATOR, recipe_named
from waygraph_lab.datasets.read_dataset import read_dataset
from waygraph_lab.training.ranker import FEATURES, Ranker, Trees, read_features

CATALOG = Path(__file__).parents[2] / "examples" / "catalog"
TEXT = "book a table for dinner and pay the bill"
REVERSED = Trees(-1.0, np.zeros((1, 1), np.int64), np.zeros((1, 1)), np.zeros((1, 2)))
"""The worst of the fused order first."""


@pytest.fixture
def registry() -> Iterator[Registry]:
    with Registry.open(":memory:", settings=Settings()) as opened:
        for manifest in read_path(str(CATALOG), opened.settings):
            sync(opened, manifest)
        yield opened


def ranker_for(registry: Registry, **changed: Any) -> Ranker:
    state = registry.status().state
    ranker = Ranker(name="mine", embedder=state.embedder, texts=state.texts, levels={"agents": REVERSED})
    return replace(ranker, **changed)


def write(ranker: Ranker, path: Path) -> str:
    path.write_bytes(ranker.content())
    return f"ranker:{path}"


def test_features_are_the_votes_what_others_have_and_what_the_catalogue_is_like() -> None:
    first = (
        Vote("a/x", "tool", "capability_vector", 1, 0.7, 1.0, 0.7),
        Vote("a", "agent", "used", 1, 0.3, 1.0, 0.3),
        Vote("a", "agent", "agent_vector", 2, 0.4, 0.75, 0.3),
    )
    second = (Vote("b/y", "tool", "capability_vector", 2, 0.6, 1.0, 0.6), Vote("?", "tool", "new", 1, 1.0, 1.0, 1.0))
    matches = [
        AgentMatch(agent=Agent(id=name, name=name), score=score, votes=votes)
        for name, score, votes in (("a", 1.3, first), ("b", 0.6, second), ("c", 0.56, ()))
    ]
    history = [Turn(role="user", text="hi"), Turn(role="call", tool="a/x", outcome="ok")]
    table = read_features(matches, {"a": 3, "b": 1}, "two words", history)
    column = {name: table[:, at].round(3).tolist() for at, name in enumerate(FEATURES)}
    assert column["capability_vector"] == [0.7, 0.6, 0.0]
    assert column["capability_vector, behind the best"] == [0.0, -0.1, -0.7]
    assert column["capability_vector, 1 / rank"] == [1.0, 0.5, 0.0]
    assert column["agent_vector, 1 / rank"] == [0.5, 0.0, 0.0]
    assert column["used of the agent"] == [0.3, 0.0, 0.0]
    assert column["behind the best"] == [0.0, -0.7, -0.74]
    assert column["rivals"] == [1.0, 2.0, 2.0]
    assert column["tools of the agent"] == [1.386, 0.693, 0.0]
    assert column["calls before"] == column["turns of words before"] == [1.0] * 3
    assert read_features([], {}, "x", ()).shape == (0, len(FEATURES))


def test_agents_stand_in_the_rankers_order_and_tools_as_they_were(registry: Registry, tmp_path: Path) -> None:
    """It has learned nothing of tools; of many agents it is asked of 20."""
    spec = write(ranker_for(registry), tmp_path / "mine.json")
    recipe = recipe_named("hybrid", rerank=spec)
    fused = registry.route(Query(text=TEXT, limit=20))
    route = registry.route(Query(text=TEXT, limit=3), recipe=recipe)
    assert [match.agent.id for match in route.matches] == [match.agent.id for match in fused.matches[::-1][:3]]
    assert (route.notice("not_reranked"), route.recipe) == ("", f"hybrid + {spec}")
    assert registry.find_tools(TEXT, recipe=recipe).matches == registry.find_tools(TEXT).matches


def test_a_ranker_of_another_embedder_texts_recipe_or_version_is_refused(registry: Registry, tmp_path: Path) -> None:
    mine = ranker_for(registry)
    good = write(mine, tmp_path / "mine.json")
    sha = mine.version.partition("@")[2]
    cases = [
        (write(ranker_for(registry, embedder="onnx:other@1"), tmp_path / "a.json"), "hybrid", "onnx:other@1"),
        (write(ranker_for(registry, texts="tdwa-1"), tmp_path / "b.json"), "hybrid", "tdwa-1 texts"),
        (good, "lexical", "reads the votes of 'hybrid'"),
        (f"{good}@0000", "hybrid", "not @0000"),
        (f"ranker:{tmp_path / 'none.json'}", "hybrid", "is no ranker"),
    ]
    for spec, recipe, told in cases:
        with pytest.raises(InvalidSetting, match=told):
            registry.route(TEXT, recipe=recipe_named(recipe, rerank=spec))
    assert registry.route(TEXT, recipe=recipe_named("hybrid", rerank=f"{good}@{sha}")).notice("not_reranked") == ""


def test_tools_that_wait_for_approval_do_not_count(tmp_path: Path) -> None:
    """`one` says that it has six tools now, five of which wait; trees that want many tools prefer `two` until then."""
    catalogues = [
        replace(read_dataset(write_data(tmp_path / str(one), one=one, two=3), Settings()).catalogue, source="s")
        for one in (1, 6)
    ]
    wants = Trees(
        0.0,
        np.array([[FEATURES.index("tools of the agent")] * 3]),
        np.log1p([[3, 2, 5]]),
        np.array([[0.0, 1.0, 1.0, 2.0]]),
    )
    with Registry.open(":memory:", settings=Settings()) as opened:
        for catalogue in catalogues:
            sync(opened, replace(catalogue, policy="hold"))
        recipe = recipe_named("hybrid", rerank=write(ranker_for(opened, levels={"agents": wants}), tmp_path / "x.json"))
        best = [opened.route("tax", recipe=recipe).matches[0].agent.id]
        opened.operator.approve("source:s")
        assert [*best, opened.route("tax", recipe=recipe).matches[0].agent.id] == ["tax-two", "tax-one"]


@pytest.mark.parametrize(
    "changed",
    [{"features": [[99]]}, {"features": [[-1]]}, {"leaves": [[0.0]]}, {"thresholds": [[None]]}, {"scale": "x"},
     {"thresholds": [[float("nan")]]}, {"leaves": [0.0]}, {"features": [[0, 0]], "thresholds": [[0.0, 0.0]]}],
    ids=range(8),
)  # fmt: skip
def test_a_damaged_file_is_refused(changed: dict[str, Any], tmp_path: Path) -> None:
    told = Ranker(name="x", embedder="e", texts="contextual", levels={"agents": REVERSED})
    content = json.loads(told.content())
    (tmp_path / "x.json").write_text(json.dumps(content))
    assert Ranker.open(str(tmp_path / "x.json")).levels["agents"].as_json() == REVERSED.as_json()
    content["levels"]["agents"] |= changed
    (tmp_path / "x.json").write_text(json.dumps(content))
    with pytest.raises(InvalidSetting, match="is no ranker"):
        Ranker.open(str(tmp_path / "x.json"))


def test_an_operators_ranker_that_does_not_fit_leaves_the_fused_order(registry: Registry, tmp_path: Path) -> None:
    """Callers learn neither which it is nor why; without a model for vectors there are no votes to read."""
    other = write(ranker_for(registry, embedder="onnx:other@1"), tmp_path / "mine.json")
    asked = recipe_named("hybrid", rerank=BY_OPERATOR)
    for embedder, spec in ((None, other), ("none", write(ranker_for(registry), tmp_path / "own.json"))):
        with Registry.open(":memory:", embedder=embedder, settings=Settings(rerank=spec)) as opened:
            for manifest in read_path(str(CATALOG), opened.settings):
                sync(opened, manifest)
            route = opened.route(TEXT, recipe=asked)
            assert route.matches == opened.route(TEXT).matches
            assert "the operator's reranker gave no order" in route.notice()
            assert "mine" not in route.notice()
