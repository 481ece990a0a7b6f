"""The server store: a registry on Neo4j. Any number of processes read and write it; nothing of it lies here."""

import secrets
import threading
import time
from collections.abc import Callable, Collection, Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager, suppress
from dataclasses import asdict, replace
from typing import TYPE_CHECKING

from waygraph.cypher import load
from waygraph.registry.graph.engine import BATCH_ROWS, GraphEngine, GraphSession, Moment
from waygraph.registry.graph.neo4j import IN_INDEX_FILTERS, Neo4jEngine
from waygraph.registry.graph.neo4j_address import ServerLocation
from waygraph.registry.graph.read import RegistryState, read_state
from waygraph.registry.graph.schema import LABELS, migrate, seen_migrations
from waygraph.registry.graph.user_cypher.sandbox import CypherPlaces
from waygraph.registry.index.neo4j_index import Neo4jIndex, renew_schema
from waygraph.registry.index.neo4j_upkeep import drop_other_vector_indexes, keep_index, make_text_indexes, renew_index
from waygraph.registry.model import clock, errors
from waygraph.registry.model.settings import Settings
from waygraph.registry.storage.noun_list import read_whole
from waygraph.registry.storage.store import Filling, Origin, Work, refuse_registry
from waygraph.registry.writer import Writing

if TYPE_CHECKING:
    from waygraph.registry.graph.contents import Contents
    from waygraph.registry.model.changes import CypherResult

_NEO4J_CHECK_INDEXES = load("neo4j/check/indexes")
_NEO4J_COPY_BEGIN = load("neo4j/copy/begin")
_NEO4J_COPY_CLEAR = load("neo4j/copy/clear")
_NEO4J_COPY_END = load("neo4j/copy/end")
_NEO4J_COPY_HOLD = load("neo4j/copy/hold")
_NEO4J_COPY_READ = load("neo4j/copy/read")
_NEO4J_SCHEMA_FOREIGN_LABELS = load("neo4j/schema/foreign_labels")
_NEO4J_SEARCH_STATE = load("neo4j/search/state")

OURS = frozenset(LABELS) - {"Migration"}
INDEXES_READY_S = 300
NEVER_WHOLE = "writers have been committing all the while"
_PAUSE_S = 0.05


