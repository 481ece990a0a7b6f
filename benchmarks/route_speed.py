"""How long a route takes: with the query's vector at hand, and from text to answer beside the bare embedding."""

import gc
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager

from waygraph.registry.registry import Registry

from benchmarks.catalogue import requests
from benchmarks.metrics import percentile
from benchmarks.record import Measure, Result, Target
from benchmarks.world import World

NAME = "route_speed"
CACHED_TARGETS_MS: Mapping[int, float] = {500: 0.5, 5_000: 1.0, 20_000: 3.0}
UNCACHED_TOOLS = 5_000
P50 = Target(bound="at_most", value=2.5)
P95 = Target(bound="at_most", value=5.0)
TO_BARE = Target(bound="at_most", value=1.5)
CACHED_REQUESTS, PASSES, UNCACHED_REQUESTS = 200, 5, 600
NOTES = (
    "Wall-clock time of Registry.route (recipe hybrid, limit 5) in one process; garbage collection runs as usual.",
    "Cached: every query's vector is in the LRU cache; catalogues of all sizes are asked in turn, query by query.",
    "Uncached: each query is new. It is routed and, before or after it in turn, embedded bare: tokenizer and onnx "
    "session of an embedder of its own, without any cache.",
)


def run(world: World) -> Result:
    sizes = [tools for tools in CACHED_TARGETS_MS if not (world.quick and tools > UNCACHED_TOOLS)]
    return measure(world, sizes, UNCACHED_TOOLS, CACHED_REQUESTS, UNCACHED_REQUESTS)


def measure(world: World, sizes: Sequence[int], uncached_tools: int, cached: int, uncached: int) -> Result:
    """`cached` and `uncached` count requests; `uncached_tools` is one of `sizes`."""
    texts = requests(cached + uncached)
    with ExitStack() as stack:
        registries = {tools: stack.enter_context(world.registry_of_tools(tools)) for tools in sizes}
        warm = cached_times(registries, texts[:cached])
        routed, bare = uncached_times(world, registries[uncached_tools], texts[cached:])
        embedder = registries[uncached_tools].status().state.embedder
    measures = [
        Measure(name=f"route, vector cached, {tools} tools, {label}", value=percentile(times, share), unit="ms", target=t)
        for tools, times in warm.items()
        for label, share, t in (("p50", 0.5, _cached_target(tools)), ("p95", 0.95, None))
    ]
    return Result(
        name=NAME,
        embedder=embedder,
        measures=[*measures, *_uncached_measures(uncached_tools, routed, bare)],
        notes=NOTES,
        details={"cached_requests": cached, "passes": PASSES, "uncached_requests": uncached},
    )


def cached_times(registries: Mapping[int, Registry], texts: Sequence[str]) -> dict[int, list[float]]:
    """Tools → milliseconds of each route; every registry has seen every text before."""
    for registry in registries.values():
        for text in texts:
            registry.route(text)
    times: dict[int, list[float]] = {tools: [] for tools in registries}
    with collected_garbage():
        for _ in range(PASSES):
            for text in texts:
                for tools, registry in registries.items():
                    times[tools].append(timed_ms(lambda text=text, registry=registry: registry.route(text)))
    return times


def uncached_times(world: World, registry: Registry, texts: Sequence[str]) -> tuple[list[float], list[float]]:
    """Milliseconds of each route and of each bare embedding of the same text, in turn first and second."""
    embedder = world.embedder()
    for text in requests(20, seed=7):
        registry.route(text)
        embedder.embed([text], "query")
    routed, bare = [], []
    with collected_garbage():
        for number, text in enumerate(texts):
            arms = [
                (routed, lambda text=text: registry.route(text)),
                (bare, lambda text=text: embedder.embed([text], "query")),
            ]
            for times, work in arms if number % 2 else reversed(arms):
                times.append(timed_ms(work))
    return routed, bare


def timed_ms(work: Callable[[], object]) -> float:
    started = time.perf_counter()
    work()
    return (time.perf_counter() - started) * 1000


@contextmanager
def collected_garbage() -> Iterator[None]:
    """What came before is collected first, so that it does not fall into the measured time."""
    gc.collect()
    yield


def _cached_target(tools: int) -> Target | None:
    limit = CACHED_TARGETS_MS.get(tools)
    return Target(bound="at_most", value=limit) if limit else None


def _uncached_measures(tools: int, routed: Sequence[float], bare: Sequence[float]) -> list[Measure]:
    name = f"route, text to answer, {tools} tools"
    middle, bare_middle = percentile(routed, 0.5), percentile(bare, 0.5)
    return [
        Measure(name=f"{name}, p50", value=middle, unit="ms", target=P50),
        Measure(name=f"{name}, p95", value=percentile(routed, 0.95), unit="ms", target=P95),
        Measure(name="bare embedding of the same queries, p50", value=bare_middle, unit="ms"),
        Measure(name="bare embedding of the same queries, p95", value=percentile(bare, 0.95), unit="ms"),
        Measure(name=f"{name}, p50 / bare embedding's p50", value=middle / bare_middle, unit="×", target=TO_BARE),
    ]
