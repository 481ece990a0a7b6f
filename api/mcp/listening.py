"""Hosts that want to know when the list of tools is another one: told in both eras, a moment after it changed."""

import logging
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING
from weakref import WeakSet

import anyio
from mcp.server.connection import Connection
from mcp.server.subscriptions import InMemorySubscriptionBus, ListenHandler, ToolsListChanged

from waygraph.api.mcp.gateway import Asker
from waygraph.api.mcp.listing import pinned_tools
from waygraph.api.mcp.session import Session
from waygraph.registry.access import LOCAL
from waygraph.registry.errors import WaygraphError

if TYPE_CHECKING:
    from waygraph.api.mcp.gateway import Gateway

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

    async def follow(self, gateway: "Gateway", look_s: float = LOOK_S) -> None:
        """Tells whenever other tools are pinned, or they changed. Runs until it is cancelled."""
        seen = await _looked(gateway, None)
        while True:
            await anyio.sleep(look_s)
            now = await _looked(gateway, seen)
            if now.listed != seen.listed:
                await self.tell()
            seen = now


async def _told(connection: Connection) -> None:
    with anyio.move_on_after(TELL_S):
        await connection.send_tool_list_changed()


async def _looked(gateway: "Gateway", before: "_Seen | None") -> "_Seen":
    """A registry that cannot be read now has changed nothing that anybody could be told of."""
    try:
        return await gateway.ask(lambda: _Seen.now(gateway, before))
    except (WaygraphError, TimeoutError):
        pass
    except Exception:  # noqa: BLE001 - the gateway would end with its looks
        _log.exception("the list of tools could not be looked at")
    return before or _Seen("", ())


@dataclass(frozen=True, slots=True)
class _Seen:
    """What is listed at a revision, for somebody who sees everything: call names and content hashes."""

    stamp: str
    listed: Sequence[tuple[str, str]]

    @classmethod
    def now(cls, gateway: "Gateway", before: "_Seen | None") -> "_Seen":
        """Raises WaygraphError."""
        stamp = gateway.registry.stamp
        if before and stamp == before.stamp:
            return before
        everything = Asker(caller=LOCAL, session=Session())
        return cls(stamp, [(tool.call_name, tool.content_hash) for tool in pinned_tools(gateway, everything)])
