"""A service's memory: its threads share few arenas of glibc."""

import platform
import subprocess
import sys

import pytest

from waygraph.api.rest.arenas import ARENAS, keep_few_arenas

THREADS = 12
COUNTED = f"""
import ctypes, sys, threading
from waygraph.api.rest.arenas import keep_few_arenas
if sys.argv[1] == "few":
    assert keep_few_arenas({{}})
all_there = threading.Barrier({THREADS})
def allocate():
    all_there.wait()
    held = [bytes(2000) for _ in range(1000)]
    all_there.wait()
    return held
threads = [threading.Thread(target=allocate) for _ in range({THREADS})]
for each in threads: each.start()
for each in threads: each.join()
libc = ctypes.CDLL(None)
libc.malloc_info(0, ctypes.c_void_p.in_dll(libc, "stdout"))
libc.fflush(None)
"""


def arenas(mode: str) -> int:
    """How many a process has after its threads allocated at the same time, as glibc itself counts them."""
    done = subprocess.run([sys.executable, "-c", COUNTED, mode], capture_output=True, text=True, check=True)
    return done.stdout.count("<heap nr=")


@pytest.mark.skipif(platform.libc_ver()[0] != "glibc", reason="only glibc has arenas")
def test_threads_share_few_arenas() -> None:
    """As it comes each thread has its own, and keeps in it what it once took."""
    assert arenas("few") <= ARENAS
    assert arenas("as it comes") > ARENAS


def test_what_an_operator_says_holds() -> None:
    assert not keep_few_arenas({"MALLOC_ARENA_MAX": "16"})
