"""What is measured: a registry on disk, the gateway's two ways in over it, and the SDK's own client at either."""

import json
import os
import subprocess
import sys
from collections.abc import AsyncIterator, Iterable, Iterator, Mapping, Sequence
from contextlib import asynccontextmanager, contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal

import httpx2
import mcp.types as t
from mcp import Client
from mcp.client.stdio import StdioServerParameters, stdio_client
from mcp.client.streamable_http import streamable_http_client

from benchmarks.processes import TIMEOUT_S, ProcessFailed, plain, waygraph_command
from benchmarks.record import PROJECT
from benchmarks.service.servers import Server, free_port, serving, tree
from benchmarks.world import World, scratch_folder, shown, with_cache
from waygraph.ingest.sync.apply import sync
from waygraph.registry.access.api_keys import KeyFile
from waygraph.registry.model.changes import Manifest
from waygraph.registry.registry import Registry

type Era = Literal["handshake", "modern"]
MODES: Mapping[Era, str] = {"handshake": "legacy", "modern": "auto"}
SCOPES = ("route", "read", "use")
PATIENCE_S = 120.0
"""How long a client waits for an answer: longer than any deadline of the gateway that is measured."""


@dataclass(frozen=True, kw_only=True)
class Gateway:
    """The gateway behind a client of its own: `pid` is its process."""

    client: Client
    pid: int


@dataclass(frozen=True, kw_only=True)
class Service:
    """`waygraph serve` and who may call it."""

    server: Server
    headers: Mapping[str, str] = field(repr=False)

    @asynccontextmanager
    async def client(self, era: Era = "modern") -> AsyncIterator[Client]:
        """A session of its own, over connections of its own, closed at the end."""
        url = f"http://127.0.0.1:{self.server.port}/mcp"
        async with (
            httpx2.AsyncClient(headers=dict(self.headers), timeout=PATIENCE_S, verify=False) as http,
            Client(
                streamable_http_client(url, http_client=http), mode=MODES[era], read_timeout_seconds=PATIENCE_S
            ) as client,
        ):
            yield client


@dataclass(frozen=True, kw_only=True)
class Scene:
    """A registry in a scratch folder. `embedder` is the fingerprint of its embedder."""

    world: World
    folder: Path
    embedder: str

    @property
    def registry(self) -> Path:
        return self.folder / "bench.grafeo"

    def environ(self, **more: str) -> dict[str, str]:
        """Of every process: no variable of Waygraph's but these."""
        return plain(self.world.environ) | {
            "WAYGRAPH_CACHE_DIR": str(self.world.cache),
            "WAYGRAPH_DATA_DIR": str(self.folder),
            "WAYGRAPH_KEYS_FILE": str(self.folder / "keys.json"),
            "WAYGRAPH_RATE_PER_MINUTE": "0",
            **more,
        }

    def command(self, *arguments: str) -> list[str]:
        return waygraph_command("--registry", str(self.registry), *arguments)

    def waygraph(self, *arguments: str) -> None:
        """One command over this registry. Raises ProcessFailed."""
        command = self.command(*arguments)
        done = subprocess.run(
            command, capture_output=True, text=True, check=False, cwd=PROJECT, env=self.environ(), timeout=TIMEOUT_S
        )
        if done.returncode:
            raise ProcessFailed(command, done.returncode, done.stderr or done.stdout)

    def follow(self, name: str, servers: Mapping[str, Mapping[str, Any]]) -> None:
        """Ingests a configuration of these servers, as a person does; `name` is its file's."""
        path = self.folder / f"{name}.json"
        path.write_text(json.dumps({"mcpServers": servers}), encoding="utf-8")
        self.waygraph("ingest", str(path))

    def call_names(self, agents: Iterable[str]) -> dict[str, list[str]]:
        """Agent → the names by which hosts call its tools."""
        with self.opened() as registry:
            return {agent: [tool.call_name for tool in registry.tools(agent)] for agent in agents}

    def opened(self) -> Registry:
        return Registry.open(self.registry, settings=_settings(self.world), environ=self.world.environ)

    @asynccontextmanager
    async def stdio(self, era: Era = "modern", **environ: str) -> AsyncIterator[Gateway]:
        """`waygraph mcp`, as a host starts it; what it logs goes to a file."""
        command, *arguments = self.command("mcp")
        before = set(tree(os.getpid()))
        started = program(command, *arguments, environ=self.environ(**environ))
        async with client_of(started, self.folder / "mcp.log", era) as client:
            pid = next(each for each in tree(os.getpid()) if each not in before)
            yield Gateway(client=client, pid=pid)

    @contextmanager
    def service(self, **environ: str) -> Iterator[Service]:
        """`waygraph serve` as it comes, with an API key; no caller is slowed."""
        _, key = KeyFile(self.folder / "keys.json").create("bench", SCOPES, everything=True)
        port = free_port()
        command = self.command("serve", "--port", str(port))
        with serving(command, port, self.environ(**environ), self.folder / "service.log") as server:
            yield Service(server=server, headers={"Authorization": f"Bearer {key}"})


def program(command: str, *arguments: str, environ: Mapping[str, str] | None = None) -> StdioServerParameters:
    return StdioServerParameters(command=command, args=list(arguments), env=dict(environ or {}), cwd=PROJECT)


@asynccontextmanager
async def client_of(started: StdioServerParameters, log: Path, era: Era = "modern") -> AsyncIterator[Client]:
    """The SDK's client of a program over standard input and output."""
    with log.open("a", encoding="utf-8") as said:
        transport = stdio_client(started, errlog=said)
        async with Client(transport, mode=MODES[era], read_timeout_seconds=PATIENCE_S) as client:
            yield client


@contextmanager
def scene(world: World, manifests: Iterable[Manifest]) -> Iterator[Scene]:
    """Vectors are of the benchmarks' own cache."""
    with scratch_folder() as folder:
        yield Scene(world=world, folder=folder, embedder=_filled(world, folder / "bench.grafeo", manifests))


def _filled(world: World, place: Path, manifests: Iterable[Manifest]) -> str:
    with Registry.open(place, settings=_settings(world), environ=world.environ) as registry:
        for manifest in manifests:
            sync(registry, manifest, progress=shown("embedding"))
        return registry.status().state.embedder if registry.exists else ""


def _settings(world: World) -> Any:
    return with_cache(world.settings, world.cache)


def upstream(name: str, tools: int, *, within: Sequence[str] = ()) -> dict[str, Any]:
    """A configuration's entry of `upstream.py`; `within` is a module that runs it, and what that takes."""
    module = within or ("benchmarks.gateway.upstream",)
    return {"command": sys.executable, "args": ["-m", *module, name, str(tools)], "cwd": str(PROJECT)}


def text_of(result: t.CallToolResult) -> str:
    """All that a model reads of it."""
    return "\n".join(part.text for part in result.content if isinstance(part, t.TextContent))
