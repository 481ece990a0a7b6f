"""Locations at which there is no registry to open: each ends in one line of ours, and nothing is left there."""

import json
import os
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest

from waygraph.ingest.sources.read import read_path
from waygraph.ingest.sync.apply import sync
from waygraph.registry import Registry
from waygraph.registry.index.local.generation import current_name, folder_of
from waygraph.registry.model.errors import InvalidSetting, StorageFailed
from waygraph.registry.model.settings import Settings


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


def index_is_a_file(folder: Path) -> None:
    shutil.rmtree(folder)
    folder.write_text("x")


def pointer_is_a_folder(folder: Path) -> None:
    (folder / "current").unlink()
    (folder / "current").mkdir()


def generation_is_a_file(folder: Path) -> None:
    index_is_a_file(folder / current_name(folder))


def _closed(path: Path) -> None:
    path.chmod(0)


def generation_is_anothers(folder: Path) -> None:
    _closed(folder / current_name(folder))


NOT_ROOT = pytest.mark.skipif(os.geteuid() == 0, reason="root reads everything")


@pytest.mark.parametrize(
    "harm",
    [
        index_is_a_file,
        pointer_is_a_folder,
        generation_is_a_file,
        pytest.param(_closed, marks=NOT_ROOT, id="index_is_anothers"),
        pytest.param(generation_is_anothers, marks=NOT_ROOT),
    ],
)
def test_an_index_that_cannot_be_read_is_told(path: Path, harm: Callable[[Path], None]) -> None:
    harm(folder_of(path))
    try:
        with pytest.raises(StorageFailed, match=r"tools\.grafeo\.index.*: cannot be read: [A-Z]"):
            agents(path)
    finally:
        for folder in (folder_of(path), *folder_of(path).glob("gen-*")):
            folder.chmod(0o755)
