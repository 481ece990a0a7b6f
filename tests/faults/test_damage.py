"""Damaged files: what is read is right, or one of our errors says what is wrong; nothing crashes."""

import threading
import time
from collections import Counter
from collections.abc import Callable
from itertools import batched
from pathlib import Path
from typing import Any

import pytest

from tests.faults import programs
from tests.faults.fleet import manifest
from tests.faults.processes import child
from tests.faults.programs import Damage, opened
from tests.faults.soundness import sound_revision
from waygraph.ingest.sync.apply import sync
from waygraph.registry.index.local import generation
from waygraph.registry.index.local.generation import CURRENT, LEASE, current_name, folder_of, is_pending, mark_pending
from waygraph.registry.index.local.publish import publish_graph
from waygraph.registry.model.errors import NotPublished, RegistryUnusable, StorageFailed, WaygraphError
from waygraph.registry.model.files import write_lock
from waygraph.registry.storage import embedded
from waygraph.registry.storage.integrity.examine import examine
from waygraph.registry.storage.local_registry import LocalRegistry

SHORT_AND_LONG = pytest.mark.parametrize("rounds", [60, pytest.param(3000, marks=pytest.mark.slow)])


@pytest.fixture
def path(tmp_path: Path) -> Path:
    place = tmp_path / "r.grafeo"
    with opened(place) as registry:
        sync(registry, manifest(1))
    return place


def index_files(path: Path) -> list[Path]:
    """Every file of the current generation that a reader reads, and the pointer to it."""
    folder = folder_of(path)
    files = [file for file in (folder / current_name(folder)).rglob("*") if file.is_file() and file.stat().st_size]
    unread = {LEASE, generation.GRAPH}
    return [folder / CURRENT, *sorted(file for file in files if file.name not in unread)]


OURS = ("RegistryUnusable", "StorageFailed")


def outcomes(read: Callable[[Path], object], path: Path, files: list[Path], damage: Damage) -> Counter[str]:
    """How often each outcome came. Fails on a foreign exception or a crash."""
    seen: Counter[str] = Counter()
    with child(programs.read_damaged, read, path, files, damage) as reader:
        words = reader.said()
        assert reader.end() == 0, words[-1]
    for done, outcome in batched(words, 2):
        assert outcome in ("right", "found by the doctor", *OURS), (done, outcome)
        seen[outcome] += 1
    assert seen.total() == damage.rounds
    return seen


@SHORT_AND_LONG
def test_a_damaged_graph_file_reads_right_or_is_refused(path: Path, rounds: int) -> None:
    """Flipped, zeroed or cut bytes of the graph file do no harm where unused, and are refused elsewhere."""
    seen = outcomes(programs.read_graph, path, [path], Damage(seed=3, rounds=rounds))
    assert seen["RegistryUnusable"] > rounds // 4
    assert set(seen) <= {"RegistryUnusable", "right"}


@SHORT_AND_LONG
def test_a_damaged_index_answers_or_says_that_it_cannot_be_read(path: Path, rounds: int) -> None:
    """No damage of a generation ends in a foreign exception or a crash. What stays readable and says another thing,
    a changed letter, is what `doctor --deep` finds."""
    seen = outcomes(programs.read_index, path, index_files(path), Damage(seed=5, rounds=rounds))
    assert seen["RegistryUnusable"] > rounds // 3


def test_a_damaged_index_names_the_cure(path: Path) -> None:
    """The error names the folder to remove; without it the next opening builds the index anew."""
    folder = folder_of(path)
    tables = folder / current_name(folder) / generation.TABLES
    tables.write_bytes(tables.read_bytes()[:100])
    with pytest.raises(RegistryUnusable) as caught:
        opened(path)
    assert str(folder) in str(caught.value)
    assert "remove this folder" in str(caught.value)
    for file in sorted(folder.rglob("*"), reverse=True):
        file.rmdir() if file.is_dir() else file.unlink()
    assert sound_revision(path) == 1


@pytest.mark.parametrize("content", [b"", b"../../etc", b"gen-0000000009-00000000", b"\xff\xfe\x00", b"\x00"])
def test_a_pointer_to_nothing_is_refused_and_mended_by_its_removal(path: Path, content: bytes) -> None:
    """A `current` that names no generation is an error of ours; without the file the index is built anew."""
    (folder_of(path) / CURRENT).write_bytes(content)
    with pytest.raises(WaygraphError):
        opened(path)
    (folder_of(path) / CURRENT).unlink()
    assert sound_revision(path) == 1


def as_before(folder: Path) -> None:
    """What tantivy wrote in the place of postings; of its files the reader looks at the name of the list alone."""
    texts = folder / current_name(folder) / generation.CAPABILITY_TEXT
    for file in texts.iterdir():
        file.unlink()
    (texts / "meta.json").write_text('{"segments": []}', encoding="utf-8")


