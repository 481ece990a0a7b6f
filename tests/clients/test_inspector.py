"""The MCP inspector in CLI mode, in TypeScript as many hosts are: it lists, finds and calls through the gateway."""

import json
import subprocess
from typing import Any, Literal

import pytest

from tests.clients.gateways import LISTED, Gateway, Service
from tests.host_programs import host_program

RUN_S = 120.0
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
