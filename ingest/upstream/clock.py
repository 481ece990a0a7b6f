"""Not all servers are started at once: each start takes processor time and memory that the others need."""

from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from datetime import UTC, datetime
from functools import partial
from typing import Protocol

import anyio

# Time, as those who follow servers see it: handed in, so that a test can let an hour pass at once.


Wait = Callable[[], Awaitable[object]]


class Clock(Protocol):
    def now_s(self) -> float:
        """Seconds since some moment; never goes back."""
        ...

    def utc(self) -> str:
        """ISO 8601 in UTC, to the second."""
        ...

    async def sleep(self, seconds: float) -> None: ...


class SystemClock:
    """The machine's own."""

    def now_s(self) -> float:
        return anyio.current_time()

    def utc(self) -> str:
        return datetime.now(UTC).isoformat(timespec="seconds")

    async def sleep(self, seconds: float) -> None:
        await anyio.sleep(seconds)


async def first_of(*waits: Wait) -> int:
    """The number of the wait that ended first; the others are cancelled. Raises what one of them raises."""
    numbers: list[int] = []
    errors: list[Exception] = []
    async with anyio.create_task_group() as group:

        async def one(number: int, wait: Wait) -> None:
            try:
                await wait()
            except Exception as error:  # noqa: BLE001 - raised again below, out of the group
                errors.append(error)
            numbers.append(number)
            group.cancel_scope.cancel()

        for number, wait in enumerate(waits):
            group.start_soon(one, number, wait)
    if errors:
        raise errors[0]
    return numbers[0]


SERVERS_AT_ONCE = 32
"""Servers that are asked at a time, over HTTP or started before."""
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
        ends = sorted(end for start in self._begun.values() if (end := start + self._patience_s) > now)
        return ends[-self._limit] - now if len(ends) >= self._limit else 0.0
