"""Programs for a process of its own that talks to MCP servers: what it costs, and what is left when it is killed."""

import time
from collections.abc import Sequence
from contextlib import AsyncExitStack, suppress

import anyio

from tests.faults.processes import Pipe
from tests.processes_left import resident_bytes
from waygraph.ingest.manifest.records import Launch
from waygraph.ingest.upstream.open import connect
from waygraph.registry.model.errors import UpstreamError
from waygraph.registry.model.settings import Settings


def peak_of_asking(pipe: Pipe, harmless: Launch, launch: Launch, settings: Settings, held_s: float = 0.0) -> None:
    """Says by how many bytes its memory grew at its highest, beyond what a harmless server makes it grow to.

    `held_s`: for how long the connection is kept, each change that it tells of answered by a listing.
    """
    anyio.run(_ask, harmless, settings, 0.0)
    before = resident_bytes()
    anyio.run(_ask, launch, settings, held_s)
    pipe.send(resident_bytes() - before)


async def _ask(launch: Launch, settings: Settings, held_s: float) -> None:
    with suppress(UpstreamError):
        async with connect(launch, settings) as connection:
            await connection.listing()
            with anyio.move_on_after(held_s):
                while True:
                    await connection.await_change()
                    await connection.listing()


def hold_all(pipe: Pipe, launches: Sequence[Launch], settings: Settings) -> None:
    """Says how many tools all of the servers have together, and holds them until it is killed."""

    async def hold() -> None:
        async with AsyncExitStack() as stack:
            held = [await stack.enter_async_context(connect(launch, settings)) for launch in launches]
            pipe.send(sum([len((await connection.listing()).tools) for connection in held]))
            await anyio.to_thread.run_sync(time.sleep, 600)

    anyio.run(hold)
