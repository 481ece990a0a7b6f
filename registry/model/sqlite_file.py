"""An SQLite file of one table that may be lost: safe for several threads and processes, begun anew if it is damaged."""

import logging
import os
import sqlite3
from collections.abc import Callable, Iterator
from contextlib import ExitStack, closing, contextmanager
from pathlib import Path
from threading import local
from uuid import uuid4

from waygraph.registry.model.errors import RegistryError, StorageFailed
from waygraph.registry.model.files import write_lock

logger = logging.getLogger(__name__)

BUSY_TIMEOUT_S = 30.0
PAGE_BYTES = 8192
"""Five vectors of 384 numbers a page, where SQLite's own 4,096 bytes take two."""
CHECKPOINT_PAGES = 8_000
"""In the log, before they are written into the file: random keys change the same pages of their index again and again.
"""
CACHE_KIB = 32_000
"""The index of a million random keys, so that a page of it is not written again and again within a transaction."""


class SqliteFile:
    """`create`: the statement that makes the table. `mode` None: as the process makes files."""

    def __init__(self, path: Path, create: str, *, mode: int | None = None) -> None:
        self.path, self._create, self._mode = path, create, mode
        self._kept = local()

    @contextmanager
    def kept_open(self) -> Iterator[None]:
        """The thread's uses in the block share a connection: to close it brings the whole log into the file."""
        if hasattr(self._kept, "database"):
            yield
            return
        self._kept.database = None
        try:
            yield
        finally:
            if database := self._kept.__dict__.pop("database"):
                database.close()

    def run[T](self, work: Callable[[sqlite3.Connection], T]) -> T:
        """The work's result, in one transaction. Raises StorageFailed for a file that does not let itself be used."""
        try:
            try:
                return self._attempt(work)
            except sqlite3.OperationalError:
                raise
            except sqlite3.DatabaseError as exc:
                with write_lock(self.path, BUSY_TIMEOUT_S):
                    if not self._is_sound():  # somebody else may have met it, and begun it anew
                        self._let_go()
                        self._put_aside(exc)
                return self._attempt(work)
        except (sqlite3.Error, OSError, RegistryError) as exc:  # the last: of the lock
            raise StorageFailed(f"{self.path} cannot be used ({exc})") from exc

    def _attempt[T](self, work: Callable[[sqlite3.Connection], T]) -> T:
        with self.kept_open():
            database = self._kept.database = self._kept.database or self._open()
            try:
                with database:
                    return work(database)
            except sqlite3.DatabaseError:  # it may be of a file that is put aside
                self._let_go()
                raise

    def _let_go(self) -> None:
        """The thread's next use opens the file anew."""
        if database := getattr(self._kept, "database", None):
            database.close()
            self._kept.database = None

    def _open(self) -> sqlite3.Connection:
        """None is shared by threads, none survives a fork."""
        self.path.parent.mkdir(parents=True, exist_ok=True)
        if self._mode is not None:  # what SQLite makes beside it has the mode of the file
            os.close(os.open(self.path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, self._mode))
        with ExitStack() as opening:
            database = opening.enter_context(closing(sqlite3.connect(self.path, timeout=BUSY_TIMEOUT_S)))
            database.execute(f"PRAGMA page_size = {PAGE_BYTES}")  # of a file that is begun now
            database.execute("PRAGMA journal_mode = WAL")
            database.execute("PRAGMA synchronous = NORMAL")
            database.execute(f"PRAGMA wal_autocheckpoint = {CHECKPOINT_PAGES}")
            database.execute(f"PRAGMA cache_size = -{CACHE_KIB}")
            database.execute(self._create)
            opening.pop_all()
        return database

    def _is_sound(self) -> bool:
        try:
            return self._attempt(lambda database: list(database.execute("PRAGMA quick_check(1)")) == [("ok",)])
        except sqlite3.OperationalError:
            raise
        except sqlite3.DatabaseError:
            return False

    def _put_aside(self, reason: Exception) -> None:
        aside = self.path.with_suffix(f".damaged-{uuid4().hex[:8]}")
        self.path.replace(aside)
        for suffix in ("-wal", "-shm"):
            self.path.with_name(self.path.name + suffix).unlink(missing_ok=True)
        logger.warning("%s is damaged (%s): put aside as %s, begun anew", self.path, reason, aside.name)
