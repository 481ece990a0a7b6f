"""Files of every known host, in its own form: the servers they name, which are off, and how each is launched."""

import json
import os
from pathlib import Path
from typing import Any

import pytest

from tests.unit.test_sources import read_stream
from waygraph.ingest.manifest.environment import Surroundings
from waygraph.ingest.manifest.records import HttpLaunch, Intake, Launch, Manifest, StdioLaunch
from waygraph.ingest.sources.formats import mcp_config
from waygraph.ingest.sources.kinds import kind_of
from waygraph.ingest.sources.parse import parse_file
from waygraph.ingest.sources.read import read_path
from waygraph.registry.model.errors import SourceError
from waygraph.registry.model.settings import Settings

S = Settings()
OFF = "off"
TIDES, WIND = StdioLaunch(command="uvx", args=("tides",)), HttpLaunch(url="https://wind.example/mcp")
KEYED = StdioLaunch(command="uvx", args=("tides",), env={"KEY": "k0", "LEVEL": "2"})


def launches(path: Path, home: Path) -> dict[str, Launch | str]:
    """Key → launch, or OFF. A server that is rejected is not among them."""
    around = Surroundings(environ={"KEY": "k0"}, home=str(home), cwd="/work/here")
    document, taken = parse_file(path, S), Intake(where=str(path), surroundings=around)
    assert kind_of(document, str(path)).name == "mcp-config"
    for record in mcp_config.read(document, str(path), taken):
        taken.take(record)
    asked = {server.key: server.launch for server in mcp_config.servers(document, str(path), taken)}
    off = {entry.key: OFF for entry in taken.entries if mcp_config.DISABLED in entry.agent.tags}
    assert {*off, *asked} == {entry.key for entry in taken.entries}
    return {**asked, **off}


def written(folder: Path, name: str, content: object) -> Path:
    path = folder / name
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(content if isinstance(content, str) else json.dumps(content), encoding="utf-8")
    return path


