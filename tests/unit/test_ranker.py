"""A learned ranker: its trees beside lightgbm's, its file, the order that it gives, and the command that learns it."""

import json
import sys
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tests.docs.test_cli_pages import documented, misfit
from waygraph.api.cli.app import main
from waygraph.ingest.sources.read import read_path
from waygraph.ingest.sync.apply import sync
from waygraph.registry.model.errors import InvalidDataset, InvalidSetting, MissingExtra
from waygraph.registry.model.nouns import Agent, AgentMatch, Query, Turn, Vote
from waygraph.registry.model.settings import Settings
from waygraph.registry.registry import Registry
from waygraph.registry.routing.ranker import FEATURES, Ranker, Trees, read_features
from waygraph.registry.routing.recipes import BY_OPERATOR, recipe_named
from waygraph_lab.datasets.read_dataset import read_dataset
from waygraph_lab.training.ranker_training import RankedList, RankerTraining, cross_fit, fit_levels, fit_trees

CATALOG = Path(__file__).parents[2] / "examples" / "catalog"
TEXT = "book a table for dinner and pay the bill"
TRAINING = RankerTraining(trees=20)
TOPICS = ("weather", "music", "bank", "train", "recipe", "garden", "chess", "tax", "hotel", "flight", "movie", "map")
ASKS = ("please find the", "I need some", "help me with a", "what about the", "more of this")
RIVALS = FEATURES.index("rivals")
REVERSED = Trees(-1.0, np.zeros((1, 1), np.int64), np.zeros((1, 1)), np.zeros((1, 2)))
"""The worst of the fused order first."""


def need_lightgbm() -> Any:
    return pytest.importorskip("lightgbm", reason="lightgbm is not installed: pip install 'waygraph-lab[train]'")


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


def lists_of(family: str, sign: int = 1, seed: int = 7) -> list[RankedList]:
    """Requests by chance, whose right candidate is that with the most rivals or, for -1, with the fewest."""
    chance, lists = np.random.default_rng(seed), []
    for number in range(60):
        table = chance.random((6, len(FEATURES)))
        table[:, FEATURES.index("fused score")] = np.linspace(0.9, 0.8, 6)
        ids = tuple(f"{number}-{row}" for row in range(6))
        right = frozenset([ids[int(np.argmax(sign * table[:, RIVALS]))]])
        told: dict[str, Any] = {"level": "tools", "by": "questions", "dataset": family, "family": family}
        lists.append(RankedList(part=str(number % 5), ids=ids, table=table, gold=(right,), **told))
    return lists


def write_data(folder: Path, **counts: int) -> Path:
    """Agents of each topic that say the same, with so many tools; the last one is right."""
    folder.mkdir()
    agents = [
        {
            "id": f"{topic}-{name}",
            "name": topic,
            "description": f"All about {topic}",
            "tools": [{"name": f"{topic}_{at}", "description": f"Finds {topic}"} for at in range(count)],
        }
        for topic in TOPICS
        for name, count in counts.items()
    ]
    queries = [
        {"id": f"{ask} {topic}", "text": f"{ask} {topic}", "gold": [[f"{topic}-{list(counts)[-1]}"]]}
        for topic in TOPICS
        for ask in ASKS
    ]
    for name, records in (("agents", agents), ("queries", queries)):
        (folder / f"{name}.jsonl").write_text("\n".join(map(json.dumps, records)))
    (folder / "dataset.json").write_text(json.dumps({"name": folder.name, "license": "CC0"}))
    return folder


# Learning.


