"""What a host writes, line by line: its messages, and what it is told of a line that is none.

The SDK passes over what it cannot read, and a host waits for the answer to it in vain.
"""

import json
import logging
from collections.abc import AsyncGenerator, Callable
from contextlib import asynccontextmanager, suppress
from typing import Any

from mcp.server.stdio import stdio_server
from mcp.shared.message import SessionMessage
from mcp.types import (
    INTERNAL_ERROR,
    INVALID_REQUEST,
    PARSE_ERROR,
    ErrorData,
    JSONRPCError,
    JSONRPCMessage,
    JSONRPCNotification,
    JSONRPCResponse,
    RequestId,
)

from waygraph.api.mcp.host_pipes import HostPipes
from waygraph.ingest.upstream.pipe import GONE
from waygraph.ingest.upstream.stdio import Item, MessagesIn, MessagesOut, read_message, written
from waygraph.registry.model.identity import mended

_NO_JSON = "this is no JSON-RPC message"
_NO_ID = "the id of a request is a text or a whole number"
_NO_MESSAGE = "this is no JSON-RPC message, or is nested too deeply to be passed on"


class NoMessage(ValueError):
    """A line that is no message. `answer`: what tells its host so."""

    def __init__(self, request_id: RequestId | None, code: int, reason: str) -> None:
        super().__init__(reason)
        error = ErrorData(code=code, message=reason)
        self.answer = JSONRPCError(jsonrpc="2.0", id=request_id, error=error)


class Lines:
    """Chunks, cut into lines."""

    def __init__(self) -> None:
        self._rest = bytearray()

    def fed(self, chunk: bytes) -> list[Item]:
        """What this chunk completes."""
        self._rest += chunk
        if b"\n" not in chunk:
            return []
        *lines, last = bytes(self._rest).split(b"\n")
        self._rest = bytearray(last)
        return [item_of(line) for line in lines if line.strip()]

    def ended(self) -> list[Item]:
        """What a last line without its end says."""
        last, self._rest = bytes(self._rest), bytearray()
        return [item_of(last)] if last.strip() else []


def item_of(line: bytes) -> Item:
    """The message, a NoMessage where an answer is due, or another ValueError, of which nobody hears."""
    text = line.decode("utf-8", "replace")
    try:
        message = read_message(text)
    except ValueError as fault:
        return _leniently(text, fault)
    if isinstance(message, JSONRPCNotification) and "id" in json.loads(text):  # no id that the protocol has
        return NoMessage(None, INVALID_REQUEST, _NO_ID)
    return SessionMessage(message)


def _leniently(text: str, fault: ValueError) -> Item:
    """Half of a surrogate pair, which JSON allows and a strict parser refuses, costs only itself: it becomes `?`."""
    try:
        document = json.loads(text)
    except (ValueError, RecursionError):
        return NoMessage(None, PARSE_ERROR, _NO_JSON)
    try:
        return SessionMessage(read_message(json.dumps(document, ensure_ascii=False).encode("utf-8", "replace")))
    except (ValueError, RecursionError):
        if isinstance(document, dict) and ("id" not in document or document.keys() & {"result", "error"}):
            return fault  # meant as a notification or an answer, to which there is no answer
        return NoMessage(_id_of(document), INVALID_REQUEST, _NO_MESSAGE)


def _id_of(document: Any) -> RequestId | None:
    named = document.get("id") if isinstance(document, dict) else None
    if isinstance(named, str):
        return mended(named)
    return named if isinstance(named, int) and not isinstance(named, bool) else None


# Messages of a host over the two pipes that it started us with, as the SDK's server takes them.


_log = logging.getLogger(__name__)


def line_of(message: JSONRPCMessage) -> bytes:
    """One that cannot be written is lost, and nothing else: who waits for it gets an error."""
    try:
        return written(message)
    except ValueError as fault:
        _log.error("a message to the host cannot be written (%s)", type(fault).__name__)
        if not isinstance(message, JSONRPCResponse | JSONRPCError):
            return b""
        error = ErrorData(code=INTERNAL_ERROR, message="the answer cannot be written as JSON")
        return written(JSONRPCError(jsonrpc="2.0", id=message.id, error=error))


@asynccontextmanager
async def host_messages(
    pipes: HostPipes | None, line: Callable[[JSONRPCMessage], bytes] = line_of
) -> AsyncGenerator[tuple[Any, Any]]:
    """Streams of the host's messages and to the host; `line` makes one of each that it is sent.

    None: standard input and output, as the SDK reads and writes them.
    """
    if pipes is None:
        async with stdio_server() as streams:
            yield streams
        return
    writing = MessagesOut(pipes.told, line)
    reading = _Heard(pipes, writing)
    yield reading, writing
    await reading.aclose()


class _Heard(MessagesIn):
    """What a host says. A line that is no message is answered here: the server does not hear of it."""

    def __init__(self, pipes: HostPipes, writing: MessagesOut) -> None:
        lines = Lines()
        super().__init__(pipes.asked, lines.fed, lines.ended)
        self._writing = writing

    async def receive(self) -> Item:
        while isinstance(item := await super().receive(), NoMessage):
            with suppress(*GONE):
                await self._writing.send(SessionMessage(item.answer))
        return item
