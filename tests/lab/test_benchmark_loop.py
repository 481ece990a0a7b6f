"""The benchmark of tasks: that the judge reads the state, what counts as wrong, and that a run can be repeated."""

import json
import os
import re
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from http.server import BaseHTTPRequestHandler
from pathlib import Path
from typing import Any

import pytest

from benchmarks.__main__ import main
from benchmarks.gateway.tokens import open_counter
from benchmarks.loop.benchmark import (
    ALL_TOOLS,
    PUBLIC,
    SHIPPED,
    Run,
    Scale,
    distractors,
    measure,
    row_of,
    scales,
    tables_of,
)
from benchmarks.loop.minds import MINDS, Choice, ModelMind, Offer, ReActMind, Reader
from benchmarks.loop.tasks import Place, Step, is_left, read_tasks
from benchmarks.record import PROJECT
from benchmarks.world import World
from tests.http_doubles import Quiet, serving
from tests.live_servers import real_server
from waygraph.registry.language_model.endpoint import ChatModel
from waygraph.registry.model.settings import load_settings
from waygraph_lab.evaluation.asking import QueryFailed

TASKS = (
    "oslo",
    "draft",
    "three_cities",
    "rename",
    "two_branches",
    "two_facts",
    "track_two",
    "pickup",
    "basil",
    "commit",
)
"""Of every kind of state: rows of our own servers, what was only told, files, a repository, a graph, and nothing."""
WRONG = Choice("mail__send_mail", {"to": "eve@example.org", "subject": "Oops", "body": "Oops"})
HARMLESS = Choice("shop__search_products", {"query": "kettle"})


class Idle:
    """Does nothing."""

    def choose(self, *_: object) -> Choice | None:
        return None


class Careless:
    """Makes another call in place of the first right one."""

    def __init__(self, choice: Choice) -> None:
        self.choice = choice

    def choose(self, step: Step, offers: Sequence[Offer], failures: Sequence[str]) -> Choice | None:
        is_first = not step.say.startswith("current weather") or step.say == "current weather Lisbon"
        return self.choice if is_first else MINDS["oracle"].choose(step, offers, failures)


def world_at(folder: Path) -> World:
    return World(settings=load_settings(), environ=os.environ, data=folder / "none", cache=folder / "cache")


@pytest.fixture(scope="module")
def world(tmp_path_factory: pytest.TempPathFactory) -> World:
    folder = tmp_path_factory.mktemp("loop")
    for name in ("filesystem", "memory", "git", "time"):
        real_server(name, folder)  # the tests are skipped where one cannot be had
    return world_at(folder)


PROMPTS: list[str] = []
"""What the language model of `runs` was asked."""


@pytest.fixture(scope="module")
def runs(world: World) -> Mapping[tuple[str, str], Sequence[Run]]:
    minds = {**MINDS, "idle": Idle(), "wrong": Careless(WRONG), "harmless": Careless(HARMLESS)}
    with endpoint(call_current_weather) as url:
        model = ModelMind(ChatModel.open("m", load_settings(), {"OPENAI_BASE_URL": url}))
        react = ReActMind(ChatModel.open("react", load_settings(), {"OPENAI_BASE_URL": url}))
        scale = Scale(arms=(ALL_TOOLS, SHIPPED), minds={**minds, "model": model, "react": react})
        return measure(world, open_counter(world), scale, TASKS)


def solved(runs: Sequence[Run]) -> set[str]:
    return {run.task for run in runs if run.is_solved}


def test_the_right_calls_solve_a_task_and_nothing_else_does(runs: Mapping[tuple[str, str], Sequence[Run]]) -> None:
    assert solved(runs[ALL_TOOLS, "oracle"]) == set(TASKS)
    assert solved(runs[ALL_TOOLS, "idle"]) == {"basil"}, "nothing serves it, and nothing is done"
    assert solved(runs[ALL_TOOLS, "wrong"]) == set(), "a letter was sent that nobody wanted"
    assert solved(runs[ALL_TOOLS, "harmless"]) == {"basil"}, "to look something up changes no state"


