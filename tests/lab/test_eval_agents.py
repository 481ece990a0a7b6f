"""`waygraph eval agents`: scripted models over a real socket, MCP servers of generated companies over another."""

import json
import signal
import subprocess
import sys
import threading
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from tests.docs.test_cli_pages import misfit
from tests.lab.agent_models import KEY, REFUSAL, TOKENS, AgentModels, agent_models
from tests.upstream.served import running
from waygraph.api.cli.app import main
from waygraph.api.mcp.meta_tools import instructions
from waygraph.ingest.pipeline import ingest
from waygraph.registry.model.identity import call_name
from waygraph.registry.registry import Registry
from waygraph_lab.datasets.folder import write_server_config
from waygraph_lab.evaluation.agents import score_in
from waygraph_lab.evaluation.asking import MOST_FAILURES
from waygraph_lab.scalemcp.companies import KINDS, Company, Kind, NoValue, company_value, read_companies
from waygraph_lab.scalemcp.company_servers import CompanyServers
from waygraph_lab.scalemcp.generate import Choices, generate

TASKS, TURNS = 6, 5
ROWS = "company,ticker,sector\n" + "".join(f"Firm{n} Holdings,F{n}X,Trade\n" for n in range(16))


@dataclass
class World:
    """A dataset, its servers, and an endpoint."""

    folder: Path
    models: AgentModels

    def measure(self, capsys: pytest.CaptureFixture[str], *words: str) -> dict[str, Any]:
        """The whole record, with its tasks; what is printed is the same without them."""
        path, options = self.folder.parent / "record.json", ["--tasks", str(TASKS), "--turns", str(TURNS)]
        capsys.readouterr()
        assert main(["eval", "agents", str(self.folder), *options, "-o", str(path), "--json", *words]) == 0
        record: dict[str, Any] = json.loads(path.read_bytes())
        shown = json.loads(capsys.readouterr().out)
        assert misfit(shown, "eval agents") == ""
        assert [outcome["scores"] for outcome in shown["outcomes"]] == [each["scores"] for each in record["outcomes"]]
        return record


@pytest.fixture(scope="module")
def companies(tmp_path_factory: pytest.TempPathFactory) -> tuple[Company, ...]:
    path = tmp_path_factory.mktemp("list") / "companies.csv"
    path.write_text(ROWS, encoding="utf-8")
    return read_companies(path)


@pytest.fixture(scope="module")
def served(tmp_path_factory: pytest.TempPathFactory, companies: tuple[Company, ...]) -> Iterator[Path]:
    """A dataset whose agents are served, a company each."""
    folder = tmp_path_factory.mktemp("agents") / "dataset"
    generate(folder, companies, Choices(layout="companies", instances=600, questions=3))
    servers = CompanyServers(companies, "companies")
    with running(servers) as base:
        write_server_config(folder, servers.urls(base))
        yield folder


