"""A child process with a parent of its own, which outlives neither us nor the connection (reaper_process.py)."""

import errno
import marshal
import os
import signal
import socket
import subprocess
import sys
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from threading import Thread
from typing import IO

import anyio

from waygraph.ingest.upstream.limits import LIMITS, raises_privileges
from waygraph.ingest.upstream.pipes import Pipe
from waygraph.ingest.upstream.reaper_process import GRACE_S, end_server
from waygraph.registry.model.process import forbid_inspection
from waygraph.registry.model.settings import Settings

END_S = GRACE_S + 0.4
"""How long SIGTERM and SIGKILL may take."""
_PROGRAM = Path(__file__).with_name("reaper_process.py")
_controls: set[socket.socket] = set()
"""Of all children. A forked process that held one open would keep a child alive."""


def _forget_children() -> None:
    for control in list(_controls):
        control.close()
    _controls.clear()


os.register_at_fork(after_in_child=_forget_children)


class Child:
    """A running program. It ends, with all that it started, when `end` is called or this process ends.

    Never started by a shell. Its limits are those of `settings` (limits.py); `on_excess` gets the reason, in another
    thread, if it is ended.
    """

    def __init__(
        self,
        command: list[str],
        environment: dict[str, str],
        folder: str,
        settings: Settings,
        on_excess: Callable[[str], None],
    ) -> None:
        """Raises OSError if it cannot be started, and ValueError; `await_start` tells the rest."""
        request = marshal.dumps(
            (command, environment, os.path.abspath(folder), raises_privileges(command[0], environment))
        )
        forbid_inspection()
        self._control, theirs = socket.socketpair()
        _controls.add(self._control)
        self._reports = bytearray()
        pipe = subprocess.PIPE
        try:
            self._process = subprocess.Popen(
                [sys.executable, "-I", "-S", str(_PROGRAM), str(theirs.fileno())],
                pass_fds=[theirs.fileno()],
                env={},
                cwd="/",
                stdin=pipe,
                stdout=pipe,
                stderr=pipe,
                bufsize=0,
                start_new_session=True,
            )
        except BaseException:
            self._close_control()
            raise
        finally:
            theirs.close()
        LIMITS.watch_over(self._process.pid, settings, on_excess)
        self.stdin, self.stdout, self.stderr = map(Pipe, self._pipes())
        with suppress(BrokenPipeError):
            self._control.sendall(request)

    def _pipes(self) -> list[IO[bytes]]:
        pipes = (self._process.stdin, self._process.stdout, self._process.stderr)
        return [pipe for pipe in pipes if pipe is not None]  # all three are there: they were asked for

    @property
    def number(self) -> int:
        """Of the session of its processes, which its parent leads."""
        return self._process.pid

    async def await_start(self) -> None:
        """Raises OSError or ValueError if the program cannot be started; then, or if cancelled, all of it is ended."""
        try:
            await self._reads(1)
            if (line := self._reports.partition(b"\n")[0]) != b"started":
                number = int(line or errno.EPIPE)
                raise OSError(number, os.strerror(number)) if number else ValueError
        except BaseException:
            with anyio.CancelScope(shield=True):
                await self.end()
            raise

    @property
    def status(self) -> int | None:
        """Its exit status, negative for a signal; None while it runs. Its own children may hold its pipes open."""
        has_ended = self._read()
        if len(lines := self._reports.split(b"\n")) > 2:
            return int(lines[1])
        return -signal.SIGKILL if has_ended else None

    async def leaves(self, within_s: float) -> bool:
        """Whether the program itself ends in this time."""
        with anyio.move_on_after(within_s):
            await self._reads(2)
        return self.status is not None

    async def end(self) -> None:
        """Ends the program and all that it started: told, then killed. Takes at most `END_S`."""
        with suppress(OSError):
            self._control.shutdown(socket.SHUT_WR)
        with anyio.move_on_after(END_S) as scope:
            await self._reads(3)
        if scope.cancelled_caught:
            end_server(self.number, {})  # its parent may have been stopped
        LIMITS.let_go(self.number)
        self._close_control()
        if self._process.poll() is None:  # slow to go on a busy machine: nobody waits, and no zombie stays
            Thread(target=self._process.wait, daemon=True).start()
        for file in (self.stdin, self.stdout, self.stderr):
            file.close()

    async def _reads(self, line_count: int) -> None:
        """Until its parent has written so many lines, or ended."""
        while not self._read() and self._reports.count(b"\n") < line_count:
            await anyio.wait_readable(self._control)

    def _read(self) -> bool:
        """Whether its parent has ended."""
        try:
            while chunk := self._control.recv(1024, socket.MSG_DONTWAIT):
                self._reports += chunk
        except BlockingIOError:
            return False
        except OSError:
            pass
        return True

    def _close_control(self) -> None:
        _controls.discard(self._control)
        self._control.close()
