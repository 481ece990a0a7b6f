"""The image: what it is built of, that it runs as nobody in particular, and what can be started in it.

No engine builds it here. What its environment promises of npx and uvx is tried with them, over a disk that is read-only
but for one folder.
"""

import io
import json
import os
import re
import shlex
import shutil
import subprocess
import sys
import tarfile
import zipfile
from collections.abc import Callable
from fnmatch import fnmatch
from pathlib import Path

import pytest

Instruction = tuple[str, str]

NODE_SERVER = r"""#!/usr/bin/env node
const serverInfo = { name: "weir", version: "1" };
const answers = {
  initialize: { protocolVersion: "2025-06-18", capabilities: { tools: {} }, serverInfo },
  "tools/list": { tools: [{ name: "gauge", description: "The level of the water.", inputSchema: { type: "object" } }] },
};
require("node:readline").createInterface({ input: process.stdin }).on("line", (line) => {
  const { id, method } = JSON.parse(line);
  const answer = answers[method] ? { result: answers[method] } : { error: { code: -32601, message: "unknown" } };
  if (id !== undefined) console.log(JSON.stringify({ jsonrpc: "2.0", id, ...answer }));
});
"""
PYTHON_SERVER = r"""
import json, sys

ANSWERS = {
    "initialize": {
        "protocolVersion": "2025-06-18",
        "capabilities": {"tools": {}},
        "serverInfo": {"name": "weir", "version": "1"},
    },
    "tools/list": {"tools": [{"name": "gauge", "description": "The level.", "inputSchema": {"type": "object"}}]},
}


def main():
    for line in sys.stdin:
        message = json.loads(line)
        result = ANSWERS.get(message["method"])
        answer = {"result": result} if result else {"error": {"code": -32601, "message": "unknown"}}
        if "id" in message:
            print(json.dumps({"jsonrpc": "2.0", "id": message["id"], **answer}), flush=True)
"""


@pytest.fixture(scope="module")
def instructions(root: Path) -> list[Instruction]:
    """Each with its arguments, in order."""
    text = (root / "Dockerfile").read_text(encoding="utf-8").replace("\\\n", " ")
    lines = (line for line in text.splitlines() if line.strip() and not line.startswith("#"))
    return [(name, rest.strip()) for name, _, rest in (line.partition(" ") for line in lines)]


@pytest.fixture(scope="module")
def last_stage(instructions: list[Instruction]) -> list[Instruction]:
    """What the image itself is."""
    start = max(at for at, (name, _) in enumerate(instructions) if name == "FROM")
    return instructions[start:]


@pytest.fixture(scope="module")
def environment(last_stage: list[Instruction]) -> dict[str, str]:
    return dict(rest.split("=", 1) for name, rest in last_stage if name == "ENV")


def values(instructions: list[Instruction], name: str) -> list[str]:
    return [rest for each, rest in instructions if each == name]


def test_whatever_is_copied_is_there_and_sent_to_the_engine(root: Path, instructions: list[Instruction]) -> None:
    lines = (root / ".dockerignore").read_text(encoding="utf-8").splitlines()
    assert lines[1] == "*"
    sent = [line.removeprefix("!") for line in lines if line.startswith("!")]
    copies = [rest.split() for rest in values(instructions, "COPY") if not rest.startswith("--from")]
    sources = [source for words in copies for source in words[:-1]]
    assert len(sources) > 8
    for source in sources:
        assert (root / source).exists(), source
        assert any(source == each or source.startswith(f"{each}/") for each in sent), source
    for each in sent:
        assert any(source == each or source.startswith(f"{each}/") for source in sources), f"{each} is sent for nothing"


def test_what_it_is_built_on_can_be_named_by_a_digest(instructions: list[Instruction]) -> None:
    """Each base has a version, and is an argument of the build; each stage that is copied from is there."""
    arguments = dict(rest.split("=", 1) for rest in values(instructions, "ARG"))
    assert set(arguments) == {"BASE", "NODE", "UV"}
    for image in arguments.values():
        assert re.search(r":\d+(\.\d+)*(-slim)?$", image), image
    bases = [rest.split(" AS ") for rest in values(instructions, "FROM")]
    assert {base[0] for base in bases} == {f"${{{name}}}" for name in arguments}
    stages = {name for _, *names in bases for name in names}
    copied = {match[1] for rest in values(instructions, "COPY") if (match := re.match(r"--from=(\S+)", rest))}
    assert copied == stages


def test_it_runs_as_a_user_who_may_write_to_one_volume(
    last_stage: list[Instruction], environment: dict[str, str]
) -> None:
    assert values(last_stage, "USER") == ["10001:10001"]
    assert values(last_stage, "VOLUME") == ["/data"]
    after = last_stage[last_stage.index(("USER", "10001:10001")) + 1 :]
    assert not {"RUN", "COPY", "ADD"} & {name for name, _ in after}
    [users] = [rest for rest in values(last_stage, "RUN") if "useradd" in rest]
    words = shlex.split(users)
    assert words[words.index("--uid") + 1] == "10001"
    assert words[words.index("--home-dir") + 1] == environment["HOME"]
    for name in ("HOME", "WAYGRAPH_DATA_DIR", "WAYGRAPH_CACHE_DIR"):
        assert f"{environment[name]}/".startswith("/data/")


