"""A disk without room: a clear error, the old state whole and readable, and later all goes on."""

import os
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.faults import programs
from tests.faults.processes import child
from tests.faults.programs import opened
from tests.faults.soundness import sound_revision

KIB = 1024


def ingested(path: Path, number: int) -> tuple[str, str]:
    with child(programs.ingest_once, path, number) as writer:
        told: tuple[str, str] = writer.hear()
    return told


@pytest.mark.parametrize("room_bytes", [0, 1, 4 * KIB, 20 * KIB, 50 * KIB, 100 * KIB, 200 * KIB, 300 * KIB])
def test_no_room_is_a_clear_error_and_loses_nothing(tmp_path: Path, room_bytes: int) -> None:
    """Wherever in an ingest the room ends: StorageFailed, and the registry stays whole at one of the two revisions;
    what says that it is kept is.
    """
    path = tmp_path / "r.grafeo"
    assert ingested(path, 1) == ("done", "1")
    with child(programs.ingest_with_little_room, path, 2, room_bytes) as writer:
        kind, message = writer.hear()
    assert kind in ("StorageFailed", "NotPublished", "done"), message
    assert str(path) in message or kind == "done"
    revision = sound_revision(path)
    assert revision in ((2,) if kind == "NotPublished" else (1, 2))
    assert ingested(path, revision + 1) == ("done", str(revision + 1))
    assert sound_revision(path) == revision + 1


@pytest.fixture
def small_disk(tmp_path: Path) -> Iterator[Path]:
    """A file system of 2 MiB; skips where none can be mounted."""
    place = tmp_path / "disk"
    place.mkdir()
    mounted = (
        os.geteuid() == 0
        and not subprocess.run(
            ["/bin/mount", "-t", "tmpfs", "-o", "size=2m", "tmpfs", str(place)], check=False, capture_output=True
        ).returncode
    )
    if not mounted:
        pytest.skip("needs the right to mount a tmpfs")
    yield place
    subprocess.run(["/bin/umount", "-l", str(place)], check=True)


def test_a_full_disk_is_a_clear_error_and_room_mends_it(small_disk: Path) -> None:
    """On a file system that is full readers go on; when something else is removed, the ingest succeeds."""
    path, other = small_disk / "r.grafeo", small_disk / "other"
    assert ingested(path, 1) == ("done", "1")
    for spare in (0, 8 * KIB, 64 * KIB, 256 * KIB):
        revision = sound_revision(path)
        fill(other, small_disk, spare)
        kind, message = ingested(path, revision + 1)
        assert kind in ("StorageFailed", "NotPublished", "done"), message
        with opened(path) as registry:
            assert registry.route("moors ship").matches
        other.unlink()
        revision = sound_revision(path)
    assert ingested(path, revision + 1) == ("done", str(revision + 1))
    assert sound_revision(path) == revision + 1


def fill(other: Path, disk: Path, spare: int) -> None:
    """Fills the disk but for `spare` bytes."""
    free = os.statvfs(disk).f_bavail * os.statvfs(disk).f_frsize
    other.write_bytes(b"x" * max(0, free - spare))
