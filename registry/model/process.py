"""Threads and processes beside the caller's, and memory of what was made of a text. What pays is the work of a model,
which holds no lock of Python."""

import atexit
import ctypes
import gc
import os
import signal
import sys
from collections.abc import Callable, Coroutine, Iterator
from contextlib import contextmanager
from functools import cache, lru_cache, wraps
from importlib.util import find_spec
from threading import get_native_id
from typing import Any

# How many processors this process may use.


@cache
def processors() -> int:
    """At least 1. Asked of the system once, not for each query.

    Fewer than the machine has where the process is bound to some, as in a container with a set of its own.
    """
    affinity = getattr(os, "sched_getaffinity", None)  # not on every system
    return len(affinity(0)) if affinity else os.cpu_count() or 1


def loop_options() -> dict[str, bool]:
    """Of `anyio.run`: the event loop in C where the extra `serve` brought it."""
    return {"use_uvloop": find_spec("uvloop") is not None}


WRITING = 5
"""Of 19. Beside questions a sync gets what they leave."""
EMBEDDING = 10
"""Of a writer, by far the most, and nobody waits for it: a model at work holds no lock of Python. The rest of a writer
holds it, and put back so far it would keep questions waiting for their turn with it.
"""
TURN_S = 0.0005
"""A tenth of Python's own: a route takes the lock anew some twenty times, and behind a thread that reckons in Python
each time waits for a whole turn. Shorter ones cost answers, with a sync beside them and without.
"""


def take_short_turns() -> None:
    """For all threads of the process: one that holds Python's lock gives it to one that waits after `TURN_S`.

    With Python's turns a sync's own work in Python (reading a manifest, publishing) left a hundred clients a fifth to
    a half of their answers while it lasted.
    """
    sys.setswitchinterval(TURN_S)


def step_back(niceness: int = WRITING) -> None:
    """Lowers the priority of this thread, and of threads that it starts; one that is lower stays so."""
    if sys.platform == "linux":
        os.setpriority(os.PRIO_PROCESS, get_native_id(), max(niceness, _niceness()))


def has_stepped_back() -> bool:
    return sys.platform == "linux" and _niceness() >= WRITING


def _niceness() -> int:
    return os.getpriority(os.PRIO_PROCESS, get_native_id())


def die_with(parent: int, by: signal.Signals = signal.SIGKILL) -> None:
    """Ends this process when the thread that started it ends, which waits for it; Linux only."""
    if sys.platform != "linux":
        return
    pr_set_pdeathsig = 1
    ctypes.CDLL(None).prctl(pr_set_pdeathsig, by)
    if os.getppid() != parent:  # it ended before the call
        sys.exit(1)


def forbid_inspection() -> None:
    """Other processes of this user read neither the environment nor the memory of this one; Linux only.

    It leaves no core dump either. A program that it starts begins without this protection.
    """
    if sys.platform == "linux":
        pr_set_dumpable = 4
        ctypes.CDLL(None).prctl(pr_set_dumpable, 0, 0, 0, 0)


TEXTS_KEPT = 4_096
LONGEST_KEPT = 8_192
"""In characters."""


def remember[T](make: Callable[[str], T]) -> Callable[[str], T]:
    """The same function of one text, which must depend on nothing else. Threads may share it."""
    lookup = lru_cache(maxsize=TEXTS_KEPT)(make)

    @wraps(make)
    def recall(text: str) -> T:
        return lookup(text) if len(text) <= LONGEST_KEPT else make(text)

    return recall


def run_whole[T](work: Callable[[], Coroutine[Any, Any, T]]) -> T:
    """In this thread, or in one of its own where an event loop runs in this one, as in a notebook."""
    import asyncio
    from concurrent.futures import ThreadPoolExecutor

    import anyio

    try:
        asyncio.get_running_loop()
    except RuntimeError:
        return anyio.run(work)
    with ThreadPoolExecutor(1) as thread:
        return thread.submit(anyio.run, work).result()


@contextmanager
def without_collection() -> Iterator[None]:
    """Around what mostly makes what stays, such as imports, or a large manifest: looking through that again and again
    takes a tenth of a start, and a fifth of an ingest.
    """
    was_on = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if was_on:
            gc.enable()


def uncollected_at_exit() -> None:
    """Modules are not searched for cycles before the process gives its memory back, which takes as long again.

    Files are flushed, threads are joined and what is registered for the exit runs as ever.
    """
    atexit.register(gc.freeze)


_ends_after_work = False


def end_after_work() -> None:
    """Says that this process does one piece of work and ends: what only the next one would gain from is left to it."""
    global _ends_after_work  # noqa: PLW0603 - a process has one end
    _ends_after_work = True


def ends_after_work() -> bool:
    return _ends_after_work
