"""Several ways to the same answer, asked in turn, so that a busy moment slows all of them."""

import gc
import time
from collections.abc import Awaitable, Callable, Mapping, Sequence
from itertools import batched
from statistics import median

from benchmarks.record import Measure, Target
from benchmarks.route_speed import RUN, percentile

type Way = Callable[[int], Awaitable[object]]
"""Asks for the round of this number, and has its answer."""


async def in_turn(ways: Mapping[str, Way], rounds: int, *, warm_up: int = 0) -> dict[str, list[float]]:
    """Way → milliseconds of each round. Every run begins with another way; the warm-up's rounds are not counted,
    and have the numbers before 0.
    """
    taken: dict[str, list[float]] = {name: [] for name in ways}
    names = list(ways)
    gc.collect()
    for turn, run in enumerate(batched(range(-warm_up, rounds), RUN)):
        first = turn % len(names)
        for name in names[first:] + names[:first]:
            for number in run:
                began = time.perf_counter()
                await ways[name](number)
                if number >= 0:
                    taken[name].append((time.perf_counter() - began) * 1000)
    return taken


def spread(name: str, taken: Sequence[float], target: Target | None = None) -> list[Measure]:
    """The target is one of the p50."""
    return [
        Measure(name=f"{name}, p50", value=percentile(taken, 0.5), unit="ms", target=target),
        Measure(name=f"{name}, p95", value=percentile(taken, 0.95), unit="ms"),
    ]


def more_than(base: Sequence[float], taken: Sequence[float]) -> float:
    """Milliseconds: the median of the rounds' differences."""
    return median(one - other for one, other in zip(taken, base, strict=True))
