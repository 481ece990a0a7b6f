"""Hosts that want to know when what is listed is another: told in both eras, a moment after it changed."""

import logging
from collections.abc import Sequence
from dataclasses import dataclass
from weakref import WeakSet

import anyio
from mcp.server.connection import Connection
from mcp.server.subscriptions import (
    InMemorySubscriptionBus,
    ListenHandler,
    PromptsListChanged,
    ResourcesListChanged,
    ServerEvent,
    ToolsListChanged,
)

from waygraph.api.mcp.gateway import Gateway
from waygraph.api.mcp.offers import offering_agents
from waygraph.api.mcp.sessions import Asker, Session
from waygraph.api.mcp.tools import browses, pinned_tools, summary_of
from waygraph.registry.access.visibility import LOCAL
from waygraph.registry.model.errors import WaygraphError

_log = logging.getLogger("waygraph.gateway")

LOOK_S = 2.0
"""From one look at the registry's revision to the next."""
LOOKS_AT_SERVERS = 4
"""So often in that time at what servers have told, which costs nothing."""
TELL_S = 5.0
"""For a host to take what it is told: one that does not read holds up nobody for longer."""


@dataclass(frozen=True, slots=True)
class Listed:
    """What is listed at a revision, for somebody who sees everything: call names, content hashes, `within` if it is
    offered, what each toolset has, and the summary; and the servers that may have more than tools.
    """

    stamp: str
    tools: Sequence[tuple[str, str]]
    summary: str = ""
    servers: Sequence[tuple[str, str]] = ()

    @classmethod
    def now(cls, gateway: Gateway, before: "Listed | None") -> "Listed":
        """Raises WaygraphError."""
        stamp = gateway.registry.stamp
        if before and stamp == before.stamp:
            return before
        everything = Asker(caller=LOCAL, session=Session())
        tools = tuple((tool.call_name, tool.content_hash) for tool in pinned_tools(gateway, everything))
        offered = (*tools, ("within", "")) if browses(gateway, everything) else tools
        offered = (*offered, *((f"/{each.name}/mcp", str(each)) for each in gateway.registry.toolsets()))
        servers = tuple((agent.id, agent.content_hash) for agent in offering_agents(gateway, everything, "prompt"))
        return cls(stamp, offered, summary_of(gateway, everything), servers)


class Listeners:
    """`streams` serves `subscriptions/listen` of modern hosts; handshake hosts are told over their connections."""

    def __init__(self) -> None:
        self._bus = InMemorySubscriptionBus()
        self._connections = WeakSet[Connection]()
        self.streams = ListenHandler(self._bus)

    def add(self, connection: Connection) -> None:
        """One of the handshake era, until it is gone."""
        self._connections.add(connection)

    async def tell(self, *, tools: bool = True, offers: bool = False) -> None:
        """All at once; who does not take it within TELL_S is told the next time. `offers`: prompts and resources."""
        events: list[ServerEvent] = [ToolsListChanged()] if tools else []
        if offers:
            events += [PromptsListChanged(), ResourcesListChanged()]
        for event in events:
            await self._bus.publish(event)
        async with anyio.create_task_group() as tasks:
            for connection in list(self._connections):
                tasks.start_soon(_note_change, connection, tools, offers)

    async def follow(self, gateway: Gateway) -> None:
        """Tells whenever what was listed, or is said of what can be found, is another, or a server tells that a list of
        its is. Runs until it is cancelled.
        """
        seen = await _look(gateway, None)
        while True:
            for _ in range(LOOKS_AT_SERVERS):
                await anyio.sleep(LOOK_S / LOOKS_AT_SERVERS)
                if gateway.take_news():
                    await self.tell(tools=False, offers=True)
            now = await _look(gateway, seen)
            tools, offers = (now.tools, now.summary) != (seen.tools, seen.summary), now.servers != seen.servers
            if tools or offers:
                await self.tell(tools=tools, offers=offers)
            seen = now


async def _note_change(connection: Connection, tools: bool, offers: bool) -> None:
    with anyio.move_on_after(TELL_S):
        if tools:
            await connection.send_tool_list_changed()
        if offers:
            await connection.send_prompt_list_changed()
            await connection.send_resource_list_changed()


async def _look(gateway: Gateway, before: Listed | None) -> Listed:
    """A registry that cannot be read now has changed nothing that anybody could be told of."""
    try:
        return await gateway.ask(lambda: Listed.now(gateway, before))
    except (WaygraphError, TimeoutError):
        pass
    except Exception:  # noqa: BLE001 - the gateway would end with its looks
        _log.exception("the list of tools could not be looked at")
    return before or Listed("", ())
