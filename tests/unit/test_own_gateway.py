"""Which command lines and entries are gateways of Waygraph itself."""

import shutil
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from waygraph.ingest.hosts.hosts import HOSTS, Host, entry_of, program_of, service_entry, start_entry
from waygraph.ingest.hosts.takeover import Stays, standard
from waygraph.ingest.manifest.own_gateway import is_gateway, is_gateway_name, starts_gateway
from waygraph.ingest.sources.formats.switches import Switches
from waygraph.registry.model.errors import InvalidSetting
from waygraph.registry.model.installation import address_of_origin

GATEWAYS: Mapping[str, list[str]] = {
    "the program": ["waygraph", "mcp"],
    "by its path, of another registry": [
        "/opt/x/bin/waygraph",
        "--registry",
        "/a b/r.grafeo",
        "mcp",
        "--toolset",
        "money",
    ],
    "with joined options": ["waygraph", "--registry=https://tools.example", "--embedder=none", "mcp"],
    "on Windows": ["C:\\Program Files\\Waygraph\\Waygraph.exe", "mcp"],
    "as a module": ["python3.12", "-m", "waygraph", "mcp"],
    "as the module of the program": ["/usr/bin/python", "-I", "-m", "waygraph.api.cli.app", "mcp"],
    "by uvx": ["uvx", "waygraph", "mcp"],
    "by uvx, from a package with extras": ["uvx", "--from", "waygraph[onnx]==2.1", "waygraph", "mcp"],
    "by uv": ["uv", "tool", "run", "waygraph@latest", "--registry", "r.grafeo", "mcp"],
    "by pipx, from a repository": ["pipx", "run", "--spec", "git+https://git.example/waygraph.git", "waygraph", "mcp"],
    "by npx": ["npx", "-y", "waygraph", "mcp"],
    "with variables": ["env", "-i", "WAYGRAPH_EMBEDDER=none", "waygraph", "mcp"],
    "with a lower priority": ["nice", "-n", "5", "timeout", "60", "waygraph", "mcp"],
    "in a shell": ["sh", "-c", "waygraph mcp"],
    "in a shell, after another command": ["bash", "-lc", "cd '/a b' && exec waygraph --registry 'c d' mcp; true"],
    "in a shell within a shell": ["sh", "-c", "bash -c 'waygraph mcp'"],
    "in a shell that is left open": ["sh", "-c", 'echo "; waygraph mcp'],
    "on the command line of Windows": ["cmd", "/c", "waygraph.exe mcp"],
    "in a container": ["docker", "run", "-i", "--rm", "ghcr.io/example/waygraph:2.1", "mcp"],
    "as the argument of a proxy": ["some-proxy", "--stdio", "waygraph mcp", "--port", "9"],
}
OTHERS: Mapping[str, list[str]] = {
    "nothing": [],
    "another command of the program": ["waygraph", "serve", "--port", "8080"],
    "a source of that name": ["waygraph", "--registry", "r.grafeo", "ingest", "mcp"],
    "a name that begins like it": ["waygraph-notes", "mcp"],
    "a name that ends like it": ["uvx", "mcp-server-waygraph", "mcp"],
    "another module": ["python", "-m", "waygraph_tools", "mcp"],
    "an image of somebody of that name": ["docker", "run", "waygraph/other", "mcp"],
    "a folder of that name": ["uvx", "mcp-server-git", "--repository", "/home/me/waygraph"],
    "two folders": ["npx", "server-files", "/home/me/waygraph", "/home/me/mcp"],
    "a folder in a shell": ["sh", "-c", "cd /opt/waygraph && ./start mcp"],
    "the words the other way round": ["mcp", "run", "waygraph"],
    "blanks that part no words of a shell": ["sh", "waygraph\x1cmcp", "a\x1cb", "\x1f \x85"],
}


@pytest.mark.parametrize("words", GATEWAYS.values(), ids=GATEWAYS)
def test_a_command_that_starts_a_gateway_is_known_in_any_wrapper(words: list[str]) -> None:
    assert starts_gateway(words)
    assert is_gateway({"command": words[0], "args": words[1:]})


