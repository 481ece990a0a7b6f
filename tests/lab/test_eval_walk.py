"""`waygraph eval` of a user's own data: a tree is built, and a scripted model behind a socket walks it."""

import json
import subprocess
import sys
import threading
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

from tests.docs.test_cli_pages import misfit
from tests.fake_openai import USAGE, FakeOpenAI, fake_openai
from waygraph.api.cli.app import main

AGENTS: Mapping[str, Mapping[str, str]] = {
    "skyfare": {"search_flights": "Find flights between two cities", "book_seat": "Reserve a seat on a flight"},
    "railgo": {"find_trains": "Find trains between two stations", "buy_ticket": "Buy a train ticket"},
    "staywell": {"search_hotels": "Find hotel rooms in a city", "book_room": "Reserve a hotel room"},
    "ledger": {"create_invoice": "Write an invoice for a customer", "pay_bill": "Pay a bill from an account"},
    "taxmate": {"compute_vat": "Compute value added tax of an amount", "file_return": "File a tax return"},
    "coinflow": {"exchange_rate": "Tell the exchange rate of two currencies", "convert": "Convert an amount of money"},
    "garden": {"water_plan": "Plan when to water plants", "identify_plant": "Name a plant in a picture"},
    "chef": {"find_recipe": "Find recipes for some ingredients", "shopping_list": "Write a shopping list for a recipe"},
}
RIGHT: Mapping[str, str] = {
    "I need to fly from Oslo to Rome": "skyfare/search_flights",
    "get me a train ticket to Berlin": "railgo/buy_ticket",
    "a hotel room in Paris please": "staywell/search_hotels",
    "bill the customer for ten hours": "ledger/create_invoice",
    "how much tax is in this price": "taxmate/compute_vat",
    "what can I cook with leeks": "chef/find_recipe",
}
CATALOG = "catalog.json"
WALK = ["--walk", "openai:guide"]
MOST_FAILURES = 5


def dataset(folder: Path) -> Path:
    folder.mkdir()
    agents = [
        {
            "id": name,
            "name": name,
            "description": ". ".join(tools.values()),
            "tools": [{"name": tool, "description": about} for tool, about in tools.items()],
        }
        for name, tools in AGENTS.items()
    ]
    queries = [
        {"id": f"q{at}", "text": text, "gold": [[tool.partition("/")[0]]], "gold_tools": [[tool]]}
        for at, (text, tool) in enumerate(RIGHT.items(), start=1)
    ]
    (folder / CATALOG).write_text(json.dumps({"waygraph": 1, "agents": agents}), encoding="utf-8")
    (folder / "dataset.json").write_text(json.dumps({"name": "own", "catalog": CATALOG}), encoding="utf-8")
    (folder / "queries.jsonl").write_text("".join(json.dumps(row) + "\n" for row in queries), encoding="utf-8")
    return folder


def open_all_select_right(request: Mapping[str, Any]) -> str:
    """Every category, and the right agent or tool of a group."""
    told = json.loads(request["messages"][1]["content"])
    right = next(tool for text, tool in RIGHT.items() if text in told["request"])
    names = [row["name"] for row in told["choices"]]
    are_services = not {*AGENTS, *(tool for tools in AGENTS.values() for tool in tools)}.isdisjoint(names)
    chosen = [n for n, name in enumerate(names, start=1) if name in right.split("/")]
    return json.dumps({"numbers": chosen if are_services else [*range(1, len(names) + 1)]})


