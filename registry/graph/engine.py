"""What a graph engine is: run a declared statement, run several in one transaction, close."""

from collections.abc import Callable
from contextlib import AbstractContextManager
from pathlib import Path
from typing import Any, Protocol, runtime_checkable

from waygraph.cypher import Statement

Rows = list[dict[str, Any]]


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


@runtime_checkable
class Copying(Protocol):
    """An engine that can write a copy of its graph as a file which several processes may read."""

    def save(self, path: Path) -> None: ...

    def checkpoint(self) -> None:
        """Makes everything committed survive a power cut."""
        ...