def test_calls_are_counted_as_what_they_are(runs: Mapping[tuple[str, str], Sequence[Run]]) -> None:
    oracle = {run.task: run.tally for run in runs[ALL_TOOLS, "oracle"]}
    assert all(tally.wrong_calls == 0 for tally in oracle.values())
    assert {name: tally.calls for name, tally in oracle.items()} == {
        "oslo": 1,
        "draft": 1,
        "three_cities": 3,
        "rename": 1,
        "two_branches": 2,
        "two_facts": 2,
        "track_two": 3,  # the first one fails, and is made again
        "pickup": 1,
        "basil": 0,
        "commit": 3,
    }
    assert {run.task: run.tally.wrong_calls for run in runs[ALL_TOOLS, "wrong"]} == dict.fromkeys(TASKS, 1) | {
        "two_branches": 2,
        "two_facts": 2,
        "track_two": 2,
        "commit": 3,
    }
    reader = {run.task: run.tally for run in runs[SHIPPED, "reader"]}
    assert reader["pickup"].wrong_calls == 0, "who was asked for may be tried, though it is out of order"
    assert sum(tally.steps for tally in reader.values()) == 16
    assert all(tally.first <= tally.offered <= tally.steps for tally in reader.values())
    assert all(tally.tokens > 400 for tally in reader.values()), "the gateway's own list is read in each session"
    assert reader["oslo"].tokens < oracle["oslo"].tokens, "a list of all tools is longer"


def test_a_run_can_be_repeated(world: World, runs: Mapping[tuple[str, str], Sequence[Run]]) -> None:
    minds = {name: MINDS[name] for name in ("reader", "noisy reader")}
    again = measure(world, open_counter(world), Scale(arms=(SHIPPED,), minds=minds), TASKS)
    assert again == {(arm, mind): each for (arm, mind), each in runs.items() if (arm, mind) in again}
    rows = [row_of(Scale(), arm, mind, each) for (arm, mind), each in again.items()]
    assert [row["tasks"] for row in rows] == [len(TASKS)] * 2
    assert all(f"| {kind} " in tables_of({"rows": rows}) for kind in ("plain", "repeat", "nothing serves"))


def test_the_judge_wants_the_wanted_state_and_no_other() -> None:
    wanted = {"weather.json": {"current": [{"id": "cu1", "city": "Oslo"}]}, "files": {"a": "1"}}
    more = {"id": "cu1", "city": "Rome"}, {"id": "cu2", "city": "Oslo"}
    assert is_left(wanted, wanted)
    assert is_left({**wanted, "weather.json": {"current": list(more)}}, wanted), "a service may tell more"
    assert not is_left({**wanted, "weather.json": {"current": [more[0]]}}, wanted), "the wanted city is not there"
    assert not is_left({**wanted, "files": {"a": "2"}}, wanted)
    assert not is_left({**wanted, "mail.json": {"mails": [{"id": "ma1"}]}}, wanted), "what nobody wanted"


def test_a_place_is_as_at_first_again(tmp_path: Path) -> None:
    place = Place(tmp_path / "state")
    place.begin()
    first = place.state()
    (place.files / "welcome.txt").write_text("WELCOME\n")
    (place.repo / "new.txt").write_text("new")
    (place.folder / "mail.json").write_text("{}")
    assert place.state()["git"][2] == "?? new.txt\n"
    place.begin()
    assert place.state() == first
    assert first["git"] == ["begin\n", "* main\n", ""]


def test_there_are_sixty_tasks_of_one_to_six_calls(tmp_path: Path) -> None:
    tasks = read_tasks(Place(tmp_path))
    assert len({task.name for task in tasks}) == len(tasks) == 60
    assert {len(task.steps) for task in tasks} == {1, 2, 3, 4, 6}
    kinds = {task.kind for task in tasks}
    assert kinds == {"plain", "repeat", "chain", "switch", "fails, with a rival", "fails, no rival", "nothing serves"}


