"""Messages over pipes: each is what the SDK takes it for, whole and in order, and an end is heard of."""

import json
import os
from collections.abc import Iterator, Mapping
from typing import IO, Any

import anyio
import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from mcp import types
from mcp.client.session import ClientSession
from mcp.shared.jsonrpc_dispatcher import JSONRPCDispatcher
from mcp.shared.message import SessionMessage
from mcp.types import JSONRPCMessage, JSONRPCNotification, jsonrpc_message_adapter

from waygraph.ingest.upstream.calls import raw_cancel, raw_request
from waygraph.ingest.upstream.messages import Item, LinesOut, MessagesIn, Pipe, encode_message
from waygraph.ingest.upstream.stdio import read_message

LONG = 300_000
"""More than a pipe holds."""
PARTS = {
    "jsonrpc": st.sampled_from(["2.0", "1.0", 2]),
    "id": st.sampled_from([1, "1", None, 1.0, 1.5, True, [], -(2**70)]),
    "method": st.sampled_from(["ping", "", None, 7]),
    "params": st.sampled_from([{}, {"a": [1.5, None]}, None, [], 3]),
    "result": st.sampled_from([{}, {"content": []}, None, []]),
    "error": st.sampled_from([{"code": 1, "message": "m", "data": {}}, {"code": "1", "message": "m"}, {}, None]),
    "more": st.just("x"),
}


def of_the_sdk(line: bytes) -> JSONRPCMessage | None:
    try:
        return jsonrpc_message_adapter.validate_json(line, by_name=False)
    except ValueError:
        return None


def ours(line: bytes) -> JSONRPCMessage | None:
    try:
        return read_message(line)
    except ValueError:
        return None


@given(document=st.fixed_dictionaries({}, optional=PARTS))
@example(document={"jsonrpc": "2.0", "id": 1, "method": "ping", "params": {}})
@example(document={"jsonrpc": "2.0", "id": None, "method": "ping"})
@example(document={"jsonrpc": "2.0", "id": 1, "method": "ping", "result": {}})
def test_a_line_is_the_message_that_the_sdk_takes_it_for(document: dict[str, object]) -> None:
    line = json.dumps(document).encode()
    assert ours(line) == of_the_sdk(line)
    assert type(ours(line)) is type(of_the_sdk(line))


@pytest.mark.parametrize("line", [b"", b"[]", b"7", b"{", b'{"jsonrpc": "2.0"', b"\xff", b'{"a": 1}{"b": 2}'])
def test_what_is_no_message_is_none(line: bytes) -> None:
    assert ours(line) is of_the_sdk(line) is None


type Ends = tuple[IO[bytes], IO[bytes]]
"""Of a pipe: where it is read and where it is written."""


@pytest.fixture
def ends() -> Iterator[Ends]:
    reading, writing = os.pipe()
    with open(reading, "rb", buffering=0) as read, open(writing, "wb", buffering=0) as written:
        yield read, written


def note(text: str) -> SessionMessage:
    return SessionMessage(JSONRPCNotification(jsonrpc="2.0", method="note", params={"text": text}))


def line(text: str) -> bytes:
    return encode_message(note(text).message)


def text_of(line: bytes) -> str:
    return str(json.loads(line)["params"]["text"])


def lines_of(chunk: bytes) -> list[Item]:
    return [note(line.decode()) for line in chunk.splitlines()]


async def test_a_message_goes_out_whole_though_its_sender_is_cancelled(ends: Ends) -> None:
    reading, writing, found = Pipe(ends[0]), LinesOut(Pipe(ends[1])), b""
    given_up = anyio.CancelScope()

    async def send_until_given_up() -> None:
        with given_up:
            await writing.write(line("a" * LONG))

    async with anyio.create_task_group() as tasks:
        tasks.start_soon(writing.run)
        tasks.start_soon(send_until_given_up)
        await anyio.wait_all_tasks_blocked()
        given_up.cancel()
        await anyio.wait_all_tasks_blocked()
        assert given_up.cancelled_caught
        tasks.start_soon(writing.write, line("b" * LONG))
        tasks.start_soon(writing.write, line("c"))
        while found.count(b"\n") < 3:
            found += await reading.receive()
        await writing.write(line("d"))
        found += await reading.receive()
        tasks.cancel_scope.cancel()
    assert [text_of(line) for line in found.splitlines()] == ["a" * LONG, "b" * LONG, "c", "d"]


