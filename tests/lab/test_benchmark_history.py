"""The benchmark of routing with history: its baselines by hand, and that small sets go all the way to tables."""

import json
import os
import re
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from benchmarks.history import benchmark
from benchmarks.history.conversations import LEFT_OUT, PARTS, TYPED, best_elsewhere
from benchmarks.history.next_calls import METHODS, Counts, Decision, Learnt, Level, blend, judge, shuffle_names
from benchmarks.history.steps import BY_FOLDS, KNOWN
from benchmarks.record import as_record
from benchmarks.world import World
from waygraph.registry.model.settings import load_settings

TALKS = [["a/1", "a/2", "b/1"], ["a/1", "b/1"], ["a/1", "a/2"]]


def decision(tool: str, calls: Sequence[str] = ()) -> Decision:
    """The request fits b best, the last two turns fit a best."""
    alone: dict[Level, dict[str, float]] = {
        "agents": {"a": 1.0, "b": 3.0},
        "tools": {"a/1": 1.0, "b/1": 2.0, "a/2": 1.0},
    }
    joined: dict[Level, dict[str, float]] = {"agents": {"a": 3.0, "b": 1.0}, "tools": {"a/2": 2.0, "b/1": 1.0}}
    return Decision(id="d", fold=0, tool=tool, calls=tuple(calls), alone=alone, joined=joined)


def test_chances_are_interpolated_by_witten_and_bell() -> None:
    """Three starts with a/1; after it a/2 twice and b/1 once; of all seven calls 3, 2, 2."""
    chances = Counts(TALKS, 1).chances(["a/1"])
    unigram = {"a/1": 3 / 10, "a/2": 2 / 10, "b/1": 2 / 10}  # 3 distinct of 7 calls
    assert chances == pytest.approx(
        {"a/1": unigram["a/1"] * 2 / 5, "a/2": unigram["a/2"] * 2 / 5 + 2 / 5, "b/1": unigram["b/1"] * 2 / 5 + 1 / 5}
    )
    second = Counts(TALKS, 2)
    assert max(second.chances(["a/1", "a/2"]), key=second.chances(["a/1", "a/2"]).__getitem__) == "b/1"
    assert Counts([], 1).chances(["a/1"]) == {}
    assert Counts(TALKS, 1).chances(["new/1"]) == pytest.approx(unigram)


def test_a_blend_is_of_shares() -> None:
    assert blend({"x": 3.0, "y": 1.0}, {"y": 0.5, "z": 0.5}, 0.5) == pytest.approx({"x": 0.375, "y": 0.375, "z": 0.25})
    assert blend({}, {"z": 1.0}, 0.1) == pytest.approx({"z": 0.1})


@pytest.mark.parametrize(
    ("name", "agents", "tools"),
    [
        ("request alone", ["b", "a"], ["b/1", "a/1", "a/2"]),
        ("last two turns", ["a", "b"], ["a/2", "b/1"]),
        ("same as last call, then request", ["a", "b"], ["a/1", "a/2", "b/1"]),
        ("Markov-1 alone", ["a", "b"], ["a/2", "b/1", "a/1"]),
    ],
)
def test_methods_rank_by_what_they_say(name: str, agents: list[str], tools: list[str]) -> None:
    method = next(each for each in METHODS if each.name == name)
    learnt, made = Learnt.of(TALKS), decision("a/2", ["a/1"])
    assert method.rank(made, learnt, "agents") == agents
    assert method.rank(made, learnt, "tools") == tools


def test_first_calls_stays_and_switches_are_told_apart() -> None:
    """The request alone ranks b/1 first: right on the switch, wrong on the others, second at agent a."""
    decisions = [decision("a/2"), decision("a/2", ["a/1"]), decision("b/1", ["a/1"])]
    assert judge([decision("b/1", ["b/1"])], lambda *_: ["b/1"], None)["again"] == 1.0
    row = judge(decisions, lambda made, level: METHODS[0].rank(made, Learnt.of([]), level), lambda _: "one family")
    assert row == {
        "A@1": 0.3333,
        "A@3": 1.0,
        "A MRR": 0.6667,
        "T@1": 0.3333,
        "T@3": 1.0,
        "first": 0.0,
        "stay": 0.0,
        "switch": 1.0,
        "again": None,
        "family": 1.0,
    }


