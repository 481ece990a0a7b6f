"""What holds for every call, whatever runs the tool."""

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import anyio
import pytest

from tests.moved_time import MOVED_TIME
from waygraph.ingest.execution.call import ToolCall
from waygraph.ingest.execution.executor import Executor
from waygraph.ingest.upstream.connection import Deaf, Question, Result
from waygraph.registry.model.errors import CallTimedOut, UpstreamError, UpstreamRefused, UpstreamUnreachable
from waygraph.registry.model.nouns import Agent, Tool

HANG_S = 600.0


@pytest.fixture
def anyio_backend() -> tuple[str, Mapping[str, Any]]:
    return MOVED_TIME


class Sleeping:
    """A way that answers after the time that its arguments say, and keeps count."""

    def __init__(self) -> None:
        self.under_way = self.most = 0
        self.ended: list[str] = []

    async def call(self, call: ToolCall) -> Result:
        self.under_way += 1
        self.most = max(self.most, self.under_way)
        try:
            await anyio.sleep(call.arguments.get("seconds", 0.0))
        finally:
            self.under_way -= 1
            self.ended.append(call.agent.id)
        return {"content": [{"type": "text", "text": call.agent.id}]}


def call(agent_id: str = "a", *, seconds: float = 0.0, deadline_s: float = 30.0) -> ToolCall:
    agent = Agent(id=agent_id, name=agent_id)
    tool = Tool(id=f"{agent_id}/t", agent_id=agent_id, name="t", call_name=f"{agent_id}__t")
    return ToolCall(agent=agent, tool=tool, arguments={"seconds": seconds}, deadline_s=deadline_s)


async def test_a_call_that_takes_longer_than_its_deadline_is_ended_and_named() -> None:
    way = Sleeping()
    with pytest.raises(CallTimedOut, match=r"'a__t' did not answer within 0\.05 s"):
        await Executor({"mcp_server": way}, 4).call(call(seconds=HANG_S, deadline_s=0.05))
    assert way.ended == ["a"]


class Thinking(Deaf):
    """A person who takes `seconds` for an answer."""

    def __init__(self, seconds: float) -> None:
        self._seconds = seconds

    async def ask(self, question: Question, params: Mapping[str, Any]) -> Mapping[str, Any]:  # noqa: ARG002
        await anyio.sleep(self._seconds)
        return {"action": "accept"}


class Asking(Sleeping):
    """A way that asks before it sleeps."""

    async def call(self, call: ToolCall) -> Result:
        answer = await call.host.ask("elicitation/create", {})
        return {**await super().call(call), "answer": answer}


async def test_what_a_person_takes_to_answer_does_not_count_to_the_deadline() -> None:
    executor, host = Executor({"mcp_server": Asking()}, 4), Thinking(0.6)
    result = await executor.call(replace(call(deadline_s=0.3), host=host))
    assert result["answer"] == {"action": "accept"}
    with pytest.raises(CallTimedOut, match=r"within 0\.3 s"):
        await executor.call(replace(call(seconds=HANG_S, deadline_s=0.3), host=host))


class Failing:
    """A way that raises."""

    def __init__(self, error: Exception) -> None:
        self.error = error

    async def call(self, call: ToolCall) -> Result:  # noqa: ARG002
        raise self.error


@pytest.mark.parametrize("kind", [UpstreamUnreachable, UpstreamRefused])
async def test_a_failure_names_the_agent_whose_it_is(kind: type[UpstreamError]) -> None:
    executor = Executor({"mcp_server": Failing(kind("was ended by SIGKILL"))}, 4)
    with pytest.raises(kind, match=r"^a: was ended by SIGKILL$"):
        await executor.call(call())


async def test_waiting_for_a_place_counts_to_the_deadline() -> None:
    executor = Executor({"mcp_server": Sleeping()}, 1)
    async with anyio.create_task_group() as tasks:
        tasks.start_soon(executor.call, call(seconds=HANG_S))
        await anyio.wait_all_tasks_blocked()
        with pytest.raises(CallTimedOut):
            await executor.call(call("b", deadline_s=0.05))
        tasks.cancel_scope.cancel()


async def test_an_agent_that_hangs_leaves_room_for_others() -> None:
    answer: Result = {}
    executor = Executor({"mcp_server": Sleeping()}, 4)
    async with anyio.create_task_group() as tasks:
        for _ in range(20):
            tasks.start_soon(executor.call, call("dead", seconds=HANG_S))
        await anyio.wait_all_tasks_blocked()
        answer = await executor.call(call("alive", deadline_s=10.0))
        tasks.cancel_scope.cancel()
    assert answer["content"][0]["text"] == "alive"


async def test_a_caller_whose_calls_hang_leaves_room_for_others() -> None:
    answer: Result = {}
    executor = Executor({"mcp_server": Sleeping()}, 4)
    async with anyio.create_task_group() as tasks:
        for number in range(20):
            hanging = replace(call(f"dead-{number}", seconds=HANG_S), caller="key:greedy")
            tasks.start_soon(executor.call, hanging)
        await anyio.wait_all_tasks_blocked()
        answer = await executor.call(replace(call("alive", deadline_s=10.0), caller="key:other"))
        tasks.cancel_scope.cancel()
    assert answer["content"][0]["text"] == "alive"


async def test_no_more_calls_are_under_way_than_the_setting_allows() -> None:
    way = Sleeping()
    executor = Executor({"mcp_server": way}, 3)
    async with anyio.create_task_group() as tasks:
        for number in range(12):
            tasks.start_soon(executor.call, call(f"agent-{number}", seconds=0.005))
    assert (way.most, len(way.ended)) == (3, 12)


async def test_calls_under_way_end_with_an_error_when_it_closes() -> None:
    executor = Executor({"mcp_server": Sleeping()}, 4)
    async with anyio.create_task_group() as tasks:

        async def hang() -> None:
            with pytest.raises(UpstreamUnreachable, match="being stopped"):
                await executor.call(call(seconds=HANG_S))

        tasks.start_soon(hang)
        await anyio.wait_all_tasks_blocked()
        executor.close()
    with pytest.raises(UpstreamUnreachable, match="being stopped"):
        await executor.call(call())


async def test_a_call_may_be_made_on_behalf_of_another() -> None:
    """A server asks, and the answer takes a tool: in the very task of the first call."""

    inner = call("inner")

    class Nesting:
        async def call(self, call: ToolCall) -> Result:
            return await executor.call(inner) if call.agent.id == "outer" else {"content": []}

    executor = Executor({"mcp_server": Nesting()}, 4)
    assert await executor.call(call("outer")) == {"content": []}


async def test_whoever_asked_can_cancel() -> None:
    way = Sleeping()
    with anyio.move_on_after(0.05) as scope:
        await Executor({"mcp_server": way}, 4).call(call(seconds=HANG_S))
    assert scope.cancelled_caught
    assert way.ended == ["a"]
