"""What a worker process takes from itself, for good, before it has to do with anything that a stranger typed."""

import resource
import sys

MIB = 1024 * 1024


def lower(what: int, most: int) -> None:
    """Lowers a limit for good; one that is lower already stays."""
    hard = resource.getrlimit(what)[1]
    most = most if hard == resource.RLIM_INFINITY else min(most, hard)
    resource.setrlimit(what, (most, most))


def limit_memory(mib: int) -> None:
    """So much more address space than is taken now; Linux only."""
    if sys.platform == "linux":
        with open("/proc/self/statm", "rb") as statm:
            base = int(statm.read().split()[0]) * resource.getpagesize()
        lower(resource.RLIMIT_AS, base + mib * MIB)
