"""The benchmark `live_ingest`: how long many servers take to be in the registry, and how soon a change is."""

import json
import random
import sys
import threading
import time
import urllib.request
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing, contextmanager
from dataclasses import asdict, dataclass
from functools import partial
from pathlib import Path
from statistics import median
from typing import Any

import anyio

from benchmarks.ingest_speed import WorkTime, time_work
from benchmarks.processes import free_port, plain_environ, run_process, run_server, waygraph_command
from benchmarks.record import Measure, Result, Target
from benchmarks.timing import percentile
from benchmarks.world import World, scratch_folder, with_cache
from waygraph.ingest.sources.opening import Opening
from waygraph.ingest.watch.run import Watch, followed_sources, watching
from waygraph.registry.embedding.embedder import Embedder
from waygraph.registry.embedding.texts import TextForms
from waygraph.registry.model.changes import AgentEntry
from waygraph.registry.model.settings import Settings
from waygraph.registry.storage.local_registry import LocalRegistry

NAME = "live_ingest"
SERVERS, QUICK_SERVERS, TOOLS = 200, 10, 20
MOST_TO_BARE, MORE_S = 1.3, 3.0
UNCHANGED, SOON = Target(bound="at_most", value=3.0), Target(bound="at_most", value=300.0)
UNCHANGED_RUNS, WARM_UP = 3, 2
COLOURS = "amber azure beige coral crimson ebony indigo ivory jade lilac maroon ochre pearl ruby teal umber".split()
ANIMALS = "badger camel dingo egret ferret gecko heron ibis jackal koala lemur marmot narwhal otter quail".split()
NOTES = (
    "Servers: real MCP servers over HTTP on this machine, 20 tools each, all in one process of their own "
    "(benchmarks/watch/mcp_servers.py), each at its path; every text is distinct. Their work counts: it is done on the "
    "same processors.",
    "First sync: `Watch` in a new process over a configuration of 200 servers and a new registry, with the model on "
    "disk and nothing embedded yet, until every tool is in the registry. Bare: the same embedder is given the same "
    "distinct texts in one call. They run in turn. Unchanged: the same again in a new process, over the registry made.",
    "list_changed: a server of a watch that follows 200 adds a tool and tells of it; until `find_tools` gives it. "
    "From before the server is asked to add it.",
)
type Part = tuple[list[Measure], dict[str, Any]]


@dataclass(frozen=True, kw_only=True)
class Servers:
    """Running servers: `port` is where they listen, `folder` is scratch."""

    world: World
    embedder: Embedder
    folder: Path
    port: int
    names: Sequence[str]

    def write_config(self) -> Path:
        """A configuration of all servers."""
        path = self.folder / "many.json"
        entries = {name: {"type": "http", "url": f"http://127.0.0.1:{self.port}/{name}/mcp"} for name in self.names}
        path.write_text(json.dumps({"mcpServers": entries}), encoding="utf-8")
        return path

    def settings(self, cache: Path) -> Settings:
        """The vectors that are cached are those of this folder."""
        return with_cache(self.world.settings, cache)

    def open_registry(self, place: Path, settings: Settings) -> LocalRegistry:
        return LocalRegistry.open(place, settings=settings, environ=self.world.environ)

    def post(self, path: str, body: Mapping[str, Any] | None = None) -> Any:
        """To the servers' process."""
        request = urllib.request.Request(
            f"http://127.0.0.1:{self.port}{path}",
            data=json.dumps(body or {}).encode(),
            headers={"Content-Type": "application/json"},
            method="POST",
        )
        with urllib.request.urlopen(request, timeout=120) as answer:  # noqa: S310
            return json.load(answer)


def run(world: World) -> Result:
    servers = QUICK_SERVERS if world.quick else SERVERS
    with run_servers(world, servers, TOOLS) as running:
        parts = {
            "first": measure_first_sync(running, rounds=1 if world.quick else 2),
            "changes": measure_changes(running, times=5 if world.quick else 30),
        }
    return Result(
        name=NAME,
        embedder=running.embedder.fingerprint,
        measures=[measure for measures, _ in parts.values() for measure in measures],
        notes=NOTES,
        details={"servers": servers, "tools": TOOLS, **{name: details for name, (_, details) in parts.items()}},
    )


@contextmanager
def run_servers(world: World, servers: int, tools: int) -> Iterator[Servers]:
    """`tools` of each server."""
    port = free_port()
    command = [sys.executable, "-m", "benchmarks.watch.mcp_servers", str(port), str(servers), str(tools)]
    with scratch_folder() as folder, run_server(command, port, world.environ, folder / "servers.log"):
        names = [f"server-{number}" for number in range(servers)]
        yield Servers(world=world, embedder=world.embedder(), folder=folder, port=port, names=names)


# -- the first sync ----------------------------------------------------------------------------------


def measure_first_sync(servers: Servers, *, rounds: int) -> Part:
    config = servers.write_config()
    firsts, bares, unchanged = [], [], []
    place, texts = servers.folder, list[str]()
    for number in range(rounds):
        folder = servers.folder / f"first-{number}"
        place, settings = folder / "r.grafeo", servers.settings(folder / "cache")
        firsts.append(time_work(partial(_watch_once, servers, config, place, settings)))
        texts = _embedded_texts(servers, place)
        bares.append(time_work(partial(servers.embedder.embed, texts, "document")))
        unchanged.append(time_work(partial(_watch_once, servers, config, place, settings)))
    command = waygraph_command("--registry", str(place), "watch", str(config), "--once")
    environ = plain_environ(servers.world.environ)
    processes = [run_process(command, environ).seconds for _ in range(UNCHANGED_RUNS)]
    times = {"first": firsts, "bare": bares, "unchanged": unchanged}
    details = {name: [asdict(each) for each in taken] for name, taken in times.items()}
    return _first_measures(len(servers.names), firsts, bares, unchanged, processes), {"texts": len(texts), **details}


