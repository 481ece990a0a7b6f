"""Tasks that need several tools: what is judged, and that calls of other tasks bring what the request does not name."""

import json
from dataclasses import replace
from pathlib import Path

from benchmarks.tool_sets import ALONE, TOGETHER, Task, read_sets, run
from benchmarks.world import World
from waygraph.registry.model.settings import Settings

NEEDED = ["post/weigh", "mint/stamp"]


def task(number: int, calls: list[str]) -> dict[str, object]:
    need = [[call] for call in calls]
    return {"id": str(number), "text": "weigh the letter", "group": str(number), "need": need, "calls": calls}


def world_of(folder: Path, calls: list[str]) -> World:
    texts = {"post/weigh": "Weigh a letter.", "mint/stamp": "Print one of these.", "host/greet": "Greet the guest."}
    agents = [
        {"id": agent, "name": agent, "description": "", "tools": [{"name": name, "description": text}]}
        for (agent, name), text in ((key.split("/"), text) for key, text in texts.items())
    ]
    (folder / "tool_sets").mkdir()
    document = {"agents": agents, "tasks": [task(number, calls) for number in range(8)]}
    (folder / "tool_sets" / "apibank.json").write_text(json.dumps(document))
    settings = Settings(data_dir=str(folder / "own"))
    return World(settings=settings, environ={}, data=folder, cache=folder / "cache")


def test_a_task_is_complete_with_all_its_tools() -> None:
    needs = (frozenset({"a", "b"}), frozenset({"c"}))
    one = Task(text="x", group="g", needs=needs, calls=("a", "c"))
    assert one.judge(["b", "c"]) == {"complete@5": 1.0, "complete@10": 1.0, "first tool": 1.0}
    assert one.judge(["z", "a", "b", "y", "x", "c"]) == {"complete@5": 0.0, "complete@10": 1.0, "first tool": 0.0}


def test_counted_calls_bring_what_the_request_does_not_name(tmp_path: Path) -> None:
    rows = {row["method"]: row for row in run(world_of(tmp_path, NEEDED)).details["rows"]}
    assert rows[TOGETHER]["complete@5"] == 1.0
    assert rows[TOGETHER]["tasks"] == 8
    assert rows["BM25"]["complete@5"] == 0.0
    assert set(rows) >= {ALONE, "vectors", "hybrid"}


def test_a_task_without_the_login_needs_two_other_tools(tmp_path: Path) -> None:
    world = world_of(tmp_path, ["account/GetUserToken", *NEEDED])
    whole, without = read_sets(world)
    assert [len(each.tasks[0].needs) for each in (whole, without)] == [3, 2]
    assert not run(replace(world, data=tmp_path / "nowhere")).measures
