"""Questions to the registry in threads, for a host on standard input: what hangs holds up nobody for ever."""

from threading import Event

import anyio
import pytest

from waygraph.api.mcp.gateway import MOST_AT_WORK, InThreads


async def test_what_hangs_is_given_up_and_the_next_is_answered() -> None:
    """However much hangs; and the threads of all else are free meanwhile."""
    ready = Event()
    try:
        ask = InThreads(0.3)

        async def hangs() -> None:
            with pytest.raises(TimeoutError):
                await ask(ready.wait)

        async with anyio.create_task_group() as tasks:
            for _ in range(MOST_AT_WORK):
                tasks.start_soon(hangs)
            assert await anyio.to_thread.run_sync(lambda: "free") == "free"
        ask._timeout_s = 60.0
        assert await ask(lambda: "answered") == "answered"
    finally:
        ready.set()
