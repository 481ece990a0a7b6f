"""What people call a source."""

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

import pytest
from typer import BadParameter

from tests.sync_graph import entry, manifest
from waygraph.api.cli.commands.operate import source_name
from waygraph.ingest.hosts.hosts import HOSTS, Places, title_of, titles_of
from waygraph.ingest.sync.apply import sync
from waygraph.registry.registry import Registry


@contextmanager
def registry_of(*sources: str) -> Iterator[Registry]:
    with Registry.open(":memory:", embedder="none", environ={}) as opened:
        for number, source in enumerate(sources):
            sync(opened, manifest(source, entry(f"agent-{number}")))
        yield opened


TITLES: Mapping[str, str] = {
    "/home/me/.cursor/mcp.json": "Cursor",
    "/Users/me/Library/Application Support/Claude/claude_desktop_config.json": "Claude Desktop",
    "C:\\Users\\me\\AppData\\Roaming\\Claude\\claude_desktop_config.json": "Claude Desktop",
    "/home/me/.codex/config.toml": "Codex",
    "/home/me/.waygraph/hosts/cursor.json": "Cursor",
    "/home/me/.waygraph/hosts/vscode-0123456789ab.json": "VS Code",
    "/home/me/.waygraph/hosts/vscode-insiders.json": "VS Code Insiders",
    "https://github.com/owner/repository/blob/main/server.json": "github.com/owner/repository",
    "https://user@github.com/owner/repository.git/": "github.com/owner/repository",
    "https://github.com": "github.com",
    "https://[no-address": "https://[no-address",
    "file:///srv/tools.json": "file:///srv/tools.json",
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
    """Titles that differ by case alone too: commands take them in any case."""
    names = ["/home/me/.cursor/mcp.json", "/work/app/.cursor/mcp.json", "crm", "/a/x/Tools", "/b/X/tools"]
    cursors = [f"Cursor, {name}" for name in names[:2]]
    assert list(titles_of(names).values()) == [*cursors, "crm", "x/Tools, /a/x/Tools", "X/tools, /b/X/tools"]


@pytest.mark.parametrize(
    ("text", "source"),
    [
        ("CURSOR", "/home/me/.cursor/mcp.json"),
        ("crm", "crm"),
        ("CRM", "CRM"),
        ("app/tools, /b/app/tools", "/b/app/tools"),
        ("elsewhere", "elsewhere"),
    ],
)
def test_a_command_takes_a_name_before_a_title(text: str, source: str) -> None:
    with registry_of("/home/me/.cursor/mcp.json", "crm", "CRM", "/a/app/tools", "/b/app/tools") as registry:
        assert source_name(registry, text) == source


def test_a_title_of_several_sources_names_them_all() -> None:
    with (
        registry_of("/a/app/tools", "/b/app/tools", "crm") as registry,
        pytest.raises(BadParameter, match=r"several sources are called 'App/Tools'.*: /a/app/tools, /b/app/tools$"),
    ):
        source_name(registry, "App/Tools")
