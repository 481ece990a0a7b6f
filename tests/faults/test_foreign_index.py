"""The index of another registry beside a graph: nothing of it is answered, and neither of the two is lost."""

import os
import shutil
import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tests.faults.fleet import manifest, small
from tests.faults.programs import opened, rival
from tests.terminal import PROGRAM
from waygraph.ingest.sync.apply import sync
from waygraph.registry.index.local.file import IndexFile, folder_of
from waygraph.registry.index.local.graph_agreement import is_foreign
from waygraph.registry.model.errors import RegistryUnusable
from waygraph.registry.model.settings import Settings
from waygraph.registry.storage.integrity.examine import examine, examine_at
from waygraph.registry.storage.local_registry import LocalRegistry
from waygraph.registry.storage.migrate import repair_at

ANOTHER = r"r\.grafeo\.index is the index of another registry"


@pytest.fixture
def path(tmp_path: Path) -> Path:
    """The registry of the fleet, with the index of `b`, which is at the same revision."""
    path, other = tmp_path / "r.grafeo", tmp_path / "other.grafeo"
    for place, content in ((path, small(1)), (other, rival("b", 1))):
        with opened(place) as registry:
            assert sync(registry, content).revision == 1
    folder_of(path).rename(tmp_path / "own.index")
    shutil.copytree(folder_of(other), folder_of(path))
    return path


def ids(registry: LocalRegistry) -> set[str]:
    return {agent.id for agent in registry.agents()}


FLEET = {f"agent{number}" for number in range(4)}
ANSWERS: list[Callable[[LocalRegistry], Any]] = [
    lambda registry: registry.route("moors ship"),
    lambda registry: registry.find_tools("moors ship"),
    lambda registry: registry.agents(),
    lambda registry: registry.status(),
    lambda registry: registry.sources(),
    lambda registry: registry.operator.export("json"),
    lambda registry: registry.operator.changes(),
    lambda registry: registry.operator.cypher("MATCH (a:Agent) RETURN a.id"),
    lambda registry: sync(registry, manifest(2)),
]


def test_nothing_is_answered_from_the_index_of_another_registry(path: Path) -> None:
    before = path.read_bytes(), sorted(file.name for file in folder_of(path).glob("index-*"))
    with LocalRegistry.open(path, settings=Settings(), environ={}) as registry:
        for answer in ANSWERS:
            with pytest.raises(RegistryUnusable, match=ANOTHER):
                answer(registry)
    with pytest.raises(RegistryUnusable, match=ANOTHER):
        opened(path)
    with pytest.raises(RegistryUnusable, match=ANOTHER):
        repair_at(str(path), Settings())
    assert (path.read_bytes(), sorted(file.name for file in folder_of(path).glob("index-*"))) == before


@pytest.mark.parametrize(
    "words", ["route moors", "agents", "status", "export -o saved.json", "doctor", "doctor --deep"]
)
def test_each_command_says_whose_index_it_is_and_what_to_do(path: Path, words: str) -> None:
    done = waygraph(path, *words.split())
    said = done.stdout + done.stderr
    assert done.returncode == 1
    assert "is the index of another registry" in said
    assert "waygraph reindex" in said
    assert "b0" not in said
    assert not (path.parent / "saved.json").exists()


def waygraph(path: Path, *words: str) -> subprocess.CompletedProcess[str]:
    environ = {"HOME": str(path.parent), "PATH": os.environ["PATH"], "PYTHONPATH": os.environ.get("PYTHONPATH", "")}
    command = [*PROGRAM, "--registry", str(path), *words]
    return subprocess.run(command, cwd=path.parent, env=environ, capture_output=True, text=True, check=False)


def test_reindex_makes_the_index_of_the_graph_beside_it(path: Path) -> None:
    assert waygraph(path, "reindex").returncode == 0
    with opened(path) as registry:
        assert ids(registry) == FLEET
        assert [finding for finding in examine(registry, deep=True) if not finding.ok] == []


@pytest.mark.parametrize("is_put_back", [True, False])
def test_without_the_foreign_index_the_registry_answers_as_before(path: Path, is_put_back: bool) -> None:
    folder_of(path).rename(path.parent / "away")
    if is_put_back:
        (path.parent / "own.index").rename(folder_of(path))
    with opened(path) as registry:
        assert ids(registry) == FLEET
        assert sync(registry, small(2)).revision == 2


def test_the_index_may_be_the_one_to_keep(path: Path) -> None:
    """The graph is made anew from it, and the index is known to be that graph's."""
    path.rename(path.parent / "away")
    assert repair_at(str(path), Settings()) is not None
    with opened(path) as registry:
        assert ids(registry) == {entry.agent.id for entry in rival("b", 1).entries}
        assert sync(registry, rival("b", 2)).revision == 2
    assert [finding for finding in examine_at(path, deep=True, environ={}) if not finding.ok] == []


def test_a_copy_of_both_answers_as_they_do(path: Path, tmp_path: Path) -> None:
    copy = tmp_path / "copy.grafeo"
    shutil.copy(path, copy)
    shutil.copytree(tmp_path / "own.index", folder_of(copy))
    with opened(copy) as registry:
        assert ids(registry) == FLEET


def test_another_file_of_the_same_graph_answers(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """As where a repair was cut short: the file is another one, its commit is the index's."""
    path.rename(path.parent / "away")
    with monkeypatch.context() as cut_short:
        cut_short.setattr(IndexFile, "put_graph", lambda _: None)
        assert repair_at(str(path), Settings()) is not None
    assert is_foreign(folder_of(path))
    with opened(path) as registry:
        assert len(ids(registry)) == len(rival("b", 1).entries)
        sync(registry, rival("b", 2))
    assert not is_foreign(folder_of(path))
