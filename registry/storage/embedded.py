"""The embedded store: one Grafeo file, its write lock, and the generations that everything else reads.

A write holds the lock, opens the file, commits, publishes a generation and lets go. Between the commit and the
publication the folder is marked `pending`; whoever finds that mark and no writer finishes the work.
"""

import logging
import os
import shutil
import tempfile
import threading
import time
import weakref
from collections.abc import Callable, Iterator, Mapping
from contextlib import closing, contextmanager, suppress
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING

from waygraph.cypher import load
from waygraph.registry.graph.grafeo import GrafeoEngine
from waygraph.registry.graph.read import read_state
from waygraph.registry.graph.schema import SCHEMA_VERSION, migrate, seen_migrations
from waygraph.registry.graph.user_cypher.sandbox import CypherPlaces
from waygraph.registry.index.local import generation
from waygraph.registry.index.local.incremental import GenerationCache
from waygraph.registry.index.local.local_index import LocalIndex
from waygraph.registry.index.local.publish import publish_graph, published_schema
from waygraph.registry.model.errors import (
    NotPublished,
    RegistryClosed,
    RegistryError,
    RegistryLocked,
    RegistryNotFound,
    RegistryUnusable,
    StorageFailed,
)
from waygraph.registry.model.settings import WRITE_TIMEOUT, Settings
from waygraph.registry.storage.noun_list import NOUNS
from waygraph.registry.writer import Writing, prepare_nothing

if TYPE_CHECKING:
    from waygraph.registry.graph.engine import GraphSession
    from waygraph.registry.model.changes import CypherResult
    from waygraph.registry.storage.store import Filling, Origin

_STATE_UPDATE = load("state/update")


logger = logging.getLogger(__name__)

LOOK_AGAIN_S = 5.0
"""How often who reads looks whether something was committed that nobody published."""


@dataclass(frozen=True, slots=True)
class _OpenIndex:
    """An index and the stamp of the pointer that led to it. One value: no thread sees one of them without the other."""

    index: LocalIndex
    stamp: tuple[int, int] | None


