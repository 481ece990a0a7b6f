"""The file of the search index: where it is, what it holds, how it is read beside its writer.

tools.grafeo.index/
    index-00000007.sqlite   the index; a higher number takes the place of a lower one
    index-00000007.vectors  the vectors of its rows as float32, each at the place of its row
    damaged                 what somebody read was not what was written: the next comer builds the index anew

Rows are appended and never changed: what changes dies and is appended anew. A reader needs of a later revision only the
rows and deaths since its own. One connection writes at a time, under the registry's write lock; all others are opened
read-only and begin no checkpoint. So two connections never write or checkpoint at once, which SQLite before 3.51.3 does
not bear in WAL mode.

Vectors are read alone, a few a question, so they stand where each is one read at a known place. A vector is on disk
before the transaction commits that has its row, with its checksum: what stands behind the last row is no part of it.
"""

import json
import os
import re
import sqlite3
import struct
import threading
import weakref
import zlib
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import Any, NamedTuple, Self

import numpy as np
from numpy.typing import NDArray

from waygraph.registry.graph.grafeo import mark_of
from waygraph.registry.model.changes import IndexState
from waygraph.registry.model.errors import RegistryClosed, RegistryNotFound, RegistryUnusable, StorageFailed

FORMAT = 6
"""Of the file, in SQLite's `user_version`. A file of another format is built anew."""
COLUMN_ROWS = 256
"""Rows of one block of columns."""
_BLOCKS_AT_ONCE = 64
"""Of columns; more would be held beside what is made of them."""
POSTING_ROWS = 4096
"""Rows of one block of postings: a row in its block takes 12 bits, its count the other 20."""

_KEYS = {
    **dict.fromkeys(("meta", "part", "agent"), "TEXT"),
    **dict.fromkeys(("columns", "record", "death", "words", "posting"), "INTEGER"),
}
"""Of what type the key of a table is; beside it a table has a body, which is sealed."""
NAME, NEEDS = "\0name ", "\0needs "
"""Before a folded name, and the name of a parameter that a tool requires: no word of a text begins so."""
_NAME = re.compile(r"index-(\d{8})\..+")
_DAMAGE = "damaged"
_PATIENCE_S = 30
_LAST = 2**63 - 1
_DAMAGE_CODES = (
    *(sqlite3.SQLITE_CORRUPT, sqlite3.SQLITE_NOTADB),
    *(sqlite3.SQLITE_ERROR, sqlite3.SQLITE_INTERNAL, sqlite3.SQLITE_MISMATCH),
)
"""The latter for what else a file may lack, such as a table."""


ASK_A_WRITER = "If you may not write there, let a user who may run `waygraph status` once, or copy the registry."


class Flag:
    """Of a row. BARE: an agent without tools. VECTOR: it has a direction. GIVES: a tool that says what it returns.
    HAS_NOTICES: a tool with notices.
    """

    TOOL, BARE, PENDING, IS_HIDDEN, IS_PINNED, VECTOR, GIVES, HAS_NOTICES = (1 << bit for bit in range(8))


class DamagedIndex(Exception):
    """What was read is not what was written."""


def folder_of(registry: Path) -> Path:
    """Where the index of a registry file lives."""
    return registry.with_name(registry.name + ".index")


def graph_of(folder: Path) -> Path:
    """The registry file of an index."""
    return folder.with_name(folder.name.removesuffix(".index"))


def number_of(path: Path) -> int:
    match = _NAME.fullmatch(path.name)
    return int(match[1]) if match else 0


def path_of(folder: Path, number: int) -> Path:
    return folder / f"index-{number:08d}.sqlite"


def vectors_path(index: Path) -> Path:
    """The file of the vectors beside an index file."""
    return index.with_suffix(".vectors")


def current_path(folder: Path) -> Path | None:
    """The index with the highest number; None if there is none. Raises StorageFailed."""
    try:
        paths = [path for path in folder.iterdir() if path.suffix == ".sqlite" and number_of(path)]
    except FileNotFoundError:
        return None
    except OSError as exc:
        raise StorageFailed(f"{folder}: cannot be read: {exc.strerror}") from exc
    return max(paths, key=number_of, default=None)


def mark_damaged(folder: Path) -> None:
    """Says that the index must be built anew. In a folder that cannot be written, whoever can meets the damage too."""
    with suppress(OSError):
        (folder / _DAMAGE).touch()


def is_damaged(folder: Path) -> bool:
    return (folder / _DAMAGE).exists()


def clear_damaged(folder: Path) -> None:
    (folder / _DAMAGE).unlink(missing_ok=True)