def test_shuffled_names_keep_stays_and_mean_nothing() -> None:
    shuffled = shuffle_names(TALKS, 1)
    assert [[name.partition("/")[0] for name in calls] for calls in shuffled] == [
        ["b", "b", "a"],
        ["b", "a"],
        ["b", "b"],
    ]
    assert {name for calls in shuffled for name in calls} <= {name for calls in TALKS for name in calls}


def test_shares_are_chosen_on_other_families() -> None:
    worths = {"f": [0.1, 0.9], "g": [0.9, 0.1], "h": [0.3, 0.2]}
    assert [best_elsewhere(worths, family) for family in worths] == [0, 1, 0]


AGENTS = [
    {"id": "mail-1", "description": "Sends letters", "tools": [{"name": "send", "description": "Sends a letter"}]},
    {"id": "maps-1", "description": "Finds ways", "tools": [{"name": "route", "description": "The shortest way"}]},
]
ASKED = [("write a letter to Ada", "mail-1", "send"), ("how do I get to her?", "maps-1", "route")]


def write_talks(folder: Path, split: str) -> None:
    """Four conversations of two calls each, in the form of the shared data."""
    turns = [
        turn
        for text, agent, tool in ASKED
        for turn in (
            {"role": "user", "text": text},
            {"role": "call", "agent": agent, "tool": tool},
            {"role": "assistant", "text": "Done. Anything else?"},
        )
    ]
    splits = [split, "train" if split == "test" else split] * 2
    talks = [{"id": str(at), "turns": turns, "split": each} for at, each in enumerate(splits)]
    write_lines(folder, {"agents": AGENTS, "trajectories": talks})


def write_steps(folder: Path) -> None:
    """A question of two steps, in the product's own format."""
    steps = [{"text": text, "gold": [[agent]], "gold_tools": [[f"{agent}/{tool}"]]} for text, agent, tool in ASKED]
    write_lines(folder, {"agents": AGENTS, "queries": [{"id": 1, "text": "both", "gold": [], "steps": steps}]})


def write_lines(folder: Path, files: dict[str, list[dict[str, Any]]]) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    for name, records in files.items():
        (folder / f"{name}.jsonl").write_text("\n".join(map(json.dumps, records)), encoding="utf-8")


@pytest.fixture(scope="module")
def world(tmp_path_factory: pytest.TempPathFactory) -> World:
    data = tmp_path_factory.mktemp("data")
    write_steps(data / "livemcpbench")
    for part in PARTS:
        write_talks(data / "trajectories" / part.data, "test-unseen" if part.data == "sgd-dev" else "test")
    return World(settings=load_settings(), environ=os.environ, data=data, cache=data / "cache", quick=True)


@pytest.fixture(scope="module")
def record(world: World) -> dict[str, Any]:
    found: dict[str, Any] = json.loads(json.dumps(as_record(benchmark.run(world), "a test")))
    return found


def test_a_small_set_leaves_a_whole_record(record: dict[str, Any]) -> None:
    """Each part by every method, the steps by every history, each catalogue with and without, and the time."""
    details = record["details"]
    assert [part["part"] for part in details["parts"]] == [part.label for part in PARTS]
    methods = [row["method"] for row in details["parts"][0]["rows"]]
    assert methods[: len(METHODS)] == [method.name for method in METHODS]
    assert {TYPED, LEFT_OUT} < set(methods)
    assert len(set(methods)) == len(methods)
    assert [row["history"] for row in details["steps"]] == [*KNOWN, BY_FOLDS]
    mutated = details["noise"][-1]["catalogue"]
    assert re.fullmatch(r"\+\d+ mutated by rules", mutated)
    assert [row["catalogue"] for row in details["noise"]] == ["Clean", "LiveMCPBench", "+100 invented tools", mutated]
    assert sum("turns before it" in each["name"] for each in record["measures"]) == 2
    assert len({each["name"] for each in record["measures"]}) == len(record["measures"])


def test_the_record_becomes_tables(record: dict[str, Any]) -> None:
    tables = benchmark.tables_of(record["details"])
    for part in record["details"]["parts"]:
        assert f"The next call, {part['part']}, {part['decisions']} decisions (" in tables
    assert "| +100 invented tools |" in tables
    assert "| router, 8B | 0.42 | 0.42 | 0.84 |" in tables
