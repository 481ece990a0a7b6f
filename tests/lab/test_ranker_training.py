"""How a ranker is learned: its trees beside lightgbm's, and the command."""

import json
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tests.docs.test_cli_pages import misfit
from waygraph.api.cli.app import main
from waygraph.ingest.sync.apply import sync
from waygraph.registry.model.errors import InvalidDataset, MissingExtra
from waygraph.registry.model.settings import Settings
from waygraph.registry.registry import Registry
from waygraph.registry.routing.recipes import recipe_named
from waygraph_lab.datasets.read_dataset import read_dataset
from waygraph_lab.training.ranker import FEATURES, Ranker
from waygraph_lab.training.ranker_training import RankedList, RankerTraining, cross_fit, fit_levels, fit_trees

TRAINING = RankerTraining(trees=20)
TOPICS = ("weather", "music", "bank", "train", "recipe", "garden", "chess", "tax", "hotel", "flight", "movie", "map")
ASKS = ("please find the", "I need some", "help me with a", "what about the", "more of this")
RIVALS = FEATURES.index("rivals")


def need_lightgbm() -> Any:
    return pytest.importorskip("lightgbm", reason="lightgbm is not installed: pip install 'waygraph-lab[train]'")


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
    assert misfit(cards[0], "learn ranker") == ""
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
