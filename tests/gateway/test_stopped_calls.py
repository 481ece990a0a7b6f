"""Calls that stop by themselves: a host that loops, a budget, a server that fails and a copy of its tool elsewhere."""

import json
import shutil
import sys
from collections.abc import Mapping
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import anyio
import pytest
from mcp import Client

from tests.gateway.hosts import PROGRAM, Place, error_of, ingest, on_stdio
from tests.moved_time import MOVED_TIME
from waygraph.ingest.execution.call import ToolCall
from waygraph.ingest.execution.executor import LONGEST_REST_S, REST_AFTER, Executor
from waygraph.ingest.upstream.connection import MayHaveRun, Result
from waygraph.registry.access.policy import CallBudgets, CallPolicy
from waygraph.registry.model.errors import BudgetSpent, UpstreamUnreachable
from waygraph.registry.model.nouns import Agent, Tool

SUM = {"a": 1, "b": 2}


@pytest.fixture
def place(tmp_path: Path) -> Place:
    """Two servers with one program each, the same."""
    place, servers = Place(tmp_path), {}
    for name in ("box", "spare"):
        program = Path(shutil.copy(PROGRAM, tmp_path / f"{name}.py"))
        servers[name] = {"command": sys.executable, "args": [str(program), str(tmp_path / "notes.txt")]}
    (tmp_path / "mcp.json").write_text(json.dumps({"mcpServers": servers}))
    assert ingest(place, str(tmp_path / "mcp.json")) == 0
    return place


async def use(place: Place, policy: str, *calls: Mapping[str, Any]) -> list[Any]:
    """What one host is told, in one session."""
    (place.folder / "policy.toml").write_text(policy)
    launch = on_stdio(place, WAYGRAPH_POLICY_FILE=str(place.folder / "policy.toml"))
    async with Client(launch, mode="legacy") as host:
        return [await host.call_tool("use_tool", {"name": "box__add", "params": params}) for params in calls]


async def test_a_host_that_loops_is_stopped_and_other_calls_go_on(place: Place) -> None:
    *before, looping, other = await use(place, "repeats = 5", *[SUM] * 6, {"a": 1, "b": 3})
    assert not any(each.is_error for each in (*before, other))
    assert (error := error_of(looping))["code"] == "budget-spent"
    assert datetime.fromisoformat(error["ends_at"]) > datetime.now(UTC)


async def test_a_budget_of_a_session_counts_what_calls_cost(place: Place) -> None:
    policy = 'calls_per_session = 5\n[[rules]]\nmatch = "box/add"\nverdict = "allow"\ncost = 2\n'
    answers = await use(place, policy, *({"a": number, "b": 1} for number in range(3)))
    assert [each.is_error for each in answers] == [False, False, True]


def test_a_day_begins_anew_and_callers_have_their_own() -> None:
    times = iter([*["2026-01-01T10:00:00+00:00"] * 4, "2026-01-02T00:00:01+00:00"])
    budgets = CallBudgets(CallPolicy(calls_per_day=2), clock=lambda: next(times))
    budgets.take("a/t", "one", {}, 1, 0)
    budgets.take("a/t", "one", {"x": 1}, 1, 0)
    with pytest.raises(BudgetSpent) as caught:
        budgets.take("a/t", "one", {"x": 2}, 1, 0)
    assert caught.value.ends_at == "2026-01-02T00:00:00+00:00"
    budgets.take("a/t", "two", {}, 2, 0)
    budgets.take("a/t", "one", {}, 2, 0)


def test_no_caller_makes_room_for_the_repeats_of_another() -> None:
    budgets = CallBudgets(CallPolicy(repeats=1), clock=lambda: "2026-01-01T10:00:00+00:00")
    budgets.take("a/t", "looping", {}, 1, 0)
    for number in range(20_000):
        budgets.take("a/t", "busy", {"x": number}, 1, 0)
    with pytest.raises(BudgetSpent):
        budgets.take("a/t", "looping", {}, 1, 0)


@pytest.mark.parametrize("fails_over", [False, True])
async def test_where_a_server_fails_the_copy_of_its_tool_is_named_or_called(place: Place, fails_over: bool) -> None:
    (place.folder / "box.py").unlink()
    [answer] = await use(place, f"fails_over = {str(fails_over).lower()}", SUM)
    if fails_over:
        assert [each.text for each in answer.content][1:] == ["3"]
        assert "spare__add" in answer.content[0].text
    else:
        assert "spare__add" in error_of(answer)["message"]


class Losing:
    """A way whose server is lost at each call, until it is well."""

    def __init__(self) -> None:
        self.calls, self.is_well, self.takes_s = 0, False, 0.0

    async def call(self, call: ToolCall) -> Result:  # noqa: ARG002 - any
        self.calls += 1
        await anyio.sleep(self.takes_s)
        if self.is_well:
            return {"content": []}
        raise MayHaveRun("it crashed")


@pytest.mark.parametrize("anyio_backend", [MOVED_TIME])
async def test_a_server_that_fails_rests_for_its_caller_and_comes_back(anyio_backend: object) -> None:
    way = Losing()
    executor = Executor({"mcp_server": way}, 4)
    agent, tool = Agent(id="a", name="a"), Tool(id="a/t", agent_id="a", name="t", call_name="a__t")
    one = ToolCall(agent=agent, tool=tool, arguments={}, deadline_s=9.0, caller="one")

    async def call(call: ToolCall = one) -> str:
        try:
            await executor.call(call)
        except UpstreamUnreachable as error:
            return error.reason
        return ""

    assert ["crashed" in await call() for _ in range(REST_AFTER)] == [True] * REST_AFTER
    assert "asked again after 5 s" in await call()
    assert way.calls == REST_AFTER
    assert "crashed" in await call(replace(one, caller="two")), "another's calls rest for another"
    await anyio.sleep(6)
    assert "crashed" in await call()
    assert "asked again after 10 s" in await call()
    way.is_well, way.takes_s = True, 1.0
    await anyio.sleep(LONGEST_REST_S)
    reasons = list[str]()

    async def note() -> None:
        reasons.append(await call())

    for let_through in (1, 2, 6):  # of four at once: one by one until it failed less often than it takes to rest
        async with anyio.create_task_group() as tasks:
            for _ in range(4):
                tasks.start_soon(note)
        assert reasons.count("") == let_through
