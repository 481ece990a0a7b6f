"""The file of the search index: where it is, what it holds, how it is read beside its writer.

tools.grafeo.index/
    index-00000007.sqlite   the whole index; a higher number takes the place of a lower one
    damaged                 what somebody read was not what was written: the next comer builds the index anew

Rows are appended and never changed: what changes dies and is appended anew. A reader needs of a later revision only the
rows and deaths since its own. One connection writes at a time, under the registry's write lock; all others are opened
read-only and begin no checkpoint. So two connections never write or checkpoint at once, which SQLite before 3.51.3 does
not bear in WAL mode.
"""

import json
import os
import re
import sqlite3
import struct
import threading
import zlib
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple, Self

import numpy as np

from waygraph.registry.model.changes import IndexState
from waygraph.registry.model.errors import RegistryClosed, RegistryNotFound, RegistryUnusable, StorageFailed

if TYPE_CHECKING:
    from numpy.typing import NDArray

FORMAT = 1
"""Of the file, in SQLite's `user_version`. A file of another format is built anew."""
COLUMN_ROWS = 256
"""Rows of one block of columns."""
POSTING_ROWS = 4096
"""Rows of one block of postings: a row in its block takes 12 bits, its count the other 20."""
TOOL, BARE, PENDING, IS_HIDDEN, IS_PINNED, VECTOR, GIVES = (1 << bit for bit in range(7))
"""Flags of a row. BARE: an agent without tools. VECTOR: it has a direction. GIVES: a tool that says what it returns."""

_SCHEMA = """
CREATE TABLE meta(key TEXT PRIMARY KEY, body BLOB);
CREATE TABLE part(name TEXT, serial INTEGER, body BLOB, PRIMARY KEY(name, serial));
CREATE TABLE agent(number INTEGER PRIMARY KEY, id TEXT UNIQUE, body BLOB);
CREATE TABLE columns(number INTEGER PRIMARY KEY, body BLOB);
CREATE TABLE record(row INTEGER PRIMARY KEY, body BLOB);
CREATE TABLE vector(row INTEGER PRIMARY KEY, body BLOB);
CREATE TABLE death(serial INTEGER PRIMARY KEY, body BLOB);
CREATE TABLE words(bucket INTEGER PRIMARY KEY, body BLOB);
CREATE TABLE posting(key INTEGER PRIMARY KEY, body BLOB);
"""
NAME, NEEDS = "\0name ", "\0needs "
"""Before a folded name, and the name of a parameter that a tool requires: no word of a text begins so."""
_NAME = re.compile(r"index-(\d{8})\.sqlite")
_DAMAGE = "damaged"
_PATIENCE_S = 30
_DAMAGE_CODES = (sqlite3.SQLITE_CORRUPT, sqlite3.SQLITE_NOTADB)


class DamagedIndex(Exception):
    """What was read is not what was written."""


def folder_of(registry: Path) -> Path:
    """Where the index of a registry file lives."""
    return registry.with_name(registry.name + ".index")


def number_of(path: Path) -> int:
    match = _NAME.fullmatch(path.name)
    return int(match[1]) if match else 0


def path_of(folder: Path, number: int) -> Path:
    return folder / f"index-{number:08d}.sqlite"


def current_path(folder: Path) -> Path | None:
    """The index with the highest number; None if there is none. Raises StorageFailed."""
    try:
        paths = [path for path in folder.iterdir() if number_of(path)]
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


def seal(body: bytes, key: object) -> bytes:
    """With a CRC-32 of the body and of where it is kept: a flipped bit is an error, never another answer."""
    return body + struct.pack("<I", _crc(body, key))


def unseal(body: bytes | None, key: object) -> bytes:
    """Raises DamagedIndex."""
    if not isinstance(body, bytes) or len(body) < 4 or body[-4:] != struct.pack("<I", _crc(body[:-4], key)):
        raise DamagedIndex(f"what is kept under {key} is not what was written")
    return body[:-4]


def _crc(body: bytes, key: object) -> int:
    return zlib.crc32(body, zlib.crc32(str(key).encode()))


def encode(value: object) -> bytes:
    return json.dumps(value, ensure_ascii=False, separators=(",", ":")).encode("utf-8", "surrogatepass")


def decode(body: bytes) -> Any:
    return json.loads(body.decode("utf-8", "surrogatepass"))


def seal_json(value: object, key: object) -> bytes:
    return seal(encode(value), key)


def unseal_json(body: bytes | None, key: object) -> Any:
    """Raises DamagedIndex."""
    return decode(unseal(body, key))


def bucket_of(word: str, buckets: int) -> int:
    """`buckets` is a power of two."""
    return zlib.crc32(word.encode("utf-8", "surrogatepass")) & (buckets - 1)