class ServerStore:
    """Implements Store over one Neo4jEngine. Threads may share it."""

    def __init__(self, engine: Neo4jEngine, settings: Settings, places: CypherPlaces) -> None:
        self.engine, self._settings, self._places = engine, settings, places
        self._lock = threading.Lock()
        self._index: Neo4jIndex | None = None
        self._ready = False
        self._closed = False

    @classmethod
    def at(cls, location: str, settings: Settings) -> "ServerStore":
        """Nothing is asked of the server yet. Raises InvalidSetting, ServerRefused."""
        engine = Neo4jEngine.open(ServerLocation.parse(location, settings.neo4j_database), settings)
        return cls(engine, settings, CypherPlaces(settings))

    @property
    def place(self) -> str:
        return self.engine.place

    @property
    def exists(self) -> bool:
        self._check_server()
        if read_state(self.engine) is not None:
            return True
        refuse_unfinished(self.place, find_unfinished(self.engine))
        return False

    def index(self, *, fresh: bool = False) -> Neo4jIndex:
        index = self._index
        if index is not None and not fresh and not self._closed:
            return index
        with self._lock:
            if self._closed:
                raise errors.RegistryClosed
            if self._index is None or not self._index.refresh():  # it was embedded anew
                self._check_server()
                self._index = Neo4jIndex(self.engine)
            return self._index

    def look[T](self, work: "Callable[[Neo4jIndex], T]") -> T:
        return self._between_commits(lambda: work(self.index(fresh=True)))

    def read[T](self, work: Callable[[GraphSession], T], *, before_write: bool = False) -> T:  # noqa: ARG002 - as ever
        def once() -> T:
            with self.engine.reading() as session:
                return work(session)

        return self._between_commits(once)

    def contents(self, *parts: str) -> "Contents":
        return self.read(lambda session: read_whole(session, *parts))

    def _between_commits[T](self, read: "Callable[[], T]") -> T:
        """What it reads of one revision, read again if a writer committed meanwhile. Raises RegistryNotFound."""
        for _ in self._attempts():
            before = self._moment()
            if before.whole:
                try:
                    result = read()
                except Exception:  # of half a commit anything may be missing: a name, a node, a record
                    if self._moment() == before:
                        raise
                else:
                    if self._moment() == before:
                        return result
        raise errors.ServerUnavailable(self.place, NEVER_WHOLE)

    def _moment(self) -> Moment:
        if (moment := Moment.read(self.engine)) is None:
            raise errors.RegistryNotFound(self.place)
        return moment

    def _attempts(self) -> Iterator[None]:
        """To read between commits: until the time for a read is up."""
        give_up = time.monotonic() + self.engine.read_timeout_s
        while time.monotonic() < give_up:
            yield
            time.sleep(_PAUSE_S)

    @contextmanager
    def writing(
        self,
        *,
        trust_index: bool = True,  # noqa: ARG002 - nothing is published here
        alone: bool = False,  # noqa: ARG002 - no write waits for another
    ) -> Iterator[Writing]:
        """Raises WriteConflict for what goes wrong while another writer commits: it may have been planned over half."""
        with self._prepared_writing() as writing:
            try:
                yield writing
            except errors.RegistryError:
                raise
            except Exception as exc:
                if self._is_behind(writing.state):
                    raise errors.WriteConflict("another writer committed while this one planned") from exc
                raise

    @contextmanager
    def _prepared_writing(self) -> Iterator[Writing]:
        if self._closed:
            raise errors.RegistryClosed
        self._make_ready()
        dimensions: list[int] = []

        def prepare(dimension: int) -> None:
            self._prepare(dimension)
            dimensions.append(dimension)

        # Of a whole revision: if that one still holds when a writer commits, what it read since was whole as well.
        state: RegistryState | None = None
        with suppress(errors.RegistryNotFound):
            state = self._between_commits(lambda: read_state(self.engine))
        yield Writing(self.engine, _keep, prepare, state)
        if dimensions:
            self._settle(dimensions[-1])

    def _is_behind(self, state: RegistryState | None) -> bool:
        now = Moment.read(self.engine)
        return now is not None and (state is None or not now.whole or now.revision != state.revision)

    @contextmanager
    def filling(self, origin: Origin) -> Iterator[Filling]:
        with self._prepared_writing() as writing:
            copy = CopyInParts(writing, origin, self.place)
            if origin.dimension:
                writing.prepare(origin.dimension)
            yield Filling(self.engine, copy.put, copy.finish)
            self._await_indexes()

    def run_read_only(self, statement: str, params: Mapping[str, object]) -> "CypherResult":
        """Over the graph as it stands. Raises RegistryNotFound, CypherRefused and its kin."""
        from waygraph.registry.graph.user_cypher.neo4j_runner import run_read_only

        self.index()  # nobody reads a database through us that is no registry
        return run_read_only(self.engine, statement, params, self._settings, self._places)

    def _check_server(self) -> None:
        """Raises ServerRefused, ServerUnavailable; RegistryUnusable for a graph that is not ours, or a newer one."""
        _ = self.engine.version
        if not seen_migrations(self.engine, self.place):
            rows = self.engine.run(_NEO4J_SCHEMA_FOREIGN_LABELS, labels=sorted(OURS))
            if rows:
                labels = ", ".join(row["label"] for row in rows)
                raise errors.RegistryUnusable(
                    self.place, f"the database holds {labels} of something else. Give it another one."
                )

    def _make_ready(self) -> None:
        """The present schema and its indexes, once a process."""
        if self._ready:
            return
        self._check_server()
        migrate(self.engine, self.place, clock.now())
        make_text_indexes(self.engine)
        self._await_indexes()
        self._ready = True

    def _prepare(self, dimension: int) -> None:
        """Indexes and constraints as they should be; those of vectors only where an embedder before left none."""
        renew_schema(self.engine, dimension, by_owner=self.engine.version >= IN_INDEX_FILTERS)
        self._await_indexes()

    def _settle(self, default: int) -> None:
        """The vector indexes of the embedder that the registry has now; until they are there vectors are scanned."""
        current: int | None = None
        while (dimension := self._dimension() or default) != current:  # another writer may have been later
            drop_other_vector_indexes(self.engine, dimension)
            self._prepare(dimension)
            current = dimension

    def _dimension(self) -> int:
        """Of the vectors that are there; 0 without any."""
        rows = self.engine.run(_NEO4J_SEARCH_STATE)
        return int(rows[0]["dimension"]) if rows else 0

    def _await_indexes(self) -> None:
        give_up = time.monotonic() + INDEXES_READY_S
        while any(row["state"] == "POPULATING" for row in self.engine.run(_NEO4J_CHECK_INDEXES)):
            if time.monotonic() > give_up:
                raise errors.ServerUnavailable(self.place, f"its indexes were not ready within {INDEXES_READY_S} s")
            time.sleep(_PAUSE_S)

    def close(self) -> None:
        with self._lock:
            self._closed = True
            self._index = None
            self.engine.close()