class EmbeddedStore:
    """Where an embedded registry lives. `path` None: in memory, gone when closed. Threads may share it."""

    def __init__(self, path: Path | None, settings: Settings) -> None:
        self.path, self._settings = path, settings
        self._places = CypherPlaces(settings)
        self._owner = os.getpid()
        self._scratch = Path(tempfile.mkdtemp(prefix="waygraph-")) if path is None else None
        if self._scratch:  # at the process's end at the latest, if nobody closes it
            weakref.finalize(self, _remove, self._scratch, self._owner)
        self._home = self._scratch / "memory.grafeo" if self._scratch else Path(self.place)
        self.folder = generation.folder_of(self._home)
        self._pointer = generation.pointer_of(self.folder)
        self._live: LiveGraph | None = None
        self._current: _OpenIndex | None = None
        self._lock = threading.RLock()
        self._look_at = 0.0
        self._publishing = threading.Lock()
        """Held by the one thread that publishes what was left behind."""
        self._fault = ""
        self._closed = False

    @property
    def place(self) -> str:
        return str(self.path) if self.path else ":memory:"

    @property
    def exists(self) -> bool:
        """Whether there is anything to read; first publishes what a killed writer committed.

        A file in which the first writer is at work, or died before it made a registry, is none. Raises
        RegistryUnusable.
        """
        if generation.stamp(self._pointer) is None:
            with suppress(RegistryNotFound):
                self._recover()
        return generation.stamp(self._pointer) is not None

    def index(self, *, fresh: bool = False) -> LocalIndex:  # noqa: ARG002 - it is always fresh
        """The current generation, opened anew when another one was published. Raises RegistryNotFound."""
        if time.monotonic() > self._look_at:
            self._look_behind()
        current, stamp = self._current, generation.stamp(self._pointer)
        if current is not None and stamp == current.stamp and not self._closed:
            return current.index
        with self._lock:
            if self._closed:
                raise RegistryClosed
            if self._current is None or stamp != self._current.stamp:
                self._current = self._open_index()
            return self._current.index

    def _open_index(self) -> "_OpenIndex":
        if self._current is None or generation.stamp(self._pointer) is None:
            self._recover()
        # The stamp is taken before the folder is read: at worst the same generation is opened twice.
        stamp = generation.stamp(self._pointer)
        try:
            return _OpenIndex(LocalIndex.open(self.folder, self._settings.learn_half_life_days), stamp)
        except RegistryNotFound:
            raise RegistryNotFound(self.place) from None  # one in memory has its index in a folder that nobody knows

    def _recover(self) -> None:
        """Publishes what a killed writer committed; a living writer publishes by itself.

        Raises RegistryNotFound where the first one has not done so yet: nobody who reads waits for it.
        """
        if self.path is None or not self.path.exists():
            return
        if generation.stamp(self._pointer) is None:
            try:
                self._publish_committed()
            except RegistryLocked as exc:
                if generation.stamp(self._pointer) is None:
                    raise RegistryNotFound(self.place, writer=exc.holder) from exc
        elif generation.is_pending(self.folder) or generation.is_outdated(self.folder):
            # There may be an index to answer from, whether or not the work can be finished now: the mark stays.
            try:
                self._publish_committed()
            except (RegistryLocked, RegistryClosed, StorageFailed):
                pass  # somebody is at it, or nothing can be written here
            except RegistryError as exc:
                if self._is_news(exc):
                    logger.warning(
                        "%s: what was written last is not in the index, which answers on: %s", self.place, exc
                    )
            except Exception as exc:
                if self._is_news(exc):
                    logger.exception("%s: what was written last could not be published", self.place)

    def _is_news(self, fault: Exception) -> bool:
        """Not what was said the last time: it is met again at every look."""
        before, self._fault = self._fault, repr(fault)
        return self._fault != before

    def _look_behind(self) -> None:
        """Whether something is committed and not published, since a writer was killed or had no room for it. Then a
        thread does that: who asks does not wait for it.
        """
        self._look_at = time.monotonic() + LOOK_AGAIN_S
        if self._current is None or not generation.is_pending(self.folder):
            return
        if self._publishing.acquire(blocking=False):
            try:
                threading.Thread(target=self._publish_late, name="publish", daemon=True).start()
            except RuntimeError:  # no thread is to be had now; the next look tries again
                self._publishing.release()

    def _publish_late(self) -> None:
        try:
            with suppress(RegistryNotFound):  # the registry was taken away
                self._recover()
        finally:
            self._publishing.release()

    def _publish_committed(self) -> None:
        """Raises RegistryLocked at once if there is a writer."""
        with self.writing(timeout_s=0):
            pass

    def look[T](self, work: "Callable[[LocalIndex], T]") -> T:
        return work(self.index())

    def read[T](self, work: "Callable[[GraphSession], T]") -> T:
        """Over the published copy of the graph, whoever holds the live file.

        Raises RegistryNotFound, RegistryUnusable.
        """
        from waygraph.registry.graph.grafeo import GrafeoEngine

        index = self.index()  # held: with its lease the copy stays
        with closing(GrafeoEngine.open_copy(index.graph_copy)) as engine:
            result = work(engine)
        del index
        return result

    def run_read_only(self, statement: str, params: Mapping[str, object]) -> "CypherResult":
        """Over the published copy, in a process of its own with limits. Raises CypherRefused and its kin."""
        from waygraph.registry.graph.user_cypher.sandbox import run_read_only

        index = self.index()
        result = run_read_only(index.graph_copy, statement, params, self._settings, self._places)
        del index  # held until now, whatever is published meanwhile
        return result

    @contextmanager
    def writing(self, *, timeout_s: float | None = None, trust_index: bool = True) -> "Iterator[Writing]":
        """The engine, alone. What was committed in the block is published at its end, whatever ended it.

        Raises RegistryLocked after `timeout_s` (default: settings), RegistryUnusable, StorageFailed.
        """
        if self._closed:
            raise RegistryClosed
        wait_s = self._settings.write_timeout_s if timeout_s is None else timeout_s
        from waygraph.registry.graph.grafeo import refuse_foreign
        from waygraph.registry.graph.read import read_state
        from waygraph.registry.model.files import lock_of, write_lock

        if self.path is not None and not lock_of(self.path).exists():
            refuse_foreign(self.path)  # before a lock is left beside a file that is none of ours
        live = self._live_graph()
        with write_lock(self._home, wait_s, setting=WRITE_TIMEOUT, brief=False), live.hold() as engine:
            # What a writer before committed and did not publish may have been embedded anew, under the same keys.
            trust_index = trust_index and not generation.is_pending(self.folder)
            generation.mark_pending(self.folder)
            try:
                live.cache.begin(engine)
                yield Writing(engine, live.cache.note, prepare_nothing, read_state(engine))
            except BaseException:
                # The first error is the one seen. If publishing fails too, the mark stays and the next comer mends it.
                with suppress(RegistryError):
                    live.publish(engine, trust_index=trust_index)
                raise
            try:
                live.publish(engine, trust_index=trust_index)
            except StorageFailed as exc:
                raise NotPublished(self.place, str(exc)) from exc

    @contextmanager
    def filling(self, origin: "Origin") -> "Iterator[Filling]":  # noqa: ARG002 - what did not end has left nothing
        from waygraph.registry.storage.fill import AtOnce

        with self.writing() as writing, writing.engine.transaction() as session:
            yield AtOnce(session, self.place)

    def _live_graph(self) -> "LiveGraph":
        """Made by the first write: a process that only reads needs nothing of it."""

        with self._lock:
            if self._live is None:
                self._live = LiveGraph(self.path, self.folder, self.place)
            return self._live

    def close(self) -> None:
        self._closed = True
        with self._publishing, self._lock:
            if self._current is not None:
                self._current.index.close()
                self._current = None
            if self._live is not None:
                self._live.close()
            if self._scratch is not None:
                _remove(self._scratch, self._owner)


