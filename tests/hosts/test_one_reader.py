"""`ingest` and `connect --import` read a host's file alike, and nothing that is switched off is ever started."""

import json
import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from tests.hosts.conftest import Home
from waygraph import Settings
from waygraph.ingest.hosts.backup import shelf_of
from waygraph.ingest.hosts.config import HostConfig, read_config
from waygraph.ingest.hosts.hosts import HOSTS, Gateway
from waygraph.ingest.hosts.takeover import Target, offer_of
from waygraph.ingest.manifest.environment import Surroundings
from waygraph.ingest.manifest.records import Intake, Launch
from waygraph.ingest.sources.formats import mcp_config
from waygraph.ingest.sources.parse import parse_file

AROUND = Surroundings(environ={"TIDE_KEY": "k0"}, cwd="/work/here")
MOST: dict[str, dict[str, Any]] = {
    "command": {"command": "uvx", "args": ["tides", "--level", "2"], "env": {"A": "b"}},
    "address": {"url": "https://tides.example/mcp"},
    "older address": {"url": "https://tides.example/sse", "type": "sse"},
    "typed": {"type": "streamable-http", "url": "https://tides.example/x", "headers": {"A": "b"}},
    "one list": {"type": "local", "command": ["uvx", "tides"], "environment": {"A": "b"}},
    "nested": {"transport": {"type": "stdio", "command": "uvx", "args": ["tides"]}},
    "off": {"command": "uvx", "disabled": True},
    "not on": {"command": "uvx", "enabled": False},
    "off in words": {"command": "uvx", "disabled": "true"},
    "unclear": {"command": "uvx", "enabled": "perhaps"},
    "neither": {"settings": {"a": "b"}},
    "unknown type": {"type": "carrier-pigeon", "url": "https://tides.example"},
    "bad arguments": {"command": "uvx", "args": "tides"},
    "built in": {"type": "builtin", "enabled": True},
}
OWN: dict[str, dict[str, dict[str, Any]]] = {
    "codex": {
        "variables": {"command": "uvx", "env_vars": ["TIDE_KEY"], "cwd": "/srv"},
        "headers": {"url": "https://t.example/mcp", "bearer_token_env_var": "TIDE_KEY", "http_headers": {"A": "b"}},
    },
    "gemini-cli": {
        "http": {"httpUrl": "https://tides.example/mcp", "timeout": 5},
        "either": {"url": "https://tides.example/mcp"},
        "variable": {"command": "uvx", "env": {"KEY": "$TIDE_KEY"}},
    },
    "windsurf": {"address of its own": {"serverUrl": "https://tides.example/mcp"}},
    "zed": {
        "object": {"source": "custom", "command": {"path": "uvx", "args": ["tides"], "env": {"A": "b"}}},
        "flat": {"source": "custom", "command": "uvx", "args": []},
        "extension": {"source": "extension", "settings": {"a": "b"}},
    },
    "cursor": {"variable": {"command": "uvx", "env": {"KEY": "${env:TIDE_KEY}"}}},
    "claude-code": {"variable": {"type": "stdio", "command": "uvx", "env": {"KEY": "${TIDE_KEY:-none}"}}},
}


def by_ingest(file: Path, around: Surroundings) -> tuple[dict[str, Launch], dict[str, str]]:
    """Launches, and the reason of each other server."""
    taken = Intake(where=str(file), surroundings=around)
    document = parse_file(file, Settings())
    found = {server.key: server.launch for server in mcp_config.servers(document, str(file), taken)}
    for record in mcp_config.read(document, str(file), taken):
        taken.take(record)
    off = {entry.key: f"it {mcp_config.OFF}" for entry in taken.entries if entry.key not in found}
    return found, off | {fault.key: fault.reason for fault in taken.rejected}


def by_import(target: Target) -> tuple[dict[str, Launch], dict[str, str]]:
    """The same, by what would stand in our own file."""
    offer = offer_of(target)
    file = target.shelf.config
    taken = Intake(where=str(file), surroundings=AROUND)
    found = {
        server.key: server.launch
        for server in mcp_config.servers({"mcpServers": dict(offer.servers)}, str(file), taken)
    }
    return found, dict(offer.stays)


@pytest.mark.parametrize("host", HOSTS)
def test_ingest_and_import_read_every_entry_alike(home: Home, host: str) -> None:
    """The same servers with the same launches; of the others the same reason."""
    entries = {**MOST, **OWN.get(host, {})}
    written = HostConfig(HOSTS[host], home.file(host), None).with_servers(entries)
    file = home.put(host, written.text)
    around = Surroundings(environ=AROUND.environ, home=str(home.folder), cwd=AROUND.cwd)
    shelf = shelf_of(home.folder, host, file, file)
    target = Target(config=read_config(HOSTS[host], file), gateway=Gateway(command="x"), name="waygraph", shelf=shelf)
    launches, reasons = by_ingest(file, around)
    assert (launches, reasons) == by_import(target)
    assert launches.keys() | reasons.keys() == entries.keys()
    assert {"off", "not on", "off in words", "neither", "bad arguments", "built in"} <= reasons.keys()
    assert {"command", "address", "one list", "nested"} <= launches.keys()


