"""The benchmark of the gateway: what its measures count, and that a small run leaves a whole record. Never a time."""

import json
import os
import subprocess
import sys
from collections.abc import Awaitable, Callable, Iterator, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import anyio
import pytest

from benchmarks.gateway import dying, starting
from benchmarks.gateway.arms import in_turn, more_than
from benchmarks.gateway.counting import Counter, word_pieces
from benchmarks.gateway.kills import Outcomes
from benchmarks.gateway.overhead import WrongAnswer
from benchmarks.gateway.run import QUICK, measure
from benchmarks.gateway.scene import client_of, program, text_of
from benchmarks.gateway.state import State, growth, left_of, lives
from benchmarks.gateway.tokens import Carried
from benchmarks.gateway.upstream import answer
from benchmarks.record import as_record, write_record
from benchmarks.service.servers import python_module
from benchmarks.world import World
from waygraph.registry.settings import load_settings


@pytest.fixture
def world(tmp_path: Path) -> World:
    return World(settings=load_settings(), environ=os.environ, data=tmp_path / "none", cache=tmp_path / "cache")


# -- ways in turn ------------------------------------------------------------------------------------


def test_every_way_is_asked_in_every_round_and_none_is_always_first() -> None:
    asked: list[tuple[int, str]] = []

    def way(name: str) -> Callable[[int], Awaitable[None]]:
        async def ask(number: int) -> None:
            asked.append((number, name))

        return ask

    taken = anyio.run(lambda: in_turn({name: way(name) for name in "abc"}, 6, warm_up=3))
    assert {name: len(times) for name, times in taken.items()} == {"a": 6, "b": 6, "c": 6}
    assert sorted(asked) == [(number, name) for number in range(-3, 6) for name in "abc"]
    assert [name for number, name in asked if number >= 0][::3] == ["a", "b", "c"] * 2


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
