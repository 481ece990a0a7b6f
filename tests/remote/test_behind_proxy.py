"""A service behind a real nginx that speaks TLS, set up as docs/operations.md has it: clients, hosts and bridges."""

import json
import os
import ssl
from collections.abc import Iterator
from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import anyio
import httpx2
import pytest
from mcp import Client, StdioServerParameters
from mcp.types import ElicitResult

from tests.gateway.hosts import Era, names, over_http, told, toolbox_place
from tests.nginx import nginx
from tests.servers.certificates import HOST, Certified, certified
from tests.service import PROGRAM, TIMEOUT_S, Running, agent, process, until
from waygraph.ingest.upstream.inflight import ANSWERED_S
from waygraph.registry.access.api_keys import KeyFile
from waygraph.registry.model.changes import Document
from waygraph.registry.model.errors import ServiceUnavailable
from waygraph.registry.model.settings import Settings
from waygraph.registry.remote.remote_registry import RemoteRegistry

GUESSES = 25
"""More than one address has before it is slowed (FAILURES_BURST)."""


@dataclass(frozen=True)
class Proxied:
    """A service, the address of the proxy before it, and a key to it."""

    service: Running
    url: str
    key: str
    certified: Certified

    @property
    def settings(self) -> Settings:
        return Settings(api_key=self.key, remote_ca_file=str(self.certified.authority), remote_retries=0)

    def open(self) -> RemoteRegistry:
        return RemoteRegistry.open(self.url, settings=self.settings)

    def client(self, comes_from: str = HOST, key: str = "") -> httpx2.Client:
        """Of a machine with this address."""
        transport = httpx2.HTTPTransport(verify=self._trusts, local_address=comes_from)
        headers = {"Authorization": f"Bearer {key or self.key}"}
        return httpx2.Client(base_url=self.url, headers=headers, transport=transport, timeout=TIMEOUT_S)

    def host(self, era: Era, **more: Any) -> AbstractAsyncContextManager[Any]:
        return over_http(f"{self.url}/mcp", era, key=self.key, trusts=self._trusts, **more)

    @property
    def _trusts(self) -> ssl.SSLContext:
        return ssl.create_default_context(cafile=self.certified.authority)

    def logged(self, request_id: str) -> dict[str, Any]:
        """The service's line about a request."""

        def line() -> dict[str, Any] | None:
            found = [each for each in self.service.told.splitlines() if request_id in each and "duration_ms" in each]
            return json.loads(found[0]) if found else None

        found: dict[str, Any] = until(line, "a line about the request")
        return found


@pytest.fixture(scope="module")
def proxied(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Proxied]:
    folder = tmp_path_factory.mktemp("proxied")
    place, keys = toolbox_place(folder), KeyFile(folder / "keys.json")
    key = keys.create("test", ("route", "read", "write", "use"), (), everything=True)[1]
    made = certified(folder)
    with (
        process(place.registry, folder, keys=keys, environ={"FORWARDED_ALLOW_IPS": HOST}) as service,
        nginx(folder, service.port, made) as url,
    ):
        yield Proxied(service, url, key, made)


def test_a_client_works_over_tls(proxied: Proxied) -> None:
    with proxied.open() as registry:
        catalogue = json.dumps({"waygraph": 1, "agents": [agent("ferry", "cross_the_bay")]})
        registry.ingest([Document("ships.json", catalogue)], source="ships")
        assert registry.route("cross the bay").matches[0].agent.id == "ferry"


@pytest.mark.parametrize("host", [HOST, "localhost"], ids=["nobody vouches", "another name"])
def test_a_certificate_that_does_not_fit_is_refused(proxied: Proxied, host: str, tmp_path: Path) -> None:
    trusted = proxied.certified if host == "localhost" else certified(tmp_path)
    settings = Settings(api_key=proxied.key, remote_ca_file=str(trusted.authority), remote_retries=0)
    with (
        RemoteRegistry.open(proxied.url.replace(HOST, host), settings=settings) as registry,
        pytest.raises(ServiceUnavailable, match=r"(?i)certificate"),
    ):
        registry.agents()


def test_the_log_names_who_came_to_the_proxy_and_its_request(proxied: Proxied) -> None:
    with proxied.client("127.0.0.9") as client:
        answer = client.get("/v1/agents", headers={"X-Forwarded-For": "10.1.2.3", "X-Request-ID": "mine"})
    assert answer.status_code == 200
    request_id = answer.headers["x-request-id"]
    assert request_id != "mine", "it is the proxy's to choose"
    assert proxied.logged(request_id)["client"] == "127.0.0.9", "what a caller says of itself is not taken"


def test_who_guesses_keys_shuts_out_itself_alone(proxied: Proxied) -> None:
    with proxied.client("127.0.0.7", key="wrong") as guesser, proxied.client("127.0.0.8", key="wrong") as other:
        statuses = [guesser.get("/v1/agents").status_code for _ in range(GUESSES)]
        assert (statuses[0], statuses[-1]) == (401, 429)
        assert other.get("/v1/agents").status_code == 401


async def test_a_host_finds_and_uses(proxied: Proxied, era: Era) -> None:
    async with proxied.host(era) as host:
        assert "box__add" in names(told(await host.call_tool("find_tools", {"query": "add two numbers"})))
        used = await host.call_tool("use_tool", {"name": "box__add", "params": {"a": 2, "b": 3}})
        assert used.structured_content == {"total": 5}


async def test_a_question_in_the_midst_of_a_call_reaches_the_host(proxied: Proxied, era: Era) -> None:
    """A proxy that held answers back until they are whole would hold this one for ever."""

    async def answered(*_: Any) -> ElicitResult:
        return ElicitResult(action="accept", content={"colour": "red"})

    await anyio.sleep(ANSWERED_S)  # what comes right after another host's call might be of that one
    with anyio.fail_after(TIMEOUT_S):
        async with proxied.host(era, elicitation_callback=answered) as host:
            result = await host.call_tool("box__ask", {})
    assert json.loads(result.content[0].text)["content"] == {"colour": "red"}


async def test_a_bridge_crosses_it(proxied: Proxied) -> None:
    environ = {
        "XDG_DATA_HOME": os.environ["XDG_DATA_HOME"],
        "WAYGRAPH_API_KEY": proxied.key,
        "WAYGRAPH_REMOTE_CA_FILE": str(proxied.certified.authority),
    }
    bridge = StdioServerParameters(
        command=PROGRAM[0], args=[*PROGRAM[1:], "--registry", proxied.url, "mcp"], env=environ
    )
    async with Client(bridge) as host:
        used = await host.call_tool("use_tool", {"name": "box__add", "params": {"a": 2, "b": 3}})
        assert used.structured_content == {"total": 5}
