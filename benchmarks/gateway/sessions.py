"""Hosts come and go: what a thousand sessions leave behind in a service, and each `waygraph mcp` in processes."""

import os
import time
from dataclasses import asdict
from typing import Any

import anyio

from benchmarks.gateway.finding import found
from benchmarks.gateway.overhead import FOUND
from benchmarks.gateway.scene import Era, Scene, Service
from benchmarks.gateway.state import NONE, State, growth, left_of
from benchmarks.record import Measure
from benchmarks.service.servers import tree

ERAS: tuple[Era, ...] = ("handshake", "modern")
AT_ONCE = 4
QUERY = "give a number back as a mirror does"
SETTLE_S = 2.0
"""Until connections that were closed are closed on the other side too."""
GONE_S = 2.0


async def measured(made: Scene, *, sessions: int, programs: int) -> tuple[list[Measure], dict[str, Any]]:
    """`sessions` of each era over HTTP, `programs` over standard input and output. Of a scene with FOUND in it."""
    name = made.call_names([FOUND])[FOUND][0]
    measures, details = [], dict[str, Any]()
    with made.service() as service:
        for era in ERAS:
            began = time.perf_counter()
            early, late = await _opened_and_closed(service, era, name, sessions)
            measures += growth(f"{sessions} sessions of the {era} era over `/mcp`", early, late)
            took = round(time.perf_counter() - began, 1)
            details[era] = {"seconds": took, "early": asdict(early), "late": asdict(late)}
    left = [await _program(made, name) for _ in range(programs)]
    told = f"processes left {GONE_S:g} s after their end by {programs} runs of `waygraph mcp` that started a server"
    measures.append(Measure(name=told, value=sum(left), target=NONE))
    return measures, details


async def _opened_and_closed(service: Service, era: Era, name: str, sessions: int) -> tuple[State, State]:
    """What the service holds after a tenth of the sessions, and after all."""
    first = max(1, sessions // 10)
    await _many(service, era, name, first)
    early = await _settled(service)
    await _many(service, era, name, sessions - first)
    return early, await _settled(service)


async def _settled(service: Service) -> State:
    await anyio.sleep(SETTLE_S)
    return State.of(service.server.pid)


async def _many(service: Service, era: Era, name: str, sessions: int) -> None:
    begun = iter(range(sessions))

    async def client() -> None:
        for number in begun:
            await _session(service, era, name, number)

    async with anyio.create_task_group() as group:
        for _ in range(AT_ONCE):
            group.start_soon(client)


async def _session(service: Service, era: Era, name: str, number: int) -> None:
    """What a host does: it lists, finds and calls."""
    async with service.client(era) as client:
        await client.list_tools()
        await found(client, QUERY)
        await client.call_tool(name, {"number": number})


async def _program(made: Scene, name: str) -> int:
    """How many processes are left of one run."""
    before = set(tree(os.getpid()))
    async with made.stdio() as gateway:
        await gateway.client.call_tool(name, {"number": 0})
        started = [pid for pid in tree(os.getpid()) if pid not in before]
    return await anyio.to_thread.run_sync(left_of, started, GONE_S)
