"""A child process in a session of its own, and our ends of its pipes.

Not by the event loop's own subprocesses: between their start and the moment at which their id is known pass turns of
the loop, and who is killed in between leaves an orphan.
"""

import asyncio
import os
import signal
import subprocess
from collections.abc import Iterator
from contextlib import suppress
from threading import Thread
from typing import IO

import anyio
import anyio.lowlevel

from waygraph.ingest.upstream.reaper import REAPER

CHUNK = 64 * 1024
_MOST_HELD = 1024 * 1024
"""What Linux gives a pipe at most, unless root asks for more."""
_POLL_S = 0.01


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


class Child:
    """A running program, whose group the reaper watches over from its first moment. Never started by a shell."""

    def __init__(self, command: list[str], environment: dict[str, str], folder: str) -> None:
        """Raises OSError or ValueError if it cannot be started."""
        REAPER.stand_by()
        pipe = subprocess.PIPE
        try:
            self._process = subprocess.Popen(
                command,
                env=environment,
                cwd=folder or None,
                stdin=pipe,
                stdout=pipe,
                stderr=pipe,
                bufsize=0,
                start_new_session=True,
            )
        except BaseException:
            REAPER.stand_down()
            raise
        try:
            REAPER.watch_over(self._process.pid)
        except BaseException:  # nobody would end it
            self._take_back()
            raise
        self.stdin, self.stdout, self.stderr = map(Pipe, self._pipes())

    def _take_back(self) -> None:
        self.signal(signal.SIGKILL)
        self._process.wait()
        REAPER.let_go(self._process.pid)
        for pipe in self._pipes():
            pipe.close()

    def _pipes(self) -> list[IO[bytes]]:
        pipes = (self._process.stdin, self._process.stdout, self._process.stderr)
        return [pipe for pipe in pipes if pipe is not None]  # all three are there: they were asked for

    @property
    def status(self) -> int | None:
        """Its exit status, negative for a signal; None while it runs. Its own children may hold its pipes open."""
        return self._process.poll()

    def signal(self, number: int) -> bool:
        """Whether any process of its group is there to get it."""
        with suppress(ProcessLookupError, PermissionError):
            os.killpg(self._process.pid, number)
            return True
        return False

    async def leaves(self, within_s: float) -> bool:
        """Whether the program itself ends in this time."""
        with anyio.move_on_after(within_s):
            while self.status is None:
                await anyio.sleep(_POLL_S)
        return self.status is not None

    async def end(self, term_s: float, kill_s: float) -> None:
        """Ends what is left of the group: told, then killed."""
        if self.signal(signal.SIGTERM) and not await self._has_ended(term_s):
            self.signal(signal.SIGKILL)
            await self._has_ended(kill_s)
        REAPER.let_go(self._process.pid)
        if self.status is None:  # killed, and slow to go on a busy machine: nobody waits, and no zombie stays
            Thread(target=self._process.wait, daemon=True).start()
        for pipe in (self.stdin, self.stdout, self.stderr):
            pipe.close()

    async def _has_ended(self, within_s: float) -> bool:
        with anyio.move_on_after(within_s):
            while self.status is None or self.signal(0):
                await anyio.sleep(_POLL_S)
            return True
        return False