class Columns(NamedTuple):
    """A block of rows. `agents` are numbers of owners, `lengths` of texts in terms, all int32 of shape (rows,).

    `codes`: uint8 of shape (rows, dimension + 8), a vector as int8 with its scale and error as float32 behind it.
    """

    ids: list[str]
    agents: "NDArray[np.int32]"
    flags: "NDArray[np.int32]"
    lengths: "NDArray[np.int32]"
    codes: "NDArray[np.uint8]"

    def seal(self, number: int) -> bytes:
        numbers = [each.astype("<i4").tobytes() for each in (self.agents, self.flags, self.lengths)]
        return seal(
            b"".join([struct.pack("<II", *self.codes.shape), *numbers, self.codes.tobytes(), encode(self.ids)]), number
        )

    def extend(self, block: "Columns") -> "Columns":
        arrays = zip(self[1:], block[1:], strict=True)
        return Columns(self.ids + block.ids, *(np.concatenate(each) for each in arrays))  # type: ignore[arg-type]

    @classmethod
    def unseal(cls, body: bytes | None, number: int) -> Self:
        """Raises DamagedIndex."""
        body = unseal(body, number)
        rows, stride = struct.unpack_from("<II", body)
        agents, flags, lengths = np.frombuffer(body, "<i4", 3 * rows, 8).reshape(3, rows)
        codes = np.frombuffer(body, np.uint8, rows * stride, 8 + 12 * rows).reshape(rows, stride)
        ids = decode(body[8 + 12 * rows + rows * stride :])
        return cls(ids, agents, flags, lengths, codes)


@dataclass(frozen=True, slots=True, kw_only=True)
class Header:
    """What the file holds: `rows`, of which `dead` hold no more, after `serial` writes.

    `parts`: of which write each is. `buckets`: how many the words are spread over.
    """

    state: IndexState
    rows: int = 0
    dead: int = 0
    serial: int = 0
    buckets: int
    parts: Mapping[str, int] = field(default_factory=dict)

    def as_json(self) -> dict[str, Any]:
        return asdict(self)

    @classmethod
    def of_json(cls, document: Mapping[str, Any]) -> Self:
        return cls(**{**document, "state": IndexState(**document["state"])})


@dataclass(frozen=True, slots=True, kw_only=True)
class Intent:
    """What a writer is about to commit to the graph: `commits` that may follow, and the agents that they change.

    `agent_ids` None: any.
    """

    commits: tuple[str, ...] = ()
    agent_ids: frozenset[str] | None = frozenset()

    def with_write(self, commit: str, agent_ids: "frozenset[str] | None") -> "Intent":
        ids = None if agent_ids is None or self.agent_ids is None else self.agent_ids | agent_ids
        return replace(self, commits=(*self.commits, commit), agent_ids=ids)


