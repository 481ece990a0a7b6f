"""Secrets planted in every place that a config or a registry's entry allows, then looked for wherever we write.

Each is another word, so that one that is found says where it came from. Real programs are started with them: one that
answers, one that fails and prints all that it was given; a web server that repeats what it was sent.
"""

import json
import logging
import subprocess
import sys
from collections.abc import Iterator, Mapping
from hashlib import sha256
from http.server import BaseHTTPRequestHandler
from pathlib import Path
from textwrap import dedent

import pytest

from tests.fake_mcp_registry import entry, fake_mcp_registry
from tests.http_doubles import Quiet, serving
from waygraph.ingest.manifest.environment import Surroundings
from waygraph.ingest.manifest.records import Manifest, ServerEntry
from waygraph.ingest.sources.mcp_servers import McpServers
from waygraph.ingest.sources.opening import Opening, open_sources
from waygraph.ingest.sync.apply import sync
from waygraph.registry.model.settings import Settings
from waygraph.registry.registry import Registry

FORMS = ("json", "html")
PROGRAM = [sys.executable, "-m", "waygraph.api.cli.app"]
TALKS = """
import os, sys
print("starting with", sys.argv[1:], dict(os.environ), file=sys.stderr)
"""
GOOD = f"""{TALKS}
from mcp.server import MCPServer
mcp = MCPServer("good", version="1.0")
@mcp.tool()
def lamplight(room: str) -> str:
    "Turns the lamplight of a room on."
    return room
mcp.run("stdio")
"""
BAD = f"""{TALKS}
sys.exit("error: refused with " + " ".join(sys.argv[1:]) + " and " + " ".join(os.environ.values()))
"""


class Planted:
    """Secrets by where they were planted; each is asked for once."""

    def __init__(self) -> None:
        self.held: dict[str, str] = {}

    def __call__(self, where: str) -> str:
        assert where not in self.held
        self.held[where] = f"Zq{sha256(where.encode()).hexdigest()[:18]}Xw"
        return self.held[where]

    def found_in(self, content: bytes) -> list[str]:
        return sorted(where for where, secret in self.held.items() if secret.encode() in content)


