"""A process that writes until it is killed: `python -m benchmarks.store.writer REGISTRY FIRST LAST STEP`.

It says `READY` when the registry is open and `ACK n` when document n is ingested. With STEP 1 or more it kills itself
at that step, and before that it names the step. With STEP -1 it names all of them.

A step is a moment at which files change: before or after a call of the system or of the graph engine, or before a
statement of SQLite that writes. They are seen from outside, so that no version of the store need know of it.
"""

import os
import signal
import sqlite3
import sys
import threading
from types import FrameType, ModuleType
from typing import Any

from benchmarks.store.fleet import FLEET, fleet
from waygraph.ingest import ingest
from waygraph.registry.registry import Registry

CALLS = {
    "posix": {"fsync", "fdatasync", "link", "mkdir", "rename", "replace", "rmdir", "truncate", "unlink"},
    "GrafeoDB": {"begin_transaction", "close", "save", "wal_checkpoint"},
    "Transaction": {"commit", "rollback"},
}
"""Module of the system, or class of the engine → its calls that change files."""
READING = ("SELECT", "PRAGMA", "WITH", "--")
"""How statements of SQLite begin that change nothing."""
CONNECT = sqlite3.connect


class Steps:
    """Counts the steps of all threads, and ends the process at one of them."""

    def __init__(self, last: int) -> None:
        self._last, self._count, self._lock = last, 0, threading.Lock()

    def watch(self) -> None:
        sqlite3.connect = self._connect  # type: ignore[assignment]
        threading.setprofile_all_threads(self._profile)

    def _connect(self, *given: Any, **named: Any) -> sqlite3.Connection:
        connection: sqlite3.Connection = CONNECT(*given, **named)
        connection.set_trace_callback(self._statement)
        return connection

    def _statement(self, text: str) -> None:
        if not text.lstrip().upper().startswith(READING):
            self._step(f"before {text.split(maxsplit=1)[0].upper()}")

    def _profile(self, _frame: FrameType | None, event: str, called: Any) -> None:
        if event in ("c_call", "c_return") and (name := _name_of(called)):
            self._step(f"{'before' if event == 'c_call' else 'after'} {name}")

    def _step(self, name: str) -> None:
        with self._lock:
            self._count += 1
            if self._last < 0 or self._count == self._last:
                os.write(1, f"STEP {name}\n".encode())
            if self._count == self._last:
                os.kill(os.getpid(), signal.SIGKILL)


def _name_of(called: Any) -> str:
    """`owner.call`, or nothing if it changes no file."""
    owner = getattr(called, "__self__", None)
    name = owner.__name__ if isinstance(owner, ModuleType) else type(owner).__name__
    return f"{name}.{called.__name__}" if called.__name__ in CALLS.get(name, ()) else ""


def main(location: str, first: int, last: int, step: int) -> None:
    steps = Steps(step)
    if step:
        steps.watch()
    with Registry.open(location) as registry:
        print("READY", flush=True)
        for number in range(first, last + 1):
            ingest(registry, fleet(number), source=FLEET, allow_mass_removal=True)
            print("ACK", number, flush=True)


if __name__ == "__main__":
    main(sys.argv[1], *map(int, sys.argv[2:]))
