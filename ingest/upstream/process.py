"""A child process in a session of its own, and our ends of its pipes.

Not by the event loop's own subprocesses: between their start and the moment at which their id is known pass turns of
the loop, and who is killed in between leaves an orphan.
"""

import asyncio
import os
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from threading import Lock, Thread
from typing import IO, Protocol

import anyio
import anyio.lowlevel

# Our end of a pipe: read and written by the event loop itself, with neither threads nor tasks in between.


CHUNK = 64 * 1024
_MOST_HELD = 1024 * 1024
"""What Linux gives a pipe at most, unless root asks for more."""

GONE_ERRORS = (anyio.EndOfStream, anyio.ClosedResourceError, anyio.BrokenResourceError, OSError)
"""How a pipe tells that there is nobody at its other end, or that it was closed here."""


class Chunks(Protocol):
    """Bytes as they come. `receive` raises one of GONE_ERRORS, also for who waits when `wake` is called."""

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
            count = 0 if self._rest else self._pipe.put(line)
        except GONE_ERRORS:
            self._is_over = True
            self._on_gone()
            raise anyio.BrokenResourceError from None
        self._rest += line[count:]
        self._queued += len(line)
        self._taken += count
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
                    count = self._pipe.put(self._rest)
                    del self._rest[:count]
                    self._taken += count
                    self._is_taken.set()
                    self._is_taken = anyio.Event()
        except GONE_ERRORS:
            self._on_gone()
        finally:
            self._is_over = self._is_gone = True
            self._is_taken.set()

    async def flush(self) -> None:
        """Returns when nothing is left to be written, or nothing can be."""
        await self._until(self._queued)

    def close(self) -> None:
        self._is_over = True


# No server outlives us, not even if we are killed: one small process watches over the groups that we started.
#
# It runs while there is a group to watch over, in a session of its own, and learns of our death by the end of a pipe.
# What leaves its process group by a session of its own leaves this care too.


_PROGRAM = Path(__file__).with_name("reaper_process.py")


@dataclass(slots=True)
class Reaper:
    """Thread-safe; one for the whole process."""

    groups: set[int] = field(default_factory=set)
    _lock: Lock = field(default_factory=Lock)
    _pipe: int = -1
    _process: "subprocess.Popen[bytes] | None" = None

    def stand_by(self) -> None:
        """Before something is started: what is started then is told to the reaper at once."""
        with self._lock:
            if self._pipe < 0:
                self._start()

    def stand_down(self) -> None:
        """What was to be started was not."""
        with self._lock:
            if self._pipe >= 0 and not self.groups:
                self._dismiss("")

    def watch_over(self, group: int) -> None:
        with self._lock:
            self.groups.add(group)
            self._tell(f"+{group}\n")

    def let_go(self, group: int) -> None:
        """The group has ended. With the last one the reaper ends too."""
        with self._lock:
            self.groups.discard(group)
            if self._pipe < 0:
                return
            if self.groups:
                self._tell(f"-{group}\n")
            else:
                self._dismiss(f"-{group}\n")

    def forget(self) -> None:
        """In a forked child: what the parent started is the parent's, and so is the end of the pipe."""
        if self._pipe >= 0:
            os.close(self._pipe)
        self.groups, self._lock, self._pipe, self._process = set(), Lock(), -1, None

    def _tell(self, line: str) -> None:
        """A reaper that has died is followed by a new one, which is told of all groups."""
        if self._pipe >= 0:
            with suppress(BrokenPipeError):
                os.write(self._pipe, line.encode())  # shorter than PIPE_BUF: whole or not at all
                return
            self._dismiss("")
        self._start()
        os.write(self._pipe, "".join(f"+{group}\n" for group in self.groups).encode())

    def _start(self) -> None:
        reading, self._pipe = os.pipe()  # neither end is inherited unless it is handed on
        try:
            self._process = subprocess.Popen(
                [sys.executable, "-I", "-S", str(_PROGRAM)],
                stdin=reading,
                stdout=subprocess.DEVNULL,
                stderr=subprocess.DEVNULL,
                cwd="/",
                env={},
                start_new_session=True,
            )
        except BaseException:
            os.close(self._pipe)
            self._pipe = -1
            raise
        finally:
            os.close(reading)

    def _dismiss(self, last_line: str) -> None:
        with suppress(BrokenPipeError):
            os.write(self._pipe, last_line.encode())
        os.close(self._pipe)
        if self._process is not None:
            Thread(target=self._process.wait, daemon=True).start()  # leaves no zombie, and nobody waits
        self._pipe, self._process = -1, None


REAPER = Reaper()
os.register_at_fork(after_in_child=REAPER.forget)


_FIRST_POLL_S, _LONGEST_POLL_S = 0.005, 0.05


class Child:
    """A running program, whose group the reaper watches over from the moment that its id is known.

    Never started by a shell. Who is killed in the fraction of a millisecond before that leaves an orphan.
    """

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
            self.signal(signal.SIGKILL)
            self._process.wait()
            REAPER.let_go(self._process.pid)
            for file in self._pipes():
                file.close()
            raise
        self.stdin, self.stdout, self.stderr = map(Pipe, self._pipes())

    def _pipes(self) -> list[IO[bytes]]:
        pipes = (self._process.stdin, self._process.stdout, self._process.stderr)
        return [pipe for pipe in pipes if pipe is not None]  # all three are there: they were asked for

    @property
    def number(self) -> int:
        """Of the process, its group and its session."""
        return self._process.pid

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
        return await _comes_true(lambda: self.status is not None, within_s)

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
        return await _comes_true(lambda: self.status is not None and not self.signal(0), within_s)


async def _comes_true(is_true: Callable[[], bool], within_s: float) -> bool:
    """Whether it is so in this time. It is looked at less often the longer it takes."""
    pause_s = _FIRST_POLL_S
    with anyio.move_on_after(within_s):
        while not is_true():
            await anyio.sleep(pause_s)
            pause_s = min(1.5 * pause_s, _LONGEST_POLL_S)
    return is_true()