class IndexFile:
    """A connection to one index file. Threads may share it; a process that is forked off opens it anew."""

    def __init__(self, path: Path, *, writes: bool = False) -> None:
        """Raises DamagedIndex, StorageFailed."""
        self.path, self._writes = path, writes
        self.lock = threading.RLock()
        self._is_frozen = self.is_damaged = False
        with self.guard():
            self._open()

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
        self._connection = _connect(self.path, f"mode={mode}")
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
        except sqlite3.DatabaseError as exc:
            code = getattr(exc, "sqlite_errorcode", 0) & 0xFF
            if code in _DAMAGE_CODES or (self._is_frozen and _stamp(self.path) != self._stamp):
                raise DamagedIndex(str(exc)) from exc
            if code in (sqlite3.SQLITE_ERROR, sqlite3.SQLITE_INTERNAL, sqlite3.SQLITE_MISMATCH):
                raise DamagedIndex(str(exc)) from exc  # such as a table that is not there
            raise StorageFailed(f"{self.path}: the search index cannot be used: {exc}") from exc

    def fetch(self, statement: str, *params: object) -> list[Any]:
        """All rows. Raises DamagedIndex, StorageFailed."""
        with self.lock, self.guard():
            if self._owner != os.getpid():
                self._keep_open()
                self._open()
            return self._connection.execute(statement, params).fetchall()

    def _keep_open(self) -> None:
        """Closing a parent's connection in its child would take the parent's locks away."""
        _OF_PARENTS.append(self._connection)

    def run(self, statement: str, *params: object) -> None:
        with self.guard():
            self._connection.execute(statement, params)

    def run_many(self, statement: str, rows: Sequence[Sequence[object]]) -> None:
        with self.guard():
            self._connection.executemany(statement, rows)

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

    def header(self) -> Header:
        """Raises DamagedIndex, also for a file of another format."""
        if self.fetch("PRAGMA user_version")[0][0] != FORMAT:
            raise DamagedIndex("another Waygraph wrote it")
        document = self._meta("header")
        if document is None:
            raise DamagedIndex("it says nothing of itself")
        return Header.of_json(document)

    def put_header(self, header: Header) -> None:
        self._put_meta("header", header.as_json())

    def intent(self) -> Intent | None:
        """What a writer was about to commit that is not in the index; None: nothing."""
        document = self._meta("intent")
        if document is None:
            return None
        ids = document["agent_ids"]
        return Intent(commits=tuple(document["commits"]), agent_ids=None if ids is None else frozenset(ids))

    def put_intent(self, intent: Intent | None) -> None:
        if intent is None:
            self.run("DELETE FROM meta WHERE key = 'intent'")
            return
        ids = None if intent.agent_ids is None else sorted(intent.agent_ids)
        self._put_meta("intent", {"commits": intent.commits, "agent_ids": ids})

    def _meta(self, key: str) -> Any:
        rows = self.fetch("SELECT body FROM meta WHERE key = ?", key)
        return unseal_json(rows[0][0], key) if rows else None

    def _put_meta(self, key: str, value: object) -> None:
        self.run("INSERT OR REPLACE INTO meta VALUES (?, ?)", key, seal_json(value, key))

    def read_part(self, name: str, serial: int) -> bytes:
        """Raises DamagedIndex, also if there is none."""
        rows = self.fetch("SELECT body FROM part WHERE name = ? AND serial = ?", name, serial)
        return unseal(rows[0][0] if rows else None, (name, serial))

    def put_parts(self, parts: Mapping[str, object], before: Mapping[str, int], serial: int) -> dict[str, int]:
        """Of which write each part is now: `before`, or this one where its value is another. Raises DamagedIndex.

        The former ones stay for those who still read its revision.
        """
        serials = dict(before)
        for name, value in parts.items():
            former, body = before.get(name), encode(value)
            if former is not None:
                if self.read_part(name, former) == body:
                    continue
                self.run("DELETE FROM part WHERE name = ? AND serial < ?", name, former)
            self.run("INSERT INTO part VALUES (?, ?, ?)", name, serial, seal(body, (name, serial)))
            serials[name] = serial
        return serials

    def terms(self, word: str, header: Header) -> dict[str, list[int]]:
        """Of the word's bucket: word → its term's number, and how many blocks of postings it has."""
        bucket = bucket_of(word, header.buckets)
        rows = self.fetch("SELECT body FROM words WHERE bucket = ?", bucket)
        terms: dict[str, list[int]] = unseal_json(rows[0][0] if rows else None, bucket)
        return terms

    def dead_rows(self, header: Header) -> list[int]:
        """The rows that hold no more. Raises DamagedIndex, StorageFailed."""
        blobs = self.fetch("SELECT serial, body FROM death WHERE serial <= ?", header.serial)
        dead = [row for serial, body in blobs for row in unseal_json(body, serial)]
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


_OF_PARENTS: list[sqlite3.Connection] = []


def _stamp(path: Path) -> tuple[int, int, int] | None:
    """Another value where the file is another one, or was written from outside its log; None: it is gone."""
    try:
        status = os.stat(path)
    except FileNotFoundError:
        return None
    return status.st_ino, status.st_size, status.st_mtime_ns


def _connect(path: Path, options: str) -> sqlite3.Connection:
    uri = f"{path.absolute().as_uri()}?{options}"
    connection = sqlite3.connect(uri, uri=True, isolation_level=None, timeout=_PATIENCE_S, check_same_thread=False)
    connection.execute("PRAGMA cache_size=-8000")
    return connection


def create_file(path: Path) -> IndexFile:
    """An empty one, written without a log: it is nobody's until it has its name. Raises StorageFailed."""
    connection = sqlite3.connect(path, isolation_level=None)
    try:
        connection.execute("PRAGMA page_size=8192")
        connection.executescript(f"PRAGMA journal_mode=OFF; {_SCHEMA} PRAGMA user_version={FORMAT};")
    except sqlite3.DatabaseError as exc:
        raise StorageFailed(f"{path}: the search index could not be written: {exc}") from exc
    finally:
        connection.close()
    file = IndexFile(path, writes=True)
    file.fetch("PRAGMA journal_mode=OFF")
    file.fetch("PRAGMA synchronous=OFF")
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
        path = current_path(folder)
        if path is None:
            break
        try:
            return IndexFile(path)
        except StorageFailed:
            if path.exists():
                raise  # else a writer has just put another one in its place: look again
        except DamagedIndex as exc:
            raise unusable(folder, exc) from exc
    raise RegistryNotFound(str(folder).removesuffix(".index"))


def unusable(folder: Path, exc: Exception) -> RegistryUnusable:
    """The damage is marked, so that the next comer builds the index anew."""
    mark_damaged(folder)
    return RegistryUnusable(
        folder, f"the search index is damaged ({str(exc)[:200]}). Ask again: it is built anew from the graph."
    )
