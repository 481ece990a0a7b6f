"""Our end of a pipe: read and written by the event loop itself, with neither threads nor tasks in between."""

import asyncio
import os
from collections.abc import Callable, Iterator
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

    def drain(self) -> Iterator[bytes]:
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


# Lines that go to a pipe, written by whoever has one: with a task between it and the pipe more of a call's time would
# go into changes of task than into the call.


class LinesOut:
    """What goes to a pipe, each line whole, though who writes it is cancelled meanwhile. `run` is its task."""

    def __init__(self, pipe: Pipe, on_gone: Callable[[], None] = lambda: None) -> None:
        self._pipe, self._on_gone = pipe, on_gone
        self._rest = bytearray()
        self._queued = self._taken = 0
        """How many bytes there were to write, and how many of them the pipe has, since the beginning."""
        self._is_full, self._is_taken = anyio.Event(), anyio.Event()
        self._is_over = self._is_gone = False

    async def write(self, line: bytes) -> None:
        """Returns when the pipe has all of it, whatever is queued behind it.

        Raises BrokenResourceError and ClosedResourceError, if the pipe does not have all of it and never will.
        """
        if self._is_over:
            raise anyio.ClosedResourceError
        end = self._queue(line)
        await self._until(end)
        if self._taken < end:
            raise anyio.BrokenResourceError

    def _queue(self, line: bytes) -> int:
        """Writes what fits now; the rest is left to `run`. How many bytes are queued then: where the line ends."""
        try:
            taken = 0 if self._rest else self._pipe.put(line)
        except GONE:
            self._is_over = True
            self._on_gone()
            raise anyio.BrokenResourceError from None
        self._rest += line[taken:]
        self._queued += len(line)
        self._taken += taken
        if self._rest:
            self._is_full.set()
        return self._queued

    async def _until(self, end: int) -> None:
        """Returns when the pipe has as many bytes, or takes no more."""
        while self._taken < end and not self._is_gone:
            await self._is_taken.wait()

    async def run(self) -> None:
        """Writes on what the pipe did not take at once. Until it is cancelled, or nobody reads."""
        try:
            while True:
                await self._is_full.wait()
                self._is_full = anyio.Event()
                while self._rest:
                    await self._pipe.writable()
                    taken = self._pipe.put(self._rest)
                    del self._rest[:taken]
                    self._taken += taken
                    self._is_taken.set()
                    self._is_taken = anyio.Event()
        except GONE:
            self._on_gone()
        finally:
            self._is_over = self._is_gone = True
            self._is_taken.set()

    async def flush(self) -> None:
        """Returns when nothing is left to be written, or nothing can be."""
        await self._until(self._queued)

    def close(self) -> None:
        self._is_over = True