def _keep(session: GraphSession, agent_ids: Collection[str] | None) -> AbstractContextManager[None]:
    return renew_index(session) if agent_ids is None else keep_index(session, agent_ids)


_COPY_LABELS = sorted({*LABELS, "Term"} - {"Registry", "Migration"})
"""Of the nodes that a copy brings, and of those that its index makes of them."""
USELESS = -1
"""No registry has this revision: what is marked so is cleared by whoever comes next."""


class CopyInParts:
    """A copy that comes to a graph server in parts, each in a transaction of its own.

    Until the last one the graph bears a mark, `(:Copy {id: 'copy'})`, that names what it is a copy of, and no Registry
    node: readers find no registry, and no writer makes one (`cypher/neo4j/state/create.cypher`). Whoever copies the
    same revision again takes the mark over and goes on; the one that had it is noticed to be late by its token.
    """

    def __init__(self, writing: Writing, origin: Origin, place: str) -> None:
        """Clears what an attempt at another revision of the same registry left.

        Raises RegistryUnusable if the graph holds a registry, or part of a copy of another one.
        """
        self._engine, self._keep, self._origin, self._place = writing.engine, writing.keep, origin, place
        self._token = secrets.token_hex(8)
        if (earlier := find_unfinished(self._engine)) is None:
            if strays := self._engine.run(_NEO4J_SCHEMA_FOREIGN_LABELS, labels=_COPY_LABELS):
                labels = ", ".join(row["label"] for row in strays)
                raise errors.RegistryUnusable(
                    place, f"there are {labels} nodes that are of no registry. Empty it first."
                )
        elif (earlier.revision, earlier.commit) != (origin.revision, origin.commit):
            refuse_unfinished(place, earlier if earlier.place != origin.place else None)
            self._clear()
        self._mark(origin)

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
        except errors.CopyDiffers:
            self._mark(replace(self._origin, revision=USELESS))
            raise

    def _mark(self, origin: Origin) -> None:
        if not self._engine.run(_NEO4J_COPY_BEGIN, props=asdict(origin) | {"token": self._token}):
            refuse_registry(self._place, read_state(self._engine))
            raise errors.WriteConflict(f"{self._place}: another writer made a registry there and removed it; try again")

    def _hold(self, session: GraphSession) -> None:
        if not session.run(_NEO4J_COPY_HOLD, token=self._token):
            raise errors.WriteConflict(f"{self._place}: another `waygraph migrate` has taken this copy over")

    def _clear(self) -> None:
        self._mark(replace(self._origin, revision=USELESS))

        def some(session: GraphSession) -> int:
            self._hold(session)
            return int(session.run(_NEO4J_COPY_CLEAR, labels=_COPY_LABELS, rows=BATCH_ROWS)[0]["removed"])

        while self._engine.write(some):
            pass


def find_unfinished(engine: GraphEngine) -> Origin | None:
    """What the copy is of that lies in this graph and is not whole."""
    rows = engine.run(_NEO4J_COPY_READ)
    return Origin(**rows[0]) if rows else None


def refuse_unfinished(place: str, origin: Origin | None) -> None:
    """Raises RegistryUnusable if there is one."""
    if origin is not None:
        raise errors.RegistryUnusable(
            place,
            f"a copy of {origin.place} was begun there and is not whole. `waygraph migrate {origin.place} {place}` "
            "goes on with it; or empty it.",
        )
