"""What a release holds, read by the tools of those whom it is for, and started as they start it: by `uvx`."""

import json
import os
import re
import shutil
import subprocess
import sys
import tomllib
import zipfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from jsonschema import Draft7Validator
from mcp import Client, StdioServerParameters
from mcp.types import TextContent

from scripts import build_release
from tests.architecture.tree import ROOT, project
from tests.environments import NotInstalled, installed, node_environment, skipped
from tests.host_programs import node
from tests.release.conftest import wheel_of

PROGRAMS = node_environment("bundles", Path(__file__).parent / "pins" / "bundles")
MODEL_MB = 25
REGISTRY_MODULE = "github.com/modelcontextprotocol/registry@v1.8.9"
"""It embeds the schemas of server.json."""
CALCULATOR = ROOT / "tests" / "servers" / "calculator.py"


def version_of(package: str) -> str:
    text = (ROOT / "packages" / package / "pyproject.toml").read_text(encoding="utf-8")
    return str(tomllib.loads(text)["project"]["version"])


@pytest.fixture(scope="session")
def programs() -> Path:
    """The folder node_modules with `mcpb` and `claude`."""
    outcome = installed(PROGRAMS)
    if isinstance(outcome, NotInstalled):
        skipped(f"nothing to check the bundles with: {outcome}")
    return outcome.parent