GOOSE = """
GOOSE_MODE: auto
extensions:
  developer: {type: builtin, name: developer, enabled: true}
  tides: {type: stdio, cmd: uvx, args: [tides], enabled: true, timeout: 300, envs: {LEVEL: 2}, env_keys: [KEY]}
  wind: {type: streamable_http, uri: "https://wind.example/mcp", enabled: true}
  later: {type: sse, uri: "https://later.example/sse", enabled: false}
  older:
    enabled: true
    config: {type: stdio, cmd: uvx, args: [tides]}
"""
CONTINUE = """
name: mine
mcpServers:
  - name: tides
    command: uvx
    args: [tides]
    env: {KEY: "${{ secrets.KEY }}", LEVEL: 2}
  - name: wind
    type: streamable-http
    url: https://wind.example/mcp
    requestOptions: {headers: {A: b}}
  - command: nameless
"""
CODEX = """
model = "m"
started = 2026-01-02
[mcp_servers.tides]  # mine
command = "uvx"
args = ["tides"]
env_vars = ["KEY"]
startup_timeout_sec = 20
[mcp_servers.tides.env]
LEVEL = "2"
[mcp_servers.wind]
url = "https://wind.example/mcp"
bearer_token_env_var = "KEY"
http_headers = { "A" = "b" }
[mcp_servers.later]
command = "uvx"
enabled = false
"""
OPENCODE = """{
  // as it comes
  "$schema": "https://opencode.ai/config.json",
  "mcp": {
    "tides": {"type": "local", "command": ["uvx", "tides"], "environment": {"KEY": "{env:KEY}", "LEVEL": "2"}},
    "wind": {"type": "remote", "url": "https://wind.example/mcp", "enabled": true},
    "later": {"type": "local", "command": ["uvx"], "enabled": false},
    "sealed": {"type": "remote", "url": "https://wind.example/mcp", "headers": {"A": "{file:~/.key}"}},
  },
}"""
OPENCODE_2 = {
    "mcp": {"timeout": {}, "servers": {"tides": {"type": "local", "command": ["uvx", "tides"], "cwd": "/srv"}}}
}
ZED = {
    "theme": "One",
    "context_servers": {
        "tides": {
            "source": "custom",
            "command": {"path": "uvx", "args": ["tides"], "env": {"LEVEL": "2", "KEY": "k0"}},
        },
        "flat": {"source": "custom", "command": "uvx", "args": ["tides"], "enabled": True},
        "wind": {"source": "custom", "url": "https://wind.example/mcp", "settings": {}},
        "later": {"enabled": False, "command": "uvx"},
        "of-an-extension": {"source": "extension", "settings": {"a": 1}},
    },
}
GEMINI = {
    "mcp": {"excluded": ["later"]},
    "mcpServers": {
        "tides": {"command": "uvx", "args": ["tides"], "env": {"KEY": "$KEY", "LEVEL": 2}, "trust": True},
        "wind": {"httpUrl": "https://wind.example/mcp", "timeout": 5},
        "later": {"command": "uvx"},
    },
}
CLAUDE = {
    "mcpServers": {"tides": {"type": "stdio", "command": "uvx", "args": ["tides"]}},
    "projects": {
        "/w/quay": {
            "mcpServers": {"a": {"command": "uvx"}, "b": {"command": "uvx"}},
            "disabledMcpServers": ["b", "tides"],
        }
    },
}
FILES: dict[str, tuple[str, object, dict[str, Launch | str]]] = {
    "Goose": ("config.yaml", GOOSE, {"tides": KEYED, "wind": WIND, "later": OFF, "older": TIDES}),
    "Continue": ("config.yaml", CONTINUE, {"tides": KEYED, "wind": HttpLaunch(url=WIND.url, headers={"A": "b"})}),
    "Codex": (
        "config.toml",
        CODEX,
        {
            "tides": KEYED,
            "wind": HttpLaunch(url=WIND.url, headers={"A": "b", "Authorization": "Bearer k0"}),
            "later": OFF,
        },
    ),
    "opencode": ("opencode.jsonc", OPENCODE, {"tides": KEYED, "wind": WIND, "later": OFF}),
    "opencode 2": ("opencode.json", OPENCODE_2, {"tides": StdioLaunch(command="uvx", args=("tides",), cwd="/srv")}),
    "Zed": ("settings.json", ZED, {"tides": KEYED, "flat": TIDES, "wind": WIND, "later": OFF}),
    "Gemini CLI": (".gemini/settings.json", GEMINI, {"tides": KEYED, "wind": WIND, "later": OFF}),
    "Windsurf": (
        "mcp_config.json",
        {"mcpServers": {"wind": {"serverUrl": WIND.url}, "later": {"serverUrl": WIND.url, "disabled": True}}},
        {"wind": WIND, "later": OFF},
    ),
    "Cline": (
        "cline_mcp_settings.json",
        {
            "mcpServers": {
                "wind": {"transport": {"type": "streamableHttp", "url": WIND.url}},
                "later": {"disabled": True, "command": "uvx", "autoApprove": []},
            }
        },
        {"wind": WIND, "later": OFF},
    ),
    "Cherry Studio": (
        "mcp.json",
        {
            "mcpServers": {
                "wind": {"type": "streamableHttp", "url": WIND.url, "isActive": True},
                "later": {"command": "uvx", "isActive": False},
            }
        },
        {"wind": WIND, "later": OFF},
    ),
    "VS Code": (
        "settings.json",
        '{"editor.tabSize": 2, "mcp": {"servers": {"wind": {"type": "http", "url": "https://wind.example/mcp"},}}}',
        {"wind": WIND},
    ),
    "Amp": ("settings.json", {"amp.mcpServers": {"wind": {"url": WIND.url}}}, {"wind": WIND}),
    "Claude Code": (
        ".claude.json",
        CLAUDE,
        {"tides": TIDES, "quay/a": StdioLaunch(command="uvx", cwd="/w/quay"), "quay/b": OFF},
    ),
    "a plug-in": (
        "servers.json",
        {"tides": {"command": "uvx", "args": ["tides"]}, "broken": 5, "$schema": "x"},
        {"tides": TIDES},
    ),
    "a plug-in with more fields": (
        "servers.json",
        {"wind": {"url": WIND.url, "colour": "red"}, "tides": {"command": "uvx", "args": ["tides"], "title": "Tides"}},
        {"tides": TIDES, "wind": WIND},
    ),
    "a plug-in with addresses": ("servers.json", {"wind": {"type": "http", "url": WIND.url}}, {"wind": WIND}),
}


