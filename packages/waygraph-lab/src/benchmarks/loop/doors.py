"""The ways in which a mind is offered tools and calls them: all of them, BM25, and the gateway."""

import json
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import AbstractAsyncContextManager, AsyncExitStack, asynccontextmanager
from dataclasses import dataclass
from typing import Protocol

from mcp import Client

from benchmarks.gateway.host import text_of
from benchmarks.gateway.tokens import Counter
from benchmarks.loop.minds import Choice, Offer
from waygraph.registry.catalog.tool_formats import definitions
from waygraph.registry.model.nouns import Tool
from waygraph.registry.registry import Registry
from waygraph.registry.routing.recipes import Recipe, RecipeLeg

LIMIT = 5
"""Of BM25, as hosts have it. The gateway gives as many as it does by default."""
WORDS = Recipe(
    name="BM25", purpose="tools by BM25", legs=(RecipeLeg(leg="capability_text", kind="tool"),), merge="one_list"
)


@dataclass(slots=True)
class Tally:
    """Of one run of a task. `steps`: those that a tool serves; `offered`: of these, how often it was among the first
    offer; `first`: how often it came first.
    """

    calls: int = 0
    wrong_calls: int = 0
    tokens: int = 0
    steps: int = 0
    offered: int = 0
    first: int = 0


class Door(Protocol):
    """One session of a host."""

    async def offer(self, say: str, tally: Tally) -> Sequence[Offer]: ...

    async def call(self, choice: Choice, tally: Tally) -> bool:
        """Whether it went well."""
        ...


class Opening(Protocol):
    """Gives a door, one a task."""

    def __call__(self) -> AbstractAsyncContextManager[Door]: ...


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
    """All tools stand in the context, or with `registry` those that BM25 finds with a host's own search."""

    servers: Servers
    counter: Counter
    everything: Sequence[Offer] = ()
    tokens: int = 0
    """Of the list of everything."""
    registry: Registry | None = None

    async def offer(self, say: str, tally: Tally) -> Sequence[Offer]:
        if self.registry is None:
            tally.tokens = tally.tokens or self.tokens
            return self.everything
        tools = [match.tool for match in self.registry.find_tools(say, limit=LIMIT, recipe=WORDS).matches]
        tally.tokens += self.counter.count(json.dumps(definitions(tools, "mcp")))
        return offers_of(tools)

    async def call(self, choice: Choice, tally: Tally) -> bool:
        is_ok, text = await self.servers.call(choice)
        tally.tokens += self.counter.count(text)
        return is_ok


@dataclass(frozen=True, slots=True)
class GatewayDoor:
    """`find_tools` and `use_tool` as they come by default; on the surface `router`, `route` and `execute`.

    `offers`: every tool by its name, since an answer of `find_tools` tells parameters in short. `tokens`: of the
    gateway's list and instructions.
    """

    client: Client
    counter: Counter
    offers: Mapping[str, Offer]
    tokens: int
    is_router: bool = False

    async def offer(self, say: str, tally: Tally) -> Sequence[Offer]:
        tally.tokens = tally.tokens or self.tokens
        result = await self.client.call_tool("route" if self.is_router else "find_tools", {"query": say})
        tally.tokens += self.counter.count(text_of(result))
        answer = json.loads(text_of(result))
        tools = [answer["tool"]] if "tool" in answer else answer.get("tools", [])
        return [self.offers[tool["name"]] for tool in tools]

    async def call(self, choice: Choice, tally: Tally) -> bool:
        arguments = {"name": choice.name, "params": dict(choice.arguments)}
        result = await self.client.call_tool("execute" if self.is_router else "use_tool", arguments)
        tally.tokens += self.counter.count(text_of(result))
        return not result.is_error


def offers_of(tools: Sequence[Tool]) -> list[Offer]:
    return [Offer(tool["name"], tool["inputSchema"], tool["description"]) for tool in definitions(tools, "mcp")]


@asynccontextmanager
async def open_servers(sessions: Mapping[str, AbstractAsyncContextManager[Client]]) -> AsyncIterator[Servers]:
    """`sessions`: by agent."""
    async with AsyncExitStack() as stack:
        yield Servers({agent: await stack.enter_async_context(session) for agent, session in sessions.items()})