def test_trees_score_as_lightgbm_predicts_and_the_same_for_the_same_seed(monkeypatch: pytest.MonkeyPatch) -> None:
    lightgbm = need_lightgbm()
    learned, train = [], lightgbm.train

    def spy(*given: Any, **options: Any) -> Any:
        learned.append(train(*given, **options))
        return learned[-1]

    monkeypatch.setattr(lightgbm, "train", spy)
    lists = lists_of("a")
    trees = fit_trees(lists, TRAINING)
    table = np.concatenate([each.table for each in lists])
    edges = trees.thresholds[trees.thresholds < 1e6]
    table = np.concatenate([table, np.repeat(edges[:, None], len(FEATURES), axis=1)])
    predicted = learned[0].predict(table)
    assert np.abs(trees.score(table) - trees.scale * table[:, FEATURES.index("fused score")] - predicted).max() < 1e-9
    assert np.ptp(predicted) > 0.1
    again, other = fit_trees(lists, TRAINING), fit_trees(lists, replace(TRAINING, seed=5))
    assert again.as_json() == trees.as_json() != other.as_json()


def test_a_family_is_judged_by_trees_that_learned_on_the_others() -> None:
    """What is right in one is wrong in the other: who learns from one falls on the other."""
    need_lightgbm()
    for sign in (1, -1):
        judged = cross_fit([*lists_of("a", seed=1), *lists_of("b", sign, seed=2)], TRAINING)
        assert {(row.dataset, row.metric, row.gain * sign > 0) for row in judged if row.metric == "nDCG@5"} == {
            (family, "nDCG@5", True) for family in "ab"
        }


def test_what_cannot_be_learned_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    wrong = [replace(each, gold=(frozenset(["nothing"]),)) for each in lists_of("a")]
    monkeypatch.setitem(sys.modules, "lightgbm", None)
    with pytest.raises(MissingExtra):
        fit_levels(wrong, TRAINING)
    monkeypatch.undo()
    need_lightgbm()
    with pytest.raises(InvalidDataset):
        fit_trees(wrong, TRAINING)


def test_the_command_learns_a_ranker_that_routes_without_lightgbm(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Of agents that say the same it has learned to prefer those with more tools."""
    need_lightgbm()
    data = write_data(tmp_path / "data", one=1, two=3)
    cards = []
    for name in ("first", "second"):
        (tmp_path / name).mkdir()
        assert (
            main(["learn", "ranker", str(data), "-o", str(tmp_path / name / "mine.json"), "--seed", "3", "--json"]) == 0
        )
        cards.append(json.loads(capsys.readouterr().out))
    file = tmp_path / "first" / "mine.json"
    assert file.read_bytes() == (tmp_path / "second" / "mine.json").read_bytes()
    assert misfit(cards[0], documented()["learn ranker"], documented()) == ""
    assert cards[0] == json.loads((tmp_path / "first" / "mine.card.json").read_text())
    assert [(each["name"], each["license"], len(each["checksum"])) for each in cards[0]["data"]] == [
        ("data", "CC0", 64)
    ]
    assert cards[0]["version"] == Ranker.open(str(file)).version
    assert cards[0]["training"]["seed"] == 3
    assert all(row["tuned"] > row["base"] for row in cards[0]["figures"] if row["metric"] == "Recall@1")
    monkeypatch.setitem(sys.modules, "lightgbm", None)
    with Registry.open(":memory:", settings=Settings()) as registry:
        sync(registry, read_dataset(data, registry.settings).catalogue)
        for rerank, best in (("", "tax-one"), (f"ranker:{file}", "tax-two")):
            route = registry.route("I need some tax", recipe=recipe_named("hybrid", rerank=rerank))
            assert route.matches[0].agent.id == best


def test_where_nothing_gains_no_ranker_is_written(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    need_lightgbm()
    data = write_data(tmp_path / "data", one=1)
    assert main(["learn", "ranker", str(data), "-o", str(tmp_path / "mine.json")]) == 0
    told = capsys.readouterr()
    assert "no ranker is written" in told.err
    assert not (tmp_path / "mine.json").exists()
    assert json.loads((tmp_path / "mine.card.json").read_text())["version"] == ""


# Routing.


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
    assert (route.not_reranked, route.recipe) == ("", f"hybrid + {spec}")
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
    assert registry.route(TEXT, recipe=recipe_named("hybrid", rerank=f"{good}@{sha}")).not_reranked == ""


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
            assert "the operator's reranker gave no order" in route.notice
            assert "mine" not in route.notice