@pytest.mark.parametrize("host", FILES)
def test_a_hosts_own_file_is_read(tmp_path: Path, host: str) -> None:
    """By whichever words it names its servers; one that cannot be launched costs itself alone."""
    name, content, wanted = FILES[host]
    assert launches(written(tmp_path, name, content), home=tmp_path) == wanted


SWITCHES = [
    ({"disabled": True}, True),
    ({"disabled": "true"}, True),
    ({"disabled": "Yes"}, True),
    ({"disabled": 1}, True),
    ({"enabled": False}, True),
    ({"enabled": "off"}, True),
    ({"enabled": 0}, True),
    ({"isActive": False}, True),
    ({"is_enabled": "no"}, True),
    ({"enabled": True, "disabled": True}, True),
    ({"enabled": False, "config": {"cmd": "x", "enabled": True}}, True),
    ({"disabled": False}, False),
    ({"disabled": "0"}, False),
    ({"disabled": None, "enabled": ""}, False),
    ({"enabled": "on"}, False),
    ({"enabled": True, "disabled": "false"}, False),
]


@pytest.mark.parametrize(("switch", "is_off"), SWITCHES, ids=str)
def test_a_server_is_off_by_whichever_word_its_host_has(
    tmp_path: Path, switch: dict[str, object], *, is_off: bool
) -> None:
    path = written(tmp_path, "mcp.json", {"mcpServers": {"x": {"command": "x", **switch}}})
    assert launches(path, tmp_path) == {"x": OFF if is_off else StdioLaunch(command="x")}


@pytest.mark.parametrize("switch", [{"disabled": "perhaps"}, {"enabled": []}, {"isActive": {"a": 1}}], ids=str)
def test_a_switch_that_says_neither_keeps_its_server_from_being_started(
    tmp_path: Path, switch: dict[str, object]
) -> None:
    path = written(tmp_path, "mcp.json", {"mcpServers": {"x": {"command": "x", **switch}, "y": {"command": "y"}}})
    assert launches(path, tmp_path) == {"y": StdioLaunch(command="y")}


@pytest.mark.parametrize(
    "beside",
    [
        {"disabledMcpServers": ["x"]},
        {"disabledMcpjsonServers": ["x", "other"]},
        {"deniedMcpServers": [{"serverName": "x"}]},
        {"mcp": {"excluded": ["x"]}},
        {"mcp": {"allowed": ["y"]}},
        {"excludeMCPServers": ["x"]},
        {"allowMCPServers": ["y"]},
    ],
    ids=str,
)
def test_a_list_beside_the_servers_switches_them_off(tmp_path: Path, beside: dict[str, object]) -> None:
    servers = {"x": {"command": "x"}, "y": {"command": "y"}}
    path = written(tmp_path, "settings.json", {**beside, "mcpServers": servers})
    assert launches(path, tmp_path) == {"x": OFF, "y": StdioLaunch(command="y")}


def test_what_is_off_is_reported(tmp_path: Path) -> None:
    path = written(tmp_path, "mcp.json", {"mcpServers": {"x": {"command": "x", "enabled": False}}})
    [manifest] = read_path(str(path), S)
    assert [(each.where.rpartition("#")[2], "switched off" in each.reason) for each in manifest.cut] == [
        ("/mcpServers/x", True)
    ]
    assert manifest.rejected == ()


