"""How much one check may cost: counted in steps, not in time, so that a busy machine checks as much as another.

A pattern that was compiled for a check before costs nothing again.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar

MAX_STEPS = 10_000
"""About as many keywords are looked at in one check; what comes after them is not checked."""
_LEFT: ContextVar[list[int]] = ContextVar("_LEFT")


class OutOfSteps(Exception):
    pass


@contextmanager
def counted(steps: int = MAX_STEPS) -> Iterator[None]:
    """One check, which may `spend` so much."""
    before = _LEFT.set([steps])
    try:
        yield
    finally:
        _LEFT.reset(before)


def spend(steps: int) -> None:
    """Raises OutOfSteps."""
    left = _LEFT.get()
    left[0] -= steps
    if left[0] < 0:
        raise OutOfSteps
