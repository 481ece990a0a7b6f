"""How many processors this process may use."""

import os
from functools import cache


@cache
def processors() -> int:
    """At least 1. Asked of the system once, not for each query.

    Fewer than the machine has where the process is bound to some, as in a container with a set of its own.
    """
    bound = getattr(os, "sched_getaffinity", None)  # not on every system
    return len(bound(0)) if bound else os.cpu_count() or 1
