"""What an embedder learns from, and how it is judged: no torch is needed for either."""

import json
import sys
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from safetensors.numpy import load_file, save_file

from waygraph.registry.embedding.factory import open_embedder
from waygraph.registry.embedding.texts import TextForms
from waygraph.registry.model.errors import InvalidDataset, InvalidSetting, MissingExtra
from waygraph.registry.model.settings import DEFAULT_EMBEDDER, Settings
from waygraph.registry.routing.recipes import HYBRID
from waygraph_lab.datasets.read_dataset import read_dataset
from waygraph_lab.evaluation.dataset import Dataset
from waygraph_lab.evaluation.run import Judgement, Outcome, Trial
from waygraph_lab.training.embedder_training import (
    Judged,
    Pair,
    Training,
    choose_strength,
    interpolate,
    judge_outcomes,
    make_pairs,
    train,
)

FORMS = TextForms(form="contextual", max_chars=500)
AGENTS = {
    "weather": {"forecast": "The weather of the next days in a city", "rain_radar": "Where it rains right now"},
    "bank": {"transfer_money": "Send money to another account", "balance": "How much money an account holds"},
    "music": {"play_song": "Play a song by its name"},
}
REQUESTS = {"Will it be sunny in Rome?": "weather/forecast", "Pay Ada 20 euros": "bank/transfer_money"}


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    agents = [
        {"id": name, "tools": [{"name": tool, "description": text} for tool, text in tools.items()]}
        for name, tools in AGENTS.items()
    ]
    queries = [
        {"id": text, "text": text, "gold": [[tool.partition("/")[0]]], "gold_tools": [[tool]]}
        for text, tool in REQUESTS.items()
    ]
    for name, records in (("agents", agents), ("queries", queries)):
        (tmp_path / f"{name}.jsonl").write_text("\n".join(map(json.dumps, records)))
    return tmp_path


@pytest.fixture
def dataset(folder: Path) -> Dataset:
    return read_dataset(folder, Settings())


def pairs_of(dataset: Dataset, training: Training | None = None) -> list[Pair]:
    embedder = open_embedder(DEFAULT_EMBEDDER, Settings(), {})
    assert embedder is not None
    return make_pairs([dataset], embedder, FORMS, training or Training())


def tool_in(text: str) -> str:
    return next(tool for tools in AGENTS.values() for tool in tools if tool in text)


def test_a_request_is_paired_with_its_tool_and_one_of_another_agent(dataset: Dataset) -> None:
    """The same pairs from the same seed; a sibling of the right tool is never the wrong one."""
    pairs = pairs_of(dataset)
    assert {pair.request: tool_in(pair.right) for pair in pairs} == {
        text: tool.partition("/")[2] for text, tool in REQUESTS.items()
    }
    for pair in pairs:
        own = REQUESTS[pair.request].partition("/")[0]
        assert not any(tool in pair.wrong for tool in AGENTS[own])
    assert pairs == pairs_of(dataset)
    assert len(pairs_of(dataset, Training(most_requests=1))) == 1


def test_questions_of_tools_stand_for_requests_that_are_missing(dataset: Dataset) -> None:
    entries = tuple(
        replace(each, tools=tuple(replace(tool, questions=(f"Please {tool.name} now",)) for tool in each.tools))
        for each in dataset.catalogue.entries
    )
    asked = replace(dataset, questions=(), catalogue=replace(dataset.catalogue, entries=entries))
    assert {pair.request for pair in pairs_of(asked)} <= {f"Please {t} now" for tools in AGENTS.values() for t in tools}
    with pytest.raises(InvalidDataset):
        pairs_of(replace(dataset, questions=()))


@pytest.mark.parametrize("wrong", [{"epochs": 0}, {"batch": 1}, {"rate": -1}, {"layers": -1}, {"most_requests": 0}])
def test_a_training_that_cannot_be_is_refused(wrong: dict[str, float]) -> None:
    with pytest.raises(InvalidSetting, match=next(iter(wrong))):
        Training(**wrong)  # type: ignore[arg-type]


