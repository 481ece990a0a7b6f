"""The embedded engine: one Grafeo file, held by one process at a time. Its traps: docs/storage.md."""

import ctypes
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

from waygraph.cypher import Statement
from waygraph.registry.graph.engine import GraphSession, Rows, check_params, repeat_write
from waygraph.registry.model import errors
from waygraph.registry.model.files import storage_errors, sync_path

WAL_CHECKPOINT_BYTES = 8 * 1024 * 1024
"""Of a log: a longer one becomes part of its file at the end of a write."""
SHORT_WAL_BYTES = 256 * 1024
"""So short a one does not, however small the file is."""


def log_of(path: Path) -> Path:
    """The folder of the log beside a graph file: appended to by each commit, begun anew by a checkpoint."""
    return path.with_name(f"{path.name}.wal")


def graph_stamps(path: Path) -> dict[Path, tuple[int, ...]]:
    """Of a graph file and each part of its log: number, size, time. Others where anything was written to them."""
    statuses = {}
    for file in (path, *sorted(log_of(path).glob("*"))):
        with suppress(FileNotFoundError):
            statuses[file] = file.stat()
    return {file: (each.st_ino, each.st_size, each.st_mtime_ns) for file, each in statuses.items()}


class GrafeoEngine:
    """Implements GraphEngine over `grafeo`."""

    def __init__(self, database: Any, path: str) -> None:
        self._database: Any = database
        self._path = path
        self._closed = self._is_held = False
        self._writing = threading.RLock()

    @classmethod
    def open(cls, path: Path | None) -> "GrafeoEngine":
        """Opens or creates the file; None: in memory. Raises RegistryUnusable, RegistryLocked."""
        import grafeo

        _refuse_empty(path)
        try:
            database = grafeo.GrafeoDB(str(path)) if path else grafeo.GrafeoDB()
        except (grafeo.GrafeoError, RuntimeError, OSError) as exc:
            raise _opening_error(path, exc) from exc
        engine = cls(database, str(path or ":memory:"))
        if (
            path
        ):  # only `close` ends it: dropping the object would make a checkpoint, for which no process that ends waits
            ctypes.pythonapi.Py_IncRef(ctypes.py_object(database))
            engine._is_held = True
        # Uniqueness constraints do not index: without the one on ids writes become quadratic, without the one on what
        # changes are of each write looks at all that are kept, and without the one on names at all tools.
        for name in ("id", "agent_id", "name"):
            if not database.has_property_index(name):
                database.create_property_index(name)
        return engine

    @classmethod
    def open_copy(cls, path: Path) -> "GrafeoEngine":
        """A published copy, read-only; several processes may. Raises RegistryUnusable."""
        import grafeo

        _refuse_empty(path)
        try:
            return cls(grafeo.GrafeoDB.open_read_only(str(path)), str(path))
        except (grafeo.GrafeoError, RuntimeError, OSError) as exc:
            raise _opening_error(path, exc) from exc

    def run(self, statement: Statement, /, **params: object) -> Rows:
        self._check_open()
        return _execute(self._database, statement, params, self._path)

    @contextmanager
    def transaction(self) -> Iterator[GraphSession]:
        self._check_open()
        with self._writing:
            # Grafeo's own `with` commits on every way out and hides the first error: begin and end by hand.
            transaction = GrafeoTransaction(self._database.begin_transaction(), self._path)
            try:
                yield transaction
                transaction.commit()
            finally:
                transaction.end()

    @contextmanager
    def snapshot(self) -> Iterator[GraphSession]:
        """What is committed when it begins, beside whoever writes."""
        self._check_open()
        transaction = GrafeoTransaction(self._database.begin_transaction(), self._path)
        try:
            yield transaction
        finally:
            transaction.end()

    def write[T](self, work: Callable[[GraphSession], T]) -> T:
        return repeat_write(self.transaction, work)

    def define(self, statement: Statement, /, **params: object) -> None:
        self.run(statement, **params)

    def checkpoint(self) -> None:
        """Writes the graph of memory to the file, and begins the log anew, whatever became of that meanwhile."""
        self._ensure_log()
        self._guard(lambda: self._database.wal_checkpoint())  # noqa: PLW0108 - a closed graph has no database

    def renew_files(self) -> None:
        """The same where another program changed the file or its log. Raises RegistryUnusable, StorageFailed."""
        path = Path(self._path)
        self.checkpoint()
        for part in log_of(path).glob("*"):  # a damaged part would be read before what is written next
            part.unlink(missing_ok=True)
        refuse_foreign(path)

    def _ensure_log(self) -> None:
        """Grafeo makes a segment of the log, but not its folder."""
        if self._is_held:
            with suppress(OSError):  # without room or right the engine says so
                log_of(Path(self._path)).mkdir(exist_ok=True)

    def secure(self) -> None:
        """Everything committed survives a power cut: by a checkpoint where the log is long or gone, else in the log.

        Nothing in memory. Raises StorageFailed.
        """
        if not self._is_held:
            return
        self._ensure_log()
        folder = log_of(Path(self._path))
        with storage_errors(folder):
            log = [*folder.iterdir()]
            # Whoever opens the file reads its log: that of a first write would take longer than the file.
            longest = min(WAL_CHECKPOINT_BYTES, max(SHORT_WAL_BYTES, Path(self._path).stat().st_size // 4))
            if not log or sum(file.stat().st_size for file in log) > longest:
                self.checkpoint()
                return
            for each in (*log, folder):
                sync_path(each)

    def save(self, path: Path) -> None:
        """A copy as a file, which several processes may read."""
        self._guard(lambda: self._database.save(str(path)))

    def labels(self) -> set[str]:
        """The node labels in use, by which a foreign graph is known."""
        self._check_open()
        return {str(label["name"]) for label in self._database.schema()["labels"] if label["count"]}

    def _guard(self, action: Callable[[], object]) -> None:
        self._check_open()
        try:
            action()
        except (RuntimeError, OSError) as exc:
            raise _running_error(self._path, exc, of_change=False) from exc

    def _check_open(self) -> None:
        # A closed Grafeo object still answers reads, from before.
        if self._closed:
            raise errors.RegistryClosed

    def close(self) -> None:
        if self._closed:
            return
        self._closed = True
        self._ensure_log()
        try:
            self._database.close()
        except (RuntimeError, OSError) as exc:
            raise _running_error(self._path, exc, of_change=False) from exc
        finally:
            if self._is_held:
                ctypes.pythonapi.Py_DecRef(ctypes.py_object(self._database))
            self._database = None  # a database that could not be closed holds its file until nothing refers to it

    def abandon(self) -> None:
        """Not used any more, nor closed: file and log stay as they are, the memory is lost until the process ends."""
        self._closed = True


class GrafeoTransaction:
    """Implements GraphSession while it lasts."""

    def __init__(self, transaction: Any, path: str) -> None:
        self._transaction, self._path = transaction, path

    def run(self, statement: Statement, /, **params: object) -> Rows:
        return _execute(self._transaction, statement, params, self._path)

    def commit(self) -> None:
        try:
            self._transaction.commit()
        except RuntimeError as exc:
            raise _running_error(self._path, exc) from exc
        self._transaction = None

    def end(self) -> None:
        """Undoes what was not committed. The traceback of an error may keep this, and with a transaction of the engine
        it would keep the file open, whoever closes the engine.
        """
        transaction, self._transaction = self._transaction, None
        if transaction is not None:
            with suppress(RuntimeError):  # there is nothing to undo
                transaction.rollback()


def _execute(target: Any, statement: Statement, params: dict[str, object], path: str) -> Rows:
    if params or statement.params:
        check_params(statement, params)
    try:
        return list(target.execute_cypher(statement.text, params))
    except (RuntimeError, ValueError, TypeError) as exc:
        raise _running_error(path, exc, statement.name) from exc


_NO_ROOM = ("GRAFEO-T009", "(os error 27)", "(os error 28)", "(os error 30)", "(os error 122)")
"""A commit that could not be written; file too large, no space left, a read-only disk, no quota left."""
_MAGIC = b"GRAF"
_HEAD = 32
"""Bytes of a file: magic, version, size of a page, and 16 of chance."""
_NO_GRAPH = "it is not a Grafeo file. It was left as it is."


def mark_of(path: Path) -> str:
    """What Grafeo wrote into a file when it made it, and into no other; empty: there is no such file."""
    with suppress(OSError), path.open("rb") as file:
        if (head := file.read(_HEAD)).startswith(_MAGIC):
            return head[-16:].hex()
    return ""


def refuse_foreign(path: Path) -> None:
    """Raises RegistryUnusable for what is there and is no file of Grafeo's, by a look at its first bytes."""
    _refuse_empty(path)
    try:
        with path.open("rb") as file:
            if file.read(len(_MAGIC)) != _MAGIC:
                raise errors.RegistryUnusable(path, _NO_GRAPH)
    except FileNotFoundError:
        pass
    except IsADirectoryError as exc:
        raise errors.RegistryUnusable(path, "it is a folder, not a Grafeo file.") from exc
    except OSError as exc:
        raise errors.StorageFailed(f"{path}: cannot be read: {exc.strerror}") from exc


def _refuse_empty(path: Path | None) -> None:
    if path is not None and path.is_file() and path.stat().st_size == 0:
        raise errors.RegistryUnusable(path, "the file is empty. Remove it, or restore it from a copy.")


def _opening_error(path: Path | None, exc: Exception) -> errors.RegistryError:
    message = _first_line(exc)
    if "cannot be locked" in message:
        return errors.RegistryLocked(path or ":memory:", holder="another process that holds the graph file", waited_s=0)
    if "not a Grafeo database" in message or "not a database file" in message:
        return errors.RegistryUnusable(path or "", _NO_GRAPH)
    if "S002" in message:
        return errors.RegistryUnusable(path or "", f"it is damaged ({message}). It was left as it is; restore a copy.")
    if any(sign in message for sign in _NO_ROOM):
        return errors.StorageFailed(f"{path}: cannot be written, nothing was changed: {message}")
    return errors.RegistryUnusable(path or "", message)


def _running_error(path: str, exc: Exception, statement: str = "", *, of_change: bool = True) -> errors.RegistryError:
    """`of_change`: it ends a transaction; else what was committed stays."""
    message = _first_line(exc)
    if "GRAFEO-T001" in message:
        return errors.WriteConflict(f"{path}: another writer changed the same node first; try again ({message})")
    if any(sign in message for sign in _NO_ROOM):
        outcome = ", nothing of this change was kept" if of_change else ""
        return errors.StorageFailed(f"{path}: could not be written{outcome}: {message}")
    return errors.EngineError(f"{path}{': ' + statement if statement else ''}: {message}")


def _first_line(exc: Exception) -> str:
    return str(exc).partition("\n")[0]
