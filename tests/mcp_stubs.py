"""MCP servers for tests: over HTTP in this process, over standard input as programs; and watches over them."""

import json
import sys
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import httpx2
import uvicorn

from benchmarks.watch.benchmark import watch_in_thread
from benchmarks.watch.mcp_servers import application, stubs
from tests.live_http import free_port
from waygraph import Settings
from waygraph.ingest.sources.opening import Opening
from waygraph.ingest.watch.events import WatchEvent
from waygraph.ingest.watch.run import Watch, followed_sources, watching
from waygraph.registry.model.changes import Policy
from waygraph.registry.storage.local_registry import LocalRegistry

PATIENCE_S = 60.0
ROOT = Path(__file__).parents[1]
TIDE_TABLES = """
from mcp.server import MCPServer
server = MCPServer("tide tables", version="1.2", instructions="Tides at harbours.")

@server.tool()
async def tides(harbour: str) -> str:
    "High and low water at a harbour."
    return "low"

server.run()
"""
"""A program."""


@dataclass
class Servers:
    """`server-0` and on, each at its path; `silent` never answers."""

    port: int

    def url(self, name: str) -> str:
        return f"http://127.0.0.1:{self.port}/{name}/mcp"

    def add(self, name: str, tool: str, description: str = "A new one.") -> None:
        """The server has one tool more, and tells of it."""
        said = {"name": tool, "description": description}
        httpx2.post(f"http://127.0.0.1:{self.port}/{name}/tools", json=said, timeout=PATIENCE_S).raise_for_status()

    def flood(self, name: str, seconds: float) -> int:
        """Tells of changes all the time; how often."""
        url = f"http://127.0.0.1:{self.port}/{name}/flood?seconds={seconds:g}"
        return int(httpx2.post(url, timeout=PATIENCE_S).json()["told"])

    def asked(self, what: str) -> int:
        return int(httpx2.post(f"http://127.0.0.1:{self.port}/{what}", timeout=PATIENCE_S).json()[what])


@contextmanager
def http_servers(servers: int, tools: int = 3) -> Iterator[Servers]:
    port = free_port()
    app = application(stubs(servers, tools))
    config = uvicorn.Config(app, host="127.0.0.1", port=port, log_config=None, timeout_graceful_shutdown=1)
    server = uvicorn.Server(config)
    thread = threading.Thread(target=server.run)
    thread.start()
    until(lambda: server.started, "the servers listen")
    try:
        yield Servers(port)
    finally:
        server.should_exit = True
        thread.join()


def write_config(path: Path, servers: Mapping[str, Mapping[str, Any] | str]) -> Path:
    """A configuration of these: a text is an address."""
    named = {key: {"type": "http", "url": said} if isinstance(said, str) else said for key, said in servers.items()}
    write_at_once(path, json.dumps({"mcpServers": named}))
    return path


def write_at_once(path: Path, text: str) -> None:
    """Who follows the file never sees half of it."""
    written = path.with_name(f".{path.name}.new")
    written.write_text(text, encoding="utf-8")
    written.replace(path)


def stdio_server(name: str, mark: str = "") -> dict[str, Any]:
    """A configuration's entry of a small server; `mark` is in its environment, by which it is found again."""
    return {
        "command": sys.executable,
        "args": ["-m", "tests.stdio_mcp_server", name],
        "cwd": str(ROOT),
        "env": {"WAYGRAPH_TEST_MARK": mark},
    }


@dataclass
class Watched:
    """A watch that runs beside the test, and what it told."""

    registry: LocalRegistry
    told: list[WatchEvent] = field(default_factory=list)

    def of[T](self, kind: type[T]) -> list[T]:
        return [event for event in list(self.told) if isinstance(event, kind)]

    @property
    def agents(self) -> set[str]:
        return {agent.id for agent in self.registry.agents()} if self.registry.store.exists else set()

    @property
    def tools(self) -> set[str]:
        return {tool.id for tool in self.registry.tools()} if self.registry.store.exists else set()


@contextmanager
def watched(
    registry: LocalRegistry, *sources: Path | str, policy: Policy | None = None, settings: Settings | None = None
) -> Iterator[Watched]:
    """Raises what the watch raised."""
    settings = settings or Settings()
    seen = Watched(registry)
    followed = followed_sources(
        [str(source) for source in sources], [], Opening(settings=settings, registry=registry.store.place)
    )
    watch = Watch(registry, followed, watching(settings, seen.told.append, policy=policy))
    with watch_in_thread(watch):
        yield seen


def until(holds: Callable[[], object], what: str) -> None:
    give_up = time.monotonic() + PATIENCE_S
    while not holds():
        assert time.monotonic() < give_up, f"not within {PATIENCE_S:g} s: {what}"
        time.sleep(0.02)
