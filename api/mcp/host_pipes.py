"""Messages of a host over the two pipes that it started us with.

The SDK's transport over standard input and output takes files of any kind, and so reads and writes them in threads:
three changes of thread for each request, which is a large part of what a call costs, and a thread that nothing wakes
while it waits for the host's next line. What a host gives is nearly always a pair of pipes or sockets, which the event
loop itself waits for. For anything else (a terminal, a file) the SDK's transport is used.
"""

import logging
import os
import stat
import sys
from collections.abc import AsyncGenerator, Callable, Iterator
from contextlib import asynccontextmanager, contextmanager, suppress
from typing import Any

import anyio
from mcp.server.stdio import stdio_server
from mcp.shared.message import SessionMessage
from mcp.types import INTERNAL_ERROR, ErrorData, JSONRPCError, JSONRPCResponse

from waygraph.api.mcp.host_lines import Lines, NoMessage
from waygraph.ingest.upstream.child import Pipe
from waygraph.ingest.upstream.messages import GONE, Item, MessagesIn, MessagesOut, written

INPUT, OUTPUT, ERRORS = 0, 1, 2
_log = logging.getLogger(__name__)


@asynccontextmanager
async def host_pipes() -> AsyncGenerator[tuple[Any, Any]]:
    """Streams of the host's messages and to the host, as the SDK's server takes them.

    Meanwhile standard input is empty and standard output is where errors go, for us and for all that we start.
    """
    if not _is_apart(INPUT) or not _is_apart(OUTPUT):
        async with stdio_server() as streams:
            yield streams
        return
    with _taken(INPUT, _nothing) as asked, _taken(OUTPUT, _errors) as answers:
        writing = MessagesOut(Pipe(answers), _line, sys.stderr.flush)
        reading = _Heard(Pipe(asked), writing)
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(writing.run)
            yield reading, writing
            await reading.aclose()
            tasks.cancel_scope.cancel()


def _is_apart(number: int) -> bool:
    """Whether it is a pipe or a socket, and none that standard error shares: what we do to it nobody else feels."""
    here, errors = os.fstat(number), os.fstat(ERRORS)
    is_shared = (here.st_dev, here.st_ino) == (errors.st_dev, errors.st_ino)
    return (stat.S_ISFIFO(here.st_mode) or stat.S_ISSOCK(here.st_mode)) and not is_shared


@contextmanager
def _taken(number: int, instead: Callable[[], int]) -> Iterator[Any]:
    """The file that a standard stream is, under a number of its own; in its place stands another, until the end."""
    ours = os.fdopen(os.dup(number), "rb" if number == INPUT else "wb", buffering=0)
    _put(instead(), number)
    try:
        yield ours
    finally:
        os.set_blocking(ours.fileno(), True)
        os.dup2(ours.fileno(), number)
        ours.close()


def _put(descriptor: int, number: int) -> None:
    os.dup2(descriptor, number)
    os.close(descriptor)


def _nothing() -> int:
    return os.open(os.devnull, os.O_RDONLY)


def _errors() -> int:
    return os.dup(ERRORS)


class _Heard(MessagesIn):
    """What a host says. A line that is no message is answered here: the server does not hear of it."""

    def __init__(self, pipe: Pipe, writing: MessagesOut) -> None:
        lines = Lines()
        super().__init__(pipe, lines.fed, lines.ended)
        self._writing = writing

    async def receive(self) -> Item:
        while isinstance(item := await super().receive(), NoMessage):
            with suppress(*GONE):
                await self._writing.send(SessionMessage(item.answer))
        return item


def _line(message: Any) -> bytes:
    """One that cannot be written is lost, and nothing else: who waits for it gets an error."""
    try:
        return written(message)
    except ValueError as fault:
        _log.error("a message to the host cannot be written (%s)", type(fault).__name__)
        if not isinstance(message, JSONRPCResponse | JSONRPCError):
            return b""
        error = ErrorData(code=INTERNAL_ERROR, message="the answer cannot be written as JSON")
        return written(JSONRPCError(jsonrpc="2.0", id=message.id, error=error))
