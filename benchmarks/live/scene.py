"""What is measured against: servers in a process of their own, configurations of them, and watches over these."""

import json
import sys
import threading
import time
import urllib.request
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing, contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import anyio

from benchmarks.service.servers import free_port, serving
from benchmarks.world import World, scratch_folder, with_cache
from waygraph.ingest.sources.resolve import Opening
from waygraph.ingest.watch.events import WatchEvent
from waygraph.ingest.watch.run import Watch
from waygraph.ingest.watch.start import followed_sources, watching
from waygraph.registry.embedding.embedder import Embedder
from waygraph.registry.model.settings import Settings
from waygraph.registry.registry import Registry

SILENT = "silent"
"""The server that never answers."""


@dataclass(frozen=True, kw_only=True)
class Scene:
    """`folder` is scratch; `port` is where the servers listen; `pid` is theirs."""

    world: World
    embedder: Embedder
    folder: Path
    port: int
    names: Sequence[str]
    tools: int
    """Of each server."""

    def config(self, name: str, servers: Sequence[str]) -> Path:
        """A configuration of these servers."""
        path = self.folder / f"{name}.json"
        named = {server: {"type": "http", "url": f"http://127.0.0.1:{self.port}/{server}/mcp"} for server in servers}
        path.write_text(json.dumps({"mcpServers": named}), encoding="utf-8")
        return path

    def settings(self, cache: Path) -> Settings:
        """The vectors that are kept are those of this folder."""
        return with_cache(self.world.settings, cache)

    def open(self, place: Path, settings: Settings) -> Registry:
        return Registry.open(place, settings=settings, environ=self.world.environ)

    def ask(self, path: str, body: Mapping[str, Any] | None = None) -> Any:
        """A POST to the servers' process."""
        request = urllib.request.Request(
            f"http://127.0.0.1:{self.port}{path}",
            data=json.dumps(body or {}).encode(),
            headers={"Content-Type": "application/json"},
            method="POST",
        )
        with urllib.request.urlopen(request, timeout=120) as answer:  # noqa: S310
            return json.load(answer)


@contextmanager
def scene(world: World, servers: int, tools: int) -> Iterator[Scene]:
    port = free_port()
    command = [sys.executable, "-m", "benchmarks.live.stubs", str(port), str(servers), str(tools)]
    with scratch_folder() as folder, serving(command, port, world.environ, folder / "servers.log"):
        yield Scene(
            world=world,
            embedder=world.embedder(),
            folder=folder,
            port=port,
            tools=tools,
            names=[f"server-{number}" for number in range(servers)],
        )


def watch_of(
    registry: Registry,
    config: Path,
    settings: Settings,
    tell: Callable[[WatchEvent], None] = lambda _: None,
    *,
    once: bool = False,
) -> Watch:
    sources = followed_sources([str(config)], [], Opening(settings=settings))
    return Watch(registry, sources, watching(settings, tell, once=once))


def watched_once(made: Scene, config: Path, place: Path, settings: Settings) -> None:
    """From a registry that is opened to all of its servers written."""
    with closing(made.open(place, settings)) as registry:
        watch = watch_of(registry, config, settings, once=True)
        anyio.run(_once, watch)


async def _once(watch: Watch) -> None:
    await watch.run(once=True)


def at_interval(settings: Settings, seconds: float) -> Settings:
    return replace(settings, watch_poll_s=seconds)


@contextmanager
def watching_beside(watch: Watch) -> Iterator[None]:
    """The watch goes on in a thread of its own while the block is done. Raises what it raised."""
    stop = threading.Event()

    async def run() -> None:
        async with anyio.create_task_group() as group:
            group.start_soon(watch.run)
            while not stop.is_set():
                await anyio.sleep(0.02)
            group.cancel_scope.cancel()

    with ThreadPoolExecutor(1, "watch") as pool:
        running = pool.submit(anyio.run, run)
        try:
            yield
        finally:
            stop.set()
        running.result()


def until(holds: Callable[[], bool], what: str, timeout_s: float = 600.0) -> float:
    """When it does, by the clock of `perf_counter`. Raises TimeoutError."""
    give_up = time.perf_counter() + timeout_s
    while not holds():
        if time.perf_counter() > give_up:
            raise TimeoutError(f"not within {timeout_s:g} s: {what}")
        time.sleep(0.005)
    return time.perf_counter()


def tools_in(registry: Registry) -> int:
    return registry.status().state.tools if registry.exists else 0
