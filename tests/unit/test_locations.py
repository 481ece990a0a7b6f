"""Locations at which there is no registry to open: each ends in one line of ours, and nothing is left there."""

import json
import os
from pathlib import Path

import pytest

from waygraph.ingest.sources.read import read_path
from waygraph.ingest.sync.apply import sync
from waygraph.registry.model.errors import InvalidSetting, StorageFailed
from waygraph.registry.model.settings import Settings
from waygraph.registry.registry import Registry


def agents(location: str | Path) -> list[str]:
    with Registry.open(location, embedder="none") as registry:
        return [agent.id for agent in registry.agents()]


@pytest.fixture
def path(tmp_path: Path) -> Path:
    """A registry of one agent."""
    file = tmp_path / "a.json"
    file.write_text(json.dumps({"waygraph": 1, "agents": [{"id": "alpha", "description": "delivers parcels"}]}))
    with Registry.open(tmp_path / "tools.grafeo", embedder="none") as registry:
        [manifest] = read_path(str(file), Settings())
        sync(registry, manifest)
    return tmp_path / "tools.grafeo"


@pytest.mark.parametrize("location", ["a\0b", "~no-such-user-as-this/x", "/"])
def test_what_is_no_path_is_refused(location: str) -> None:
    with pytest.raises(InvalidSetting, match=r"cannot be the file of a registry|nobody here has such a home"):
        agents(location)


@pytest.mark.parametrize("name", ["a" * 300, "file/x.grafeo"])
def test_a_path_that_the_system_refuses_is_told(tmp_path: Path, name: str) -> None:
    (tmp_path / "file").write_text("x")
    with pytest.raises(StorageFailed, match="cannot be read"):
        agents(tmp_path / name)
    assert os.listdir(tmp_path) == ["file"]
