"""Hosts on stdio that share one running service: everything passes, in both eras and both ways."""

import json
import os
import signal
import subprocess
import sys
from collections.abc import AsyncIterator, Iterator, Sequence
from contextlib import asynccontextmanager
from http import HTTPStatus
from pathlib import Path
from typing import Any, Literal

import anyio
import pytest
from mcp import Client, MCPError, StdioServerParameters
from mcp import types as mcp
from mcp.types import CONNECTION_CLOSED

from tests.bridge.service_double import Asgi, Service, server, service

pytestmark = pytest.mark.filterwarnings("ignore:The logging capability is deprecated")
Era = Literal["auto", "legacy"]
ROOT = Path(__file__).parents[2]


@pytest.fixture
def double() -> Iterator[Service]:
    with service() as running:
        yield running


def program(place: str, *namespace: str, **environ: str) -> StdioServerParameters:
    told = {"PYTHONPATH": str(ROOT), **environ}
    return StdioServerParameters(
        command=sys.executable, args=["-m", "tests.bridge.program", place, *namespace], env=told, cwd=ROOT
    )


@asynccontextmanager
async def host(place: str, era: Era, *namespace: str, environ: Any = None, **more: Any) -> AsyncIterator[Client]:
    async with Client(program(place, *namespace, **(environ or {})), mode=era, **more) as client:
        yield client


async def test_tools_are_listed_and_results_pass_unchanged(double: Service, era: Era) -> None:
    async with host(double.url, era) as client:
        listed = await client.list_tools()
        answer = await client.call_tool("echo", {"text": "ö"})
        assert client.protocol_version == ("2026-07-28" if era == "auto" else "2025-11-25")
    assert [tool.name for tool in listed.tools] == ["echo", "slow", "ask"]
    assert [block.type for block in answer.content] == ["text", "image"]
    assert isinstance(answer.content[0], mcp.TextContent)
    assert answer.content[0].text == "hello ö"


async def test_progress_and_log_lines_reach_the_host(double: Service, era: Era) -> None:
    """Log lines in the handshake era alone: in the modern one a host asks for them with each request."""
    done: list[Any] = []
    logged: list[Any] = []

    async def told(progress: float, total: float | None, message: str | None) -> None:
        done.append((progress, total, message))

    async def log(told: mcp.LoggingMessageNotificationParams) -> None:
        logged.append(told.data)

    async with host(double.url, era, logging_callback=log) as client:
        await client.call_tool("slow", {"name": "a"}, progress_callback=told)
    assert done == [(1.0, 3.0, "begun")]
    assert logged == ([] if era == "auto" else ["at work on a"])


async def test_a_question_of_the_service_is_answered_by_the_host(double: Service, era: Era) -> None:
    async def yes(_: Any, asked: mcp.ElicitRequestParams) -> mcp.ElicitResult:
        assert asked.message == "Really?"
        return mcp.ElicitResult(action="accept", content={"yes": True})

    async with host(double.url, era, elicitation_callback=yes) as client:
        assert (await client.call_tool("ask", {})).structured_content == {"result": "said True"}


async def test_a_call_that_the_host_gives_up_is_given_up_by_the_service(double: Service, era: Era) -> None:
    async with host(double.url, era) as client:
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(client.call_tool, "slow", {"name": "for ever"})
            await _until(lambda: double.heard.started == ["for ever"])
            tasks.cancel_scope.cancel()
        await _until(lambda: double.heard.cancelled == ["for ever"])
        assert (await client.call_tool("slow", {"name": "next"})).structured_content == {"result": "done next"}


async def test_calls_beside_a_slow_one_do_not_wait_for_it(double: Service, era: Era) -> None:
    told: list[Any] = []
    async with host(double.url, era) as client, anyio.create_task_group() as tasks:
        tasks.start_soon(client.call_tool, "slow", {"name": "for ever"})
        await _until(lambda: "for ever" in double.heard.started)
        told += [(await client.call_tool("slow", {"name": name})).structured_content for name in "012"]
        tasks.cancel_scope.cancel()
    assert told == [{"result": f"done {number}"} for number in range(3)]


async def test_a_service_that_comes_back_is_used_by_the_next_request(double: Service, era: Era) -> None:
    """Also in the handshake era, whose session is gone with the service: the host is not told to connect again."""
    async with host(double.url, era, environ={"WAYGRAPH_REMOTE_RETRIES": "0"}) as client:
        before = await _echo(client)
        await anyio.to_thread.run_sync(double.stop)
        with pytest.raises(MCPError) as away:
            await _echo(client)
        double.greeting = "back"
        await anyio.to_thread.run_sync(double.start)
        after = [await _echo(client), await _echo(client)]
    assert (before, after) == ("hello x", ["back x", "back x"])
    error = away.value.error
    assert error.message.startswith(f"the service at {double.url} does not answer: ")
    assert "refused" in error.message or "failed" in error.message
    assert error.data == {"by": "gateway", "code": "service-unavailable", "retryable": True}


