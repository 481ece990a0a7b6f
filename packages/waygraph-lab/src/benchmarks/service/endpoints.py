"""The endpoints under load: the service over a registry on disk, and the bare endpoint over the same matrix."""

import json
import subprocess
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import closing, contextmanager
from dataclasses import asdict, dataclass, replace
from http.client import HTTPConnection
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.process_speed import model_files
from benchmarks.processes import Server, free_port, plain_environ, python_module, run_server, waygraph_command
from benchmarks.service import bare_endpoint
from benchmarks.service.load import Job, Tally
from benchmarks.world import World, scratch_folder, show_progress, with_cache, write_catalogue
from waygraph.ingest.sources.read import read_path
from waygraph.ingest.sync.apply import sync
from waygraph.registry.access.api_keys import KeyFile
from waygraph.registry.graph.read import read_vectors
from waygraph.registry.registry import Registry
from waygraph.registry.storage.local_registry import LocalRegistry

ROUTE, MANIFESTS = "/v1/route", "/v1/manifests"
LIMIT, INGEST_S = 5, 60


@dataclass(frozen=True, slots=True, kw_only=True)
class LoadResult:
    """A load that is over. `whole_s` is its time with the warm-up, which processor times are of."""

    tally: Tally
    server_cpu_s: float
    whole_s: float

    @property
    def server_cpus(self) -> float:
        """How many processors the server had at work."""
        return self.server_cpu_s / self.whole_s

    @property
    def generator_cpus(self) -> float:
        return self.tally.cpu_s / self.whole_s


@dataclass(frozen=True, slots=True, kw_only=True)
class Endpoint:
    """A server to load, and what a request to it needs."""

    server: Server
    headers: Mapping[str, str]

    def load(self, texts: Sequence[str], *, clients: int, warm_up_s: float, seconds: float) -> LoadResult:
        """POST /v1/route of these texts, from a process of its own.

        Raises RuntimeError if the generator failed, had too few requests, or got no answer in time.
        """
        job = Job(
            port=self.server.port,
            path=ROUTE,
            headers=self.headers,
            bodies=[json.dumps({"text": text, "limit": LIMIT}) for text in texts],
            clients=clients,
            warm_up_s=warm_up_s,
            seconds=seconds,
        )
        cpu_start = self.server.cpu_s()
        generator = subprocess.run(
            python_module("benchmarks.service.load"),
            input=json.dumps(asdict(job)),
            stdout=subprocess.PIPE,
            text=True,
            check=False,
        )
        if generator.returncode:
            raise RuntimeError("the load generator failed; it says why above")
        tally = Tally(**json.loads(generator.stdout))
        if tally.used_up:
            raise RuntimeError("the load generator ran out of requests: give it more")
        if not tally.latency_ms:
            raise RuntimeError(f"port {self.server.port} answered nothing in {seconds:g} s")
        return LoadResult(tally=tally, server_cpu_s=self.server.cpu_s() - cpu_start, whole_s=warm_up_s + seconds)

    def ingest(self, manifest: Mapping[str, Any]) -> float:
        """POST /v1/manifests: seconds until it is answered. Raises RuntimeError if it is refused."""
        body = json.dumps({"source": "beside", "manifest": manifest})
        with closing(HTTPConnection("127.0.0.1", self.server.port, timeout=INGEST_S)) as connection:
            start = time.perf_counter()
            connection.request("POST", MANIFESTS, body, {**self.headers, "Content-Type": "application/json"})
            answer = connection.getresponse()
            content, seconds = answer.read(), time.perf_counter() - start
        if answer.status != 200 or json.loads(content)["problem"]:
            raise RuntimeError(f"the service refused a manifest: {content[:300]!r}")
        return seconds


@dataclass(frozen=True, slots=True, kw_only=True)
class Endpoints:
    """A folder with a registry of generated tools, the matrix and keys. `embedder` is a fingerprint."""

    folder: Path
    world: World
    tools: int
    embedder: str

    @property
    def registry(self) -> Path:
        return self.folder / "bench.grafeo"

    @contextmanager
    def service(self) -> Iterator[Endpoint]:
        """`waygraph serve` as it comes, with an API key; no caller is slowed."""
        _, key = KeyFile(self.folder / "keys.json").create("bench", ("route", "write"), everything=True)
        port = free_port()
        command = waygraph_command("--registry", str(self.registry), "serve", "--port", str(port))
        with run_server(command, port, self._environ(), self.folder / "service.log") as server:
            yield Endpoint(server=server, headers={"Authorization": f"Bearer {key}"})

    @contextmanager
    def bare(self) -> Iterator[Endpoint]:
        """With every library as it comes."""
        port = free_port()
        files = model_files(self.world.settings)
        command = python_module(bare_endpoint.__name__, str(self.folder), str(port), *files)
        with run_server(command, port, self._environ(), self.folder / "bare.log") as server:
            yield Endpoint(server=server, headers={})

    def _environ(self) -> dict[str, str]:
        return plain_environ(self.world.environ) | {
            "WAYGRAPH_CACHE_DIR": self.world.settings.cache_dir,
            "WAYGRAPH_DATA_DIR": str(self.folder),
            "WAYGRAPH_KEYS_FILE": str(self.folder / "keys.json"),
            "WAYGRAPH_RATE_PER_MINUTE": "0",
        }


@contextmanager
def open_endpoints(world: World, tools: int) -> Iterator[Endpoints]:
    with scratch_folder() as folder:
        endpoints = Endpoints(
            folder=folder,
            world=replace(world, settings=with_cache(world.settings, folder / "cache")),
            tools=tools,
            embedder=fill_registry(world, folder / "bench.grafeo", tools),
        )
        _write_matrix(endpoints)
        yield endpoints


def fill_registry(world: World, place: Path, tools: int) -> str:
    """The fingerprint of the embedder. Vectors are of the benchmarks' own cache."""
    settings = with_cache(world.settings, world.cache)
    with Registry.open(place, settings=settings, environ=world.environ) as registry:
        for manifest in read_path(str(write_catalogue(place.parent, tools)), settings):
            sync(registry, manifest, progress=show_progress("embedding"))
        return registry.status().state.embedder


def _write_matrix(endpoints: Endpoints) -> None:
    """What the registry holds, in the form that the bare endpoint reads."""
    world = endpoints.world
    with LocalRegistry.open(endpoints.registry, settings=world.settings, environ=world.environ) as registry:
        agents, tools = [[each.id for each in listed] for listed in (registry.agents(), registry.tools())]
        vectors = registry.read(lambda session: read_vectors(session, agents=agents, tools=tools))
    ids = [each for each in (*agents, *tools) if each in vectors]
    np.save(endpoints.folder / bare_endpoint.MATRIX, np.stack([vectors[each] for each in ids]))
    (endpoints.folder / bare_endpoint.IDS).write_text(json.dumps(ids), encoding="utf-8")