@pytest.mark.parametrize("folder", ["", "/w/quay"])
def test_a_list_beside_the_servers_counts_for_both(home: Home, folder: str) -> None:
    """Of Claude Code: what a person switched off in a folder is off there, and on elsewhere."""
    servers = {"mcpServers": {"on": {"command": "x"}, "not": {"command": "y"}}}
    part = {**servers, "disabledMcpServers": ["not"]}
    document = {**servers, "projects": {folder: part}} if folder else part
    file = home.put("claude-code", json.dumps(document))
    target = Target(
        config=read_config(HOSTS["claude-code"], file),
        gateway=Gateway(command="x"),
        name="waygraph",
        shelf=shelf_of(home.folder, "claude-code", file, file),
        folder=folder,
    )
    launches, reasons = by_ingest(file, AROUND)
    assert (launches.keys(), reasons.keys()) == tuple(found.keys() for found in by_import(target))
    assert reasons.keys() == {"quay/not" if folder else "not"}


SHOWN, KEPT = "tide", "wipe"
IN_AN_ENTRY: dict[str, object] = {
    **{key: [KEPT] for key in ("excludeTools", "exclude_tools", "excluded-tools", "disabledTools", "disabled_tools")},
    **{key: [KEPT] for key in ("disallowed_tools", "disallowedTools", "deniedTools", "blocked_tools", "alwaysDeny")},
    **{key: [SHOWN] for key in ("includeTools", "enabled_tools", "enabledTools", "allowed_tools", "available_tools")},
    "tools": [SHOWN],
    "include_tools": [f"{SHOWN}(harbour)"],
    "hidden_tools": {KEPT: True},
}
TABLES: list[dict[str, object]] = [
    {"exclude": [KEPT]},
    {"include": [SHOWN]},
    {"disallowed": [KEPT], "allowed": ["*"]},
    {KEPT: False},
    {"*": False, SHOWN: True},
    {KEPT: {"enabled": False}},
    {KEPT: {"permission": "deny"}},
    {KEPT: "never", SHOWN: "ask"},
]
BESIDE: dict[str, list[dict[str, object]]] = {
    "claude-code": [
        {"permissions": {"deny": [f"mcp__quay__{KEPT}", "Bash(rm:*)"]}},
        {"disallowedTools": [f"mcp__quay__{KEPT}"]},
    ],
    "gemini-cli": [{"excludeTools": [KEPT]}, {"tools": {"exclude": [f"quay__{KEPT}"], "allowed": [SHOWN]}}],
    "zed": [
        {"agent": {"profiles": {"write": {"context_servers": {"quay": {"tools": {KEPT: False}}}}}}},
        {"agent": {"tool_permissions": {"tools": {f"mcp:quay:{KEPT}": {"default": "deny"}}}}},
    ],
}
ELSEWHERE: dict[str, dict[str, object]] = {
    "opencode": {"mcp": {"quay": {"type": "local", "command": ["x"]}}, "tools": {f"quay_{KEPT}": False}},
    "opencode, by pattern": {
        "mcp": {"quay": {"type": "local", "command": ["x"]}},
        "permission": {"quay_*": "deny", f"quay_{SHOWN}": "allow"},
    },
    "Amazon Q": {"mcpServers": {"quay": {"command": "x"}}, "tools": ["fs_read", f"@quay/{SHOWN}"]},
    "Goose": {"extensions": {"quay": {"enabled": True, "type": "stdio", "cmd": "x", "available_tools": [SHOWN]}}},
    "Crush": {"mcp": {"quay": {"type": "stdio", "command": "x", "disabled_tools": [KEPT]}}},
    "of a list": {"mcp_servers": [{"name": "my quay", "command": "x"}], "disabled_tools": ["my_quay_wipe"]},
}


def keeps(document: Mapping[str, Any], where: str) -> list[bool]:
    """Of each server that `ingest` reads: whether both tools are as its file has them."""
    records = list(mcp_config.read(document, where, Intake(where=where)))
    shown = [[all(limit.shows(tool) for limit in record.limits) for tool in (SHOWN, KEPT)] for record in records]
    return [each == [True, False] for each in shown]


@pytest.mark.parametrize("host", HOSTS)
def test_what_a_host_keeps_from_its_model_is_read_by_both_doors(home: Home, host: str) -> None:
    """By every field that limits tools: `ingest` hides them; such a server stays with its host, or keeps its limit."""
    empty = HostConfig(HOSTS[host], home.file(host), None)
    plain: dict[str, object] = {"command": "x"}
    limits: list[dict[str, Any]] = [{name: value} for name, value in IN_AN_ENTRY.items()]
    limits += [{"tools": table} for table in TABLES]
    cases: list[tuple[dict[str, object], Mapping[str, Any]]] = [
        *(({**plain, **limit}, {}) for limit in limits),
        *((plain, beside) for beside in BESIDE.get(host, ())),
    ]
    for entry, beside in cases:
        document = {**beside, HOSTS[host].table: {"quay": entry}}
        text = json.dumps(document) if HOSTS[host].syntax == "json" else empty.with_servers({"quay": entry}).text
        file = home.put(host, text)
        assert keeps(parse_file(file, Settings()), str(file)) == [True], (entry, beside)
        offer = offer_of(
            Target(
                config=read_config(HOSTS[host], file),
                gateway=Gateway(command="x"),
                name="waygraph",
                shelf=shelf_of(home.folder, host, file, file),
            )
        )
        assert offer.stays.keys() | offer.servers.keys() == {"quay"}
        assert offer.stays or keeps({"mcpServers": dict(offer.servers)}, "x.json") == [True], (entry, beside)


