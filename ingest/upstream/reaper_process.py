"""Ends what we started when we are killed: run as a program of its own, with the standard library alone.

Its standard input is a pipe whose other end only we hold. A line `+123` names a process group that is ours, `-123`
one that has ended. The end of the pipe is our death: every group that is left gets SIGTERM, soon after SIGKILL.
"""

import os
import signal
import sys
import time
from contextlib import suppress

GRACE_S = 0.5


def main() -> None:
    groups: set[int] = set()
    for line in sys.stdin.buffer:
        group = int(line[1:])
        if line[:1] == b"+":
            groups.add(group)
        else:
            groups.discard(group)
    end(groups)


def end(groups: set[int]) -> None:
    """SIGTERM to all, SIGKILL to those that stay."""
    remaining = {group for group in groups if send(group, signal.SIGTERM)}
    deadline = time.monotonic() + GRACE_S
    while remaining and time.monotonic() < deadline:
        time.sleep(0.02)
        remaining = {group for group in remaining if send(group, 0)}
    for group in remaining:
        send(group, signal.SIGKILL)


def send(group: int, number: int) -> bool:
    """Whether the group is there to get it."""
    with suppress(ProcessLookupError, PermissionError):
        os.killpg(group, number)
        return True
    return False


if __name__ == "__main__":
    main()
