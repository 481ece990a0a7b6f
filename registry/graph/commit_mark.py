"""A mark in the graph that says: a commit is going on, what is read now may be of two revisions.

Neo4j applies a commit piece by piece, and readers see the pieces. The mark stands in a node of its own, which the
committing transaction does not touch; a thread renews it, so that the mark of a writer that died is known by its age.
"""

import secrets
import threading
from collections.abc import Callable, Mapping
from contextlib import suppress
from typing import NamedTuple, Self

from waygraph.cypher import Statement, load
from waygraph.registry.graph.engine import GraphSession, Rows
from waygraph.registry.model.errors import RegistryError

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
