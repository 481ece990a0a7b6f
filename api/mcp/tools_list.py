"""tools/list: the meta-tools, then the tools of pinned agents. Everything else is found, not listed.

The list depends on the registry, on the door and on who asks, and on nothing that was asked before.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from waygraph.api.mcp.gateway import Asker, Session
from waygraph.api.mcp.tools import meta_tools
from waygraph.registry.access.visibility import LOCAL, Caller, Scope
from waygraph.registry.model.errors import RegistryNotFound
from waygraph.registry.routing.find_tools.find import judging
from waygraph.registry.routing.tool_formats import definition

if TYPE_CHECKING:
    from waygraph.api.mcp.gateway import Ask, Discovery
    from waygraph.registry.model.nouns import Tool


PAGES_KEPT = 64
PAGE = 100
"""So many tools of pinned agents does a page hold."""
TTL_MS = 30_000
"""A list that is the same for all who ask may be kept so long; of a change hosts are told."""
_OF_THE_NEXT_HOP = "x-mcp-header"
_MAY_KNOW: frozenset[Scope] = frozenset({"route", "read", "use"})
"""Who has none of these scopes learns of no tool."""


class Pages:
    """Pages as they were made at a revision: a client of the SDK asks for the list again after each call of a tool that
    is not in it.
    """

    def __init__(self) -> None:
        self._kept: dict[Place, dict[str, Any]] = {}

    async def page(self, discovery: "Discovery", asker: "Asker", cursor: str) -> dict[str, Any]:
        """As `tools_page` makes it, and raises; not to be changed."""
        place = _place_of(discovery, asker, cursor)
        if place and (kept := self._kept.get(place)) is not None:
            return kept
        ask = await ask_of_lists(discovery)
        page = await ask(lambda: tools_page(discovery, asker, cursor))
        self._keep(place, page)
        return page

    def _keep(self, place: "Place | None", page: dict[str, Any]) -> None:
        if len(self._kept) >= PAGES_KEPT:
            self._kept.clear()
        if place:
            self._kept[place] = page


async def ask_of_lists(discovery: "Discovery") -> "Ask":
    """How to have a list made: where nothing is pinned, that takes microseconds."""
    return discovery.ask if await discovery.look(lambda: _pins_some(discovery)) else discovery.look


def _pins_some(discovery: "Discovery") -> bool:
    try:
        return any(agent.pinned for agent in discovery.registry.agents())
    except RegistryNotFound:
        return False


type Place = tuple[str, object, Caller, str, str]
"""All that a page depends on: the stamps of the registry and of what runs here, who asks, the door's namespace, the
cursor."""


def _place_of(discovery: "Discovery", asker: "Asker", cursor: str) -> Place | None:
    """None: what is there now is not known at once."""
    try:
        stamp = discovery.registry.stamp if discovery.is_here else None
    except RegistryNotFound:
        return None
    return (stamp, discovery.reach.stamp, asker.caller, asker.namespace, cursor) if stamp else None


def tools_page(discovery: "Discovery", asker: "Asker", cursor: str) -> dict[str, Any]:
    """As MCP has it. `cursor`: the name after which the page begins; empty: the first page."""
    tools = [] if discovery.surface == "rfc" else _pinned_if_any(discovery, asker)
    rest = [tool for tool in tools if tool.call_name > cursor]
    listed = [] if cursor else list(meta_tools(discovery.surface))
    page = {"tools": [*listed, *(_listed(tool) for tool in rest[:PAGE])]} | _kept(asker)
    return page | ({"nextCursor": rest[PAGE - 1].call_name} if len(rest) > PAGE else {})


def _pinned_if_any(discovery: "Discovery", asker: "Asker") -> "Sequence[Tool]":
    """A registry that is not there yet pins nothing: what is asked of it says how it comes to be."""
    try:
        return pinned_tools(discovery, asker)
    except RegistryNotFound:
        return ()


def pinned_tools(discovery: "Discovery", asker: "Asker") -> "Sequence[Tool]":
    """What may be called of the agents that an operator pinned and the asker sees, by call name."""
    if asker.caller.scopes.isdisjoint(_MAY_KNOW):
        return ()
    registry, principal = discovery.registry, asker.principal
    within = discovery.agents_within(asker)
    agents = [
        agent
        for agent in registry.agents(principal=principal)
        if agent.pinned and not agent.hidden and (within is None or agent.id in within)
    ]
    if not agents:
        return ()
    judges, why_not = judging(registry, discovery.policy, principal), discovery.reach.now().why_not
    tools = [
        tool
        for agent in agents
        if not why_not(agent)
        for tool in registry.tools(agent.id, principal=principal)
        if judges.judge(agent, tool, by_name=True).verdict != "deny"
    ]
    return sorted(tools, key=lambda tool: tool.call_name)


def _kept(asker: "Asker") -> dict[str, Any]:
    """How long a host may keep the list, and whether others may have it."""
    if asker.caller == LOCAL:
        return {"ttlMs": TTL_MS, "cacheScope": "public"}
    return {"ttlMs": 0, "cacheScope": "private"}


def _listed(tool: "Tool") -> dict[str, Any]:
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
    def first(cls, discovery: "Discovery") -> "Listed":
        """Raises WaygraphError; a registry that is not there yet lists nothing."""
        try:
            return cls.now(discovery, None)
        except RegistryNotFound:
            return cls("", ())

    @classmethod
    def now(cls, discovery: "Discovery", before: "Listed | None") -> "Listed":
        """Raises WaygraphError."""
        stamp = discovery.registry.stamp
        if before and stamp == before.stamp:
            return before
        everything = Asker(caller=LOCAL, session=Session())
        return cls(stamp, tuple((tool.call_name, tool.content_hash) for tool in pinned_tools(discovery, everything)))
