"""Child processes that start at once (forked from a server that has everything imported) and can be killed."""

import multiprocessing
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from multiprocessing.connection import Connection
from typing import Any

CONTEXT = multiprocessing.get_context("forkserver")
CONTEXT.set_forkserver_preload(["tests.faults.programs"])

PATIENCE_S = 60.0


class Child:
    """A process that runs `program(connection, *args)`, and what it says."""

    def __init__(self, program: Callable[..., None], *args: object) -> None:
        self._ours, theirs = CONTEXT.Pipe()
        self._process = CONTEXT.Process(target=program, args=(theirs, *args), daemon=True)
        self._process.start()
        theirs.close()

    @property
    def pid(self) -> int:
        assert self._process.pid is not None
        return self._process.pid

    def hear(self, timeout_s: float = PATIENCE_S) -> Any:
        """What it says next. Raises EOFError if it ended without a word, TimeoutError if it says nothing."""
        if not self._ours.poll(timeout_s):
            raise TimeoutError(f"process {self.pid} said nothing for {timeout_s} s")
        return self._ours.recv()

    def said(self) -> list[Any]:
        """Everything it said up to its end."""
        words = []
        try:
            while True:
                words.append(self.hear())
        except EOFError:
            return words

    def tell(self, word: object) -> None:
        self._ours.send(word)

    def kill(self) -> None:
        """With SIGKILL, if it has not ended by itself."""
        self._process.kill()

    def end(self) -> int:
        """Its exit status, once it ended; minus the signal if one ended it."""
        self._process.join(PATIENCE_S)
        assert self._process.exitcode is not None, "still running"
        return self._process.exitcode

    def close(self) -> None:
        if self._process.is_alive():
            self._process.kill()
        self._process.join()
        self._process.close()
        self._ours.close()


@contextmanager
def child(program: Callable[..., None], *args: object) -> Iterator[Child]:
    running = Child(program, *args)
    try:
        yield running
    finally:
        running.close()


Pipe = Connection
