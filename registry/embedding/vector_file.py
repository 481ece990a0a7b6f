"""One SQLite file of vectors by key, for one embedder. Safe for several threads and processes.

It is a cache: whatever is wrong with it is logged, never raised. A damaged file is put aside and begun anew; one
that cannot be written (read-only folder, full disk) is left alone, with one warning.
"""

import hashlib
import logging
import re
import sqlite3
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import closing, contextmanager
from itertools import batched
from pathlib import Path
from typing import TYPE_CHECKING
from uuid import uuid4

import numpy as np

from waygraph.registry.errors import RegistryError
from waygraph.registry.machine.file_lock import write_lock
from waygraph.registry.settings import Settings

if TYPE_CHECKING:
    from waygraph.registry.embedding.protocol import Vector


logger = logging.getLogger(__name__)

KEYS_A_QUERY = 500
BUSY_TIMEOUT_S = 30.0
CREATE = "CREATE TABLE IF NOT EXISTS vector (key BLOB PRIMARY KEY, value BLOB NOT NULL) WITHOUT ROWID"


def vector_file_path(settings: Settings, fingerprint: str) -> Path:
    """`vectors/<fingerprint, readable>-<its hash>.sqlite` in the cache folder: no two fingerprints share one."""
    readable = re.sub(r"[^A-Za-z0-9.@+_-]+", "-", fingerprint)[-80:].strip("-.")
    digest = hashlib.sha256(fingerprint.encode()).hexdigest()[:8]
    return settings.cache_path / "vectors" / f"{readable}-{digest}.sqlite"


class VectorFile:
    """float32 vectors, little-endian, by key."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._warned = False

    def read(self, keys: Sequence[bytes], dimension: int) -> "dict[bytes, Vector]":
        """Those that are there and of that dimension."""
        found = self._attempt(lambda database: dict(_select(database, keys))) or {}
        return {key: vector for key, vector in found.items() if len(vector) == dimension}

    def write(self, vectors: "Mapping[bytes, Vector]") -> None:
        rows = [(key, vector.astype("<f4", copy=False).tobytes()) for key, vector in vectors.items()]
        self._attempt(lambda database: _insert(database, rows))

    def _attempt[T](self, work: Callable[[sqlite3.Connection], T]) -> T | None:
        """The work's result; None if the file does not let itself be used."""
        try:
            try:
                return self._run(work)
            except sqlite3.OperationalError:
                raise
            except sqlite3.DatabaseError as exc:
                with write_lock(self._path, BUSY_TIMEOUT_S):
                    if not self._is_sound():  # somebody else may have met it, and begun it anew
                        self._put_aside(exc)
                return self._run(work)
        except (sqlite3.Error, OSError, RegistryError) as exc:  # the last: of the lock
            self._warn_once(exc)
            return None

    def _run[T](self, work: Callable[[sqlite3.Connection], T]) -> T:
        with self._open() as database:
            return work(database)

    @contextmanager
    def _open(self) -> Iterator[sqlite3.Connection]:
        """A connection of its own for each use: none is shared by threads, none survives a fork."""
        self._path.parent.mkdir(parents=True, exist_ok=True)
        with closing(sqlite3.connect(self._path, timeout=BUSY_TIMEOUT_S)) as database:
            database.execute("PRAGMA journal_mode = WAL")
            database.execute("PRAGMA synchronous = NORMAL")
            database.execute(CREATE)
            yield database

    def _is_sound(self) -> bool:
        try:
            return self._run(lambda database: list(database.execute("PRAGMA quick_check(1)")) == [("ok",)])
        except sqlite3.OperationalError:
            raise
        except sqlite3.DatabaseError:
            return False

    def _put_aside(self, reason: Exception) -> None:
        aside = self._path.with_suffix(f".damaged-{uuid4().hex[:8]}")
        self._path.replace(aside)
        for suffix in ("-wal", "-shm"):
            self._path.with_name(self._path.name + suffix).unlink(missing_ok=True)
        logger.warning("%s is damaged (%s): put aside as %s, begun anew", self._path, reason, aside.name)

    def _warn_once(self, reason: Exception) -> None:
        if not self._warned:
            self._warned = True
            logger.warning("vectors are not kept: %s cannot be used (%s)", self._path, reason)


def _insert(database: sqlite3.Connection, rows: Sequence[tuple[bytes, bytes]]) -> None:
    with database:
        database.executemany("INSERT OR REPLACE INTO vector VALUES (?, ?)", rows)


def _select(database: sqlite3.Connection, keys: Sequence[bytes]) -> "Iterator[tuple[bytes, Vector]]":
    for some in batched(keys, KEYS_A_QUERY):
        marks = ",".join("?" * len(some))
        found = database.execute(f"SELECT key, value FROM vector WHERE key IN ({marks})", some)  # noqa: S608 - marks only
        yield from ((key, np.frombuffer(value, dtype="<f4")) for key, value in found if len(value) % 4 == 0)
