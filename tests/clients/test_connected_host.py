"""A host's file as `waygraph connect` leaves it: the inspector starts from it, and reaches what the host had before."""

import json
import subprocess
from pathlib import Path

from tests.clients.gateways import LISTED, SERVERS, Gateway
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
