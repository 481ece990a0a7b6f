"""Supervised servers: each is connected to, listed, asked again, and tried again when it is gone."""

from collections.abc import Callable, Mapping
from contextlib import AsyncExitStack
from dataclasses import dataclass
from functools import partial
from random import Random

import anyio
from anyio.abc import TaskGroup

from waygraph.ingest.manifest.own_gateway import is_gateway_name
from waygraph.ingest.manifest.records import Launch
from waygraph.ingest.upstream.connection import Clock, Connect, Connection, Starts, first_of
from waygraph.ingest.watch.events import Failing, ServerEvent, ServerListed, ServerStopped, Starting, Unreachable
from waygraph.registry.http.client import backoff_s
from waygraph.registry.model.errors import UpstreamError, UpstreamRefused


@dataclass(frozen=True, slots=True, kw_only=True)
class Pace:
    """The times that all servers share."""

    poll_s: float = 300.0
    """From one listing to the next of a server that says nothing else."""
    least_poll_s: float = 5.0
    most_poll_s: float = 3600.0
    """The bounds of what a server may ask for by itself."""
    jitter: float = 0.1
    """As a share either way: servers that were started together are not asked together for ever."""
    retry_first_s: float = 1.0
    retry_most_s: float = 300.0
    steady_s: float = 60.0
    """A connection that lasted so long was a good one: when it ends, trying begins anew with short pauses."""
    flood_first_s: float = 0.05
    flood_most_s: float = 2.0
    """Between two listings of a server that tells of changes without end."""

    def poll_after_s(self, lasts_s: float | None, random: Random) -> float:
        """When to list again a server that says for how long its listing holds; 0 is that it says nothing of it."""
        rest_s = min(max(lasts_s, self.least_poll_s), self.most_poll_s) if lasts_s else self.poll_s
        return rest_s * random.uniform(1 - self.jitter, 1 + self.jitter)


class Backoff:
    """Pauses that double, from `retry_first_s` to `retry_most_s`, each cut at random by up to a half."""

    def __init__(self, pace: Pace, random: Random) -> None:
        self._pace, self._random = pace, random
        self._attempt = 0

    def pause_s(self) -> float:
        self._attempt += 1
        return backoff_s(self._attempt - 1, self._random.random, self._pace.retry_first_s, self._pace.retry_most_s)

    def begin_anew(self) -> None:
        self._attempt = 0


class Rhythm:
    """When a change that was told is looked at: at once after a time of rest, ever later while more are told."""

    def __init__(self, pace: Pace) -> None:
        self._pace = pace
        self._gap_s = 0.0
        self._listed_s = float("-inf")

    def note_listing(self, now_s: float) -> None:
        """A listing begins."""
        self._listed_s = now_s

    def pause_s(self, now_s: float) -> float:
        """A change is told: how long to wait before the listing that shows it."""
        has_rested = now_s - self._listed_s > 2 * self._pace.flood_most_s
        longer_s = min(max(self._gap_s * 2, self._pace.flood_first_s), self._pace.flood_most_s)
        self._gap_s = 0.0 if has_rested else longer_s
        return max(0.0, self._listed_s + self._gap_s - now_s)


@dataclass(frozen=True, slots=True, kw_only=True)
class Supervision:
    """What every supervised server is given. `tell` is called in the event loop, and must not wait."""

    connect: Connect
    tell: Callable[[ServerEvent], None]
    starts: Callable[[Launch], Starts]
    pace: Pace
    clock: Clock
    random: Random


class _IsGateway(Exception):
    """A server is a gateway of Waygraph itself."""