async def test_a_service_that_is_just_starting_is_waited_for(era: Era) -> None:
    """For as long as a registry at a service is: a host that starts first sees no failure."""
    double = Service()
    try:
        said = ""
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(_start_later, double)
            async with host(double.url, era, environ={"WAYGRAPH_REMOTE_RETRIES": "8"}) as client:
                said = await _echo(client)
        assert said == "hello x"
    finally:
        double.stop()


async def test_requests_side_by_side_share_one_new_session(double: Service, era: Era) -> None:
    found: list[str] = []

    async def ask(client: Client) -> None:
        found.append(await _echo(client))

    async with host(double.url, era) as client:
        await _echo(client)
        await anyio.to_thread.run_sync(double.stop)
        await anyio.to_thread.run_sync(double.start)
        double.heard.headers.clear()
        async with anyio.create_task_group() as tasks:
            for _ in range(8):
                tasks.start_soon(ask, client)
    assert found == ["hello x"] * 8
    sessions = {headers["mcp-session-id"] for headers in double.heard.headers if "mcp-session-id" in headers}
    assert len(sessions) == (0 if era == "auto" else 2)  # the one that was lost, and the new one


async def test_a_call_under_way_when_the_service_goes_gets_a_clear_error(double: Service, era: Era) -> None:
    async with host(double.url, era) as client:
        faults: list[MCPError] = []

        async def call() -> None:
            with pytest.raises(MCPError) as caught:
                await client.call_tool("slow", {"name": "for ever"})
            faults.append(caught.value)

        async with anyio.create_task_group() as tasks:
            tasks.start_soon(call)
            await _until(lambda: double.heard.started == ["for ever"])
            await anyio.to_thread.run_sync(double.break_off)
    assert "it went away before it answered; whether it did what was asked is not known" in str(faults[0])


async def test_the_key_is_shown_and_a_namespace_is_a_path(double: Service) -> None:
    double.stop()
    double.start(server(double.heard).streamable_http_app(streamable_http_path="/sales/mcp"))
    async with host(double.url, "auto", "sales", environ={"WAYGRAPH_API_KEY": "wg_secret"}) as client:
        assert (await _echo(client)) == "hello x"
    assert {headers["authorization"] for headers in double.heard.headers} == {"Bearer wg_secret"}
    assert {headers[":path"] for headers in double.heard.headers} == {"/sales/mcp"}


@pytest.mark.parametrize(
    ("status", "kind", "body", "said"),
    [
        (404, "text/html", b"<p>Not here</p>", "it answers 404 (Not Found), and not as a Waygraph service does"),
        (503, "text/plain", b"later", "it answers 503 (Service Unavailable)"),
        (
            401,
            "application/problem+json",
            b'{"code": "not-authenticated", "detail": "no key", "title": "x", "facts": {}, "retryable": false}',
            "no key",
        ),
    ],
)
def test_what_the_service_refuses_is_told_as_it_said_it(
    double: Service, status: int, kind: str, body: bytes, said: str
) -> None:
    double.stop()
    double.start(_answering(status, kind, body))
    error = _raw(double, {"jsonrpc": "2.0", "id": 1, "method": "tools/list"})[0]["error"]
    assert said in error["message"]


@pytest.mark.parametrize(
    ("status", "kind", "body"),
    [
        (200, "text/html", b"<p>A page for people</p>"),
        (200, "application/json", b'{"hello": "world"}'),
        (200, "application/json; charset=utf-8", b"no JSON"),
        (200, "text/event-stream", b'data: {"a": 1}\n\n'),
        (202, "text/plain", b""),
    ],
)
def test_an_address_without_a_service_is_told_as_such(double: Service, status: int, kind: str, body: bytes) -> None:
    """In one sentence that names it, without what the SDK makes of the answer."""
    double.stop()
    double.start(_answering(status, kind, body))
    error = _raw(double, {"jsonrpc": "2.0", "id": 1, "method": "tools/list"})[0]["error"]
    phrase = HTTPStatus(status).phrase
    said = f"it answers {status} ({phrase}), and not as a Waygraph service does; is this its address?"
    assert error["message"] == f"the service at {double.url}: {said}"
    assert error["code"] == CONNECTION_CLOSED


