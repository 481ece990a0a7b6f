"""No server outlives us, not even if we are killed: one small process watches over the groups that we started.

It runs while there is a group to watch over, in a session of its own, and learns of our death by the end of a pipe.
What leaves its process group by a session of its own leaves this care too.
"""

import os
import subprocess
import sys
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from threading import Lock, Thread

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
