"""Programs that others wrote, each in an environment of its own: installed once, with pinned versions, and cached."""

import hashlib
import os
import shutil
import subprocess
import sys
import time
from collections.abc import Callable, Collection
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Final, NoReturn

import pytest
from platformdirs import user_cache_path

from benchmarks.processes import locked

ENVIRON: Final = dict(os.environ)
"""As the caller set it: tests/conftest.py takes WAYGRAPH_* away once tests run."""

REQUIRED = "WAYGRAPH_REQUIRE_LIVE_SERVERS"
INSTALL_S = 240.0
"""Less than the 300 s that pytest gives a test, so that the installer's own words are seen."""
AT_ONCE = 2


class NotInstalled(Exception):
    """An environment cannot be installed here; says why in one line."""


@dataclass(frozen=True)
class Environment:
    """A folder with programs, made of `pins`. The folder's name says what is in it: other pins are another folder."""

    name: str
    pins: tuple[Path, ...]
    install: Callable[["Environment"], None]
    bin: str = "bin"

    @property
    def folder(self) -> Path:
        parts = [path.read_bytes() for path in self.pins] + [sys.version.encode(), sys.base_prefix.encode()]
        return cache_folder() / f"{self.name}-{hashlib.sha256(b'\0'.join(parts)).hexdigest()[:12]}"

    @property
    def programs(self) -> Path:
        return self.folder / self.bin

    @property
    def is_whole(self) -> bool:
        # Python is a link to the interpreter that made the environment, which may be gone since.
        return (self.folder / ".complete").exists() and all(program.exists() for program in self.programs.iterdir())


def cache_folder() -> Path:
    given = ENVIRON.get("WAYGRAPH_TEST_CACHE")
    return (Path(given) if given else user_cache_path("waygraph")) / "live-servers"


def python_environment(name: str, pins: Path) -> Environment:
    """`pins`: a requirements file that names every package, the dependencies too."""
    return Environment(name, (pins,), _install_python)


def node_environment(name: str, folder: Path) -> Environment:
    """`folder` holds package.json and package-lock.json."""
    pins = (folder / "package.json", folder / "package-lock.json")
    return Environment(name, pins, _install_node, "node_modules/.bin")


def go_environment(name: str, pins: Path) -> Environment:
    """`pins` names one package of Go with its version, which is built."""
    return Environment(name, (pins,), _install_go)


def _install_python(environment: Environment) -> None:
    _run(sys.executable, "-m", "venv", "--without-pip", str(environment.folder))
    python = str(environment.programs / "python")
    uv = str(Path(sys.executable).with_name("uv"))  # five times as fast as pip
    command = (uv, "pip", "install", "--quiet", "--python", python, "--no-deps", "-r", str(environment.pins[0]))
    _run(*command, UV_SYSTEM_CERTS="true")  # as pip is told to


def _install_node(environment: Environment) -> None:
    npm = shutil.which("npm")
    if npm is None:
        raise NotInstalled("no npm to install the Node programs with")
    environment.folder.mkdir()
    for pin in environment.pins:
        shutil.copy(pin, environment.folder)
    quiet = ("--ignore-scripts", "--no-audit", "--no-fund", "--no-progress")
    _run(npm, "ci", "--prefix", str(environment.folder), *quiet)


def _install_go(environment: Environment) -> None:
    go = shutil.which("go", path=f"{os.environ['PATH']}{os.pathsep}/usr/local/go/bin")
    if go is None:
        raise NotInstalled("no go to build it with")
    _run(go, "install", environment.pins[0].read_text().strip(), GOBIN=str(environment.programs))


def _run(*command: str, **environ: str) -> None:
    """Raises NotInstalled with the command's last line on standard error."""
    everything = {**os.environ, **environ}
    nothing = subprocess.DEVNULL
    try:
        subprocess.run(
            command, env=everything, stdin=nothing, capture_output=True, text=True, timeout=INSTALL_S, check=True
        )
    except subprocess.CalledProcessError as error:
        lines = error.stderr.strip().splitlines() or [f"status {error.returncode}"]
        raise NotInstalled(f"{Path(command[0]).name} did not install it: {_telling(lines)}") from error
    except (OSError, subprocess.TimeoutExpired) as error:
        raise NotInstalled(f"{Path(command[0]).name} did not install it: {error}") from error


def _telling(lines: list[str]) -> str:
    return next((line for line in lines if "rror" in line), lines[-1])[:300]


@cache
def installed(environment: Environment, beside: tuple[Environment, ...] = ()) -> Path | NotInstalled:
    """The folder with the programs of an environment, or why there is none. With the first that is asked for, all
    that stand `beside` it are installed: they are fetched at once.
    """
    if not environment.is_whole:
        with ThreadPoolExecutor(AT_ONCE) as pool:
            list(pool.map(made, beside))
    return made(environment)


@cache
def made(environment: Environment) -> Path | NotInstalled:
    folder = environment.folder
    folder.parent.mkdir(parents=True, exist_ok=True)
    with locked(folder.with_suffix(".lock")):
        if not environment.is_whole:
            shutil.rmtree(folder, ignore_errors=True)
            try:
                environment.install(environment)
            except NotInstalled as reason:
                return reason
            (folder / ".complete").touch()
    return environment.programs


def install_all(environments: Collection[Environment]) -> None:
    """Each, and what became of it, a line each."""
    began = time.monotonic()
    for environment in environments:
        sys.stdout.write(f"{environment.name}: {installed(environment, tuple(environments))}\n")
    sys.stdout.write(f"{time.monotonic() - began:.1f} s\n")


def skipped(reason: str) -> NoReturn:
    """Skips the test with one line; fails it if WAYGRAPH_REQUIRE_LIVE_SERVERS=1."""
    if ENVIRON.get(REQUIRED) == "1":
        pytest.fail(reason, pytrace=False)
    pytest.skip(reason)
