"""Real MCP servers for tests, with pinned versions: `real_server` gives the command of one.

It is an installed program, started by its path: never through npx or uvx.
"""

import sys
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

from tests.environments import NotInstalled, install_all, installed, node_environment, python_environment, skipped

PINS = Path(__file__).parent / "live" / "servers"
"""What each environment holds, to the last dependency; and our own two servers."""

NO_SERVERS = "no live servers to test with"

ENVIRONMENTS = {
    environment.name: environment
    for environment in (
        *(python_environment(name, PINS / f"{name}.txt") for name in ("time", "git", "fetch", "sdk_1")),
        node_environment("node", PINS),
    )
}


@dataclass(frozen=True)
class RealServer:
    """A program and what it is started with. `env` is all that it needs beside PATH and HOME."""

    name: str
    command: str
    args: tuple[str, ...] = ()
    env: Mapping[str, str] = field(default_factory=dict)


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
        return find_server(name, folder, *args)
    except NotInstalled as error:
        skipped(f"{NO_SERVERS}: {error}")


def find_server(name: str, folder: Path, *args: str) -> RealServer:
    """As `real_server`. Raises NotInstalled."""
    if name == "sdk_2":  # the SDK that this project has itself
        return RealServer(name, sys.executable, (str(PINS / "sdk_2.py"), *args))
    programs = _programs("node" if name in NODE_SERVERS else name)
    if name == "sdk_1":
        return RealServer(name, str(programs / "python"), (str(PINS / "sdk_1.py"), *args))
    own = {"filesystem": (str(folder),), "time": ("--local-timezone=Europe/Berlin",)}.get(name, ())
    env = {"MEMORY_FILE_PATH": str(folder / "memory.jsonl")} if name == "memory" else {}
    return RealServer(name, str(programs / f"mcp-server-{name}"), (*own, *args), env)


def _programs(environment: str) -> Path:
    """Raises NotInstalled."""
    outcome = programs_of(environment)
    if isinstance(outcome, NotInstalled):
        raise NotInstalled(str(outcome))
    return outcome


def programs_of(environment: str) -> Path | NotInstalled:
    return installed(ENVIRONMENTS[environment], tuple(ENVIRONMENTS.values()))


def main() -> None:
    """Installs all of them: `python -m tests.live_servers`."""
    install_all(ENVIRONMENTS.values())


if __name__ == "__main__":
    main()