def _crc(body: bytes, table: str, key: object) -> bytes:
    """Of the body and of where it is kept: a flipped bit is an error, never another answer."""
    return struct.pack("<I", zlib.crc32(body, zlib.crc32(f"{table} {key}".encode())))


def _unseal(body: object, table: str, key: object) -> bytes:
    if not isinstance(body, bytes) or body[-4:] != _crc(body[:-4], table, key):
        raise DamagedIndex(f"what {table} has under {key} is not what was written")
    return body[:-4]


def _check(body: bytes | memoryview) -> int:
    """Of a vector, which its row holds: from 1 to 2³¹ - 1."""
    return zlib.crc32(body) & 0x7FFFFFFF or 1


def encode(value: object) -> bytes:
    return json.dumps(value, ensure_ascii=False, separators=(",", ":")).encode("utf-8", "surrogatepass")


def decode(body: bytes) -> Any:
    return json.loads(body.decode("utf-8", "surrogatepass"))


def bucket_of(word: str, buckets: int) -> int:
    """`buckets` is a power of two."""
    return zlib.crc32(word.encode("utf-8", "surrogatepass")) & (buckets - 1)


def row_type(dimension: int) -> np.dtype[np.void]:
    """Numbers of a row: of its owner, its flags, the length of its text in terms, the checksum of its vector (0: it has
    none), and this vector as int8 of shape (dimension,), with the scale and the error of these.
    """
    whole = [(name, "<i4") for name in ("owner", "flags", "length", "check")]
    return np.dtype([*whole, ("scale", "<f4"), ("error", "<f4"), ("codes", "i1", (dimension,))])


class Columns(NamedTuple):
    """A block of rows. `facts`: of a tool its `CallFacts`, packed. `numbers`: of `row_type`, of shape (rows,)."""

    ids: list[str]
    facts: list[str]
    numbers: NDArray[np.void]

    def extend(self, block: "Columns") -> "Columns":
        return Columns(self.ids + block.ids, self.facts + block.facts, np.concatenate([self.numbers, block.numbers]))

    def pack(self) -> bytes:
        return struct.pack("<I", len(self.ids)) + self.numbers.tobytes() + encode([self.ids, self.facts])

    @classmethod
    def unpack(cls, body: bytes, dimension: int) -> Self:
        kind, (rows,) = row_type(dimension), struct.unpack_from("<I", body)
        ids, facts = decode(body[4 + rows * kind.itemsize :])
        return cls(ids, facts, np.frombuffer(body, kind, rows, 4))


def unpack_postings(key: int, body: bytes) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """The rows of a block that hold a term, and how often each does: int64 of shape (postings,)."""
    numbers = np.frombuffer(body, "<u4").astype(np.int64)
    return (numbers & 0xFFF) + (key & 0xFFFFFF) * POSTING_ROWS, numbers >> 12


@dataclass(frozen=True, slots=True, kw_only=True)
class Header:
    """What the file holds: `rows`, of which `dead` hold no more, after `serial` writes.

    `owners`, `terms`: how many numbers were given to these. `buckets`: how many the words are spread over. `parts`: how
    often each was written.
    """

    state: IndexState
    rows: int = 0
    dead: int = 0
    serial: int = 0
    owners: int = 0
    terms: int = 0
    buckets: int
    parts: Mapping[str, int] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class Intent:
    """What a writer is about to commit to the graph: `commits` that may follow, and the agents that they change, in
    order. `agent_ids` None: any.
    """

    commits: Sequence[str] = field(default_factory=list)
    agent_ids: Sequence[str] | None = field(default_factory=list)

    def with_write(self, commit: str, agent_ids: Collection[str] | None) -> "Intent":
        ids = None if agent_ids is None or self.agent_ids is None else sorted({*self.agent_ids, *agent_ids})
        return Intent(commits=[*self.commits, commit], agent_ids=ids)


