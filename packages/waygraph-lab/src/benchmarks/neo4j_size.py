"""A large registry on a Neo4j on this machine: loading it in parts, routes, one agent's change, memory.

Vectors are made of words, not by a model: what is measured is the server.
"""

import json
import os
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import partial
from itertools import islice
from pathlib import Path
from statistics import median
from typing import TYPE_CHECKING, Any, NamedTuple
from zlib import crc32

import numpy as np

from benchmarks.catalogue import all_agents, all_requests
from benchmarks.contributed import install, on_path
from benchmarks.neo4j_server import LTS, Neo4jServer, NoServer, start_server
from benchmarks.processes import processor_s, status_mib
from benchmarks.record import Measure, Result
from benchmarks.timing import percentile_measures, time_call
from benchmarks.world import World, scratch_folder, with_cache
from waygraph.ingest.sources.read import read_path
from waygraph.ingest.sync.apply import sync
from waygraph.registry.embedding.embedder import GROUP, EmbedderSpec, Progress, Role
from waygraph.registry.model.settings import Settings
from waygraph.registry.registry import Registry

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from waygraph.registry.embedding.embedder import Matrix

QUICK_TOOLS, PART_TOOLS, REQUESTS, CHANGES = 500, 2_000, 300, 10
WARM_UP, QUICK_WARM_UP = 4_000, 100
"""So many routes until the server's compiler has done its work."""
DIMENSION = 384
EMBEDDER = f"generated:{DIMENSION}"


class Size(NamedTuple):
    """`heap` and `page_cache` as Neo4j takes them."""

    tools: int
    heap: str
    page_cache: str


SIZES: Mapping[str, Size] = {
    "neo4j_20k": Size(20_000, "1g", "256m"),
    "neo4j_100k": Size(100_000, "2g", "1g"),
    "neo4j_1m": Size(1_000_000, "6g", "8g"),
}
NOTES = (
    f"Neo4j {LTS.version} Community from its jars on the same machine, default JVM settings.",
    f"Loaded in parts of about {PART_TOOLS} tools, each a source and a transaction of its own; the time of reading the "
    "file, planning and making vectors is in it.",
    f"Vectors of {DIMENSION} numbers: sums of a random vector for each word. HNSW is searched as with a model's.",
    f"Route: wall-clock time of Registry.route (recipe hybrid, limit 5) of new queries after {WARM_UP} others.",
    "A change: the description of an agent of ten tools, in a process that stays; and the first route after it. "
    f"Medians of {CHANGES} after as many others.",
    "Memory: VmRSS and VmHWM of /proc/PID/status; the server's page cache and heap are as large as they may become.",
)


class WordVectors:
    """An embedder: the sum of a random vector for each word, of length 1. Implements Embedder."""

    def __init__(self, dimension: int) -> None:
        self.dimension, self.fingerprint = dimension, f"generated:words-{dimension}"
        self._words: dict[str, NDArray[np.float32]] = {}

    def embed(self, texts: Sequence[str], role: Role, *, progress: Progress | None = None) -> "Matrix":  # noqa: ARG002
        """float32 of shape (len(texts), dimension)."""
        rows = np.zeros((len(texts), self.dimension), dtype=np.float32)
        for number, text in enumerate(texts):
            for word in text.lower().split():
                rows[number] += self._word(word)
        lengths = np.linalg.norm(rows, axis=1, keepdims=True)
        rows /= np.where(lengths == 0, 1, lengths)
        return rows

    def _word(self, word: str) -> "NDArray[np.float32]":
        vector = self._words.get(word)
        if vector is None:
            vector = np.random.default_rng(crc32(word.encode())).normal(size=self.dimension).astype(np.float32)
            self._words[word] = vector
        return vector


def open_generated(spec: EmbedderSpec, settings: Settings, environ: Mapping[str, str]) -> WordVectors:  # noqa: ARG001
    """As an entry point of `waygraph.embedders` is called."""
    return WordVectors(int(spec.model))


def run(name: str, world: World) -> Result:
    size = SIZES[name]
    tools = QUICK_TOOLS if world.quick else size.tools
    try:
        with _opened(world, size) as (folder, server, registry):
            processes = {"client": os.getpid(), "server": server.pid}
            before = {each: processor_s(pid) for each, pid in processes.items()}
            part_times = _load(registry, folder, tools)
            measures = [
                Measure(name=f"loading, processor time of the {each}", value=processor_s(pid) - before[each], unit="s")
                for each, pid in processes.items()
            ]
            measures += [*_loading(part_times), *_routes(registry, QUICK_WARM_UP if world.quick else WARM_UP)]
            measures += [*_changes(registry, folder), *_memory(server)]
    except NoServer as reason:
        return Result(name=name, skipped=str(reason))
    named = f"Neo4j {LTS.version}, {tools} tools"
    return Result(
        name=name,
        embedder=EMBEDDER,
        measures=[Measure(name=f"{named}: {each.name}", value=each.value, unit=each.unit) for each in measures],
        notes=NOTES,
        details={"tools": tools, "heap": size.heap, "page_cache": size.page_cache, "parts": part_times},
    )


