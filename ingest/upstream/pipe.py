"""Our end of a pipe: read and written by the event loop itself, with neither threads nor tasks in between."""

import asyncio
import os
from collections.abc import Iterator
from contextlib import suppress
from typing import IO, Protocol

import anyio
import anyio.lowlevel

CHUNK = 64 * 1024
_MOST_HELD = 1024 * 1024
"""What Linux gives a pipe at most, unless root asks for more."""

GONE = (anyio.EndOfStream, anyio.ClosedResourceError, anyio.BrokenResourceError, OSError)
"""How a pipe tells that there is nobody at its other end, or that it was closed here."""


class Chunks(Protocol):
    """Bytes as they come. `receive` raises one of GONE, also for who waits when `wake` is called."""

    async def receive(self) -> bytes: ...

    def wake(self) -> None: ...


class Pipe:
    """Our end of a pipe. Raises anyio's EndOfStream, BrokenResourceError and ClosedResourceError, as its streams do."""

    def __init__(self, file: IO[bytes]) -> None:
        self._file = file
        self._fd = file.fileno()
        self._had_more = False
        self._reading: asyncio.Future[bool] | None = None
        os.set_blocking(self._fd, False)

    async def receive(self) -> bytes:
        """At most CHUNK bytes; never none."""
        if self._had_more:
            await anyio.lowlevel.checkpoint()  # one that always has more must leave others their turn
        self._had_more = True
        while not self._file.closed:
            try:
                chunk = os.read(self._fd, CHUNK)
            except BlockingIOError:
                self._had_more = False
                await self._readable()
                continue
            if not chunk:
                raise anyio.EndOfStream
            return chunk
        raise anyio.ClosedResourceError

    def held(self) -> Iterator[bytes]:
        """What it holds by now: no more than a system keeps for a pipe, as its writer may never end."""
        for _ in range(_MOST_HELD // CHUNK):
            try:
                chunk = b"" if self._file.closed else os.read(self._fd, CHUNK)
            except OSError:
                return
            if not chunk:
                return
            yield chunk

    def put(self, content: bytes | bytearray) -> int:
        """How many bytes of it are written; what does not fit now is not waited for."""
        if self._file.closed:
            raise anyio.ClosedResourceError
        try:
            return os.write(self._fd, content) if content else 0
        except BlockingIOError:
            return 0
        except OSError as exc:
            raise anyio.BrokenResourceError from exc

    async def writable(self) -> None:
        """Returns when some of what is put would fit."""
        if self._file.closed:
            raise anyio.ClosedResourceError
        await anyio.wait_writable(self._fd)

    def wake(self) -> None:
        """Who waits for it gets a ClosedResourceError."""
        if self._reading is not None:
            _settle(self._reading, False)
            self._forget(self._reading)
        if not self._file.closed:
            anyio.notify_closing(self._fd)

    async def _readable(self) -> None:
        """As `anyio.wait_readable`, which finds out for each wait anew in which loop that is and what else waits."""
        loop = asyncio.get_running_loop()
        self._reading = reading = loop.create_future()
        loop.add_reader(self._fd, _settle, reading, True)
        try:
            if not await reading:
                raise anyio.ClosedResourceError
        finally:
            self._forget(reading)

    def _forget(self, reading: "asyncio.Future[bool]") -> None:
        """Once: afterwards the number may be that of another file."""
        if self._reading is reading:
            self._reading = None
            reading.get_loop().remove_reader(self._fd)

    def close(self) -> None:
        if not self._file.closed:
            self.wake()
            with suppress(OSError):
                self._file.close()


def _settle(reading: "asyncio.Future[bool]", is_readable: bool) -> None:
    if not reading.done():
        reading.set_result(is_readable)
