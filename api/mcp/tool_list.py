"""What a host sees of the gateway before it asks anything, and how it hears that this has changed.

ListState are the meta-tools, then the tools of pinned agents. Everything else is found, not listed. The list depends on
the registry, on the endpoint and on the caller, and on nothing that was asked before.
"""

import logging
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any
from weakref import WeakSet

import anyio
from mcp.server import subscriptions
from mcp.server.connection import Connection

from waygraph.api.mcp import protocol
from waygraph.api.mcp.gateway import Gateway
from waygraph.api.mcp.meta_tools import Definition, meta_tools
from waygraph.api.mcp.offers import MAY_KNOW, offering_agents
from waygraph.api.mcp.sessions import Asker, Session
from waygraph.registry.access.visibility import LOCAL
from waygraph.registry.catalog.find import list_agents, overview
from waygraph.registry.catalog.tool_formats import definition, host_schema
from waygraph.registry.model.errors import RegistryNotFound, WaygraphError
from waygraph.registry.model.nouns import Filters, Tool, is_doubtful

_log = logging.getLogger("waygraph.gateway")
SUMMARY_BYTES = 150
"""In UTF-8, of the summary of a registry: at most about 60 tokens, in the instructions and in a description."""
MODE_BYTES = 30
"""So much less where a model walks: there `mode` is listed too."""
_PLAIN = re.compile(r"[\w][\w .+#/-]{0,39}")


def summary_of(gateway: Gateway, asker: Asker) -> str:
    """What stands behind the gateway for this asker, so that a model sees when to search; empty: nothing.

    Counts, the most frequent tags, and the agents with most tools. Names and tags are what others wrote: only plain
    words appear, of agents whose text is not in doubt.
    """
    if asker.caller.scopes.isdisjoint(MAY_KNOW) or gateway.surface == "rfc":
        return ""
    try:
        registry, within = gateway.view(asker)
        counts = overview(registry, asker.principal, within)
    except RegistryNotFound:
        return ""
    if not counts["tools"]:
        return ""
    agents = list_agents(registry, asker.principal, within)
    known = [each for each in agents if each.tools and not each.agent.pending and not is_doubtful(each.agent)]
    largest = [(each.agent.name, each.tools) for each in sorted(known, key=lambda each: (-each.tools, each.agent.id))]
    summary_bytes = SUMMARY_BYTES - (MODE_BYTES if gateway.settings.walk else 0)
    summary = f"Behind it: tools ({counts['tools']}), agents ({sum(counts['agents'].values())})."
    for title, pairs in (("Most tools", largest), ("Tags", counts.get("tags", {}).items())):
        plain = [f"{name} ({count})" for name, count in pairs if _PLAIN.fullmatch(name)]
        most_bytes = (summary_bytes - len(summary.encode())) // (2 if title == "Most tools" else 1) - len(title) - 4
        while plain and len(", ".join(plain).encode()) > most_bytes:
            plain.pop()
        if plain:
            summary += f" {title}: {', '.join(plain)}."
    return summary


def browses(gateway: Gateway, asker: Asker) -> bool:
    """Whether there is a taxonomy that the asker sees anything of, and a surface that shows it."""
    if gateway.surface != "default" or asker.caller.scopes.isdisjoint(MAY_KNOW):
        return False
    try:
        registry, among = gateway.view(asker)
        filters = Filters(agent_ids=tuple(sorted(among or ())))
        return registry.browse(filters=filters, principal=asker.principal).count > 0
    except WaygraphError:
        return False


PAGE = 100
"""So many tools of pinned agents does a page hold."""
TTL_MS = 30_000
"""A list that is the same for all callers may be kept so long; hosts are notified of a change."""
_OF_THE_NEXT_HOP = "x-mcp-header"


def tools_page(gateway: Gateway, asker: Asker, cursor: str) -> dict[str, Any]:
    """As MCP has it. `cursor`: the name after which the page begins; empty: the first page."""
    tools = pinned_tools(gateway, asker) if gateway.surface == "default" else []
    rest = [tool for tool in tools if tool.call_name > cursor]
    walks = bool(gateway.settings.walk)
    first, *others = meta_tools(
        gateway.surface, browses=browses(gateway, asker), walks=walks, runs_code=gateway.settings.run_code
    )
    summary = "" if cursor else summary_of(gateway, asker)  # the first one finds: it says what there is to find
    finder = first | {"description": f"{first['description']} {summary}".rstrip()}
    own = [] if cursor else [finder, *others]
    page = {"tools": [*own, *filter(None, map(_list_entry, rest[:PAGE]))]} | cache_hints(asker)
    return page | ({"nextCursor": rest[PAGE - 1].call_name} if len(rest) > PAGE else {})


