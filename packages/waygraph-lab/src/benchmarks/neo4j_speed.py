"""A registry on a Neo4j on this machine: ingest, routes, their round trips, and quality beside the embedded one."""

import gc
import socket
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import replace
from functools import partial
from statistics import median
from types import TracebackType
from typing import Self

from benchmarks.catalogue import requests
from benchmarks.livemcpbench import DATA
from benchmarks.neo4j_server import CALENDAR, LTS, Neo4jServer, NoServer, Release, start_server
from benchmarks.record import Measure, Result, Target
from benchmarks.timing import percentile, time_call
from benchmarks.world import World, scratch_folder, show_progress, with_cache, write_catalogue
from waygraph.ingest.sources.read import read_path
from waygraph.ingest.sync.apply import sync
from waygraph.registry.registry import Registry
from waygraph.registry.routing.recipes import HYBRID
from waygraph_lab.evaluation.run import Trial
from waygraph_lab.evaluation.run import run as run_trial

CHUNK_BYTES = 65_536
NAMES = {"neo4j_5_26": LTS, "neo4j_2026": CALENDAR}
TOOLS, QUICK_TOOLS, WARM_UP, REQUESTS, UNCHANGED_RUNS = 5_000, 500, 4_000, 600, 3
P50, P95 = Target(bound="at_most", value=15.0), Target(bound="at_most", value=30.0)
ONE = Target(bound="at_most", value=1.0)
INGEST, UNCHANGED = Target(bound="at_most", value=30.0), Target(bound="at_most", value=3.0)
NEAR = Target(bound="near", value=0.0, tolerance=0.02)
NOTES = (
    "Neo4j Community from its jars on the same machine, heap 1 GiB, page cache 64 MiB, default JVM settings.",
    "Route: wall-clock time of Registry.route (recipe hybrid, limit 5) of queries that are new, each embedded, after "
    f"{WARM_UP} other routes.",
    "Round trips: how often in a route the client speaks after the server has answered, counted in a relay between.",
    "Ingest: reading the file, planning and one transaction, vectors of all texts at hand; unchanged: the same again.",
)


def run(release_name: str, world: World) -> Result:
    tools = QUICK_TOOLS if world.quick else TOOLS
    try:
        with server(NAMES[release_name]) as started:
            measures = _prefix_names(NAMES[release_name], [*_speed(world, started, tools), *_quality(world, started)])
    except NoServer as reason:
        return Result(name=release_name, skipped=str(reason))
    return Result(
        name=release_name,
        embedder=world.embedder().fingerprint,
        measures=measures,
        notes=(f"Neo4j {NAMES[release_name].version}", *NOTES),
        details={"tools": tools, "requests": REQUESTS},
    )


def _prefix_names(release: Release, measures: list[Measure]) -> list[Measure]:
    """So that tables tell one release from the other, and both from the embedded engine."""
    return [replace(measure, name=f"Neo4j {release.version}: {measure.name}") for measure in measures]


@contextmanager
def server(release: Release) -> Iterator[Neo4jServer]:
    with scratch_folder() as folder, start_server(release, folder, heap="1g", measured=True) as started:
        yield started


def _speed(world: World, started: Neo4jServer, tools: int) -> list[Measure]:
    here = with_cache(world.settings, world.cache)
    with scratch_folder() as folder:
        source = str(write_catalogue(folder, tools))
        manifests = list(read_path(source, here))
        # Every text's vector is put into the cache: what is measured is the server.
        with Registry.open(":memory:", settings=here, environ=world.environ) as embedded:
            for manifest in manifests:
                sync(embedded, manifest, progress=show_progress("embedding"))
        with Registry.open(started.uri, settings=here, environ=world.environ) as registry:
            first, again = _ingest(registry, source), [_ingest(registry, source) for _ in range(UNCHANGED_RUNS)]
            routed, bare = _routes(world, registry)
        trips = _round_trips(world, started)
    route = f"route, text to answer, {tools} tools"
    return [
        Measure(name=f"ingest {tools} tools, vectors cached", value=first, unit="s", target=INGEST),
        Measure(name="unchanged again", value=median(again), unit="s", target=UNCHANGED),
        Measure(name=f"{route}, p50", value=median(routed), unit="ms", target=P50),
        Measure(name=f"{route}, p95", value=percentile(routed, 0.95), unit="ms", target=P95),
        Measure(name="bare embedding of the same queries, p50", value=median(bare), unit="ms"),
        Measure(name="round trips a route, most", value=float(max(trips)), target=ONE),
    ]