@pytest.fixture
def world(served: Path, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Iterator[World]:
    lines = [json.loads(line) for line in (served / "queries.jsonl").read_text(encoding="utf-8").splitlines()]
    with agent_models() as models:
        models.right_tools = {
            line["text"]: [call_name(*item[0].split("/")) for item in line["gold_tools"]] for line in lines
        }
        for name, value in {
            "OPENAI_BASE_URL": models.url,
            "OPENAI_API_KEY": KEY,
            "WAYGRAPH_EMBEDDER": "none",
            "WAYGRAPH_DATA_DIR": str(tmp_path / "data"),
            "WAYGRAPH_CACHE_DIR": str(tmp_path / "cache"),
        }.items():
            monkeypatch.setenv(name, value)
        yield World(served, models)


def scores(outcome: Mapping[str, Any]) -> dict[str, float]:
    return {name: value for name, (value, _, _) in outcome["scores"].items()}


def test_each_model_gets_what_it_deserves(world: World, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Perfect 1, careless one of four, looping one call of all until the limit, refusing 0.

    Calls really run, and what they reach is not trusted after the run.
    """
    names = ("perfect", "careless", "looping", "refusing")
    options = [word for name in names for word in ("--model", name)]
    record = world.measure(capsys, *options, "--judge", "judge", "--recipe", "lexical")
    outcomes = {outcome["model"]: outcome for outcome in record["outcomes"]}
    assert list(outcomes) == list(names)
    gold = [len(task["gold_tools"]) for task in outcomes["perfect"]["tasks"]]
    partial = sum(1 / size for size in gold) / TASKS
    assert {name: scores(outcome) for name, outcome in outcomes.items()} == {
        "perfect": {"tool_correctness": 1.0, "gold_coverage": 1.0, "task_completion": 1.0},
        "careless": {
            "tool_correctness": 0.25,
            "gold_coverage": pytest.approx(partial, abs=1e-4),
            "task_completion": 0.0,
        },
        "looping": {
            "tool_correctness": pytest.approx(1 / (TURNS - 1)),
            "gold_coverage": pytest.approx(partial, abs=1e-4),
            "task_completion": 0.0,
        },
        "refusing": {"tool_correctness": 0.0, "gold_coverage": 0.0, "task_completion": 0.0},
    }
    assert [outcome["endings"]["out of turns"] for outcome in outcomes.values()] == [0, 0, TASKS, 0]
    assert outcomes["looping"]["costs"]["turns"] == TURNS
    assert outcomes["looping"]["costs"]["calls"] == TURNS - 1
    assert outcomes["perfect"]["costs"]["calls"] == pytest.approx(sum(gold) / TASKS, abs=1e-3)
    assert outcomes["perfect"]["costs"]["prompt_tokens"] == 3 * TOKENS["prompt_tokens"]
    assert {task["answer"] for task in outcomes["refusing"]["tasks"]} == {REFUSAL}
    assert not list((tmp_path / "data").glob("*"))
    results = [json.loads(call["result"]) for task in outcomes["perfect"]["tasks"] for call in task["calls"]]
    assert all(result["company"].startswith("Firm") for result in results)


def test_arguments_must_fit_the_schema(world: World, capsys: pytest.CaptureFixture[str]) -> None:
    """Only the right tools without parameters take them; the others are not asked."""
    (outcome,) = world.measure(capsys, "--model", "sloppy", "--recipe", "lexical")["outcomes"]
    kinds = {task["id"]: [item[0].endswith("_price") for item in task["gold_tools"]] for task in outcome["tasks"]}
    shares = {name: sum(fits) / len(fits) for name, fits in kinds.items()}
    assert 0 < sum(shares.values()) < TASKS
    assert {task["id"]: task["tool_correctness"] for task in outcome["tasks"]} == pytest.approx(shares, abs=1e-4)


def test_found_tools_are_bound_in_openais_form(world: World, capsys: pytest.CaptureFixture[str]) -> None:
    """First find_tools alone; from the search on the tools found too, each once, with its schema."""
    world.measure(capsys, "--model", "perfect", "--recipe", "lexical", "--at-once", "1")
    first, second = ([tool["function"] for tool in request["tools"]] for request in world.models.requests[:2])
    assert [tool["name"] for tool in first] == ["find_tools"]
    names = [tool["name"] for tool in second]
    assert names[0] == "find_tools"
    assert len(set(names)) == len(names) > 1
    assert all(tool["parameters"]["type"] == "object" for tool in second)
    assert {request["temperature"] for request in world.models.requests} == {0}


def test_each_way_of_finding_is_tried_and_nobody_judges_unasked(
    world: World, capsys: pytest.CaptureFixture[str]
) -> None:
    record = world.measure(capsys, "--model", "perfect")
    assert [outcome["retrieval"] for outcome in record["outcomes"]] == ["lexical", "tools", "hybrid"]
    assert {outcome["judged"] for outcome in record["outcomes"]} == {0}
    assert all("task_completion" not in outcome["scores"] for outcome in record["outcomes"])
    assert main(["eval", "agents", str(world.folder), "--model", "refusing", "--tasks", "2"]) == 0
    assert "not judged" in capsys.readouterr().out


def test_calls_that_are_none_are_told_and_count_as_wrong(world: World, capsys: pytest.CaptureFixture[str]) -> None:
    """Arguments that are no JSON or no object, names of tools not found or of none: the task goes on."""
    (outcome,) = world.measure(capsys, "--model", "confused", "--recipe", "lexical")["outcomes"]
    assert outcome["endings"] == {"answered": TASKS, "out of turns": 0, "failed": 0}
    assert scores(outcome) == {"tool_correctness": 0.0, "gold_coverage": 0.0}
    assert outcome["costs"]["searches"] == outcome["costs"]["calls"] == 3
    assert all(call["result"].startswith("Error: ") for task in outcome["tasks"] for call in task["calls"])


def test_a_judge_without_a_score_judges_nothing(world: World, capsys: pytest.CaptureFixture[str]) -> None:
    """One that answers in words, and one that there is not: each is reported."""
    for judge, reason in (("vague", "it answered no score"), ("absent", "127.0.0.1 refuses to answer (404)")):
        (outcome,) = world.measure(capsys, "--model", "perfect", "--judge", judge, "--recipe", "lexical")["outcomes"]
        assert (outcome["judged"], sum(outcome["unjudged"].values())) == (0, TASKS)
        assert all(told.startswith(reason) for told in outcome["unjudged"])
        assert "task_completion" not in outcome["scores"]
    assert main(["eval", "agents", str(world.folder), "--model", "perfect", "--judge", "vague", "--tasks", "2"]) == 0
    assert "perfect, hybrid: vague did not judge 2 of 2 tasks: it answered no score" in capsys.readouterr().err


def test_a_router_gives_one_tool_and_runs_it(world: World, capsys: pytest.CaptureFixture[str]) -> None:
    """The model has route and execute as the gateway lists them, and nothing else however much it found."""
    options = ["--surface", "router", "--recipe", "lexical", "--model", "routed", "--model", "unrouted"]
    routed, unrouted = world.measure(capsys, *options)["outcomes"]
    assert scores(routed) == {"tool_correctness": 1.0, "gold_coverage": 1.0}
    assert (routed["surface"], routed["costs"]["turns"]) == ("router", 3)
    listed = {json.dumps(request["tools"]) for request in world.models.requests}
    assert [tool["function"]["name"] for tool in json.loads(listed.pop())] == ["route", "execute"]
    assert not listed
    assert all(instructions("router") in each["messages"][0]["content"] for each in world.models.requests)
    asked = [request for request in world.models.requests if request["model"] == "routed"]
    texts = {message["content"] for each in asked for message in each["messages"] if message["role"] == "tool"}
    told = [json.loads(text) for text in texts if text.startswith("{")]
    tools = [answer["tool"] for answer in told if "tool" in answer]
    assert tools
    assert all(tool["inputSchema"]["type"] == "object" and tool["agent"] for tool in tools)
    assert scores(unrouted) == {"tool_correctness": 0.0, "gold_coverage": 0.0}
    results = [call["result"] for task in unrouted["tasks"] for call in task["calls"]]
    assert len(results) == 4 * TASKS
    assert all(result.startswith("Error: ") for result in results)


def test_a_router_gives_another_tool_after_two_failures(world: World, capsys: pytest.CaptureFixture[str]) -> None:
    """As the gateway does: the tool that the query names comes first until its calls have failed twice."""
    world.measure(capsys, "--surface", "router", "--recipe", "lexical", "--model", "stubborn")
    pairs = []
    for request in world.models.requests:
        texts = [each["content"] for each in request["messages"] if each["role"] == "tool"]
        routes = [
            answer["tool"]["name"] for text in texts if text.startswith('{"tool"') for answer in [json.loads(text)]
        ]
        pairs += [routes] if len(routes) == 2 else []
    assert {first.endswith("_price") for first, _ in pairs} == {False, True}
    assert all((first == other) == first.endswith("_price") for first, other in pairs), "which takes any arguments"


def test_react_has_all_tools_in_its_prompt(world: World, capsys: pytest.CaptureFixture[str]) -> None:
    """In plain text, beside the router by the same executor: each is a row of ToolACE-MCP's Table 1."""
    options = ["--surface", "react", "--surface", "router", "--recipe", "lexical", "--turns", "12"]
    models = ["--model", "reacting", "--model", "routed", "--model", "mumbling", "--judge", "judge"]
    outcomes = world.measure(capsys, *options, *models)["outcomes"]
    rows = {(each["model"], each["surface"]): each for each in outcomes}
    assert [each["row"] for each in outcomes[:2]] == ["Retrieval (lexical, Q+H)", "ReAct (reacting)"]
    react = rows["reacting", "react"]
    whole = {"tool_correctness": 1.0, "gold_coverage": 1.0, "task_completion": 1.0}
    assert scores(react) == scores(rows["routed", "router"]) == whole
    assert (react["retrieval"], react["costs"]["searches"]) == ("all tools", 0)
    asked = next(each for each in world.models.requests if "Thought:" in each["messages"][0]["content"])
    assert "tools" not in asked
    shown = [json.loads(line) for line in asked["messages"][0]["content"].splitlines() if line.startswith("{")]
    agents = [json.loads(line) for line in (world.folder / "agents.jsonl").read_text(encoding="utf-8").splitlines()]
    assert {each["name"] for each in shown} == {
        call_name(agent["id"], tool["name"]) for agent in agents for tool in agent["tools"]
    }
    assert all(each["parameters"]["type"] == "object" for each in shown)
    mumbled = rows["mumbling", "react"]["tasks"][0]
    assert [call["result"].partition(":")[0] for call in mumbled["calls"][:2]] == ["Error", "Error"]
    assert [call["correct"] for call in mumbled["calls"]] == [False, False, True]
    assert (mumbled["answer"], mumbled["ending"]) == ("Never mind.", "answered")


def test_runs_tell_how_far_they_differ(world: World, capsys: pytest.CaptureFixture[str]) -> None:
    """Of a model that does well in one of two runs: the mean is half, and the spread that of 1 and 0."""
    options = ["--model", "fickle", "--recipe", "lexical", "--runs", "2", "--temperature", "0.7", "--at-once", "1"]
    (outcome,) = world.measure(capsys, *options)["outcomes"]
    assert scores(outcome) == {"tool_correctness": 0.5, "gold_coverage": 0.5}
    assert outcome["spread"] == pytest.approx({"tool_correctness": 0.7071, "gold_coverage": 0.7071}, abs=1e-4)
    assert (outcome["asked"], outcome["runs"], outcome["temperature"]) == (2 * TASKS, 2, 0.7)
    assert [task["run"] for task in outcome["tasks"]] == [1] * TASKS + [2] * TASKS
    assert {request["temperature"] for request in world.models.requests} == {0.7}


@pytest.mark.parametrize("stage", [["--walk", "openai:guide"], ["--recipe", "lexical", "--rerank", "openai:guide"]])
def test_a_stage_that_fails_fails_the_task(
    stage: list[str], world: World, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """What hybrid would have found is no measure of a walk; where each task fails there is no record at all."""
    monkeypatch.setenv("WAYGRAPH_EMBEDDER", "")
    (whole,) = world.measure(capsys, "--model", "perfect", *stage)["outcomes"]
    assert (whole["failures"], scores(whole)["gold_coverage"]) == ({}, 1.0)
    first = whole["tasks"][0]["gold_tools"][0][0]
    world.models.refused = f'"request": "{call_name(*first.split("/"))}"'
    hit = [task["id"] for task in whole["tasks"] if [first] in task["gold_tools"]]
    (outcome,) = world.measure(capsys, "--model", "perfect", *stage)["outcomes"]
    failed = [task["id"] for task in outcome["tasks"] if task["ending"] == "failed"]
    assert set(hit) <= set(failed)
    assert 0 < len(failed) < TASKS
    assert sum(outcome["failures"].values()) == outcome["endings"]["failed"] == len(failed)
    assert all("404" in reason for reason in outcome["failures"])
    assert scores(outcome)["gold_coverage"] == pytest.approx(1 - len(failed) / TASKS, abs=1e-4)
    world.models.refused = "{"
    world.models.requests.clear()
    command = ["eval", "agents", str(world.folder), "--tasks", "40", "--at-once", "1", "--model", "perfect", *stage]
    assert main(command) == 1
    assert "no task got an answer" in capsys.readouterr().err
    assert sum(request["model"] == "perfect" for request in world.models.requests) == MOST_FAILURES


def test_what_was_paid_for_is_kept(world: World, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Of a model that dies after two tasks the rest is not tried; of one that never lived the others' record stays."""
    record = tmp_path / "kept.json"
    world.models.lives["dying"] = 2 * 3
    command = ["eval", "agents", str(world.folder), "--tasks", "12", "--at-once", "1", "--recipe", "lexical"]
    assert main([*command, "--model", "dying", "--model", "absent", "--model", "perfect", "-o", str(record)]) == 1
    assert "error: no task got an answer: 127.0.0.1 refuses to answer (404)" in capsys.readouterr().err
    (dying,) = json.loads(record.read_bytes())["outcomes"]
    assert scores(dying)["gold_coverage"] == pytest.approx(2 / 12, abs=1e-4)
    untried = 12 - 2 - MOST_FAILURES
    assert sorted(dying["failures"].values()) == sorted([MOST_FAILURES, untried])
    assert dying["failures"]["not tried, as 5 failed in a row"] == untried
    assert sum(request["model"] == "dying" for request in world.models.requests) == 2 * 3 + MOST_FAILURES
    assert not any(request["model"] == "perfect" for request in world.models.requests)


def test_a_killed_run_goes_on(world: World, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """By the installed command, killed while a task waits: that one and the later ones are tried, no other.

    What it costs is told before and after, and a judge that comes later judges what was kept.
    """
    lines, waits, killed = tmp_path / "lines.jsonl", threading.Event(), threading.Event()
    options = ["--tasks", str(TASKS), "--turns", str(TURNS), "--recipe", "lexical", "--lines", str(lines)]
    command = ["eval", "agents", str(world.folder), "--model", "perfect", "--at-once", "1", *options]
    texts: list[str] = []

    def wait_with_fourth(request: Mapping[str, Any]) -> None:
        if (text := request["messages"][1]["content"]) not in texts:
            texts.append(text)
        if len(texts) == 4:
            waits.set()
            killed.wait(60)

    world.models.before = wait_with_fourth
    with subprocess.Popen(
        [sys.executable, "-m", "waygraph", *command], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
    ) as process:
        try:
            assert waits.wait(60)
        finally:
            process.kill()
            killed.set()
    done = [json.loads(line)["text"] for line in lines.read_text(encoding="utf-8").splitlines()]
    assert done == texts[:3]
    world.models.before = lambda _: None
    world.models.requests.clear()
    (outcome,) = world.measure(capsys, *command[3:])["outcomes"]
    assert scores(outcome) == {"tool_correctness": 1.0, "gold_coverage": 1.0}
    assert outcome["costs"]["prompt_tokens"] == 3 * TOKENS["prompt_tokens"]
    asked = {request["messages"][1]["content"] for request in world.models.requests}
    assert len(asked - set(done)) == len(asked) == TASKS - 3
    world.models.requests.clear()
    assert main([*command, "--json"]) == 0
    told = capsys.readouterr().err
    assert world.models.requests == []
    assert f"{TASKS} tasks were not tried again; the lines are in {lines}" in told
    (judged,) = world.measure(capsys, *command[3:], "--judge", "judge")["outcomes"]
    assert scores(judged)["task_completion"] == 1.0
    assert [request["model"] for request in world.models.requests] == ["judge"] * TASKS
    lines.unlink()
    assert main([*command, "--json"]) == 0
    told = capsys.readouterr().err
    assert f"estimate for {TASKS} queries: {3 * TASKS} calls, " in told
    assert f"asked: {3 * TASKS} calls, {3 * TASKS * TOKENS['prompt_tokens']:,} + " in told


def test_noise_stands_beside_the_right_tools(world: World, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Variants of the dataset's own tools, and tools of another catalogue: found, never right, and run by nobody."""
    tool = {"name": "current_stock_price", "description": "The price of a stock of any firm holdings, net income too"}
    agent = {"id": "stranger", "name": "stranger", "description": "Stocks of all firms", "tools": [tool]}
    (tmp_path / "agents.jsonl").write_text(json.dumps(agent) + "\n", encoding="utf-8")
    noises = ("none", "mutation", f"external:{tmp_path}")
    options = [word for noise in noises for word in ("--noise", noise)]
    outcomes = world.measure(capsys, "--model", "tempted", "--recipe", "lexical", "--limit", "50", *options)["outcomes"]
    calls = {each["noise"]: [call for task in each["tasks"] for call in task["calls"]] for each in outcomes}
    assert list(calls) == list(noises)
    assert not calls["none"]
    assert any("variants/" in call["tool"] for call in calls["mutation"])
    assert {call["tool"] for call in calls[noises[2]]} == {"stranger/current_stock_price"}
    for call in (*calls["mutation"], *calls[noises[2]]):
        assert (call["correct"], call["result"][:7]) == (False, "Error: ")
    for wrong in ("mutations", "external", "external:"):
        assert main(["eval", "agents", str(world.folder), "--model", "perfect", "--noise", wrong]) == 2
        assert "expected none, external:SOURCE, mutation or mutation:DIR" in capsys.readouterr().err


def test_what_cannot_be_measured_is_refused(
    world: World, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """No such model, no servers, servers that are gone, no endpoint: an error, and no record."""
    command = ["eval", "agents", str(world.folder), "--tasks", "2", "--recipe", "lexical"]
    assert main([*command, "--model", "absent"]) == 1
    assert "no task got an answer" in capsys.readouterr().err
    other = tmp_path / "other"
    other.mkdir()
    for name in ("agents.jsonl", "queries.jsonl"):
        (other / name).write_bytes((world.folder / name).read_bytes())
    assert main(["eval", "agents", str(other), "--model", "perfect"]) == 1
    assert "mcp.json: is not there" in capsys.readouterr().err
    write_server_config(other, {f"firm{n}_holdings": "http://127.0.0.1:9/mcp" for n in range(2)})
    assert main(["eval", "agents", str(other), "--model", "perfect"]) == 1
    for name in ("OPENAI_BASE_URL", "OPENAI_API_KEY"):
        monkeypatch.delenv(name)
    assert main([*command, "--model", "perfect"]) == 2
    assert "no endpoint of a language model is configured" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("answer", "score"),
    [
        ('{"score": 0.5, "reason": "half"}', 0.5),
        ('```json\n{"score": 1}\n```', 1.0),
        ('{"score": 1.5}', None),
        ('{"score": true}', None),
        ('{"score": NaN}', None),
        ("[1]", None),
        ("very good", None),
    ],
)
def test_a_score_is_a_number_from_0_to_1(answer: str, score: float | None) -> None:
    assert score_in(answer) == score


def test_values_are_the_companys_own_and_fit_each_other(companies: Sequence[Company]) -> None:
    """The same at each call, another company's differ; the history ends at the price, the targets are in order."""
    arguments = {"timeline": "d", "target_type": "mean"}
    for kind in KINDS:
        values = [company_value(company, kind, arguments) for company in companies]
        assert values == [company_value(company, kind, arguments) for company in companies]
        assert len({json.dumps(value) for value in values}) == len(companies)
    for company in companies:
        price = company_value(company, "current_stock_price", {})["price"]
        assert company_value(company, "stock_price_history", {"timeline": "w"})["closes"][-1] == price
        low, mean, high = (
            company_value(company, "analyst_price_targets", {"target_type": name})["target"]
            for name in ("low", "mean", "high")
        )
        assert low <= mean <= high
        whole = company_value(company, "revenue", {})["revenue"]
        assert company_value(company, "revenue", {"year": 2022})["revenue"] == {"2022": whole["2022"]}
    wrongs: dict[Kind, dict[str, Any]] = {"stock_price_history": {"timeline": "y"}, "net_income": {"year": 1066}}
    for kind, wrong in wrongs.items():
        with pytest.raises(NoValue):
            company_value(companies[0], kind, wrong)


def test_generate_serves_every_agent_until_it_is_interrupted(tmp_path: Path) -> None:
    """The process writes mcp.json, `ingest` takes all of it, and Ctrl-C ends the process in order."""
    (tmp_path / "c.csv").write_text(ROWS, encoding="utf-8")
    words = ["generate", "scalemcp", "c.csv", "d", "--instances", "600", "--serve"]
    command = [sys.executable, "-m", "waygraph", *words]
    with subprocess.Popen(command, cwd=tmp_path, stderr=subprocess.PIPE, text=True) as process:
        try:
            assert process.stderr
            assert process.stderr.readline().startswith(f"note: {16 * len(KINDS)} MCP servers at http://127.0.0.1:")
            with Registry.open(":memory:", embedder="none") as registry:
                (report,) = ingest(registry, tmp_path / "d" / "mcp.json")
                assert (len(report.changes.created_agents), report.changes.rejected) == (16 * len(KINDS), ())
                lines = (tmp_path / "d" / "agents.jsonl").read_text(encoding="utf-8").splitlines()
                agents = [json.loads(line) for line in lines]
                assert {tool.id for tool in registry.tools()} == {
                    f"{agent['id']}/{tool['name']}" for agent in agents for tool in agent["tools"]
                }
            process.send_signal(signal.SIGINT)
            assert process.wait(20) == 0
        finally:
            process.kill()
