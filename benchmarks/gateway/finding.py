"""find_tools over either way in, beside the registry's own in this process: queries that are new, of models and of
people, and known ones.
"""

from contextlib import AsyncExitStack
from typing import Any

from mcp import Client

from benchmarks.gateway.arms import Way, in_turn, spread
from benchmarks.gateway.overhead import WrongAnswer
from benchmarks.gateway.pipe import Pipe, piped
from benchmarks.gateway.scene import Scene, text_of
from benchmarks.record import Measure, Target
from benchmarks.route_speed import WRITTEN
from waygraph.registry.registry import Registry

SOON = Target(bound="at_most", value=6.0)
LIMIT = 5
WARM_UP = 20
HERE = "Registry.find_tools in process"
STDIO = "find_tools through `waygraph mcp`"
PIPE = "find_tools through `waygraph mcp`, by a bare pipe"
HTTP = "find_tools through `/mcp`"
TARGETS = {HERE: None, PIPE: SOON, STDIO: SOON, HTTP: SOON}


async def measured(made: Scene, *, tools: int, queries: int) -> tuple[list[Measure], dict[str, Any]]:
    """`tools`: how many the registry holds."""
    measures: list[Measure] = []
    async with AsyncExitStack() as stack:
        gateway = (await stack.enter_async_context(made.stdio())).client
        http = await stack.enter_async_context(stack.enter_context(made.service()).client())
        pipe = await stack.enter_async_context(piped(made.command("mcp"), made.environ(), made.folder / "mcp.log"))
        registry = stack.enter_context(made.opened())
        for written, write in WRITTEN.items():
            texts = write(queries + WARM_UP)
            ways = {
                HERE: _here(registry, texts),
                PIPE: _piped(pipe, texts),
                STDIO: _through(gateway, texts),
                HTTP: _through(http, texts),
            }
            new = await in_turn(ways, queries, warm_up=WARM_UP)
            known = await in_turn(ways, queries)
            for name, target in TARGETS.items():
                measures += spread(f"{name}, {tools} tools, new {written}", new[name], target)
                measures += spread(f"{name}, {tools} tools, {written} asked before", known[name])
    return measures, {"tools": tools, "queries": queries}


def _here(registry: Registry, texts: list[str]) -> Way:
    async def find(number: int) -> None:
        registry.find_tools(texts[number], limit=LIMIT)

    return find


def _piped(pipe: Pipe, texts: list[str]) -> Way:
    async def find(number: int) -> None:
        await pipe.call("find_tools", {"query": texts[number], "limit": LIMIT})

    return find


def _through(client: Client, texts: list[str]) -> Way:
    async def find(number: int) -> None:
        await found(client, texts[number])

    return find


async def found(client: Client, query: str, **asked: Any) -> str:
    """What a model reads of the answer. Raises WrongAnswer if that is an error."""
    result = await client.call_tool("find_tools", {"query": query, "limit": LIMIT, **asked})
    text = text_of(result)
    if result.is_error or not text:
        raise WrongAnswer(f"find_tools: {text[:500]}")
    return text
