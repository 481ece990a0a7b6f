"""A server that no longer knows its session, in each way that servers say so: the call is made once more, in a new one.

What may have run is never sent again, and an error of a tool is none of the session.
"""

import gzip
import json
import queue
import uuid
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

import anyio
import pytest

from tests.servers.misbehaving_http import Exchange, misbehaving_http
from tests.servers.wire import greeting, listing, tool
from tests.upstream.calling import PATIENCE_S, Listening
from tests.upstream.launches import SETTINGS
from waygraph.ingest.execution.call import ToolCall
from waygraph.ingest.execution.pool import calling_pool
from waygraph.ingest.manifest.records import HttpLaunch, Launch
from waygraph.ingest.upstream.connection import MayHaveRun
from waygraph.registry.model.errors import UpstreamAnswered, UpstreamBusy, UpstreamError, UpstreamRefused
from waygraph.registry.model.nouns import Agent, Tool

AGENT = Agent(id="crane", name="crane", description="")


@dataclass
class Loss:
    """How a lost session is told: the answer to whatever comes in it."""

    status: int
    message: str = ""
    code: int = -32000
    body: bytes | None = None
    kind: str = "application/json"
    with_id: bool = False
    """Whether the error names the request."""
    packed_as_events: bool = False


@dataclass
class Crane:
    """A server with sessions, of which each is lost after `calls_a_session` calls."""

    loss: Loss
    calls_a_session: int = 1
    never_works: bool = False
    packs: bool = False
    """Whether all its answers are compressed, as by an edge in front of it."""
    sessions: dict[str, int] = field(default_factory=dict)
    runs: int = 0
    """How often its tool ran."""

    def __call__(self, exchange: Exchange, message: Mapping[str, Any]) -> None:
        method, session = message.get("method"), exchange.headers.get("Mcp-Session-Id", "")
        if exchange.command != "POST" or "id" not in message:
            return exchange.send(202 if exchange.command == "POST" else 405)
        if method == "server/discover":
            return exchange.send(400, b"no such method", "text/plain")
        if method == "initialize":
            session = uuid.uuid4().hex
            self.sessions[session] = self.calls_a_session
            return self._answer(exchange, message, {"result": greeting()}, Mcp_Session_Id=session)
        if method == "tools/list":
            return self._answer(exchange, message, {"result": listing(tool("lift"))})
        if not self.sessions.get(session) or self.never_works:
            return self._lose(exchange, message)
        self.sessions[session] -= 1
        self.runs += 1
        return self._answer(exchange, message, {"result": {"content": [{"type": "text", "text": "lifted"}]}})

    def _answer(self, exchange: Exchange, message: Mapping[str, Any], answer: Any, **headers: str) -> None:
        body = json.dumps({"jsonrpc": "2.0", "id": message["id"], **answer}).encode()
        self._send(exchange, 200, body, "application/json", **headers)

    def _send(self, exchange: Exchange, status: int, body: bytes, kind: str, **headers: str) -> None:
        if self.packs:
            body, headers = gzip.compress(body), {**headers, "Content-Encoding": "gzip"}
        exchange.send(status, body, kind, **headers)

    def _lose(self, exchange: Exchange, message: Mapping[str, Any]) -> None:
        loss = self.loss
        error = {"code": loss.code, "message": loss.message}
        body = json.dumps({"jsonrpc": "2.0", "id": message["id"] if loss.with_id else None, "error": error}).encode()
        if loss.packed_as_events:
            return self._send(exchange, loss.status, b"event: message\ndata: " + body + b"\n\n", "text/event-stream")
        return self._send(exchange, loss.status, body if loss.body is None else loss.body, loss.kind)


@contextmanager
def crane(loss: Loss, **more: Any) -> Iterator[tuple[Crane, str]]:
    server = Crane(loss, **more)
    with misbehaving_http(server) as endpoint:
        yield server, endpoint.url


@dataclass
class OlderCrane:
    """Answers by a stream, and takes one call for each."""

    status: int
    body: bytes
    streams: dict[str, "queue.Queue[bytes]"] = field(default_factory=dict)
    runs: int = 0

    def __call__(self, exchange: Exchange, message: Mapping[str, Any]) -> None:
        if exchange.command == "GET":
            return self._stream(exchange)
        stream = self.streams.get(exchange.path)
        if message.get("method") == "tools/call":
            self.streams.pop(exchange.path, None)
            if stream is None:
                return exchange.send(self.status, self.body, "text/plain")
            self.runs += 1
        if stream is not None and "id" in message:
            results = {"initialize": greeting(), "tools/call": {"content": [{"type": "text", "text": "lifted"}]}}
            answer = {"jsonrpc": "2.0", "id": message["id"], "result": results.get(message["method"], {})}
            stream.put(json.dumps(answer).encode())
        return exchange.send(202)

    def _stream(self, exchange: Exchange) -> None:
        path = f"/messages/{uuid.uuid4().hex}"
        stream = self.streams[path] = queue.Queue()
        exchange.begin("text/event-stream")
        exchange.wfile.write(f"event: endpoint\ndata: {path}\n\n".encode())
        exchange.wfile.flush()
        while not exchange.endpoint.ended.is_set():
            try:
                exchange.wfile.write(b"event: message\ndata: " + stream.get(timeout=0.02) + b"\n\n")
                exchange.wfile.flush()
            except queue.Empty:
                pass


