"""Vectors on disk and in memory."""

import sqlite3
import threading
from collections.abc import Sequence
from hashlib import sha256
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from tests.fake_openai import vector_of
from waygraph.registry.embedding.cache import (
    BATCH_TEXTS,
    CREATE,
    CachedEmbedder,
    QueryCache,
    VectorFile,
    vector_file_path,
)
from waygraph.registry.embedding.embedder import Progress, Role
from waygraph.registry.model.settings import Settings
from waygraph.registry.model.sqlite_file import PAGE_BYTES, SqliteFile

Matrix = NDArray[np.float32]


class HashEmbedder:
    """Real vectors, made at once; remembers what it was asked, stops at a text `stop`."""

    fingerprint = "hash@1"
    dimension = 8

    def __init__(self) -> None:
        self.asked: list[tuple[str, ...]] = []

    def embed(self, texts: Sequence[str], role: Role, *, progress: Progress | None = None) -> Matrix:  # noqa: ARG002 - has no prompts
        self.asked.append(tuple(texts))
        if "stop" in texts:
            raise KeyboardInterrupt
        if progress:
            progress(len(texts), len(texts))
        rows = np.array([vector_of(text, self.dimension) for text in texts], dtype=np.float32)
        return rows.reshape(-1, self.dimension) / np.linalg.norm(
            rows.reshape(-1, self.dimension), axis=1, keepdims=True
        )


@pytest.fixture
def inner() -> HashEmbedder:
    return HashEmbedder()


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "vectors" / "hash.sqlite"


def test_a_document_is_embedded_once(inner: HashEmbedder, path: Path) -> None:
    first = CachedEmbedder(inner, path)
    before = first.embed(["a", "b", "a", ""], "document")
    assert first.embedded == 2
    later = CachedEmbedder(inner, path)
    after = later.embed(["c", "b", "a", ""], "document")
    assert later.embedded == 1
    np.testing.assert_array_equal(after[[2, 1]], before[[0, 1]])
    assert inner.asked == [("a", "b"), ("c",)]
    assert not before[3].any()


def test_queries_are_not_kept_on_disk(inner: HashEmbedder, path: Path) -> None:
    """A query goes straight to the model: its prompt may differ, and it is nobody's to keep."""
    cached = CachedEmbedder(inner, path)
    cached.embed(["a"], "query")
    assert cached.embedded == 0
    assert not path.exists()


def test_an_interrupted_ingest_keeps_what_it_has(inner: HashEmbedder, path: Path) -> None:
    """Batches that were done before the interrupt are found afterwards."""
    texts = [f"t{i}" for i in range(BATCH_TEXTS)]
    with pytest.raises(KeyboardInterrupt):
        CachedEmbedder(inner, path).embed([*texts, "stop"], "document")
    again = CachedEmbedder(inner, path)
    again.embed(texts, "document")
    assert again.embedded == 0


