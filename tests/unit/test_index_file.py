"""The file of the index: which writes it follows, when it is built anew, and how it is read where nobody may write."""

import os
import shutil
import sqlite3
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import closing
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import pytest

from tests.faults.fleet import manifest, small
from tests.faults.programs import opened
from tests.faults.soundness import sound_revision
from tests.leg_hits import legs_of
from waygraph.ingest.sync.apply import sync
from waygraph.registry.index.call_graph import near_tools
from waygraph.registry.index.local import index_rows, index_upkeep
from waygraph.registry.index.local.file import (
    DamagedIndex,
    Intent,
    clear_damaged,
    current_path,
    folder_of,
    open_to_read,
    open_to_write,
    vectors_path,
)
from waygraph.registry.index.local.graph_agreement import is_behind
from waygraph.registry.index.search_index import QueryText, Scope
from waygraph.registry.model.errors import NotPublished, RegistryUnusable, StorageFailed
from waygraph.registry.model.settings import Settings
from waygraph.registry.model.transitions import count_transitions
from waygraph.registry.operators.transition_counts import learn_transitions
from waygraph.registry.storage import embedded
from waygraph.registry.storage.embedded import EmbeddedStore
from waygraph.registry.storage.integrity.examine import IndexDump
from waygraph.registry.storage.local_registry import LocalRegistry


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "r.grafeo"


@pytest.fixture
def registry(path: Path) -> Iterator[LocalRegistry]:
    with opened(path) as registry:
        sync(registry, manifest(1))
        yield registry


def dump_of(path: Path) -> IndexDump:
    return IndexDump.of(folder_of(path))


def anew(path: Path) -> IndexDump:
    """Of the same graph, whose index is built anew."""
    copy = path.with_name("anew.grafeo")
    shutil.copy(path, copy)
    with opened(copy) as registry:
        registry.status()
    dump = IndexDump.of(folder_of(copy))
    copy.unlink()
    shutil.rmtree(folder_of(copy))
    return dump


def test_what_follows_changes_is_what_is_built_anew(path: Path, registry: LocalRegistry) -> None:
    """Agents come, change and go, operators hide and restate: every part is the same."""
    for number in (2, 3, 4):
        sync(registry, manifest(number))
        first, second = (agent.id for agent in registry.agents()[:2])
        registry.operator.set(first, hidden=number % 2 == 0, pinned=number % 2 == 1)
        registry.operator.set(second, tags=[f"t{number}"], visible_to=["staff"])
        registry.close()
        assert dump_of(path) == anew(path)
        with opened(path) as again:
            sync(again, manifest(number))
        registry = opened(path)
    registry.close()


def test_postings_that_are_written_in_parts_are_the_same(
    path: Path, registry: LocalRegistry, monkeypatch: pytest.MonkeyPatch
) -> None:
    registry.close()
    at_once = anew(path)
    monkeypatch.setattr(index_upkeep, "_POSTINGS_AT_ONCE", 1)
    monkeypatch.setattr(index_upkeep, "_AGENTS_AT_ONCE", 1)
    monkeypatch.setattr(index_upkeep, "_BUCKETS_AT_ONCE", 1)
    assert anew(path) == at_once


