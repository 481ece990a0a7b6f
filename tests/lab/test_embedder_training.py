"""How an embedder that learned is put together and judged: no torch is needed for either."""

import sys
from pathlib import Path

import numpy as np
import pytest
from safetensors.numpy import load_file, save_file

from waygraph.registry.model.errors import InvalidSetting, MissingExtra
from waygraph.registry.routing.recipes import HYBRID
from waygraph_lab.evaluation.run import Judgement, Outcome, Trial
from waygraph_lab.training.embedder_training import (
    Pair,
    Training,
    interpolate,
    judge_outcomes,
    train,
)


@pytest.mark.parametrize("wrong", [{"epochs": 0}, {"batch": 1}, {"rate": -1}, {"layers": -1}, {"most_requests": 0}])
def test_a_training_that_cannot_be_is_refused(wrong: dict[str, float]) -> None:
    with pytest.raises(InvalidSetting, match=next(iter(wrong))):
        Training(**wrong)  # type: ignore[arg-type]


def test_without_torch_the_extra_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "torch", None)
    save_file({"a": np.zeros(1, np.float32)}, tmp_path / "model.safetensors")
    with pytest.raises(MissingExtra) as raised:
        train(tmp_path, [Pair("a", "b", ("c",))], Training(), tmp_path / "work")
    assert raised.value.extra == "train"


def test_interpolation_goes_from_the_base_to_the_trained_tensors(tmp_path: Path) -> None:
    """What was not trained stays; the other files are the base's."""
    base, tuned = tmp_path / "base", tmp_path / "tuned.safetensors"
    base.mkdir()
    (base / "config.json").write_text("{}")
    save_file({"a": np.array([0, 2], np.float32), "b": np.ones(1, np.float32)}, base / "model.safetensors")
    save_file({"a": np.array([4, 4], np.float32)}, tuned)
    for strength, expected in ((0.0, [0, 2]), (0.25, [1, 2.5]), (1.0, [4, 4])):
        written = interpolate(base, [tuned], strength, tmp_path / str(strength))
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
