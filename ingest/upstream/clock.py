"""Time, as those who follow servers see it: handed in, so that a test can let an hour pass at once."""

from collections.abc import Awaitable, Callable
from datetime import UTC, datetime
from typing import Protocol

import anyio

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
    ended: list[int] = []
    raised: list[Exception] = []
    async with anyio.create_task_group() as group:

        async def one(number: int, wait: Wait) -> None:
            try:
                await wait()
            except Exception as error:  # noqa: BLE001 - raised again below, out of the group
                raised.append(error)
            ended.append(number)
            group.cancel_scope.cancel()

        for number, wait in enumerate(waits):
            group.start_soon(one, number, wait)
    if raised:
        raise raised[0]
    return ended[0]
