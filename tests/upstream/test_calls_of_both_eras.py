"""Calls of tools of a server on the SDK: the modern era over stdio, both over HTTP."""

import json
import os
import signal
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import replace
from functools import partial
from typing import Any

import anyio
import pytest

from tests.processes_left import MARK, is_gone, left_of, needs_proc, new_mark
from tests.upstream.calling import PATIENCE_S, Asking, Listening, over
from tests.upstream.launches import PROGRAMS
from tests.upstream.programs import sdk_tools
from tests.upstream.served import Asgi, running
from waygraph.ingest.manifest.records import HttpLaunch, Launch, StdioLaunch
from waygraph.ingest.upstream.connection import MayHaveRun, Question
from waygraph.registry.model.errors import CallTimedOut, UpstreamRefused

ACCEPT = {"action": "accept", "content": {"yes": True}}
EVERYTHING: dict[str, dict[str, Any]] = {
    "elicitation/create": ACCEPT,
    "sampling/createMessage": {"role": "assistant", "content": {"type": "text", "text": "4"}, "model": "m"},
    "roots/list": {"roots": [{"uri": "file:///a"}]},
}
MODERN_STDIO = StdioLaunch(command=sys.executable, args=(str(PROGRAMS / "sdk_tools.py"),))


def of_the_handshake(app: Asgi) -> Asgi:
    """The same server for clients that know no more than the handshake."""

    async def asgi(scope: Any, receive: Any, send: Any) -> None:
        heard = {name.decode(): value.decode() for name, value in scope.get("headers", ())}
        if heard.get("mcp-protocol-version", "") >= "2026":
            await send({"type": "http.response.start", "status": 400, "headers": []})
            await send({"type": "http.response.body", "body": b"Bad Request"})
            return
        await app(scope, receive, send)

    return asgi


@contextmanager
def launch_of(form: str) -> Iterator[Launch]:
    if form == "stdio":
        yield MODERN_STDIO
        return
    app = sdk_tools.server.streamable_http_app()
    with running(app if form == "http" else of_the_handshake(app)) as url:
        yield HttpLaunch(url=f"{url}/mcp")


@pytest.fixture(params=["stdio", "http", "http of the handshake"])
def launch(request: pytest.FixtureRequest) -> Iterator[Launch]:
    with launch_of(request.param) as launch:
        yield launch


@pytest.fixture(params=["stdio", "http"])
def modern(request: pytest.FixtureRequest) -> Iterator[Launch]:
    with launch_of(request.param) as launch:
        yield launch


@pytest.fixture(params=["http", "http of the handshake"])
def http(request: pytest.FixtureRequest) -> Iterator[Launch]:
    with launch_of(request.param) as launch:
        yield launch


async def test_progress_and_logs_come_in_order_and_before_the_result(launch: Launch) -> None:
    async with over(launch) as calls:
        host = Listening()
        assert await calls.json("tells", host, times=3, of="one") == "done"
        told = [entry for entry in host.heard if entry[0] != "debug"]
        expected: list[Any] = []
        for step in range(3):
            expected += [(step, 3, f"one {step}"), ("warning", f"one {step}", "press")]
        assert told == expected


async def test_over_http_each_host_is_asked_for_its_own_call(http: Launch) -> None:
    async with over(http) as calls:
        answers: list[Any] = []

        async def call(host: Listening) -> None:
            answers.append(await calls.json("asks", host, what=["elicitation"]))

        hosts = [Listening({"elicitation/create": ACCEPT}) for _ in range(5)]
        async with anyio.create_task_group() as group:
            for host in hosts:
                group.start_soon(call, host)
        assert [len(host.asked) for host in hosts] == [1] * 5
        assert answers in ([["accept"]] * 5, ["accept"] * 5, [[{"elicitation": ACCEPT}]] * 5)


async def test_what_a_server_needs_to_know_is_asked_and_brought_back(modern: Launch) -> None:
    """All kinds of questions, over several rounds, with the server's state as it was."""
    async with over(modern) as calls:
        host = Listening(EVERYTHING)
        seen = await calls.json("asks", host, what=["elicitation", "sampling", "roots"], rounds=3)
        answers = {
            "elicitation": ACCEPT,
            "sampling": EVERYTHING["sampling/createMessage"],
            "roots": EVERYTHING["roots/list"],
        }
        assert seen == [answers] * 3
        assert [method for method, _ in host.asked] == list(EVERYTHING) * 3


@needs_proc
async def test_a_server_that_is_gone_when_it_is_answered_may_have_begun() -> None:
    """The answer to its question was not written; what the tool did before it asked is done."""

    class Slow(Listening):
        async def ask(self, question: Question, params: Mapping[str, Any]) -> Mapping[str, Any]:
            [pid] = left_of(mark)
            os.kill(pid, signal.SIGKILL)
            assert is_gone(pid)
            return await super().ask(question, params)

    mark = new_mark()
    async with over(replace(MODERN_STDIO, env={MARK: mark})) as calls:
        with pytest.raises(MayHaveRun):
            await calls.raw("asks", Slow(EVERYTHING), what=["elicitation"])


@pytest.mark.parametrize(
    ("host", "reason"),
    [
        (Listening({"roots/list": {}}), "which the host of this call does not take"),
        (Listening(refuses="the person has left"), "and got none: the person has left"),
    ],
    ids=["cannot", "does not"],
)
async def test_a_call_whose_questions_nobody_answers_fails_with_the_reason(
    modern: Launch, host: Listening, reason: str
) -> None:
    """By the SDK's server itself, where the host cannot; by us, where it does not."""
    async with over(modern) as calls:
        with pytest.raises(UpstreamRefused, match=f"{reason}|-32021") as raised:
            await calls.raw("asks", host, what=["elicitation"])
        assert "elicitation" in str(raised.value)


async def test_a_server_that_asks_on_for_ever_is_refused(modern: Launch) -> None:
    async with over(modern) as calls:
        with pytest.raises(UpstreamRefused, match="still more after 10 rounds"):
            await calls.raw("asks_for_ever")


async def test_a_call_that_is_cancelled_is_cancelled_at_the_server(
    launch: Launch, request: pytest.FixtureRequest
) -> None:
    mark = request.node.name

    async def until_noted(calls: Asking, note: str) -> None:
        with anyio.fail_after(PATIENCE_S):
            while note not in await calls.json("knows"):
                await anyio.sleep(0.02)

    async with over(launch) as calls:
        async with anyio.create_task_group() as group:
            group.start_soon(partial(calls.raw, "waits", of=f"one {mark}"))
            await until_noted(calls, f"one {mark} begun")
            group.cancel_scope.cancel()
        with pytest.raises(CallTimedOut):
            await calls.raw("waits", of=f"other {mark}", timeout_s=1.0)
        await until_noted(calls, f"one {mark} cancelled")
        await until_noted(calls, f"other {mark} cancelled")


@pytest.mark.parametrize("city", ["Ulm", "Großschönau"])
async def test_arguments_that_a_schema_wants_in_headers_stand_there(city: str) -> None:
    with launch_of("http") as launch:
        async with over(launch) as calls:
            result = await calls.connection.call(
                "headers", {"city": city}, host=Listening(), input_schema=json.dumps(sdk_tools.HEADED)
            )
            headers = json.loads(result["content"][0]["text"])
            assert headers["mcp-name"] == "headers"
            assert headers["mcp-param-city"] in {city, "=?base64?R3Jvw59zY2jDtm5hdQ==?="}