def _ingest(registry: Registry, source: str) -> float:
    began = time.perf_counter()
    for manifest in read_path(source, registry.settings):
        sync(registry, manifest)
    return time.perf_counter() - began


def _routes(world: World, registry: Registry) -> tuple[list[float], list[float]]:
    """Milliseconds of each route, and of each bare embedding of the same text, in turn."""
    texts, embedder = requests(WARM_UP + REQUESTS), world.embedder()
    for text in texts[:WARM_UP]:
        registry.route(text)
    gc.collect()
    routed, bare = [], []
    for text in texts[WARM_UP:]:
        routed.append(time_call(partial(registry.route, text)).ms)
        bare.append(time_call(partial(embedder.embed, [text], "query")).ms)
    return routed, bare


def _round_trips(world: World, started: Neo4jServer) -> list[int]:
    """Of each of some routes, over a connection that is open already."""
    with (
        Relay(started.port) as relay,
        Registry.open(f"bolt://127.0.0.1:{relay.port}", settings=world.settings, environ=world.environ) as registry,
    ):
        registry.route("a first one opens the connection")
        counts = []
        for text in requests(20, seed=3):
            before = relay.round_trips
            registry.route(text)
            counts.append(relay.round_trips - before)
    return counts


def _quality(world: World, started: Neo4jServer) -> list[Measure]:
    """R@5 of `hybrid` on LiveMCPBench steps on the server, and how far from the embedded registry's."""
    if not world.has(DATA):
        return []
    dataset = world.dataset(DATA)
    steps, trial = dataset.queries("steps"), Trial(recipe=HYBRID, texts="contextual", by="steps")
    with Registry.open(started.uri, settings=world.settings, environ=world.environ) as registry:
        for source in registry.sources():
            registry.operator.forget(source.name)
        sync(registry, dataset.catalogue, progress=show_progress("embedding"))
        on_server = run_trial(registry, trial, steps).agents["Recall@5"].value
    with world.registry_of([dataset.catalogue], texts="contextual") as registry:
        embedded = run_trial(registry, trial, steps).agents["Recall@5"].value
    return [
        Measure(name="LiveMCPBench steps, hybrid: R@5", value=on_server),
        Measure(name="the same, less the embedded registry's", value=on_server - embedded, target=NEAR),
    ]


class Relay:
    """Stands between a client and a server on loopback and counts how often the client speaks after an answer.

    `round_trips` counts over all connections.
    """

    def __init__(self, port: int) -> None:
        self._server_port = port
        self._listening = socket.create_server(("127.0.0.1", 0))
        self.port: int = self._listening.getsockname()[1]
        self.round_trips = 0
        self._lock = threading.Lock()
        self._open: list[socket.socket] = []

    def __enter__(self) -> Self:
        threading.Thread(target=self._accept, daemon=True).start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        for opened in (self._listening, *self._open):
            with suppress(OSError):
                opened.shutdown(socket.SHUT_RDWR)
            opened.close()

    def _accept(self) -> None:
        with suppress(OSError):  # closed at the end
            while True:
                client, _ = self._listening.accept()
                server = socket.create_connection(("127.0.0.1", self._server_port))
                self._open += [client, server]
                answered = threading.Event()
                answered.set()
                for source, target, speaks in ((client, server, True), (server, client, False)):
                    arguments = (source, target, answered, speaks)
                    threading.Thread(target=self._pass_on, args=arguments, daemon=True).start()

    def _pass_on(self, source: socket.socket, target: socket.socket, answered: threading.Event, speaks: bool) -> None:
        with suppress(OSError):  # closed at the end
            while data := source.recv(CHUNK_BYTES):
                if not speaks:
                    answered.set()
                elif answered.is_set():
                    answered.clear()
                    with self._lock:
                        self.round_trips += 1
                target.sendall(data)
