"""KGLite behind the contract of graph engines, for comparison only: no registry opens one."""

import base64
import tempfile
import threading
import warnings
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

import numpy as np

from waygraph.cypher import Statement
from waygraph.registry.graph.engine import GraphSession, Rows, check_params, repeat_write
from waygraph.registry.model.errors import (
    EngineError,
    RegistryClosed,
    RegistryLocked,
    RegistryUnusable,
    StorageFailed,
    WriteConflict,
)

FILE_NAME = "graph.kgl"
DAMAGED_LOG = "were set aside"
"""In the warning with which KGLite drops commits behind a damaged one. A torn tail, as a crash leaves, is cut off."""
NO_LIMITS = {"timeout_ms": 0, "max_work_units": 2**62}
"""Our statements read whole registries; KGLite ends a query after 3 minutes or 10 million units of work by default."""
EMBEDDING = "embedding"
VECTOR = "list<float>"
CODED = b"f4:"
"""A vector as text: this, then base64 of its float32 numbers. A list of numbers would be kept as 64-bit ones."""


class KGLiteEngine:
    """Implements GraphEngine and Copying over `kglite`. Its log survives a killed process; `secure` a power cut.

    Unlike others it answers a node's id where `name` is asked and there is none; our nodes all have one.
    """

    def __init__(self, session: Any, path: str, scratch: "tempfile.TemporaryDirectory[str] | None" = None) -> None:
        self._session, self._path, self._scratch = session, path, scratch
        self._closed = False
        self._writing = threading.RLock()

    @classmethod
    def open(cls, path: Path | None) -> "KGLiteEngine":
        """Opens or creates the file; None: one that is gone when closed. Raises RegistryUnusable, RegistryLocked."""
        import kglite  # pyright: ignore[reportMissingImports] - only where it is installed

        kglite.set_query_warning_policy("silent")
        scratch = tempfile.TemporaryDirectory(prefix="kglite-") if path is None else None
        file = path or Path(str(scratch and scratch.name)) / FILE_NAME
        with _opening(file), warnings.catch_warnings(record=True) as told:
            warnings.simplefilter("always")
            session = kglite.open_session(str(file), durable="normal" if path else "off")
        for warning in told:
            if DAMAGED_LOG in str(warning.message):
                raise RegistryUnusable(file, str(warning.message))
        return cls(session, str(file), scratch)

    @classmethod
    def open_copy(cls, path: Path) -> "KGLiteEngine":
        """What was last checkpointed there, read-only, also while another process writes. Raises RegistryUnusable."""
        import kglite  # pyright: ignore[reportMissingImports] - only where it is installed

        kglite.set_query_warning_policy("silent")
        with _opening(path):
            return cls(kglite.open_session(str(path)), str(path))

    def run(self, statement: Statement, /, **params: object) -> Rows:
        self._check_open()
        ask = self._session.execute if statement.writes else self._session.cypher
        return _execute(ask, statement, params, self._path)

    @contextmanager
    def transaction(self) -> Iterator[GraphSession]:
        self._check_open()
        with self._writing:
            transaction = self._session.begin()
            try:
                yield _Transaction(transaction, self._path)
            except BaseException:
                with suppress(Exception):  # the first error is the one seen
                    transaction.rollback()
                raise
            with _running(self._path):
                transaction.commit()

    def write[T](self, work: Callable[[GraphSession], T]) -> T:
        return repeat_write(self.transaction, work)

    def define(self, statement: Statement, /, **params: object) -> None:
        self.run(statement, **params)

    def secure(self) -> None:
        """Makes everything committed survive a power cut, by the log alone."""
        self._check_open()
        with _running(self._path):
            self._session.sync()

    def checkpoint(self) -> None:
        self._check_open()
        with _running(self._path):
            self._session.save()

    def save(self, path: Path) -> None:
        self._check_open()
        with _running(self._path):
            self._session.backup(str(path))

    def labels(self) -> set[str]:
        self._check_open()
        return set(self._session.node_types)

    def _check_open(self) -> None:
        # A closed KGLite session still answers reads, from before.
        if self._closed:
            raise RegistryClosed

    def close(self) -> None:
        """Checkpoints, if anything changed."""
        if self._closed:
            return
        self._closed = True
        with _running(self._path):
            if self._session.durability is not None:
                self._session.close()
        if self._scratch is not None:
            self._scratch.cleanup()


class _Transaction:
    def __init__(self, transaction: Any, path: str) -> None:
        self._transaction, self._path = transaction, path

    def run(self, statement: Statement, /, **params: object) -> Rows:
        return _execute(self._transaction.cypher, statement, params, self._path)


def _execute(ask: Callable[..., Any], statement: Statement, params: Mapping[str, object], path: str) -> Rows:
    if params or statement.params:
        check_params(statement, params)
    with _running(path, statement.name):
        coded = {name: _code(value) for name, value in params.items()}
        rows: Rows = ask(statement.text, params=coded, **NO_LIMITS).to_list()
    vectors = [name for name, kind in statement.returns.items() if kind == VECTOR]
    if vectors:
        rows = [row | {name: _decode(row[name]) for name in vectors} for row in rows]
    return rows if statement.returns else []


def _code(value: object) -> object:
    """The value, each `embedding` in its rows as text."""
    if isinstance(value, list):
        return [_code(each) for each in value] if value and isinstance(value[0], dict) else value
    if isinstance(value, dict):
        return {name: _text_of(each) if name == EMBEDDING else _code(each) for name, each in value.items()}
    return value


def _text_of(vector: object) -> str | None:
    return None if vector is None else (CODED + base64.b64encode(np.asarray(vector, dtype="<f4").tobytes())).decode()


def _decode(text: object) -> object:
    if not isinstance(text, str):
        return text
    return np.frombuffer(base64.b64decode(text.removeprefix(CODED.decode())), dtype="<f4").tolist()


@contextmanager
def _opening(path: Path) -> Iterator[None]:
    import kglite  # pyright: ignore[reportMissingImports] - only where it is installed

    try:
        yield
    except kglite.WriterLeaseHeldError as exc:
        raise RegistryLocked(path, holder=f"process {exc.holder['pid']}", waited_s=0) from exc
    except (kglite.KgError, RuntimeError, ValueError, OSError) as exc:
        raise RegistryUnusable(path, _first_line(exc)) from exc


@contextmanager
def _running(path: str, statement: str = "") -> Iterator[None]:
    import kglite  # pyright: ignore[reportMissingImports] - only where it is installed

    try:
        yield
    except kglite.TransactionConflictError as exc:
        raise WriteConflict(f"{path}: another writer was first; try again ({_first_line(exc)})") from exc
    except kglite.FileIoError as exc:
        raise StorageFailed(f"{path}: could not be written: {_first_line(exc)}") from exc
    except (kglite.KgError, RuntimeError, ValueError, TypeError, OverflowError, OSError) as exc:
        raise EngineError(f"{path}{': ' + statement if statement else ''}: {_first_line(exc)}") from exc


def _first_line(exc: Exception) -> str:
    return str(exc).partition("\n")[0]