class IndexFile:
    """A connection to one index file. Threads may share it; a process that is forked off opens it anew."""

    def __init__(self, path: Path, *, writes: bool = False) -> None:
        """Raises DamagedIndex, StorageFailed."""
        self.path, self._writes = path, writes
        self.lock = threading.RLock()
        self._is_frozen = self.is_damaged = False
        self._vectors = -1
        with self.guard(), suppress(FileNotFoundError):  # of an older Waygraph
            self._vectors = os.open(vectors_path(path), os.O_RDWR | os.O_CREAT if writes else os.O_RDONLY, 0o644)
        self._close_vectors = weakref.finalize(self, _close, self._vectors)
        try:
            with self.guard():
                self._open()
        except BaseException:
            self._close_vectors()
            raise

    def _open(self) -> None:
        self._owner = os.getpid()
        self._stamp = _stamp(self.path)
        # Where a reader may not write, or the disk is full, the memory that a log is shared through cannot be made.
        # Writers bring the log into the file at their end, so the file alone is whole; whether it is written is seen
        # from outside.
        self._is_frozen = not self._writes and not os.access(self.path.parent, os.W_OK)
        try:
            self._connect()
        except sqlite3.OperationalError as exc:
            if self._writes or not self._has_no_room(exc):
                raise
            self._is_frozen = True
            self._connect()

    def _connect(self) -> None:
        mode = "rw" if self._writes else "ro&immutable=1" if self._is_frozen else "ro"
        self._connection = sqlite3.connect(
            f"{self.path.absolute().as_uri()}?mode={mode}",
            uri=True,
            isolation_level=None,
            timeout=_PATIENCE_S,
            check_same_thread=False,
        )
        self._connection.execute("PRAGMA cache_size=-8000")
        self._connection.execute("PRAGMA data_version").fetchone()

    def _has_no_room(self, exc: sqlite3.OperationalError) -> bool:
        """Whether it is the disk that is full, and nothing stands in the log alone."""
        log = self.path.with_name(f"{self.path.name}-wal")
        is_empty = not log.exists() or not log.stat().st_size
        return is_empty and exc.sqlite_errorcode & 0xFF in (sqlite3.SQLITE_IOERR, sqlite3.SQLITE_FULL)

    @contextmanager
    def guard(self) -> Iterator[None]:
        """Raises DamagedIndex for a file that is not whole, StorageFailed for one that cannot be used now,
        RegistryClosed."""
        try:
            yield
        except sqlite3.ProgrammingError as exc:  # the connection was closed by another thread
            raise RegistryClosed from exc
        except UnicodeDecodeError as exc:  # the message of an error names a table whose name is damaged
            raise DamagedIndex(str(exc)) from exc
        except OSError as exc:  # of the file of vectors
            raise StorageFailed(f"{self.path}: the search index cannot be used: {exc}") from exc
        except sqlite3.DatabaseError as exc:
            # Without a code: a text that is none.
            code = getattr(exc, "sqlite_errorcode", sqlite3.SQLITE_CORRUPT) & 0xFF
            if code in _DAMAGE_CODES or (self._is_frozen and _stamp(self.path) != self._stamp):
                raise DamagedIndex(str(exc)) from exc
            raise StorageFailed(f"{self.path}: the search index cannot be used: {exc}") from exc

    def fetch(self, statement: str, *params: object) -> list[Any]:
        """All rows. Raises DamagedIndex, StorageFailed."""
        with self.lock, self.guard():
            if self._owner != os.getpid():
                _OF_PARENTS.append(self._connection)  # to close it here would take the parent's locks away
                self._open()
            return self._connection.execute(statement, params).fetchall()

    def find(self, table: str, key: str | int) -> bytes | None:
        """The body under a key; None: there is none. Raises DamagedIndex, StorageFailed, as all that reads here."""
        rows = self.fetch(f"SELECT body FROM {table} WHERE key = ?", key)  # noqa: S608 - a name of ours, as below
        return _unseal(rows[0][0], table, key) if rows else None

    def read(self, table: str, key: str | int) -> bytes:
        """The same of what must be there."""
        return _unseal(None, table, key) if (body := self.find(table, key)) is None else body

    def scan(self, table: str, first: int = 0, last: int = _LAST) -> list[tuple[Any, bytes]]:
        """Keys and bodies, in order of the keys, which are numbers between these two."""
        statement = f"SELECT key, body FROM {table} WHERE key BETWEEN ? AND ? ORDER BY key"  # noqa: S608
        return [(key, _unseal(body, table, key)) for key, body in self.fetch(statement, first, last)]

    def find_rows(self, table: str, keys: Collection[int]) -> dict[int, bytes]:
        """By key, in order: those of these that are there."""
        statement = f"SELECT key, body FROM {table} WHERE key IN (SELECT value FROM json_each(?)) ORDER BY key"  # noqa: S608
        return {key: _unseal(body, table, key) for key, body in self.fetch(statement, json.dumps([*keys]))}

    def read_rows(self, table: str, keys: Collection[int]) -> dict[int, bytes]:
        """The same of what must be there."""
        bodies = self.find_rows(table, keys)
        if len(bodies) != len(keys):
            raise DamagedIndex(f"rows of {table} are missing")
        return bodies

    def put(self, table: str, bodies: Iterable[tuple[str | int, bytes]]) -> None:
        rows = [(key, body + _crc(body, table, key)) for key, body in bodies]
        with self.guard():
            self._connection.executemany(f"INSERT OR REPLACE INTO {table} VALUES (?, ?)", rows)  # noqa: S608

    def put_vectors(self, vectors: Mapping[int, NDArray[np.float32]]) -> list[int]:
        """By row, each of shape (dimension,). Returns their checksums. Raises StorageFailed."""
        checks = []
        with self._vectors_in_use():
            for row, vector in vectors.items():
                body = memoryview(vector.astype("<f4").tobytes())
                checks.append(_check(body))
                at = row * len(body)
                while body:
                    count = os.pwrite(self._vectors, body, at)
                    body, at = body[count:], at + count
        return checks

    def sync_vectors(self) -> None:
        """Before the transaction commits that has their rows. Raises StorageFailed."""
        with self._vectors_in_use():
            os.fdatasync(self._vectors)

    def vectors(self, rows: NDArray[np.int64], checks: NDArray[np.int32], dimension: int) -> NDArray[np.float32]:
        """Of these rows, which have one: float32 of shape (rows, dimension). Raises DamagedIndex, StorageFailed."""
        size, at = dimension * 4, rows * (dimension * 4)
        with self._vectors_in_use():
            bodies = [os.pread(self._vectors, size, each) for each in at.tolist()]
        if [*map(_check, bodies)] != checks.tolist():
            raise DamagedIndex("what the file of vectors has is not what was written")
        return np.frombuffer(b"".join(bodies), "<f4").reshape(len(rows), dimension)

    @contextmanager
    def _vectors_in_use(self) -> Iterator[None]:
        """Raises RegistryClosed, DamagedIndex for a file that is not there, StorageFailed."""
        with self.lock, self.guard():
            if not self._close_vectors.alive:
                raise RegistryClosed
            if self._vectors < 0:
                raise DamagedIndex("the file of vectors is missing")
            yield

    def remove(self, table: str, key: str | int) -> None:
        self.fetch(f"DELETE FROM {table} WHERE key = ?", key)  # noqa: S608

    @contextmanager
    def at_once(self) -> Iterator[None]:
        """What is read, or written, in the block is of one moment. Raises as `fetch`."""
        with self.lock:
            self.fetch("BEGIN IMMEDIATE" if self._writes else "BEGIN")
            try:
                yield
            except BaseException:
                with suppress(sqlite3.Error):  # the first error is the one seen
                    self._connection.execute("ROLLBACK")
                raise
            self.fetch("COMMIT")

    @property
    def version(self) -> object:
        """Another one after each write of another connection. Raises as `fetch`."""
        return self._stamp if self._is_frozen else self.fetch("PRAGMA data_version")[0][0]

    @property
    def is_replaced(self) -> bool:
        """Whether it must be opened anew: there is another one, or what is read here does not follow."""
        stamp = _stamp(self.path)
        return self.is_damaged or stamp is None or (self._is_frozen and stamp != self._stamp)

    @property
    def is_current_format(self) -> bool:
        return bool(self.fetch("PRAGMA user_version")[0][0] == FORMAT)

    def header(self) -> Header:
        """Raises DamagedIndex, also for a file of another format."""
        if not self.is_current_format:
            raise DamagedIndex("another Waygraph wrote it")
        document = decode(self.read("meta", "header"))
        return Header(**{**document, "state": IndexState(**document["state"])})

    def graph_version(self) -> tuple[int, str]:
        """Revision and commit of the graph that it shows, in every format so far. Raises DamagedIndex."""
        state = decode(self.read("meta", "header"))["state"]
        return state["revision"], state.get("commit", "")

    def put_header(self, header: Header) -> None:
        self.put("meta", [("header", encode(asdict(header)))])

    @property
    def is_foreign(self) -> bool:
        """Whether it was made of another graph file than the one beside it; that may be a copy of the same graph."""
        origin, here = self.find("meta", "graph"), mark_of(graph_of(self.path.parent)).encode()
        return bool(origin and here) and origin != here

    def put_graph(self) -> None:
        """Says that it is made of the graph file beside it."""
        self.put("meta", [("graph", mark_of(graph_of(self.path.parent)).encode())])

    def intent(self) -> Intent | None:
        """What a writer was about to commit that is not in the index; None: nothing."""
        body = self.find("meta", "intent")
        return None if body is None else Intent(**decode(body))

    def put_intent(self, intent: Intent | None) -> None:
        if intent is None:
            self.remove("meta", "intent")
        else:
            self.put("meta", [("intent", encode(asdict(intent)))])

    def part(self, name: str, header: Header) -> bytes | None:
        """None: there is none, or a writer has taken it away since this header."""
        return self.find("part", f"{name} {header.parts.get(name, 0)}")

    def put_parts(self, parts: Mapping[str, object], header: Header) -> Header:
        """With how often each was written: once more where its value is another than it was.

        The former value stays for those who still read its revision.
        """
        counts = dict(header.parts)
        for name, value in parts.items():
            count, body = counts.get(name, 0), encode(value)
            if not count or self.part(name, header) != body:
                self.remove("part", f"{name} {count - 1}")
                self.put("part", [(f"{name} {count + 1}", body)])
                counts[name] = count + 1
        return replace(header, parts=counts)

    def columns(self, header: Header, first: int = 0) -> Iterator[Columns]:
        """From the block of this number on, some read at a time. Raises DamagedIndex if rows are missing."""
        rows, end = first * COLUMN_ROWS, -(-header.rows // COLUMN_ROWS)
        for at in range(first, end, _BLOCKS_AT_ONCE):
            last = min(at + _BLOCKS_AT_ONCE, end) - 1
            bodies = self.scan("columns", at, last)
            if len(bodies) <= last - at:  # said before any: rows behind a missing block would take the places of others
                raise DamagedIndex("rows are missing")
            for _, body in bodies:
                block = Columns.unpack(body, header.state.dimension)
                rows += len(block.ids)
                yield block
        if rows < header.rows:
            raise DamagedIndex("rows are missing")

    def dead_rows(self, header: Header) -> list[int]:
        """The rows that hold no more."""
        dead = [row for _, body in self.scan("death", last=header.serial) for row in decode(body)]
        if len(dead) != header.dead:
            raise DamagedIndex("it does not say of all rows whether they hold")
        return dead

    def close(self) -> None:
        """Of the last connection it brings the log into the file."""
        with self.lock, suppress(sqlite3.Error):  # what was committed is in the log, and stays there
            if self._owner == os.getpid():
                if self._writes:
                    self._connection.execute("PRAGMA wal_checkpoint(PASSIVE)")
                self._connection.close()
        with self.lock:
            self._close_vectors()


def _close(descriptor: int) -> None:
    if descriptor >= 0:
        os.close(descriptor)


_OF_PARENTS: list[sqlite3.Connection] = []


def _stamp(path: Path) -> tuple[int, int, int] | None:
    """Another value where the file is another one, or was written from outside its log; None: it is gone."""
    try:
        status = os.stat(path)
    except FileNotFoundError:
        return None
    return status.st_ino, status.st_size, status.st_mtime_ns


def create_file(path: Path) -> IndexFile:
    """An empty one, written without a log: it is nobody's until it has its name. Raises OSError, StorageFailed."""
    path.touch(0o644)
    file = IndexFile(path, writes=True)
    try:
        for option in ("page_size=8192", "journal_mode=OFF", "synchronous=OFF", f"user_version={FORMAT}"):
            file.fetch(f"PRAGMA {option}")
        for table, kind in _KEYS.items():
            file.fetch(f"CREATE TABLE {table}(key {kind} PRIMARY KEY, body BLOB)")
    except BaseException:
        file.close()
        raise
    return file


def open_to_write(path: Path) -> IndexFile:
    """The caller holds the registry's write lock. Raises DamagedIndex, StorageFailed.

    Where memory cannot be shared, as on some networks' file systems, a rollback journal takes the log's place.
    """
    file = IndexFile(path, writes=True)
    try:
        file.fetch("PRAGMA journal_mode=WAL")
    except StorageFailed:
        file.fetch("PRAGMA journal_mode=DELETE")
    file.fetch("PRAGMA synchronous=FULL")
    return file


def open_to_read(folder: Path) -> IndexFile:
    """The current index. Raises RegistryNotFound if there is none, RegistryUnusable for damage, StorageFailed."""
    for _ in range(3):
        if (path := current_path(folder)) is None:
            break
        try:
            return IndexFile(path)
        except StorageFailed:
            if path.exists():
                raise  # else a writer has just put another one in its place: look again
        except DamagedIndex as exc:
            raise unusable(folder, exc) from exc
    raise RegistryNotFound(str(graph_of(folder)))


def unusable(folder: Path, exc: Exception) -> RegistryUnusable:
    """The damage is marked, so that the next comer builds the index anew."""
    mark_damaged(folder)
    fault = f"the search index is damaged, or of another version ({str(exc)[:200]})"
    if not os.access(folder, os.W_OK):
        return RegistryUnusable(folder, f"{fault}. It cannot be built anew here. {ASK_A_WRITER}")
    return RegistryUnusable(folder, f"{fault}. Ask again: it is built anew from the graph.")
