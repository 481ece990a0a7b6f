"""Copies of a graph that is written meanwhile: each is whole, of what was committed, and kept while somebody reads."""

import os
import shutil
import time
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest

from waygraph.cypher.loader import parse
from waygraph.registry.graph.grafeo import GrafeoEngine, log_of
from waygraph.registry.model.errors import RegistryLocked, RegistryUnusable
from waygraph.registry.storage import graph_copy
from waygraph.registry.storage.graph_copy import open_copy

PUT = parse("put", "// Puts one.\n// params: id string\n// returns: none\nCREATE (:A {id: $id})")
COUNT = parse("count", "// All.\n// params: none\n// returns: number integer\nMATCH (a:A) RETURN count(a) AS number")


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "g.grafeo"


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    return tmp_path / "g.grafeo.index"


@pytest.fixture
def engine(path: Path) -> Iterator[GrafeoEngine]:
    with closing(GrafeoEngine.open(path)) as opened:
        yield opened


def put(engine: GrafeoEngine, *ids: str) -> None:
    for each in ids:
        engine.write(lambda session, each=each: session.run(PUT, id=each))  # type: ignore[misc]


def count(copy: Path) -> int:
    with closing(GrafeoEngine.open_copy(copy)) as engine:
        return int(engine.run(COUNT)[0]["number"])


def test_a_copy_holds_what_is_committed_and_is_made_once(engine: GrafeoEngine, path: Path, folder: Path) -> None:
    """File and log are copied beside a writer that holds both; the next one who asks gets the same copy."""
    put(engine, "1", "2")
    with open_copy(path, folder) as first, open_copy(path, folder) as second:
        assert first == second
        assert count(first) == 2
    put(engine, "3")
    with open_copy(path, folder) as third:
        assert third != first
        assert count(third) == 3
    engine.checkpoint()
    with open_copy(path, folder) as last:
        assert count(last) == 3


def test_a_copy_stays_while_it_is_read_and_goes_when_there_is_a_newer_one(
    engine: GrafeoEngine, path: Path, folder: Path
) -> None:
    put(engine, "1")
    with open_copy(path, folder) as first:
        put(engine, "2")
        with open_copy(path, folder) as second:
            assert (count(first), count(second)) == (1, 2)
        assert len(list(folder.iterdir())) == 2
    put(engine, "3")
    with open_copy(path, folder) as third:
        assert [each.name for each in folder.iterdir()] == [third.parent.name]


def test_what_a_killed_process_left_half_copied_goes(engine: GrafeoEngine, path: Path, folder: Path) -> None:
    (folder / "copying-00000000").mkdir(parents=True)
    put(engine, "1")
    with open_copy(path, folder) as copy:
        assert [each.name for each in folder.iterdir()] == [copy.parent.name]


@pytest.mark.parametrize("change", ["checkpoint", "commit"])
def test_a_change_amid_a_copy(
    engine: GrafeoEngine, path: Path, folder: Path, change: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """After a checkpoint it is copied again; a commit comes after what the copy has."""
    put(engine, "1")
    copyfile, changes = shutil.copyfile, [change]

    def amid(source: Path, target: Path) -> object:
        copied = copyfile(source, target)
        if source == path and changes:
            changes.pop()
            put(engine, "2")
            if change == "checkpoint":
                engine.checkpoint()
        return copied

    monkeypatch.setattr(shutil, "copyfile", amid)
    with open_copy(path, folder) as copy:
        assert count(copy) == (2 if change == "checkpoint" else 1)
    assert len(list(folder.iterdir())) == 1


def test_a_graph_that_never_rests_is_given_up(
    engine: GrafeoEngine, path: Path, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    put(engine, "1")
    monkeypatch.setattr(graph_copy, "_still_hold", lambda *_: False)
    monkeypatch.setattr(graph_copy, "ATTEMPTS", 3)
    with pytest.raises(RegistryLocked), open_copy(path, folder):
        pass
    assert list(folder.iterdir()) == []


def test_every_beginning_of_the_log_is_a_whole_revision(path: Path, tmp_path: Path) -> None:
    """A copy has as much of the log as there was at its start, which may be half of a commit."""
    with closing(GrafeoEngine.open(path)) as engine:
        put(engine, *map(str, range(4)))
        [log] = log_of(path).iterdir()
        counts = [_count_of_beginning(path, log, size, tmp_path / "part") for size in range(0, log.stat().st_size, 7)]
    assert counts == sorted(counts)
    assert set(counts) <= {0, 1, 2, 3, 4}
    assert len(set(counts)) > 2


def _count_of_beginning(path: Path, log: Path, size: int, folder: Path) -> int:
    shutil.rmtree(folder, ignore_errors=True)
    target = folder / path.name
    log_of(target).mkdir(parents=True)
    shutil.copyfile(path, target)
    (log_of(target) / log.name).write_bytes(log.read_bytes()[:size])
    return count(target)


def test_a_folder_that_cannot_be_written_gets_no_copy(engine: GrafeoEngine, path: Path, folder: Path) -> None:
    """The copy is one for this reader alone, elsewhere, and gone afterwards."""
    put(engine, "1")
    folder.write_text("no folder")
    with open_copy(path, folder) as copy:
        assert folder not in copy.parents
        assert count(copy) == 1
    assert not copy.exists()


def test_there_is_no_copy_of_a_graph_that_is_gone(path: Path, folder: Path) -> None:
    with pytest.raises(RegistryUnusable, match="the graph file is gone"), open_copy(path, folder):
        pass


def test_a_file_that_changed_just_now_is_copied_a_little_later(path: Path, folder: Path) -> None:
    """Two changes within a tick of the clock bear the same time: the second would not be seen."""
    with closing(GrafeoEngine.open(path)) as engine:
        put(engine, "1")
    os.utime(path)
    with open_copy(path, folder):
        assert time.time_ns() - path.stat().st_mtime_ns >= graph_copy.SETTLED_NS
