"""Time that a test lets pass, and servers that speak only the protocol of a connection: for the fleet's timing."""

from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from random import Random

import anyio
from anyio.abc import TaskGroup

from waygraph.ingest.manifest.records import Launch, StdioLaunch
from waygraph.ingest.upstream.connection import ServerListing, Starts
from waygraph.ingest.watch.events import ServerEvent
from waygraph.ingest.watch.supervisor import Fleet, Pace, Supervision
from waygraph.registry.model.errors import UpstreamUnreachable


class TestClock:
    """Stands still while anyone still has something to do; `pass_time` moves it from one sleeper to the next."""

    __test__ = False

    def __init__(self) -> None:
        self._now_s = 1000.0
        self._sleepers: list[tuple[float, anyio.Event]] = []

    def now_s(self) -> float:
        return self._now_s

    def utc(self) -> str:
        return f"t+{self._now_s - 1000:g}"

    async def sleep(self, seconds: float) -> None:
        if seconds <= 0:
            await anyio.lowlevel.checkpoint()
            return
        sleeper = (self._now_s + seconds, anyio.Event())
        self._sleepers.append(sleeper)
        try:
            await sleeper[1].wait()
        finally:
            self._sleepers.remove(sleeper)

    async def pass_time(self, seconds: float) -> None:
        """Lets so much time pass, and everybody act in it."""
        until = self._now_s + seconds
        await _everybody_acts()
        while due := sorted((at for at, event in self._sleepers if at <= until and not event.is_set())):
            self._now_s = max(self._now_s, due[0])
            for at, event in self._sleepers:
                if at <= self._now_s:
                    event.set()
            await _everybody_acts()
        self._now_s = until


async def _everybody_acts() -> None:
    """Till all wait for time again: no chain of events here is longer. (anyio's own way to know takes 0.1 s.)"""
    for _ in range(40):
        await anyio.lowlevel.checkpoint()


@dataclass
class FakeServer:
    """A server by what it does: `connecting` and `listing` may raise or wait."""

    connecting: Callable[[], object] = lambda: None
    listing: Callable[[], object] = lambda: None
    connect_takes_s: float = 0.0
    lasts_s: float | None = None
    called: str = ""
    listed_at: list[float] = field(default_factory=list)
    connected_at: list[float] = field(default_factory=list)
    open: int = 0
    changed: anyio.Event = field(default_factory=anyio.Event)
    lost: UpstreamUnreachable | None = None

    def change(self) -> None:
        self.changed.set()

    def die(self) -> None:
        """The connection ends."""
        self.lost = UpstreamUnreachable("it ended")
        self.changed.set()


class FakeConnection:
    def __init__(self, server: FakeServer, clock: TestClock) -> None:
        self._server, self._clock = server, clock

    async def listing(self) -> ServerListing:
        self._server.listed_at.append(self._clock.now_s() - 1000)
        self._server.changed = anyio.Event()
        self._server.listing()
        await anyio.lowlevel.checkpoint()
        return ServerListing(lasts_s=self._server.lasts_s, name=self._server.called)

    async def await_change(self) -> None:
        await self._server.changed.wait()
        if lost := self._server.lost:
            self._server.lost = None
            raise lost


@dataclass
class World:
    """A fleet of fake servers, and what it told."""

    servers: dict[str, FakeServer]
    clock: TestClock = field(default_factory=TestClock)
    told: list[ServerEvent] = field(default_factory=list)
    pace: Pace = field(default_factory=lambda: Pace(jitter=0.0))
    starts: int = 100
    patience_s: float = 2.0

    def fleet(self, group: TaskGroup) -> Fleet:
        starts = Starts(self.starts, self.patience_s, self.clock)
        return Fleet(
            group,
            Supervision(
                connect=self.connect,
                tell=self.told.append,
                starts=lambda _: starts,
                pace=self.pace,
                clock=self.clock,
                random=Random(1),  # noqa: S311 - jitter, not a secret
            ),
        )

    def launches(self, *names: str) -> dict[str, Launch]:
        return {name: StdioLaunch(command=name) for name in names or self.servers}

    def of(self, name: str) -> list[ServerEvent]:
        return [event for event in self.told if event.server == name]

    @asynccontextmanager
    async def connect(self, launch: Launch) -> AsyncIterator[FakeConnection]:
        assert isinstance(launch, StdioLaunch)
        server = self.servers[launch.command]
        server.connected_at.append(self.clock.now_s() - 1000)
        server.connecting()
        await self.clock.sleep(server.connect_takes_s)
        server.open += 1
        try:
            yield FakeConnection(server, self.clock)
        finally:
            server.open -= 1
