"""One server, supervised: connected to, listed, asked again, and tried again when it is gone."""

from collections.abc import Callable
from contextlib import AsyncExitStack
from dataclasses import dataclass
from functools import partial
from random import Random

from waygraph.ingest.upstream.clock import Clock, first_of
from waygraph.ingest.upstream.connection import Connect, Connection
from waygraph.ingest.upstream.launch import Launch
from waygraph.ingest.upstream.starts import Starts
from waygraph.ingest.watching.events import Failing, Listed, ServerEvent, Starting, Stopped, Unreachable
from waygraph.ingest.watching.pace import Backoff, Pace, Rhythm
from waygraph.registry.errors import UpstreamError, UpstreamRefused


@dataclass(frozen=True, slots=True, kw_only=True)
class Supervision:
    """What every supervised server is given. `tell` is called in the event loop, and must not wait."""

    connect: Connect
    tell: Callable[[ServerEvent], None]
    starts: Callable[[Launch], Starts]
    pace: Pace
    clock: Clock
    random: Random


class Supervised:
    """A server that is followed until its task is cancelled. Nothing that it does ends the task."""

    def __init__(self, name: str, launch: Launch, given: Supervision) -> None:
        self._name, self._launch, self._given = name, launch, given
        self._clock = given.clock
        self._lost, self._refused = Backoff(given.pace, given.random), Backoff(given.pace, given.random)
        self._connected_s: float | None = None
        self._gone_since = ""

    async def run(self) -> None:
        """Until it is cancelled."""
        self._given.tell(Starting(server=self._name))
        try:
            while True:
                await self._clock.sleep(await self._lived())
        finally:
            self._given.tell(Stopped(server=self._name))

    async def _lived(self) -> float:
        """One life of a connection, from its start to its end; then how long to rest."""
        self._connected_s = None
        try:
            async with AsyncExitStack() as opened:
                async with self._given.starts(self._launch).place():
                    connection = await opened.enter_async_context(self._given.connect(self._launch))
                self._connected_s = self._clock.now_s()
                await self._follow(connection)
        except UpstreamError as error:
            return self._ended(error)
        except Exception as error:  # noqa: BLE001 - a fault of one server, or in reading it, never ends the others
            return self._ended(UpstreamRefused(f"unexpected {type(error).__name__}"))
        raise AssertionError("unreachable")

    def _ended(self, error: UpstreamError) -> float:
        """Tells why, and gives the pause."""
        if self._connected_s is not None and self._clock.now_s() - self._connected_s >= self._given.pace.steady_s:
            self._lost.begin_anew()
        pause_s = self._lost.pause_s()
        if isinstance(error, UpstreamRefused):
            self._given.tell(Failing(server=self._name, reason=error.reason, again_in_s=pause_s))
        else:
            self._gone_since = self._gone_since or self._clock.utc()
            since = self._gone_since
            self._given.tell(Unreachable(server=self._name, since=since, reason=error.reason, again_in_s=pause_s))
        return pause_s

    async def _follow(self, connection: Connection) -> None:
        """Lists now, and whenever it may have changed. Ends by the error that ends the connection."""
        rhythm = Rhythm(self._given.pace)
        while True:
            rhythm.listed(self._clock.now_s())
            rest_s = await self._listed(connection)
            told = await first_of(connection.changed, partial(self._clock.sleep, rest_s)) == 0
            if told:
                await self._clock.sleep(rhythm.pause_s(self._clock.now_s()))

    async def _listed(self, connection: Connection) -> float:
        """One listing; then how long it is taken to hold. A refused one costs the connection nothing."""
        began_s = self._clock.now_s()
        try:
            listing = await connection.listing()
        except UpstreamRefused as error:
            pause_s = self._refused.pause_s()
            self._given.tell(Failing(server=self._name, reason=error.reason, again_in_s=pause_s))
            return pause_s
        self._refused.begin_anew()
        self._gone_since = ""
        self._given.tell(Listed(server=self._name, listing=listing, seconds=self._clock.now_s() - began_s))
        return self._given.pace.poll_after_s(listing.lasts_s, self._given.random)