def pinned_tools(gateway: Gateway, asker: Asker) -> Sequence[Tool]:
    """What may be called of the agents that an operator pinned and the asker sees, by call name. A registry that is not
    there yet pins nothing: errors of other requests say how it comes to be.
    """
    if asker.caller.scopes.isdisjoint(MAY_KNOW):
        return ()
    principal = asker.principal
    try:
        registry, within = gateway.view(asker)
        agents = [
            agent
            for agent in registry.agents(principal=principal)
            if agent.pinned and not agent.hidden and (within is None or agent.id in within)
        ]
    except RegistryNotFound:
        return ()
    judges, why_not = gateway.judges(asker), gateway.reach.now().why_not
    tools = [
        tool
        for agent in agents
        if not why_not(agent)
        for tool in registry.tools(agent.id, principal=principal)
        if judges.judge(agent, tool, by_name=True).verdict != "deny"
    ]
    return sorted(tools, key=lambda tool: tool.call_name)


def cache_hints(asker: Asker) -> dict[str, Any]:
    """How long a host may keep the list, and whether others may have it."""
    if asker.caller == LOCAL:
        return {"ttlMs": TTL_MS, "cacheScope": "public"}
    return {"ttlMs": 0, "cacheScope": "private"}


def _list_entry(tool: Tool) -> Definition | None:
    """As every host takes it, whose model's service may refuse a whole request for one schema; None if none would.

    Without what the source says of headers between itself and its client: between a host and us none are agreed.
    """
    entry = definition(tool, "mcp") | {"inputSchema": host_schema(tool.input_schema)}
    schema = entry["inputSchema"]
    schema["properties"] = {
        name: {key: value for key, value in each.items() if key != _OF_THE_NEXT_HOP} if isinstance(each, dict) else each
        for name, each in schema["properties"].items()
    }
    mended: Definition | protocol.Unfit = protocol.mend_item("tools/list", "tools", entry)
    if isinstance(mended, protocol.Unfit):
        _log.warning("%s is not listed: no host would take its definition", tool.id)
        return None
    return mended


def promised_output(gateway: Gateway, asker: Asker, name: str) -> Mapping[str, Any] | None:
    """The schema of the answers of a listed tool, by its call name, if it has one."""
    if gateway.surface != "default":
        return None
    tools = [tool for tool in pinned_tools(gateway, asker) if tool.call_name == name and tool.output_schema]
    return definition(tools[0], "mcp").get("outputSchema") if tools else None


LOOK_S = 2.0
"""From one look at the registry's revision to the next."""
LOOKS_AT_SERVERS = 4
"""So often in that time at what servers have reported, which costs nothing."""
TELL_S = 5.0
"""For a host to take a notification: one that does not read delays the others no longer."""


@dataclass(frozen=True, slots=True)
class ListState:
    """What is listed at a revision, for somebody who sees everything: call names with content hashes, and toolsets.

    Also `within` if it is offered, the summary, and the servers that may have more than tools.
    """

    stamp: str
    tools: Sequence[tuple[str, str]]
    summary: str = ""
    servers: Sequence[tuple[str, str]] = ()

    @classmethod
    def now(cls, gateway: Gateway, before: "ListState | None") -> "ListState":
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
    """`streams` serves `subscriptions/listen` of modern hosts; others hear of changes over their connections."""

    def __init__(self) -> None:
        self._bus = subscriptions.InMemorySubscriptionBus()
        self._connections, self._is_wanted = WeakSet[Connection](), anyio.Event()
        self.streams = subscriptions.ListenHandler(self._bus)

    def add(self, connection: Connection) -> None:
        """One of the handshake era, until it is gone."""
        self._connections.add(connection)
        self.begin()

    def begin(self) -> None:
        """A host may list from now on. Before that nothing is looked at, so that a start is short."""
        self._is_wanted.set()

    async def tell(self, *, tools: bool = True, offers: bool = False) -> None:
        """All at once; who does not take it within TELL_S gets the next one. `offers`: prompts and resources."""
        events: list[subscriptions.ServerEvent] = [subscriptions.ToolsListChanged()] if tools else []
        if offers:
            events += [subscriptions.PromptsListChanged(), subscriptions.ResourcesListChanged()]
        for event in events:
            await self._bus.publish(event)
        async with anyio.create_task_group() as tasks:
            for connection in list(self._connections):
                tasks.start_soon(_note_change, connection, tools, offers)

    async def follow(self, gateway: Gateway) -> None:
        """Notifies hosts when the list or the summary has changed, or a server reports that a list of its own has.

        Runs until it is cancelled.
        """
        await self._is_wanted.wait()
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


async def _look(gateway: Gateway, before: ListState | None) -> ListState:
    """The state now; the former one if the registry cannot be read."""
    try:
        return await gateway.ask(lambda: ListState.now(gateway, before))
    except (WaygraphError, TimeoutError):
        pass
    except Exception:  # noqa: BLE001 - the gateway would end with its looks
        _log.exception("the list of tools could not be looked at")
    return before or ListState("", ())
