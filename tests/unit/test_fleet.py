"""Servers that are followed, in time that the test lets pass: the fleet's rules, over fakes of the protocol alone."""

import itertools
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import anyio

from tests.watching_fakes import FakeServer, World
from waygraph.ingest.watch.events import Failing, ServerListed, ServerStopped, Starting, Unreachable
from waygraph.ingest.watch.supervisor import Fleet, Pace
from waygraph.registry.model.errors import UpstreamRefused, UpstreamUnreachable


@asynccontextmanager
async def followed(world: World, *names: str) -> AsyncIterator[Fleet]:
    """Follows the servers named, or all."""
    async with anyio.create_task_group() as group:
        fleet = world.fleet(group)
        fleet.follow(world.launches(*names))
        yield fleet
        group.cancel_scope.cancel()


def unreachable() -> None:
    raise UpstreamUnreachable("nobody there")


def refused() -> None:
    raise UpstreamRefused("what is this?")


async def test_a_server_is_listed_at_once_and_then_at_each_interval() -> None:
    world = World({"a": FakeServer()}, pace=Pace(jitter=0.0, poll_s=300))
    async with followed(world):
        await world.clock.pass_time(650)
    assert world.servers["a"].listed_at == [0, 300, 600]
    assert [type(event) for event in world.told] == [Starting, ServerListed, ServerListed, ServerListed, ServerStopped]


async def test_a_change_after_a_time_of_rest_is_listed_at_once() -> None:
    world = World({"a": FakeServer()})
    async with followed(world):
        await world.clock.pass_time(60)
        world.servers["a"].change()
        await world.clock.pass_time(0)
    assert world.servers["a"].listed_at == [0, 60]


async def test_a_flood_of_changes_leads_to_few_listings() -> None:
    world = World({"a": FakeServer(), "quiet": FakeServer(lasts_s=10)})
    async with followed(world):
        for _step in range(60 * 32):
            world.servers["a"].change()
            await world.clock.pass_time(1 / 32)
    flooded = world.servers["a"].listed_at
    assert 30 <= len(flooded) <= 45
    assert min(b - a for a, b in itertools.pairwise(flooded[10:])) >= 1.99
    assert world.servers["quiet"].listed_at == [0, 10, 20, 30, 40, 50, 60]


async def test_a_server_that_is_not_there_is_tried_again_ever_more_rarely() -> None:
    world = World({"a": FakeServer(connecting=unreachable)})
    async with followed(world):
        await world.clock.pass_time(3600)
    tried = world.servers["a"].connected_at
    pauses = [b - a for a, b in itertools.pairwise(tried)]
    assert all(0.5 * 2**n <= pause <= 2**n for n, pause in enumerate(pauses[:9]))
    assert all(150 <= pause <= 300 for pause in pauses[9:])
    assert pauses[9:]
    events = [event for event in world.told if isinstance(event, Unreachable)]
    assert {event.since for event in events} == {"t+0"}
    assert {event.reason for event in events} == {"nobody there"}


async def test_a_server_that_comes_back_is_online_again() -> None:
    server = FakeServer()
    world = World({"a": server})
    async with followed(world):
        await world.clock.pass_time(100)
        server.die()
        await world.clock.pass_time(5)
    assert [type(event) for event in world.told] == [Starting, ServerListed, Unreachable, ServerListed, ServerStopped]
    assert server.connected_at[1] - 100 <= 1
    assert server.open == 0


async def test_one_that_dies_right_after_each_start_is_not_started_without_end() -> None:
    server = FakeServer()
    world = World({"a": server})
    async with followed(world):
        for _step in range(600):
            await world.clock.pass_time(0.5)
            if server.open:
                server.die()
    assert len(server.connected_at) <= 11


async def test_a_refused_listing_keeps_the_connection() -> None:
    server = FakeServer(listing=refused)
    world = World({"a": server})
    async with followed(world):
        await world.clock.pass_time(10)
        assert [type(event) for event in world.told[1:]] == [Failing] * (len(world.told) - 1)
        server.listing = lambda: None
        await world.clock.pass_time(20)
    assert isinstance(world.told[-2], ServerListed)
    assert len(server.connected_at) == 1
    assert 4 <= len([event for event in world.told if isinstance(event, Failing)]) <= 6


async def test_one_dead_of_many_delays_nobody() -> None:
    servers = {f"dead {n}": FakeServer(connect_takes_s=1e9) for n in range(3)} | {
        f"live {n}": FakeServer(connect_takes_s=0.1) for n in range(20)
    }
    world = World(servers, starts=2, patience_s=2.0)
    async with followed(world):
        await world.clock.pass_time(6)
    assert all(server.listed_at for name, server in servers.items() if name.startswith("live"))


async def test_a_server_that_is_no_longer_named_is_stopped_and_a_new_one_started() -> None:
    world = World({"a": FakeServer(), "b": FakeServer(), "c": FakeServer()})
    async with followed(world, "a", "b") as fleet:
        await world.clock.pass_time(10)
        fleet.follow(world.launches("b", "c"))
        await world.clock.pass_time(10)
        assert world.servers["a"].open == 0
        assert fleet.names == {"b", "c"}
    assert [type(event) for event in world.of("a")] == [Starting, ServerListed, ServerStopped]
    assert world.servers["b"].connected_at == [0]
    assert world.servers["c"].connected_at == [10]


async def test_a_gateway_is_listed_once_and_not_followed() -> None:
    """It would stand behind another; when it is named again it is not started again."""
    world = World({"a": FakeServer(called="waygraph"), "b": FakeServer()}, pace=Pace(jitter=0.0, poll_s=300))
    async with followed(world) as fleet:
        await world.clock.pass_time(650)
        fleet.follow(world.launches())
        await world.clock.pass_time(650)
        assert (world.servers["a"].open, world.servers["b"].open) == (0, 1)
    assert [type(event) for event in world.of("a")] == [Starting, ServerListed, ServerStopped]
    assert len(world.servers["a"].connected_at) == 1
