"""How long a route takes: with the query's vector at hand, and from text to answer beside the bare embedding."""

import gc
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from functools import partial
from itertools import batched

import numpy as np

from benchmarks.catalogue import requests, steps
from benchmarks.record import Measure, Result, Target
from benchmarks.world import World
from waygraph.registry.registry import Registry

NAME = "route_speed"
CACHED_TARGETS_MS: Mapping[int, float] = {500: 0.5, 5_000: 1.0, 20_000: 3.0}
UNCACHED_TOOLS = 5_000
P50 = Target(bound="at_most", value=2.5)
P95 = Target(bound="at_most", value=5.0)
TO_BARE = Target(bound="at_most", value=1.5)
CACHED_REQUESTS, PASSES, UNCACHED_REQUESTS = 200, 5, 600
RUN = 10
"""Questions that one arm is asked in a row, as a caller asks its one router, before the other has its turn. In turn
after each question, both would find the processor's caches full of the other's model."""
WRITTEN: Mapping[str, Callable[[int], list[str]]] = {"steps": steps, "requests": requests}
"""Who writes: a model that splits a task, in 3 to 10 words, or a person, in 9 to 23. A vector takes longer the longer
its text."""
NOTES = (
    "Wall-clock time of Registry.route (recipe hybrid, limit 5) in one process; garbage collection runs as usual.",
    "Cached: every query's vector is in the LRU cache; catalogues of all sizes are asked in turn, all queries each, "
    "so that a small one's memory is not pushed out of the processor's cache by a large one's at every query.",
    "Uncached: each query is new. Ten are routed and, before or after that in turn, embedded bare: tokenizer and onnx "
    "session of an embedder of its own, without any cache.",
    "Steps are of 3 to 10 words, as models write them (LiveMCPBench's are so long); requests of 9 to 23.",
)


@dataclass(frozen=True, slots=True)
class Took:
    """Wall-clock time, and processor time of the calling thread, which is steadier on a busy machine."""

    ms: float
    cpu_ms: float


def run(world: World) -> Result:
    sizes = [tools for tools in CACHED_TARGETS_MS if not (world.quick and tools > UNCACHED_TOOLS)]
    return measure(world, sizes, UNCACHED_TOOLS, CACHED_REQUESTS, UNCACHED_REQUESTS)


def measure(world: World, sizes: Sequence[int], uncached_tools: int, cached: int, uncached: int) -> Result:
    """`cached` and `uncached` count requests; `uncached_tools` is one of `sizes`."""
    texts = requests(cached)
    with ExitStack() as stack:
        registries = {tools: stack.enter_context(world.registry_of_tools(tools)) for tools in sizes}
        warm = cached_times(registries, texts)
        cold = {
            written: uncached_times(world, registries[uncached_tools], write(cached + uncached)[cached:])
            for written, write in WRITTEN.items()
        }
        embedder = registries[uncached_tools].status().state.embedder
    measures = [m for tools, times in warm.items() for m in _cached_measures(tools, times)]
    measures += [m for written, arms in cold.items() for m in _uncached_measures(uncached_tools, written, *arms)]
    return Result(
        name=NAME,
        embedder=embedder,
        measures=measures,
        notes=NOTES,
        details={"cached_requests": cached, "passes": PASSES, "uncached_requests": uncached},
    )


def cached_times(registries: Mapping[int, Registry], texts: Sequence[str]) -> dict[int, list[Took]]:
    """Tools → times of each route; every registry has seen every text before."""
    for registry in registries.values():
        for text in texts:
            registry.route(text)
    times: dict[int, list[Took]] = {tools: [] for tools in registries}
    gc.collect()
    for _ in range(PASSES):
        for tools, registry in registries.items():
            times[tools].extend(timed(partial(registry.route, text)) for text in texts)
    return times


def uncached_times(world: World, registry: Registry, texts: Sequence[str]) -> tuple[list[Took], list[Took]]:
    """Times of each route and of each bare embedding of the same text, in runs, in turn first and second."""
    embedder = world.embedder()
    for text in requests(20, seed=7):
        registry.route(text)
        embedder.embed([text], "query")
    routed: list[Took] = []
    bare: list[Took] = []
    gc.collect()
    arms: list[tuple[list[Took], Callable[[str], object]]] = [
        (routed, registry.route),
        (bare, lambda text: embedder.embed([text], "query")),
    ]
    for turn, run in enumerate(batched(texts, RUN)):
        for times, work in arms if turn % 2 else reversed(arms):
            times.extend(timed(partial(work, text)) for text in run)
    return routed, bare


def timed(work: Callable[[], object]) -> Took:
    started, used = time.perf_counter(), time.thread_time()
    work()
    return Took((time.perf_counter() - started) * 1000, (time.thread_time() - used) * 1000)


def _cached_measures(tools: int, times: Sequence[Took]) -> list[Measure]:
    name, limit = f"route, vector cached, {tools} tools", CACHED_TARGETS_MS.get(tools)
    target = Target(bound="at_most", value=limit) if limit else None
    return [
        Measure(name=f"{name}, p50", value=_ms(times, 0.5), unit="ms", target=target),
        Measure(name=f"{name}, p95", value=_ms(times, 0.95), unit="ms"),
        Measure(name=f"{name}, p50 of processor time", value=_cpu_ms(times), unit="ms"),
    ]


def _uncached_measures(tools: int, written: str, routed: Sequence[Took], bare: Sequence[Took]) -> list[Measure]:
    name, alone = f"route, {written} to answer, {tools} tools", f"bare embedding of the same {written}"
    ratio, cpu_ratio = _ms(routed, 0.5) / _ms(bare, 0.5), _cpu_ms(routed) / _cpu_ms(bare)
    return [
        Measure(name=f"{name}, p50", value=_ms(routed, 0.5), unit="ms", target=P50),
        Measure(name=f"{name}, p95", value=_ms(routed, 0.95), unit="ms", target=P95),
        Measure(name=f"{name}, p50 of processor time", value=_cpu_ms(routed), unit="ms"),
        Measure(name=f"{alone}, p50", value=_ms(bare, 0.5), unit="ms"),
        Measure(name=f"{alone}, p95", value=_ms(bare, 0.95), unit="ms"),
        Measure(name=f"{alone}, p50 of processor time", value=_cpu_ms(bare), unit="ms"),
        Measure(name=f"{name}, p50 / bare embedding's p50", value=ratio, unit="×", target=TO_BARE),
        Measure(name=f"{name}, p50 / bare embedding's p50, processor time", value=cpu_ratio, unit="×"),
    ]


def percentile(values: Sequence[float], share: float) -> float:
    """The smallest value that at least `share` of all values do not exceed."""
    return float(np.quantile(values, share, method="inverted_cdf"))


def _ms(times: Sequence[Took], share: float) -> float:
    return percentile([took.ms for took in times], share)


def _cpu_ms(times: Sequence[Took]) -> float:
    return percentile([took.cpu_ms for took in times], 0.5)
