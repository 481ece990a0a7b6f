"""Graph engines: sessions, the values that may be stored, batches of rows, and who still works with an engine.

A mark in the graph that says: a commit is going on, what is read now may be of two revisions.

Neo4j applies a commit piece by piece, and readers see the pieces. The mark stands in a node of its own, which the
committing transaction does not touch; a thread renews it, so that the mark of a writer that died is known by its age.
"""

import random
import secrets
import threading
import time
from collections.abc import Callable, Mapping
from contextlib import AbstractContextManager, suppress
from threading import Condition
from typing import Any, NamedTuple, Protocol, Self

from waygraph.cypher import TYPES, BadStatement, Statement, load
from waygraph.registry.model.errors import EngineError, RegistryClosed, RegistryError, WriteConflict

Rows = list[dict[str, Any]]

WRITE_ATTEMPTS = 8


class GraphSession(Protocol):
    """Runs statements: an engine (each in its own transaction) or an open transaction (all in one)."""

    def run(self, statement: Statement, /, **params: object) -> Rows:
        """The rows, in the statement's order. Raises BadStatement if params are not the declared ones."""
        ...


class GraphEngine(GraphSession, Protocol):
    """A graph database. Threads may share it; errors of the engine arrive as RegistryError."""

    def transaction(self) -> AbstractContextManager[GraphSession]:
        """Commits at the end of the block, rolls back if it raises; the first error is the one seen."""
        ...

    def write[T](self, work: Callable[[GraphSession], T]) -> T:
        """`work` in one transaction, run again from the start if it met another writer."""
        ...

    def define(self, statement: Statement, /, **params: object) -> None:
        """Runs a schema statement. Not transactional everywhere: it must be safe to repeat, even at the same time."""
        ...

    def close(self) -> None: ...


MAX_TEXT_CHARS = 16 * 1024 * 1024
_PLAIN = (str, int, float, bool, type(None), list, dict)
_IDS = frozenset({"id", "agent_id", "source", "name"})
_ID_LISTS = frozenset({"ids", "agent_ids"})


def repeat_write[T](
    transaction: Callable[[], AbstractContextManager[GraphSession]], work: Callable[[GraphSession], T]
) -> T:
    """What `work` does in a transaction; done again, from its start, if another writer was first. Raises WriteConflict
    after WRITE_ATTEMPTS.
    """
    for attempt in range(1, WRITE_ATTEMPTS + 1):
        try:
            with transaction() as session:
                return work(session)
        except WriteConflict:
            if attempt == WRITE_ATTEMPTS:
                raise
            time.sleep(random.uniform(0, 0.005 * 2**attempt))  # noqa: S311 - jitter, not a secret
    raise AssertionError("unreachable")


def check_params(statement: Statement, params: Mapping[str, object]) -> None:
    """Raises BadStatement unless these are the declared parameters, each of its type; EngineError for an id that is
    no non-empty string, and for a value that an engine cannot keep.

    Grafeo finds '1' for 1, and MERGE on a null id makes a node without one; Neo4j would keep a duration.
    """
    if params.keys() != statement.params.keys():
        raise BadStatement(f"{statement.name} takes {sorted(statement.params)}, was given {sorted(params)}")
    for name, kind in statement.params.items():
        value = params[name]
        if not isinstance(value, TYPES[kind]) or (isinstance(value, bool) and kind != "boolean"):
            raise BadStatement(f"{statement.name}: ${name} is declared {kind}, was given {type(value).__name__}")
    for name, value in params.items():
        for row in value if isinstance(value, list) else [{name: value}]:
            if name in _ID_LISTS:
                _check_id(row, name)
            for key, part in row.items() if isinstance(row, dict) else ():
                if key in _IDS:
                    _check_id(part, name)
                for each in part.values() if isinstance(part, dict) else (part,):
                    _check_value(each, name)


def _check_id(value: object, name: str) -> None:
    if not (isinstance(value, str) and value):
        raise EngineError(f"an id must be a non-empty string, not {value!r} (in ${name})")