def calls(url: str, times: int, arguments: Mapping[str, Any], name: str = "lift", form: Any = "http") -> list[str]:
    """What each call came to: the text of its result, or the name of its error."""

    async def run() -> list[str]:
        async def launch_of(_: Agent) -> Launch:
            return HttpLaunch(url=url, form=form)

        found = []
        tool = Tool(id="", agent_id=AGENT.id, name=name)
        call = ToolCall(agent=AGENT, tool=tool, arguments=arguments, deadline_s=PATIENCE_S, host=Listening())
        async with calling_pool(launch_of, SETTINGS) as pool:
            for _ in range(times):
                try:
                    with anyio.fail_after(PATIENCE_S):
                        result = await pool.call(call)
                    found.append(str(result["content"][0]["text"]))
                except UpstreamError as error:
                    found.append(f"{type(error).__name__}: {error.reason}")
        return found

    return anyio.run(run)


LOSSES = {
    "404": Loss(404, body=b""),
    "404 as an error": Loss(404, "Session not found", -32001),
    "404 with another's words": Loss(404, body=b"<h1>gone</h1>", kind="text/html"),
    "410": Loss(410, body=b""),
    "400 without an id": Loss(400, "Bad Request: who are you?"),
    "400 without a body": Loss(400, body=b""),
    "400 in plain text": Loss(400, body=b"Invalid or missing session ID", kind="text/plain"),
    "400 that names the request": Loss(400, "Bad Request: Server not initialized", with_id=True),
    "422 on the session": Loss(422, body=b'{"detail": "unknown session"}'),
    "500 with a message": Loss(500, "session is not known here", -32603),
    "503 of an edge": Loss(503, body=b"this session has expired", kind="text/plain"),
    "200": Loss(200, "no such session", with_id=True),
    "200, of the protocol's kind": Loss(200, "Session abc has been terminated", -32600, with_id=True),
    "200, as an event": Loss(200, "Invalid session ID", -32001, with_id=True, packed_as_events=True),
}


@pytest.mark.parametrize("how", LOSSES)
def test_a_lost_session_is_opened_anew_and_the_call_made_once(how: str) -> None:
    with crane(LOSSES[how]) as (server, url):
        assert calls(url, 3, {"berth": 4}) == ["lifted"] * 3
    assert server.runs == 3
    assert len(server.sessions) == 3


ERRORS: dict[str, tuple[Loss, dict[str, Any]]] = {
    "of the arguments": (Loss(400, "Invalid session name", -32602, with_id=True), {}),
    "of a tool's own sessions": (Loss(200, "session 7 not found", with_id=True), {"session": 7}),
    "of a session in a value": (Loss(200, "no such session", with_id=True), {"what": "Session 9"}),
    "of another matter": (Loss(200, "the crane is out of order", with_id=True), {}),
    "of a matter with a session in it": (Loss(200, "the database's session pool has no room", with_id=True), {}),
    "at length": (Loss(200, "no session. " + "at crane.lift, line 7; " * 30, with_id=True), {}),
    "of who may call": (Loss(403, body=b"no session", kind="text/plain"), {}),
    "of how often": (Loss(429, body=b"too many; your session is not allowed more", kind="text/plain"), {}),
    "of its own": (Loss(500, body=b"boom", kind="text/plain"), {}),
}


@pytest.mark.parametrize("what", ERRORS)
def test_an_error_of_another_kind_is_handed_on_and_nothing_sent_again(what: str) -> None:
    loss, arguments = ERRORS[what]
    with crane(loss) as (server, url):
        first, second = calls(url, 2, arguments)
    assert first == "lifted"
    assert second.startswith(
        tuple(kind.__name__ for kind in (UpstreamAnswered, UpstreamBusy, UpstreamRefused, MayHaveRun))
    )
    assert (server.runs, len(server.sessions)) == (1, 1)


@pytest.mark.parametrize(
    ("status", "body"), [(404, b"Could not find session"), (400, b"No transport for sessionId"), (410, b"")]
)
def test_a_lost_stream_of_the_older_transport_is_opened_anew(status: int, body: bytes) -> None:
    """Its session is the address to which messages go."""
    server = OlderCrane(status, body)
    with misbehaving_http(server) as endpoint:
        assert calls(endpoint.url, 3, {}, form="sse") == ["lifted"] * 3
    assert server.runs == 3


def test_a_server_that_knows_no_session_at_all_is_asked_twice_and_not_on() -> None:
    with crane(Loss(404, "Session not found"), never_works=True) as (server, url):
        [only] = calls(url, 1, {})
    assert "its session has ended (HTTP 404: Session not found)" in only
    assert len(server.sessions) == 2


def test_a_request_that_is_refused_by_the_first_answer_is_no_lost_session() -> None:
    """A server that refuses each call with 400 says why, and its session stands."""
    with crane(Loss(400, "the berth must be a number", with_id=True), never_works=True) as (server, url):
        [only] = calls(url, 1, {})
    assert only.startswith(UpstreamAnswered.__name__)
    assert "the berth must be a number" in only
    assert len(server.sessions) == 1