@pytest.fixture
def echo() -> Iterator[str]:
    """The address of a web server that refuses everything, and repeats what it was sent."""

    class Echo(Quiet, BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            body = json.dumps({"path": self.path, "headers": dict(self.headers)}).encode()
            self.send_response(401 if "auth" in self.path else 500, f"no {self.path}")
            self.send_header("WWW-Authenticate", f'Bearer error="{self.headers.get("Authorization")}"')
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def do_GET(self) -> None:
            self.do_POST()

    with serving(Echo) as url:
        yield url.removeprefix("http://")


def everywhere(planted: Planted, prefix: str) -> dict[str, object]:
    """What may stand in an entry that starts a program: secrets in all of it."""

    def p(where: str) -> str:
        return planted(f"{prefix}: {where}")

    return {
        "args": [
            *("--token", p("argument after its flag"), f"--api-key={p('argument with its flag')}"),
            *("-e", f"TOKEN={p('variable in arguments')}", "--env", f"lower={p('lower-case variable')}"),
            *("-H", f"Authorization: Bearer {p('header in arguments')}", f"--header=X-Key: {p('joined header')}"),
            *("-u", f"me:{p('login in arguments')}", f"postgres://u:{p('login of an address')}@h.example/db"),
            *(f"https://h.example/?key={p('query of an address')}", f"SECRET={p('assignment')}"),
            *("--config", json.dumps({"apiKey": p("JSON in arguments")})),
            *(f"${{UNSET:-{p('default in arguments')}}}", f"${{UNSET:-${{UNSET:-{p('default in a default')}}}}}"),
            *(f"Server=h;Password={p('connection string')};", f"sh -c 'x --password {p('shell line')}'"),
            *(f"${{{_variable(prefix, 'POSITIONAL')}}}", "${input:planted}"),
        ],
        "env": {
            "TOKEN": p("variable"),
            "PLAIN_NAME": p("variable of a plain name"),
            "MIXED": f"x-${{UNSET:-{p('default of a variable')}}}",
            "GIVEN": f"${{{_variable(prefix, 'GIVEN')}}}",
            "INPUT": "${input:planted}",
        },
        "envFile": "${workspaceFolder}/planted.env",
        "auth": {"CLIENT_SECRET": p("field of no meaning")},
        "oauth": {"clientSecret": p("client's secret")},
    }


def _variable(prefix: str, name: str) -> str:
    return f"{prefix.upper()}_{name}"


def environment(planted: Planted) -> dict[str, str]:
    """What references stand for."""
    return {
        "WAYGRAPH_INPUT_PLANTED": planted("input"),
        "HEADER_VALUE": planted("referred header"),
        "PATH_VALUE": planted("referred part of a path"),
        **{
            _variable(prefix, name): planted(f"{prefix}: referred {name}")
            for prefix in ("good", "bad", "missing")
            for name in ("POSITIONAL", "GIVEN")
        },
    }


def config(folder: Path, planted: Planted, echo: str) -> Path:
    """A config in which every server has secrets, and programs beside it."""
    (folder / "good.py").write_text(dedent(GOOD), "utf-8")
    (folder / "bad.py").write_text(dedent(BAD), "utf-8")
    (folder / "planted.env").write_text(f"FROM_FILE={planted('env file')}\nOTHER='{planted('quoted')}'\n", "utf-8")
    servers: dict[str, object] = {}
    for name in ("good", "bad"):
        written = everywhere(planted, name)
        assert isinstance(written["args"], list)
        servers[name] = {**written, "command": sys.executable, "args": [str(folder / f"{name}.py"), *written["args"]]}
    servers |= {
        "off": {**everywhere(planted, "off"), "command": "x", "disabled": True},
        "lacking": {**everywhere(planted, "lacking"), "command": "x", "cwd": "${NOT_SET}"},
        "missing": {**everywhere(planted, "missing"), "command": f"/nowhere/x --token {planted('command')}"},
        "web": {
            "url": f"http://u:{planted('login')}@{echo}/${{PATH_VALUE}}/mcp?key={planted('query')}#{planted('fragment')}",
            "headers": {
                "Authorization": f"Bearer {planted('header')}",
                "X-Given": "${HEADER_VALUE}",
                "X-Default": f"${{UNSET:-{planted('default of a header')}}}",
                "Cookie": f"session={planted('cookie')}",
            },
        },
        "auth": {"url": f"http://{echo}/auth/mcp", "headers": {"Authorization": f"Bearer {planted('refused header')}"}},
        "sse": {"url": f"http://{echo}/sse?token={planted('query of SSE')}", "type": "sse"},
        "hosted": {"url": f"http://{echo}/s/{planted('key in a path')}/sse"},
        "bridged": {"command": "x", "args": ["mcp-remote", f"https://h.example/{planted('key in an argument')}/mcp"]},
        "port": {"url": f"http://u:{planted('login of a bad port')}@h:x/mcp"},
        "brackets": {"url": f"http://u:{planted('login of a bad host')}@[::1/mcp"},
        "typed": {"type": planted("type"), "command": "x"},
        "listed": {"command": ["x", "--token", planted("command in a list")]},
        "nested": {"command": [[planted("command in a nested list")]]},
        "object": {"command": "x", "env": {"A": {"b": planted("variable in an object")}}},
        "name": {"command": "x", "env": {f"A={planted('name of a variable')}": "b"}},
        "form": {"command": "x", "args": [f"${{UNSET-{planted('odd reference')}}}"]},
        "open": {"command": "x", "args": [f"${{A:-{planted('open reference')}"]},
        "text": planted("entry that is a text"),
    }
    inputs = [{"id": "planted", "password": True, "default": planted("default of an input")}]
    path = folder / "mcp.json"
    path.write_text(json.dumps({"mcpServers": servers, "inputs": inputs}), "utf-8")
    return path


def registry_entries(planted: Planted, echo: str) -> list[dict[str, object]]:
    """Of an MCP registry, secrets as values and defaults."""

    def p(where: str) -> str:
        return planted(f"registry: {where}")

    secret = {"isSecret": True}
    package = {
        "registryType": "npm",
        "identifier": "b",
        "environmentVariables": [
            {"name": "A", "value": p("variable")},
            {"name": "B", "default": p("default"), **secret},
        ],
        "packageArguments": [
            {"type": "named", "name": "--token", "value": p("named argument")},
            {"type": "named", "name": "--x", "value": p("secret argument"), **secret},
            {"type": "positional", "value": "{k}", "variables": {"k": {"default": p("variable of one"), **secret}}},
        ],
    }
    remote = {
        "type": "streamable-http",
        "url": f"http://u:{p('login')}@{echo}/{{k}}/mcp?q={p('query')}",
        "variables": {"k": {"value": p("variable of an address"), **secret}},
        "headers": [
            {"name": "Authorization", "value": f"Bearer {p('header')}"},
            {"name": "X", "value": "{t}", "variables": {"t": {"default": p("variable of a header"), **secret}}},
        ],
    }
    return [entry("a.example/package", packages=[package]), entry("a.example/remote", remotes=[remote])]


def searched(folder: Path) -> Iterator[tuple[str, bytes]]:
    for path in sorted(folder.rglob("*")):
        if path.is_file():
            yield str(path.relative_to(folder)), path.read_bytes()


def leaks(planted: Planted, contents: Mapping[str, bytes]) -> dict[str, list[str]]:
    """What was found, by where it was found."""
    found = {name: planted.found_in(content) for name, content in contents.items()}
    return {name: secrets for name, secrets in found.items() if secrets}


def commands(given: Path, out: Path, planted: Planted, echo: str, registry: str) -> list[list[str]]:
    """What a person types: sources of every kind that has secrets, then all that shows or writes what is held."""
    path, program = str(given / "mcp.json"), [sys.executable, str(given / "bad.py")]
    return [
        ["ingest", path, "--no-connect", "--source", "unasked"],
        ["ingest", path, "--json"],
        ["ingest", f"mcp-registry:{registry}", "--connect"],
        ["ingest", str(given / "entries.json"), "--no-connect"],
        ["ingest", f"http://{echo}/{planted('key in a given path')}/mcp?key={planted('given query')}"],
        ["ingest", f"http://me:{planted('given login')}@{echo}/mcp", "--header", f"X: {planted('given header')}"],
        ["ingest", "--env", f"TOKEN={planted('given variable')}", "--", *program, "--token", planted("given argument")],
        ["agents", "--json"],
        ["show", "web", "--json"],
        ["cypher", "MATCH (n) RETURN n"],
        ["doctor"],
        *(["export", "-o", str(out / f"export.{form}"), "--format", form] for form in FORMS),
    ]


def test_no_secret_is_written_or_printed(tmp_path: Path, echo: str) -> None:
    """By the program, as a person uses it: the graph, its index, exports, and all that it prints."""
    planted = Planted()
    given, out = tmp_path / "given", tmp_path / "out"
    given.mkdir()
    out.mkdir()
    config(given, planted, echo)
    environ = {
        "PATH": "/usr/bin:/bin",
        "HOME": str(out),
        "WAYGRAPH_DATA_DIR": str(out / "data"),
        "WAYGRAPH_CACHE_DIR": str(out / "cache"),
        "WAYGRAPH_EMBEDDER": "none",
        "WAYGRAPH_LOG_LEVEL": "debug",
        **environment(planted),
    }
    with fake_mcp_registry(*registry_entries(planted, echo)) as listed:
        (given / "entries.json").write_text(json.dumps(listed.entries))
        for number, command in enumerate(commands(given, out, planted, echo, listed.url)):
            printed = subprocess.run(
                [*PROGRAM, *command], cwd=given, env=environ, capture_output=True, timeout=240, check=False
            )
            (out / f"printed-{number}").write_bytes(printed.stdout + printed.stderr)
    written = dict(searched(out))
    assert leaks(planted, written) == {}
    # That the search can find at all: what is no secret stands in each of these.
    for name in ("data/registry.grafeo", "export.json", "export.html", "printed-1", "printed-7"):
        assert b"lacking" in text_of(written, name), name
        assert b"lamplight" in text_of(written, name) or name == "printed-7", name
    assert any(name.startswith("data/registry.grafeo.index/") for name in written)
    assert b"good: 1 tool in" in written["printed-1"]
    assert b"bad: ended with exit status 1" in written["printed-1"]


def text_of(files: Mapping[str, bytes], name: str) -> bytes:
    """Of a graph with its log."""
    return b"".join(content for file, content in files.items() if file == name or file.startswith(f"{name}.wal/"))


def test_no_secret_is_logged_or_shown(tmp_path: Path, echo: str, caplog: pytest.LogCaptureFixture) -> None:
    """In Python: manifests, what they were made of, the graph while it is open, and every log record."""
    planted = Planted()
    (tmp_path / "given").mkdir()
    path = config(tmp_path / "given", planted, echo)
    around = Surroundings(environ=environment(planted), home=str(tmp_path), cwd=str(tmp_path / "given"))
    settings = Settings(embedder="none")
    asked: list[ServerEntry] = []

    def ask(source: str, servers: object) -> Manifest:
        assert isinstance(servers, tuple)
        asked.extend(servers)
        return McpServers(name=source, servers=servers, settings=settings).read()

    caplog.set_level(logging.DEBUG)
    [source] = open_sources(str(path), Opening(settings=settings, surroundings=around, ask=ask))
    manifest = source.read()
    kept = tmp_path / "kept"
    kept.mkdir()
    with Registry.open(str(kept / "r.grafeo"), settings=settings, environ={}) as registry:
        report = sync(registry, manifest)
        held = dict(searched(kept))
    told = {
        "manifest": repr(manifest),
        "source": repr(source),
        "asked": repr(asked),
        "report": repr(report),
        "logs": "\n".join(f"{record.name} {record.getMessage()} {record.exc_text}" for record in caplog.records),
    }
    assert {server.key for server in asked} >= {"good", "bad", "web", "auth", "sse", "missing"}
    assert leaks(planted, {name: text.encode() for name, text in told.items()}) == {}
    assert leaks(planted, held) == {}
    assert b"good" in text_of(held, "r.grafeo")
    # Each was really given to what was started or asked, and each server that failed says why.
    assert planted.held["env file"] in asked[0].launch.env.values()  # type: ignore[union-attr]
    reasons = {rejected.key: rejected.reason for rejected in manifest.rejected}
    assert set(reasons) == {
        *("bad", "lacking", "missing", "web", "auth", "sse", "hosted", "bridged", "port", "brackets"),
        *("typed", "listed", "nested", "object", "name", "form", "open", "text"),
    }
    assert all(reasons.values())
