"""A host of the official SDK, a gateway, and servers as they are: restarted, compressed, failing at length, slow."""

import json
import sys
from pathlib import Path
from typing import Any

import pytest
from mcp import Client, MCPError

from tests.gateway.hosts import Era, Place, ingest, on_stdio
from tests.servers.misbehaving_http import misbehaving_http
from tests.upstream.test_session_end import LOSSES, Crane
from tests.upstream.test_starts import WORKS, launch_by_npx

FAILING = """
import json, sys
LINES = ["The plan failed:", *(f"  step {number} has no crane" for number in range(60)), "Remedy: give pier=2."]
for line in sys.stdin:
    asked = json.loads(line)
    if "id" not in asked:
        continue
    if asked["method"] == "initialize":
        about = {"protocolVersion": "2025-06-18", "capabilities": {"tools": {}}}
        answer = {"result": {**about, "serverInfo": {"name": "planner", "version": "1"}}}
    elif asked["method"] == "tools/list":
        answer = {"result": {"tools": [{"name": "plan", "description": "Plans.", "inputSchema": {"type": "object"}}]}}
    else:
        error = {"code": -32055, "message": chr(10).join(LINES), "data": {"steps": 60}}
        answer = {"error": error if asked["method"] == "tools/call" else {"code": -32601, "message": "not known"}}
    print(json.dumps({"jsonrpc": "2.0", "id": asked["id"], **answer}), flush=True)
"""
SLOW = """
import sys
sys.path.insert(0, {root!r})
from tests.servers.wire import serve
serve({{"tools/call": lambda _: {{"content": [{{"type": "text", "text": "slow and well"}}]}}}})
"""
SHORT_S = "2.5"


async def test_a_host_works_with_servers_as_they_are(era: Era, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("WAYGRAPH_UPSTREAM_CONNECT_TIMEOUT_S", SHORT_S)
    place, crane = Place(tmp_path), Crane(LOSSES["404"], packs=True)
    (tmp_path / "slow.py").write_text(SLOW.format(root=str(Path(__file__).parents[2])))
    slow = launch_by_npx(tmp_path, 4.0, WORKS["by what it says"], tmp_path / "slow.py")
    with misbehaving_http(crane) as endpoint:
        servers = {
            "crane": {"url": endpoint.url},
            "planner": {"command": sys.executable, "args": ["-c", FAILING]},
            "slow": {"command": slow.command, "args": list(slow.args)},
        }
        (tmp_path / "mcp.json").write_text(json.dumps({"mcpServers": servers}))
        assert ingest(place, str(tmp_path / "mcp.json")) == 0

        async def use_all(host: Client) -> None:
            for loss in LOSSES.values():  # the server restarts before each call
                crane.loss = loss
                assert text_of(await host.call_tool("use_tool", {"name": "crane__lift"})) == "lifted"
            error = await error_of_call(host, "planner__plan")
            assert "\n  step 59 has no crane\nRemedy: give pier=2." in error
            assert text_of(await host.call_tool("use_tool", {"name": "slow__alpha"})) == "slow and well"

        async with Client(on_stdio(place, WAYGRAPH_UPSTREAM_CONNECT_TIMEOUT_S=SHORT_S), mode=era) as host:
            await use_all(host)
    assert crane.runs == len(LOSSES)
    assert len(crane.sessions) == 1 + len(LOSSES), "one of the ingest"


async def error_of_call(host: Client, name: str) -> str:
    """As a result or of the protocol: the text is the server's."""
    try:
        return text_of(await host.call_tool("use_tool", {"name": name}))
    except MCPError as error:
        return error.error.message


def text_of(result: Any) -> str:
    return str(result.content[0].text)
