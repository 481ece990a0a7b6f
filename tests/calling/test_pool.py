"""The connections that tools are called over: started when needed, one each, and gone when not. Real processes."""

import os
import signal
import sys
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import anyio
import pytest

from tests.processes_left import MARK, left_of, needs_proc
from tests.upstream.calling import PATIENCE_S, Listening, tools_by_hand
from waygraph.ingest.execution import pool as pool_module
from waygraph.ingest.execution.call import ToolCall
from waygraph.ingest.execution.executor import Executor, McpCaller
from waygraph.ingest.execution.pool import Pool, calling_pool
from waygraph.ingest.manifest.records import HttpLaunch, Launch, StdioLaunch
from waygraph.ingest.upstream.connection import MayHaveRun, SystemClock
from waygraph.registry.model.errors import CallTimedOut, UpstreamError, UpstreamUnreachable
from waygraph.registry.model.nouns import Agent, Tool
from waygraph.registry.model.settings import Settings

pytestmark = needs_proc

ONE = Agent(id="one", name="One")
NO_COMMAND = StdioLaunch(command="waygraph-no-such-command")
NOBODY = HttpLaunch(url="http://127.0.0.1:9/mcp")


def hand_tools(mark: str, *args: str) -> StdioLaunch:
    return tools_by_hand(*args, env={MARK: mark})


def of(launches: dict[str, Launch]) -> Callable[[Agent], Awaitable[Launch]]:
    async def launch_of(agent: Agent) -> Launch:
        return launches[agent.id]

    return launch_of


@asynccontextmanager
async def with_pool(launches: dict[str, Launch], settings: Settings | None = None) -> AsyncIterator[Pool]:
    """A pool of these, by agent; changing the mapping changes the launch."""
    async with calling_pool(of(launches), settings or Settings()) as pool:
        with anyio.fail_after(2 * PATIENCE_S):
            yield pool


async def text(pool: Pool, tool: str, agent: Agent = ONE, **given: Any) -> str:
    result = await pool.call(replace(tool_call(tool, **given), agent=agent))
    return str(result["content"][0]["text"])


async def until(holds: Callable[[], object]) -> None:
    with anyio.fail_after(PATIENCE_S):
        while not holds():
            await anyio.sleep(0.02)


async def test_many_calls_start_one_server(mark: str) -> None:
    pids: list[str] = []
    async with with_pool({"one": hand_tools(mark, "0.3")}) as pool:

        async def call() -> None:
            pids.append(await text(pool, "who"))

        async with anyio.create_task_group() as group:
            for _ in range(50):
                group.start_soon(call)
        assert len(pids) == 50
        assert {int(pid) for pid in pids} == set(left_of(mark))


async def test_a_start_goes_on_without_the_call_that_began_it(mark: str) -> None:
    async with with_pool({"one": hand_tools(mark, "3")}) as pool:
        with anyio.move_on_after(0.2) as given_up:
            await text(pool, "who")
        assert given_up.cancelled_caught
        started = left_of(mark)
        assert [int(await text(pool, "who"))] == started == left_of(mark)


@pytest.mark.parametrize("waits", [False, True], ids=["at once", "when its end is known"])
async def test_a_server_that_died_is_back_by_the_next_call(mark: str, waits: bool) -> None:
    async with with_pool({"one": hand_tools(mark)}) as pool:
        first = int(await text(pool, "who"))
        os.kill(first, signal.SIGKILL)
        await until(lambda: left_of(mark) == [])
        if waits:
            await until(lambda: not pool.open)
        second = int(await text(pool, "who"))
        assert left_of(mark) == [second] != [first]


async def test_a_call_amid_which_its_server_dies_fails_and_is_not_run_again(mark: str, tmp_path: Path) -> None:
    async with with_pool({"one": hand_tools(mark)}) as pool:
        first = await text(pool, "who")
        with pytest.raises(
            MayHaveRun, match=r"ended with exit status 4.*whether the tool did its work is not known"
        ) as lost:
            await text(pool, "dies", file=str(tmp_path / "deaths"))
        assert not lost.value.retryable
        assert (tmp_path / "deaths").read_text("utf-8") == "x"
        assert await text(pool, "who") != first


async def test_what_a_server_survived_is_not_told_of_its_end(mark: str) -> None:
    """What it wrote before its last message may be of another call, and of another caller."""
    async with with_pool({"one": hand_tools(mark)}) as pool:
        assert await text(pool, "complains") == "as ever"
        with pytest.raises(MayHaveRun, match="ended with exit status 5: good night"):
            await text(pool, "dies_quietly")


