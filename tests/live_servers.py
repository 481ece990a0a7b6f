"""Real MCP servers for tests, each in an environment of its own: installed once, with pinned versions, and cached.

`real_server` gives the command of one. It is an installed program, started by its path: never through npx or uvx.
"""

import fcntl
import hashlib
import os
import shutil
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from typing import Final

import pytest
from platformdirs import user_cache_path

ENVIRON: Final = dict(os.environ)
"""As the caller set it: tests/conftest.py takes WAYGRAPH_* away once tests run."""

PINS = Path(__file__).parent / "live" / "servers"
"""What each environment holds, to the last dependency; and our own two servers."""

REQUIRED = "WAYGRAPH_REQUIRE_LIVE_SERVERS"
NO_SERVERS = "no live servers to test with"
INSTALL_S = 240.0
"""Less than the 300 s that pytest gives a test, so that the installer's own words are seen."""
AT_ONCE = 2


class NoServers(Exception):
    """An environment cannot be installed here; says why in one line."""


@dataclass(frozen=True)
class RealServer:
    """A program and what it is started with. `env` is all that it needs beside PATH and HOME."""

    name: str
    command: str
    args: tuple[str, ...] = ()
    env: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True)
class Environment:
    """A folder with programs, made of `pins`. The folder's name says what is in it: other pins are another folder."""

    name: str
    pins: tuple[Path, ...]
    install: Callable[["Environment"], None]

    @property
    def folder(self) -> Path:
        parts = [path.read_bytes() for path in self.pins] + [sys.version.encode(), sys.base_prefix.encode()]
        return cache_folder() / f"{self.name}-{hashlib.sha256(b'\0'.join(parts)).hexdigest()[:12]}"

    @property
    def programs(self) -> Path:
        return self.folder / ("node_modules/.bin" if self.name == "node" else "bin")

    @property
    def is_whole(self) -> bool:
        # Python is a link to the interpreter that made the environment, which may be gone since.
        return (self.folder / ".complete").exists() and all(program.exists() for program in self.programs.iterdir())


def cache_folder() -> Path:
    given = ENVIRON.get("WAYGRAPH_TEST_CACHE")
    return (Path(given) if given else user_cache_path("waygraph")) / "live-servers"


# Installing


def _install_python(environment: Environment) -> None:
    _run(sys.executable, "-m", "venv", "--without-pip", str(environment.folder))
    python = str(environment.programs / "python")
    if uv := shutil.which("uv"):
        _run(uv, "pip", "install", "--quiet", "--python", python, "--no-deps", "-r", str(environment.pins[0]))
        return
    pip = (sys.executable, "-m", "pip", "--python", python)
    _run(*pip, "install", "--quiet", "--no-input", "--no-deps", "-r", str(environment.pins[0]))


def _install_node(environment: Environment) -> None:
    npm = shutil.which("npm")
    if npm is None:
        raise NoServers("no npm to install the Node servers with")
    environment.folder.mkdir()
    for pin in environment.pins:
        shutil.copy(pin, environment.folder)
    quiet = ("--ignore-scripts", "--no-audit", "--no-fund", "--no-progress")
    _run(npm, "ci", "--prefix", str(environment.folder), *quiet)


def _run(*command: str) -> None:
    """Raises NoServers with the command's last line on standard error."""
    try:
        subprocess.run(command, capture_output=True, text=True, timeout=INSTALL_S, check=True, stdin=subprocess.DEVNULL)
    except subprocess.CalledProcessError as error:
        lines = error.stderr.strip().splitlines() or [f"status {error.returncode}"]
        raise NoServers(f"{Path(command[0]).name} did not install it: {_telling(lines)}") from error
    except (OSError, subprocess.TimeoutExpired) as error:
        raise NoServers(f"{Path(command[0]).name} did not install it: {error}") from error


def _telling(lines: list[str]) -> str:
    return next((line for line in lines if "rror" in line), lines[-1])[:300]


ENVIRONMENTS = {
    environment.name: environment
    for environment in (
        *(Environment(name, (PINS / f"{name}.txt",), _install_python) for name in ("time", "git", "fetch", "sdk_1")),
        Environment("node", (PINS / "package.json", PINS / "package-lock.json"), _install_node),
    )
}


@cache
def installed(name: str) -> Path | NoServers:
    """The folder with the programs of an environment, or why there is none. The first that is asked for installs all:
    they are fetched beside each other.
    """
    environment = ENVIRONMENTS[name]
    if not environment.is_whole:
        with ThreadPoolExecutor(AT_ONCE) as pool:
            return dict(zip(ENVIRONMENTS, pool.map(_made, ENVIRONMENTS.values()), strict=True))[name]
    return environment.programs


@cache
def _made(environment: Environment) -> Path | NoServers:
    folder = environment.folder
    folder.parent.mkdir(parents=True, exist_ok=True)
    with _locked(folder.with_suffix(".lock")):
        if not environment.is_whole:
            shutil.rmtree(folder, ignore_errors=True)
            try:
                environment.install(environment)
            except NoServers as reason:
                return reason
            (folder / ".complete").touch()
    return environment.programs


@contextmanager
def _locked(path: Path) -> Iterator[None]:
    """Of the processes that want the same environment one installs it, the others wait."""
    with path.open("w") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        yield


# The servers

PYTHON_SERVERS = ("time", "git", "fetch")
NODE_SERVERS = ("everything", "filesystem", "memory")
OWN_SERVERS = ("sdk_1", "sdk_2")
REAL_SERVERS = (*PYTHON_SERVERS, *NODE_SERVERS)
"""Six programs that other people wrote."""


def real_server(name: str, folder: Path, *args: str) -> RealServer:
    """How to start one of REAL_SERVERS or OWN_SERVERS; `folder` is all of the disk that it may see.

    Where it cannot be installed the test is skipped; it fails if WAYGRAPH_REQUIRE_LIVE_SERVERS=1.
    """
    try:
        return _server(name, folder, args)
    except NoServers as error:
        reason = f"{NO_SERVERS}: {error}"
    if ENVIRON.get(REQUIRED) == "1":
        pytest.fail(reason, pytrace=False)
    pytest.skip(reason)


def _server(name: str, folder: Path, args: tuple[str, ...]) -> RealServer:
    if name == "sdk_2":  # the SDK that this project has itself
        return RealServer(name, sys.executable, (str(PINS / "sdk_2.py"), *args))
    programs = _programs("node" if name in NODE_SERVERS else name)
    if name == "sdk_1":
        return RealServer(name, str(programs / "python"), (str(PINS / "sdk_1.py"), *args))
    own = {"filesystem": (str(folder),), "time": ("--local-timezone=Europe/Berlin",)}.get(name, ())
    env = {"MEMORY_FILE_PATH": str(folder / "memory.jsonl")} if name == "memory" else {}
    return RealServer(name, str(programs / f"mcp-server-{name}"), (*own, *args), env)


def _programs(environment: str) -> Path:
    """Raises NoServers."""
    outcome = installed(environment)
    if isinstance(outcome, NoServers):
        raise NoServers(str(outcome))
    return outcome


def main() -> None:
    """Installs all of them: `python -m tests.live_servers`."""
    began = time.monotonic()
    for name in ENVIRONMENTS:
        sys.stdout.write(f"{name}: {installed(name)}\n")
    sys.stdout.write(f"{time.monotonic() - began:.1f} s\n")


if __name__ == "__main__":
    main()
