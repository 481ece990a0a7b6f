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


@pytest.mark.parametrize(("warm", "names"), [("pinned", ["pinned"]), ("all", NAMES)], ids=["pinned", "all"])
def test_the_chosen_servers_run_before_they_are_called(warm: Warm, names: Sequence[str], tmp_path: Path) -> None:
    """And no others: what is not to be warmed had the same time."""
    wanted = set(names)
    with servers(tmp_path) as (place, noted):
        with process(place.registry, tmp_path, "--warm", warm) as service:
            until(lambda: started(noted) >= wanted, f"{wanted} run")
            assert service.client().get("/healthz").status_code == 200
        assert started(noted) == wanted
