"""Which processes are left of those that a test started: they carry a mark in their environment, as do their children.

Reads /proc, so on Linux alone.
"""

import os
import time
import uuid
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

import pytest

MARK = "WAYGRAPH_TEST_MARK"
PROC = Path("/proc")
PATIENCE_S = 60.0

needs_proc = pytest.mark.skipif(not PROC.joinpath("self", "environ").exists(), reason="needs /proc to see processes")


def new_mark() -> str:
    return uuid.uuid4().hex


def left_of(mark: str) -> list[int]:
    """The processes that carry the mark, zombies not counted."""
    wanted = f"{MARK}={mark}".encode()
    return sorted(int(entry.name) for entry in PROC.iterdir() if entry.name.isdigit() and wanted in _environ(entry))


def _environ(entry: Path) -> list[bytes]:
    with suppress(OSError):
        return (entry / "environ").read_bytes().split(b"\0")
    return []


def command_of(pid: int) -> str:
    with suppress(OSError):
        return (PROC / str(pid) / "cmdline").read_bytes().replace(b"\0", b" ").decode(errors="replace")
    return "(gone)"


def children_of(pid: int) -> list[int]:
    """Those that its threads started; none of one that has ended."""
    found: list[int] = []
    for children in (PROC / str(pid) / "task").glob("*/children"):
        with suppress(OSError):
            found += map(int, children.read_text("ascii").split())
    return found


def is_gone(pid: int, within_s: float = PATIENCE_S) -> bool:
    """Whether the process has ended, at the latest after so many seconds; the thread waits, so no loop takes a turn."""
    return until(lambda: not (PROC / str(pid)).exists(), within_s)


def none_left(mark: str, within_s: float = PATIENCE_S) -> bool:
    """Whether all have gone, at the latest after so many seconds: far less than any of them would stay by itself."""
    return until(lambda: not left_of(mark), within_s)


def all_stand(mark: str, count: int, within_s: float = PATIENCE_S) -> bool:
    """Whether there are so many, now or soon: one that was just started has no environment for a moment."""
    return until(lambda: len(left_of(mark)) == count, within_s)


def until(holds: Callable[[], bool], within_s: float = PATIENCE_S) -> bool:
    deadline = time.monotonic() + within_s
    while not (held := holds()) and time.monotonic() < deadline:
        time.sleep(0.02)
    return held


def end_all(mark: str) -> None:
    """With SIGKILL, so that a failed test leaves nothing behind."""
    for pid in left_of(mark):
        with suppress(ProcessLookupError):
            os.kill(pid, 9)


def resident_bytes(pid: int | str = "self") -> int:
    """The most memory that a process ever had resident (VmHWM)."""
    for line in (PROC / str(pid) / "status").read_text("ascii", "replace").splitlines():
        if line.startswith("VmHWM:"):
            return int(line.split()[1]) * 1024
    raise AssertionError(f"/proc/{pid}/status tells no VmHWM")
