"""A process keeps the graph that it writes, and gives it back: to another process, after a while, and at its end."""

import os
import shutil
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tests.faults import programs
from tests.faults.fleet import manifest
from tests.faults.processes import child
from tests.faults.programs import opened
from tests.faults.soundness import sound_revision
from waygraph.cypher import load
from waygraph.ingest.sync.apply import sync
from waygraph.registry.graph.grafeo import WAL_CHECKPOINT_BYTES, GrafeoEngine, log_of
from waygraph.registry.model.errors import RegistryLocked, RegistryUnusable
from waygraph.registry.model.files import queue_of
from waygraph.registry.storage import live_graph

READ_STATE = load("state/read")


@pytest.fixture
def path(tmp_path: Path) -> Path:
    """A registry at revision 1, held by nobody."""
    place = tmp_path / "r.grafeo"
    with opened(place) as registry:
        sync(registry, manifest(1))
    return place


@pytest.fixture
def opens(monkeypatch: pytest.MonkeyPatch) -> list[Path | None]:
    """What was opened to be written."""
    paths: list[Path | None] = []
    real = GrafeoEngine.open

    def noting(place: Path | None) -> GrafeoEngine:
        paths.append(place)
        return real(place)

    monkeypatch.setattr(GrafeoEngine, "open", noting)
    return paths


def comes_true(condition: Callable[[], bool]) -> bool:
    deadline = time.monotonic() + 30
    while not condition() and time.monotonic() < deadline:
        time.sleep(0.01)
    return condition()


def is_free(path: Path) -> bool:
    try:
        GrafeoEngine.open(path).close()
    except RegistryLocked:
        return False
    return True


