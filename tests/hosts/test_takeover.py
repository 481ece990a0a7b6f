"""`waygraph connect HOST --import` and `--restore`: a host's servers behind the gateway, and back, whatever happens."""

import json
import os
import signal
import stat
import subprocess
import sys
from pathlib import Path

import pytest

from tests.hosts.configs import CONFIGS, SECRETS
from tests.hosts.conftest import Home
from waygraph import Settings
from waygraph.ingest.hosts.config import read_config
from waygraph.ingest.hosts.hosts import HOSTS
from waygraph.ingest.manifest.environment import Surroundings
from waygraph.ingest.manifest.records import StdioLaunch
from waygraph.ingest.sources.formats.mcp_config import config_entry

ROOT = Path(__file__).parents[2]


@pytest.mark.parametrize("host", CONFIGS)
def test_there_and_back_the_file_is_the_same_to_the_byte(
    home: Home, host: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Comments, last commas, Windows line breaks, marks at the begin, odd indentation; no value is ever printed."""
    file = home.put(host)
    before = file.read_bytes()
    taken = home.run("connect", host, "--import", "--json").json
    assert "tides" in taken["taken"]
    now = read_config(HOSTS[host], file).servers
    assert "waygraph" in now
    assert not set(now) & set(taken["taken"])
    tools = home.tools()
    assert tools != []
    back = home.run("connect", host, "--restore", "--json").json
    assert (back["restored"], back["whole"]) == (taken["taken"], True)
    assert file.read_bytes() == before
    assert (home.tools(), [*home.shelf.iterdir()]) == (tools, [])  # now of the host's own file
    assert home.told_a_secret() == []


def test_what_was_taken_over_can_be_started_from_our_file(home: Home) -> None:
    """With its secrets, which its owner alone may read; the graph, the registry's files and the index have none."""
    home.put("cursor")
    told = home.run("connect", "cursor", "--import", "--json").json
    config = Path(told["kept_in"])
    entry = config_entry(str(config), "tides", Settings(), Surroundings())
    assert entry.launch == StdioLaunch(
        command=sys.executable, args=("-u", str(home.program)), env={"TOKEN": "s3cr3t-value"}
    )
    held = {path.name: stat.S_IMODE(path.stat().st_mode) for path in home.shelf.iterdir()}
    assert held == {"cursor.json": 0o600, "cursor.takes": 0o600}
    assert stat.S_IMODE(home.shelf.stat().st_mode) == 0o700
    others = [path for path in home.registry.parent.rglob("*") if path.is_file() and path.parent != home.shelf]
    assert others
    for path in others:
        assert not any(secret.encode() in path.read_bytes() for secret in SECRETS), path


def test_a_dry_run_starts_nothing_and_shows_no_secret(home: Home) -> None:
    for host in CONFIGS:
        file = home.put(host)
        before = file.read_bytes()
        answer = home.run("connect", host, "--import", "--dry-run")
        assert (answer.status, file.read_bytes(), home.registry.exists()) == (0, before, False)
        assert "tides" in answer.out
        assert "is asked first, and one that does not answer then stays" in answer.err
    assert not home.shelf.exists()
    for host in CONFIGS:
        home.run("connect", host, "--import")
        home.run("connect", host, "--restore", "--dry-run")
    assert home.told_a_secret() == []


def test_a_variable_is_referred_to_in_the_hosts_own_way(home: Home, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TIDE_KEY", "s3cr3t-value")
    server = '{"mcpServers": {"tides": {"command": "PYTHON", "args": ["-u", "PROGRAM"], "env": {"K": "REF"}}}}'
    for host, written, handed in (
        ("cursor", "${env:TIDE_KEY}", "${env:TIDE_KEY}"),
        ("gemini-cli", "$TIDE_KEY", "${TIDE_KEY}"),
        ("claude-code", "${TIDE_KEY:-none}", "${TIDE_KEY}"),
    ):
        home.put(host, server.replace("REF", written))
        assert home.run("connect", host, "--import").status == 0
        assert read_config(HOSTS[host], home.file(host)).servers["waygraph"]["env"]["TIDE_KEY"] == handed
    assert home.told_a_secret() == []


OF_FOLDERS = """{
  "numStartups": 7,
  "mcpServers": {"tides": {"type": "stdio", "command": "PYTHON", "args": ["-u", "PROGRAM"]}},
  "projects": {
    "THAT ONE": {"mcpServers": {"tides": {"command": "never-there", "args": []}}},
    "THIS ONE": {
      "allowedTools": [],
      "mcpServers": {
        "tides": {"type": "stdio", "command": "PYTHON", "args": ["-u", "PROGRAM"], "env": {"TOKEN": "s3cr3t-value"}},
        "gone": {"command": "never-there"}
      },
      "history": ["old-password-42"]
    }
  }
}"""


@pytest.fixture
def of_folders(home: Home) -> Path:
    """Claude Code's own file, with servers for all folders, for this one and for another one."""
    text = OF_FOLDERS.replace("THIS ONE", str(Path.cwd())).replace("THAT ONE", str(home.folder / "else" / "work"))
    return home.put("claude-code", text)


def test_a_gateway_in_the_folder_s_own_servers_is_not_put_behind_itself(home: Home, of_folders: Path) -> None:
    """It is known by its name, where it is an address that does not tell what it is."""
    text = of_folders.read_text().replace(
        '"gone": {"command"', '"waygraph": {"url": "http://127.0.0.1:9/mcp"}, "g": {"x"'
    )
    of_folders.write_text(text)
    told = home.run("connect", "claude-code", "--import", "--json").json
    assert told["taken"] == ["tides", "work/tides"]
    assert [*told["stays"]] == ["work/g"]
    assert [*json.loads(of_folders.read_text())["projects"][str(Path.cwd())]["mcpServers"]] == ["waygraph", "g"]


def test_a_server_that_calls_itself_a_gateway_stays_with_its_host(home: Home) -> None:
    """Whatever starts it; one that a wrapper starts by a known command is not even asked."""
    entry = {"command": sys.executable, "args": [str(home.program)]}
    servers = {
        "tides": entry,
        "wrapped": {**entry, "env": {"CALLED": "waygraph"}},
        "in a shell": {"command": "sh", "args": ["-c", f"touch {home.folder}/ran; waygraph mcp"]},
        "by its key": {"url": "http://127.0.0.1:9/x", "headers": {"Authorization": "Bearer ${env:WAYGRAPH_API_KEY}"}},
    }
    home.put("cursor", json.dumps({"mcpServers": servers}))
    told = home.run("connect", "cursor", "--import", "--json").json
    assert (told["taken"], {*told["stays"]}) == (["tides"], servers.keys() - {"tides"})
    assert not (home.folder / "ran").exists()
    assert home.tools() == ["tides/tides"]


def test_a_file_that_was_changed_since_gets_its_servers_beside_what_it_has(home: Home) -> None:
    file = home.put("cursor")
    before = read_config(HOSTS["cursor"], file).servers
    home.run("connect", "cursor", "--import")
    changed = read_config(HOSTS["cursor"], file).with_servers({"new": {"command": "n"}, "tides": {"command": "mine"}})
    file.write_text(changed.text or "")
    told = home.run("connect", "cursor", "--restore", "--json").json
    assert (told["whole"], told["kept"], "tides" in told["restored"]) == (False, ["tides"], False)
    after = read_config(HOSTS["cursor"], file)
    assert after.servers == {**before, "new": {"command": "n"}, "tides": {"command": "mine"}}
    assert "// mine, last changed" in (after.text or "")


IMPORT_STEPS = [
    ("backup.Shelf.keep_servers", 1),
    ("backup.Shelf.keep_servers", 2),
    ("backup.Shelf.keep_takes", 1),
    ("backup._back_up", 1),
    ("backup._put", 1),
    ("backup._refuse_changed", 1),
    ("backup.sync_path", 1),
]
RESTORE_STEPS = [("backup._put", 1), ("backup.sync_path", 1), ("backup.Shelf.clear", 1)]


def killed(home: Home, step: str, count: int, *words: str) -> None:
    ended = subprocess.run(
        [sys.executable, "-m", "tests.hosts.killed", step, str(count), *words],
        env={**os.environ, "PYTHONPATH": str(ROOT)},
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    home.said += [ended.stdout, ended.stderr]
    assert ended.returncode == -signal.SIGKILL, ended.stderr


@pytest.mark.parametrize(("step", "count"), IMPORT_STEPS)
def test_killed_while_it_takes_over_nothing_is_lost(home: Home, step: str, count: int) -> None:
    """The next run takes over as if nothing had been; what was there can be put back to the byte."""
    file = home.put("cursor")
    before = file.read_bytes()
    servers = read_config(HOSTS["cursor"], file).servers
    killed(home, step, count, "connect", "cursor", "--import")
    found = read_config(HOSTS["cursor"], file).servers
    assert all(
        name in found or name in json.loads((home.shelf / "cursor.json").read_text())["mcpServers"] for name in servers
    )
    told = home.run("connect", "cursor", "--import", "--json")
    assert told.status == 0
    assert [*read_config(HOSTS["cursor"], file).servers] == ["off", "waygraph"]
    home.run("connect", "cursor", "--restore")
    assert (file.read_bytes(), [*home.shelf.iterdir()]) == (before, [])
    assert home.told_a_secret() == []


@pytest.mark.parametrize(("step", "count"), RESTORE_STEPS)
def test_killed_while_it_puts_back_the_next_run_ends_it(home: Home, step: str, count: int) -> None:
    file = home.put("cursor")
    before = file.read_bytes()
    home.run("connect", "cursor", "--import")
    tools = home.tools()
    killed(home, step, count, "connect", "cursor", "--restore")
    assert home.run("connect", "cursor", "--restore").status == 0
    assert (file.read_bytes(), home.tools(), [*home.shelf.iterdir()]) == (before, tools, [])
