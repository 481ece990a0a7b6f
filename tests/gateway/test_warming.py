"""Servers that run before anybody calls their tools."""

import json
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

import pytest

from tests.gateway.hosts import Place, ingest
from tests.service import process, until
from tests.upstream.launches import PROGRAMS
from waygraph.api.cli.app import main
from waygraph.api.mcp import Warm
from waygraph.api.mcp.gateway import MOST_RECENT, recent_agents

STARTED = """
import runpy, sys
with open({noted!r}, "a") as file:
    print({name!r}, file=file)
sys.argv = sys.argv[:1]
runpy.run_path({program!r}, run_name="__main__")
"""
NAMES = ("pinned", "called", "other")


@contextmanager
def servers(folder: Path) -> Iterator[tuple[Place, Path]]:
    """Three of them, each of which notes its starts; what ingest started is struck out."""
    place, noted, config = Place(folder), folder / "started.txt", {}
    for name in NAMES:
        script = folder / f"{name}.py"
        script.write_text(STARTED.format(noted=str(noted), name=name, program=str(PROGRAMS / "handshake.py")))
        config[name] = {"command": sys.executable, "args": ["-S", str(script)]}
    (folder / "mcp.json").write_text(json.dumps({"mcpServers": config}))
    assert ingest(place, str(folder / "mcp.json")) == 0
    assert main(["--registry", str(place.registry), "--embedder", "none", "set", "pinned", "--pin"]) == 0
    noted.write_text("")
    yield place, noted


def started(noted: Path) -> set[str]:
    return set(noted.read_text().split())


@pytest.mark.parametrize(
    ("warm", "names"), [("pinned", ["pinned"]), ("recent", ["called"]), ("all", NAMES)], ids=["pinned", "recent", "all"]
)
def test_the_chosen_servers_run_before_they_are_called(warm: Warm, names: Sequence[str], tmp_path: Path) -> None:
    """And no others: what is not to be warmed had the same time."""
    audit, wanted = tmp_path / "audit.jsonl", set(names)
    audit.write_text(json.dumps({"action": "call", "outcome": "ok", "target": "called/alpha"}) + "\n")
    with servers(tmp_path) as (place, noted):
        environ = {"WAYGRAPH_AUDIT_FILE": str(audit)}
        with process(place.registry, tmp_path, "--warm", warm, environ=environ) as service:
            until(lambda: started(noted) >= wanted, f"{wanted} run")
            assert service.client().get("/healthz").status_code == 200
        assert started(noted) == wanted


def test_the_last_called_come_first(tmp_path: Path) -> None:
    audit = tmp_path / "audit.jsonl"
    calls = [{"action": "call", "outcome": "ok", "target": f"agent{number}/t"} for number in range(30)]
    other = [
        {"action": "call", "outcome": "failed", "target": "failed/t"},
        {"action": "cypher", "outcome": "ok", "target": "typed/t"},
        ["no record"],
    ]
    audit.write_text("".join(f"{json.dumps(line)}\n" for line in [*calls, *other]) + '{"half a li')
    assert recent_agents(audit) == [f"agent{number}" for number in range(29, 29 - MOST_RECENT, -1)]
    assert recent_agents(tmp_path / "none") == recent_agents(None) == []