def test_what_keeps_the_revision_leaves_a_note_too(
    path: Path, registry: LocalRegistry, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Else what failed of a source is shown only by some later write."""

    def fail(*_: object) -> bool:
        raise StorageFailed("no room")

    source = registry.sources()[0].name
    with monkeypatch.context() as broken:
        broken.setattr(index_upkeep, "publish_changes", fail)
        with pytest.raises(NotPublished):
            registry.put_statuses({}, {source: {"": "failing: it is gone"}})
    registry.close()
    assert is_behind(folder_of(path))
    with opened(path) as again:
        assert [failure.reason for failure in again.sources()[0].failures] == ["it is gone"]
    assert not is_behind(folder_of(path))


def test_a_block_of_an_earlier_write_is_damage(path: Path, registry: LocalRegistry) -> None:
    """Its checksum is right, and rows are missing."""
    registry.close()
    file = current_path(folder_of(path))
    assert file is not None
    with closing(sqlite3.connect(file)) as database:
        [(key, body)] = database.execute("SELECT key, body FROM columns").fetchall()
    with opened(path) as again:
        sync(again, manifest(2))
    with closing(sqlite3.connect(file)) as database, database:
        database.execute("UPDATE columns SET body = ? WHERE key = ?", (body, key))
    with pytest.raises(RegistryUnusable), opened(path) as again:
        again.route("moors ship", recipe="lexical")
    with opened(path) as again:
        assert again.route("moors ship", recipe="lexical").revision == 2
    assert dump_of(path) == anew(path)


def test_a_graph_that_is_gone_is_refused_whatever_its_index_is(path: Path, registry: LocalRegistry) -> None:
    """Also one of another format, as of another version: it may be the last copy."""
    registry.close()
    file = current_path(folder_of(path))
    assert file is not None
    with closing(sqlite3.connect(file)) as database:
        database.execute("PRAGMA user_version = 1")
    path.unlink()
    with pytest.raises(RegistryUnusable), opened(path) as again:
        sync(again, manifest(2))
    with pytest.raises(RegistryUnusable, match="the graph file is gone"):
        EmbeddedStore(path, Settings()).writing().__enter__()
    assert file.exists()


def test_a_read_index_follows_each_write(path: Path, registry: LocalRegistry) -> None:
    """Of one file: an index of before answers on as it did, the next one has the new rows."""
    with opened(path) as reader:
        former = reader.store.index()
        tools = {agent_id: list(former.tool_ids(agent_id)) for agent_id in former.agents()}
        sync(registry, manifest(2))
        assert reader.store.index().state.revision == 2
        assert {agent_id: list(former.tool_ids(agent_id)) for agent_id in former.agents()} == tools
        texts = [tool.description for tool in former.tools([each for ids in tools.values() for each in ids])]
        assert all("revision 1" in text or "1" in text for text in texts)


def test_dead_rows_are_cleared_when_they_outnumber_the_living(
    path: Path, registry: LocalRegistry, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The index is written anew under the next number; who reads the former one keeps it."""
    monkeypatch.setattr(index_upkeep, "DEAD_ROWS_SPARED", 0)
    assert isinstance(registry.store, EmbeddedStore)
    former = registry.store.index()
    before = legs_of(former.search(["agent_text"], None, QueryText.of("moors ship"), 5, Scope()))
    number = 1
    while current_path(folder_of(path)) == former.path:
        number += 1
        assert number < 20
        sync(registry, manifest(number))
    assert not former.path.exists()
    with closing(open_to_read(folder_of(path))) as file:
        assert file.header().dead == 0
    assert legs_of(former.search(["agent_text"], None, QueryText.of("moors ship"), 5, Scope())) == before
    assert registry.status().state.revision == number


def test_near_tools_are_found_anew_where_they_may_be_others(
    path: Path, registry: LocalRegistry, monkeypatch: pytest.MonkeyPatch
) -> None:
    """When calls are counted, and texts or who may see them change; not for what else operators say."""
    looks: list[int] = []

    def noting(*given: Any) -> Any:
        looks.append(1)
        return near_tools(*given)

    monkeypatch.setattr(index_upkeep, "near_tools", noting)
    agent = registry.agents()[0].id
    counts = count_transitions([[tool.id for tool in registry.tools(agent_id=agent)]], "2026-05-01T00:00:00+00:00")
    registry.change(lambda session: learn_transitions(session, counts))
    assert len(looks) == 1
    registry.operator.set(agent, tags=["harbour"], pinned=True)
    assert len(looks) == 1
    registry.operator.set(agent, visible_to=["staff"])
    assert len(looks) == 2
    sync(registry, manifest(2))
    assert len(looks) == 3
    registry.close()
    assert dump_of(path) == anew(path)


def test_a_graph_that_was_restored_gets_an_index_anew(path: Path, registry: LocalRegistry) -> None:
    """Its revision is one that the index had, or will have, by another way: the commit tells. A person says that it
    holds.
    """
    registry.close()
    shutil.copy(path, path.with_name("kept"))
    with opened(path) as again:
        sync(again, manifest(2))
    shutil.copy(path.with_name("kept"), path)
    with opened(path) as again:
        again.reindex()
        sync(again, manifest(3))
        assert again.status().state.revision == 3
    assert dump_of(path) == anew(path)
    assert current_path(folder_of(path)) == folder_of(path) / "index-00000002.sqlite"


def test_a_note_of_what_did_not_come_is_dropped_by_the_next_writer(path: Path, registry: LocalRegistry) -> None:
    registry.close()
    index = current_path(folder_of(path))
    assert index
    with closing(open_to_write(index)) as file:
        file.put_intent(Intent(commits=("never",), agent_ids=["a"]))
    assert sound_revision(path) == 1
    with closing(open_to_read(folder_of(path))) as file:
        assert file.intent() is None
    assert current_path(folder_of(path)) == index


def test_one_connection_writes_and_readers_begin_no_checkpoint(path: Path, registry: LocalRegistry) -> None:
    """SQLite before 3.51.3 may lose a log where two connections write or checkpoint at once."""
    index = current_path(folder_of(path))
    assert index
    log = index.with_name(f"{index.name}-wal")
    with closing(open_to_write(index)) as writer, closing(open_to_read(folder_of(path))) as reader:
        writer.put_intent(Intent())
        assert reader.intent() == Intent()
        for statement in ("DELETE FROM meta", "PRAGMA wal_checkpoint(TRUNCATE)"):
            with pytest.raises(StorageFailed, match=r"readonly|disk I/O"):
                reader.fetch(statement)
        assert log.stat().st_size
    assert registry.status().state.revision == 1


def shift(content: bytes) -> bytes:
    """Whole vectors, at the places of others."""
    return content[384 * 4 :] + content[: 384 * 4]


@pytest.mark.parametrize(
    "harm",
    [
        lambda content: bytes([content[0] ^ 1]) + content[1:],
        lambda content: content[: len(content) // 2],
        lambda _: b"",
        shift,
        lambda _: None,
    ],
)
@pytest.mark.parametrize("float_rows", [0, 10_000])
def test_vectors_that_are_not_what_was_written_are_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, float_rows: int, harm: Callable[[bytes], bytes | None]
) -> None:
    """Held as floats or read one by one, by a search or by the doctor; the next comer builds the index anew."""
    monkeypatch.setattr(index_rows, "FLOAT_ROWS", float_rows)
    path = tmp_path / "r.grafeo"
    with opened(path, embedder="minilm") as registry:
        sync(registry, small(1))
        wanted = registry.route("moors ship").matches
    [index] = folder_of(path).glob("*.sqlite")
    vectors = vectors_path(index)
    content = harm(vectors.read_bytes())
    vectors.unlink() if content is None else vectors.write_bytes(content)
    with pytest.raises(RegistryUnusable, match="vectors"):
        dump_of(path)
    clear_damaged(folder_of(path))
    with opened(path, embedder="minilm") as registry, pytest.raises(RegistryUnusable, match="vectors"):
        registry.route("moors ship")
    with opened(path, embedder="minilm") as registry:
        assert registry.route("moors ship").matches == wanted
    assert dump_of(path) == anew(path)
    assert not index.exists()
    assert not vectors.exists()


def test_what_a_write_that_failed_left_of_vectors_is_nobodys(path: Path) -> None:
    """Behind the last row; the next write takes its places."""
    with opened(path, embedder="minilm") as registry:
        sync(registry, small(1))
    [index] = folder_of(path).glob("*.sqlite")
    with vectors_path(index).open("ab") as file:
        file.write(b"\xff" * 5_000)
    with opened(path, embedder="minilm") as registry:
        sync(registry, small(2))
    assert dump_of(path) == anew(path)
    assert current_path(folder_of(path)) == index
    vectors_path(index).unlink()
    vectors_path(index).mkdir()  # as one that nobody may open
    with pytest.raises(StorageFailed):
        open_to_write(index)


READ = """
import os, sys
from pathlib import Path
from tests.faults.programs import opened
from tests.faults import fleet
from waygraph.registry.registry import Registry
with Registry.open(":memory:") as registry:  # loads what a process may not find any more as somebody else
    registry
os.setgid(65534); os.setuid(65534)
with opened(Path(sys.argv[1])) as registry:
    print(registry.status().state.revision, len(registry.route("moors ship").matches) > 0, flush=True)
    sys.stdin.readline()
    print(registry.status().state.revision, flush=True)
"""


@pytest.mark.skipif(os.getuid() != 0, reason="only root becomes another user")
def test_a_folder_that_may_only_be_read_is_read() -> None:
    """By a user who can make no file beside the index; it follows what a later writer brings into the file."""
    with TemporaryDirectory() as folder:
        Path(folder).chmod(0o755)
        path = Path(folder) / "r.grafeo"
        with opened(path) as registry:
            sync(registry, manifest(1))
        _read_as_nobody(path)


@pytest.mark.skipif(os.getuid() != 0, reason="only root becomes another user")
@pytest.mark.parametrize("harm", [lambda path: set_format(path, 2), lambda path: shutil.rmtree(folder_of(path))])
def test_an_older_registry_in_a_folder_that_may_only_be_read_says_what_helps(harm: Callable[[Path], None]) -> None:
    """Its index must be made anew, which to ask again does not."""
    with TemporaryDirectory() as folder:
        Path(folder).chmod(0o755)
        path = Path(folder) / "r.grafeo"
        with opened(path) as registry:
            sync(registry, manifest(1))
        harm(path)
        ran = subprocess.run([sys.executable, "-c", READ, str(path)], capture_output=True, text=True, check=False)
    *_, error = ran.stderr.splitlines()
    assert "waygraph status" in error
    assert "Ask again" not in error


def set_format(path: Path, number: int) -> None:
    index = current_path(folder_of(path))
    with closing(sqlite3.connect(str(index))) as connection:
        connection.execute(f"PRAGMA user_version = {number}")


def _read_as_nobody(path: Path) -> None:
    command = [sys.executable, "-c", READ, str(path)]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as reader:
        assert reader.stdin
        assert reader.stdout
        assert reader.stdout.readline().split() == ["1", "True"]
        with opened(path) as again:
            sync(again, manifest(2))
        reader.stdin.write("\n")
        reader.stdin.flush()
        assert reader.stdout.readline().split() == ["2"]


def test_without_shared_memory_a_journal_takes_its_place(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """As on some file systems of networks: the same index, and readers that follow it."""

    class Connection(sqlite3.Connection):
        def execute(self, statement: str, parameters: Any = (), /) -> sqlite3.Cursor:
            if statement == "PRAGMA journal_mode=WAL":
                error = sqlite3.OperationalError("locking protocol")
                error.sqlite_errorcode = sqlite3.SQLITE_PROTOCOL
                raise error
            return super().execute(statement, parameters)

    real = sqlite3.connect
    monkeypatch.setattr(sqlite3, "connect", lambda *given, **named: real(*given, **named, factory=Connection))
    with opened(path) as registry, opened(path) as reader:
        for number in (1, 2, 3):
            sync(registry, manifest(number))
            assert reader.status().state.revision == number
        names = [f"index-00000001.{end}" for end in ("sqlite", "vectors")]
        assert sorted(each.name for each in folder_of(path).glob("index-*")) == names
    assert dump_of(path) == anew(path)


@pytest.mark.parametrize(
    "change",
    ["key = 8", "body = substr(body, 1, 7)", "body = x''", "body = NULL", "body = 'text'", "body = x'00' || body"],
)
def test_a_seal_is_of_one_place(path: Path, registry: LocalRegistry, change: str) -> None:
    """A body that is kept under another key is as damaged as one whose bits changed, or that is gone."""
    registry.close()
    index = current_path(folder_of(path))
    assert index
    with closing(open_to_write(index)) as file:
        file.fetch("DELETE FROM record")
        file.put("record", [(7, b"body")])
        assert file.read("record", 7) == b"body"
        file.fetch(f"UPDATE record SET {change}")  # noqa: S608 - as above
        for read in (lambda: file.read("record", 7), lambda: file.read("record", 8), lambda: file.scan("record")):
            with pytest.raises(DamagedIndex):
                read()


def test_an_index_that_took_the_place_of_another_is_seen_by_who_reads_that(
    registry: LocalRegistry, path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its writer was killed before it removed the former one."""
    former = current_path(folder_of(path))
    assert registry.status().state.revision == 1
    with opened(path) as other, monkeypatch.context() as killed:
        killed.setattr(index_upkeep, "_remove_former", lambda *_: None)
        killed.setattr(index_upkeep, "publish_changes", lambda *_: False)
        sync(other, manifest(2))
    assert former is not None
    assert former.exists()
    monkeypatch.setattr(embedded, "LOOK_AGAIN_S", 0.0)
    assert registry.status().state.revision == 2
