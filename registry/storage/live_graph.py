"""The live graph file of an embedded registry: held by one process, made ready, published."""

from collections.abc import Iterator
from contextlib import closing, contextmanager, suppress
from datetime import UTC, datetime
from pathlib import Path

from waygraph.cypher import load
from waygraph.registry.errors import RegistryError, RegistryUnusable
from waygraph.registry.graph.grafeo import GrafeoEngine
from waygraph.registry.graph.reading import read_state
from waygraph.registry.graph.schema import migrate, seen_migrations
from waygraph.registry.graph.version import SCHEMA_VERSION
from waygraph.registry.index import generation, layout
from waygraph.registry.index.kept import Kept
from waygraph.registry.index.publication import publish_graph, published_schema


class LiveGraph:
    """The graph that is written, and the folder where it is published. `path` None: in memory, held until closed."""

    def __init__(self, path: Path | None, folder: Path, place: str) -> None:
        self._path, self._folder, self._place = path, folder, place
        self.kept = Kept()
        self._memory = GrafeoEngine.open(None) if path is None else None

    @contextmanager
    def held(self) -> Iterator[GrafeoEngine]:
        """The engine, at the present schema. Raises RegistryUnusable, RegistryLocked."""
        self._refuse_lost()
        if self._memory is not None:
            _ready(self._memory, self._place)
            yield self._memory
            return
        self._look_first()
        engine = GrafeoEngine.open(self._path)
        try:
            if _ready(engine, self._place):
                publish_graph(self._folder, engine)
            yield engine
        except BaseException:
            with suppress(RegistryError):  # the first error is the one seen
                engine.close()
            raise
        engine.close()

    def publish(self, engine: GrafeoEngine, *, trust_index: bool = True) -> None:
        """Brings the index to the graph's revision, and takes the mark away.

        Vectors that the present index holds are not read from the graph again, unless it is not to be trusted.
        """
        secure = engine.checkpoint if self._path is not None else _nothing
        publish_graph(self._folder, engine, trust_index=trust_index, kept=self.kept, meanwhile=secure)
        generation.clear_pending(self._folder)

    def close(self) -> None:
        if self._memory is not None:
            self._memory.close()

    def _refuse_lost(self) -> None:
        """A new graph would be published over the index of one that was moved away, and with it the last copy lost."""
        if self._path is not None and not self._path.exists() and published_schema(self._folder) is not None:
            copy = self._folder / generation.current_name(self._folder) / layout.GRAPH
            raise RegistryUnusable(
                self._place,
                f"the graph file is gone, its index is still there. Copy {copy} to {self._path}, "
                f"or remove {self._folder} to begin anew.",
            )

    def _look_first(self) -> None:
        """Refuses a graph that may not be ours before it is opened to write: that alone would change its bytes."""
        schema = published_schema(self._folder)
        known = schema is not None and schema <= SCHEMA_VERSION
        if self._path is not None and self._path.exists() and not known:
            with closing(GrafeoEngine.open_copy(self._path)) as untouched:
                _refuse_other(untouched, self._place)


def _nothing() -> None:
    """A graph in memory is written nowhere."""


def now() -> str:
    """ISO 8601 in UTC, to the microsecond: which claim is the earlier one is told by it."""
    return datetime.now(UTC).isoformat(timespec="microseconds")


def _ready(engine: GrafeoEngine, place: str) -> bool:
    """Refuses a graph that is not ours, and brings ours to the present schema; says whether it had another."""
    _refuse_other(engine, place)
    migrate(engine, place, now())
    state = read_state(engine)
    older = state is not None and state.schema_version < SCHEMA_VERSION
    if older:
        engine.run(load("state/update"), props={"schema_version": SCHEMA_VERSION})
    return older


def _refuse_other(engine: GrafeoEngine, place: str) -> None:
    """Raises RegistryUnusable for a graph of something else, or of a newer Waygraph."""
    # Migrations are recorded before the Registry node is made; nothing else of ours comes before it.
    foreign = engine.labels() - {"Migration"}
    if foreign and read_state(engine) is None:
        raise RegistryUnusable(place, f"it is a Grafeo graph of something else ({', '.join(sorted(foreign)[:5])}).")
    seen_migrations(engine, place)
