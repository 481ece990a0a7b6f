"""The program on a pseudo-terminal, as a person has it."""

import os
import pty
import select
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path

PROGRAM = (sys.executable, "-W", "error", "-m", "waygraph.api.cli.app")


class Terminal:
    """The program on a pseudo-terminal; what it writes comes to `seen`."""

    def __init__(self, master: int, pid: int) -> None:
        self._master, self.pid = master, pid
        self.seen = ""

    def type(self, text: str) -> None:
        os.write(self._master, text.encode())

    def until(self, wanted: str, timeout_s: float = 60) -> None:
        deadline = time.monotonic() + timeout_s
        while wanted not in self.seen:
            assert time.monotonic() < deadline, self.seen
            assert self._read(deadline), self.seen

    def rest(self) -> str:
        while self._read(time.monotonic() + 60):
            pass
        return self.seen

    def _read(self, deadline: float) -> bool:
        """Whether there was more; a terminal whose program has ended gives an error."""
        ready, _, _ = select.select([self._master], [], [], max(0, deadline - time.monotonic()))
        try:
            chunk = os.read(self._master, 65536) if ready else b""
        except OSError:
            return False
        self.seen += chunk.decode(errors="replace").replace("\r\n", "\n")
        return bool(chunk)


@contextmanager
def terminal(
    *words: str | Path,
    program: Sequence[str] = PROGRAM,
    around: Mapping[str, str] = os.environ,
    cwd: Path | None = None,
    status: int = 0,
    **environ: str,
) -> Iterator[Terminal]:
    """Runs the program on a terminal of 100 columns and waits for its end, which is with this status."""
    master, slave = pty.openpty()
    env = {**around, "COLUMNS": "100", "LINES": "40", "TERM": "xterm", **environ}
    running = subprocess.Popen(
        [*program, *map(str, words)], stdin=slave, stdout=slave, stderr=slave, env=env, cwd=cwd, start_new_session=True
    )
    os.close(slave)
    try:
        yield Terminal(master, running.pid)
        assert running.wait(60) == status
    finally:
        running.kill()
        running.wait()
        os.close(master)
