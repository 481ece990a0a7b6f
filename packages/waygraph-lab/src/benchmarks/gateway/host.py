"""What a host sees: the gateway's two ways in over a registry on disk, each behind the MCP SDK's own client."""

import json
import subprocess
import sys
from collections.abc import AsyncIterator, Iterable, Iterator, Mapping
from contextlib import asynccontextmanager, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import httpx2
import mcp.types as t
from mcp import Client
from mcp.client.stdio import StdioServerParameters, stdio_client
from mcp.client.streamable_http import streamable_http_client

from benchmarks.processes import TIMEOUT_S, ProcessFailed, free_port, plain_environ, run_server, waygraph_command
from benchmarks.record import PROJECT
from benchmarks.world import World, scratch_folder, show_progress, with_cache
from waygraph.ingest.manifest.records import Manifest
from waygraph.ingest.sync.apply import sync
from waygraph.registry.access.api_keys import KeyFile
from waygraph.registry.registry import Registry

SCOPES = ("route", "read", "use")
TIMEOUT_CLIENT_S = 120.0
"""How long a client waits for an answer: longer than any deadline of the gateway that is measured."""


class WrongAnswer(Exception):
    """An answer that is not the one to the call."""


@dataclass(frozen=True, kw_only=True)
class Host:
    """A registry in a scratch folder. `embedder` is the fingerprint of its embedder."""

    world: World
    folder: Path
    embedder: str

    @property
    def registry(self) -> Path:
        return self.folder / "bench.grafeo"

    def open_registry(self) -> Registry:
        return Registry.open(self.registry, settings=_settings(self.world), environ=self.world.environ)

    def waygraph(self, *arguments: str) -> None:
        """One command over this registry. Raises ProcessFailed."""
        command = self._command(*arguments)
        done = subprocess.run(
            command, capture_output=True, text=True, check=False, cwd=PROJECT, env=self.environ(), timeout=TIMEOUT_S
        )
        if done.returncode:
            raise ProcessFailed(command, done.returncode, done.stderr or done.stdout)

    def ingest(self, name: str, servers: Mapping[str, Mapping[str, Any]]) -> None:
        """Ingests a configuration of these servers; `name` is its file's."""
        path = self.folder / f"{name}.json"
        path.write_text(json.dumps({"mcpServers": servers}), encoding="utf-8")
        self.waygraph("ingest", str(path))

    def call_names(self, agents: Iterable[str]) -> dict[str, list[str]]:
        """Agent → the names by which hosts call its tools."""
        with self.open_registry() as registry:
            return {agent: [tool.call_name for tool in registry.tools(agent)] for agent in agents}

    @asynccontextmanager
    async def stdio(self) -> AsyncIterator[Client]:
        """`waygraph mcp`, as a host starts it; what it logs goes to a file."""
        async with stdio_session(self._command("mcp"), self.folder / "mcp.log", self.environ()) as client:
            yield client

    @asynccontextmanager
    async def http(self) -> AsyncIterator[Client]:
        """A session with `waygraph serve` as it comes, with an API key; no caller is slowed."""
        _, key = KeyFile(self.folder / "keys.json").create("bench", SCOPES, everything=True)
        port = free_port()
        command = self._command("serve", "--port", str(port))
        headers = {"Authorization": f"Bearer {key}"}
        with run_server(command, port, self.environ(), self.folder / "service.log"):
            async with (
                httpx2.AsyncClient(headers=headers, timeout=TIMEOUT_CLIENT_S, verify=False) as http,
                Client(
                    streamable_http_client(f"http://127.0.0.1:{port}/mcp", http_client=http),
                    read_timeout_seconds=TIMEOUT_CLIENT_S,
                ) as client,
            ):
                yield client

    def _command(self, *arguments: str) -> list[str]:
        return waygraph_command("--registry", str(self.registry), *arguments)

    def environ(self) -> dict[str, str]:
        """Of every process: no variable of Waygraph's but these."""
        return plain_environ(self.world.environ) | {
            "WAYGRAPH_CACHE_DIR": str(self.world.cache),
            "WAYGRAPH_DATA_DIR": str(self.folder),
            "WAYGRAPH_KEYS_FILE": str(self.folder / "keys.json"),
            "WAYGRAPH_RATE_PER_MINUTE": "0",
        }


@asynccontextmanager
async def stdio_session(
    command: Iterable[str], log: Path, environ: Mapping[str, str] | None = None
) -> AsyncIterator[Client]:
    """The SDK's client of a program over standard input and output."""
    program, *arguments = command
    parameters = StdioServerParameters(command=program, args=arguments, env=dict(environ or {}), cwd=PROJECT)
    with log.open("a", encoding="utf-8") as errlog:
        async with Client(stdio_client(parameters, errlog=errlog), read_timeout_seconds=TIMEOUT_CLIENT_S) as client:
            yield client


@contextmanager
def open_host(world: World, manifests: Iterable[Manifest]) -> Iterator[Host]:
    """Vectors are of the benchmarks' own cache."""
    with scratch_folder() as folder:
        yield Host(world=world, folder=folder, embedder=_fill(world, folder / "bench.grafeo", manifests))


def _fill(world: World, place: Path, manifests: Iterable[Manifest]) -> str:
    with Registry.open(place, settings=_settings(world), environ=world.environ) as registry:
        for manifest in manifests:
            sync(registry, manifest, progress=show_progress("embedding"))
        return registry.status().state.embedder if registry.store.exists else ""


def _settings(world: World) -> Any:
    return with_cache(world.settings, world.cache)


def upstream_entry(name: str, tools: int) -> dict[str, Any]:
    """A configuration's entry of `upstream.py`."""
    arguments = ["-m", "benchmarks.gateway.upstream", name, str(tools)]
    return {"command": sys.executable, "args": arguments, "cwd": str(PROJECT)}


def text_of(result: t.CallToolResult) -> str:
    """All that a model reads of it."""
    return "\n".join(part.text for part in result.content if isinstance(part, t.TextContent))


async def find_tools(client: Client, query: str, **options: Any) -> str:
    """What a model reads of the answer. Raises WrongAnswer if that is an error."""
    result = await client.call_tool("find_tools", {"query": query, **options})
    text = text_of(result)
    if result.is_error or not text:
        raise WrongAnswer(f"find_tools: {text[:500]}")
    return text