def test_an_index_of_before_is_made_anew_by_whoever_opens_it(path: Path) -> None:
    as_before(folder_of(path))
    assert sound_revision(path) == 1
    with opened(path) as registry:
        assert all(finding.ok for finding in examine(registry, deep=True))


def test_an_index_of_before_beside_a_writer_says_what_it_is(path: Path) -> None:
    as_before(folder_of(path))
    with write_lock(path, 0), pytest.raises(RegistryUnusable, match=r"an older Waygraph wrote it\. The next write"):
        opened(path)


def half(content: bytes) -> bytes:
    return content[: len(content) // 2]


@pytest.mark.parametrize(
    "harm", [lambda _: b"", half, lambda _: b"something else" * 1000], ids=["empty", "cut", "foreign"]
)
def test_a_sound_index_answers_when_the_last_write_cannot_be_published(
    path: Path, harm: Callable[[bytes], bytes], caplog: pytest.LogCaptureFixture
) -> None:
    """The mark of that write stays, a log line and the doctor tell of it, and a write is refused."""
    path.write_bytes(harm(path.read_bytes()))
    mark_pending(folder_of(path))
    with opened(path) as registry:
        assert registry.agents()
        assert "pending" in [finding.check for finding in examine(registry) if not finding.ok]
        with pytest.raises(RegistryUnusable):
            sync(registry, manifest(2))
    assert is_pending(folder_of(path))
    assert [record.levelname for record in caplog.records] == ["WARNING"]


def test_what_could_not_be_shown_is_shown_when_there_is_room(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The write was kept, and says so; whoever reads in the same process tries again, not at every question."""
    monkeypatch.setattr(embedded, "LOOK_AGAIN_S", 0.2)
    with opened(path) as registry:
        assert registry.status().state.revision == 1
        with monkeypatch.context() as full:
            full.setattr(embedded, "publish_graph", _no_room)
            with pytest.raises(NotPublished, match="what was written is kept, and shown as soon as it can be"):
                sync(registry, manifest(2))
            assert registry.status().state.revision == 1
            time.sleep(0.3)
            assert registry.status().state.revision == 1
            assert is_pending(folder_of(path))
        assert comes_to(registry, 2)
        assert not is_pending(folder_of(path))
    assert sound_revision(path) == 2


def test_what_another_process_left_behind_is_shown(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """It was killed between its commit and its publication; who has the registry open need not open it anew."""
    monkeypatch.setattr(embedded, "LOOK_AGAIN_S", 0.2)
    with opened(path) as registry:
        assert registry.status().state.revision == 1
        with opened(path) as other, monkeypatch.context() as killed:
            killed.setattr(embedded, "publish_graph", _killed)
            with pytest.raises(MemoryError):
                sync(other, manifest(2))
        assert comes_to(registry, 2)
    assert sound_revision(path) == 2


def test_who_asks_waits_for_no_publication(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A thread publishes what was left behind: one, however long that takes, and the registry closes after it."""
    monkeypatch.setattr(embedded, "LOOK_AGAIN_S", 0.0)
    begun, go_on, threads = threading.Event(), threading.Event(), list[str]()
    with opened(path) as registry:
        registry.agents()
        publishes = publish_graph

        def slowly(*given: Any, **named: Any) -> Any:
            threads.append(threading.current_thread().name)
            begun.set()
            assert go_on.wait(30)
            return publishes(*given, **named)

        monkeypatch.setattr(embedded, "publish_graph", slowly)
        mark_pending(folder_of(path))
        for _ in range(20):
            assert registry.agents()
        assert begun.wait(30)
        assert registry.agents()
        go_on.set()
    assert threads[0] == "publish"
    assert not is_pending(folder_of(path))


def comes_to(registry: LocalRegistry, revision: int) -> bool:
    deadline = time.monotonic() + 60
    while registry.status().state.revision != revision and time.monotonic() < deadline:
        time.sleep(0.05)
    return registry.status().state.revision == revision


def _killed(*_: object, **__: object) -> None:
    raise MemoryError


def _no_room(*_: object, **__: object) -> None:
    raise StorageFailed("the search index could not be written: no space left on device")


def test_an_unforeseen_fault_of_the_publication_is_logged(
    path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    def fail(*_: object, **__: object) -> None:
        raise ValueError("unforeseen")

    mark_pending(folder_of(path))
    with monkeypatch.context() as patch:
        patch.setattr(embedded, "publish_graph", fail)
        with opened(path) as registry:
            assert registry.agents()
    assert "ValueError: unforeseen" in caplog.text
    assert is_pending(folder_of(path))
    assert sound_revision(path) == 1
    assert not is_pending(folder_of(path))