def test_what_is_no_message_is_answered_and_the_next_one_is_served(double: Service) -> None:
    meta = {"io.modelcontextprotocol/protocolVersion": "2026-07-28", "io.modelcontextprotocol/clientCapabilities": {}}
    good = {"jsonrpc": "2.0", "id": "a", "method": "tools/list", "params": {"_meta": meta}}
    broken, listed = _raw(double, "{", good)
    assert broken == {"jsonrpc": "2.0", "id": None, "error": {"code": -32700, "message": "this is no JSON-RPC message"}}
    assert listed["id"] == "a"
    assert [tool["name"] for tool in listed["result"]["tools"]] == ["echo", "slow", "ask"]


async def test_a_session_is_ended_when_the_host_leaves(double: Service) -> None:
    async with host(double.url, "legacy") as client:
        await _echo(client)
    assert double.heard.headers[-1][":method"] == "DELETE"


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_told_to_stop_it_ends_the_session_and_itself(double: Service, number: signal.Signals) -> None:
    """Though the host's end is open, and a thread waits for its next line."""
    hello = {"protocolVersion": "2025-06-18", "capabilities": {}, "clientInfo": {"name": "h", "version": "1"}}
    started = program(double.url)
    with subprocess.Popen(
        [started.command, *started.args],
        cwd=ROOT,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
    ) as process:
        assert process.stdin
        assert process.stdout
        assert process.stderr
        asked = {"jsonrpc": "2.0", "id": 1, "method": "initialize", "params": hello}
        process.stdin.write(json.dumps(asked).encode() + b"\n")
        process.stdin.flush()
        assert json.loads(process.stdout.readline())["result"]["protocolVersion"] == "2025-06-18"
        process.send_signal(number)
        assert process.wait(60) == 0
        assert process.stderr.read() == b""
    assert double.heard.headers[-1][":method"] == "DELETE"


async def test_a_host_that_leaves_while_the_service_is_away_is_not_held_up(double: Service) -> None:
    async def main() -> None:
        async with host(double.url, "legacy") as client:
            await _echo(client)
            await anyio.to_thread.run_sync(double.stop)

    with_patience = 20.0
    with anyio.fail_after(with_patience):
        await main()


@pytest.mark.parametrize("place", ["http://user:secret@h", "ftp://h", "http://h/?key=secret"])
def test_a_place_that_is_none_is_refused_before_anything_is_said(place: str) -> None:
    done = subprocess.run(
        [sys.executable, "-m", "tests.bridge.program", place], cwd=ROOT, input=b"", capture_output=True, check=False
    )
    assert done.returncode != 0
    assert done.stdout == b""
    assert b"secret" not in done.stderr.splitlines()[-1]


def _answering(status: int, kind: str, body: bytes) -> Asgi:
    """Whatever it is asked."""

    async def app(scope: Any, receive: Any, send: Any) -> None:
        if scope["type"] == "http":
            head = {"type": "http.response.start", "status": status, "headers": [(b"content-type", kind.encode())]}
            await send(head)
            await send({"type": "http.response.body", "body": body})

    return app


async def _echo(client: Client) -> str:
    answer = await client.call_tool("echo", {"text": "x"})
    block = answer.content[0]
    assert isinstance(block, mcp.TextContent)
    return block.text


async def _start_later(double: Service) -> None:
    await anyio.sleep(1)
    await anyio.to_thread.run_sync(double.start)


async def _until(holds: Any) -> None:
    with anyio.fail_after(60):
        while not holds():
            await anyio.sleep(0.01)


def _raw(double: Service, *lines: dict[str, Any] | str) -> list[dict[str, Any]]:
    started = program(double.url)
    return answers([started.command, *started.args], *lines, WAYGRAPH_REMOTE_RETRIES="0")


def answers(command: Sequence[str], *lines: dict[str, Any] | str, **environ: str) -> list[dict[str, Any]]:
    """What a bridge answers to these lines: each answer is read before the next is sent. It says nothing else."""
    with subprocess.Popen(
        command,
        cwd=ROOT,
        env={**os.environ, **environ},
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
    ) as process:
        assert process.stdin is not None
        assert process.stdout is not None
        assert process.stderr is not None
        told = []
        for line in lines:
            text = line if isinstance(line, str) else json.dumps(line)
            process.stdin.write(text.encode() + b"\n")
            process.stdin.flush()
            told.append(json.loads(process.stdout.readline()))
        process.stdin.close()
        assert process.stderr.read() == b""
        assert process.wait(60) == 0
    return told