@dataclass
class Own:
    """The data, the registry with its trees, and the endpoint."""

    folder: Path
    registry: str
    fake: FakeOpenAI
    capsys: pytest.CaptureFixture[str]
    errors: str = ""
    files: Path = field(init=False)

    def __post_init__(self) -> None:
        self.files = self.folder.parent

    def run(self, *words: str, status: int = 0) -> Any:
        """What is printed as JSON."""
        self.capsys.readouterr()
        self.fake.requests.clear()
        assert main(["--registry", self.registry, *words, "--json"]) == status
        shown = self.capsys.readouterr()
        self.errors = shown.err
        return json.loads(shown.out) if shown.out else None

    def evaluate(self, *words: str, status: int = 0) -> Any:
        shown = self.run("eval", str(self.folder), *words, status=status)
        if shown and "outcomes" in shown:
            assert misfit(shown, "eval run") == ""
        return shown

    def requests(self) -> set[str]:
        """The texts of the queries for which the model was asked."""
        return {json.loads(each["messages"][1]["content"])["request"] for each in self.fake.requests}

    def lines(self, name: str) -> list[dict[str, Any]]:
        return [json.loads(line) for line in (self.files / name).read_text(encoding="utf-8").splitlines()]


@pytest.fixture
def own(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Iterator[Own]:
    """Agents are ingested, and sorted by a tree of agents and one of tools."""
    with fake_openai() as fake:
        fake.answer = open_all_select_right
        environ = {**fake.environ, "WAYGRAPH_OPENAI_RETRIES": "0"}
        for name, value in environ.items():
            monkeypatch.setenv(name, value)
        world = Own(dataset(tmp_path / "data"), str(tmp_path / "r.grafeo"), fake, capsys)
        world.run("ingest", str(world.folder / CATALOG))
        for of in ("tools", "agents"):
            world.run("taxonomy", "build", "--name", f"by-{of}", "--of", of, "--leaf-size", "3")
        yield world


def test_the_cost_is_told_the_tree_walked_and_nothing_asked_twice(own: Own) -> None:
    """A dry run asks nothing; a run walks once a query, at agents and tools; the same again has all it needs."""
    words = [*WALK, "--taxonomy", "by-agents", "--lines", str(own.files / "lines.jsonl")]
    (estimate,) = own.evaluate(*words, "--dry-run")["estimates"]
    assert own.fake.requests == []
    assert (estimate["queries"], estimate["kept"]) == (len(RIGHT), 0)
    assert not (own.files / "lines.jsonl").exists()

    record = own.evaluate(*words, "--recipe", "taxonomy", "--recipe", "hybrid", "--set-size", "2")
    walked, hybrid = record["outcomes"]
    asked = len(own.fake.requests)
    assert {request["model"] for request in own.fake.requests} == {"guide"}
    assert (walked["failures"], walked["judged"], walked["judged_tools"]) == ({}, len(RIGHT), len(RIGHT))
    sets = {name: mean for name, (mean, _, _) in walked["sets"].items()}
    cost = {"Calls": asked / len(RIGHT), "Tokens": asked * sum(USAGE.values()) / len(RIGHT)}
    assert sets == pytest.approx({"Hit": 1, "Recall": 1, "Precision": 1, "Size": 1, **cost}, abs=1e-3)
    assert {name: hybrid["sets"][name][0] for name in ("Size", "Calls", "Tokens")} == {
        "Size": 2,
        "Calls": 0,
        "Tokens": 0,
    }
    assert walked["agents"]["Recall@1"][0] == 1
    assert walked["tools"]["Recall@5"][0] == 1
    assert len(RIGHT) * 2 <= estimate["calls"] <= asked <= estimate["most_calls"]

    lines = own.lines("lines.jsonl")
    assert [line["id"] for line in lines if line["trial"] == "taxonomy"] == [f"q{n}" for n in range(1, len(RIGHT) + 1)]
    assert len(lines) == 2 * len(RIGHT)
    assert lines[0]["selected"] == lines[0]["gold"][0]
    assert (
        own.evaluate(*words, "--recipe", "taxonomy", "--recipe", "hybrid", "--set-size", "2")["outcomes"][0] == walked
    )
    assert own.fake.requests == []
    assert f"{2 * len(RIGHT)} queries were not asked again" in own.errors
    (estimate,) = own.evaluate(*words, "--dry-run")["estimates"]
    assert (estimate["kept"], estimate["calls"], estimate["prompt_tokens"]) == (len(RIGHT), 0, 0)


def test_a_tree_of_tools_is_judged_by_tools(own: Own) -> None:
    """From a file too, and one that is built here if none is named."""
    capsys = own.capsys
    assert main(["--registry", own.registry, "taxonomy", "export", "--name", "by-tools"]) == 0
    exported = own.files / "tools.json"
    exported.write_text(capsys.readouterr().out, encoding="utf-8")
    for words in (["--taxonomy", "by-tools"], ["--taxonomy", str(exported)], []):
        lines = own.files / f"{len(words)}{words[-1:] == [str(exported)]}.jsonl"
        (outcome,) = own.evaluate(*WALK, *words, "--lines", str(lines))["outcomes"]
        assert outcome["sets"]["Precision"][0] == 1
        assert {"/" in line["selected"][0] for line in own.lines(lines.name)} == {bool(words)}


def test_what_fails_counts_0_is_told_and_asked_again(own: Own) -> None:
    """A query that met an overloaded endpoint; the next run asks that one alone."""
    words = [*WALK, "--taxonomy", "by-agents", "--lines", str(own.files / "lines.jsonl")]
    own.fake.overloads = 1
    record = str(own.files / "record.json")
    (outcome,) = own.evaluate(*words, "-o", record)["outcomes"]
    (reason,) = outcome["failures"]
    assert outcome["withheld"] == 0
    assert "no walk: 127.0.0.1 still answers 429" in reason
    assert outcome["failures"][reason] == 1
    share = 1 - 1 / len(RIGHT)
    for level, metric in (("agents", "Recall@1"), ("agents", "nDCG@5"), ("tools", "Recall@5"), ("sets", "Hit")):
        assert outcome[level][metric][0] == pytest.approx(share, abs=1e-4)
    assert f"1 of {len(RIGHT)} queries failed and count 0" in own.errors
    assert [line["id"] for line in own.lines("lines.jsonl") if line["failure"]] == ["q1"]
    for reader in (["table", record], ["diff", record, record]):
        own.run("eval", *reader)
        assert f"1 of {len(RIGHT)} queries failed and count 0: {reason}" in own.errors

    (outcome,) = own.evaluate(*words)["outcomes"]
    assert (outcome["failures"], outcome["sets"]["Hit"][0]) == ({}, 1)
    assert own.requests() == {next(iter(RIGHT))}
    lines = own.lines("lines.jsonl")
    assert sorted(line["id"] for line in lines) == [f"q{n}" for n in range(1, len(RIGHT) + 1)]
    assert not any(line["failure"] for line in lines)


@pytest.mark.parametrize("option", ["--walk", "--rerank"])
def test_a_dead_endpoint_ends_the_run(own: Own, option: str) -> None:
    """After a few queries, not after all; nothing is measured, and what was answered before stays."""
    lines, record = own.files / "lines.jsonl", own.files / "record.json"
    words = [option, "openai:guide", "--lines", str(lines)]
    own.fake.overloads = 10_000
    assert own.evaluate(*words, "-o", str(record), status=1) is None
    assert len(own.fake.requests) <= MOST_FAILURES
    assert "still answers 429" in own.errors
    assert not record.exists()
    (hybrid,) = own.evaluate("--recipe", "hybrid", "--recipe", "taxonomy", *WALK, status=1)["outcomes"]
    assert (hybrid["name"], hybrid["judged"]) == ("hybrid", len(RIGHT))
    assert all(line["failure"] for line in own.lines("lines.jsonl"))


def test_several_queries_are_asked_at_once(own: Own) -> None:
    """The first request is answered when another query's has come."""
    first, other = threading.Lock(), threading.Event()
    texts: set[str] = set()

    def answer(request: Mapping[str, Any]) -> str:
        texts.add(json.loads(request["messages"][1]["content"])["request"])
        if len(texts) > 1:
            other.set()
        elif first.acquire(blocking=False):
            assert other.wait(20)
        return open_all_select_right(request)

    own.fake.answer = answer
    (outcome,) = own.evaluate(*WALK, "--taxonomy", "by-agents", "--at-once", "3")["outcomes"]
    assert (outcome["failures"], outcome["sets"]["Hit"][0], other.is_set()) == ({}, 1, True)


def test_a_killed_run_goes_on(own: Own) -> None:
    """By the installed command, killed while a query waits: that one and the later ones are asked, no other."""
    lines, waits, late = own.files / "lines.jsonl", threading.Event(), [*RIGHT][3]
    words = [*WALK, "--taxonomy", "by-agents", "--lines", str(lines)]

    def wait_with_late(request: Mapping[str, Any]) -> str:
        if late in request["messages"][1]["content"]:
            waits.set()
            killed.wait(60)
        return open_all_select_right(request)

    own.fake.answer, killed = wait_with_late, threading.Event()
    command = [sys.executable, "-m", "waygraph", "--registry", own.registry, "eval", str(own.folder), *words]
    with subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL) as process:
        try:
            assert waits.wait(60)
        finally:
            process.kill()
            killed.set()
    assert [line["id"] for line in own.lines("lines.jsonl")] == ["q1", "q2", "q3"]
    own.fake.answer = open_all_select_right
    own.evaluate(*words)
    assert own.requests() == {*[*RIGHT][3:]}


