"""The benchmark `gateway`."""

import logging
import sys
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import Any

import anyio

from benchmarks.catalogue import requests
from benchmarks.gateway import calls, find_tools, tokens
from benchmarks.gateway.host import open_host
from benchmarks.gateway.tokens import Counter, open_counter
from benchmarks.record import Measure, Result
from benchmarks.world import World, scratch_folder, write_catalogue
from waygraph.ingest.sources.read import read_path

NAME = "gateway"
LIVEMCPBENCH = "livemcpbench"
QUERIES_SEED = 23
type Part = tuple[list[Measure], dict[str, Any]]


@dataclass(frozen=True, kw_only=True)
class Sizes:
    """How much of everything. `starts`: how often `waygraph mcp` is started."""

    tools: int
    calls: int
    finds: int
    token_queries: int
    starts: int


WHOLE = Sizes(tools=5_000, calls=600, finds=400, token_queries=60, starts=7)
QUICK = Sizes(tools=500, calls=40, finds=30, token_queries=5, starts=1)
NOTES = (
    "`waygraph mcp` and `waygraph serve` as they come, each in a process of its own over one registry file; the client "
    "is the MCP SDK's own, in the measuring process. Servers are programs on the SDK's low-level server "
    "(benchmarks/gateway/upstream.py). All of them share the processors.",
    "Tool calls: the same calls are made in every way, ten in a row, beginning with another way each time; the first "
    "30 rounds do not count. `more than directly` is the median of the rounds' differences. The registry holds 5,000 "
    "invented tools beside those that are called. After a call of a tool that is not in the server's list the SDK's "
    "client asks for the list again, to look for a schema of the result: a call of a found tool is measured without "
    "that second request, and compared with the direct call that is made in the same way.",
    "find_tools: limit 5, detail as it comes. New queries were never asked before, so that their embedding is paid in "
    "each process; then the same again. Steps are of 3 to 10 words, as models write them, requests of 9 to 23. Every "
    "query is asked in all ways, ten in a row each.",
    "First find_tools after start: median of seven starts after one that does not count.",
    "Tokens: what a host puts before its model in each request, as compact JSON: all tools as one list, and the "
    "gateway's list with its instructions. Of find_tools the text of the answer, the mean of the queries, by a session "
    "that remembers nothing of earlier ones. For all tools no instructions of their servers are counted.",
)


def run(world: World) -> Result:
    return measure(world, QUICK if world.quick else WHOLE, open_counter(world))


def measure(world: World, sizes: Sizes, counter: Counter) -> Result:
    parts: dict[str, Part] = {}
    logging.getLogger("client").setLevel(logging.ERROR)  # the SDK's, which warns of each call of an unlisted tool

    def add(name: str, part: Callable[[], Awaitable[Part]]) -> None:
        print(f"gateway: {name}", file=sys.stderr)
        parts[name] = anyio.run(part)

    tools = sizes.tools
    with scratch_folder() as folder:
        manifests = read_path(str(write_catalogue(folder, tools)), world.settings)
        with open_host(world, manifests) as host:
            queries = requests(sizes.token_queries, seed=QUERIES_SEED)
            add("tokens", lambda: tokens.measure(host, counter, queries, catalogue="invented"))
            calls.prepare(host)
            add("calls", lambda: calls.measure(host, calls=sizes.calls))
            add("find_tools", lambda: find_tools.measure(host, tools=tools, queries=sizes.finds))
            add("starts", lambda: find_tools.measure_start(host, tools=tools, starts=sizes.starts))
    if world.has(LIVEMCPBENCH):
        add(LIVEMCPBENCH, lambda: _livemcpbench(world, sizes, counter))
    return Result(
        name=NAME,
        embedder=host.embedder,
        measures=[measure for measures, _ in parts.values() for measure in measures],
        notes=NOTES,
        details={"vocabulary": counter.vocabulary, **{name: details for name, (_, details) in parts.items()}},
    )


async def _livemcpbench(world: World, sizes: Sizes, counter: Counter) -> Part:
    """Tokens of its 70 servers, asked for by its steps."""
    dataset = world.dataset(LIVEMCPBENCH)
    queries = [query.texts[0] for query in dataset.queries("steps")][: sizes.token_queries]
    with open_host(world, [dataset.catalogue]) as host:
        return await tokens.measure(host, counter, queries, catalogue=dataset.name)
