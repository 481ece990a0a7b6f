"""What a server is called that nobody named, by its command or address; and what a source is called."""

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

import pytest
from typer import BadParameter

from tests.sync_graph import entry, manifest
from waygraph.api.cli.commands.operate import source_name
from waygraph.ingest.hosts.hosts import HOSTS, Places, title_of, titles_of
from waygraph.ingest.sources.opening import key_of_command, key_of_url, name_of_command, printable_source
from waygraph.ingest.sync.apply import sync
from waygraph.registry.registry import Registry


@pytest.mark.parametrize(
    ("command", "key"),
    [
        ("uvx mcp-server-time --local-timezone=Europe/Oslo", "mcp-server-time"),
        ("uvx --from git+https://example.org/x fieldnotes", "fieldnotes"),
        ("npx -y @acme/server-everything@latest stdio", "server-everything"),
        ("npx @acme/notes", "notes"),
        ("docker run -i --rm -e TOKEN -v /a:/b ghcr.io/acme/harbour:1.0", "harbour"),
        ("python -m acme.weather", "acme.weather"),
        ("/usr/bin/python3.12 /opt/weather/server.py --fast", "weather"),
        ("node build/index.js", "build"),
        ("uv --directory /opt run forecast.py", "forecast"),
        ("uv run --with mcp forecast.py", "forecast"),
        ("./bin/tool serve", "tool"),
        ("npx", "npx"),
        ("python --version", "python"),
    ],
)
def test_a_command_names_what_it_starts(command: str, key: str) -> None:
    """The runner, its options, scopes, versions, folders and endings say nothing of the server."""
    assert key_of_command(command.split()) == key


@pytest.mark.parametrize(
    ("url", "key"),
    [
        ("https://mcp.example.com/mcp", "mcp.example.com"),
        ("https://example.com/billing/mcp/", "example.com/billing"),
        ("http://127.0.0.1:8931/sse", "127.0.0.1-8931"),
        ("https://example.com:443/mcp", "example.com"),
        ("https://someone:hidden@example.com/a?key=hidden", "example.com/a"),
    ],
)
def test_an_address_names_its_host_and_path(url: str, key: str) -> None:
    """A port that is not the scheme's tells servers apart; login and query are no part of a name."""
    assert key_of_url(url) == key


def test_no_secret_is_in_a_source_s_name() -> None:
    command = ["npx", "tool", "--token", "s3cr3t-a", "--api-key=s3cr3t-b", "https://u:s3cr3t-c@h/x?key=s3cr3t-d"]
    assert "s3cr3t" not in name_of_command(command)


@pytest.mark.parametrize(
    ("given", "told"),
    [
        ("catalog/", "catalog/"),
        ("C:\\catalog", "C:\\catalog"),
        ("mcp-registry:", "mcp-registry:"),
        ("https://h.example/mcp", "https://h.example/mcp"),
        ("https://u:s3cret@h.example/mcp?key=s3cret#s3cret", "https://${USER}:${PASSWORD}@h.example/mcp?key=${key}"),
        ("https://h.example/s/NjQ4OTcwYWItZTFhMi00YzI2/mcp", "https://h.example/s/${path_key}/mcp"),
        ("mcp-registry:https://u:s3cret@h.example", "mcp-registry:https://${USER}:${PASSWORD}@h.example"),
        ("https://u:s3cret@[::1", "https://…"),
    ],
)
def test_what_was_given_is_shown_without_its_secrets(given: str, told: str) -> None:
    """Paths as they are, addresses with references; one that cannot be read not at all."""
    assert printable_source(given) == told


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
