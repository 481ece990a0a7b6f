"""tools/list: the meta-tools, then the tools of pinned agents. Everything else is found, not listed.

The list depends on the registry, on the door and on who asks, and on nothing that was asked before.
"""

import logging
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any
from weakref import WeakSet

import anyio
from mcp.server.connection import Connection
from mcp.server.subscriptions import InMemorySubscriptionBus, ListenHandler, ToolsListChanged

from waygraph.api.mcp.gateway import Gateway
from waygraph.api.mcp.sessions import Asker, Session
from waygraph.api.mcp.tools import meta_tools
from waygraph.registry.access.visibility import LOCAL, Scope
from waygraph.registry.model.errors import RegistryNotFound, WaygraphError
from waygraph.registry.routing.find_tools.find import judging
from waygraph.registry.routing.tool_formats import definition

if TYPE_CHECKING:
    from waygraph.registry.model.nouns import Tool


PAGE = 100
"""So many tools of pinned agents does a page hold."""
TTL_MS = 30_000
"""A list that is the same for all who ask may be kept so long; of a change hosts are told."""
_OF_THE_NEXT_HOP = "x-mcp-header"
_MAY_KNOW: frozenset[Scope] = frozenset({"route", "read", "use"})
"""Who has none of these scopes learns of no tool."""


def tools_page(gateway: Gateway, asker: Asker, cursor: str) -> dict[str, Any]:
    """As MCP has it. `cursor`: the name after which the page begins; empty: the first page."""
    tools = [] if gateway.surface == "rfc" else _pinned_if_any(gateway, asker)
    rest = [tool for tool in tools if tool.call_name > cursor]
    listed = [] if cursor else list(meta_tools(gateway.surface))
    page = {"tools": [*listed, *(_list_entry(tool) for tool in rest[:PAGE])]} | _cache_hints(asker)
    return page | ({"nextCursor": rest[PAGE - 1].call_name} if len(rest) > PAGE else {})


def _pinned_if_any(gateway: Gateway, asker: Asker) -> "Sequence[Tool]":
    """A registry that is not there yet pins nothing: what is asked of it says how it comes to be."""
    try:
        return pinned_tools(gateway, asker)
    except RegistryNotFound:
        return ()


def pinned_tools(gateway: Gateway, asker: Asker) -> "Sequence[Tool]":
    """What may be called of the agents that an operator pinned and the asker sees, by call name."""
    if asker.caller.scopes.isdisjoint(_MAY_KNOW):
        return ()
    registry, principal = gateway.registry, asker.principal
    within = gateway.agents_within(asker)
    agents = [
        agent
        for agent in registry.agents(principal=principal)
        if agent.pinned and not agent.hidden and (within is None or agent.id in within)
    ]
    if not agents:
        return ()
    judges, why_not = judging(registry, gateway.policy, principal), gateway.reach.now().why_not
    tools = [
        tool
        for agent in agents
        if not why_not(agent)
        for tool in registry.tools(agent.id, principal=principal)
        if judges.judge(agent, tool, by_name=True).verdict != "deny"
    ]
    return sorted(tools, key=lambda tool: tool.call_name)


def _cache_hints(asker: Asker) -> dict[str, Any]:
    """How long a host may keep the list, and whether others may have it."""
    if asker.caller == LOCAL:
        return {"ttlMs": TTL_MS, "cacheScope": "public"}
    return {"ttlMs": 0, "cacheScope": "private"}


def _list_entry(tool: "Tool") -> dict[str, Any]:
    """Without what the source says of headers between itself and its client: between a host and us none are agreed."""
    told = definition(tool, "mcp")
    schema = told["inputSchema"]
    properties = schema["properties"]
    if isinstance(properties, dict):
        schema["properties"] = {name: _without_header(each) for name, each in properties.items()}
    return told


def _without_header(schema: Any) -> Any:
    if not isinstance(schema, dict):
        return schema
    return {name: value for name, value in schema.items() if name != _OF_THE_NEXT_HOP}


# What is listed at a revision: by this hosts are told of changes.


@dataclass(frozen=True, slots=True)
class Listed:
    """What is listed at a revision, for somebody who sees everything: call names and content hashes."""

    stamp: str
    tools: Sequence[tuple[str, str]]

    @classmethod
    def now(cls, gateway: Gateway, before: "Listed | None") -> "Listed":
        """Raises WaygraphError."""
        stamp = gateway.registry.stamp
        if before and stamp == before.stamp:
            return before
        everything = Asker(caller=LOCAL, session=Session())
        return cls(stamp, tuple((tool.call_name, tool.content_hash) for tool in pinned_tools(gateway, everything)))


# Hosts that want to know when the list is another one: told in both eras, a moment after it changed.


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
                tasks.start_soon(_note_change, connection)

    async def follow(self, gateway: Gateway, look_s: float = LOOK_S) -> None:
        """Tells whenever other tools are pinned than were listed, or they changed. Runs until it is cancelled."""
        seen = await _look(gateway, None)
        while True:
            await anyio.sleep(look_s)
            now = await _look(gateway, seen)
            if now.tools != seen.tools:
                await self.tell()
            seen = now


async def _note_change(connection: Connection) -> None:
    with anyio.move_on_after(TELL_S):
        await connection.send_tool_list_changed()


async def _look(gateway: Gateway, before: Listed | None) -> Listed:
    """A registry that cannot be read now has changed nothing that anybody could be told of."""
    try:
        return await gateway.ask(lambda: Listed.now(gateway, before))
    except (WaygraphError, TimeoutError):
        pass
    except Exception:  # noqa: BLE001 - the gateway would end with its looks
        _log.exception("the list of tools could not be looked at")
    return before or Listed("", ())
