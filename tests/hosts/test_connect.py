"""`waygraph connect`: the entry printed, written and taken out, in a real file of every host."""

import json
import stat
import sys
import tomllib
from pathlib import Path
from typing import Any

import pytest

from tests.hosts.configs import CONFIGS, CURSOR
from tests.hosts.conftest import Home
from waygraph.ingest.hosts.backup import replace_file
from waygraph.ingest.hosts.config import read_config
from waygraph.ingest.hosts.hosts import HOSTS
from waygraph.registry.model.errors import SourceError

SERVICE = ("--registry", "https://tools.example.com/base/")


def servers(host: str, text: str) -> dict[str, Any]:
    parsed: Any = tomllib.loads(text) if host == "codex" else json.loads(text)
    found: dict[str, Any] = parsed[HOSTS[host].table]
    return found


@pytest.mark.parametrize("host", HOSTS)
def test_the_entry_is_printed_and_nothing_is_written(home: Home, host: str) -> None:
    """With the command of this installation, and the registry by its whole path."""
    answer = home.run("--registry", "../r.grafeo", "connect", host)
    assert answer.status == 0
    [entry] = servers(host, answer.out).values()
    assert entry["command"] == str(Path(sys.executable).parent / "waygraph")
    assert Path(entry["command"]).is_file()
    assert entry["args"] == ["--registry", str(home.folder / "work" / ".." / "r.grafeo"), "mcp"]
    assert entry["env"] == {"WAYGRAPH_EMBEDDER": "none", "XDG_DATA_HOME": str(home.folder / "data")}
    assert entry.get("type") == ("stdio" if HOSTS[host].has_type else None)
    assert str(home.file(host)) in answer.err
    assert not home.file(host).exists()


@pytest.mark.parametrize("host", HOSTS)
def test_the_entry_is_written_into_a_real_config_and_taken_out(home: Home, host: str) -> None:
    file = home.put(host)
    before = file.read_bytes()
    printed = servers(host, home.run("connect", host).out)["waygraph"]
    assert home.run("connect", host, "--write").status == 0
    after = read_config(HOSTS[host], file).servers
    assert after.pop("waygraph") == printed
    assert home.run("connect", host, "--remove").status == 0
    assert file.read_bytes() == before
    assert home.told_a_secret() == []


@pytest.mark.parametrize("option", ["--write", "--remove", "--import"])
def test_an_entry_of_its_name_that_is_no_gateway_stays(home: Home, option: str) -> None:
    """Somebody else's, who called it so: it is told, and another name helps."""
    file = home.put("cursor", '{"mcpServers": {"waygraph": {"command": "other-thing"}, "z": {"command": "x"}}}')
    before = file.read_bytes()
    told = home.run("connect", "cursor", option)
    assert told.status == 1
    assert "has a server named 'waygraph' that is no gateway of ours: --name gives the gateway another name" in told.err
    assert file.read_bytes() == before
    home.run("connect", "cursor", "--write", "--name", "registry")
    assert [*json.loads(file.read_text())["mcpServers"]] == ["waygraph", "z", "registry"]


@pytest.mark.parametrize("host", HOSTS)
def test_an_entry_keeps_the_surface_that_was_chosen(home: Home, host: str) -> None:
    """Until another one is; a surface of a service is the service's to say."""

    def written(*options: str) -> list[str]:
        assert home.run("connect", host, "--write", *options).status == 0
        args: list[str] = read_config(HOSTS[host], home.file(host)).servers["waygraph"]["args"]
        return args[args.index("mcp") + 1 :]

    steps: list[tuple[tuple[str, ...], list[str]]] = [
        (("--surface", "router"), ["--surface", "router"]),
        ((), ["--surface", "router"]),
        (("--namespace", "sales"), ["--namespace", "sales", "--surface", "router"]),
        (("--surface", "rfc"), ["--surface", "rfc"]),
        (("--surface", "default"), []),
        ((), []),
    ]
    assert [written(*options) for options, _ in steps] == [args for _, args in steps]
    refusal = home.run(*SERVICE, "connect", host, "--surface", "rfc")
    assert refusal.status != 0
    assert "waygraph serve --surface" in refusal.err
    written("--surface", "rfc")
    assert home.run(*SERVICE, "connect", host, "--write").status == 0
    assert "--surface" not in home.file(host).read_text()


def test_a_backup_is_never_overwritten_and_its_owners_alone(home: Home) -> None:
    file = home.put("cursor")
    first = file.read_bytes()
    home.run("connect", "cursor", "--write")
    second = file.read_bytes()
    home.run("connect", "cursor", "--remove")
    home.run("connect", "cursor", "--write")
    backups = {path.name: path for path in file.parent.iterdir() if path != file}
    assert {name: path.read_bytes() for name, path in backups.items()} == {
        "mcp.json.before-waygraph": first,
        "mcp.json.before-waygraph-2": second,
    }
    assert {stat.S_IMODE(path.stat().st_mode) for path in backups.values()} == {0o600}


def test_a_link_is_followed_and_stays(home: Home) -> None:
    real = home.put("cursor", file=home.folder / "dotfiles" / "cursor.json")
    link = home.file("cursor")
    link.parent.mkdir(parents=True)
    link.symlink_to(real)
    home.run("connect", "cursor", "--write")
    assert link.is_symlink()
    assert "waygraph" in read_config(HOSTS["cursor"], real).servers


