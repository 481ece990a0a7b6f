"""Time of a route: with the query's vector in the cache, and from text to answer beside the bare embedding."""

import gc
from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack
from functools import partial
from itertools import batched

from benchmarks.catalogue import requests, steps
from benchmarks.record import Measure, Result
from benchmarks.timing import RUN, CallTime, percentile, time_call
from benchmarks.world import World
from waygraph.registry.registry import Registry

NAME = "route_speed"
SIZES = (500, 5_000, 20_000)
UNCACHED_TOOLS = 5_000
CACHED_REQUESTS, PASSES, UNCACHED_REQUESTS = 200, 5, 600
AUTHORS: Mapping[str, Callable[[int], list[str]]] = {"steps": steps, "requests": requests}
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


def run(world: World) -> Result:
    sizes = [tools for tools in SIZES if not (world.quick and tools > UNCACHED_TOOLS)]
    return measure(world, sizes, UNCACHED_TOOLS, CACHED_REQUESTS, UNCACHED_REQUESTS)


def measure(world: World, sizes: Sequence[int], uncached_tools: int, cached: int, uncached: int) -> Result:
    """`cached` and `uncached` count requests; `uncached_tools` is one of `sizes`."""
    texts = requests(cached)
    with ExitStack() as stack:
        registries = {tools: stack.enter_context(world.registry_of_tools(tools)) for tools in sizes}
        cached_ms = time_cached(registries, texts)
        uncached_ms = {
            author: time_uncached(world, registries[uncached_tools], write(cached + uncached)[cached:])
            for author, write in AUTHORS.items()
        }
        embedder = registries[uncached_tools].status().state.embedder
    measures = [m for tools, times in cached_ms.items() for m in _cached_measures(tools, times)]
    measures += [m for author, arms in uncached_ms.items() for m in _uncached_measures(uncached_tools, author, *arms)]
    return Result(
        name=NAME,
        embedder=embedder,
        measures=measures,
        notes=NOTES,
        details={"cached_requests": cached, "passes": PASSES, "uncached_requests": uncached},
    )


def time_cached(registries: Mapping[int, Registry], texts: Sequence[str]) -> dict[int, list[CallTime]]:
    """Tools → times of each route; every registry has seen every text before."""
    for registry in registries.values():
        for text in texts:
            registry.route(text)
    times: dict[int, list[CallTime]] = {tools: [] for tools in registries}
    gc.collect()
    for _ in range(PASSES):
        for tools, registry in registries.items():
            times[tools].extend(time_call(partial(registry.route, text)) for text in texts)
    return times


def time_uncached(world: World, registry: Registry, texts: Sequence[str]) -> tuple[list[CallTime], list[CallTime]]:
    """Times of each route and of each bare embedding of the same text, in runs, in turn first and second."""
    embedder = world.embedder()
    for text in requests(20, seed=7):
        registry.route(text)
        embedder.embed([text], "query")
    routed: list[CallTime] = []
    bare: list[CallTime] = []
    gc.collect()
    arms: list[tuple[list[CallTime], Callable[[str], object]]] = [
        (routed, registry.route),
        (bare, lambda text: embedder.embed([text], "query")),
    ]
    for turn, run in enumerate(batched(texts, RUN)):
        for times, work in arms if turn % 2 else reversed(arms):
            times.extend(time_call(partial(work, text)) for text in run)
    return routed, bare


def _cached_measures(tools: int, times: Sequence[CallTime]) -> list[Measure]:
    name = f"route, vector cached, {tools} tools"
    return [
        Measure(name=f"{name}, p50", value=_ms(times, 0.5), unit="ms"),
        Measure(name=f"{name}, p95", value=_ms(times, 0.95), unit="ms"),
        Measure(name=f"{name}, p50 of processor time", value=_cpu_ms(times), unit="ms"),
    ]


def _uncached_measures(tools: int, author: str, routed: Sequence[CallTime], bare: Sequence[CallTime]) -> list[Measure]:
    name, alone = f"route, {author} to answer, {tools} tools", f"bare embedding of the same {author}"
    ratio, cpu_ratio = _ms(routed, 0.5) / _ms(bare, 0.5), _cpu_ms(routed) / _cpu_ms(bare)
    return [
        Measure(name=f"{name}, p50", value=_ms(routed, 0.5), unit="ms"),
        Measure(name=f"{name}, p95", value=_ms(routed, 0.95), unit="ms"),
        Measure(name=f"{name}, p50 of processor time", value=_cpu_ms(routed), unit="ms"),
        Measure(name=f"{alone}, p50", value=_ms(bare, 0.5), unit="ms"),
        Measure(name=f"{alone}, p95", value=_ms(bare, 0.95), unit="ms"),
        Measure(name=f"{alone}, p50 of processor time", value=_cpu_ms(bare), unit="ms"),
        Measure(name=f"{name}, p50 / bare embedding's p50", value=ratio, unit="×"),
        Measure(name=f"{name}, p50 / bare embedding's p50, processor time", value=cpu_ratio, unit="×"),
    ]


def _ms(times: Sequence[CallTime], share: float) -> float:
    return percentile([time.ms for time in times], share)


def _cpu_ms(times: Sequence[CallTime]) -> float:
    return percentile([time.cpu_ms for time in times], 0.5)
