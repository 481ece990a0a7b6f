"""Many servers configured, some of them dead: how soon after its start the gateway finds, and what the dead cost."""

import sys
import time
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from statistics import median
from typing import Any, cast

import anyio
from mcp import Client, MCPError
from mcp.types import RequestParamsMeta

from benchmarks.gateway.dying import WAYS
from benchmarks.gateway.finding import found
from benchmarks.gateway.overhead import WrongAnswer
from benchmarks.gateway.scene import Scene, text_of, upstream
from benchmarks.gateway.state import NONE
from benchmarks.record import PROJECT, Measure, Target
from waygraph.api.mcp.gateway import TIMEOUT_KEY

SOON = Target(bound="at_most", value=1.0)
TOOLS = 10
MISSING = "missing"
DEAD = (MISSING, *WAYS)
DEADLINE_S = 5.0
LATE_S = 0.5
BEFORE_S = 0.1
"""So long before the live one the dead are called."""
IN_TIME = cast("RequestParamsMeta", {TIMEOUT_KEY: DEADLINE_S})
QUERY = "give a number back as a mirror does"


@dataclass(frozen=True, kw_only=True)
class Start:
    """Seconds from the start of the process: until a session was open, until the first answer."""

    open_s: float
    found_s: float


@dataclass(frozen=True, kw_only=True)
class Failure:
    """How a call of a dead server ended."""

    server: str
    seconds: float
    told: str


def names_of(servers: int) -> list[str]:
    return [f"config-{number}" for number in range(servers)]


def dead_of(servers: int) -> dict[str, str]:
    """Server → how it dies: the last ones."""
    return dict(zip(names_of(servers)[-len(DEAD) :], DEAD, strict=True))


def prepare(made: Scene, servers: int) -> None:
    """All of them are alive when the registry hears of them; then some die."""
    dead = dead_of(servers)
    entries = {name: upstream(name, TOOLS, within=_dying(made.folder, name)) for name in names_of(servers)}
    gone = next(name for name, way in dead.items() if way == MISSING)
    entries[gone] = _script(made.folder / "gone", entries[gone])
    made.follow("configured", entries)
    for name, way in dead.items():
        if way == MISSING:
            (made.folder / "gone").unlink()
        else:
            _mark(made.folder, name).write_text(way, encoding="utf-8")


def _dying(folder: Path, name: str) -> tuple[str, str]:
    return ("benchmarks.gateway.dying", str(_mark(folder, name)))


def _mark(folder: Path, name: str) -> Path:
    return folder / f"{name}.dead"


def _script(path: Path, entry: Mapping[str, Any]) -> dict[str, Any]:
    """The same by a program of its own, that can be removed."""
    command = " ".join([sys.executable, *entry["args"]])
    path.write_text(f"#!/bin/sh\nexec {command}\n", encoding="utf-8")
    path.chmod(0o700)
    return {"command": str(path), "args": [], "cwd": str(PROJECT)}


async def measured(made: Scene, *, servers: int, starts: int) -> tuple[list[Measure], dict[str, Any]]:
    """Of a scene that was prepared with as many."""
    dead = dead_of(servers)
    live = names_of(servers)[0]
    tools = {name: names[0] for name, names in made.call_names([live, *dead]).items()}
    begun = [await _start(made) for _ in range(starts + 1)][1:]  # the first reads all from disk
    alone_s, _ = await _calls(made, tools, live, ())
    beside_s, failures = await _calls(made, tools, live, list(dead))
    name = f"{servers} servers configured, {len(dead)} of them dead"
    return [
        *_start_measures(name, begun),
        *_dead_measures(name, failures),
        Measure(name=f"{name}: first call of one that lives, alone", value=alone_s, unit="s"),
        Measure(name=f"{name}: the same while the dead are called", value=beside_s, unit="s"),
    ], {
        "starts": [{"open_s": round(each.open_s, 3), "found_s": round(each.found_s, 3)} for each in begun],
        "dead": [
            {"way": dead[each.server], **asdict(each), "told": each.told.replace(f"{made.folder}/", "")}
            for each in failures
        ],
    }


async def _start(made: Scene) -> Start:
    began = time.perf_counter()
    async with made.stdio() as gateway:
        opened = time.perf_counter()
        await found(gateway.client, QUERY)
        return Start(open_s=opened - began, found_s=time.perf_counter() - began)


async def _calls(made: Scene, tools: Mapping[str, str], live: str, dead: Sequence[str]) -> tuple[float, list[Failure]]:
    """Seconds of the first call of the live one, made while those of the dead wait; and what became of these."""
    seconds: list[float] = []
    failures: list[Failure] = []

    async def fail(client: Client, server: str) -> None:
        failures.append(await _failure(client, server, tools[server]))

    async with made.stdio() as gateway, anyio.create_task_group() as group:
        for server in dead:
            group.start_soon(fail, gateway.client, server)
        await anyio.sleep(BEFORE_S)
        seconds.append(await _answered(gateway.client, live, tools[live]))
    return seconds[0], failures


async def _answered(client: Client, server: str, tool: str) -> float:
    """Seconds. Raises WrongAnswer if it failed."""
    began = time.perf_counter()
    result = await client.call_tool(tool, {"number": 1})
    if result.is_error:
        raise WrongAnswer(f"{server}: {text_of(result)[:500]}")
    return time.perf_counter() - began


async def _failure(client: Client, server: str, tool: str) -> Failure:
    """Raises WrongAnswer if it did not fail."""
    began = time.perf_counter()
    try:
        result = await client.call_tool(tool, {"number": 1}, meta=IN_TIME)
    except MCPError as error:
        return Failure(server=server, seconds=time.perf_counter() - began, told=str(error)[:300])
    if not result.is_error:
        raise WrongAnswer(f"{server} is dead, and answered {text_of(result)[:500]}")
    return Failure(server=server, seconds=time.perf_counter() - began, told=text_of(result)[:300])


def _start_measures(name: str, begun: Sequence[Start]) -> list[Measure]:
    first = f"{name}: first find_tools"
    return [
        Measure(
            name=f"{first}, from the start of the process",
            value=median(each.found_s for each in begun),
            unit="s",
            target=SOON,
        ),
        Measure(
            name=f"{first}, from when its session is open",
            value=median(each.found_s - each.open_s for each in begun),
            unit="s",
            target=SOON,
        ),
        Measure(name=f"{name}: until a session is open", value=median(each.open_s for each in begun), unit="s"),
    ]


def _dead_measures(name: str, failures: Sequence[Failure]) -> list[Measure]:
    late = sum(each.seconds > DEADLINE_S + LATE_S for each in failures)
    unclear = sum(each.server not in each.told for each in failures)
    return [
        Measure(
            name=f"{name}: calls of the dead that failed later than the deadline of {DEADLINE_S:g} s",
            value=late,
            target=NONE,
        ),
        Measure(name=f"{name}: failures that do not name the server", value=unclear, target=NONE),
    ]