async def test_who_sends_to_a_pipe_that_nobody_reads_is_told_so(ends: Ends) -> None:
    gone: list[str] = []
    writing = LinesOut(Pipe(ends[1]), on_gone=lambda: gone.append("gone"))

    async def send() -> None:
        with pytest.raises(anyio.BrokenResourceError):
            await writing.write(line("a" * LONG))

    async with anyio.create_task_group() as tasks:
        tasks.start_soon(writing.run)
        tasks.start_soon(send)
        tasks.start_soon(send)
        await anyio.wait_all_tasks_blocked()
        ends[0].close()
    with pytest.raises(anyio.ClosedResourceError):
        await writing.write(line("b"))
    assert gone == ["gone"]


async def listen(reading: MessagesIn, heard: list[Item]) -> None:
    heard.extend([item async for item in reading])


@pytest.mark.parametrize("is_waiting", [False, True])
async def test_what_came_before_an_end_is_heard(ends: Ends, *, is_waiting: bool) -> None:
    """A server that answered and was gone before we knew: its answer is in the pipe, and nothing comes after it."""
    pipe = Pipe(ends[0])
    reading = MessagesIn(pipe, lines_of)
    heard: list[Item] = []

    async with anyio.create_task_group() as tasks:
        if is_waiting:
            tasks.start_soon(listen, reading, heard)
            await anyio.wait_all_tasks_blocked()
        ends[1].write(b"the answer\n")
        ends[1].flush()
        reading.end_with(pipe.drain())
        ends[1].write(b"too late\n")
        ends[1].flush()
        if not is_waiting:
            tasks.start_soon(listen, reading, heard)
    assert [str((item.message.params or {})["text"]) for item in heard] == ["the answer"]  # type: ignore[union-attr]


BAD_PAGE = {"tools": [{"name": "a", "inputSchema": {}}, {"name": None}, 7], "extra": {"kept": True}}
MODERN = types.DiscoverResult(
    supported_versions=["2026-07-28"],
    capabilities=types.ServerCapabilities(),
    result_type="complete",
    ttl_ms=0,
    cache_scope="public",
)


async def asked(agreed: types.DiscoverResult | None) -> tuple[Mapping[str, Any], dict[str, Any]]:
    """The result of a raw request that is answered with BAD_PAGE, and the parameters that were sent."""
    answers, reading = anyio.create_memory_object_stream[SessionMessage | Exception](1)
    writing, requests = anyio.create_memory_object_stream[SessionMessage](1)
    seen: dict[str, Any] = {}
    result: Mapping[str, Any] = {}
    with answers, reading, writing, requests:
        async with ClientSession(dispatcher=JSONRPCDispatcher(reading, writing)) as session:
            if agreed:
                session.adopt(agreed)

            async def answer() -> None:
                request = (await requests.receive()).message
                assert isinstance(request, types.JSONRPCRequest)
                seen.update(request.params or {})
                await answers.send(
                    SessionMessage(types.JSONRPCResponse(jsonrpc="2.0", id=request.id, result=dict(BAD_PAGE)))
                )

            async with anyio.create_task_group() as tasks:
                tasks.start_soon(answer)
                result = await raw_request(session, "tools/list", {"cursor": "2"}, capabilities={"roots": {}})
                tasks.start_soon(raw_cancel, session, 1, "why")
                seen["told"] = (await requests.receive()).message.model_dump(by_alias=True, exclude_none=True)
    return result, seen


@pytest.mark.parametrize("agreed", [None, MODERN], ids=["handshake", "modern"])
def test_the_private_way_around_the_check_is_still_there(agreed: types.DiscoverResult | None) -> None:
    """If this fails, the SDK has changed what `ingest/upstream/open.py` uses.

    That is `ClientSession._stamp(data, options)`, which writes the era's headers and `_meta`, and
    `ClientSession._dispatcher` with `send_raw_request(method, params, options)`, which gives the result unchecked, and
    `notify(method, params)`. Look in `ClientSession.send_request` for what took their place, or for a public way to
    have a result that is not validated.
    Only raw.py is to change; until then, pin the SDK below that version in pyproject.toml.
    """
    result, seen = anyio.run(asked, agreed)
    assert result == BAD_PAGE
    assert seen["cursor"] == "2"
    assert ("io.modelcontextprotocol/protocolVersion" in seen.get("_meta", {})) == (agreed is MODERN)
    told = {"requestId": 1, "reason": "why"}
    assert seen["told"] == {"jsonrpc": "2.0", "method": "notifications/cancelled", "params": told}
    if agreed is MODERN:
        assert seen["_meta"]["io.modelcontextprotocol/clientCapabilities"] == {"roots": {}}
