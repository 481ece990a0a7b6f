"""When this process looks for garbage: not while it starts, and not when it ends."""

import atexit
import gc
from collections.abc import Iterator
from contextlib import contextmanager


@contextmanager
def uncollected() -> Iterator[None]:
    """Around what mostly imports: what it makes stays, and looking through that again and again takes a tenth
    of a start.
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
