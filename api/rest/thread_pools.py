"""Where the synchronous core works for an asynchronous server: threads, in lanes, so that a slow kind of work never
takes the threads of a quick one.
"""

import asyncio
import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from contextvars import copy_context

from waygraph.registry.model.errors import ServiceStopping
from waygraph.registry.model.process import processors, step_back

_WAITING = 8
_WRITING = 2
_TENDING = 2


class Lanes:
    """One pool of threads for each kind of work; within a lane who comes first is served first."""

    def __init__(self, *, asking: int, timeout_s: float) -> None:
        self._timeout_s, self._closing = timeout_s, threading.Event()
        self._asking = ThreadPoolExecutor(asking or default_threads(), "ask")
        self._waiting = ThreadPoolExecutor(_WAITING, "wait")
        self._writing = ThreadPoolExecutor(_WRITING, "write", initializer=step_back)
        self._tending = ThreadPoolExecutor(_TENDING, "tend")

    async def ask[T](self, work: Callable[[], T]) -> T:
        """Quick work over what is published: routes, lists. Raises TimeoutError for one that takes too long."""
        async with asyncio.timeout(self._timeout_s):
            return await _run_in(self._asking, work)

    async def wait[T](self, work: Callable[[], T]) -> T:
        """Work with limits of time of its own, which mostly waits: a typed statement, an issuer, an export."""
        return await _run_in(self._waiting, work)

    async def tend[T](self, work: Callable[[], T]) -> T:
        """What those ask who look after the service: whether it is ready, its numbers."""
        return await _run_in(self._tending, work)

    async def write[T](self, work: Callable[[], T]) -> T:
        """What was begun ends, and its outcome is told."""
        return await _run_in(self._writing, work)

    def go_on(self, done: int, total: int) -> None:  # noqa: ARG002 - it is called with how far a write is
        """To be called while a write may still be given up. Raises ServiceStopping once the lanes close."""
        if self._closing.is_set():
            raise ServiceStopping

    def close(self) -> None:
        """Waits for what was begun and asks no more whether to `go_on`; what was not begun is dropped."""
        self._closing.set()
        for pool in (self._asking, self._waiting, self._writing, self._tending):
            pool.shutdown(cancel_futures=True)


async def _run_in[T](pool: ThreadPoolExecutor, work: Callable[[], T]) -> T:
    """In the context of the request: its id is on what the work logs."""
    return await asyncio.get_running_loop().run_in_executor(pool, copy_context().run, work)


def default_threads() -> int:
    """More than cores only make each other wait: a route hardly waits for anything but its turn."""
    return max(2, processors())
