"""A log that is removed, emptied, cut or zeroed: nothing that was acknowledged is lost, and nothing is in silence."""

import os
import shutil
import signal
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.faults import programs
from tests.faults.fleet import manifest
from tests.faults.processes import child
from tests.faults.programs import opened
from tests.faults.soundness import sound_revision
from tests.service import agent, assert_good, process
from tests.service import manifest as posted
from waygraph.ingest.sync.apply import sync
from waygraph.registry.graph.grafeo import log_of
from waygraph.registry.model.errors import RegistryUnusable
from waygraph.registry.model.settings import Settings
from waygraph.registry.storage.integrity.examine import examine
from waygraph.registry.storage.migrate import repair_at

Harm = Callable[[Path], None]


def removed(path: Path) -> None:
    shutil.rmtree(log_of(path), ignore_errors=True)


def without_parts(path: Path) -> None:
    for part in log_of(path).glob("*"):
        part.unlink()


def emptied(path: Path) -> None:
    keep(path, lambda _: 0)


def cut_at_its_end(path: Path) -> None:
    """Seven bytes of the last commit, behind which there may be the record of a read."""
    keep(path, lambda size: size - 67)


def cut_by_half(path: Path) -> None:
    keep(path, lambda size: size // 2)


def keep(path: Path, count: Callable[[int], int]) -> None:
    for part in log_of(path).glob("*"):
        os.truncate(part, max(0, count(part.stat().st_size)))


def zeroed_at_its_end(path: Path) -> None:
    for part in log_of(path).glob("*"):
        size = part.stat().st_size
        with part.open("r+b") as file:
            file.seek(size * 2 // 3)
            file.write(bytes(size - size * 2 // 3))


HARMS = (removed, without_parts, emptied, cut_at_its_end, cut_by_half, zeroed_at_its_end)
EACH_HARM = pytest.mark.parametrize("harm", HARMS, ids=lambda harm: harm.__name__)


def killed_after(path: Path, revisions: int) -> None:
    """A writer that is killed between its writes leaves its log."""
    with child(programs.ingest_and_stay, path, revisions) as writer:
        assert [writer.hear() for _ in range(revisions)] == [*range(1, revisions + 1)]
        writer.kill()
    assert any(part.stat().st_size > 1_000 for part in log_of(path).iterdir())


def refused(path: Path) -> None:
    """A write of somebody else changes no file of the graph, and everything is still to be had."""
    before = path.read_bytes()
    with opened(path) as registry:
        agents, exported = registry.agents(), registry.operator.export("json")
        for _ in range(2):
            with pytest.raises(RegistryUnusable, match=r"doctor --repair.*reindex"):
                sync(registry, programs.rival("b", 1))
        assert registry.agents() == agents
        assert all(each.id in exported for each in agents)
        assert registry.route("moors ship").matches
        assert "graph copy" in [finding.check for finding in examine(registry) if not finding.ok]
    assert path.read_bytes() == before


@EACH_HARM
def test_a_lost_log_ends_in_a_refusal_and_a_repair(tmp_path: Path, harm: Harm) -> None:
    """The index is the better copy then: a repair makes the graph anew from it, whole, and keeps the former one."""
    path = tmp_path / "r.grafeo"
    killed_after(path, 3)
    with opened(path) as registry:
        agents, tools, exported = registry.agents(), registry.tools(), registry.operator.export("json")
    harm(path)
    refused(path)
    former = path.read_bytes()
    report = repair_at(str(path), Settings())
    assert report is not None
    assert Path(report.target).read_bytes() == former
    with opened(path) as registry:
        assert [finding for finding in examine(registry, deep=True) if not finding.ok] == []
        assert (registry.agents(), registry.tools()) == (agents, tools)
        assert registry.operator.export("json") == exported
        assert sync(registry, manifest(4)).revision == 4
        assert registry.operator.changes().items
    assert repair_at(str(path), Settings()) is None


@pytest.mark.parametrize("harm", [removed, cut_by_half])
def test_a_person_may_say_that_the_graph_holds(tmp_path: Path, harm: Harm) -> None:
    """As after a backup was put back: reindex makes the index anew from it."""
    path = tmp_path / "r.grafeo"
    with opened(path) as registry:
        sync(registry, manifest(1))
    shutil.copy(path, tmp_path / "kept")
    killed_after_second(path)
    harm(path)
    shutil.copy(tmp_path / "kept", path)
    refused(path)
    with opened(path) as registry:
        registry.reindex()
        assert sync(registry, manifest(3)).revision == 3
        assert [finding for finding in examine(registry, deep=True) if not finding.ok] == []


def killed_after_second(path: Path) -> None:
    with child(programs.ingest_and_stay, path, 2, 2) as writer:
        assert writer.hear() == 2
        writer.kill()


@EACH_HARM
@pytest.mark.parametrize("is_long", [False, True], ids=["short log", "begun anew"])
def test_a_process_writes_its_graph_anew_where_its_log_was_harmed(
    tmp_path: Path, harm: Harm, is_long: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its memory has all that was acknowledged: the next write goes on, and a kill after it loses nothing."""
    path = tmp_path / "r.grafeo"
    if is_long:
        monkeypatch.setattr("waygraph.registry.graph.grafeo.WAL_CHECKPOINT_BYTES", 0)
    with opened(path) as registry:
        for number in (1, 2):
            sync(registry, manifest(number))
        monkeypatch.undo()
        harm(path)
        for number in (3, 4):
            assert sync(registry, manifest(number)).revision == number
            assert sound_revision(as_after_a_kill(path, tmp_path / f"{number}")) == number
        harm(path)
    assert not log_of(path).exists()
    assert sound_revision(path) == 4


def as_after_a_kill(path: Path, folder: Path) -> Path:
    """A copy of the file and its log, without the index."""
    folder.mkdir()
    copy = folder / path.name
    shutil.copy(path, copy)
    if log_of(path).exists():
        shutil.copytree(log_of(path), log_of(copy))
    return copy


@pytest.mark.parametrize("harm", [removed, cut_at_its_end])
def test_a_service_whose_log_was_harmed_loses_nothing(tmp_path: Path, harm: Harm) -> None:
    """Neither what is written next, nor at SIGTERM, after which the file alone is the registry."""
    path = tmp_path / "r.grafeo"
    with process(path, tmp_path) as service:
        client = service.client()
        for number in range(2):
            assert_good(client.post("/v1/manifests", json=posted(f"s{number}", agent(f"a{number}", "moor"))))
        harm(path)
        assert_good(client.post("/v1/manifests", json=posted("late", agent("late", "moor"))))
        service.signal(signal.SIGTERM)
        service.wait()
    assert not log_of(path).exists()
    with opened(as_after_a_kill(path, tmp_path / "copy")) as registry:
        assert [each.id for each in registry.agents()] == ["a0", "a1", "late"]
