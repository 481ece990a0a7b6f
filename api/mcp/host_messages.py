"""Messages of a host over the two pipes that it started us with, as the SDK's server takes them."""

import logging
from collections.abc import AsyncGenerator, Callable
from contextlib import asynccontextmanager, suppress
from typing import Any

from mcp.server.stdio import stdio_server
from mcp.shared.message import SessionMessage
from mcp.types import INTERNAL_ERROR, ErrorData, JSONRPCError, JSONRPCMessage, JSONRPCResponse

from waygraph.api.mcp.host_lines import Lines, NoMessage
from waygraph.api.mcp.host_pipes import HostPipes
from waygraph.ingest.upstream.messages import Item, MessagesIn, MessagesOut, written
from waygraph.ingest.upstream.pipe import GONE

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