def _check_value(value: object, name: str) -> None:
    if not isinstance(value, _PLAIN):
        raise EngineError(f"a value of type {type(value).__name__} cannot be stored (in ${name})")
    if isinstance(value, str):
        if len(value) > MAX_TEXT_CHARS:
            raise EngineError(f"a text of {len(value):,} characters is too long to be stored (in ${name})")
        try:
            value.encode()
        except UnicodeEncodeError as exc:
            raise EngineError(f"a text that is no valid Unicode cannot be stored (in ${name}): {exc}") from exc


BATCH_ROWS, BATCH_VECTORS = 1_000, 250
"""Rows a statement; the latter of rows with vectors, of which one of 384 floats takes 12 kB as a Python list."""


class Gate:
    """Entered by each thread for as long as it is at work; it may enter again. Once closed it lets nobody in."""

    def __init__(self) -> None:
        self._changed = Condition()
        self._inside = 0
        self.closed = False

    def __enter__(self) -> Self:
        """Raises RegistryClosed."""
        with self._changed:
            if self.closed:
                raise RegistryClosed
            self._inside += 1
        return self

    def __exit__(self, *_: object) -> None:
        with self._changed:
            self._inside -= 1
            self._changed.notify_all()

    def close(self, timeout_s: float) -> None:
        """Returns when nobody is inside any more, at the latest after this time."""
        with self._changed:
            self.closed = True
            self._changed.wait_for(lambda: not self._inside, timeout_s)


_NEO4J_COMMIT_CLEAR_MARK = load("neo4j/commit/clear_mark")
_NEO4J_COMMIT_KEEP_MARK = load("neo4j/commit/keep_mark")
_NEO4J_COMMIT_MARK = load("neo4j/commit/mark")
_NEO4J_COMMIT_READ_MARK = load("neo4j/commit/read_mark")

RENEWED_EVERY_S = 1.0
DEAD_COMMIT_MS = 5_000
"""A living writer renews its mark every second; an older one is a dead writer's."""


class Moment(NamedTuple):
    """Where the registry is; `whole`: no writer is committing. What is read between two equal whole ones is whole."""

    revision: int
    commit: str
    whole: bool

    @classmethod
    def read(cls, session: GraphSession) -> "Moment | None":
        """None: there is no registry."""
        if not (rows := session.run(_NEO4J_COMMIT_READ_MARK)):
            return None
        row = rows[0]
        return cls(row["revision"], row["commit"], not is_committing(row["committing_ms"]))


def is_committing(since_ms: int) -> bool:
    """Whether a mark of this age (-1: there is none) is a living writer's."""
    return 0 <= since_ms < DEAD_COMMIT_MS


class CommitMark:
    """`begin` sets the mark, right before a commit; leaving the block takes it away. Nothing if it never began.

    `run` does not wait for a server that went away: the commit does, and says what is wrong.
    """

    def __init__(self, run: Callable[[Statement, Mapping[str, object]], Rows]) -> None:
        self._run = run
        self._token = secrets.token_hex(8)
        self._ended = threading.Event()
        self._thread: threading.Thread | None = None

    def __enter__(self) -> Self:
        return self

    def begin(self) -> None:
        self._run(_NEO4J_COMMIT_MARK, {"token": self._token})
        if self._thread is None:
            self._thread = threading.Thread(target=self._renew, name="commit-mark", daemon=True)
            self._thread.start()

    def _renew(self) -> None:
        while not self._ended.wait(RENEWED_EVERY_S):
            with suppress(RegistryError):  # the commit itself will say what is wrong with the server
                self._run(_NEO4J_COMMIT_KEEP_MARK, {"token": self._token})

    def __exit__(self, *_: object) -> None:
        if self._thread is None:
            return
        self._ended.set()
        self._thread.join()
        with suppress(RegistryError):  # what was committed is committed; a mark that nobody renews counts no more soon
            self._run(_NEO4J_COMMIT_CLEAR_MARK, {"token": self._token})