def test_its_health_is_that_of_the_process(last_stage: list[Instruction]) -> None:
    """Not whether it is ready: whoever restarts what is not well would restart an empty service for ever."""
    [health] = values(last_stage, "HEALTHCHECK")
    assert "'/healthz'" in health


def test_the_model_is_that_of_this_repository(instructions: list[Instruction]) -> None:
    [model] = [rest for rest in values(instructions, "RUN") if "minilm" in rest]
    assert model.endswith("--no-deps --no-build-isolation /build/packages/waygraph-minilm")
    assert not any(fnmatch(rest, "*model.txt*") for rest in values(instructions, "COPY"))


PATH = f"{os.environ['PATH']}{os.pathsep}{Path(sys.executable).parent}"
"""With uvx, as the lock of development brings it, where the system has none."""


def node_package(folder: Path) -> list[str]:
    """A launch of a package that npm unpacks."""
    files = {
        "package.json": json.dumps({"name": "weir", "version": "1.0.0", "bin": {"weir": "server.js"}}),
        "server.js": NODE_SERVER,
    }
    with tarfile.open(folder / "weir-1.0.0.tgz", "w:gz") as archive:
        for name, text in files.items():
            entry = tarfile.TarInfo(f"package/{name}")
            entry.size, entry.mode = len(text.encode()), 0o755
            archive.addfile(entry, io.BytesIO(text.encode()))
    return ["npx", "--yes", "--offline", "--package", str(folder / "weir-1.0.0.tgz"), "weir"]


def python_package(folder: Path) -> list[str]:
    """A launch of a wheel that uv installs."""
    wheel = folder / "weir-1.0.0-py3-none-any.whl"
    info = "weir-1.0.0.dist-info"
    files = {
        "weir.py": PYTHON_SERVER,
        f"{info}/METADATA": "Metadata-Version: 2.1\nName: weir\nVersion: 1.0.0\n",
        f"{info}/WHEEL": "Wheel-Version: 1.0\nGenerator: tests\nRoot-Is-Purelib: true\nTag: py3-none-any\n",
        f"{info}/entry_points.txt": "[console_scripts]\nweir = weir:main\n",
    }
    files[f"{info}/RECORD"] = "".join(f"{name},,\n" for name in [*files, f"{info}/RECORD"])
    with zipfile.ZipFile(wheel, "w") as archive:
        for name, text in files.items():
            archive.writestr(name, text)
    return ["uvx", "--offline", "--from", str(wheel), "weir"]


@pytest.mark.parametrize("package", [node_package, python_package], ids=["npx", "uvx"])
def test_servers_start_where_only_the_volume_can_be_written(
    package: Callable[[Path], list[str]], tmp_path: Path, root: Path, environment: dict[str, str]
) -> None:
    """By another user's number, with the variables of the image, its volume new and empty."""
    launch = package(tmp_path)
    places = {program: shutil.which(program, path=PATH) for program in ("bwrap", launch[0])}
    if lacking := [program for program, place in places.items() if not place]:
        pytest.skip(f"{lacking[0]} is not installed")
    programs = Path(str(places[launch[0]])).parent
    data = tmp_path / "data"
    data.mkdir()
    image = {name: value.replace("/data", str(data)) for name, value in environment.items() if name != "PATH"}
    sandbox = [
        *("bwrap", "--unshare-user", "--uid", "10001", "--gid", "10001", "--die-with-parent", "--clearenv"),
        *("--ro-bind", "/", "/", "--dev", "/dev", "--proc", "/proc", "--tmpfs", "/tmp"),
        *(word for each in (root, tmp_path, programs) for word in ("--ro-bind", str(each), str(each))),
        *("--bind", str(data), str(data), "--chdir", "/"),
        *(word for name, value in {**image, "PATH": PATH}.items() for word in ("--setenv", name, value)),
    ]
    if subprocess.run([*sandbox, "true"], capture_output=True, check=False).returncode:
        pytest.skip("bwrap may make no namespace here")
    assert subprocess.run([*sandbox, "touch", "/etc/x", str(root / "x")], capture_output=True, check=False).returncode
    waygraph = [sys.executable, "-m", "waygraph.api.cli.app", "--embedder", "none"]
    done = subprocess.run([*sandbox, *waygraph, "ingest", "--", *launch], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    shown = subprocess.run([*sandbox, *waygraph, "tools"], capture_output=True, text=True, check=True)
    assert "gauge" in shown.stdout
    assert {each.name for each in data.iterdir()} >= {"home", "registry.grafeo", "vouched.json"}
