"""The installed command over a folder that somebody fetched for its skills, and that brings a plug-in along."""

import json
import os
import subprocess
import sys
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from tests.mcp_stubs import until, write_at_once

COMMAND = Path(sys.executable).with_name("waygraph")
TIDES = Path(__file__).parents[1] / "hosts" / "tides.py"
TIMEOUT_S = 120.0


@dataclass
class World:
    """A person's home, with the folder `got` in it."""

    home: Path

    @property
    def environ(self) -> dict[str, str]:
        kept = {name: value for name, value in os.environ.items() if not name.startswith(("WAYGRAPH_", "XDG_"))}
        return kept | {"HOME": str(self.home), "XDG_DATA_HOME": str(self.home / "data")}

    @property
    def plugin(self) -> Path:
        return self.home / "got" / "plugins" / "helper" / ".mcp.json"

    @property
    def starts(self) -> int:
        started = self.home / "started"
        return len(started.read_text().splitlines()) if started.exists() else 0

    def entry(self, **env: str) -> dict[str, Any]:
        started = {"STARTED": str(self.home / "started")}
        return {"command": sys.executable, "args": [str(TIDES)], "env": started | env}

    def put(self, path: Path, servers: Mapping[str, object]) -> None:
        path.parent.mkdir(parents=True, exist_ok=True)
        write_at_once(path, json.dumps({"mcpServers": servers}))

    def run(self, *words: object) -> "subprocess.CompletedProcess[str]":
        done = subprocess.run(
            [COMMAND, *map(str, words)],
            env=self.environ,
            cwd=self.home,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=TIMEOUT_S,
            check=False,
        )
        assert done.returncode == 0, done.stderr
        return done

    def ingest(self, *words: object) -> dict[str, Any]:
        """The report of the one source."""
        [source] = json.loads(self.run("ingest", "--json", *words).stdout)["sources"]
        report: dict[str, Any] = source["report"]
        return report

    def tools(self) -> list[str]:
        return [tool["id"] for tool in json.loads(self.run("tools", "--json").stdout)["tools"]]


@pytest.fixture
def world(tmp_path: Path) -> World:
    made = World(tmp_path)
    skill = tmp_path / "got" / "skills" / "anchoring" / "SKILL.md"
    skill.parent.mkdir(parents=True)
    skill.write_text("---\nname: anchoring\ndescription: Drops an anchor where it holds.\n---\nText.\n")
    made.put(made.plugin, {"helper": made.entry()})
    return made


def test_a_fetched_folder_starts_nothing_before_a_person_says_so(world: World) -> None:
    """Ingested, tried, by a pattern, followed; then a yes starts what is there, and a file what it names."""
    for words in (
        ["got"],
        ["got", "--dry-run"],
        ["got/**/.mcp.json"],
        ["got", "--connect"],
        ["got", "--start", "--dry-run"],
    ):
        report = world.ingest(*words)
        assert [each["where"] for each in report["cut"]] == ["got/plugins/helper/.mcp.json"], words
    world.run("watch", "got", "--once")
    world.run("watch", "--once")
    assert (world.starts, world.tools()) == (0, [])
    assert world.ingest("got", "--start")["tools"]["created"] == ["helper/tides"]
    assert world.starts == 1
    world.run("taxonomy", "build", "--of", "tools")
    assert world.ingest(world.plugin)["tools"]["unchanged"] == 1
    assert world.starts == 2
    world.put(world.plugin, {"helper": world.entry(MORE="1"), "newcomer": world.entry()})
    assert world.ingest("got")["tools"] == {"created": [], "updated": [], "removed": [], "unchanged": 1}
    assert (world.starts, world.tools()) == (2, ["helper/tides"])


def test_a_watch_starts_nothing_that_comes_into_its_folder(world: World) -> None:
    watching = subprocess.Popen(
        [COMMAND, "watch", "got", "--start", "--json"],
        env=world.environ,
        cwd=world.home,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        text=True,
    )
    lines = list[dict[str, Any]]()
    assert watching.stdout is not None
    try:
        for line in watching.stdout:
            lines.append(json.loads(line))
            if lines[-1]["event"] == "synced" and lines[-1]["report"]["tools"]["created"]:
                break
        world.put(world.home / "got" / "late" / ".mcp.json", {"late": world.entry()})
        for line in watching.stdout:
            lines.append(json.loads(line))
            if lines[-1]["event"] == "synced" and "late" in lines[-1]["report"]["agents"]["created"]:
                break
        until(lambda: world.tools() == ["helper/tides"], "the one that was there")
    finally:
        watching.kill()
        watching.communicate()
    assert world.starts == 1
    assert {each["server"] for each in lines if each["event"] == "starting"} == {"helper"}
    assert any("late" in each["where"] for each in lines[-1]["report"]["cut"])


def test_the_entry_that_connect_writes_is_left_out(world: World) -> None:
    config = world.home / ".cursor" / "mcp.json"
    world.put(config, {"helper": world.entry()})
    world.run("connect", "cursor", "--write")
    assert "waygraph" in json.loads(config.read_text())["mcpServers"]
    done = world.run("ingest", config, "--json")
    [source] = json.loads(done.stdout)["sources"]
    assert [each["where"] for each in source["report"]["cut"]] == [str(config)]
    assert (world.tools(), world.starts) == (["helper/tides"], 1)
