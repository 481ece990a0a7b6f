"""A gateway as a person sets it up: the servers of a host's config, ingested, and the ways by which hosts reach it."""

import json
import os
import subprocess
import sys
import uuid
from collections.abc import AsyncIterator, Iterator, Mapping
from contextlib import asynccontextmanager, contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Literal

import httpx2
from mcp import Client, StdioServerParameters
from mcp.client.streamable_http import streamable_http_client

from tests.live_servers import RealServer, real_server
from tests.processes_left import MARK, new_mark
from tests.service import Running, process
from waygraph.registry.access.api_keys import KeyFile

SERVERS = ("time", "everything", "filesystem", "memory")
NAMESPACE = "desk"
LISTED = frozenset({"find_tools", "use_tool", "route_agents"})
"""All that a host sees, however many tools there are."""

Door = Literal["stdio", "bridge", "/mcp", "/desk/mcp"]
"""Bridge: on stdio too, with the service behind it."""
DOORS: tuple[Door, ...] = ("stdio", "bridge", "/mcp", "/desk/mcp")
Era = Literal["legacy", "auto"]
PROTOCOLS: dict[Era, str] = {"legacy": "2025-11-25", "auto": "2026-07-28"}
"""What an SDK of both eras agrees on with us, by how it is told to begin."""


@dataclass(frozen=True)
class Gateway:
    """`home` is all that it may read and write, as HOME; `note` is the text of the file note.txt there.

    The servers that it starts carry `mark`, wherever they are started from.
    """

    home: Path
    note: str
    mark: str

    @property
    def environ(self) -> dict[str, str]:
        """Of every program, also of hosts, which hand HOME and PATH on to what they start."""
        return {"HOME": str(self.home), "PATH": os.environ["PATH"]}

    @property
    def location(self) -> Path:
        return self.home / "r.grafeo"

    def waygraph(self, *words: object, registry: str = "") -> list[str]:
        """A command of ours; it finds tools by their words, without a model."""
        where = ("--registry", registry) if registry else ("--registry", str(self.location), "--embedder", "none")
        return [sys.executable, "-W", "error", "-m", "waygraph.api.cli.app", *where, *map(str, words)]

    def server(self, name: str) -> RealServer:
        return real_server(name, self.home)

    def host_config(self) -> dict[str, Any]:
        """The servers, as a host keeps them in its file."""
        return {"mcpServers": {name: self._entry(self.server(name)) for name in SERVERS}}

    def _entry(self, server: RealServer) -> dict[str, Any]:
        return {"command": server.command, "args": list(server.args), "env": {**server.env, MARK: self.mark}}


def set_up(home: Path) -> Gateway:
    """`waygraph ingest mcp.json`, as of a host's config with four real servers."""
    gateway = Gateway(home, f"the note says {uuid.uuid4().hex}", new_mark())
    (home / "note.txt").write_text(gateway.note)
    config = home / "mcp.json"
    config.write_text(json.dumps(gateway.host_config()))
    command = gateway.waygraph("ingest", config, "--namespace", NAMESPACE, "--json")
    done = subprocess.run(command, env=gateway.environ, capture_output=True, text=True, check=False, timeout=250)
    assert done.returncode == 0, done.stderr
    [source] = json.loads(done.stdout)["sources"]
    assert len(source["report"]["agents"]["created"]) == len(SERVERS), source
    assert not source["report"]["rejected"]
    return gateway


@dataclass(frozen=True)
class Service:
    """`waygraph serve` over a gateway's registry, with a key that may find and call."""

    running: Running
    keys: KeyFile
    key: str

    def url(self, path: str = "/mcp") -> str:
        return self.running.url + path

    def for_key_of(self, *scopes: str) -> "Service":
        """The same, for a caller that may do other things."""
        return replace(self, key=self.keys.create("other", scopes, everything=True)[1])


@contextmanager
def service(gateway: Gateway) -> Iterator[Service]:
    keys = KeyFile(gateway.home / "keys.json")
    key = keys.create("host", ("route", "use"), everything=True)[1]
    environ = {**gateway.environ, "XDG_DATA_HOME": ""}
    with process(gateway.location, gateway.home, keys=keys, environ=environ) as running:
        yield Service(running, keys, key)


@asynccontextmanager
async def client_of(
    gateway: Gateway, door: Door, era: Era, services: Service, *options: str, **callbacks: Any
) -> AsyncIterator[Client]:
    """An MCP client of the Python SDK, connected; `options` are those of `waygraph mcp`."""
    if door in ("stdio", "bridge"):
        command, *args = gateway.waygraph("mcp", *options, registry=services.running.url if door == "bridge" else "")
        environ = {**gateway.environ, "WAYGRAPH_API_KEY": services.key} if door == "bridge" else gateway.environ
        parameters = StdioServerParameters(command=command, args=args, env=environ)
        async with Client(parameters, mode=era, **callbacks) as client:
            yield client
        return
    headers = {"Authorization": f"Bearer {services.key}"}
    async with (
        httpx2.AsyncClient(headers=headers, timeout=60) as http,
        Client(streamable_http_client(services.url(door), http_client=http), mode=era, **callbacks) as client,
    ):
        yield client


@asynccontextmanager
async def client_beside(server: RealServer, **callbacks: Any) -> AsyncIterator[Client]:
    """Connected to the server itself, past the gateway."""
    parameters = StdioServerParameters(command=server.command, args=list(server.args), env=dict(server.env))
    async with Client(parameters, **callbacks) as client:
        yield client


async def found(client: Client, query: str, **more: Any) -> Mapping[str, Any]:
    """The answer of find_tools."""
    result = await client.call_tool("find_tools", {"query": query, **more})
    assert not result.is_error, result
    [block] = result.content
    assert block.type == "text"
    answer: dict[str, Any] = json.loads(block.text)
    return answer