@contextmanager
def _opened(world: World, size: Size) -> Iterator[tuple[Path, Neo4jServer, Registry]]:
    with scratch_folder() as folder:
        install(folder, "generated-vectors", {}, {"generated": f"{__name__}:{open_generated.__name__}"}, group=GROUP)
        settings = with_cache(world.settings, folder / "cache")
        with (
            on_path(folder),
            start_server(LTS, folder / "server", heap=size.heap, page_cache=size.page_cache, measured=True) as server,
            Registry.open(server.uri, embedder=EMBEDDER, settings=settings, environ=world.environ) as registry,
        ):
            yield folder, server, registry


def _load(registry: Registry, folder: Path, tools: int) -> list[tuple[int, float]]:
    """Tools and seconds of each part."""
    agents, loaded = all_agents(tools), 0
    part_times: list[tuple[int, float]] = []
    while part := _next_part(agents):
        count = sum(len(agent["tools"]) for agent in part)
        part_times.append((count, _ingest(registry, folder / f"part-{len(part_times):04}.json", part)))
        loaded += count
        print(f"loaded {loaded} of {tools}: {part_times[-1][1]:.1f} s", flush=True)
    return part_times


def _next_part(agents: Iterator[dict[str, Any]]) -> list[dict[str, Any]]:
    part: list[dict[str, Any]] = []
    count = 0
    for agent in agents:
        part.append(agent)
        count += len(agent["tools"])
        if count >= PART_TOOLS:
            break
    return part


def _ingest(registry: Registry, path: Path, agents: Sequence[dict[str, Any]]) -> float:
    """Seconds. The file is gone afterwards."""
    path.write_text(json.dumps({"waygraph": 1, "agents": agents}), encoding="utf-8")
    start = time.perf_counter()
    for manifest in read_path(str(path), registry.settings):
        sync(registry, manifest)
    seconds = time.perf_counter() - start
    path.unlink()
    return seconds


def _loading(part_times: Sequence[tuple[int, float]]) -> list[Measure]:
    def rate(parts: Sequence[tuple[int, float]]) -> float:
        return sum(count for count, _ in parts) / sum(seconds for _, seconds in parts)

    last = part_times[-max(1, len(part_times) // 10) :]
    return [
        Measure(name="loading in parts", value=sum(seconds for _, seconds in part_times), unit="s"),
        Measure(name="loading, mean", value=rate(part_times), unit="tools/s"),
        Measure(name="loading, the last tenth", value=rate(last), unit="tools/s"),
    ]


def _routes(registry: Registry, warm_up: int) -> list[Measure]:
    texts = all_requests()
    for text in islice(texts, warm_up):
        registry.route(text)
    times = [time_call(partial(registry.route, text)).ms for text in islice(texts, REQUESTS)]
    return percentile_measures("route", times)


def _changes(registry: Registry, folder: Path) -> list[Measure]:
    """Of one agent, which is the whole of its source."""
    agent = next(all_agents(10, seed=1)) | {"id": "one-that-changes"}
    path = folder / "one.json"
    added = _ingest(registry, path, [agent])
    changes, routes = [], []
    for number in range(2 * CHANGES):
        changes.append(_ingest(registry, path, [agent | {"description": f"{agent['description']} ({number})"}]))
        routes.append(time_call(partial(registry.route, f"change {number} of a table")).ms)
    return [
        Measure(name="one agent more", value=added, unit="s"),
        Measure(name="one agent's change", value=median(changes[CHANGES:]), unit="s"),
        Measure(name="the first route after a change", value=median(routes[CHANGES:]), unit="ms"),
    ]


def _memory(server: Neo4jServer) -> list[Measure]:
    disk = sum(path.stat().st_size for path in (server.folder / "data").rglob("*") if path.is_file())
    return [
        Measure(name="the server's resident memory", value=status_mib(server.pid, "VmRSS:"), unit="MiB"),
        Measure(name="the server's peak", value=status_mib(server.pid, "VmHWM:"), unit="MiB"),
        Measure(name="the client's peak, loading included", value=status_mib(os.getpid(), "VmHWM:"), unit="MiB"),
        Measure(name="on disk, with the log of transactions", value=disk / 2**20, unit="MiB"),
    ]
