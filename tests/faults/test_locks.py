"""One writer a registry: the second waits, then says who holds it. Readers never wait, and read one revision."""

import time
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest

from tests.faults import programs
from tests.faults.fleet import manifest, small
from tests.faults.processes import Child, child
from tests.faults.programs import opened
from tests.faults.soundness import sound_revision
from waygraph.ingest.sync.apply import sync
from waygraph.registry.index.local.file import folder_of
from waygraph.registry.model.errors import RegistryLocked, RegistryNotFound
from waygraph.registry.model.files import lock_of, write_lock
from waygraph.registry.model.settings import DEFAULT_EMBEDDER


@pytest.fixture
def path(tmp_path: Path) -> Path:
    """A registry at revision 1."""
    place = tmp_path / "r.grafeo"
    with child(programs.ingest_once, place, 1) as writer:
        assert writer.hear() == ("done", "1")
    return place


def test_the_second_writer_waits_then_names_the_first(path: Path) -> None:
    """It gives up after `write_timeout_s` with an error that names the file and the holder's process."""
    with child(programs.hold_the_write_lock, path) as holder:
        assert holder.hear() == "holding"
        with child(programs.ingest_with_patience, path, 2, 0.5) as other:
            (kind, message), waited_s = other.hear()
        assert kind == "RegistryLocked"
        assert str(path) in message
        assert f"process {holder.pid} " in message
        assert "WAYGRAPH_WRITE_TIMEOUT_S" in message
        assert waited_s >= 0.5


def test_a_waiting_writer_goes_on_when_the_first_is_done(path: Path) -> None:
    with child(programs.hold_the_write_lock, path) as holder:
        assert holder.hear() == "holding"
        with child(programs.ingest_with_patience, path, 2, 30.0) as other:
            holder.tell("go on")
            told, _ = other.hear()
        assert told == 2
    assert sound_revision(path) == 2


def test_a_reader_works_beside_a_writer(path: Path) -> None:
    """While a process holds the registry for writing, others open it, list and route."""
    with child(programs.hold_the_write_lock, path) as holder:
        assert holder.hear() == "holding"
        assert sound_revision(path) == 1
        with opened(path) as registry:
            assert registry.route("moors ship").matches


def test_nobody_waits_for_the_first_writer_to_have_something_to_read(tmp_path: Path) -> None:
    """Until it has published there is no registry, which is said at once, and by whom one is made."""
    path = tmp_path / "new.grafeo"
    with child(programs.hold_the_write_lock, path) as holder:
        assert holder.hear() == "holding"
        with opened(path, write_timeout_s=600.0) as registry:
            assert not registry.store.exists
            with pytest.raises(RegistryNotFound, match=f"yet. process {holder.pid} .* is making one: ask again"):
                registry.route("moors ship")
            with pytest.raises(RegistryNotFound):
                registry.stamp  # noqa: B018 - it is looked up
        holder.tell("go on")
    with child(programs.ingest_once, path, 1) as writer:
        assert writer.hear() == ("done", "1")
    assert sound_revision(path) == 1


def test_the_lock_of_a_killed_writer_is_free_at_once(path: Path) -> None:
    with child(programs.hold_the_write_lock, path) as holder:
        assert holder.hear() == "holding"
        holder.kill()
        holder.end()
        with write_lock(path, 0):  # it has no patience, and is refused where it would wait
            pass
    assert sound_revision(path) == 1


def test_two_threads_of_one_process_take_turns(path: Path) -> None:
    with opened(path) as first, opened(path, write_timeout_s=0.1) as second, first.writing():
        with pytest.raises(RegistryLocked) as caught, second.writing():
            pass
        assert caught.value.retryable
        assert caught.value.waited_s == 0.1


@pytest.mark.parametrize("content", [b"", b"5", b"[]", b"{}", b"\xff\x00", b'{"pid": 1}'])
def test_a_lock_file_that_says_nothing_still_locks(path: Path, content: bytes) -> None:
    """What the lock file holds is a courtesy: without it the holder is `another process`."""
    with write_lock(path, 0):
        lock_of(path).write_bytes(content)
        with pytest.raises(RegistryLocked, match="another process"), write_lock(path, 0):
            pass


@pytest.fixture
def stack() -> Iterator[ExitStack]:
    with ExitStack() as opened:
        yield opened


def stopped(readers: list[Child]) -> tuple[int, set[int]]:
    """Ends the readers; how many answers they gave, and of which revisions. Fails if one answer was mixed."""
    answers, seen = 0, set()
    for reader in readers:
        reader.tell("stop")
        given, revisions, faults = reader.hear()
        assert faults == []
        answers += given
        seen |= set(revisions)
    return answers, seen


@pytest.mark.parametrize("ingests", [15, pytest.param(200, marks=pytest.mark.slow)])
def test_no_answer_is_of_two_revisions(tmp_path: Path, stack: ExitStack, ingests: int) -> None:
    """8 threads and 2 other processes route on while a process ingests; each text is of the Route's own revision."""
    path = tmp_path / "r.grafeo"
    with programs.opened(path) as registry:
        sync(registry, manifest(1))
    readers = [stack.enter_context(child(programs.route_on, path, n, "none")) for n in (8, 1, 1)]
    for reader in readers:
        reader.hear()
    writer = stack.enter_context(child(programs.ingest_on, path, 2, ingests))
    assert writer.said() == list(range(2, ingests + 1))
    time.sleep(0.2)
    answers, seen = stopped(readers)
    assert answers > 5 * ingests
    assert len(seen) >= ingests // 3
    assert ingests in seen
    assert sound_revision(path) == ingests
    assert len(list(folder_of(path).glob("index-*.sqlite"))) == 1


def test_no_answer_is_of_two_revisions_with_the_real_model(tmp_path: Path, stack: ExitStack) -> None:
    path = tmp_path / "r.grafeo"
    with programs.opened(path, embedder=DEFAULT_EMBEDDER) as registry:
        sync(registry, small(1))
    readers = [stack.enter_context(child(programs.route_on, path, 2, DEFAULT_EMBEDDER)) for _ in range(2)]
    for reader in readers:
        reader.hear()
    with programs.opened(path, embedder=DEFAULT_EMBEDDER) as registry:
        for number in range(2, 6):
            assert sync(registry, small(number)).revision == number
    time.sleep(0.3)
    answers, seen = stopped(readers)
    assert answers > 20
    assert 5 in seen