def test_what_an_answer_depends_on_is_asked_anew(own: Own) -> None:
    """A line that was cut short, another text of a query, another mode, another tree; queries that are left out not."""
    lines, queries = own.files / "lines.jsonl", own.folder / "queries.jsonl"
    words = [*WALK, "--taxonomy", "by-agents", "--lines", str(lines)]
    own.evaluate(*words)
    lines.write_bytes(lines.read_bytes()[:-40])
    own.evaluate(*words)
    assert own.requests() == {[*RIGHT][-1]}
    queries.write_text(
        queries.read_text(encoding="utf-8").replace("Oslo to Rome", "Oslo to Rome now"), encoding="utf-8"
    )
    own.evaluate(*words)
    assert own.requests() == {f"{next(iter(RIGHT))} now"}
    own.evaluate(*words, "--tasks", "2")
    assert own.requests() == set()
    half = {"id": "q7", "text": "how much tax is in this price \ud83d", "gold": [["taxmate"]]}
    with queries.open("a", encoding="utf-8") as file:
        file.write(json.dumps(half) + "\n")
    for asked in (1, 0):
        own.evaluate(*words)
        assert len(own.requests()) == asked
    for change in (["--mode", "get_important"], ["--taxonomy", "by-tools"]):
        own.evaluate(*words, *change)
        assert len(own.requests()) == len(RIGHT) + 1


@pytest.mark.parametrize(
    ("words", "status", "error"),
    [
        (["--recipe", "hybrid", *WALK], 2, "which walks"),
        ([*WALK, "--taxonomy", "nothing"], 1, "nothing"),
        ([*WALK, "--taxonomy", "other.json"], 2, "holds none of the agents of this dataset"),
        ([*WALK, "--lines", "queries.jsonl"], 1, "holds no lines of `waygraph eval --lines`"),
        ([*WALK, "--lines", "queries.jsonl/x"], 1, "cannot be written"),
    ],
)
def test_what_cannot_be_is_refused_before_anything_is_asked(
    own: Own, words: list[str], status: int, error: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(own.folder)
    tree = {"id": "root", "name": "", "holds": {"stranger": "vectors"}, "children": [], "examples": []}
    rest = {"description": "", "boundary": "", "axis": "", "depth": 0}
    whole = own.run("taxonomy", "export", "--name", "by-agents") | {"categories": [tree | rest]}
    Path("other.json").write_text(json.dumps(whole), encoding="utf-8")
    assert own.evaluate(*words, status=status) is None
    assert error in own.errors
    assert own.fake.requests == []
