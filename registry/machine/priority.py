"""How threads stand beside each other where there is more work than processors: on Linux each has its own niceness."""

import os
import sys
from threading import get_native_id

WRITING = 10
"""Of 19. Beside questions a sync gets what they leave."""
EMBEDDING = 19
"""Of a writer, by far the most, and nobody waits for it: a model at work holds no lock of Python. The rest of a writer
holds it, and put back so far it would keep questions waiting for their turn with it.
"""


def step_back(niceness: int = WRITING) -> None:
    """Lowers the priority of this thread, and of threads that it starts; one that is lower stays so."""
    if sys.platform == "linux":
        os.setpriority(os.PRIO_PROCESS, get_native_id(), max(niceness, _niceness()))


def has_stepped_back() -> bool:
    return sys.platform == "linux" and _niceness() >= WRITING


def _niceness() -> int:
    return os.getpriority(os.PRIO_PROCESS, get_native_id())
