"""What a server tells by itself, in both eras and over both transports."""

import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import anyio
import pytest

from tests.upstream.launches import SETTINGS, handshake, modern
from tests.upstream.served import served
from waygraph.ingest.manifest.records import HttpLaunch, Launch
from waygraph.ingest.upstream import calls
from waygraph.ingest.upstream.connection import Connection
from waygraph.ingest.upstream.open import connect
from waygraph.registry.model.errors import UpstreamUnreachable

PATIENCE_S = 60.0


@pytest.fixture(autouse=True)
def _waits_for_its_stream(monkeypatch: pytest.MonkeyPatch) -> None:
    """A listing says whether changes are told, however slowly a server opens the way for that."""
    monkeypatch.setattr(calls, "_STANDS_S", PATIENCE_S)


@asynccontextmanager
async def following(launch: Launch) -> AsyncIterator[Connection]:
    async with connect(launch, SETTINGS) as connection:
        with anyio.fail_after(4 * PATIENCE_S):
            yield connection


async def is_told(connection: Connection, within_s: float) -> bool:
    with anyio.move_on_after(within_s):
        await connection.await_change()
        return True
    return False


@pytest.mark.parametrize("launch", [handshake("changes"), modern()], ids=["handshake", "modern"])
async def test_a_change_is_told_over_stdio(launch: Launch) -> None:
    """A notification wakes whoever waits; a listing answers it, and until the next one all is quiet."""
    async with following(launch) as connection:
        await connection.listing()
        await connection.await_change()
        await connection.await_change()


async def test_many_notifications_are_one() -> None:
    """20,000 in one go are one change, and cost less than the time they take to be read."""
    async with following(handshake("flood")) as connection:
        await connection.listing()
        await connection.await_change()
        began = time.process_time()
        await connection.listing()
        assert await is_told(connection, PATIENCE_S)
        assert time.process_time() - began < 5, "20,000 notifications kept a processor busy for 5 s"


@pytest.mark.parametrize("era", ["modern", "handshake"])
async def test_a_change_is_told_over_http(era: str) -> None:
    with served() as server:
        server.modern = era == "modern"
        async with following(HttpLaunch(url=server.url)) as connection:
            first = await connection.listing()
            assert first.notifies
            server.tools.append("beta")
            await anyio.to_thread.run_sync(server.tell, 50)
            await connection.await_change()
            second = await connection.listing()
            assert [tool["name"] for tool in second.tools] == ["alpha", "beta"]
            assert first.protocol == ("2026-07-28" if era == "modern" else "2025-11-25")


async def test_a_server_that_goes_is_told_to_whoever_waits() -> None:
    """The end of a process raises at once, with how it ended; and so does whatever is asked afterwards."""
    async with following(handshake("is_killed")) as connection:
        await connection.listing()
        for _ in range(2):
            with pytest.raises(UpstreamUnreachable, match="was ended by SIGKILL"):
                await connection.await_change()
        with pytest.raises(UpstreamUnreachable, match="was ended by SIGKILL"):
            await connection.listing()


async def test_a_subscription_that_ends_is_opened_again() -> None:
    with served() as server:
        async with following(HttpLaunch(url=server.url)) as connection:
            await connection.listing()
            assert not await is_told(connection, 0.2)
            server.end_streams()
            assert await is_told(connection, PATIENCE_S)
            await connection.listing()
            await anyio.to_thread.run_sync(server.tell)
            assert await is_told(connection, PATIENCE_S)
