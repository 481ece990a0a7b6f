"""Lines that go to a pipe, written by whoever has one: with a task between it and the pipe more of a call's time would
go into changes of task than into the call."""

from collections.abc import Callable

import anyio

from waygraph.ingest.upstream.pipe import GONE, Pipe


class LinesOut:
    """What goes to a pipe, each line whole, though who writes it is cancelled meanwhile. `run` is its task."""

    def __init__(self, pipe: Pipe, on_gone: Callable[[], None] = lambda: None) -> None:
        self._pipe, self._on_gone = pipe, on_gone
        self._rest = bytearray()
        self._queued = self._taken = 0
        """How many bytes there were to write, and how many of them the pipe has, since the beginning."""
        self._is_full, self._is_taken = anyio.Event(), anyio.Event()
        self._is_over = self._is_gone = False

    async def write(self, line: bytes) -> None:
        """Returns when the pipe has all of it, whatever is queued behind it.

        Raises BrokenResourceError and ClosedResourceError, if the pipe does not have all of it and never will.
        """
        if self._is_over:
            raise anyio.ClosedResourceError
        end = self._queue(line)
        await self._until(end)
        if self._taken < end:
            raise anyio.BrokenResourceError

    def _queue(self, line: bytes) -> int:
        """Writes what fits now; the rest is left to `run`. How many bytes are queued then: where the line ends."""
        try:
            taken = 0 if self._rest else self._pipe.put(line)
        except GONE:
            self._is_over = True
            self._on_gone()
            raise anyio.BrokenResourceError from None
        self._rest += line[taken:]
        self._queued += len(line)
        self._taken += taken
        if self._rest:
            self._is_full.set()
        return self._queued

    async def _until(self, end: int) -> None:
        """Returns when the pipe has as many bytes, or takes no more."""
        while self._taken < end and not self._is_gone:
            await self._is_taken.wait()

    async def run(self) -> None:
        """Writes on what the pipe did not take at once. Until it is cancelled, or nobody reads."""
        try:
            while True:
                await self._is_full.wait()
                self._is_full = anyio.Event()
                while self._rest:
                    await self._pipe.writable()
                    taken = self._pipe.put(self._rest)
                    del self._rest[:taken]
                    self._taken += taken
                    self._is_taken.set()
                    self._is_taken = anyio.Event()
        except GONE:
            self._on_gone()
        finally:
            self._is_over = self._is_gone = True
            self._is_taken.set()

    async def flushed(self) -> None:
        """Returns when nothing is left to be written, or nothing can be."""
        await self._until(self._queued)

    def close(self) -> None:
        self._is_over = True
