"""The benchmark of the gateway: what its measures count, and that a small run leaves a whole record. Never a time."""

import json
import os
import subprocess
import sys
from collections.abc import Awaitable, Callable
from itertools import groupby
from operator import itemgetter
from pathlib import Path
from typing import Any

import anyio
import pytest

from benchmarks.gateway import dying, finding, overhead, starting, tokens
from benchmarks.gateway.arms import in_turn, more_than
from benchmarks.gateway.counting import word_pieces
from benchmarks.gateway.kills import Outcomes
from benchmarks.gateway.run import Sizes, measure
from benchmarks.gateway.scene import client_of, program, scene, text_of
from benchmarks.gateway.state import State, growth, left_of, lives
from benchmarks.gateway.upstream import answer
from benchmarks.record import as_record, write_record
from benchmarks.route_speed import RUN
from benchmarks.service.servers import python_module
from benchmarks.world import World, write_catalogue
from waygraph.ingest.sources.read import read_path
from waygraph.registry.model.settings import load_settings


@pytest.fixture
def world(tmp_path: Path) -> World:
    return World(settings=load_settings(), environ=os.environ, data=tmp_path / "none", cache=tmp_path / "cache")


# -- ways in turn ------------------------------------------------------------------------------------


def test_every_way_is_asked_in_every_run_and_none_is_always_first() -> None:
    asked: list[tuple[int, str]] = []

    def way(name: str) -> Callable[[int], Awaitable[None]]:
        async def ask(number: int) -> None:
            asked.append((number, name))

        return ask

    taken = anyio.run(lambda: in_turn({name: way(name) for name in "abc"}, 3 * RUN, warm_up=RUN))
    assert {name: len(times) for name, times in taken.items()} == dict.fromkeys("abc", 3 * RUN)
    assert sorted(asked) == [(number, name) for number in range(-RUN, 3 * RUN) for name in "abc"]
    runs = [name for name, _ in groupby(asked, key=itemgetter(1))]
    assert runs[::3] == ["a", "b", "c", "a"]


def test_what_is_more_is_the_median_of_the_rounds_differences() -> None:
    assert more_than([1.0, 9.0, 2.0], [3.0, 10.0, 30.0]) == 2.0


# -- tokens ------------------------------------------------------------------------------------------


def test_pieces_of_words_are_counted_to_the_end_of_a_long_text(world: World) -> None:
    """The embedder would read its first few hundred."""
    count = word_pieces(world).count
    assert count("send a letter") == 5  # three, and the model's two marks
    assert count("send a letter " * 5_000) == 15_002


# -- what is held ------------------------------------------------------------------------------------


def test_what_a_process_holds_is_seen_to_grow() -> None:
    early = State.of(os.getpid())
    with open(os.devnull), subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE) as process:
        late = State.of(os.getpid())
        assert process.stdin is not None
        process.stdin.close()
    assert late.open_files >= early.open_files + 2
    assert late.processes == early.processes + 1
    assert {measure.name.rpartition(": ")[2]: measure.as_json()["met"] for measure in growth("n", early, late)} == {
        "resident memory more at the end": True,
        "open files more at the end": True,
        "processes more at the end": False,
    }


def test_processes_that_stay_are_counted_and_ended() -> None:
    command = [sys.executable, "-c", "import time; time.sleep(600)"]
    with subprocess.Popen(command) as stays, subprocess.Popen([sys.executable, "-c", ""]) as ends:
        ends.wait()
        assert left_of([stays.pid, ends.pid], 0.05) == 1
        stays.wait(30)
    assert not lives(stays.pid)


# -- servers that are killed -------------------------------------------------------------------------


def test_an_answer_to_another_call_is_seen() -> None:
    out = Outcomes()
    for server, number in (("a", 7), ("a", 8), ("b", 7)):
        out.note_answer("a", 7, json.loads(answer(server, "echo", number, 1)))
    assert (out.answered, out.wrong) == (3, 2)


@pytest.mark.parametrize(
    ("told", "seconds", "was_killed", "faults"),
    [
        ("killed-3 ended while it ran the tool", 0.1, True, (0, 0, 0)),
        ("killed-3 ended while it ran the tool", 0.1, False, (0, 0, 1)),
        ("killed-3 did not answer within 10 s", 10.2, True, (0, 0, 0)),
        ("killed-3 did not answer within 10 s", 11.0, True, (1, 0, 0)),
        ("Connection closed", 0.1, True, (0, 1, 0)),
        ("killed-3: <Stream object at 0x7f3a>", 0.1, True, (0, 1, 0)),
    ],
)
def test_a_failure_is_judged_by_its_time_its_words_and_whose_it_is(
    told: str, seconds: float, was_killed: bool, faults: tuple[int, int, int]
) -> None:
    """Late, unclear, of a server that lived."""
    out = Outcomes()
    out.note_failure("killed-3", told, seconds, was_killed=was_killed)
    assert (out.failed, (out.late, out.unclear, out.others_failed)) == (1, faults)
    assert out.errors == {told: 1}


