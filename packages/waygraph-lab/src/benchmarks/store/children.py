"""Processes that are measured to their last write: what the kernel counted of a process that has ended."""

import os
import subprocess
import sys
import threading
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryFile
from typing import Any

from benchmarks.processes import Answerer, ProcessFailed, processor_s, python_module, run_answerer, status_mib
from benchmarks.record import PROJECT

COMMAND = "import sys; from waygraph.api.cli import app; sys.exit(getattr(app, 'run', app.main)())"
"""As `waygraph` starts; earlier commits have `main` alone."""
LOOK_S = 0.002
MIB = 1024 * 1024


@dataclass(frozen=True, slots=True, kw_only=True)
class Cost:
    """Of one process, from start to end: wall-clock and processor time, peak resident memory, bytes sent to disk."""

    seconds: float
    cpu_s: float
    peak_mib: float
    written_mib: float


def run_waygraph(arguments: Sequence[str], environ: Mapping[str, str]) -> Cost:
    """The command line in a process of its own. Raises ProcessFailed."""
    command = [sys.executable, "-c", COMMAND, *arguments]
    with TemporaryFile() as said:
        start = time.perf_counter()
        process = subprocess.Popen(command, cwd=PROJECT, env=dict(environ), stdout=said, stderr=said)
        peak = _Peak(process.pid)
        os.waitid(os.P_PID, process.pid, os.WEXITED | os.WNOWAIT)
        seconds = time.perf_counter() - start
        # The kernel keeps the counts until the process is waited for.
        cpu_s, written = processor_s(process.pid), written_bytes(process.pid)
        peak_mib = peak.end()
        if status := process.wait():
            said.seek(0)
            raise ProcessFailed(command, status, said.read().decode(errors="replace"))
    return Cost(seconds=seconds, cpu_s=cpu_s, peak_mib=peak_mib, written_mib=written / MIB)


def written_bytes(pid: int) -> int:
    """What the process has caused to be sent to disk, less what was cut off or removed before that."""
    rows = dict(row.split(": ") for row in Path(f"/proc/{pid}/io").read_text(encoding="ascii").splitlines())
    return int(rows["write_bytes"]) - int(rows["cancelled_write_bytes"])


class _Peak:
    """Looks at the high-water mark of a process until it ends. A child's `ru_maxrss` would include its parent's."""

    def __init__(self, pid: int) -> None:
        self._pid, self._mib = pid, 0.0
        self._thread = threading.Thread(target=self._look)
        self._thread.start()

    def _look(self) -> None:
        while mib := status_mib(self._pid, "VmHWM:"):  # a process that has ended has no such row
            self._mib = max(self._mib, mib)
            time.sleep(LOOK_S)

    def end(self) -> float:
        self._thread.join()
        return self._mib


class Staying:
    """The benchmark's end of `process`."""

    def __init__(self, process: Answerer) -> None:
        self._process = process

    def change(self, document: Mapping[str, Any]) -> float:
        """Milliseconds. Raises ChildProcessError if the process ended."""
        [ms] = self._process.ask({"change": document})["ms"]
        return float(ms)

    def route(self, texts: Sequence[str]) -> list[float]:
        """Milliseconds of each. Raises ChildProcessError if the process ended."""
        times: list[float] = self._process.ask({"route": list(texts)})["ms"]
        return times

    def resident_mib(self) -> float:
        return status_mib(self._process.pid, "VmRSS:")

    def written_bytes(self) -> int:
        return written_bytes(self._process.pid)


@contextmanager
def staying(location: Path, environ: Mapping[str, str]) -> Iterator[Staying]:
    with run_answerer(python_module("benchmarks.store.process", str(location)), environ) as process:
        yield Staying(process)
