"""A child process in a session of its own.

Not by the event loop's own subprocesses: between their start and the moment at which their id is known pass turns of
the loop, and who is killed in between leaves an orphan.
"""

import os
import signal
import subprocess
import sys
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from threading import Lock, Thread
from typing import IO

import anyio

from waygraph.ingest.upstream.limits import LIMITS, start_unprivileged
from waygraph.ingest.upstream.pipes import Pipe
from waygraph.registry.model.settings import Settings

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
    Its limits are those of `settings` (limits.py); `on_excess` gets the reason, in another thread, if it is ended.
    """

    def __init__(
        self,
        command: list[str],
        environment: dict[str, str],
        folder: str,
        settings: Settings,
        on_excess: Callable[[str], None],
    ) -> None:
        """Raises OSError or ValueError if it cannot be started."""
        REAPER.stand_by()
        pipe = subprocess.PIPE

        def start() -> subprocess.Popen[bytes]:
            return subprocess.Popen(
                command,
                env=environment,
                cwd=folder or None,
                stdin=pipe,
                stdout=pipe,
                stderr=pipe,
                bufsize=0,
                start_new_session=True,
            )

        try:
            self._process = start_unprivileged(command[0], environment, start)
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
        LIMITS.watch_over(self._process.pid, settings, on_excess)
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
        begin_s = anyio.current_time()
        if sys.platform == "linux" and self.status is None:  # the event loop is told, and looks no more often
            with suppress(OSError), anyio.move_on_after(within_s):
                descriptor = os.pidfd_open(self._process.pid)
                try:
                    await anyio.wait_readable(descriptor)
                finally:
                    os.close(descriptor)
        return await _comes_true(lambda: self.status is not None, begin_s + within_s - anyio.current_time())

    async def end(self, term_s: float, kill_s: float) -> None:
        """Ends what is left of the group: told, then killed."""
        if self.signal(signal.SIGTERM) and not await self._has_ended(term_s):
            self.signal(signal.SIGKILL)
            await self._has_ended(kill_s)
        LIMITS.let_go(self._process.pid)
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
