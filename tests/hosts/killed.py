"""`python -m tests.hosts.killed STEP COUNT WORDS…`: `waygraph WORDS…`, killed right before a step is taken.

STEP names a function of a takeover, as `backup.Shelf.keep_takes`; COUNT which of its calls.
"""

import importlib
import os
import signal
import sys
from typing import Any

from waygraph.api.cli.app import main


def kill_before(step: str, count: int) -> None:
    module, *names = step.split(".")
    holder: Any = importlib.import_module(f"waygraph.ingest.hosts.{module}")
    for name in names[:-1]:
        holder = getattr(holder, name)
    real, left = getattr(holder, names[-1]), [count]

    def wrapped(*args: Any, **named: Any) -> Any:
        left[0] -= 1
        if not left[0]:
            os.kill(os.getpid(), signal.SIGKILL)
        return real(*args, **named)

    setattr(holder, names[-1], wrapped)


if __name__ == "__main__":
    kill_before(sys.argv[1], int(sys.argv[2]))
    sys.exit(main(sys.argv[3:]))