OTHERS: dict[str, dict[str, Any]] = {
    "language servers": {"go": {"command": "gopls", "args": ["serve"], "extensionToLanguage": {".go": "go"}}},
    "containers": {"web": {"image": "web", "command": "serve", "environment": {"A": "b"}}},
    "services": {"billing": {"url": "https://billing.example/api", "headers": {}}},
    "commands": {"lint": {"command": "ruff"}},
    "a manifest": {"name": "x", "server": {"type": "node", "command": "node", "args": []}},
    "extensions": {"extensions": [{"url": "https://x.example", "version": "1"}]},
    "a recommendation": {"extensions": {"recommended": {"type": "theme"}}},
    "limits": {"mcp": {"allowed": ["x"]}},
}


@pytest.mark.parametrize("name", OTHERS)
def test_other_documents_are_no_configuration(name: str) -> None:
    """What they name is never started."""
    assert not mcp_config.fits(OTHERS[name])


def read(path: Path) -> Manifest:
    [manifest] = read_path(str(path), S)
    return manifest


MANIFESTS: list[tuple[object, list[str]]] = [
    ("./.mcp.json", ["tides"]),
    ("${CLAUDE_PLUGIN_ROOT}/.mcp.json", ["tides"]),
    (["./.mcp.json", "./more/servers.json"], ["tides", "wind"]),
    ({"inline": {"command": "x"}}, ["inline"]),
    ([{"inline": {"command": "x"}}, "more/servers.json"], ["inline", "wind"]),
    ("./gone.json", []),
    ("../outside.json", []),
    ("./link.json", []),
    ("./pipe.json", []),
    ("./bundle.mcpb", []),
]


@pytest.mark.parametrize(("named", "keys"), MANIFESTS, ids=str)
def test_a_plug_ins_manifest_names_its_servers(tmp_path: Path, named: object, keys: list[str]) -> None:
    """In files below its folder, or in itself; what cannot be read costs itself, and nothing outside is read."""
    plugin = tmp_path / "plugin"
    written(tmp_path, "outside.json", {"mcpServers": {"stolen": {"command": "x"}}})
    written(plugin, ".mcp.json", {"tides": {"command": "uvx", "args": ["tides"]}})
    written(plugin, "more/servers.json", {"mcpServers": {"wind": {"url": WIND.url}}})
    written(plugin, "bundle.mcpb", "PK")
    (plugin / "link.json").symlink_to(tmp_path / "outside.json")
    os.mkfifo(plugin / "pipe.json")
    manifest = read(written(plugin, ".claude-plugin/plugin.json", {"name": "p", "mcpServers": named}))
    assert [entry.key for entry in manifest.entries] == keys
    assert len(manifest.rejected) == (0 if keys else 1)


def test_a_plug_in_is_its_servers_root(tmp_path: Path) -> None:
    entry = {"command": "${CLAUDE_PLUGIN_ROOT}/serve", "args": ["${extensionPath}"]}
    wanted = {"x": StdioLaunch(command=f"{tmp_path}/serve", args=(str(tmp_path),), cwd=str(tmp_path))}
    for path in (
        written(tmp_path, ".mcp.json", {"x": entry}),
        written(tmp_path, "gemini-extension.json", {"mcpServers": {"x": entry}}),
        written(tmp_path, ".claude-plugin/plugin.json", {"name": "p", "mcpServers": "./.mcp.json"}),
    ):
        assert launches(path, tmp_path / "home") == wanted


@pytest.mark.parametrize("text", [CODEX, f"# first\n{CODEX}", OPENCODE, f"// first\n{OPENCODE}", GOOSE], ids=range(5))
def test_a_configuration_is_known_without_its_name(tmp_path: Path, text: str) -> None:
    """On standard input, and in a backup."""
    [manifest] = read_stream(text.encode(), S)
    assert {"tides", "wind"} <= {entry.key for entry in manifest.entries}
    if text != GOOSE:
        assert {"tides", "wind"} <= {entry.key for entry in read(written(tmp_path, "config.before", text)).entries}


@pytest.mark.parametrize("text", ["[mcp_servers.x", "[mcp_servers.x]\na = 1\na = 2", "a = " + "[" * 5000])
def test_broken_toml_is_an_error_of_its_file(tmp_path: Path, text: str) -> None:
    with pytest.raises(SourceError, match=r"is not TOML|nested deeper than"):
        read(written(tmp_path, "config.toml", text))