def _remove(folder: Path, owner: int) -> None:
    """Not by a process that was forked off: its parent works on."""
    if os.getpid() == owner:
        shutil.rmtree(folder, ignore_errors=True)


class LiveGraph:
    """The graph that is written, and the folder where it is published. `path` None: in memory, held until closed."""

    def __init__(self, path: Path | None, folder: Path, place: str) -> None:
        self._path, self._folder, self._place = path, folder, place
        self.cache = GenerationCache()
        self._memory = GrafeoEngine.open(None) if path is None else None

    @contextmanager
    def hold(self) -> Iterator[GrafeoEngine]:
        """The engine, at the present schema. Raises RegistryUnusable, RegistryLocked."""
        if self._memory is not None:
            _ready(self._memory, self._place)
            yield self._memory
            return
        self._look_first(published_schema(self._folder))
        engine = GrafeoEngine.open(self._path)
        try:
            if _ready(engine, self._place):
                publish_graph(self._folder, engine, NOUNS)
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
        publish_graph(self._folder, engine, NOUNS, trust_index=trust_index, cache=self.cache, meanwhile=secure)
        generation.clear_pending(self._folder)

    def close(self) -> None:
        if self._memory is not None:
            self._memory.close()

    def _look_first(self, schema: int | None) -> None:
        """Before the graph is opened to write, which alone would change its bytes. `schema`: of what is published.

        Refuses a graph that may not be ours. Also one that is gone: a new one would be published over the index of
        that which was moved away, and with it the last copy lost.
        """
        is_there = self._path is not None and self._path.exists()
        if not is_there and schema is not None:
            copy = self._folder / generation.current_name(self._folder) / generation.GRAPH
            raise RegistryUnusable(
                self._place,
                f"the graph file is gone, its index is still there. Copy {copy} to {self._path}, "
                f"or remove {self._folder} to begin anew.",
            )

        is_known = schema is not None and schema <= SCHEMA_VERSION
        if self._path is not None and is_there and not is_known:
            with closing(GrafeoEngine.open_copy(self._path)) as engine:
                _refuse_other(engine, self._place)


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
        engine.run(_STATE_UPDATE, props={"schema_version": SCHEMA_VERSION})
    return older


def _refuse_other(engine: GrafeoEngine, place: str) -> None:
    """Raises RegistryUnusable for a graph of something else, or of a newer Waygraph."""
    # Migrations are recorded before the Registry node is made; nothing else of ours comes before it.
    foreign = engine.labels() - {"Migration"}
    if foreign and read_state(engine) is None:
        raise RegistryUnusable(place, f"it is a Grafeo graph of something else ({', '.join(sorted(foreign)[:5])}).")
    seen_migrations(engine, place)