def test_a_run_opens_the_file_once(inner: HashEmbedder, path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """All calls in a block, of several batches each, use one connection; it is closed behind them."""
    opened: list[sqlite3.Connection] = []
    connect = sqlite3.connect

    def count(*arguments: Any, **options: Any) -> sqlite3.Connection:
        opened.append(connect(*arguments, **options))
        return opened[-1]

    monkeypatch.setattr(sqlite3, "connect", count)
    cached = CachedEmbedder(inner, path)
    with cached.kept_open():
        for part in range(2):
            cached.embed([f"{part}-{i}" for i in range(2 * BATCH_TEXTS)], "document")
    assert len(opened) == 1
    with pytest.raises(sqlite3.ProgrammingError, match="closed"):
        opened[0].execute("SELECT 1")


def test_a_connection_that_met_damage_is_not_used_again(tmp_path: Path) -> None:
    """Also within a run: what was asked is done by another one."""
    file, used = SqliteFile(tmp_path / "v.sqlite", CREATE), list[sqlite3.Connection]()

    def work(database: sqlite3.Connection) -> int:
        used.append(database)
        if len(used) == 2:
            raise sqlite3.DatabaseError("malformed")
        return len(used)

    with file.kept_open():
        assert [file.run(work), file.run(work), file.run(work)] == [1, 3, 4]
    assert used[0] is used[1] is not used[2] is used[3]


def test_threads_and_embedders_share_a_file(inner: HashEmbedder, path: Path, caplog: pytest.LogCaptureFixture) -> None:
    texts = [[f"{part}-{i}" for i in range(1200)] for part in range(4)]
    shared = CachedEmbedder(inner, path)
    embedders = [shared, shared, CachedEmbedder(inner, path), CachedEmbedder(inner, path)]
    threads = [
        threading.Thread(target=embedder.embed, args=(some, "document"))
        for embedder, some in zip(embedders, texts, strict=True)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    again = CachedEmbedder(inner, path)
    again.embed([text for some in texts for text in some], "document")
    assert again.embedded == 0
    assert shared.embedded == 2400
    assert not caplog.records


@pytest.mark.parametrize("content", [b"not a database" * 1000, b"SQLite format 3\x00" + b"\xff" * 5000])
def test_a_damaged_file_is_put_aside(
    inner: HashEmbedder, path: Path, content: bytes, caplog: pytest.LogCaptureFixture
) -> None:
    path.parent.mkdir(parents=True)
    path.write_bytes(content)
    CachedEmbedder(inner, path).embed(["a"], "document")
    again = CachedEmbedder(inner, path)
    again.embed(["a"], "document")
    assert again.embedded == 0
    assert [file.read_bytes() for file in path.parent.glob("*.damaged-*")] == [content]
    assert "damaged" in caplog.text


def test_a_vector_takes_little_more_than_its_numbers(tmp_path: Path) -> None:
    """384 numbers are 1,536 bytes; written in parts, as an ingest does, they take at most 1,700 on disk."""
    count, file = 6 * BATCH_TEXTS, VectorFile(tmp_path / "v.sqlite")
    for start in range(0, count, BATCH_TEXTS):
        keys = [sha256(f"text {i}".encode()).digest() for i in range(start, start + BATCH_TEXTS)]
        file.write(dict.fromkeys(keys, np.ones(384, np.float32)))
    assert sum(each.stat().st_size for each in tmp_path.glob("v.sqlite*")) <= 1_700 * count


@pytest.mark.parametrize(
    "damage",
    [
        "SET value = x'0000'",
        "SET value = x''",
        "SET value = 1",
        "SET value = x'0000803f' || substr(value, 5)",
        "SET value = CAST(x'0000803f' || substr(value, 5) AS BLOB)",
        "SET value = (SELECT value FROM vector AS other WHERE other.key != vector.key)",
    ],
    ids=["short", "empty", "a number", "a text", "another number in it", "of another text"],
)
def test_a_damaged_vector_is_embedded_anew(inner: HashEmbedder, path: Path, damage: str) -> None:
    expected = CachedEmbedder(inner, path).embed(["a"], "document")
    CachedEmbedder(inner, path).embed(["b"], "document")
    with sqlite3.connect(path) as database:
        database.execute(f"UPDATE vector {damage} WHERE key = ?", (sha256(b"a").digest(),))
    database.close()
    np.testing.assert_array_equal(CachedEmbedder(inner, path).embed(["a"], "document"), expected)
    again = CachedEmbedder(inner, path)
    again.embed(["a"], "document")
    assert again.embedded == 0


def test_no_two_fingerprints_share_a_file() -> None:
    """The file's name is safe on disk, readable, and as unique as the fingerprint."""
    settings = Settings(cache_dir="/cache")
    names = {vector_file_path(settings, f).name for f in ("onnx:a/b@1", "onnx:a-b@1", "../../etc/passwd", "x" * 500)}
    assert len(names) == 4
    assert all("/" not in name and not name.startswith(".") and len(name) < 110 for name in names)


def test_a_query_is_embedded_once(inner: HashEmbedder) -> None:
    cache = QueryCache(inner, 10)
    first = cache.vector("a")
    assert cache.vector("a") is first
    assert cache.holds("a")
    assert not cache.holds("b")
    cache.vector("b")
    assert inner.asked == [("a",), ("b",)]
    np.testing.assert_array_equal(first, HashEmbedder().embed(["a"], "query")[0])
    with pytest.raises(ValueError, match="read-only"):
        first[0] = 1


def test_what_is_put_aside_in_a_run_is_not_used_on(tmp_path: Path) -> None:
    """A page amid the file is damaged, so that it opens, and only a check tells."""
    path, keys = tmp_path / "v.sqlite", [sha256(str(each).encode()).digest() for each in range(400)]
    VectorFile(path).write(dict.fromkeys(keys, np.ones(384, np.float32)))
    content = bytearray(path.read_bytes())
    middle = len(content) // PAGE_BYTES // 2 * PAGE_BYTES
    content[middle : middle + PAGE_BYTES] = bytes(PAGE_BYTES)
    path.write_bytes(content)
    file = VectorFile(path)
    with file.kept_open():
        assert file.read(keys, 384) == {}
        file.write({keys[0]: np.ones(384, np.float32)})
        assert list(file.read(keys, 384)) == keys[:1]
    assert list(VectorFile(path).read(keys, 384)) == keys[:1]
    assert len(list(tmp_path.glob("*.damaged-*"))) == 1
