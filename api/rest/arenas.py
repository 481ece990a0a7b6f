"""Memory that threads let go of is given back: glibc is told to keep few arenas."""

import ctypes
from collections.abc import Mapping

ARENAS = 3
"""One for the event loop, and one for each of two threads that answer."""
_M_ARENA_MAX = -8
"""Of glibc's malloc.h."""


def keep_few_arenas(environ: Mapping[str, str]) -> bool:
    """Whether it was done: not where the C library knows no arenas, nor where MALLOC_ARENA_MAX says how many.

    By default each thread that allocates gets an arena of its own, up to eight a processor, and each keeps for itself
    what a sync or a large answer once took in its thread: a service grows to a multiple of what it uses. In a single
    one all threads wait for each other, and the longer, the more a sync has left it in pieces: a hundred clients had a
    twentieth fewer answers before the first write, and a fifth fewer after four.
    """
    if "MALLOC_ARENA_MAX" in environ:
        return False
    mallopt = getattr(ctypes.CDLL(None), "mallopt", None)
    return bool(mallopt and mallopt(_M_ARENA_MAX, ARENAS))