@pytest.fixture(scope="session")
def bundle(dist: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("bundle")
    with zipfile.ZipFile(dist / "waygraph.mcpb") as archive:
        archive.extractall(folder)
    return folder


def read(path: Path) -> Any:
    return json.loads(path.read_text(encoding="utf-8"))


def checked(*command: str | Path, home: Path) -> str:
    environ = {**os.environ, "HOME": str(home)}
    done = subprocess.run(command, env=environ, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def test_a_build_deletes_nothing_of_anybody(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "thesis.txt").write_text("the only copy", encoding="utf-8")
    with pytest.raises(SystemExit):
        build_release.main(["--out", str(tmp_path)])
    assert "not empty" in capsys.readouterr().err
    assert (tmp_path / "thesis.txt").exists()


def test_all_is_there_and_the_model_is_small(dist: Path) -> None:
    product = project()["project"]["version"]
    names = {path.name for path in dist.iterdir()} - {"waygraph.cdx.json", "LICENSES.txt"}
    model = wheel_of(dist, "waygraph_minilm")
    wheels = {f"waygraph-{product}-py3-none-any.whl", f"waygraph_lab-{product}-py3-none-any.whl", model.name}
    assert names == {*wheels, f"waygraph-{product}.tar.gz", "waygraph.mcpb", "claude-code", "server.json"}
    assert model.stat().st_size < MODEL_MB * 1e6


def test_every_file_of_a_release_names_its_versions(bundle: Path, dist: Path) -> None:
    """Those of the product and of the model, wherever a host's file, the skill or a page tells how to start it."""
    product, model = project()["project"]["version"], version_of("waygraph-minilm")
    manifest, plugin, server = (
        read(path)
        for path in (bundle / "manifest.json", dist / "claude-code/.claude-plugin/plugin.json", dist / "server.json")
    )
    own = tomllib.loads((bundle / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    told = [manifest["version"], plugin["version"], server["version"], own["version"], server["packages"][0]["version"]]
    assert set(told) == {product}
    files = [path for path in (ROOT / "deploy").rglob("*") if path.suffix in {".json", ".md", ".toml"}]
    told_texts = [path.read_text(encoding="utf-8") for path in files]
    told_pins = {pin for text in told_texts for pin in re.findall(r"waygraph(?:-minilm)?==[\w.]+", text)}
    assert told_pins == {f"waygraph=={product}", f"waygraph-minilm=={model}"}


def test_claude_desktop_takes_the_bundle(dist: Path, bundle: Path, programs: Path, tmp_path: Path) -> None:
    mcpb = (node(), programs / "@anthropic-ai" / "mcpb" / "dist" / "cli" / "cli.js")
    checked(*mcpb, "validate", bundle / "manifest.json", home=tmp_path)
    checked(*mcpb, "unpack", dist / "waygraph.mcpb", tmp_path / "unpacked", home=tmp_path)
    assert (tmp_path / "unpacked" / "server.py").is_file()


def test_claude_code_takes_the_plugin(dist: Path, programs: Path, tmp_path: Path) -> None:
    wrapper = programs / "@anthropic-ai" / "claude-code" / "cli-wrapper.cjs"
    told = checked(node(), wrapper, "plugin", "validate", "--strict", dist / "claude-code", home=tmp_path)
    assert "mcpServers: waygraph stdio uvx" in told
    assert "skills: waygraph:waygraph" in told
    assert read(dist / "claude-code" / ".mcp.json")["mcpServers"]["waygraph"]["alwaysLoad"] is True


def test_the_official_registry_takes_server_json(dist: Path) -> None:
    """By the schema that its own module holds. The registry also wants the server's name in the package's README."""
    go = shutil.which("go") or "/usr/local/go/bin/go"
    if not Path(go).is_file():
        pytest.skip("no go to fetch the schema of server.json with")
    fetched = subprocess.run(
        [go, "mod", "download", "-json", REGISTRY_MODULE], capture_output=True, text=True, check=False
    )
    if fetched.returncode:
        skipped(f"go did not fetch the schema of server.json: {fetched.stderr.strip()[-300:]}")
    told = read(dist / "server.json")
    named = told["$schema"].split("/")[-2]
    schema = Path(json.loads(fetched.stdout)["Dir"]) / "internal" / "validators" / "schemas" / f"{named}.json"
    assert [error.message for error in Draft7Validator(read(schema)).iter_errors(told)] == []
    assert f"mcp-name: {told['name']}" in (ROOT / "README.md").read_text(encoding="utf-8")


@contextmanager
def empty_home(folder: Path, dist: Path) -> Iterator[dict[str, str]]:
    """The environment of somebody who has uv and nothing else; packages that uv fetched stay in the user's cache."""
    kept = {name: value for name, value in os.environ.items() if not name.startswith(("WAYGRAPH_", "XDG_", "PYTHON"))}
    cache = subprocess.run([uvx().with_name("uv"), "cache", "dir"], capture_output=True, text=True, check=True).stdout
    home = folder / "home"
    home.mkdir()
    yield {
        **kept,
        "HOME": str(home),
        "UV_CACHE_DIR": cache.strip(),
        "UV_FIND_LINKS": str(dist),
        "UV_PYTHON": sys.executable,
        "UV_SYSTEM_CERTS": "true",
        "PATH": f"{uvx().parent}{os.pathsep}{os.environ['PATH']}",
        "COLUMNS": "120",
    }


def uvx() -> Path:
    return Path(sys.executable).with_name("uvx")


@pytest.fixture
def environ(tmp_path: Path, dist: Path) -> Iterator[dict[str, str]]:
    with empty_home(tmp_path, dist) as environ:
        yield environ


def by_uvx(environ: dict[str, str], *words: str | Path) -> subprocess.CompletedProcess[str]:
    done = subprocess.run(
        [uvx(), *words], env=environ, cwd=environ["HOME"], capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    return done


def test_the_wheel_alone_routes_by_words_and_says_what_it_lacks(dist: Path, environ: dict[str, str]) -> None:
    """With what the wheel itself asks for, and nothing else; none of what the extras bring is among it."""
    alone = ("--from", wheel_of(dist, "waygraph"))
    filled = by_uvx(environ, *alone, "waygraph", "ingest", ROOT / "examples" / "catalog")
    assert filled.stderr.count("pip install waygraph-minilm") == 1
    told = by_uvx(environ, *alone, "waygraph", "route", "who still owes us money")
    assert "ledgerleaf" in told.stdout
    program = (
        "from importlib.metadata import distributions as d; "
        "print(sorted({'onnx', 'hf-xet', 'neo4j', 'onnxruntime', 'torch'} & {each.name for each in d()}))"
    )
    assert by_uvx(environ, *alone, "python", "-c", program).stdout.strip() == "[]"


def test_what_uvx_ran_connects_a_host_by_uvx(dist: Path, environ: dict[str, str]) -> None:
    """Its own environment is in uv's cache, and could be gone when the host starts."""
    wheels = (wheel_of(dist, "waygraph"), wheel_of(dist, "waygraph_minilm"))
    by_uvx(environ, "--from", wheels[0], "--with", wheels[1], "waygraph", "connect", "cursor", "--write")
    entry = read(Path(environ["HOME"]) / ".cursor" / "mcp.json")["mcpServers"]["waygraph"]
    assert Path(entry["command"]).name == "uvx"
    assert entry["args"][:4] == [
        *("--from", f"waygraph @ {wheels[0].as_uri()}", "--with", f"waygraph-minilm @ {wheels[1].as_uri()}")
    ]
    catalog = ROOT / "examples" / "catalog"
    by_uvx(environ, *entry["args"][: entry["args"].index("mcp")], "ingest", catalog)
    told = by_uvx(environ, *entry["args"][: entry["args"].index("mcp")], "status", "--json")
    assert json.loads(told.stdout)["tools"] == 186


async def test_a_host_runs_a_tool_by_the_bundles_own_command(bundle: Path, dist: Path, environ: dict[str, str]) -> None:
    """As Claude Desktop starts it, after `waygraph ingest` of a real server by the command that the pages name."""
    config = read(bundle / "manifest.json")["server"]["mcp_config"]
    assert config["command"] == "uvx"
    plugin = read(dist / "claude-code" / ".mcp.json")["mcpServers"]["waygraph"]
    assert (plugin["command"], plugin["args"]) == (config["command"], config["args"])
    waygraph = config["args"][: config["args"].index("mcp")]
    notes = Path(environ["HOME"]) / "notes.txt"
    by_uvx(environ, *waygraph, "ingest", "--", sys.executable, CALCULATOR, notes)
    server = StdioServerParameters(command="uvx", args=config["args"], env=environ, cwd=environ["HOME"])
    async with Client(server) as client:
        listed = {tool.name for tool in (await client.list_tools()).tools}
        assert listed == {"find_tools", "use_tool", "route_agents"}
        found = await client.call_tool("find_tools", {"query": "17 percent of 2340"})
        assert isinstance(found.content[0], TextContent)
        name = json.loads(found.content[0].text)["tools"][0]["name"]
        used = await client.call_tool("use_tool", {"name": name, "params": {"expression": "2340*0.17"}})
        assert "397.8" in str(used.content)
    assert notes.read_text(encoding="utf-8").split() == ["evaluate"]
