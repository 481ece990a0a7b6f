"""Hosts that want to know when the list of tools is another one: told in both eras, a moment after it changed."""

import logging
from weakref import WeakSet

import anyio
from mcp.server.connection import Connection
from mcp.server.subscriptions import InMemorySubscriptionBus, ListenHandler, ToolsListChanged

from waygraph.api.mcp.gateway import Gateway
from waygraph.api.mcp.tools_list import Listed
from waygraph.registry.model.errors import WaygraphError

_log = logging.getLogger("waygraph.gateway")

LOOK_S = 2.0
"""From one look at the registry's revision to the next."""
TELL_S = 5.0
"""For a host to take what it is told: one that does not read holds up nobody for longer."""


class Listeners:
    """`streams` serves `subscriptions/listen` of modern hosts; handshake hosts are told over their connections."""

    def __init__(self) -> None:
        self._bus = InMemorySubscriptionBus()
        self._connections = WeakSet[Connection]()
        self.streams = ListenHandler(self._bus)

    def add(self, connection: Connection) -> None:
        """One of the handshake era, until it is gone."""
        self._connections.add(connection)

    async def tell(self) -> None:
        """All at once; who does not take it within TELL_S is told the next time."""
        await self._bus.publish(ToolsListChanged())
        async with anyio.create_task_group() as tasks:
            for connection in list(self._connections):
                tasks.start_soon(_told, connection)

    async def follow(self, gateway: Gateway, look_s: float = LOOK_S) -> None:
        """Tells whenever other tools are pinned than were listed, or they changed. Runs until it is cancelled."""
        seen = await _looked(gateway, None)
        while True:
            await anyio.sleep(look_s)
            now = await _looked(gateway, seen)
            if now.tools != seen.tools:
                await self.tell()
            seen = now


async def _told(connection: Connection) -> None:
    with anyio.move_on_after(TELL_S):
        await connection.send_tool_list_changed()


async def _looked(gateway: Gateway, before: Listed | None) -> Listed:
    """A registry that cannot be read now has changed nothing that anybody could be told of."""
    try:
        return await gateway.ask(lambda: Listed.now(gateway, before))
    except (WaygraphError, TimeoutError):
        pass
    except Exception:  # noqa: BLE001 - the gateway would end with its looks
        _log.exception("the list of tools could not be looked at")
    return before or Listed("", ())