@pytest.mark.parametrize("document", ELSEWHERE.values(), ids=ELSEWHERE)
def test_what_other_hosts_keep_is_read_too(document: Mapping[str, Any]) -> None:
    assert keeps(document, "x.json") == [True]


def test_lists_that_choose_nothing_keep_nothing() -> None:
    """Hosts write them; what is approved beforehand is no limit, nor is a limit of another server's tools."""
    entries: list[dict[str, object]] = [
        {},
        {"tools": []},
        {"tools": ["*"]},
        {"available_tools": []},
        {"excludeTools": []},
        {"includeTools": None},
        {"autoApprove": [SHOWN], "alwaysAllow": [SHOWN]},
    ]
    beside: list[dict[str, object]] = [
        {"permissions": {"deny": ["mcp__pier__wipe", "Bash(rm:*)"], "allow": ["mcp__quay__tide"]}},
        {"allowedTools": ["mcp__quay__tide"]},
        {"tools": {"sandbox": False, "core": ["read_file"]}},
    ]
    cases: list[tuple[dict[str, object], dict[str, object]]] = [(each, {}) for each in entries] + [
        ({}, each) for each in beside
    ]
    for entry, more in cases:
        document = {**more, "mcpServers": {"quay": {"command": "x", **entry}}}
        [record] = mcp_config.read(document, "x.json", Intake(where="x.json"))
        assert all(limit.shows(tool) for limit in record.limits for tool in (SHOWN, KEPT)), (entry, more)
    for name in ("includeTools", "enabled_tools"):
        [record] = mcp_config.read({"mcpServers": {"q": {"command": "x", name: []}}}, "x.json", Intake(where="x.json"))
        assert not any(limit.shows(SHOWN) for limit in record.limits)
    intake = Intake(where="x.json")
    assert not [*mcp_config.read({"mcpServers": {"q": {"command": "x", "excludeTools": 5}}}, "x.json", intake)]
    assert "excludeTools: expected a list of tools' names, found a number" in intake.rejected[0].reason


@pytest.mark.parametrize("host", HOSTS)
def test_what_connect_writes_is_read_by_ingest(home: Home, host: str) -> None:
    """In the host's own file and form, beside the servers that it had."""
    file = home.put(host)
    assert home.run("connect", host, "--write").status == 0
    answer = home.run("ingest", file, "--no-connect", "--json")
    assert answer.status == 0
    listed = home.run("agents", "--json").json
    assert "tides" in {agent["name"] for agent in listed["agents"]}


def test_what_is_switched_off_is_never_started(home: Home) -> None:
    """One that is on shows that servers are started at all."""
    switches: dict[str, dict[str, object]] = {
        "on": {},
        "disabled": {"disabled": True},
        "in words": {"disabled": "yes"},
        "not enabled": {"enabled": False},
        "zero": {"enabled": 0},
        "inactive": {"isActive": "false"},
        "unclear": {"disabled": ["x"]},
        "listed": {},
    }
    servers = {
        name: {"command": "touch", "args": [str(home.folder / f"ran {name}")], **switch}
        for name, switch in switches.items()
    }
    file = home.put("cursor", json.dumps({"mcpServers": servers, "disabledMcpServers": ["listed"]}))
    answer = home.run("ingest", file)
    assert [path.name for path in home.folder.glob("ran *")] == ["ran on"]
    off = {name for name in switches if f"#/mcpServers/{name}\t{mcp_config.OFF}" in answer.out}
    assert off == switches.keys() - {"on", "unclear"}


@pytest.mark.parametrize("kind", ["pipe", "folder", "device", "link to a pipe"])
@pytest.mark.parametrize("action", ["--write", "--import", "--remove", "--restore"])
def test_what_is_no_file_is_refused_at_once(home: Home, kind: str, action: str) -> None:
    path = home.folder / "work" / "mcp.json"
    if kind == "folder":
        path.mkdir()
    elif kind == "device":
        path = Path("/dev/zero")
    elif kind == "pipe":
        os.mkfifo(path)
    else:
        os.mkfifo(home.folder / "pipe")
        path.symlink_to(home.folder / "pipe")
    answer = home.run("connect", "cursor", action, "--file", path)
    assert answer.status == 1
    assert f"is a {kind.rpartition(' ')[2]}, and a host's config is a file" in answer.err
