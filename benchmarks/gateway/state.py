"""What a process holds: memory, open files, other processes."""

import os
import signal
import time
from collections.abc import Iterable
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from benchmarks.record import Measure, Target
from benchmarks.service.servers import status_mib, tree

MORE_MIB = Target(bound="at_most", value=20.0)
MORE_FILES = Target(bound="at_most", value=5.0)
NONE = Target(bound="at_most", value=0.0)


@dataclass(frozen=True, kw_only=True)
class State:
    """`resident_mib` and `open_files` are the process's own; `processes` are those that it has started and theirs."""

    resident_mib: float
    open_files: int
    processes: int

    @classmethod
    def of(cls, pid: int) -> "State":
        return cls(
            resident_mib=round(status_mib(pid, "VmRSS:"), 1),
            open_files=len(list(Path(f"/proc/{pid}/fd").iterdir())),
            processes=len(tree(pid)) - 1,
        )


def growth(name: str, early: State, late: State) -> list[Measure]:
    return [
        Measure(
            name=f"{name}: resident memory more at the end",
            value=late.resident_mib - early.resident_mib,
            unit="MiB",
            target=MORE_MIB,
        ),
        Measure(
            name=f"{name}: open files more at the end", value=late.open_files - early.open_files, target=MORE_FILES
        ),
        Measure(name=f"{name}: processes more at the end", value=late.processes - early.processes, target=NONE),
    ]


def lives(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text(encoding="ascii").rpartition(")")[2].split()[0] != "Z"
    except OSError:
        return False


def left_of(pids: Iterable[int], within_s: float) -> int:
    """How many of these processes still are after that time; they are ended then."""
    end = time.monotonic() + within_s
    left = [pid for pid in pids if lives(pid)]
    while left and time.monotonic() < end:
        time.sleep(0.02)
        left = [pid for pid in left if lives(pid)]
    for pid in left:
        with suppress(ProcessLookupError):
            os.kill(pid, signal.SIGKILL)
    return len(left)
