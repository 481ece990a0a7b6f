"""A process that is of no use without the one that started it."""

import ctypes
import os
import signal
import sys


def die_with(parent: int, by: signal.Signals = signal.SIGKILL) -> None:
    """Ends this process when the thread that started it ends, which waits for it; Linux only."""
    if sys.platform != "linux":
        return
    pr_set_pdeathsig = 1
    ctypes.CDLL(None).prctl(pr_set_pdeathsig, by)
    if os.getppid() != parent:  # it ended before the call
        sys.exit(1)
