"""One writer a registry: the second waits, then says who holds it. Readers never wait."""

from pathlib import Path

import pytest

from tests.faults import programs
from tests.faults.processes import child
from tests.faults.programs import opened
from tests.faults.soundness import sound_revision
from waygraph.registry.model.errors import RegistryLocked, RegistryNotFound
from waygraph.registry.model.files import lock_of, write_lock


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
