"""Where clients keep their configs on each system, and what is told of them."""

import json
from collections.abc import Mapping
from pathlib import Path

import pytest

from waygraph.ingest.hosts.hosts import KnownConfig, known_configs
from waygraph.registry.model.settings import Settings

CONFIG = {"mcpServers": {"a": {"command": "touch", "args": ["/x"]}, "b": {"url": "https://h", "disabled": True}}}
VS_CODE = {"servers": {"a": {"command": "x"}}, "inputs": []}


def placed(home: Path, places: Mapping[str, object]) -> None:
    for name, content in places.items():
        path = home / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(content if isinstance(content, str) else json.dumps(content), "utf-8")


def found(
    home: Path, platform: str, environ: Mapping[str, str] | None = None, cwd: Path | None = None
) -> list[KnownConfig]:
    return known_configs(home, environ or {}, platform, cwd or home / "nowhere", settings=Settings())


@pytest.mark.parametrize(
    ("platform", "programs"),
    [("linux", ".config"), ("darwin", "Library/Application Support"), ("win32", "AppData/Roaming")],
)
def test_every_client_is_found_on_every_system(tmp_path: Path, platform: str, programs: str) -> None:
    """With how many servers each names; the disabled ones count, and those in a project of Claude Code's."""
    placed(
        tmp_path,
        {
            f"{programs}/Claude/claude_desktop_config.json": CONFIG,
            ".claude.json": {"projects": {"/w/a": CONFIG}},
            ".cursor/mcp.json": CONFIG,
            f"{programs}/Code/User/mcp.json": VS_CODE,
            f"{programs}/Code/User/settings.json": {"editor.x": 1, "mcp": VS_CODE},
            "work/.mcp.json": CONFIG,
            "work/.cursor/mcp.json": {"mcpServers": {}},
            "work/.vscode/mcp.json": '{"servers": {"a": {"command": "x"},}} // mine',
            ".codex/config.toml": '[mcp_servers.a]\ncommand = "x"',
            "work/.codex/config.toml": 'model = "m"',
            ".gemini/settings.json": {"theme": "x"},
            "work/.gemini/settings.json": {"mcpServers": {"a": {"httpUrl": "https://h"}}},
            ".codeium/windsurf/mcp_config.json": CONFIG,
            "work/.zed/settings.json": {"context_servers": {"a": {"command": "x"}}},
        },
    )
    configs = found(tmp_path, platform, cwd=tmp_path / "work")
    assert [(c.client, str(c.path.relative_to(tmp_path)), c.servers, c.fault) for c in configs] == [
        ("Claude Desktop", f"{programs}/Claude/claude_desktop_config.json", 2, ""),
        ("Claude Code", ".claude.json", 2, ""),
        ("Claude Code", "work/.mcp.json", 2, ""),
        ("Codex", ".codex/config.toml", 1, ""),
        ("Cursor", ".cursor/mcp.json", 2, ""),
        ("Cursor", "work/.cursor/mcp.json", 0, ""),
        ("Gemini CLI", "work/.gemini/settings.json", 1, ""),
        ("VS Code", f"{programs}/Code/User/mcp.json", 1, ""),
        ("VS Code", f"{programs}/Code/User/settings.json", 1, ""),
        ("VS Code", "work/.vscode/mcp.json", 1, ""),
        ("Windsurf", ".codeium/windsurf/mcp_config.json", 2, ""),
        ("Zed", "work/.zed/settings.json", 1, ""),
    ]


@pytest.mark.parametrize(
    ("platform", "variable", "place"),
    [
        ("linux", "XDG_CONFIG_HOME", "Claude/claude_desktop_config.json"),
        ("win32", "APPDATA", "Claude/claude_desktop_config.json"),
        ("linux", "CLAUDE_CONFIG_DIR", ".claude.json"),
    ],
)
def test_a_client_that_was_moved_is_found(tmp_path: Path, platform: str, variable: str, place: str) -> None:
    placed(tmp_path / "moved", {place: CONFIG})
    [config] = found(tmp_path / "home", platform, {variable: str(tmp_path / "moved")})
    assert (config.path, config.servers) == (tmp_path / "moved" / place, 2)


def test_a_project_that_is_the_home_is_looked_at_once(tmp_path: Path) -> None:
    placed(tmp_path, {".cursor/mcp.json": CONFIG})
    assert len(found(tmp_path, "linux", cwd=tmp_path)) == 1


def test_entries_of_waygraph_do_not_count_as_servers(tmp_path: Path) -> None:
    own = {"command": "/opt/bin/waygraph", "args": ["--registry", "r.grafeo", "mcp"]}
    placed(
        tmp_path,
        {".cursor/mcp.json": {"mcpServers": {"w": own, "off": {**own, "disabled": True}, "a": {"url": "https://h"}}}},
    )
    [config] = found(tmp_path, "linux")
    assert (config.servers, config.gateways) == (1, 2)
