"""Times of calls: of one call, and of several arms in turn, so that a busy moment slows all of them."""

import gc
import time
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass
from itertools import batched
from statistics import median

import numpy as np

from benchmarks.record import Measure, Target

type Arm = Callable[[int], Awaitable[object]]
"""Makes the call of the round of this number, and waits for its answer."""

RUN = 10
"""Calls of one arm in a row before the next arm's turn. In turn after each call, every arm would find the processor's
caches full of the other's data."""


@dataclass(frozen=True, slots=True)
class CallTime:
    """Wall-clock time, and processor time of the calling thread, which is steadier on a busy machine."""

    ms: float
    cpu_ms: float


def time_call(call: Callable[[], object]) -> CallTime:
    start, cpu_start = time.perf_counter(), time.thread_time()
    call()
    return CallTime((time.perf_counter() - start) * 1000, (time.thread_time() - cpu_start) * 1000)


async def time_arms(arms: Mapping[str, Arm], rounds: int, *, warm_up: int = 0) -> dict[str, list[float]]:
    """Arm → milliseconds of each round. Every run begins with another arm; rounds of the warm-up have the numbers
    before 0 and are not counted.
    """
    times: dict[str, list[float]] = {name: [] for name in arms}
    names = list(arms)
    gc.collect()
    for turn, run in enumerate(batched(range(-warm_up, rounds), RUN)):
        first = turn % len(names)
        for name in names[first:] + names[:first]:
            for number in run:
                start = time.perf_counter()
                await arms[name](number)
                if number >= 0:
                    times[name].append((time.perf_counter() - start) * 1000)
    return times


def percentile(values: Sequence[float], share: float) -> float:
    """The smallest value that at least `share` of all values do not exceed."""
    return float(np.quantile(values, share, method="inverted_cdf"))


def percentile_measures(name: str, times_ms: Sequence[float], p50: Target | None = None) -> list[Measure]:
    """p50 beside its budget, and p95."""
    return [
        Measure(name=f"{name}, p50", value=percentile(times_ms, 0.5), unit="ms", target=p50),
        Measure(name=f"{name}, p95", value=percentile(times_ms, 0.95), unit="ms"),
    ]


def median_difference(base_ms: Sequence[float], times_ms: Sequence[float]) -> float:
    """Milliseconds: the median of the rounds' differences."""
    return median(one - other for one, other in zip(times_ms, base_ms, strict=True))
