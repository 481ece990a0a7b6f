"""The set of calls of whole agents that the lab holds, and the benchmark that judges routers by it."""

import json
import os
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from benchmarks.agent_routes import ASKERS, CARDS, FILE, NOTES, QUICK_MUTANTS, read_routes, run, tables_of
from benchmarks.world import World, data_folder
from tests.fake_openai import fake_openai
from waygraph.api.cli.app import main
from waygraph.registry.model.settings import load_settings

SHARED = data_folder(os.environ)
"""As it is before a test begins, which has variables of its own."""


def turns() -> list[dict[str, Any]]:
    return [turn for line in FILE.read_text(encoding="utf-8").splitlines() for turn in json.loads(line)["turns"]]


def called() -> list[str]:
    return [turn["agent"] for turn in turns() if turn["role"] == "call"]


@pytest.fixture
def world(tmp_path: Path) -> World:
    """Cards of the same ids, which say little."""
    cards = [
        {"id": each, "type": "a2a", "name": each, "description": f"Knows number {at}", "metadata": {}}
        for at, each in enumerate(sorted({agent for agent in called() if agent.startswith("agent_")}))
    ]
    (tmp_path / CARDS).parent.mkdir()
    (tmp_path / CARDS).write_text(json.dumps(cards))
    return World(settings=load_settings(), environ=os.environ, data=tmp_path, cache=tmp_path / "cache", quick=True)


def test_each_call_is_of_an_agent_that_there_is(world: World) -> None:
    """More calls and agents than in the paper's set; some fail, and no conversation stands twice."""
    dataset = read_routes(replace(world, quick=False))
    assert len(dataset.questions) == len(called()) == 165
    assert {agent for question in dataset.questions for item in question.need.gold for agent in item} == set(called())
    assert sum(turn.get("outcome") == "failed" for turn in turns()) == 7
    assert all(question.need.gold_tools == () for question in dataset.questions)
    texts = [turn["text"] for turn in turns() if turn["role"] == "user"]
    assert len(set(texts)) == len(texts)


@pytest.mark.skipif(not (SHARED / CARDS).is_file(), reason="the shared data are not here")
def test_the_cards_are_those_of_the_shared_data(world: World) -> None:
    assert read_routes(replace(world, data=SHARED)).questions


def test_a_router_is_judged_by_what_it_knows(world: World) -> None:
    """With a model the agents are put in order by it: with results, without them, and without any turn."""
    with fake_openai() as fake:
        fake.answer = last_first
        asked = replace(world, model="openai:r", environ=fake.environ)
        result = run(asked)
    rows = [row["method"] for row in result.details["tables"][0]["rows"]]
    assert [row for row in rows if "openai:r" in row] == [f"hybrid + openai:r, {label}" for label in ASKERS.values()]
    values = {measure.name: measure.value for measure in result.measures}
    assert len(values) == 2 * len(rows)
    assert sum(name.startswith(f"agent_routes +{QUICK_MUTANTS} mutants, ") for name in values) == len(rows)
    hybrid, router = ([value for name, value in values.items() if f"{of}, no" in name] for of in ("hybrid", "openai:r"))
    assert all(0 < value <= 1 for value in hybrid)
    assert router[0] < hybrid[0], "it put the last one first"
    histories = [history for request in fake.requests if (history := history_of(request))]
    assert any("result" in turn for history in histories for turn in history)
    assert len(histories) < len(fake.requests)
    assert tables_of(result.details).count("\n") == len(values) + 1
    assert any("0.916" in note or "91.6%" in note for note in NOTES)
    assert run(replace(world, data=world.cache)).skipped


def last_first(request: dict[str, Any]) -> str:
    candidates = json.loads(request["messages"][1]["content"])["candidates"]
    return json.dumps([each["id"] for each in reversed(candidates)])


def history_of(request: dict[str, Any]) -> list[dict[str, str]]:
    history: list[dict[str, str]] = json.loads(request["messages"][1]["content"]).get("history", [])
    return history


def test_samples_are_made_of_calls_of_agents(world: World, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """`--level agents` takes each; tools are routed to by none."""
    folder, agents = tmp_path / "routes", sorted(set(called()))
    folder.mkdir()
    (folder / "agents.jsonl").write_text(
        "".join(json.dumps({"id": each, "tools": [{"name": "t"}]}) + "\n" for each in agents)
    )
    (folder / FILE.name).write_bytes(FILE.read_bytes())
    for level, count in (("agents", 165), ("tools", 0)):
        words = ["generate", "router-data", str(folder), str(tmp_path / "samples.jsonl"), "--level", level, "--json"]
        assert main(["--embedder", "none", *words]) == 0
        assert json.loads(capsys.readouterr().out)["samples"] == count