@pytest.mark.parametrize("words", OTHERS.values(), ids=OTHERS)
def test_a_command_that_only_looks_like_one_is_none(words: list[str]) -> None:
    assert not starts_gateway(words)


@pytest.mark.parametrize(
    ("url", "is_known"),
    [
        ("https://tools.example/base/mcp", True),
        ("https://tools.example/base/money/mcp/", True),
        ("https://tools.example/base/a/b/mcp", False),
        ("https://tools.example/base/v1/tools", False),
        ("https://tools.example/mcp", False),
        ("https://tools.example/basement/mcp", False),
        ("https://tools.example.evil/base/mcp", False),
    ],
)
def test_the_endpoints_of_the_registry_s_own_service_are_known(url: str, is_known: bool) -> None:
    assert is_gateway({"url": url}, "https://tools.example/base") is is_known
    assert not is_gateway({"url": url}, "/home/me/r.grafeo")


@pytest.mark.parametrize("host", HOSTS.values(), ids=HOSTS)
def test_whatever_connect_writes_is_known(host: Host) -> None:
    """In each host's own form: by the command, and at an address by the key that it sends."""
    written = [start_entry(program_of("/opt/venv/bin/python"), "/home/me/r.grafeo", {}, namespace="money")]
    written.append(service_entry("https://tools.example", {"WAYGRAPH_API_KEY": "wg_x"}))
    for gateway in written:
        try:
            entry = entry_of(host, gateway)
        except InvalidSetting:  # this host's config cannot reach an address
            continue
        with pytest.raises(Stays, match="gateway"):
            standard(host, "waygraph", entry, Switches())


def test_an_environment_that_stays_is_started_by_its_own_program(tmp_path: Path) -> None:
    """Also one that uv made, which marks it as a cache; what lies in the cache itself is started by `uvx`."""
    stays, cache = tmp_path / "stays", tmp_path / "cache"
    uv: list[str | Path] = [
        Path(sys.executable).with_name("uv"),
        "venv",
        "--offline",
        "--quiet",
        "--python",
        sys.executable,
        stays,
    ]
    subprocess.run(uv, check=True)
    (stays / "bin" / "waygraph").touch()
    assert program_of(str(stays / "bin" / "python")) == [str(stays / "bin" / "waygraph")]
    passing = cache / "archive-v0" / "x"
    shutil.copytree(stays, passing, symlinks=True)
    shutil.copy(stays / "CACHEDIR.TAG", cache)
    assert Path(program_of(str(passing / "bin" / "python"))[0]).name == "uvx"


@pytest.mark.parametrize(
    ("origin", "address"),
    [
        ({}, ""),
        ({"url": "file:///a%20b/w.whl", "archive_info": {}}, "file:///a%20b/w.whl"),
        (
            {"url": "https://me:p%40ss@git.example/w", "vcs_info": {"vcs": "git", "commit_id": "ab12"}},
            "git+https://git.example/w@ab12",
        ),
        (
            {"url": "ssh://git@git.example/w", "vcs_info": {"vcs": "git", "commit_id": "ab12"}, "subdirectory": "x"},
            "git+ssh://git@git.example/w@ab12#subdirectory=x",
        ),
    ],
)
def test_an_installation_is_named_by_where_it_came_from(origin: dict[str, Any], address: str) -> None:
    assert address_of_origin(origin) == address


@pytest.mark.parametrize(
    ("name", "is_own"), [("waygraph", True), ("Waygraph ", True), ("waygraph-notes", False), ("", False)]
)
def test_a_server_is_known_by_what_it_calls_itself(name: str, is_own: bool) -> None:
    assert is_gateway_name(name) is is_own


@pytest.mark.parametrize(
    "entry", [None, [], {"command": 3, "args": "x"}, {"args": [None, {}]}, {"headers": [], "url": 7}]
)
def test_what_is_no_entry_is_no_gateway(entry: object) -> None:
    assert not is_gateway(entry, "https://tools.example")