@pytest.mark.parametrize("option", ["--write", "--import", "--restore", "--remove"])
def test_a_link_out_of_a_project_is_not_followed(home: Home, option: str) -> None:
    """Else a repository that was fetched would say which of a person's files is written."""
    outside = home.folder / "startup.json"
    link = home.folder / "work" / ".cursor" / "mcp.json"
    link.parent.mkdir()
    link.symlink_to(outside)
    answer = home.run("connect", "cursor", option, "--project")
    assert answer.status != 0
    assert "out of the project" in answer.err
    assert not outside.exists()


def test_a_dry_run_shows_no_secret_and_writes_nothing(home: Home) -> None:
    for host in CONFIGS:
        file = home.put(host)
        before = file.read_bytes()
        answer = home.run("connect", host, "--write", "--dry-run")
        assert answer.status == 0
        assert "+++" in answer.out
        assert "waygraph" in answer.out
        assert "mcp" in answer.out
        assert [*file.parent.glob("*before-waygraph*")] == []
        assert file.read_bytes() == before
    assert home.told_a_secret() == []


@pytest.mark.parametrize("host", HOSTS)
def test_of_a_service_a_bridge_is_started(home: Home, host: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """The key goes by reference where the host has any, and is never written."""
    monkeypatch.setenv("WAYGRAPH_API_KEY", "wg_the-key")
    answer = home.run(*SERVICE, "connect", host)
    entry = servers(host, answer.out)["waygraph"]
    assert entry["args"] == ["--registry", "https://tools.example.com/base/", "mcp"]
    assert "wg_the-key" not in answer.out + answer.err
    told = (entry["env"].get("WAYGRAPH_API_KEY"), entry.get("env_vars"))
    assert told == {
        "claude": (None, None),
        "zed": (None, None),
        "codex": (None, ["WAYGRAPH_API_KEY"]),
        "claude-code": ("${WAYGRAPH_API_KEY}", None),
        "gemini-cli": ("${WAYGRAPH_API_KEY}", None),
    }.get(host, ("${env:WAYGRAPH_API_KEY}", None))
    assert ("WAYGRAPH_API_KEY must be set" in answer.err) == (host in {"claude", "zed"})


@pytest.mark.parametrize(
    ("host", "entry"),
    [
        ("cursor", {"url": "URL", "headers": {"Authorization": "Bearer ${env:WAYGRAPH_API_KEY}"}}),
        (
            "claude-code",
            {
                "type": "http",
                "url": "URL",
                "headers": {"Authorization": "Bearer ${WAYGRAPH_API_KEY}"},
                "alwaysLoad": True,
            },
        ),
        ("vscode", {"type": "http", "url": "URL", "headers": {"Authorization": "Bearer ${env:WAYGRAPH_API_KEY}"}}),
        ("windsurf", {"serverUrl": "URL", "headers": {"Authorization": "Bearer ${env:WAYGRAPH_API_KEY}"}}),
        ("gemini-cli", {"httpUrl": "URL", "headers": {"Authorization": "Bearer ${WAYGRAPH_API_KEY}"}}),
        ("codex", {"url": "URL", "bearer_token_env_var": "WAYGRAPH_API_KEY"}),
    ],
)
def test_by_url_the_host_reaches_the_service_itself(
    home: Home, host: str, entry: dict[str, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("WAYGRAPH_API_KEY", "wg_the-key")
    answer = home.run(*SERVICE, "connect", host, "--url", "--namespace", "sales")
    found = servers(host, answer.out)["waygraph"]
    text = json.dumps(found).replace("https://tools.example.com/base/sales/mcp", "URL")
    assert json.loads(text) == entry
    assert "wg_the-key" not in answer.out + answer.err


@pytest.mark.parametrize("host", ["claude", "zed"])
def test_a_host_that_cannot_is_told_so(home: Home, host: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("WAYGRAPH_API_KEY", "wg_the-key")
    answer = home.run(*SERVICE, "connect", host, "--url")
    assert answer.status == 2
    assert answer.err.endswith("leave --url away, for a bridge to the service\n")


@pytest.mark.parametrize(
    "text",
    [
        "{",
        "[]",
        '{"mcpServers": "s3cr3t-value"}',
        "[" * 100_000,
        '{"mcpServers": {"a": {"env": {"T": "s3cr3t-value}}}',
        CURSOR + "}",
    ],
)
@pytest.mark.parametrize("action", ["--write", "--import", "--remove"])
def test_a_file_that_cannot_be_read_is_left_as_it_is(home: Home, text: str, action: str) -> None:
    file = home.put("cursor", text)
    before = file.read_bytes()
    answer = home.run("connect", "cursor", action)
    assert answer.status == 1
    assert str(file) in answer.err
    assert file.read_bytes() == before
    assert [*file.parent.iterdir()] == [file]
    assert home.told_a_secret() == []


def test_a_file_that_changed_meanwhile_is_not_overwritten(home: Home) -> None:
    file = home.put("cursor")
    config = read_config(HOSTS["cursor"], file)
    after = config.with_servers({"waygraph": {"command": "x"}})
    file.write_text('{"mcpServers": {"new": {"command": "y"}}}')
    with pytest.raises(SourceError, match="was changed by somebody else meanwhile"):
        replace_file(config, after)
    assert json.loads(file.read_text()) == {"mcpServers": {"new": {"command": "y"}}}
    assert {path.name for path in file.parent.iterdir()} == {"mcp.json", "mcp.json.before-waygraph"}
