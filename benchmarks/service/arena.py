"""What is loaded: a registry on disk, the service over it, and the bare endpoint over the same matrix."""

import json
import shutil
import subprocess
from collections.abc import Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, ExitStack, contextmanager
from dataclasses import asdict, dataclass, replace
from itertools import islice
from pathlib import Path

from benchmarks.process_speed import model_files
from benchmarks.processes import plain, waygraph_command
from benchmarks.service import bare
from benchmarks.service.load import Job, Tally
from benchmarks.service.servers import Server, free_port, python_module, serving
from benchmarks.world import World, scratch_folder, shown, with_cache, write_catalogue
from waygraph.ingest.sources.read import read_path
from waygraph.ingest.sync.apply import sync
from waygraph.registry.access.api_keys import KeyFile
from waygraph.registry.index.local import generation
from waygraph.registry.index.local.generation import folder_of, lease_current
from waygraph.registry.registry import Registry

ROUTE = "/v1/route"
LIMIT = 5
ONE_BLAS_THREAD = {"OPENBLAS_NUM_THREADS": "1"}
"""For the tuned endpoint: by default each of its threads starts some for the matrix, and they wait for each other."""
MOST_A_SECOND = 1_200
"""Bodies are made for so many requests a second: more than either server answers."""


@dataclass(slots=True, kw_only=True)
class Queries:
    """What is asked: each text once."""

    texts: Iterator[str]

    def take(self, count: int) -> list[str]:
        """The next so many."""
        return list(islice(self.texts, count))


@dataclass(frozen=True, slots=True, kw_only=True)
class Endpoint:
    """A server to load, and what a request to it needs."""

    server: Server
    headers: Mapping[str, str]

    def load(self, texts: Sequence[str], *, clients: int, warm_up_s: float, seconds: float) -> "Loaded":
        """POST /v1/route of these texts, from a process of its own."""
        return self.begin(texts, clients=clients, warm_up_s=warm_up_s, seconds=seconds).result()

    def begin(
        self,
        texts: Sequence[str],
        *,
        clients: int,
        warm_up_s: float,
        seconds: float,
        patterns: Sequence[str] = (),
    ) -> "Loading":
        """The same, in the background."""
        job = Job(
            port=self.server.port,
            path=ROUTE,
            headers=self.headers,
            bodies=[json.dumps({"text": text, "limit": LIMIT}) for text in texts],
            clients=clients,
            warm_up_s=warm_up_s,
            seconds=seconds,
            patterns=patterns,
        )
        return Loading(self.server, job)


class Loading:
    """A load generator that runs."""

    def __init__(self, server: Server, job: Job) -> None:
        self._server, self._used = server, server.cpu_s()
        self._process = subprocess.Popen(
            python_module("benchmarks.service.load"),
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )
        assert self._process.stdin is not None
        self._process.stdin.write(json.dumps(asdict(job)))
        self._process.stdin.close()
        self._warm_up_s = job.warm_up_s

    def stop(self) -> None:
        """Before its time."""
        self._process.terminate()

    def result(self) -> "Loaded":
        """Raises RuntimeError if the generator failed, had too few requests, or got no answer in time."""
        assert self._process.stdout is not None
        said = self._process.stdout.read()
        if self._process.wait():
            raise RuntimeError("the load generator failed; it says why above")
        tally = Tally(**json.loads(said))
        if tally.used_up:
            raise RuntimeError("the load generator ran out of requests: give it more")
        if not tally.latency_ms:
            raise RuntimeError(f"port {self._server.port} answered nothing in {tally.seconds:g} s")
        return Loaded(
            tally=tally, server_cpu_s=self._server.cpu_s() - self._used, whole_s=self._warm_up_s + tally.seconds
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class Loaded:
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
class Arena:
    """A folder with a registry of invented tools, the matrix and keys."""

    folder: Path
    world: World
    tools: int
    embedder: str

    @property
    def registry(self) -> Path:
        return self.folder / "bench.grafeo"

    @property
    def keys(self) -> KeyFile:
        return KeyFile(self.folder / "keys.json")

    @contextmanager
    def service(self, *options: str) -> Iterator[Endpoint]:
        """`waygraph serve` as it comes, with API keys; no caller is slowed."""
        _, key = self.keys.create("bench", ("route", "read", "write", "cypher"), everything=True)
        port = free_port()
        command = waygraph_command("--registry", str(self.registry), "serve", "--port", str(port), *options)
        with serving(command, port, self._environ(), self.folder / "service.log") as server:
            yield Endpoint(server=server, headers={"Authorization": f"Bearer {key}"})

    def bare(self) -> AbstractContextManager[Endpoint]:
        """With every library as it comes."""
        return self._bare("benchmarks.service.bare", model_files(self.world.settings), {})

    def tuned(self) -> AbstractContextManager[Endpoint]:
        """With the threads that are best here."""
        return self._bare("benchmarks.service.tuned", (), ONE_BLAS_THREAD)

    @contextmanager
    def _bare(self, module: str, files: Sequence[str], environ: Mapping[str, str]) -> Iterator[Endpoint]:
        port = free_port()
        command = python_module(module, str(self.folder), str(port), *files)
        with serving(command, port, {**self._environ(), **environ}, self.folder / f"{module}.log") as server:
            yield Endpoint(server=server, headers={})

    def _environ(self) -> dict[str, str]:
        return plain(self.world.environ) | {
            "WAYGRAPH_CACHE_DIR": self.world.settings.cache_dir,
            "WAYGRAPH_DATA_DIR": str(self.folder),
            "WAYGRAPH_KEYS_FILE": str(self.folder / "keys.json"),
            "WAYGRAPH_RATE_PER_MINUTE": "0",
        }


@contextmanager
def arena(world: World, tools: int) -> Iterator[Arena]:
    """The service has a cache of its own: what a sync embeds was never embedded before."""
    with ExitStack() as stack:
        folder = stack.enter_context(scratch_folder())
        made = Arena(
            folder=folder,
            world=replace(world, settings=with_cache(world.settings, folder / "cache")),
            tools=tools,
            embedder=_fill(world, folder / "bench.grafeo", tools),
        )
        _lay_out_matrix(made)
        yield made


def _fill(world: World, place: Path, tools: int) -> str:
    """The fingerprint of the embedder. Vectors are of the benchmarks' own cache."""
    here = with_cache(world.settings, world.cache)
    with Registry.open(place, settings=here, environ=world.environ) as registry:
        for manifest in read_path(str(write_catalogue(place.parent, tools)), here):
            sync(registry, manifest, progress=shown("embedding"))
        return registry.status().state.embedder


def _lay_out_matrix(made: Arena) -> None:
    """What the registry has published, in the form that the bare endpoint reads."""
    published = lease_current(folder_of(made.registry)).path
    shutil.copy(published / generation.VECTORS, made.folder / bare.MATRIX)
    tables = json.loads((published / generation.TABLES).read_bytes())
    ids = [*(agent["id"] for agent in tables["agents"]), *tables["tool_ids"]]
    (made.folder / bare.IDS).write_text(json.dumps(ids), encoding="utf-8")
