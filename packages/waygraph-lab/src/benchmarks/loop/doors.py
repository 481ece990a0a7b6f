"""The ways in which a mind is offered tools and calls them: all of them, BM25, and the gateway."""

import json
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass, field
from typing import Any, Protocol

from mcp import Client

from benchmarks.gateway.host import text_of
from benchmarks.gateway.tokens import Counter
from benchmarks.loop.minds import Choice, Offer
from waygraph.registry.catalog.tool_formats import definitions
from waygraph.registry.registry import Registry
from waygraph.registry.routing.recipes import Recipe, RecipeLeg

LIMIT = 5
WORDS = Recipe(
    name="BM25", purpose="tools by BM25", legs=(RecipeLeg(leg="capability_text", kind="tool"),), merge="one_list"
)


@dataclass(slots=True)
class Tally:
    """Of one run of a task."""

    calls: int = 0
    wrong_calls: int = 0
    tokens: int = 0


class Door(Protocol):
    """One session of a host."""

    async def offer(self, say: str, tally: Tally) -> Sequence[Offer]: ...

    async def call(self, choice: Choice, tally: Tally) -> bool:
        """Whether it went well."""
        ...


type Opening = Callable[[], Any]
"""Gives an asynchronous context with a door, one a task."""


@dataclass(frozen=True, slots=True)
class Servers:
    """Direct connections, by agent; a call of a server that does not exist fails."""

    clients: Mapping[str, Client]

    async def call(self, choice: Choice) -> tuple[bool, str]:
        agent, _, tool = choice.name.partition("__")
        if agent not in self.clients:
            return False, "this server cannot be started"
        result = await self.clients[agent].call_tool(tool, dict(choice.arguments))
        return not result.is_error, text_of(result)


@dataclass(frozen=True, slots=True)
class ListDoor:
    """All tools stand in the context, or those that BM25 finds with a host's own search."""

    servers: Servers
    counter: Counter
    registry: Registry
    everything: Sequence[Mapping[str, Any]] | None

    async def offer(self, say: str, tally: Tally) -> Sequence[Offer]:
        if self.everything is None:
            matches = self.registry.find_tools(say, limit=LIMIT, recipe=WORDS).matches
            found = definitions([match.tool for match in matches], "mcp")
            tally.tokens += self.counter.count(json.dumps(found))
            return _offers(found)
        if not tally.tokens:
            tally.tokens = self.counter.count(json.dumps(self.everything))
        return _offers(self.everything)

    async def call(self, choice: Choice, tally: Tally) -> bool:
        is_ok, text = await self.servers.call(choice)
        tally.tokens += self.counter.count(text)
        return is_ok


@dataclass(frozen=True, slots=True)
class GatewayDoor:
    """`find_tools` and a call by name; on the surface `router`, `route` and `execute`."""

    client: Client
    counter: Counter
    is_router: bool = False
    known: dict[str, Offer] = field(default_factory=dict)

    async def offer(self, say: str, tally: Tally) -> Sequence[Offer]:
        question = {"query": say} if self.is_router else {"query": say, "detail": "schema", "limit": LIMIT}
        result = await self.client.call_tool("route" if self.is_router else "find_tools", question)
        text = text_of(result)
        tally.tokens += self.counter.count(text)
        answer = json.loads(text)
        tools = [answer["tool"]] if "tool" in answer else answer.get("tools", [])
        for tool in tools:
            if not tool.get("unchanged"):
                self.known[tool["name"]] = Offer(tool["name"], tool.get("inputSchema") or tool.get("parameters") or {})
        return [self.known[tool["name"]] for tool in tools if tool["name"] in self.known]

    async def call(self, choice: Choice, tally: Tally) -> bool:
        if self.is_router:
            result = await self.client.call_tool("execute", {"name": choice.name, "params": dict(choice.arguments)})
        else:
            result = await self.client.call_tool(choice.name, dict(choice.arguments))
        tally.tokens += self.counter.count(text_of(result))
        return not result.is_error


def _offers(found: Sequence[Mapping[str, Any]]) -> list[Offer]:
    return [Offer(tool["name"], tool["inputSchema"]) for tool in found]


@asynccontextmanager
async def open_servers(sessions: Mapping[str, Any]) -> AsyncIterator[Servers]:
    """`sessions`: agent → an asynchronous context with its client."""
    async with AsyncExitStack() as stack:
        yield Servers({agent: await stack.enter_async_context(session) for agent, session in sessions.items()})
