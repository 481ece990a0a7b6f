"""The benchmark of the gateway: arms in turn, tokens, and that a small run measures all of it. Never a time."""

import json
import os
from collections.abc import Awaitable, Callable
from itertools import groupby
from operator import itemgetter
from pathlib import Path

import anyio
import pytest

from benchmarks.gateway.benchmark import Sizes, measure
from benchmarks.gateway.tokens import word_pieces
from benchmarks.record import as_record, write_record
from benchmarks.timing import RUN, median_difference, time_arms
from benchmarks.world import World
from waygraph.registry.model.settings import load_settings


@pytest.fixture
def world(tmp_path: Path) -> World:
    return World(settings=load_settings(), environ=os.environ, data=tmp_path / "none", cache=tmp_path / "cache")


def test_every_arm_is_called_in_every_run_and_none_is_always_first() -> None:
    calls: list[tuple[int, str]] = []

    def arm(name: str) -> Callable[[int], Awaitable[None]]:
        async def call(number: int) -> None:
            calls.append((number, name))

        return call

    times = anyio.run(lambda: time_arms({name: arm(name) for name in "abc"}, 3 * RUN, warm_up=RUN))
    assert {name: len(each) for name, each in times.items()} == dict.fromkeys("abc", 3 * RUN)
    assert sorted(calls) == [(number, name) for number in range(-RUN, 3 * RUN) for name in "abc"]
    runs = [name for name, _ in groupby(calls, key=itemgetter(1))]
    assert runs[::3] == ["a", "b", "c", "a"]


def test_a_median_difference_is_that_of_the_rounds() -> None:
    assert median_difference([1.0, 9.0, 2.0], [3.0, 10.0, 30.0]) == 2.0


def test_pieces_of_words_are_counted_to_the_end_of_a_long_text(world: World) -> None:
    count = word_pieces(world).count
    assert count("send a letter") == 5  # three, and the model's two marks
    assert count("send a letter " * 5_000) == 15_002


def test_a_small_run_leaves_a_whole_record(world: World, tmp_path: Path) -> None:
    sizes = Sizes(tools=14, calls=2, finds=2, token_queries=1, starts=1)
    result = measure(world, sizes, word_pieces(world))
    record = json.loads(write_record(as_record(result, "command"), tmp_path).read_text())
    values = {each["name"]: each["value"] for each in record["measures"]}
    assert len(values) == len(record["measures"]) == 6 + 19 + 24 + 2
    assert record["details"].keys() == {"vocabulary", "tokens", "calls", "find_tools", "starts"}
    assert all(value > 0 for name, value in values.items() if ": more than" not in name)
    assert str(tmp_path) not in json.dumps(record)
    budgets = {each["name"]: each["target"] for each in record["measures"] if each["target"]}
    assert budgets["find_tools through `waygraph mcp`, 14 tools, new steps, p50"] == "≤ 15"
    assert budgets["`waygraph mcp`, 14 tools: first find_tools after start"] == "≤ 2.5"
    assert budgets["tool call through `waygraph mcp`, by use_tool: more than directly, p50"] == "≤ 4"
