"""How a place that holds no registry is filled with a whole one: readers find nothing there until all of it is."""

from collections.abc import Callable, Collection
from dataclasses import dataclass
from typing import Protocol

from waygraph.registry.errors import RegistryUnusable
from waygraph.registry.graph.engine import GraphSession
from waygraph.registry.graph.reading import RegistryState, read_state

Work = Callable[[GraphSession], None]


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
    def session(self) -> GraphSession:
        """Shows what an earlier attempt at the same copy has left."""
        ...

    def put(self, agent_ids: Collection[str], work: Work) -> None:
        """A part of bounded size: of agents and their tools it changes only these."""
        ...

    def finish(self, work: Work) -> None:
        """The last part, which makes the Registry node. It may run more than once."""
        ...


class AtOnce:
    """Implements Filling in one transaction, for an engine that nobody else reads or writes meanwhile."""

    def __init__(self, session: GraphSession, place: str) -> None:
        """Raises RegistryUnusable if there is a registry."""
        refuse_registry(place, read_state(session))
        self.session = session

    def put(self, agent_ids: Collection[str], work: Work) -> None:  # noqa: ARG002 - the index is made afterwards
        work(self.session)

    def finish(self, work: Work) -> None:
        work(self.session)


def refuse_registry(place: str, held: RegistryState | None) -> None:
    """Raises RegistryUnusable if there is one."""
    if held is not None:
        raise RegistryUnusable(
            place,
            f"it holds another registry already, at revision {held.revision}. It was left as it is; "
            "copy to a place that holds none.",
        )
