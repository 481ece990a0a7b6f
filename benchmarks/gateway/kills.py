"""Servers that are killed while they are called: what becomes of the calls, and when the server is back."""

import json
import os
import random
import signal
import time
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import asdict, dataclass, field
from math import inf
from statistics import median
from typing import Any

import anyio
from mcp import Client, MCPError

from benchmarks.gateway.scene import Scene, text_of, upstream
from benchmarks.gateway.state import NONE, State, growth, left_of
from benchmarks.record import Measure
from benchmarks.service.servers import tree

UPSTREAMS = 10
CALLERS = 10
DEADLINE_S = 10.0
LATE_S = 0.5
"""A failure that is told later than the deadline and this is late."""
SEEN_S = 0.1
"""A call that begins so long after a kill is a next call: that the server is gone could be seen before."""
GONE_S = 2.0
SEED = 5
TRACES = ("Traceback", 'File "', "object at 0x")


def names_of(upstreams: int) -> list[str]:
    return [f"killed-{number}" for number in range(upstreams)]


@dataclass(slots=True)
class Outcomes:
    """Of all calls. `others_failed`: calls of servers that nobody had killed while they ran."""

    answered: int = 0
    failed: int = 0
    wrong: int = 0
    late: int = 0
    unclear: int = 0
    others_failed: int = 0
    kills: int = 0
    not_back: int = 0
    back_ms: list[float] = field(default_factory=list)
    """Of each kill, how long the next call took that began after it was seen: it starts the server again."""
    errors: dict[str, int] = field(default_factory=dict)
    """What failed calls were told, and how often."""

    def note_answer(self, server: str, number: int, told: Mapping[str, Any]) -> None:
        """`told`: what the server says that it was asked."""
        self.answered += 1
        self.wrong += (told["server"], told["number"]) != (server, number)

    def note_failure(self, server: str, told: str, seconds: float, *, was_killed: bool) -> None:
        """`was_killed`: the server, while the call ran or right before it."""
        self.failed += 1
        self.late += seconds > DEADLINE_S + LATE_S
        self.unclear += server not in told or any(trace in told for trace in TRACES)
        self.others_failed += not was_killed
        self.errors[told[:200]] = self.errors.get(told[:200], 0) + 1

    def note_next(self, seconds: float, *, failed: bool) -> None:
        """The next call after a kill."""
        self.back_ms.append(round(seconds * 1000, 1))
        self.not_back += failed


class Killing:
    """Callers take one call after the other; at some of them, chosen by chance, one server's process is killed."""

    def __init__(self, client: Client, tools: dict[str, str], gateway: int, calls: int, kills: int) -> None:
        """`tools`: server → the name of a tool of it; `gateway`: the process whose children may be killed."""
        self.outcomes = Outcomes()
        self._client, self._tools, self._gateway = client, tools, gateway
        self._chance = random.Random(SEED)  # noqa: S311 - not a secret
        self._numbers = iter(range(calls))
        at = sorted(self._chance.sample(range(calls // 20, calls), kills))
        self._plan = dict(zip(at, self._victims(kills), strict=True))
        self._processes: dict[str, int] = {}
        self._killed_at: dict[str, float] = {}
        self._is_next: set[str] = set()

    def _victims(self, kills: int) -> list[str]:
        """Each server in turn, in an order by chance."""
        names = list(self._tools)
        self._chance.shuffle(names)
        return [names[number % len(names)] for number in range(kills)]

    async def run(self, callers: int) -> None:
        for server in self._tools:  # all are started, and their processes known
            await self._call(server, -1)
        async with anyio.create_task_group() as group:
            for _ in range(callers):
                group.start_soon(self._caller)

    async def _caller(self) -> None:
        for number in self._numbers:
            if number in self._plan:
                self._kill(self._plan[number])
            await self._call(self._chance.choice(list(self._tools)), number)

    def _kill(self, server: str) -> None:
        """Only what is a child of the gateway: a number may be another process's by now."""
        process = self._processes[server]
        if process not in tree(self._gateway):
            return
        with suppress(ProcessLookupError):
            os.kill(process, signal.SIGKILL)
            self.outcomes.kills += 1
            self._killed_at[server] = time.perf_counter()
            self._is_next.add(server)

    async def _call(self, server: str, number: int) -> None:
        began = time.perf_counter()
        is_next = server in self._is_next and began - self._killed_at[server] >= SEEN_S
        if is_next:
            self._is_next.discard(server)
        told, failed = await self._told(server, number)
        seconds = time.perf_counter() - began
        if is_next:
            self.outcomes.note_next(seconds, failed=failed and self._killed_at[server] < began)
        if failed:
            was_killed = self._killed_at.get(server, -inf) >= began - SEEN_S
            self.outcomes.note_failure(server, told, seconds, was_killed=was_killed)
        else:
            answer = json.loads(told)
            self.outcomes.note_answer(server, number, answer)
            self._processes[server] = answer["process"]

    async def _told(self, server: str, number: int) -> tuple[str, bool]:
        """What the answer says, and whether it is an error."""
        try:
            result = await self._client.call_tool(self._tools[server], {"number": number})
        except MCPError as error:
            return str(error), True
        return text_of(result), bool(result.is_error)


async def measured(made: Scene, *, upstreams: int, calls: int, kills: int) -> tuple[list[Measure], dict[str, Any]]:
    """Of a scene that was prepared with as many."""
    tools = {server: names[0] for server, names in made.call_names(names_of(upstreams)).items()}
    began = time.perf_counter()
    async with made.stdio(WAYGRAPH_CALL_TIMEOUT_S=str(DEADLINE_S)) as gateway:
        killing = Killing(gateway.client, tools, gateway.pid, calls, kills)
        warm = Killing(gateway.client, tools, gateway.pid, max(calls // 10, len(tools)), 0)
        await warm.run(CALLERS)
        early = State.of(gateway.pid)
        await killing.run(CALLERS)
        late = State.of(gateway.pid)
        started = tree(gateway.pid)
    left = await anyio.to_thread.run_sync(left_of, started, GONE_S)
    name = f"{upstreams} servers of `waygraph mcp`, {killing.outcomes.kills} times one killed (-9) during {calls} calls"
    measures = [*_measures(name, killing.outcomes), *growth(name, early, late)]
    measures.append(
        Measure(name=f"{name}: processes left {GONE_S:g} s after the gateway's end", value=left, target=NONE)
    )
    took = round(time.perf_counter() - began, 1)
    states = {"early": asdict(early), "late": asdict(late)}
    return measures, {"seconds": took, **states, "outcomes": asdict(killing.outcomes)}


def _measures(name: str, out: Outcomes) -> list[Measure]:
    counted = {
        "answers that belong to another call": out.wrong,
        f"failures told later than the deadline of {DEADLINE_S:g} s": out.late,
        "failures that do not name the server, or show our inside": out.unclear,
        "failed calls of servers that lived": out.others_failed,
        "next calls that did not find the server back": out.not_back,
    }
    return [
        Measure(name=f"{name}: calls answered", value=out.answered),
        Measure(name=f"{name}: calls that failed with the server", value=out.failed - out.others_failed),
        *(Measure(name=f"{name}: {what}", value=value, target=NONE) for what, value in counted.items()),
        Measure(name=f"{name}: the call that starts it again, median", value=median(out.back_ms or [0.0]), unit="ms"),
    ]


def prepare(made: Scene, upstreams: int) -> None:
    made.follow("killed", {name: upstream(name, 1) for name in names_of(upstreams)})
