"""Processes that a test started: they carry a mark in their environment, and so do their children. Reads /proc."""

import time
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

MARK = "TEST_MARK"


def marked(mark: str) -> list[int]:
    """Their ids, zombies not counted."""
    return sorted(int(entry.name) for entry in Path("/proc").iterdir() if entry.name.isdigit() and _has(entry, mark))


def gone_within(mark: str, seconds: float) -> bool:
    deadline = time.monotonic() + seconds
    while marked(mark) and time.monotonic() < deadline:
        time.sleep(0.02)
    return not marked(mark)


def reapers_of(pid: int) -> list[int]:
    """The reapers that a process started."""
    return [child for child in _children(pid) if b"reaper_process" in Path(f"/proc/{child}/cmdline").read_bytes()]


def _children(pid: int) -> Iterator[int]:
    for task in Path(f"/proc/{pid}/task").iterdir():
        with suppress(OSError):
            yield from map(int, (task / "children").read_text("ascii").split())


def _has(entry: Path, mark: str) -> bool:
    with suppress(OSError):
        return f"{MARK}={mark}".encode() in (entry / "environ").read_bytes().split(b"\0")
    return False
