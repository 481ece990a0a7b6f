"""A gateway put together: what runs its calls, and the server that answers while it is at work."""

from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager

from waygraph.api.mcp.gateway import Gateway, Parts
from waygraph.api.mcp.list_changed import Listeners
from waygraph.api.mcp.pending_calls import Parking
from waygraph.api.mcp.server import GatewayServer, running, server_of
from waygraph.api.mcp.tools_list import Listed
from waygraph.ingest.execution.executor import open_executor


@asynccontextmanager
async def open_gateway(parts: Parts, listed: Listed | None = None) -> AsyncGenerator[GatewayServer]:
    """At its end calls end, and every process that was started for them. `listed`: what its hosts were told before."""
    registry, settings, services = parts.discovery.registry, parts.settings, parts.rules.services
    listeners = Listeners()
    async with open_executor(registry, settings, parts.surroundings, services=services) as executor:
        gateway = Gateway(
            **vars(parts.discovery),
            executor=executor,
            settings=settings,
            audit=parts.audit,
            asker_of=parts.asker_of,
            waited_s=parts.waited_s,
            parking=Parking() if parts.parks else None,
        )
        async with running(gateway, listeners, listed):
            yield server_of(gateway, listeners)
