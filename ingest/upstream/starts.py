"""Not all servers are started at once: each start takes processor time and memory that the others need."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from functools import partial

import anyio

from waygraph.ingest.upstream.clock import Clock, first_of

START_S = 5.0
"""How long a start keeps its place: what takes longer waits for something, and needs no processor."""


class Starts:
    """At most `limit` servers that are being started at a time.

    One that takes longer than `patience_s` gives up its place, though not its start: servers that never answer keep
    nobody waiting.
    """

    def __init__(self, limit: int, patience_s: float, clock: Clock) -> None:
        self._limit, self._patience_s, self._clock = limit, patience_s, clock
        self._begun: dict[object, float] = {}
        self._freed = anyio.Event()

    @asynccontextmanager
    async def place(self) -> AsyncIterator[None]:
        """Waits for a place, and holds it."""
        while (wait_s := self._wait_s()) > 0:
            await first_of(self._freed.wait, partial(self._clock.sleep, wait_s))
        mine = object()
        self._begun[mine] = self._clock.now_s()
        try:
            yield
        finally:
            del self._begun[mine]
            self._freed.set()
            self._freed = anyio.Event()

    def _wait_s(self) -> float:
        """0 if there is a place; else how long until one is given up."""
        now = self._clock.now_s()
        ends = sorted(end for begun in self._begun.values() if (end := begun + self._patience_s) > now)
        return ends[-self._limit] - now if len(ends) >= self._limit else 0.0
