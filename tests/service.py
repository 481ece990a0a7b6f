"""The service for tests: the real application on a free loopback port, in this process or in one of its own."""

import os
import re
import signal
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from io import StringIO
from pathlib import Path
from typing import Any

import httpx2
import uvicorn

from tests.observed_service import logging_as_it_was
from waygraph.api.mcp import Surface
from waygraph.api.rest.bootstrap import ServiceOptions, compose_application, configuration, open_service
from waygraph.api.rest.service import Service
from waygraph.registry.access.api_keys import KeyFile
from waygraph.registry.access.visibility import SCOPES
from waygraph.registry.http.problems import code_of
from waygraph.registry.model.errors import WaygraphError
from waygraph.registry.model.settings import Settings
from waygraph.registry.storage.local_registry import LocalRegistry

TIMEOUT_S = 60.0
PROBLEM = "application/problem+json"
FIELDS = {"type", "title", "status", "detail", "instance", "code", "retryable", "facts"}
SECURITY_HEADERS = {
    "x-content-type-options": "nosniff",
    "x-frame-options": "DENY",
    "referrer-policy": "no-referrer",
    "content-security-policy": "default-src 'none'; frame-ancestors 'none'",
    "cross-origin-resource-policy": "same-origin",
}
PROGRAM = [sys.executable, "-W", "error", "-m", "waygraph.api.cli.app"]


def assert_careful(response: httpx2.Response) -> None:
    """What every answer says, a good one as an error."""
    for name, value in SECURITY_HEADERS.items():
        assert response.headers.get_list(name) == [value], (name, response.headers)
    assert response.headers.get_list("cache-control") in (["no-store"], ["private, no-cache"])
    assert len(response.headers.get_list("x-request-id")) == 1
    assert "server" not in response.headers


MEDIA_TYPES = ("application/json", "application/ai-catalog+json", "application/mcp-server-card+json")
"""Of answers that are JSON."""


def assert_problem(response: httpx2.Response, status: int, code: str | type[WaygraphError]) -> dict[str, Any]:
    """The one shape of errors (RFC 9457), whole; gives it."""
    assert response.status_code == status, (response.status_code, response.text[:500])
    assert response.headers["content-type"] == PROBLEM
    assert_careful(response)
    told: dict[str, Any] = response.json()
    assert set(told) == FIELDS
    assert told["code"] == (code if isinstance(code, str) else code_of(code))
    assert told["type"] == f"urn:waygraph:problem:{told['code']}"
    assert told["title"] == told["code"].replace("-", " ").capitalize()
    assert told["status"] == status
    assert told["detail"]
    assert told["instance"] == f"urn:waygraph:request:{response.headers['x-request-id']}"
    assert isinstance(told["retryable"], bool)
    assert isinstance(told["facts"], dict)
    assert ("retry-after" in response.headers) == (status in (429, 503))
    assert ("www-authenticate" in response.headers) == (status == 401)
    return told


def assert_good(response: httpx2.Response) -> Any:
    """A good answer; gives its JSON."""
    assert response.status_code == 200, (response.status_code, response.text[:500])
    assert response.headers["content-type"] in MEDIA_TYPES
    assert_careful(response)
    return response.json()


def notice_of(answer: Mapping[str, Any], code: str = "") -> str:
    """The texts of the notices of an answer as JSON, or of those with this code; empty: it has none."""
    return " ".join(each["text"] for each in answer.get("notices", ()) if code in ("", each["code"]))


@dataclass
class Server:
    """Where a service is, and who may call it."""

    port: int
    keys: KeyFile | None = None
    clients: list[httpx2.Client] = field(default_factory=list)

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}"

    def client(self, key: str = "", **headers: str) -> httpx2.Client:
        """Calls with this key; closed with the service."""
        shown = {"Authorization": f"Bearer {key}"} if key else {}
        made = httpx2.Client(base_url=self.url, headers={**shown, **headers}, timeout=TIMEOUT_S)
        self.clients.append(made)
        return made

    def key(self, *scopes: str, groups: tuple[str, ...] = (), everything: bool = False, toolset: str = "") -> str:
        """The text of a new key, of all scopes by default."""
        assert self.keys is not None
        return self.keys.create("test", scopes or SCOPES, groups, everything=everything, toolset=toolset)[1]

    def caller(self, *scopes: str, groups: tuple[str, ...] = (), everything: bool = False) -> httpx2.Client:
        """A client with a new key."""
        return self.client(self.key(*scopes, groups=groups, everything=everything))

    def admin(self) -> httpx2.Client:
        """Who may do and see everything."""
        return self.caller(everything=True) if self.keys else self.client()

    def connect(self) -> socket.socket:
        return socket.create_connection(("127.0.0.1", self.port), timeout=TIMEOUT_S)

    def raw(self, request: bytes) -> bytes:
        """What is answered to these very bytes, until the service closes."""
        with self.connect() as connection:
            connection.sendall(request)
            return b"".join(iter(lambda: connection.recv(65_536), b""))

    def close(self) -> None:
        for client in self.clients:
            client.close()


@dataclass
class Served(Server):
    """A service in this process."""

    service: Service = field(kw_only=True)
    stream: StringIO = field(kw_only=True)

    @property
    def registry(self) -> LocalRegistry:
        return self.service.registry

    @property
    def log(self) -> str:
        return self.stream.getvalue()