def test_without_torch_the_extra_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "sentence_transformers", None)
    save_file({"a": np.zeros(1, np.float32)}, tmp_path / "model.safetensors")
    with pytest.raises(MissingExtra) as raised:
        train(tmp_path, [Pair("a", "b", "c")], Training(), tmp_path / "work")
    assert raised.value.extra == "train"


def test_interpolation_goes_from_the_base_to_the_trained_tensors(tmp_path: Path) -> None:
    """What was not trained stays; the other files are the base's."""
    base, tuned = tmp_path / "base", tmp_path / "tuned.safetensors"
    base.mkdir()
    (base / "config.json").write_text("{}")
    save_file({"a": np.array([0, 2], np.float32), "b": np.ones(1, np.float32)}, base / "model.safetensors")
    save_file({"a": np.array([4, 4], np.float32)}, tuned)
    for strength, expected in ((0.0, [0, 2]), (0.25, [1, 2.5]), (1.0, [4, 4])):
        written = interpolate(base, tuned, strength, tmp_path / str(strength))
        tensors = load_file(written / "model.safetensors")
        assert tensors["a"].tolist() == expected
        assert tensors["b"].tolist() == [1]
        assert (written / "config.json").read_text() == "{}"


def outcome(values: list[float], tools: list[float | None]) -> Outcome:
    def metrics(value: float | None) -> dict[str, float]:
        return {} if value is None else dict.fromkeys(("Recall@1", "Recall@5", "nDCG@5"), value)

    judgements = tuple(
        Judgement(
            id=str(place),
            text="",
            gold=(),
            agents=(),
            tools=(),
            votes={},
            agent_metrics=metrics(value),
            tool_metrics=metrics(tool),
            elapsed_ms=0,
        )
        for place, (value, tool) in enumerate(zip(values, tools, strict=True))
    )
    trial = Trial(recipe=HYBRID, by="questions", texts="contextual")
    return Outcome(trial=trial, judgements=judgements, fingerprint="", revision=1, p50_ms=0, p95_ms=0)


def test_outcomes_are_judged_query_by_query_at_both_levels() -> None:
    rows = judge_outcomes("x", outcome([0, 0, 1, 1], [0, None, 1, None]), outcome([1, 0, 1, 1], [0, None, 0, None]))
    told: dict[tuple[str, str], object] = {(row.level, row.metric): (row.queries, row.base, row.tuned) for row in rows}
    expected = {("agents", "nDCG@5"): (4, 0.5, 0.75), ("tools", "Recall@1"): (2, 0.5, 0)}
    assert {key: told[key] for key in expected} == expected
    assert all(row.low <= row.gain <= row.high for row in rows)


def judged(*gains: tuple[float, float]) -> list[Judged]:
    """Rows of (gain, upper bound)."""
    return [
        Judged(
            dataset=str(place),
            by="steps",
            level="agents",
            metric="nDCG@5",
            queries=9,
            base=0.5,
            tuned=0.5 + gain,
            low=gain - 0.1,
            high=high,
        )
        for place, (gain, high) in enumerate(gains)
    ]


@pytest.mark.parametrize(
    ("at_half", "at_one", "chosen"),
    [
        (judged((0.01, 0.02)), judged((0.02, 0.03)), 1.0),
        (judged((0.03, 0.04)), judged((0.02, 0.03)), 0.5),
        (judged((0.01, 0.02)), judged((0.09, 0.1), (-0.02, -0.01)), 0.5),  # somewhere worse beyond chance
        (judged((-0.01, 0.02)), judged((-0.02, 0.01)), 0.0),
    ],
)
def test_the_strength_gains_most_and_loses_nowhere(at_half: list[Judged], at_one: list[Judged], chosen: float) -> None:
    assert choose_strength({0.5: at_half, 1.0: at_one}) == chosen
