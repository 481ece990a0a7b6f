"""A disk without room: a clear error, the old state whole and readable, and later all goes on."""

import json
import os
import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path

import httpx2
import pytest

from tests.faults import programs
from tests.faults.processes import child
from tests.faults.programs import opened
from tests.faults.soundness import sound_revision
from tests.service import agent, assert_good, assert_problem, ingest, manifest, served
from tests.unit.test_embedding_cache import HashEmbedder
from waygraph import Settings
from waygraph.api.cli.app import main
from waygraph.ingest.logins.oauth import token_file
from waygraph.ingest.manifest.trust_store import VouchedSource, vouched_file
from waygraph.registry.access.api_keys import KeyFile
from waygraph.registry.embedding.cache import CachedEmbedder
from waygraph.registry.model.errors import StorageFailed
from waygraph.registry.model.files import write_named

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


def test_a_service_on_a_full_disk_answers_and_says_one_thing(
    small_disk: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Reads go on; writes get 507 of one type; keys, trust and tokens are as they were; the cache is done without."""
    place, other = small_disk / "r.grafeo", small_disk / "other"
    settings = Settings(audit_file=str(small_disk / "audit.jsonl"), data_dir=str(small_disk))
    with served(place, auth=True, folder=small_disk, settings=settings) as service:
        client, keys = service.admin(), KeyFile(small_disk / "keys.json")
        ingest(client, "s", agent("ships", "moor"))
        vouched, tokens = vouched_file(small_disk, str(place)), token_file(small_disk, "https://a.example")
        vouched.keep("s", VouchedSource(cards={"a": "b"}))
        tokens.keep(kept="t")
        names = ("keys.json", "vouched.json", "tokens.json")
        before = {name: (small_disk / name).read_bytes() for name in names}
        fill(other, small_disk, 0)
        many = manifest("t", *(agent(f"a{number}", description="x" * 5_000) for number in range(40)))
        writes: list[Callable[[], httpx2.Response]] = [
            lambda: client.post("/v1/manifests", json=many),
            lambda: client.patch("/v1/agents/ships", json={"tags": ["x" * 100]}),
            lambda: client.delete("/v1/sources/s"),
        ]
        for write in 10 * writes:  # the last page of the audit's file has some room
            problem = assert_problem(write(), 507, "storage-failed")
            assert str(small_disk) not in json.dumps(problem)
        assert "waygraph_audit_failures_total 0.0" not in client.get("/metrics").text
        assert assert_good(client.post("/v1/route", json={"text": "moor ships"}))["matches"]
        assert [each["id"] for each in assert_good(client.get("/v1/agents"))["agents"]] == ["ships"]
        monkeypatch.setenv("WAYGRAPH_KEYS_FILE", str(keys.path))
        assert main(["keys", "create", "another", "--scope", "read"]) == 1
        assert "No space left on device" in capsys.readouterr().err
        failures: list[Callable[[], object]] = [
            lambda: keys.create("another", ["read"]),
            lambda: vouched.keep("t", VouchedSource(cards={"c": "d" * 9_000})),
            lambda: tokens.keep(kept="u" * 9_000),
            lambda: write_named(small_disk / "saved.json", "x" * 9_000),
        ]
        for fail in failures:
            with pytest.raises(StorageFailed, match="No space left on device"):
                fail()
        assert {name: (small_disk / name).read_bytes() for name in names} == before
        embedder = CachedEmbedder(HashEmbedder(), small_disk / "vectors" / "v.sqlite")
        assert len(embedder.embed(["moor", "ship"], "document")) == 2
        other.unlink()
        assert_good(client.post("/v1/manifests", json=many))
        assert len(assert_good(client.get("/v1/agents"))["agents"]) == 41
        assert keys.create("another", ["read"])[0].name == "another"


def fill(other: Path, disk: Path, spare: int) -> None:
    """Fills the disk but for `spare` bytes."""
    free = os.statvfs(disk).f_bavail * os.statvfs(disk).f_frsize
    other.write_bytes(b"x" * max(0, free - spare))
