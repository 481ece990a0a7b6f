"""The embedded store: one Grafeo file, its write lock, and the index that everything else reads.

A write holds the lock and the graph, commits, brings the index to the new revision and lets go. Before the commit the
index notes what will be committed; whoever finds that note and no writer finishes the work.
"""

import logging
import math
import os
import shutil
import tempfile
import threading
import time
import weakref
from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractContextManager, closing, contextmanager, suppress
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING

from waygraph.registry.index.local.file import ASK_A_WRITER, current_path, folder_of
from waygraph.registry.index.local.graph_agreement import is_behind, is_foreign, refuse_graph, refuse_unknown
from waygraph.registry.model import errors
from waygraph.registry.model.files import lock_of
from waygraph.registry.model.settings import Settings
from waygraph.registry.storage.store import MEMORY

if TYPE_CHECKING:
    from waygraph.registry.graph.contents import Contents
    from waygraph.registry.graph.engine import GraphSession
    from waygraph.registry.graph.read import RegistryState
    from waygraph.registry.graph.user_cypher.sandbox import CypherPlaces
    from waygraph.registry.index.local.local_index import LocalIndex
    from waygraph.registry.model.changes import CypherResult
    from waygraph.registry.storage.live_graph import LiveGraph
    from waygraph.registry.storage.store import Filling, Origin
    from waygraph.registry.writer import Writing


logger = logging.getLogger(__name__)

LOOK_AGAIN_S = 5.0
"""How often who reads looks whether something was committed that nobody published."""


_ATTEMPTS = 3
"""Of a question that met an index which was written, or found damaged and built anew, meanwhile."""