def test_distractors_are_public_tools_where_they_are_there(tmp_path: Path) -> None:
    """Whole agents, none named as one of the servers that are run; else invented ones."""
    invented = [entry for each in distractors(world_at(tmp_path), tmp_path, 50) for entry in each.entries]
    assert sum(len(entry.tools) for entry in invented) >= 50
    folder = tmp_path / "none" / PUBLIC
    folder.mkdir(parents=True)
    tools = [{"name": f"t{number}", "description": "d", "inputSchema": {"type": "object"}} for number in range(4)]
    agents = [{"id": name, "name": name, "description": name, "tools": tools} for name in ("Weather", *"abcdefgh")]
    (folder / "agents.jsonl").write_text("".join(json.dumps(each) + "\n" for each in agents))
    (folder / "queries.jsonl").write_text("")
    (folder / "dataset.json").write_text(json.dumps({"name": "toucan", "origin": "made up", "license": "none"}))
    first, again = ([each.entries for each in distractors(world_at(tmp_path), tmp_path, 10)] for _ in range(2))
    assert [len(entries) for entries in first] == [3]
    assert {entry.agent.name for entry in first[0]} < set("abcdefgh")
    assert first == again
    assert list(distractors(world_at(tmp_path), tmp_path, 0)) == []


def offer(name: str, *required: str, **types: str) -> Offer:
    properties = {parameter: {"type": kind} for parameter, kind in types.items()}
    return Offer(name, {"properties": properties, "required": required})


FITS, WIDE = offer("fits", "city", city="string"), offer("wide", place="string")
NARROW = offer("narrow", city="integer")


@pytest.mark.parametrize(
    ("offers", "failures", "name"),
    [
        ([NARROW, FITS, WIDE], [], "fits"),
        ([offer("more", "city", "date", city="string", date="string"), WIDE], [], "wide"),
        ([FITS, WIDE], ["fits"], "fits"),
        ([FITS, WIDE], ["fits", "fits"], "wide"),
        ([FITS, NARROW], ["fits", "fits"], "fits"),
        ([NARROW], [], ""),
    ],
    ids=("type", "required", "once more", "leaves", "no other", "none"),
)
def test_a_reader_takes_the_first_that_can_hold_the_values(
    offers: Sequence[Offer], failures: Sequence[str], name: str
) -> None:
    choice = Reader().choose(Step("weather", "fits", {"city|place": "Oslo"}), offers, failures)
    assert (choice.name if choice else "") == name


