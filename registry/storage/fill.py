"""A copy that comes to a graph server in parts, each in a transaction of its own.

Until the last one the graph bears a mark, `(:Copy {id: 'copy'})`, that names what it is a copy of, and no Registry
node: readers find no registry, and no writer makes one (`cypher/neo4j/state/create.cypher`). Whoever copies the same
revision again takes the mark over and goes on; the one that had it is noticed to be late by its token.
"""

import secrets
from collections.abc import Collection
from dataclasses import asdict, replace

from waygraph.cypher import load
from waygraph.registry.graph.engine import BATCH_ROWS, GraphEngine, GraphSession
from waygraph.registry.graph.read import RegistryState, read_state
from waygraph.registry.graph.schema import LABELS
from waygraph.registry.model.errors import CopyDiffers, RegistryUnusable, WriteConflict
from waygraph.registry.storage.store import Origin, Work
from waygraph.registry.writer import Writing

_NEO4J_COPY_BEGIN = load("neo4j/copy/begin")
_NEO4J_COPY_CLEAR = load("neo4j/copy/clear")
_NEO4J_COPY_END = load("neo4j/copy/end")
_NEO4J_COPY_HOLD = load("neo4j/copy/hold")
_NEO4J_COPY_READ = load("neo4j/copy/read")
_NEO4J_SCHEMA_FOREIGN_LABELS = load("neo4j/schema/foreign_labels")

_LABELS = sorted({*LABELS, "Term"} - {"Registry", "Migration"})
"""Of the nodes that a copy brings, and of those that its index makes of them."""


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


def refuse_registry(place: str, state: RegistryState | None) -> None:
    """Raises RegistryUnusable if there is one."""
    if state is not None:
        raise RegistryUnusable(
            place,
            f"it holds another registry already, at revision {state.revision}. It was left as it is; "
            "copy to a place that holds none.",
        )


USELESS = -1
"""No registry has this revision: what is marked so is cleared by whoever comes next."""


class InParts:
    """Implements Filling."""

    def __init__(self, writing: Writing, origin: Origin, place: str) -> None:
        """Clears what an attempt at another revision of the same registry left.

        Raises RegistryUnusable if the graph holds a registry, or part of a copy of another one.
        """
        self._engine, self._keep, self._origin, self._place = writing.engine, writing.keep, origin, place
        self._token = secrets.token_hex(8)
        if (earlier := find_unfinished(self._engine)) is None:
            if strays := self._engine.run(_NEO4J_SCHEMA_FOREIGN_LABELS, labels=_LABELS):
                labels = ", ".join(row["label"] for row in strays)
                raise RegistryUnusable(place, f"there are {labels} nodes that are of no registry. Empty it first.")
        elif (earlier.revision, earlier.commit) != (origin.revision, origin.commit):
            refuse_unfinished(place, earlier if earlier.place != origin.place else None)
            self._clear()
        self._mark(origin)

    @property
    def session(self) -> GraphSession:
        return self._engine

    def put(self, agent_ids: Collection[str], work: Work) -> None:
        def part(session: GraphSession) -> None:
            self._hold(session)
            with self._keep(session, agent_ids):
                work(session)

        self._engine.write(part)

    def finish(self, work: Work) -> None:
        def whole(session: GraphSession) -> None:
            self._hold(session)
            session.run(_NEO4J_COPY_END, token=self._token)
            work(session)

        try:
            self._engine.write(whole)
        except CopyDiffers:
            self._mark(replace(self._origin, revision=USELESS))
            raise

    def _mark(self, origin: Origin) -> None:
        if not self._engine.run(_NEO4J_COPY_BEGIN, props=asdict(origin) | {"token": self._token}):
            refuse_registry(self._place, read_state(self._engine))
            raise WriteConflict(f"{self._place}: another writer made a registry there and removed it; try again")

    def _hold(self, session: GraphSession) -> None:
        if not session.run(_NEO4J_COPY_HOLD, token=self._token):
            raise WriteConflict(f"{self._place}: another `waygraph migrate` has taken this copy over")

    def _clear(self) -> None:
        self._mark(replace(self._origin, revision=USELESS))

        def some(session: GraphSession) -> int:
            self._hold(session)
            return int(session.run(_NEO4J_COPY_CLEAR, labels=_LABELS, rows=BATCH_ROWS)[0]["removed"])

        while self._engine.write(some):
            pass


def find_unfinished(engine: GraphEngine) -> Origin | None:
    """What the copy is of that lies in this graph and is not whole."""
    rows = engine.run(_NEO4J_COPY_READ)
    return Origin(**rows[0]) if rows else None


def refuse_unfinished(place: str, origin: Origin | None) -> None:
    """Raises RegistryUnusable if there is one."""
    if origin is not None:
        raise RegistryUnusable(
            place,
            f"a copy of {origin.place} was begun there and is not whole. `waygraph migrate {origin.place} {place}` "
            "goes on with it; or empty it.",
        )