class SupervisedServer:
    """A server that is followed until its task is cancelled. Nothing that it does ends the task, but that it is a
    gateway itself.
    """

    def __init__(self, name: str, launch: Launch, supervision: Supervision) -> None:
        self._name, self._launch, self._supervision = name, launch, supervision
        self._clock = supervision.clock
        self._loss_backoff = Backoff(supervision.pace, supervision.random)
        self._refusal_backoff = Backoff(supervision.pace, supervision.random)
        self._connected_s: float | None = None
        self._gone_since = ""

    async def run(self) -> None:
        """Until it is cancelled."""
        self._supervision.tell(Starting(server=self._name))
        try:
            while True:
                await self._clock.sleep(await self._live_once())
        except _IsGateway:
            return
        finally:
            self._supervision.tell(ServerStopped(server=self._name))

    async def _live_once(self) -> float:
        """One life of a connection, from its start to its end; then how long to rest."""
        self._connected_s = None
        try:
            async with AsyncExitStack() as stack:
                async with self._supervision.starts(self._launch).place():
                    connection = await stack.enter_async_context(self._supervision.connect(self._launch))
                self._connected_s = self._clock.now_s()
                await self._follow(connection)
        except UpstreamError as error:
            return self._note_end(error)
        except _IsGateway:
            raise
        except Exception as error:  # noqa: BLE001 - a fault of one server, or in reading it, never ends the others
            return self._note_end(UpstreamRefused(f"unexpected {type(error).__name__}"))
        raise AssertionError("unreachable")

    def _note_end(self, error: UpstreamError) -> float:
        """Tells why, and gives the pause."""
        if self._connected_s is not None and self._clock.now_s() - self._connected_s >= self._supervision.pace.steady_s:
            self._loss_backoff.begin_anew()
        pause_s = self._loss_backoff.pause_s()
        if isinstance(error, UpstreamRefused):
            self._supervision.tell(Failing(server=self._name, reason=error.reason, again_in_s=pause_s))
        else:
            self._gone_since = self._gone_since or self._clock.utc()
            since = self._gone_since
            self._supervision.tell(Unreachable(server=self._name, since=since, reason=error.reason, again_in_s=pause_s))
        return pause_s

    async def _follow(self, connection: Connection) -> None:
        """Lists now, and whenever it may have changed. Ends by the error that ends the connection."""
        rhythm = Rhythm(self._supervision.pace)
        while True:
            rhythm.note_listing(self._clock.now_s())
            rest_s = await self._list_once(connection)
            if await first_of(connection.await_change, partial(self._clock.sleep, rest_s)) == 0:
                await self._clock.sleep(rhythm.pause_s(self._clock.now_s()))

    async def _list_once(self, connection: Connection) -> float:
        """One listing; then how long it is taken to hold. A refused one costs the connection nothing."""
        began_s = self._clock.now_s()
        try:
            listing = await connection.listing()
        except UpstreamRefused as error:
            pause_s = self._refusal_backoff.pause_s()
            self._supervision.tell(Failing(server=self._name, reason=error.reason, again_in_s=pause_s))
            return pause_s
        self._refusal_backoff.begin_anew()
        self._gone_since = ""
        self._supervision.tell(ServerListed(server=self._name, listing=listing, seconds=self._clock.now_s() - began_s))
        if is_gateway_name(listing.name):
            raise _IsGateway
        return self._supervision.pace.poll_after_s(listing.lasts_s, self._supervision.random)


class Fleet:
    """Servers by name; a name stands for one launch. All end when the group's tasks are cancelled."""

    def __init__(self, group: TaskGroup, supervision: Supervision) -> None:
        self._group, self._supervision = group, supervision
        self._scopes: dict[str, anyio.CancelScope] = {}

    @property
    def names(self) -> frozenset[str]:
        return frozenset(self._scopes)

    def follow(self, launches: Mapping[str, Launch]) -> None:
        """Exactly these from now on: new ones are started, others are stopped."""
        for name in self._scopes.keys() - launches.keys():
            self._scopes.pop(name).cancel()
        for name, launch in launches.items():
            if name not in self._scopes:
                scope = self._scopes[name] = anyio.CancelScope()
                self._group.start_soon(self._run, name, launch, scope)

    async def _run(self, name: str, launch: Launch, scope: anyio.CancelScope) -> None:
        with scope:
            await SupervisedServer(name, launch, self._supervision).run()