def test_a_server_that_is_not_back_by_the_next_call_is_counted() -> None:
    out = Outcomes()
    out.note_next(0.5, failed=False)
    out.note_next(0.1, failed=True)
    assert (out.back_ms, out.not_back) == ([500.0, 100.0], 1)


# -- programs ----------------------------------------------------------------------------------------


def mirrored(tmp_path: Path, *command: str) -> dict[str, Any]:
    async def called() -> str:
        async with client_of(program(*command), tmp_path / "log") as client:
            tools = (await client.list_tools()).tools
            assert [tool.name for tool in tools] == ["mirror_echo_0", "mirror_echo_1"]
            return text_of(await client.call_tool(tools[1].name, {"number": 12}))

    told: dict[str, Any] = json.loads(anyio.run(called))
    return told


def test_the_least_gateway_gives_what_its_server_gives(tmp_path: Path) -> None:
    direct = python_module("benchmarks.gateway.upstream", "mirror", "2")
    through = python_module("benchmarks.gateway.bare", *direct)
    for command in (direct, through):
        told = mirrored(tmp_path, *command)
        assert not lives(told.pop("process"))
        assert told == {"server": "mirror", "tool": "mirror_echo_1", "number": 12}


def test_a_server_lives_until_its_mark_is_there(tmp_path: Path) -> None:
    mark = tmp_path / "mark"
    command = python_module("benchmarks.gateway.dying", str(mark), "mirror", "2")
    assert mirrored(tmp_path, *command)["number"] == 12
    mark.write_text("exits")
    ended = subprocess.run(command, input="{}\n", capture_output=True, text=True, check=False)
    assert (ended.returncode, ended.stdout, ended.stderr) == (1, "", "no licence was found\n")


@pytest.mark.parametrize(("way", "output"), [("rubbish", b"loading part 0\n"), ("closes", b"")])
def test_a_dead_server_may_still_run(tmp_path: Path, way: str, output: bytes) -> None:
    (tmp_path / "mark").write_text(way)
    command = python_module("benchmarks.gateway.dying", str(tmp_path / "mark"), "mirror", "2")
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == output
        assert process.poll() is None
        process.kill()


def test_a_silent_server_answers_nothing(tmp_path: Path) -> None:
    (tmp_path / "mark").write_text("silent")
    command = python_module("benchmarks.gateway.dying", str(tmp_path / "mark"), "mirror", "2")
    asked = '{"jsonrpc": "2.0", "id": 1, "method": "server/discover"}\n'
    ended = subprocess.run(command, input=asked, capture_output=True, text=True, check=False)
    assert (ended.returncode, ended.stdout) == (0, "")


def test_each_dead_server_is_dead_in_another_way() -> None:
    assert next(iter(starting.dead_of(50).items())) == ("config-45", "missing")
    assert set(starting.dead_of(6).values()) == {"missing", *dying.WAYS}


# -- a small run -------------------------------------------------------------------------------------

SMALL = Sizes(
    tools=14,
    calls=2,
    finds=2,
    token_queries=1,
    sessions=2,
    programs=1,
    upstreams=2,
    killed_calls=40,
    kills=2,
    servers=6,
    starts=1,
)


def test_calls_finds_and_tokens_are_measured_through_the_real_gateway(world: World, tmp_path: Path) -> None:
    counting = word_pieces(world)
    with scene(world, read_path(str(write_catalogue(tmp_path, SMALL.tools)), world.settings)) as made:
        parts = [anyio.run(lambda: tokens.measured(made, counting, ["send a letter"], what="few"))]
        overhead.prepare(made)
        parts.append(anyio.run(lambda: overhead.measured(made, calls=SMALL.calls)))
        parts.append(anyio.run(lambda: finding.measured(made, tools=SMALL.tools, queries=SMALL.finds)))
    measures = [measure for measures, _ in parts for measure in measures]
    assert len({measure.name for measure in measures}) == len(measures) == 6 + 28 + 32
    assert all(measure.value > 0 for measure in measures if ": more than" not in measure.name)


@pytest.mark.slow
def test_a_small_run_leaves_a_whole_record(world: World, tmp_path: Path) -> None:
    """What is counted as a fault is none."""
    result = measure(world, SMALL, word_pieces(world))
    record = json.loads(write_record(as_record(result, "command"), tmp_path).read_text())
    values = {each["name"]: each["value"] for each in record["measures"]}
    assert len(values) == len(record["measures"])
    assert record["details"].keys() == {
        "vocabulary", "tokens", "overhead", "finding", "sessions", "kills", "starts"
    }  # fmt: skip
    assert record["details"]["kills"]["outcomes"]["kills"] == 2
    assert all(value > 0 for name, value in values.items() if ", p" in name or "tokens" in name)
    faults = ("another call", "later than the deadline", "processes left", "servers that lived", "did not find")
    assert {value for name, value in values.items() if any(fault in name for fault in faults)} == {0}
    assert str(tmp_path) not in json.dumps(record)