async def test_a_call_that_its_server_read_is_not_run_again_for_what_is_queued_behind_it(
    mark: str, tmp_path: Path
) -> None:
    """Both are longer than a pipe; the server reads the first, does it and dies. Only the second was not delivered."""
    long = "x" * 300_000
    async with with_pool({"one": hand_tools(mark)}) as pool:
        await text(pool, "who")

        async def die() -> None:
            with pytest.raises(MayHaveRun, match="ended with exit status 4"):
                await text(pool, "dies", file=str(tmp_path / "deaths"), much=long)

        async with anyio.create_task_group() as group:
            group.start_soon(die)
            await anyio.lowlevel.checkpoint()
            assert long in await text(pool, "echo", much=long)
        assert (tmp_path / "deaths").read_text("utf-8") == "x"


async def test_all_calls_of_a_server_that_dies_fail_and_those_after_it_do_not(mark: str) -> None:
    outcomes: list[str] = []
    async with with_pool({"one": hand_tools(mark)}) as pool:

        async def wait() -> None:
            try:
                await text(pool, "waits")
            except UpstreamUnreachable as error:
                outcomes.append(error.reason)

        pid = int(await text(pool, "who"))
        async with anyio.create_task_group() as group:
            for _ in range(20):
                group.start_soon(wait)
            while await text(pool, "waiting") != "20":
                await anyio.sleep(0.02)
            os.kill(pid, signal.SIGKILL)
        assert outcomes == ["was ended by SIGKILL, and said nothing; whether the tool did its work is not known"] * 20
        assert await text(pool, "who") != str(pid)


async def test_a_server_that_hangs_is_replaced_after_three_calls_without_a_word(mark: str) -> None:
    async with with_pool({"one": hand_tools(mark)}) as pool:
        first = int(await text(pool, "who"))
        os.kill(first, signal.SIGSTOP)
        for _ in range(3):
            with anyio.move_on_after(0.1) as given_up:
                await pool.call(tool_call("echo"))
            assert given_up.cancelled_caught
        assert await text(pool, "who") != str(first)
        await until(lambda: first not in left_of(mark))


async def test_a_server_that_talks_is_not_replaced(mark: str) -> None:
    """One call takes longer than anybody waits, and another one is answered in between."""
    async with with_pool({"one": hand_tools(mark)}) as pool:
        first = await text(pool, "who")
        for _ in range(5):
            with anyio.move_on_after(0.05) as given_up:
                await pool.call(tool_call("waits"))
            assert given_up.cancelled_caught
            assert await text(pool, "who") == first


async def test_a_server_without_calls_is_stopped_and_comes_again(mark: str) -> None:
    async with with_pool({"one": hand_tools(mark)}, Settings(call_idle_s=0.2)) as pool:
        first = await text(pool, "who")
        await until(lambda: not left_of(mark))
        assert pool.open == frozenset()
        assert await text(pool, "who") != first


async def test_another_launch_is_another_server_and_the_calls_of_the_first_end_well(mark: str) -> None:
    launches: dict[str, Launch] = {"one": hand_tools(mark)}
    old = launches["one"]
    assert isinstance(old, StdioLaunch)
    async with with_pool(launches) as pool:
        told: list[str] = []

        async def long_call() -> None:
            told.append(await text(pool, "sleeps", seconds=0.5))

        async with anyio.create_task_group() as group:
            first = await text(pool, "who")
            group.start_soon(long_call)
            await anyio.sleep(0.1)
            launches["one"] = replace(old, env={MARK: mark, "KEY": "new"})
            assert await text(pool, "environment", name="KEY") == "new"
            assert await text(pool, "who") != first
        assert told == ["woke"]
        await until(lambda: len(left_of(mark)) == 1)


class Movable(SystemClock):
    """Goes as ever, but is ahead of the time."""

    ahead_s = 0.0

    def now_s(self) -> float:
        return super().now_s() + self.ahead_s