def test_a_process_opens_the_graph_once_for_many_writes(
    path: Path, opens: list[Path | None], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Neither a checkpoint nor a copy is made between them; closing makes the log part of the file."""
    monkeypatch.setattr("waygraph.registry.graph.grafeo.SHORT_WAL_BYTES", WAL_CHECKPOINT_BYTES)
    before = path.stat().st_mtime_ns
    with opened(path) as registry:
        for number in range(2, 6):
            assert sync(registry, manifest(number)).revision == number
        assert opens == [path]
        assert path.stat().st_mtime_ns == before
        assert not list(path.with_name("r.grafeo.index").glob("graph-*"))
    assert not log_of(path).exists()
    assert sound_revision(path) == 5


def test_another_process_that_waits_gets_the_graph(path: Path) -> None:
    """It says so by a file beside the lock, which is gone once it has it; then the first may write again."""
    with opened(path) as registry:
        sync(registry, manifest(2))
        with child(programs.ingest_with_patience, path, 3, 30.0) as other:
            assert other.hear()[0] == 3
        assert sync(registry, manifest(4)).revision == 4
        assert not queue_of(path).exists()
    assert sound_revision(path) == 4


def test_two_processes_that_write_all_the_time_take_turns(path: Path) -> None:
    with (
        child(programs.sync_in_rounds, path, "one", 8) as one,
        child(programs.sync_in_rounds, path, "other", 8) as other,
    ):
        revisions = [*one.said(), *other.said()]
    assert sorted(revisions) == list(range(2, 18))


def test_a_graph_that_nobody_uses_is_given_back(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(live_graph, "KEPT_S", 0.1)
    with opened(path) as registry:
        sync(registry, manifest(2))
        assert comes_true(lambda: is_free(path))
        assert sync(registry, manifest(3)).revision == 3


def test_a_long_log_becomes_part_of_the_file(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with opened(path) as registry:
        sync(registry, manifest(2))
        assert sum(part.stat().st_size for part in log_of(path).iterdir()) > 1000
        monkeypatch.setattr("waygraph.registry.graph.grafeo.WAL_CHECKPOINT_BYTES", 1000)
        sync(registry, manifest(3))
        assert sum(part.stat().st_size for part in log_of(path).iterdir()) < 1000
    assert WAL_CHECKPOINT_BYTES > 1000


def test_a_file_that_was_put_back_is_opened_anew(path: Path, tmp_path: Path) -> None:
    """What is written then goes to the file that is there, not to the one that was removed; once a person says that
    this one holds: the index shows a later revision.
    """
    shutil.copytree(tmp_path, tmp_path.with_name("saved"), ignore=shutil.ignore_patterns("*.lock"))
    with opened(path) as registry:
        sync(registry, manifest(2))
        path.unlink()
        shutil.rmtree(log_of(path))
        shutil.copy(tmp_path.with_name("saved") / path.name, path)
        with pytest.raises(RegistryUnusable, match="waygraph reindex"):
            sync(registry, manifest(3))
        registry.reindex()
        assert sync(registry, manifest(3)).revision == 3
        assert registry.agents() == opened(path).agents()


PROGRAM = """
import sys
from pathlib import Path
from typing import Any
from tests.faults.fleet import manifest
from tests.faults.programs import opened
from waygraph.cypher import load
from waygraph.ingest.sync.apply import sync
registry = opened(Path(sys.argv[1]))
print(sync(registry, manifest(2)).revision)
{last}
"""


@pytest.mark.parametrize("last", ["registry.close()", "", "del registry"])
def test_a_process_that_ends_makes_its_log_part_of_the_file(path: Path, last: str) -> None:
    """A copy of the file alone is the registry then, and the graph is free."""
    program = PROGRAM.format(last=last)
    ended = subprocess.run([sys.executable, "-c", program, path], check=True, capture_output=True, text=True)
    assert (ended.stdout, ended.stderr) == ("2\n", "")
    assert not log_of(path).exists()
    with opened(path) as registry:
        assert sync(registry, manifest(3)).revision == 3


def test_a_forked_process_holds_no_graph(path: Path) -> None:
    """It is given back before: two processes with one engine would write over each other."""
    with opened(path) as registry:
        sync(registry, manifest(2))
        pid = os.fork()
        if not pid:
            os._exit(0 if is_free(path) else 1)
        assert os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) == 0
        assert sync(registry, manifest(3)).revision == 3


def test_a_plan_reads_beside_a_writer_of_its_process(path: Path) -> None:
    """What a write begins with is read of the live graph, as it was committed, whoever of the process writes it now."""
    with opened(path) as registry:
        revisions: list[int] = []
        with registry.writing() as session:
            thread = threading.Thread(
                target=lambda: revisions.append(
                    registry.read(lambda reading: reading.run(READ_STATE)[0]["revision"], before_write=True)
                )
            )
            thread.start()
            thread.join(30)
            assert session.begin().revision == 1
        assert revisions == [1]
        assert not list(path.with_name("r.grafeo.index").glob("graph-*"))


def test_who_asks_while_a_reader_opens_the_graph_gets_it_after_the_reader(
    path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    real = live_graph.LiveGraph._open_file

    def ask_meanwhile(live: live_graph.LiveGraph, *given: Any) -> GrafeoEngine:
        queue_of(path).touch()
        return real(live, *given)

    with opened(path) as registry:
        monkeypatch.setattr(live_graph.LiveGraph, "_open_file", ask_meanwhile)
        registry.store.read(lambda session: session.run(READ_STATE), before_write=True)
        assert comes_true(lambda: is_free(path))


def test_a_fork_beside_a_reader_has_a_graph_of_its_own(path: Path) -> None:
    """A program of its own: no test forks a process that has threads."""
    program = f"""
import os, sys, threading, warnings
from pathlib import Path
from typing import Any
from tests.faults.fleet import manifest
from tests.faults.programs import opened
from waygraph.ingest.sync.apply import sync

warnings.simplefilter("ignore")
inside, go_on = threading.Event(), threading.Event()
with opened(Path({str(path)!r})) as registry:
    sync(registry, manifest(2))
    thread = threading.Thread(target=lambda: registry.store.read(
        lambda session: (inside.set(), go_on.wait(60)), before_write=True))
    thread.start()
    inside.wait(60)
    if not os.fork():
        os._exit(registry.store._live._engine is not None)
    child_has_it = os.waitstatus_to_exitcode(os.wait()[1])
    go_on.set()
    thread.join()
    print(child_has_it, sync(registry, manifest(3)).revision)
"""
    ran = subprocess.run([sys.executable, "-c", program], capture_output=True, timeout=120, check=False, text=True)
    assert ran.stdout.split() == ["0", "3"], ran.stderr
