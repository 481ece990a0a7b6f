"""What people call a source."""

from collections.abc import Mapping
from pathlib import Path

import pytest

from waygraph.ingest.hosts.hosts import HOSTS, Places
from waygraph.ingest.hosts.titles import title_of, titles_of

TITLES: Mapping[str, str] = {
    "/home/me/.cursor/mcp.json": "Cursor",
    "/Users/me/Library/Application Support/Claude/claude_desktop_config.json": "Claude Desktop",
    "C:\\Users\\me\\AppData\\Roaming\\Claude\\claude_desktop_config.json": "Claude Desktop",
    "/home/me/.codex/config.toml": "Codex",
    "/home/me/.waygraph/hosts/cursor.json": "Cursor",
    "/home/me/.waygraph/hosts/vscode-0123456789ab.json": "VS Code",
    "/home/me/.waygraph/hosts/vscode-insiders.json": "VS Code Insiders",
    "https://github.com/owner/repository/blob/main/server.json": "github.com/owner/repository",
    "https://mcp.example.com/mcp?key=${KEY}": "mcp.example.com",
    "/srv/agents/catalog/tables.yaml": "catalog/tables.yaml",
    "/srv/config.toml": "srv/config.toml",
    "npx -y some-server": "npx -y some-server",
    "https://[x": "https://[x",
    "crm": "crm",
}


@pytest.mark.parametrize("name", TITLES)
def test_a_source_is_called_as_people_call_it(name: str) -> None:
    assert title_of(name) == TITLES[name]


@pytest.mark.parametrize("platform", ["linux", "darwin", "win32"])
def test_each_host_s_own_file_has_its_name(platform: str) -> None:
    around = Places(home=Path("/home/me"), environ={}, platform=platform, cwd=Path("/work/app"))
    assert {host.id: title_of(str(host.file(around))) for host in HOSTS.values()} == {
        host.id: host.name for host in HOSTS.values()
    }


def test_two_of_one_title_are_told_apart() -> None:
    names = ["/home/me/.cursor/mcp.json", "/work/app/.cursor/mcp.json", "crm"]
    assert list(titles_of(names).values()) == [
        "Cursor, /home/me/.cursor/mcp.json",
        "Cursor, /work/app/.cursor/mcp.json",
        "crm",
    ]
