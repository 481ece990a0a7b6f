"""A child process in a session of its own, and our ends of its pipes.

Not by the event loop's own subprocesses: between their start and the moment at which their id is known pass turns of
the loop, and who is killed in between leaves an orphan.
"""

import os
import signal
import subprocess
from contextlib import suppress
from threading import Thread
from typing import IO

import anyio

from waygraph.ingest.upstream.pipe import Pipe
from waygraph.ingest.upstream.reaper import REAPER

_POLL_S = 0.01


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
