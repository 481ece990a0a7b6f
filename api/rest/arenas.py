"""Memory that threads let go of is given back: glibc is told to keep one arena."""

import ctypes
from collections.abc import Mapping

ARENAS = 1
_M_ARENA_MAX = -8
"""Of glibc's malloc.h."""


def keep_one_arena(environ: Mapping[str, str]) -> bool:
    """Whether it was done: not where the C library knows no arenas, nor where MALLOC_ARENA_MAX says how many.

    By default each thread that allocates gets an arena of its own, up to eight a processor, and each keeps for itself
    what a sync or a large answer once took in its thread: a service grows to a multiple of what it uses. With two it
    still grew by some hundredths a minute under mixed load, with one it does not, and neither answers faster.
    """
    if "MALLOC_ARENA_MAX" in environ:
        return False
    mallopt = getattr(ctypes.CDLL(None), "mallopt", None)
    return bool(mallopt and mallopt(_M_ARENA_MAX, ARENAS))
