"""`waygraph start` over ten real servers in an empty home, by the installed command: once, and once more."""

import json
from pathlib import Path
from typing import Any

import pytest

from tests.hosts.test_front_door import House
from tests.live_servers import OWN_SERVERS, REAL_SERVERS, real_server

SERVERS = {**{name: name for name in (*REAL_SERVERS, *OWN_SERVERS)}, "more files": "filesystem", "clock": "time"}
OF_GEMINI = ("filesystem", "memory", "clock")


@pytest.fixture
def house(tmp_path: Path) -> House:
    """Two hosts have five servers each between them, of which one keeps tools from its model; one server is gone."""
    house = House(tmp_path)
    entries: dict[str, dict[str, Any]] = {}
    for name, program in SERVERS.items():
        (tmp_path / name).mkdir()
        more = ("--local-timezone=Asia/Tokyo",) if name == "clock" else ()
        server = real_server(program, tmp_path / name, *more)
        entries[name] = {"command": server.command, "args": list(server.args), "env": dict(server.env)}
    entries["memory"]["excludeTools"] = ["delete_entities"]
    gemini = {name: entries.pop(name) for name in OF_GEMINI}
    house.put(house.cursor, {**entries, "gone": {"command": "never-there"}})
    house.put(tmp_path / ".gemini" / "settings.json", gemini)
    return house


def sources_of(house: House) -> dict[str, list[str]]:
    """Agent → the sources that claim it."""
    sources: dict[str, list[str]] = {}
    for source in json.loads(house.run("sources", "--json").stdout)["sources"]:
        for claim in source["claims"]:
            sources.setdefault(claim["agent_id"], []).append(Path(source["name"]).name)
    return sources


def tail(text: str) -> list[str]:
    """What it tried, and what to do next; the variables of a box, which a tool may answer, have no order."""
    return [line.partition(" answered: ")[0] for line in text[text.index("request\t") :].splitlines()]


def test_start_over_ten_real_servers(house: House) -> None:
    """Each has one source then; what will not run is named, one call is made by the new entry, and a second run tries
    the same with the same end.
    """
    first = house.run("start", "--yes")
    assert first.returncode == 0, first.stderr
    sources = sources_of(house)
    assert len(sources) == len(SERVERS)
    assert all(len(names) == 1 for names in sources.values()), sources
    assert sources["memory"] == ["settings.json"]
    assert "memory/delete_entities will not run" in first.stderr
    assert "excludeTools keeps tools of it from this host's model" in first.stdout
    left = set(json.loads(house.cursor.read_text())["mcpServers"]) - {"waygraph", "gone"}
    assert all(f"{name}/" in first.stdout and "will not run" in first.stdout for name in left)
    [called] = [line for line in first.stdout.splitlines() if "called by Cursor's entry" in line]
    assert " answered: " in called
    refused = house.run("call", "memory/delete_entities", "entityNames=[]")
    assert refused.returncode != 0
    assert house.run("doctor").returncode == 0

    second = house.run("start", "--yes")
    assert second.returncode == 0, second.stderr
    assert tail(second.stdout) == tail(first.stdout)
    assert sources_of(house) == sources
    requests = [line.split("\t")[0] for line in tail(first.stdout)[1:4]]
    descriptions = [each["description"] for each in json.loads(house.run("tools", "--json").stdout)["tools"]]
    assert not any(text.startswith(request) for request in requests for text in descriptions)