class EmbeddedStore:
    """Where an embedded registry lives. `path` None: in a folder of its own, which goes when it is closed, or with the
    process. Threads may share it.
    """

    def __init__(self, path: Path | None, settings: Settings) -> None:
        self.place, self._settings = str(path or MEMORY), settings
        self._end: Callable[[], object] | None = None
        if path is None:
            folder = Path(tempfile.mkdtemp(prefix="waygraph-"))
            self._end, path = weakref.finalize(self, _remove, folder, os.getpid()), folder / "memory.grafeo"
        self.path, self.folder = path, folder_of(path)
        self._live: LiveGraph | None = None
        self._current: LocalIndex | None = None
        self._lock = threading.RLock()
        self._looked_at = -math.inf
        self._publishing = threading.Lock()
        """Held by the one thread that publishes what was left behind."""
        self._fault = ""
        self._closed = False

    @property
    def exists(self) -> bool:
        """Whether there is anything to read; first publishes what a killed writer committed.

        A file in which the first writer is at work, or died before it made a registry, is none. Raises
        RegistryUnusable.
        """
        if current_path(self.folder) is None:
            with suppress(errors.RegistryNotFound):
                self._recover()
        return current_path(self.folder) is not None

    def index(self, *, fresh: bool = False) -> "LocalIndex":  # noqa: ARG002 - it is always fresh
        """The index of now. Raises RegistryNotFound, RegistryUnusable, StorageFailed."""
        if time.monotonic() - self._looked_at > LOOK_AGAIN_S:
            self._look_behind()
        current = self._current
        if current is not None and not self._closed and current.is_current:
            return current
        with self._lock:
            if self._closed:
                raise errors.RegistryClosed
            is_there = self._current is not None and not self._current.is_replaced
            self._current = self._current.follow() if self._current and is_there else self._open_index()
            return self._current

    def _open_index(self) -> "LocalIndex":
        from waygraph.registry.index.local.local_index import LocalIndex  # a process that only writes needs none of it

        self.refuse_foreign_index()
        self._recover()
        try:
            return LocalIndex.open(self.folder, exact=self._settings.exact_search)
        except errors.RegistryNotFound:
            raise errors.RegistryNotFound(self.place) from None

    def refuse_foreign_index(self) -> None:
        """Raises RegistryUnusable for the index of another registry. The graph is opened only if the file is another
        one than the index was made of; where it cannot be, the index answers.
        """
        if not is_foreign(self.folder):
            return
        from waygraph.registry.storage.graph_copy import open_copy

        try:
            with open_copy(self.path, self.folder) as path:
                state = _state_of(path)
        except errors.RegistryError:
            return
        refuse_unknown(self.folder, state)

    def _recover(self) -> None:
        """Publishes what a killed writer committed; a living writer publishes by itself.

        Raises RegistryNotFound where the first one has not done so yet: nobody who reads waits for it.
        """
        if not self.path.exists():
            return
        if current_path(self.folder) is None:
            try:
                self._publish_committed()
            except errors.RegistryLocked as exc:
                if current_path(self.folder) is None:
                    raise errors.RegistryNotFound(self.place, writer=exc.holder) from exc
            except errors.StorageFailed as exc:
                raise errors.StorageFailed(f"its search index must be made anew. {exc}. {ASK_A_WRITER}") from exc
        elif is_behind(self.folder):
            # There may be an index to answer from, whether or not the work can be finished now: the note stays.
            try:
                self._publish_committed()
            except (errors.RegistryLocked, errors.RegistryClosed, errors.StorageFailed):
                pass  # somebody is at it, or nothing can be written here
            except errors.RegistryError as exc:
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
        self._looked_at = time.monotonic()
        if self._current is None:
            return
        if current_path(self.folder) != self._current.path:
            self._current = None  # another one took its place, by a writer that was killed before it removed the former
            return
        if not is_behind(self.folder):
            return
        if self._publishing.acquire(blocking=False):
            try:
                threading.Thread(target=self._publish_late, name="publish", daemon=True).start()
            except RuntimeError:  # no thread is to be had now; the next look tries again
                self._publishing.release()

    def _publish_late(self) -> None:
        try:
            with suppress(errors.RegistryNotFound):  # the registry was taken away
                self._recover()
        finally:
            self._publishing.release()

    def _publish_committed(self) -> None:
        """Of the graph as it is: a newer Waygraph migrates it at a write. Raises RegistryLocked at once if there is a
        writer.
        """
        with self.reading_alone(timeout_s=0):
            pass

    def look[T](self, work: "Callable[[LocalIndex], T]") -> T:
        for _ in range(_ATTEMPTS - 1):
            with suppress(errors.IndexOutdated):
                return work(self.index())
        return work(self.index())

    def read[T](self, work: "Callable[[GraphSession], T]", *, before_write: bool = False) -> T:
        """Over a copy of what is committed, whoever holds the live file; before a write, over the live graph where this
        process holds it or can.

        Raises RegistryNotFound, RegistryUnusable.
        """
        self.index()
        if before_write:
            with suppress(errors.RegistryLocked), self._live_graph().snapshot() as session:
                return work(session)
        from waygraph.registry.graph.grafeo import GrafeoEngine

        with self._copy() as path, closing(GrafeoEngine.open_copy(path)) as engine:
            return work(engine)

    def contents(self, *parts: str) -> "Contents":
        """Of the index, which no lock or lost log of the graph keeps from answering."""
        from waygraph.registry.storage.noun_list import IndexContents, read_parts

        return self.look(lambda index: read_parts(IndexContents(index), *parts))

    @cached_property
    def _places(self) -> "CypherPlaces":
        from waygraph.registry.graph.user_cypher.sandbox import CypherPlaces

        return CypherPlaces(self._settings)

    def run_read_only(self, statement: str, params: Mapping[str, object]) -> "CypherResult":
        """Over a copy, in a process of its own with limits. Raises CypherRefused and its kin."""
        from waygraph.registry.graph.user_cypher.allow_list import check_read_only
        from waygraph.registry.graph.user_cypher.sandbox import run_read_only

        self.index()
        check_read_only(statement)  # nothing is copied for what is refused
        with self._copy() as path:
            return run_read_only(path, statement, params, self._settings, self._places)

    @contextmanager
    def _copy(self) -> "Iterator[Path]":
        """A file with what is committed; it stays as it is while the block lasts."""
        from waygraph.registry.storage.graph_copy import open_copy

        state = self.index().state
        with open_copy(self.path, self.folder) as path:
            self._refuse_behind(path, (state.revision, state.commit))
            yield path

    def _refuse_behind(self, path: "Path", index: tuple[int, str]) -> None:
        """Raises RegistryUnusable for a copy of a graph that lost what the index showed before the copy was made."""
        state = _state_of(path)
        graph = (state.revision, state.commit) if state else (0, "")
        if graph[0] <= index[0] and graph != index:
            refuse_graph(self.folder, graph, index)

    @contextmanager
    def writing(self, *, trust_index: bool = True, alone: bool = False) -> "Iterator[Writing]":
        """The engine, alone. What was committed in the block is published when this ends, whatever ended it; together
        with the writes of threads that waited meanwhile. `alone`: the index is at the graph's revision when it begins.

        Raises RegistryLocked after `write_timeout_s`, RegistryUnusable, StorageFailed.
        """
        from waygraph.registry.writer import Writing, prepare_nothing

        if self._closed:
            raise errors.RegistryClosed
        self._refuse_foreign()
        live = self._live_graph()
        with live.turn(self._settings.write_timeout_s, alone=alone, whole=not trust_index) as engine:
            group = live.join(engine, whole=not trust_index, alone=alone)
            try:
                yield Writing(engine, group.publication.keep, prepare_nothing, group.state)
            except BaseException:
                # The first error is the one seen. If publishing fails too, the note stays, and the next comer mends it.
                with suppress(errors.RegistryError):
                    live.publish()
                raise
            is_published = live.publish_last(group)
        if not is_published:
            live.wait_published(group)

    @contextmanager
    def filling(self, origin: "Origin") -> "Iterator[Filling]":  # noqa: ARG002 - what did not end has left nothing
        from waygraph.registry.graph.read import read_state
        from waygraph.registry.storage.store import Filling, refuse_registry

        with self.writing() as writing, writing.engine.transaction() as session:
            refuse_registry(self.place, read_state(session))
            yield Filling(session, lambda _agent_ids, work: work(session), lambda work: work(session))

    def reading_alone(self, *, timeout_s: float | None = None) -> "AbstractContextManager[GraphSession]":
        """The graph as it is, while nobody writes; the index is at its revision. Raises as `writing`."""
        if self._closed:
            raise errors.RegistryClosed
        self._refuse_foreign()
        wait_s = self._settings.write_timeout_s if timeout_s is None else timeout_s
        return self._live_graph().reading_alone(wait_s)

    def _refuse_foreign(self) -> None:
        """Before a lock is left beside a file that is none of ours."""
        if not lock_of(self.path).exists():
            from waygraph.registry.graph.grafeo import refuse_foreign

            refuse_foreign(self.path)

    def _live_graph(self) -> "LiveGraph":
        """Made by the first write: a process that only reads needs nothing of it."""
        from waygraph.registry.storage.live_graph import LiveGraph

        with self._lock:
            self._live = self._live or LiveGraph(self.path, self.folder, self.place)
            return self._live

    def close(self) -> None:
        self._closed = True
        with self._publishing, self._lock:
            if self._current is not None:
                self._current.close()
                self._current = None
            if self._live is not None:
                self._live.close()
            if self._end is not None:
                self._end()


def _state_of(copy: Path) -> "RegistryState | None":
    from waygraph.registry.graph.grafeo import GrafeoEngine
    from waygraph.registry.graph.read import read_state

    with closing(GrafeoEngine.open_copy(copy)) as engine:
        return read_state(engine)


def _remove(folder: Path, owner: int) -> None:
    """Not by a process that was forked off: its parent works on."""
    if os.getpid() == owner:
        shutil.rmtree(folder, ignore_errors=True)