@contextmanager
def served(
    location: Path | str = ":memory:",
    *,
    embedder: str = "none",
    surface: Surface = "default",
    auth: bool = False,
    folder: Path | None = None,
    settings: Settings | None = None,
    environ: Mapping[str, str] | None = None,
    listener: socket.socket | None = None,
    watch: tuple[str, ...] = (),
) -> Iterator[Served]:
    """A service over the registry at `location`. With `auth` it asks who calls, with keys kept in `folder`. `watch`:
    the sources that it follows.

    `listener`: one that listens on loopback already, where settings have to name the port.
    """
    settings = settings or Settings()
    if auth:
        assert folder is not None
        settings = replace(settings, keys_file=str(folder / "keys.json"))
    chosen = ServiceOptions(location=str(location), embedder=embedder, surface=surface, watch=watch)
    stream = StringIO()
    with logging_as_it_was():
        service = open_service(chosen, settings, environ or {})
        app = compose_application(service, chosen, environ or {}, stream)
        with _serving(configuration(app, settings, environ or {}), listener or listen()) as port:
            found = Served(port, KeyFile(settings.keys_path) if auth else None, service=service, stream=stream)
            try:
                yield found
            finally:
                found.close()


def listen() -> socket.socket:
    return socket.create_server(("127.0.0.1", 0), backlog=512)


@contextmanager
def _serving(config: uvicorn.Config, listener: socket.socket) -> Iterator[int]:
    """The port of a uvicorn in a thread, until the context ends."""
    with listener:
        server = uvicorn.Server(config)
        thread = threading.Thread(target=server.run, kwargs={"sockets": [listener]})
        thread.start()
        while not server.started:
            assert thread.is_alive()
            time.sleep(0.002)
        try:
            yield listener.getsockname()[1]
        finally:
            server.should_exit = True
            thread.join()


@dataclass
class Running(Server):
    """`waygraph serve` as a process; what it writes to stderr goes to a file."""

    process: subprocess.Popen[bytes] = field(kw_only=True)
    stderr: Path = field(kw_only=True)

    @property
    def told(self) -> str:
        return self.stderr.read_text(encoding="utf-8", errors="replace")

    def signal(self, number: signal.Signals) -> None:
        self.process.send_signal(number)

    def wait(self, timeout_s: float = TIMEOUT_S) -> int:
        """Its exit status."""
        return self.process.wait(timeout_s)


def arguments(location: Path | str, *options: str, embedder: str = "none") -> list[str]:
    return [*PROGRAM, "--registry", str(location), "--embedder", embedder, "serve", *options]


@contextmanager
def process(
    location: Path | str,
    folder: Path,
    *options: str,
    embedder: str = "none",
    keys: KeyFile | None = None,
    environ: Mapping[str, str] | None = None,
) -> Iterator[Running]:
    """`waygraph serve` on a free port, once it has said where it is; it is killed at the end if it still runs."""
    told = folder / "stderr.txt"
    env = {**os.environ, **({"WAYGRAPH_KEYS_FILE": str(keys.path)} if keys else {}), **(environ or {})}
    with told.open("wb") as stderr:
        started = subprocess.Popen(
            arguments(location, "--port", "0", *options, embedder=embedder),
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=stderr,
            env=env,
        )
    try:
        running = Running(_port(started, told), keys, process=started, stderr=told)
        try:
            yield running
        finally:
            running.close()
    finally:
        if started.poll() is None:
            started.terminate()
            try:
                started.wait(TIMEOUT_S)
            finally:
                started.kill()


def _port(started: subprocess.Popen[bytes], told: Path) -> int:
    give_up = time.monotonic() + TIMEOUT_S
    while time.monotonic() < give_up:
        if found := re.search(r"Waygraph on http://\S+?:(\d+) ", told.read_text(encoding="utf-8", errors="replace")):
            return int(found[1])
        assert started.poll() is None, told.read_text(encoding="utf-8", errors="replace")
        time.sleep(0.01)
    raise AssertionError(told.read_text(encoding="utf-8", errors="replace"))


def until(wanted: Any, what: str, timeout_s: float = TIMEOUT_S) -> Any:
    """What `wanted` gives once it gives something."""
    give_up = time.monotonic() + timeout_s
    while time.monotonic() < give_up:
        if found := wanted():
            return found
        time.sleep(0.02)
    raise AssertionError(f"not within {timeout_s:g} s: {what}")


def agent(agent_id: str, *tools: str, **said: object) -> dict[str, Any]:
    """An agent of a catalogue, as JSON; a tool is what its name says."""
    described = [{"name": name, "description": f"{name.replace('_', ' ')} of {agent_id}"} for name in tools]
    return {"id": agent_id, "name": agent_id, "description": f"does {agent_id}", "tools": described, **said}


def manifest(source: str, *agents: Mapping[str, object], **options: object) -> dict[str, Any]:
    """The body of `POST /v1/manifests`."""
    return {"source": source, "manifest": {"waygraph": 1, "agents": list(agents)}, **options}


def ingest(client: httpx2.Client, source: str, *agents: Mapping[str, object], **options: object) -> dict[str, Any]:
    """The one report of a manifest that was taken."""
    told = assert_good(client.post("/v1/manifests", json=manifest(source, *agents, **options)))
    assert told["problem"] is None
    report: dict[str, Any]
    [report] = told["reports"]
    return report


def content(service: Served) -> object:
    """All that it exports, its revision apart."""
    told = service.admin().get("/v1/export").json()
    return {name: part for name, part in told.items() if name != "revision"}
