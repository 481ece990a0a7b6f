"""From nothing to a proven call: install what a release holds, ingest a server, and let a host call its tool."""

import json
import os
import shutil
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory

import anyio
from mcp import Client, StdioServerParameters

from benchmarks.record import IS_CLONE, NEEDS_CLONE, PROJECT, Measure, Result, Target
from benchmarks.world import World

NAME = "first_call"
SERVER = PROJECT / "tests" / "servers" / "calculator.py"
REQUEST, ARGUMENTS, RIGHT = "17 percent of 2340", {"expression": "2340*0.17"}, "397.8"
ROUNDS = 3
MB, SECONDS = Target(bound="at_most", value=200), Target(bound="at_most", value=25)
PROVEN = Target(bound="at_most", value=30)
MODEL, WORDS = "with the default model", "words alone"
NOTES = (
    "install: a virtual environment and the wheels of a release, with all that they ask for, into an empty home. warm: "
    "the installer's cache holds the packages; cold: they are downloaded, so the network counts too. Medians of the "
    "warm rounds; one cold one.",
    "MB: what lies in the environment's folder of packages, of pip with the bytecode that pip writes.",
    "proven call: install, `waygraph ingest` of an MCP server by its command, then a host by the official SDK that "
    "starts `waygraph mcp`, finds the tool by a request and runs it; its result is checked.",
)


@dataclass(frozen=True)
class Trial:
    """Seconds of each stage, and the bytes of the environment's packages."""

    install_s: float
    ingest_s: float
    call_s: float
    size: int

    @property
    def whole_s(self) -> float:
        return self.install_s + self.ingest_s + self.call_s


def run(world: World) -> Result:
    if not IS_CLONE:
        return Result(name=NAME, skipped=NEEDS_CLONE)
    rounds = 1 if world.quick else ROUNDS
    with TemporaryDirectory(prefix="waygraph-first-call-") as name:
        folder = Path(name)
        product, model = built(folder / "dist")
        wheels = {MODEL: (product, model), WORDS: (product,)}
        trials: dict[str, list[Trial]] = {}
        for installer in ("pip", "uv"):
            with installing(installer, folder / f"{installer}-cache") as environ:
                trials[f"{installer}, cold, {MODEL}"] = [tried(installer, folder, wheels[MODEL], environ)]
                for _ in range(rounds):
                    for what, of in wheels.items():
                        trials.setdefault(f"{installer}, warm, {what}", []).append(
                            tried(installer, folder, of, environ)
                        )
    return Result(name=NAME, embedder="onnx:waygraph-minilm", measures=list(_measures(trials)), notes=NOTES)


def built(out: Path) -> tuple[Path, Path]:
    """The wheels of the product and of its model."""
    command = [sys.executable, "-m", "scripts.build_release", "--no-sbom", "--out", out]
    subprocess.run(command, cwd=PROJECT, check=True, capture_output=True)
    return next(out.glob("waygraph-*.whl")), next(out.glob("waygraph_minilm-*.whl"))


@contextmanager
def installing(installer: str, cache: Path) -> Iterator[dict[str, str]]:
    """The environment of an installer whose cache is empty at first."""
    cache.mkdir()
    kept = {name: value for name, value in os.environ.items() if not name.startswith(("WAYGRAPH_", "PYTHON", "XDG_"))}
    yield {**kept, f"{installer.upper()}_CACHE_DIR": str(cache), "UV_LINK_MODE": "copy", "UV_SYSTEM_CERTS": "true"}


def tried(installer: str, folder: Path, wheels: Sequence[Path], environ: Mapping[str, str]) -> Trial:
    with TemporaryDirectory(dir=folder) as name:
        home = Path(name)
        environ = {**environ, "HOME": name}
        began = time.perf_counter()
        packages = installed(installer, home / "venv", wheels, environ)
        done = time.perf_counter()
        program = home / "venv" / "bin" / "waygraph"
        python = home / "venv" / "bin" / "python"
        shell = {**environ, "PATH": f"{program.parent}{os.pathsep}{environ['PATH']}"}
        command = [program, "ingest", "--", python, SERVER, home / "notes"]
        subprocess.run(command, env=shell, check=True, capture_output=True)
        ingested = time.perf_counter()
        anyio.run(prove_call, str(program), shell)
        called = time.perf_counter()
        return Trial(done - began, ingested - done, called - ingested, folder_size(packages))


def installed(installer: str, venv: Path, wheels: Sequence[Path], environ: Mapping[str, str]) -> Path:
    """The environment's folder of packages."""
    uv = str(Path(sys.executable).with_name("uv"))
    if installer == "uv":
        make: list[str | Path] = [uv, "venv", "--quiet", "--python", sys.executable, venv]
        fill: list[str | Path] = [uv, "pip", "install", "--quiet", "--python", venv]
    else:
        make, fill = [sys.executable, "-m", "venv", venv], [venv / "bin" / "pip", "install", "--quiet"]
    for command in (make, [*fill, *wheels]):
        subprocess.run(command, env=environ, check=True, capture_output=True)
    (packages,) = (venv / "lib").glob("python*/site-packages")
    shutil.rmtree(packages / "pip", ignore_errors=True)  # of the environment, not of Waygraph
    return packages


def folder_size(folder: Path) -> int:
    return sum(path.stat().st_size for path in folder.rglob("*") if path.is_file() and not path.is_symlink())


async def prove_call(program: str, environ: Mapping[str, str]) -> None:
    """As a host does. Raises ValueError for another result."""
    server = StdioServerParameters(command=program, args=["mcp"], env=dict(environ))
    async with Client(server) as client:
        found = await client.call_tool("find_tools", {"query": REQUEST})
        name = json.loads(getattr(found.content[0], "text", "{}"))["tools"][0]["name"]
        used = await client.call_tool("use_tool", {"name": name, "params": ARGUMENTS})
        if RIGHT not in str(used.content):
            raise ValueError(f"{name} gave {used.content}, not {RIGHT}")


def _measures(trials: Mapping[str, Sequence[Trial]]) -> Iterator[Measure]:
    """Of each way the median round."""
    for name, rounds in trials.items():
        middle = sorted(rounds, key=lambda each: each.whole_s)[len(rounds) // 2]
        is_asked = name == f"pip, warm, {WORDS}"
        yield Measure(name=f"install, {name}", value=middle.install_s, unit="s", target=SECONDS if is_asked else None)
        yield Measure(name=f"packages, {name}", value=middle.size / 1e6, unit="MB", target=MB if is_asked else None)
        yield Measure(name=f"ingest, {name}", value=middle.ingest_s, unit="s")
        yield Measure(name=f"a host's call, {name}", value=middle.call_s, unit="s")
        is_asked = name == f"uv, warm, {MODEL}"
        yield Measure(name=f"proven call, {name}", value=middle.whole_s, unit="s", target=PROVEN if is_asked else None)
