"""Standard input and output as the host's pipes, read and written without threads.

The SDK's transport has a thread wait for each line and write each answer: a few hops a message, and one thread that
nothing wakes when the process is to end. It takes streams of its caller, too: these are such.
"""

import asyncio
import logging
import os
import stat
from asyncio import ReadTransport, StreamReader, StreamWriter
from collections.abc import AsyncGenerator, Iterator
from contextlib import asynccontextmanager, contextmanager
from typing import Any, cast

import anyio
from mcp.server.stdio import stdio_server

logger = logging.getLogger("waygraph.mcp")

_LINE_BYTES = 64 * 1024 * 1024
"""The longest message of a host that is read; after a longer one it is not understood any more."""


@asynccontextmanager
async def host_pipes() -> AsyncGenerator[tuple[Any, Any]]:
    """Streams of messages, for as long as the block.

    Meanwhile descriptor 0 is empty and 1 is standard error, so that nothing else in this process, nor a child of it,
    reads or writes where the host does.
    """
    if not has_pipes():
        async with stdio_server() as streams:
            yield streams
        return
    with _taken(0, os.open(os.devnull, os.O_RDONLY)) as reading, _taken(1, os.dup(2)) as writing:
        async with _lines(reading) as lines, _written(writing) as written:
            files = cast("anyio.AsyncFile[str]", lines), cast("anyio.AsyncFile[str]", written)
            async with stdio_server(*files) as streams:
                try:
                    yield streams
                finally:
                    lines.end()  # for which the SDK waits


def has_pipes() -> bool:
    """Whether a host has started this process, and no person at a terminal."""
    return _is_pipe(0) and _is_pipe(1)


def _is_pipe(descriptor: int) -> bool:
    """A terminal is shared with others, which its being read without waiting would harm; a file cannot be."""
    try:
        kind = os.fstat(descriptor).st_mode
    except OSError:
        return False
    return stat.S_ISFIFO(kind) or stat.S_ISSOCK(kind)


@contextmanager
def _taken(descriptor: int, instead: int) -> Iterator[int]:
    """A copy of the descriptor for us alone; whoever uses its number gets `instead`."""
    private = os.dup(descriptor)
    os.dup2(instead, descriptor)
    os.close(instead)
    try:
        yield private
    finally:
        os.dup2(private, descriptor)
        os.close(private)


class _Lines:
    """What `stdio_server` reads of a file."""

    def __init__(self, reader: StreamReader) -> None:
        self._reader = reader

    def __aiter__(self) -> "_Lines":
        return self

    def end(self) -> None:
        self._reader.feed_eof()

    async def __anext__(self) -> str:
        try:
            line = await self._reader.readline()
        except ValueError:
            logger.error("the host's message has more than %s bytes: its side is taken for closed", f"{_LINE_BYTES:,}")
            line = b""
        if not line:
            raise StopAsyncIteration
        return line.decode("utf-8", "replace")


class _Written:
    """What `stdio_server` writes of a file."""

    def __init__(self, writer: StreamWriter) -> None:
        self._writer = writer

    async def write(self, text: str) -> None:
        self._writer.write(text.encode())

    async def flush(self) -> None:
        await self._writer.drain()


@asynccontextmanager
async def _lines(descriptor: int) -> AsyncGenerator[_Lines]:
    loop, reader = asyncio.get_running_loop(), StreamReader(limit=_LINE_BYTES)
    with open(descriptor, "rb", buffering=0, closefd=False) as pipe:
        transport: ReadTransport
        transport, _ = await loop.connect_read_pipe(lambda: asyncio.StreamReaderProtocol(reader), pipe)
        try:
            yield _Lines(reader)
        finally:
            transport.close()
            await asyncio.sleep(0)


@asynccontextmanager
async def _written(descriptor: int) -> AsyncGenerator[_Written]:
    loop = asyncio.get_running_loop()
    with open(descriptor, "wb", buffering=0, closefd=False) as pipe:
        transport, protocol = await loop.connect_write_pipe(asyncio.streams.FlowControlMixin, pipe)
        try:
            yield _Written(StreamWriter(transport, protocol, None, loop))
        finally:
            transport.close()
            await asyncio.sleep(0)
