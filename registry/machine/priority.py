"""How threads stand beside each other: on Linux each has its own niceness, and Python's lock goes round in turns."""

import os
import sys
from threading import get_native_id

WRITING = 10
"""Of 19. Beside questions a sync gets what they leave."""
EMBEDDING = 19
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
