"""find_tools over the gateway's two ways in, beside the registry's own in this process; and the first after a start."""

import time
from collections.abc import Sequence
from contextlib import AsyncExitStack
from statistics import median
from typing import Any

from mcp import Client

from benchmarks.gateway.host import Host, find_tools
from benchmarks.record import Measure, Target
from benchmarks.route_speed import AUTHORS
from benchmarks.timing import Arm, percentile_measures, time_arms
from waygraph.registry.registry import Registry

P50, FIRST = Target(bound="at_most", value=15.0), Target(bound="at_most", value=2.5)
LIMIT = 5
WARM_UP = 20
LOCAL = "Registry.find_tools in process"
STDIO = "find_tools through `waygraph mcp`"
HTTP = "find_tools through `/mcp`"
TARGETS = {LOCAL: None, STDIO: P50, HTTP: None}
QUERY = "give a number back as a mirror does"


async def measure(host: Host, *, tools: int, queries: int) -> tuple[list[Measure], dict[str, Any]]:
    """`tools`: how many the registry holds."""
    measures: list[Measure] = []
    async with AsyncExitStack() as stack:
        stdio = await stack.enter_async_context(host.stdio())
        http = await stack.enter_async_context(host.http())
        registry = stack.enter_context(host.open_registry())
        for author, write in AUTHORS.items():
            texts = write(queries + WARM_UP)
            arms = {LOCAL: _local(registry, texts), STDIO: _remote(stdio, texts), HTTP: _remote(http, texts)}
            new = await time_arms(arms, queries, warm_up=WARM_UP)
            known = await time_arms(arms, queries)
            for name, target in TARGETS.items():
                measures += percentile_measures(f"{name}, {tools} tools, new {author}", new[name], target)
                measures += percentile_measures(f"{name}, {tools} tools, {author} asked before", known[name])
    return measures, {"tools": tools, "queries": queries}


async def measure_start(host: Host, *, tools: int, starts: int) -> tuple[list[Measure], dict[str, Any]]:
    """Seconds from the start of the process. The first start reads all from disk, and is not counted."""
    times = [await _start(host) for _ in range(starts + 1)][1:]
    name = f"`waygraph mcp`, {tools} tools"
    return [
        Measure(
            name=f"{name}: first find_tools after start", value=median(s for _, s in times), unit="s", target=FIRST
        ),
        Measure(name=f"{name}: until a session is open", value=median(s for s, _ in times), unit="s"),
    ], {"open_s and found_s": [[round(seconds, 3) for seconds in each] for each in times]}


async def _start(host: Host) -> tuple[float, float]:
    """Seconds until a session is open, and until the first answer."""
    start = time.perf_counter()
    async with host.stdio() as client:
        open_s = time.perf_counter() - start
        await find_tools(client, QUERY, limit=LIMIT)
        return open_s, time.perf_counter() - start


def _local(registry: Registry, texts: Sequence[str]) -> Arm:
    async def find(number: int) -> None:
        registry.find_tools(texts[number], limit=LIMIT)

    return find


def _remote(client: Client, texts: Sequence[str]) -> Arm:
    async def find(number: int) -> None:
        await find_tools(client, texts[number], limit=LIMIT)

    return find
