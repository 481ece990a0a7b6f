"""Processes that a test started: they carry a mark in their environment, and so do their children. Reads /proc."""

import time
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

MARK = "TEST_MARK"


def marked(mark: str) -> list[int]:
    """Their ids, zombies not counted."""
    return sorted(int(entry.name) for entry in Path("/proc").iterdir() if entry.name.isdigit() and _has(entry, mark))


def marked_within(mark: str, count: int, seconds: float) -> bool:
    """Whether there are so many, now or soon: one that was just started has no environment for a moment."""
    deadline = time.monotonic() + seconds
    while len(marked(mark)) != count and time.monotonic() < deadline:
        time.sleep(0.02)
    return len(marked(mark)) == count


def gone_within(mark: str, seconds: float) -> bool:
    return marked_within(mark, 0, seconds)


def reapers_within(pid: int, count: int, seconds: float) -> bool:
    """Whether a process has so many reapers, now or soon: one that was just started has no command line for a moment,
    and one that is let go takes a moment to end.
    """
    deadline = time.monotonic() + seconds
    while len(_reapers_of(pid)) != count and time.monotonic() < deadline:
        time.sleep(0.02)
    return len(_reapers_of(pid)) == count


def _reapers_of(pid: int) -> list[int]:
    return [child for child in _children(pid) if b"reaper_process" in _command_line(child)]


def _command_line(pid: int) -> bytes:
    with suppress(OSError):
        return Path(f"/proc/{pid}/cmdline").read_bytes()
    return b""


def _children(pid: int) -> Iterator[int]:
    for task in Path(f"/proc/{pid}/task").iterdir():
        with suppress(OSError):
            yield from map(int, (task / "children").read_text("ascii").split())


def _has(entry: Path, mark: str) -> bool:
    with suppress(OSError):
        return f"{MARK}={mark}".encode() in (entry / "environ").read_bytes().split(b"\0")
    return False
