"""A host's file as `waygraph connect` leaves it: the inspector starts from it, and reaches what the host had before."""

import json
import subprocess
from pathlib import Path
from typing import Any, Literal

import pytest

from tests.clients.gateways import LISTED, SERVERS, Gateway, Service
from tests.host_programs import host_program

RUN_S = 120.0


def run(gateway: Gateway, *command: str) -> str:
    """What it printed; it fails with a status."""
    done = subprocess.run(command, env=gateway.environ, capture_output=True, text=True, check=False, timeout=RUN_S)
    assert done.returncode == 0, (done.stdout, done.stderr)
    return done.stdout


def test_a_host_keeps_its_servers_behind_the_gateway(gateway: Gateway, tmp_path: Path) -> None:
    """Taken over, its one entry finds and calls all that it had; put back, its file is as it was."""
    mine = Gateway(tmp_path, gateway.note, gateway.mark)
    (tmp_path / "note.txt").write_text(mine.note)
    config = tmp_path / "claude_desktop_config.json"
    config.write_text(json.dumps(mine.host_config(), indent=2))
    before = config.read_bytes()

    run(mine, *mine.waygraph("connect", "claude", "--file", config, "--import"))
    assert list(json.loads(config.read_bytes())["mcpServers"]) == ["waygraph"]
    entry = ("--config", str(config), "--server", "waygraph", "--connect-timeout", "60000")
    inspector = (*host_program("inspector"), "--cli", *entry, "--method")
    listed = json.loads(run(mine, *inspector, "tools/list"))
    assert {tool["name"] for tool in listed["tools"]} == LISTED
    asked = json.dumps({"name": "filesystem__read_text_file", "params": {"path": str(tmp_path / "note.txt")}})
    called = json.loads(run(mine, *inspector, "tools/call", "--tool-name", "use_tool", "--tool-args-json", asked))
    assert called["content"][0]["text"] == mine.note

    run(mine, *mine.waygraph("connect", "claude", "--file", config, "--restore"))
    assert config.read_bytes() == before
    assert set(json.loads(before)["mcpServers"]) == set(SERVERS)


InspectorEra = Literal["legacy", "modern"]


def inspect(gateway: Gateway, services: Service, door: str, era: InspectorEra, *request: str) -> dict[str, Any]:
    """What it printed of the result; it fails with a status."""
    if door == "stdio":
        server = gateway.waygraph("mcp")
    else:
        server = ["--server-url", services.url(door), "--header", f"Authorization: Bearer {services.key}"]
    patience = ("--connect-timeout", "60000")
    command = (*host_program("inspector"), "--cli", *server, *patience, "--protocol-era", era, "--method", *request)
    done = subprocess.run(command, env=gateway.environ, capture_output=True, text=True, check=False, timeout=RUN_S)
    assert done.returncode == 0, (done.stdout, done.stderr)
    printed: dict[str, Any] = json.loads(done.stdout)
    return printed


@pytest.mark.parametrize(("door", "era"), [("stdio", "legacy"), ("stdio", "modern"), ("/mcp", "modern")])
def test_what_is_listed_is_portable(door: str, era: InspectorEra, gateway: Gateway, services: Service) -> None:
    """It sees our few tools, and finds no fault of portability in their schemas (a status other than 0)."""
    listed = inspect(gateway, services, door, era, "tools/list", "--strict")
    assert {tool["name"] for tool in listed["tools"]} == LISTED


@pytest.mark.parametrize(("door", "era"), [("stdio", "legacy"), ("stdio", "modern"), ("/desk/mcp", "legacy")])
def test_a_tool_is_found_and_called(door: str, era: InspectorEra, gateway: Gateway, services: Service) -> None:
    """The name that find_tools gives is the one that use_tool takes, and the server's answer comes back."""
    asked = json.dumps({"query": "Read the complete contents of a text file", "detail": "schema"})
    request = ("tools/call", "--tool-name", "find_tools", "--tool-args-json", asked)
    tools = json.loads(inspect(gateway, services, door, era, *request)["content"][0]["text"])["tools"]
    assert "path" in tools[0]["inputSchema"]["properties"]
    asked = json.dumps({"name": tools[0]["name"], "params": {"path": str(gateway.home / "note.txt")}})
    called = inspect(gateway, services, door, era, "tools/call", "--tool-name", "use_tool", "--tool-args-json", asked)
    assert called["content"][0]["text"] == gateway.note
