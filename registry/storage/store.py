"""What every place of a registry does: a graph to write, a search index to read, a whole copy to take in."""

from collections.abc import Callable, Collection, Mapping
from contextlib import AbstractContextManager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from waygraph.registry.graph.contents import Contents
    from waygraph.registry.graph.engine import GraphSession
    from waygraph.registry.index.search_index import SearchIndex
    from waygraph.registry.model.changes import CypherResult
    from waygraph.registry.writer import Writing


type Work = Callable[[GraphSession], None]


@dataclass(frozen=True, slots=True, kw_only=True)
class Origin:
    """The revision that a copy is of; no other change has its `commit`. `dimension` of its vectors, 0 without any."""

    place: str
    revision: int
    commit: str
    dimension: int = 0


class Filling(Protocol):
    """A place while it is filled. An error on the way leaves no registry."""

    @property
    def session(self) -> "GraphSession":
        """Shows what an earlier attempt at the same copy has left."""
        ...

    def put(self, agent_ids: Collection[str], work: Work) -> None:
        """A part of bounded size: of agents and their tools it changes only these."""
        ...

    def finish(self, work: Work) -> None:
        """The last part, which makes the Registry node. It may run more than once."""
        ...


class Place(Protocol):
    """Where a registry is."""

    @property
    def place(self) -> str:
        """For people: no secret in it."""
        ...

    @property
    def exists(self) -> bool:
        """Whether there is a registry to read. Raises RegistryUnusable, ServerUnavailable."""
        ...


class Store(Place, Protocol):
    """Threads may share it."""

    def index(self, *, fresh: bool = False) -> "SearchIndex":
        """`fresh`: its `state` and lists are of now, not of when it was last asked. Raises RegistryNotFound."""
        ...

    def look[T](self, work: "Callable[[SearchIndex], T]") -> T:
        """What `work` finds in the index of one revision; it may run more than once. Raises RegistryNotFound."""
        ...

    def read[T](self, work: "Callable[[GraphSession], T]", *, before_write: bool = False) -> T:
        """What `work` makes of one revision, read whole; it may run more than once. Raises RegistryNotFound.

        `before_write`: by whoever writes next, for which a place may already make ready.
        """
        ...

    def contents(self, *parts: str) -> "Contents":
        """These parts of the revision that lists show, as `read_whole` names them. Raises RegistryNotFound."""
        ...

    def writing(self, *, trust_index: bool = True, alone: bool = False) -> "AbstractContextManager[Writing]":
        """To write; where a place has one writer at a time it is held alone. `alone`: it may take long, and is
        published by itself. Raises RegistryLocked, StorageFailed.
        """
        ...

    def filling(self, origin: Origin) -> AbstractContextManager[Filling]:
        """To copy a whole registry to a place that holds none. Raises RegistryUnusable if it does, and as `writing`."""
        ...

    def run_read_only(self, statement: str, params: Mapping[str, object]) -> "CypherResult":
        """A statement that a person typed. Raises CypherRefused, CypherFailed, CypherLimit, CypherBusy."""
        ...

    def close(self) -> None: ...
