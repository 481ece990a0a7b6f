"""`waygraph --registry http://… mcp`: hosts that share a real service, and the servers that it has started."""

import os
import sys
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest
from mcp import Client, StdioServerParameters
from mcp import types as mcp

from tests.bridge.test_bridge import Era, answers
from tests.live_http import free_port
from tests.service import PROGRAM, Server, process
from waygraph.api.cli.app import main
from waygraph.registry.access.api_keys import KeyFile

TIDES = Path(__file__).parents[1] / "hosts" / "tides.py"


@pytest.fixture
def registry(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """It knows one server, whose tool tells of its process."""
    monkeypatch.setenv("XDG_DATA_HOME", str(tmp_path / "data"))
    monkeypatch.setenv("WAYGRAPH_EMBEDDER", "none")
    path = tmp_path / "r.grafeo"
    asked = ["ingest", "--namespace", "sea", "--", sys.executable, "-u", str(TIDES)]
    assert main(["--registry", str(path), *asked]) == 0
    return path


@asynccontextmanager
async def host(place: str, era: Era, *words: str, key: str = "") -> AsyncIterator[Client]:
    environ = {name: os.environ[name] for name in ("XDG_DATA_HOME",)} | ({"WAYGRAPH_API_KEY": key} if key else {})
    args = [*PROGRAM[1:], "--registry", place, "mcp", *words]
    async with Client(StdioServerParameters(command=PROGRAM[0], args=args, env=environ), mode=era) as client:
        yield client


async def told(client: Client) -> str:
    answer = await client.call_tool("use_tool", {"name": "tides__tides", "params": {}})
    block = answer.content[0]
    assert isinstance(block, mcp.TextContent)
    return block.text


@pytest.fixture
def service(registry: Path, tmp_path: Path) -> Iterator[Server]:
    with process(registry, tmp_path, "--no-auth") as running:
        yield running


async def test_hosts_share_the_servers_of_one_service(service: Server, era: Era) -> None:
    async with host(service.url, era) as one, host(service.url, era) as other:
        names = [tool.name for tool in (await one.list_tools()).tools]
        assert names[:2] == ["find_tools", "use_tool"]
        found = await one.call_tool("find_tools", {"query": "tides"})
        assert "tides__tides" in str(found.content)
        first, second = await told(one), await told(other)
    assert first.startswith("told by ")
    assert first == second


async def test_a_service_that_was_restarted_goes_on(registry: Path, tmp_path: Path, era: Era) -> None:
    port = free_port()
    with process(registry, tmp_path, "--no-auth", "--port", str(port)) as service:
        bridge = host(service.url, era)
        client = await bridge.__aenter__()
        before = await told(client)
    with process(registry, tmp_path, "--no-auth", "--port", str(port)):
        after = await told(client)
        await bridge.__aexit__(None, None, None)
    assert before.startswith("told by ")
    assert after.startswith("told by ")
    assert before != after


async def test_a_service_that_asks_who_calls_is_shown_the_key(registry: Path, tmp_path: Path, era: Era) -> None:
    keys = KeyFile(tmp_path / "keys.json")
    key = keys.create("host", ["use", "read", "route"], everything=True)[1]
    with process(registry, tmp_path, keys=keys) as service:
        async with host(service.url, era, key=key) as client:
            assert (await told(client)).startswith("told by ")


@pytest.mark.parametrize("key", ["", "wg_ffffffffffff_0123456789abcdef0123456789abcdef"])
def test_without_a_key_that_counts_the_error_says_what_to_set(registry: Path, tmp_path: Path, key: str) -> None:
    keys = KeyFile(tmp_path / "keys.json")
    keys.create("host", ["use"])
    asked = {"jsonrpc": "2.0", "id": 1, "method": "tools/list"}
    with process(registry, tmp_path, keys=keys) as service:
        command = [*PROGRAM, "--registry", service.url, "mcp"]
        [said] = answers(command, asked, **({"WAYGRAPH_API_KEY": key} if key else {}))
    assert "WAYGRAPH_API_KEY: set it" in said["error"]["message"]
    assert not key or key not in str(said)


async def test_a_namespace_is_one_of_the_services(service: Server, era: Era) -> None:
    async with host(service.url, era, "--namespace", "sea") as client:
        assert (await told(client)).startswith("told by ")


def test_what_is_listed_is_the_services_to_say(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["--registry", "http://127.0.0.1:9", "mcp", "--surface", "rfc"]) == 2
    assert "what is listed is the service's to say" in capsys.readouterr().err
