"""Minutes of everything at once: does the service's memory stay flat, and does it ever answer with a 5xx?"""

import asyncio
import random
import time
from collections.abc import Sequence
from dataclasses import asdict
from statistics import fmean, linear_regression
from typing import Any

from benchmarks.record import Measure, Target
from benchmarks.service.arena import Arena, Queries
from benchmarks.service.crowd import Crowd, Outcomes
from benchmarks.service.servers import Memory, Server
from benchmarks.service.speed import NONE

CLIENTS = 24
PAUSE_S = 0.05
"""Mean time that a client waits between two requests: the machine is busy, not drowned."""
SAMPLE_S = 2.0
FLAT = Target(bound="at_most", value=1.05)
SEED = 11

type Sample = tuple[float, Memory]
"""Seconds since the start, and the server's memory then."""


def measured(arena: Arena, queries: Queries, *, minutes: float) -> tuple[list[Measure], dict[str, Any]]:
    with arena.service() as endpoint:
        crowd = Crowd(endpoint.server.port, arena.keys, endpoint.headers, queries, random.Random(SEED))  # noqa: S311
        outcomes, samples = asyncio.run(_sampled(crowd, endpoint.server, minutes * 60))
    return _measures(minutes, outcomes, samples), {
        "samples_s_own_mib_mapped_mib": [
            [round(at, 1), round(memory.own_mib, 1), round(memory.mapped_mib, 1)] for at, memory in samples
        ],
        **asdict(outcomes),
    }


async def _sampled(crowd: Crowd, server: Server, seconds: float) -> tuple[Outcomes, list[Sample]]:
    began = time.perf_counter()
    asking = asyncio.gather(*(crowd.client(began + seconds, PAUSE_S) for _ in range(CLIENTS)))
    samples = []
    while not asking.done():
        samples.append((time.perf_counter() - began, server.memory()))
        await asyncio.wait((asking,), timeout=SAMPLE_S)
    await asking
    return crowd.outcomes, samples


def growth(samples: Sequence[tuple[float, float]]) -> tuple[float, float]:
    """The last fifth's mean to that of the second fifth, and the slope after the first fifth in MiB a minute.

    In the first fifth caches fill.
    """
    fifth = max(1, len(samples) // 5)
    after = samples[fifth:]
    early, late = samples[fifth : 2 * fifth], samples[-fifth:]
    ratio = fmean(mib for _, mib in late) / fmean(mib for _, mib in early)
    slope = linear_regression([at / 60 for at, _ in after], [mib for _, mib in after]).slope
    return ratio, slope


def _measures(minutes: float, outcomes: Outcomes, samples: Sequence[Sample]) -> list[Measure]:
    name = f"{minutes:g} minutes of mixed load"
    ratio, slope = growth([(at, memory.whole_mib) for at, memory in samples])
    _, own = growth([(at, memory.own_mib) for at, memory in samples])
    return [
        Measure(name=f"{name}, requests", value=outcomes.requests),
        Measure(name=f"{name}, answers 5xx and connections lost", value=outcomes.broken, target=NONE),
        Measure(name=f"{name}, answers other than expected", value=len(outcomes.surprises), target=NONE),
        Measure(name=f"{name}, resident memory at its end / after its first fifth", value=ratio, unit="×", target=FLAT),
        Measure(name=f"{name}, growth of resident memory after its first fifth", value=slope, unit="MiB/min"),
        Measure(name=f"{name}, growth of what is not a mapped file", value=own, unit="MiB/min"),
        Measure(name=f"{name}, most resident memory", value=max(m.whole_mib for _, m in samples), unit="MiB"),
    ]
