"""A gateway put together: what runs its calls, and the server that answers while it is at work."""

from collections.abc import AsyncGenerator, Callable
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING

from waygraph.api.mcp.gateway import Ask, Asker, Gateway
from waygraph.api.mcp.listening import Listeners
from waygraph.api.mcp.parking import Parking
from waygraph.api.mcp.rules import Rules
from waygraph.api.mcp.server import GatewayServer, running, server_of
from waygraph.api.mcp.session import Context
from waygraph.api.mcp.surface import Surface
from waygraph.ingest.calling.executor import open_executor
from waygraph.ingest.calling.reach import Reach
from waygraph.ingest.vouched import vouched_file

if TYPE_CHECKING:
    from waygraph.api.observing.audit import Audit
    from waygraph.ingest.surroundings import Surroundings
    from waygraph.registry.registry import Registry
    from waygraph.registry.settings import Settings


@asynccontextmanager
async def open_gateway(
    registry: "Registry",
    settings: "Settings",
    surroundings: "Surroundings",
    rules: Rules,
    *,
    audit: "Audit",
    ask: Ask,
    asker_of: Callable[[Context], Asker],
    surface: Surface = "default",
    parks: bool = True,
) -> AsyncGenerator[GatewayServer]:
    """At its end calls end, and every process that was started for them. `parks`: whether a host's next request comes
    to this process, so that it can be asked by way of it."""
    listeners = Listeners()
    async with open_executor(registry, settings, surroundings, services=rules.services) as executor:
        gateway = Gateway(
            registry=registry,
            executor=executor,
            reach=Reach(registry, rules.services, vouched_file(settings.data_path)),
            policy=rules.policy,
            settings=settings,
            audit=audit,
            ask=ask,
            asker_of=asker_of,
            surface=surface,
            parking=Parking() if parks else None,
        )
        async with running(gateway, listeners):
            yield server_of(gateway, listeners)
