"""Damaged files: what is read is right, or one of our errors says what is wrong; nothing crashes."""

import re
import sqlite3
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
from waygraph.registry.index.local import index_upkeep
from waygraph.registry.index.local.file import Intent, current_path, folder_of, is_damaged, open_to_write
from waygraph.registry.index.local.graph_agreement import is_behind
from waygraph.registry.index.local.index_upkeep import publish_changes
from waygraph.registry.model.errors import NotPublished, RegistryUnusable, StorageFailed
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


def index_file(path: Path) -> Path:
    file = current_path(folder_of(path))
    assert file is not None
    return file


def mark_pending(path: Path) -> None:
    """As a writer does that is about to commit."""
    file = open_to_write(index_file(path))
    file.put_intent(Intent())
    file.close()


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
def test_a_damaged_index_never_gives_another_answer(path: Path, rounds: int) -> None:
    """What is damaged is refused, or built anew before it is read; nothing else is ever answered, nothing crashes."""
    seen = outcomes(programs.read_index, path, [index_file(path)], Damage(seed=5, rounds=rounds))
    assert set(seen) == {"right", "RegistryUnusable"}


def test_a_damaged_index_is_built_anew_by_the_next_comer(path: Path) -> None:
    """The error says so, and the mark of the damage goes with it."""
    file = index_file(path)
    with opened(path) as registry:
        registry.status()  # no record of a tool is read yet
        connection = sqlite3.connect(file)
        connection.execute("UPDATE record SET body = zeroblob(length(body))")
        connection.commit()
        connection.close()
        with pytest.raises(RegistryUnusable, match="it is built anew from the graph"):
            registry.tools()
        assert is_damaged(folder_of(path))
    assert sound_revision(path) == 1
    assert not is_damaged(folder_of(path))
    assert not file.exists()
    assert index_file(path).name == "index-00000002.sqlite"


@pytest.mark.parametrize("content", [b"", b"no database at all", b"SQLite format 3\0"])
def test_what_is_no_index_is_built_anew(path: Path, content: bytes) -> None:
    index_file(path).write_bytes(content)
    assert sound_revision(path) == 1


def test_a_file_of_another_format_is_made_anew(path: Path) -> None:
    connection = sqlite3.connect(index_file(path))
    connection.execute("PRAGMA user_version = 99")
    connection.close()
    assert sound_revision(path) == 1


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
    mark_pending(path)
    with opened(path) as registry:
        assert registry.agents()
        assert "pending" in [finding.check for finding in examine(registry) if not finding.ok]
        with pytest.raises(RegistryUnusable):
            sync(registry, manifest(2))
    assert is_behind(folder_of(path))
    assert [record.levelname for record in caplog.records] == ["WARNING"]


def test_what_could_not_be_shown_is_shown_when_there_is_room(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The write was kept, and says so; whoever reads in the same process tries again, not at every question. An export
    is of what lists show.
    """
    monkeypatch.setattr(embedded, "LOOK_AGAIN_S", 0.2)
    with opened(path) as registry:
        assert registry.status().state.revision == 1
        with monkeypatch.context() as full:
            full.setattr(index_upkeep, "publish_changes", _no_room)
            with pytest.raises(NotPublished, match="what was written is kept, and shown as soon as it can be"):
                sync(registry, manifest(2))
            assert registry.status().state.revision == 1
            assert set(re.findall(r"revision(\d+)", registry.operator.export("json"))) == {"1"}
            time.sleep(0.3)
            assert registry.status().state.revision == 1
            assert is_behind(folder_of(path))
        assert comes_to(registry, 2)
        assert not is_behind(folder_of(path))
    assert sound_revision(path) == 2


def test_what_another_process_left_behind_is_shown(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """It was killed between its commit and its publication; who has the registry open need not open it anew."""
    monkeypatch.setattr(embedded, "LOOK_AGAIN_S", 0.2)
    with opened(path) as registry:
        assert registry.status().state.revision == 1
        with opened(path) as other, monkeypatch.context() as killed:
            killed.setattr(index_upkeep, "publish_changes", _killed)
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
        publishes = publish_changes

        def slowly(*given: Any, **named: Any) -> Any:
            threads.append(threading.current_thread().name)
            begun.set()
            assert go_on.wait(30)
            return publishes(*given, **named)

        monkeypatch.setattr(index_upkeep, "publish_changes", slowly)
        mark_pending(path)
        for _ in range(20):
            assert registry.agents()
        assert begun.wait(30)
        assert registry.agents()
        go_on.set()
    assert threads[0] == "publish"
    assert not is_behind(folder_of(path))


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

    mark_pending(path)
    with monkeypatch.context() as patch:
        patch.setattr(index_upkeep, "publish_changes", fail)
        with opened(path) as registry:
            assert registry.agents()
    assert "ValueError: unforeseen" in caplog.text
    assert is_behind(folder_of(path))
    assert sound_revision(path) == 1
    assert not is_behind(folder_of(path))
