"""Work that goes on beside the caller's: what pays is the work of a model, which holds no lock of Python."""

import contextvars
import os
import threading
from collections.abc import Callable
from functools import cache
from typing import TYPE_CHECKING

from waygraph.registry.machine.processors import processors

if TYPE_CHECKING:
    from concurrent.futures import ThreadPoolExecutor

_free = threading.Lock()
"""Held while the one thread works."""


def meanwhile[T](work: Callable[[], T]) -> Callable[[], T]:
    """Starts `work` on a thread beside the caller's; what is returned waits for the result, or raises what was raised.

    There is one such thread a process: where it is busy, or the machine has one processor, nothing is started, and
    `work` is done when its result is asked for.
    """
    if processors() == 1 or not _free.acquire(blocking=False):
        return work
    pool = _beside(os.getpid())
    try:
        # The context of whoever asks goes along: a span that is opened there belongs to the same trace.
        return pool.submit(contextvars.copy_context().run, _freeing, work).result
    except RuntimeError:
        # The interpreter is ending, or no thread can be had now. The pool may hold the work, and is not asked again.
        _beside.cache_clear()
        pool.shutdown(wait=False, cancel_futures=True)
        _free.release()
        return work


def _freeing[T](work: Callable[[], T]) -> T:
    try:
        return work()
    finally:
        _free.release()


@cache
def _beside(process: int) -> "ThreadPoolExecutor":  # noqa: ARG001 - a fork takes no threads along, so it gets its own
    from concurrent.futures import ThreadPoolExecutor

    return ThreadPoolExecutor(1, thread_name_prefix="meanwhile")
