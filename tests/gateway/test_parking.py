"""Calls that wait for their host, without a host: it sends its second request again."""

from collections.abc import Awaitable, Callable
from contextlib import nullcontext
from typing import Any

import anyio
import pytest
from mcp import MCPError
from mcp.types import ClientCapabilities, ElicitationCapability

from waygraph.api.mcp.pending_calls import InputRequest, Parking
from waygraph.api.mcp.sessions import Asker, Session
from waygraph.ingest.upstream.connection import Deaf, Host, MayHaveRun
from waygraph.registry.access.visibility import LOCAL

ASKER = Asker(caller=LOCAL, session=Session())
ASKED = ClientCapabilities(elicitation=ElicitationCapability())
PATIENCE_S = 60.0
FORM = {"mode": "form", "message": "Sure?", "requestedSchema": {"type": "object", "properties": {}}}
GoOn = Callable[[], Awaitable[Any]]


def with_answered(act: Callable[[GoOn, anyio.Event], Awaitable[None]]) -> None:
    """Runs `act` with what answers the question of a call, which goes on to its end when the event is set."""

    async def run() -> None:
        parking, may_end = Parking(), anyio.Event()

        async def ask(host: Host) -> dict[str, Any]:
            answer = await host.ask("elicitation/create", FORM)
            await may_end.wait()
            return {"content": [], "answer": answer}

        async with parking.open():
            wanted = await parking.begin(ASKER, ASKED, Deaf(), ask)
            assert isinstance(wanted, InputRequest)
            answers = {key: {"action": "accept"} for key in wanted.requests}
            with anyio.fail_after(PATIENCE_S):
                await act(lambda: parking.go_on(wanted.ticket, LOCAL.id, answers, Deaf()), may_end)

    anyio.run(run)


def test_a_request_that_is_sent_again_is_answered_both_times() -> None:
    async def act(go_on: GoOn, may_end: anyio.Event) -> None:
        results: list[Any] = []

        async def once() -> None:
            results.append(await go_on())

        async with anyio.create_task_group() as tasks:
            for _ in range(2):
                tasks.start_soon(once)
                await anyio.wait_all_tasks_blocked()
            may_end.set()
        assert results == [{"content": [], "answer": {"action": "accept"}}] * 2

    with_answered(act)


@pytest.mark.parametrize("came_to", ["a result", "an error"])
async def test_what_a_call_came_to_without_its_hosts_answer_waits_for_the_host(came_to: str) -> None:
    """Its question was taken back while the host's person thought: it is run once, and the host hears of it once."""
    parking, ran, ended = Parking(), list[str](), anyio.Event()

    async def pay(host: Host) -> dict[str, Any]:
        ran.append("paid")
        with anyio.move_on_after(0.01):
            await host.ask("elicitation/create", FORM)
        ended.set()
        if came_to == "an error":
            raise MayHaveRun("the connection broke")
        return {"content": [], "receipt": 4711}

    async with parking.open():
        wanted = await parking.begin(ASKER, ASKED, Deaf(), pay)
        assert isinstance(wanted, InputRequest)
        await ended.wait()
        await anyio.wait_all_tasks_blocked()
        answers = {key: {"action": "accept"} for key in wanted.requests}
        with anyio.fail_after(PATIENCE_S):
            with nullcontext() if came_to == "a result" else pytest.raises(MayHaveRun, match="the connection broke"):
                assert await parking.go_on(wanted.ticket, LOCAL.id, answers, Deaf()) == {
                    "content": [],
                    "receipt": 4711,
                }
        await anyio.wait_all_tasks_blocked()
        with pytest.raises(MCPError, match="no call waits for these answers"):
            await parking.go_on(wanted.ticket, LOCAL.id, answers, Deaf())
    assert ran == ["paid"]