async def test_a_start_that_failed_is_remembered_for_a_while(
    mark: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Calls fail at once with the reason, and nothing is started; then it is tried again, and mended it runs."""
    clock = Movable()
    monkeypatch.setattr(pool_module, "SystemClock", lambda: clock)
    monkeypatch.setattr(pool_module, "FIRST_REST_S", 600.0)
    tries = tmp_path / "tries"
    script = tmp_path / "server.py"
    script.write_text(f"open({str(tries)!r}, 'a').write('x'); import sys; sys.exit('Error: no paper')", "utf-8")
    async with with_pool(
        {"one": StdioLaunch(command=sys.executable, args=("-S", str(script)), env={MARK: mark})}
    ) as pool:
        with pytest.raises(UpstreamUnreachable, match=r"exit status 1: Error: no paper$"):
            await text(pool, "who")
        tried = tries.read_text("utf-8")
        for _ in range(100):
            with pytest.raises(UpstreamUnreachable, match="Error: no paper; it is tried again by the first call after"):
                await text(pool, "who")
        assert tries.read_text("utf-8") == tried
        script.write_text((Path(__file__).parents[1] / "upstream/programs/tools.py").read_text("utf-8"), "utf-8")
        clock.ahead_s = 600.0
        assert await text(pool, "echo", a=1) == '{"a": 1}'


async def test_dead_servers_delay_nobody(mark: str) -> None:
    """Of 50 five are dead, each in its own way; the others answer while three of these are still waited for."""
    silent = StdioLaunch(command=sys.executable, args=("-c", "import time; time.sleep(600)"), env={MARK: mark})
    dead: list[Launch] = [NO_COMMAND, NOBODY, silent, silent, tools_by_hand("600")]
    launches: dict[str, Launch] = {f"dead-{number}": launch for number, launch in enumerate(dead)}
    launches |= {f"live-{number}": hand_tools(mark) for number in range(45)}
    answered: list[str] = []
    failed: list[str] = []
    async with with_pool(launches, Settings(upstream_connect_timeout_s=600.0)) as pool:

        async def call(agent_id: str) -> None:
            try:
                answered.append(await text(pool, "echo", Agent(id=agent_id, name=agent_id), of=agent_id))
            except UpstreamError as error:
                failed.append(f"{agent_id}: {error}")

        async with anyio.create_task_group() as group:
            for agent_id in launches:
                group.start_soon(call, agent_id)
            await until(lambda: len(answered) == 45 and len(failed) >= 2)
            assert len(failed) == 2, "the three silent ones have all the time there is"
            group.cancel_scope.cancel()
    assert not left_of(mark)


async def test_the_end_of_the_pool_ends_calls_and_processes_at_once(mark: str) -> None:
    """Twelve servers, each at a call, and one that is being started: 2 s, and each call says why."""
    outcomes: list[str] = []
    launches: dict[str, Launch] = {str(number): hand_tools(mark) for number in range(12)}
    launches["slow"] = hand_tools(mark, "600")

    async def call(pool: Pool, agent_id: str) -> None:
        try:
            await text(pool, "waits", Agent(id=agent_id, name=""))
        except UpstreamUnreachable as error:
            outcomes.append(error.reason)

    pools: list[Pool] = []
    async with anyio.create_task_group() as group:
        async with calling_pool(of(launches), Settings()) as pool:
            pools.append(pool)
            for agent_id in launches:
                group.start_soon(call, pool, agent_id)
            await until(lambda: len(pool.open) == 12)
            for number in range(12):
                while await text(pool, "waiting", Agent(id=str(number), name="")) != "1":
                    await anyio.sleep(0.02)
        assert not left_of(mark)
    with pytest.raises(UpstreamUnreachable, match="is being stopped"):
        await text(pools[0], "echo", Agent(id="0", name=""))
    unknown = "the connection is closed; whether the tool did its work is not known"
    assert sorted(set(outcomes)) == [unknown, "the gateway is being stopped"]
    assert len(outcomes) == 13


def tool_call(name: str, /, *, deadline_s: float = PATIENCE_S, **given: Any) -> ToolCall:
    tool = Tool(id=f"one/{name}", agent_id="one", name=name, call_name=f"one_{name}")
    return ToolCall(agent=ONE, tool=tool, arguments=given, deadline_s=deadline_s, host=Listening())


async def test_the_deadline_holds_for_the_start_too_which_goes_on(mark: str) -> None:
    """The call that gave up is told so; the next one finds the server that was being started for it."""
    async with with_pool({"one": hand_tools(mark, "1")}) as pool:
        caller = Executor({"mcp_server": McpCaller(pool)}, calls_at_once=5)
        with pytest.raises(CallTimedOut, match=r"'one_who' did not answer within 0.2 s"):
            await caller.call(tool_call("who", deadline_s=0.2))
        await until(lambda: left_of(mark))
        started = left_of(mark)
        assert len(started) == 1
        result = await caller.call(tool_call("who"))
        assert result["content"][0]["text"] == str(started[0])
