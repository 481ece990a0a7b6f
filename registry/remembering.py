"""What was made of a text, remembered; of a long one it is made again each time, so that memory stays bounded."""

from collections.abc import Callable
from functools import lru_cache, wraps

TEXTS_KEPT = 4_096
LONGEST_KEPT = 8_192
"""In characters."""


def remembered[T](make: Callable[[str], T]) -> Callable[[str], T]:
    """The same function of one text, which must depend on nothing else. Threads may share it."""
    known = lru_cache(maxsize=TEXTS_KEPT)(make)

    @wraps(make)
    def made(text: str) -> T:
        return known(text) if len(text) <= LONGEST_KEPT else make(text)

    return made
