"""Where the synchronous core works for an asynchronous server: threads, in lanes, so that a slow kind of work never
takes the threads of a quick one.
"""

import os
from collections.abc import Callable

import anyio
from anyio import CapacityLimiter
from anyio.to_thread import run_sync


class Lanes:
    """One limit of threads for each kind of work. A request that waits too long for its answer ends in TimeoutError."""

    def __init__(self, *, asking: int, timeout_s: float) -> None:
        self._timeout_s = timeout_s
        self._asking = CapacityLimiter(asking or default_threads())
        self._writing = CapacityLimiter(4)
        self._slow = CapacityLimiter(8)

    async def ask[T](self, work: Callable[[], T]) -> T:
        """Quick work over what is published: routes, lists."""
        with anyio.fail_after(self._timeout_s):
            return await run_sync(work, limiter=self._asking, abandon_on_cancel=True)

    async def wait[T](self, work: Callable[[], T]) -> T:
        """Work with limits of time of its own, which mostly waits: a typed statement, an issuer, an export."""
        return await run_sync(work, limiter=self._slow)

    async def write[T](self, work: Callable[[], T]) -> T:
        """Never abandoned: what was begun ends, and its outcome is told."""
        return await run_sync(work, limiter=self._writing)


def default_threads() -> int:
    """More than cores only make each other wait: a route hardly waits for anything but its turn."""
    return max(2, os.cpu_count() or 1)