@contextmanager
def endpoint(answer: Callable[[Mapping[str, Any]], Mapping[str, Any]]) -> Iterator[str]:
    """Of a language model whose message is `answer` of the request."""

    class Endpoint(Quiet, BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            request = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
            message = {"role": "assistant", **answer(request)}
            body = json.dumps({"choices": [{"index": 0, "message": message}]}).encode()
            self.send_response(200)
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

    with serving(Endpoint) as address:
        yield f"{address}/v1"


def call(name: str, arguments: object) -> dict[str, Any]:
    function = {"name": name, "arguments": arguments if isinstance(arguments, str) else json.dumps(arguments)}
    return {"content": None, "tool_calls": [{"id": "1", "type": "function", "function": function}]}


def call_current_weather(request: Mapping[str, Any]) -> Mapping[str, Any]:
    """A model that knows the tool of the weather, and reads the city from what it is asked."""
    prompt, acts = request["messages"][1]["content"], request["model"] == "react"
    functions = request["messages"][0]["content"].splitlines() if acts else ()
    names = [json.loads(line)["name"] for line in functions if line.startswith("{")]
    names += [tool["function"]["name"] for tool in request.get("tools", ())]
    values = json.loads(prompt.partition("Values: ")[2].splitlines()[0])
    if acts and "weather__get_current" in names and "city" in values:
        return {"content": f"Action: weather__get_current\nAction Input: {json.dumps({'city': values['city']})}"}
    PROMPTS.append(prompt)
    if "weather__get_current" not in names or "city" not in values:
        return {"content": "none"}
    return call("weather__get_current", {"city": values["city"]})


def test_a_language_model_takes_part(runs: Mapping[tuple[str, str], Sequence[Run]]) -> None:
    assert solved(runs[ALL_TOOLS, "model"]) == {"oslo", "three_cities", "basil"}
    assert {"oslo", "basil"} <= solved(runs[SHIPPED, "model"])
    for arm in (ALL_TOOLS, SHIPPED):
        assert solved(runs[arm, "react"]) == solved(runs[arm, "model"]), "the same model by ReAct"
    assert PROMPTS[0] == 'What is the weather in Oslo now?\nValues: {"city": "Oslo"}'


NIGHT = TASKS[:6]


def measure_kept(folder: Path, url: str, jobs: int) -> Sequence[Run]:
    """A few tasks by a model over the list of all tools; the lines are in `folder`."""
    model = ModelMind(ChatModel.open("m", load_settings(), {"OPENAI_BASE_URL": url}))
    scale = Scale(arms=(ALL_TOOLS,), minds={"m": model})
    world = replace(world_at(folder), jobs=jobs, lines=folder)
    with world.asking("loop") as asking:
        return measure(world, open_counter(world), scale, NIGHT, asking)[ALL_TOOLS, "m"]


def test_a_killed_run_goes_on(world: World, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """In a process of its own, killed while the fourth task waits; the next run works on it and the later ones, two
    at once, and tells what both cost.
    """
    says = {task.name: task.steps[0].say for task in read_tasks(Place(tmp_path / "state"))}
    waits, killed = threading.Event(), threading.Event()
    waited = says[[name for name in says if name in NIGHT][3]]

    def answer(request: Mapping[str, Any]) -> Mapping[str, Any]:
        if request["messages"][1]["content"].startswith(waited) and not killed.is_set():
            waits.set()
            killed.wait(200)
        return call_current_weather(request)

    with endpoint(answer) as url:
        program = "import sys; from pathlib import Path; from tests.lab.test_benchmark_loop import measure_kept; "
        program += "measure_kept(Path(sys.argv[1]), sys.argv[2], 1)"
        command = [sys.executable, "-c", program, str(tmp_path), url]
        quiet = subprocess.DEVNULL
        with subprocess.Popen(command, cwd=PROJECT, stdin=quiet, stdout=quiet, stderr=quiet) as process:
            try:
                assert waits.wait(200)
            finally:
                process.kill()
                killed.set()
        lines = (tmp_path / "loop.jsonl").read_text(encoding="utf-8").splitlines()
        done = [json.loads(line)["id"] for line in lines]
        assert len(done) == 3
        PROMPTS.clear()
        runs = measure_kept(tmp_path, url, 2)
        assert solved(runs) == {"oslo", "three_cities"} & {*NIGHT}
        assert sorted(run.task for run in runs) == sorted(NIGHT)
        texts = {prompt.splitlines()[0] for prompt in PROMPTS}
        assert texts.isdisjoint(says[name] for name in done)
        assert {says[name] for name in NIGHT if name not in done} <= texts
        told = capsys.readouterr().err
        assert f"asked: {len(PROMPTS)} calls, " in told
        assert "; 3 queries were not asked again; the lines are in " in told
        assert re.search(r"loop: estimate for 6 queries: \d+ calls, [\d,]+ \+ \d+ tokens; at most ", told)
        PROMPTS.clear()
        assert solved(measure_kept(tmp_path, url, 1)) == solved(runs)
        assert PROMPTS == []


def test_a_dead_endpoint_is_told_with_the_task(world: World, tmp_path: Path) -> None:
    """In one line, after a few tasks; the next run tries these again."""
    with pytest.raises(QueryFailed, match=r"query '\w+': 127.0.0.1 cannot be reached: .*; 5 queries failed, and the"):
        measure_kept(tmp_path, "http://127.0.0.1:9/v1", 1)
    lines = (tmp_path / "loop.jsonl").read_text(encoding="utf-8").splitlines()
    assert len(lines) == 5
    assert all(json.loads(line)["failure"] for line in lines)


@pytest.mark.parametrize(
    "message",
    [{"content": "none"}, {"tool_calls": []}, {"tool_calls": [7]}, call("t", "no JSON"), call("t", [1])],
    ids=("text", "no call", "a number", "no JSON", "a list"),
)
def test_what_is_no_call_gives_the_step_up(message: Mapping[str, Any]) -> None:
    with endpoint(lambda _: message) as url:
        mind = ModelMind(ChatModel.open("m", load_settings(), {"OPENAI_BASE_URL": url}))
        assert mind.choose(Step("weather", "fits", {"city": "Oslo"}), [FITS], []) is None


def test_a_model_is_asked_only_where_that_is_said(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["loop", "--model", "openai:m"], {}) == 2
    assert "add --spend" in capsys.readouterr().err
    plain = world_at(tmp_path)
    assert {name for scale in scales(plain) for name in scale.minds} == set(MINDS)
    with_model = replace(plain, model="openai:m", environ={"OPENAI_BASE_URL": "http://127.0.0.1:9/v1"})
    assert [set(scale.minds) for scale in scales(with_model)] == [{"m", "ReAct (m)"}]