def _first_measures(
    servers: int, firsts: list[WorkTime], bares: list[WorkTime], unchanged: list[WorkTime], processes: list[float]
) -> list[Measure]:
    bare = median(each.seconds for each in bares)
    allowed = Target(bound="at_most", value=round(MOST_TO_BARE * bare + MORE_S, 2))
    name, running = f"first sync of {servers} servers", f"{servers} servers, unchanged, in a running process"
    return [
        Measure(name=name, value=median(each.seconds for each in firsts), unit="s", target=allowed),
        Measure(name="bare embedding of the texts of their tools", value=bare, unit="s"),
        Measure(
            name=f"`waygraph watch --once` of {servers} servers, unchanged, whole process",
            value=median(processes),
            unit="s",
            target=UNCHANGED,
        ),
        Measure(name=running, value=median(each.seconds for each in unchanged), unit="s", target=UNCHANGED),
    ]


def _embedded_texts(servers: Servers, place: Path) -> list[str]:
    """What the registry's vectors were made of."""
    forms = TextForms(form="contextual", max_chars=servers.world.settings.max_embedded_chars)
    with servers.open_registry(place, servers.world.settings) as registry:
        entries = [AgentEntry(key=a.id, agent=a, tools=tuple(registry.tools(a.id))) for a in registry.agents()]
    return list(dict.fromkeys(text for parts in forms.of_entries(entries).values() for text in parts.texts))


# -- changes -----------------------------------------------------------------------------------------


def measure_changes(servers: Servers, *, times: int) -> Part:
    """Each time of another server; the first two times warm up and do not count. After `measure_first_sync`."""
    folder = servers.folder / "first-0"
    settings = servers.settings(folder / "cache")
    with (
        closing(servers.open_registry(folder / "r.grafeo", settings)) as registry,
        watch_in_thread(_watch(registry, servers.write_config(), settings)),
    ):
        tools = registry.status().state.tools
        _wait(lambda: servers.post("/followed")["followed"] >= len(servers.names), "every server is followed")
        taken = [_change_ms(servers, registry, number) for number in range(times + WARM_UP)][WARM_UP:]
    name = f"list_changed of one server until its new tool is found, among {tools} tools"
    return [
        Measure(name=f"{name}, median", value=median(taken), unit="ms", target=SOON),
        Measure(name=f"{name}, 95th percentile", value=percentile(taken, 0.95), unit="ms"),
    ], {"tools": tools, "milliseconds": [round(each, 1) for each in taken]}


def _change_ms(servers: Servers, registry: LocalRegistry, number: int) -> float:
    server = servers.names[number % len(servers.names)]
    colour, animal = COLOURS[number % len(COLOURS)], ANIMALS[number // len(COLOURS) % len(ANIMALS)]
    name = f"paint_{colour}_{animal}"
    tool = f"{server}/{name}"
    time.sleep(random.Random(number).uniform(0.5, 1.5))  # noqa: S311 - at no fixed beat of anything else
    stamp = registry.stamp
    start = time.perf_counter()
    body = {"name": name, "description": f"Paints the {animal} in {colour} on a wall of stone."}
    servers.post(f"/{server}/tools", body)

    def is_found() -> bool:
        if registry.stamp == stamp:  # asked cheaply, so that asking takes nothing from what is measured
            return False
        return tool in {match.tool.id for match in registry.find_tools(f"paint the {animal} {colour}").matches}

    return (_wait(is_found, tool, 60) - start) * 1000


# -- watches -----------------------------------------------------------------------------------------


def _watch(registry: LocalRegistry, config: Path, settings: Settings, *, once: bool = False) -> Watch:
    sources = followed_sources([str(config)], [], Opening(settings=settings))
    return Watch(registry, sources, watching(settings, lambda _: None, once=once))


def _watch_once(servers: Servers, config: Path, place: Path, settings: Settings) -> None:
    """From a registry that is opened to all of its servers written."""
    with closing(servers.open_registry(place, settings)) as registry:
        anyio.run(partial(_watch(registry, config, settings, once=True).run, once=True))


@contextmanager
def watch_in_thread(watch: Watch) -> Iterator[None]:
    """The watch goes on in a thread of its own while the block is done. Raises what it raised."""
    stop = threading.Event()

    async def run_until_stopped() -> None:
        async with anyio.create_task_group() as group:
            group.start_soon(watch.run)
            while not stop.is_set():
                await anyio.sleep(0.02)
            group.cancel_scope.cancel()

    with ThreadPoolExecutor(1, "watch") as pool:
        running = pool.submit(anyio.run, run_until_stopped)
        try:
            yield
        finally:
            stop.set()
        running.result()


def _wait(condition: Callable[[], bool], what: str, timeout_s: float = 600.0) -> float:
    """When it holds, by the clock of `perf_counter`. Raises TimeoutError."""
    deadline = time.perf_counter() + timeout_s
    while not condition():
        if time.perf_counter() > deadline:
            raise TimeoutError(f"not within {timeout_s:g} s: {what}")
        time.sleep(0.005)
    return time.perf_counter()
