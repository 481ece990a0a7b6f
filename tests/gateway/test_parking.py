"""Calls that wait for their host, without a host: it sends its second request again."""

from collections.abc import Awaitable, Callable
from typing import Any

import anyio
from mcp.types import ClientCapabilities, ElicitationCapability

from waygraph.api.mcp.gateway import Asker
from waygraph.api.mcp.parking import Parking, Wanted
from waygraph.api.mcp.session import Session
from waygraph.ingest.calling.call import Deaf, Host
from waygraph.registry.access import LOCAL

PATIENCE_S = 10.0
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
            asker = Asker(caller=LOCAL, session=Session())
            capabilities = ClientCapabilities(elicitation=ElicitationCapability())
            wanted = await parking.begin(asker, capabilities, Deaf(), ask)
            assert isinstance(wanted, Wanted)
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


def test_a_request_that_is_given_up_after_it_was_sent_again_does_not_end_the_call() -> None:
    async def act(go_on: GoOn, may_end: anyio.Event) -> None:
        results: list[Any] = []
        given_up = anyio.CancelScope()

        async def first() -> None:
            with given_up:
                await go_on()

        async def again() -> None:
            results.append(await go_on())

        async with anyio.create_task_group() as tasks:
            for request in (first, again):
                tasks.start_soon(request)
                await anyio.wait_all_tasks_blocked()
            given_up.cancel()
            await anyio.wait_all_tasks_blocked()
            may_end.set()
        assert results == [{"content": [], "answer": {"action": "accept"}}]

    with_answered(act)
