"""The graph of an embedded registry while this process holds it: opened when it is first needed, kept for what follows.

One process holds a graph. It gives it back when another one waits, which a file beside the lock says, and after a
minute without use. What was committed is in the graph's log, which is written through at the end of each write; that
the log becomes part of the file (a checkpoint) waits until it is long or the graph is given back, at the process's end
at the latest. Where another program changes file or log meanwhile, the graph of memory is written to them anew.

Each write of a thread has a transaction, a result and an error of its own. Who has committed while other threads wait
for their turn goes out of the way and waits, too: the last of them writes the log through and brings the index to the
graph's revision, once for all.
"""

import atexit
import logging
import os
import threading
import time
import weakref
from collections.abc import Callable, Iterator
from contextlib import ExitStack, closing, contextmanager, suppress
from pathlib import Path

from waygraph.registry.graph.engine import GraphSession
from waygraph.registry.graph.grafeo import GrafeoEngine, graph_stamps
from waygraph.registry.graph.read import read_state
from waygraph.registry.graph.schema import migrate, seen_migrations
from waygraph.registry.index.local.file import current_path
from waygraph.registry.index.local.graph_agreement import is_behind, refuse_unknown
from waygraph.registry.index.local.index_upkeep import Publication
from waygraph.registry.model import clock, errors
from waygraph.registry.model.files import queue_of, write_lock
from waygraph.registry.model.settings import WRITE_TIMEOUT
from waygraph.registry.storage.noun_list import NOUNS

logger = logging.getLogger(__name__)

KEPT_S = 60.0
"""How long a graph that nobody uses is kept open."""
MOST_WRITES = 32
"""That one publication covers."""
LONGEST_S = 0.1
"""After its first write began a publication waits for no further one."""
LOOK_S = 0.05
"""How often its holder looks whether another process waits for it."""
MARK_AGAIN_S = 0.25
"""How often who waits says so: a new holder takes the marks of all who waited for the one before away."""


class WriteGroup:
    """Writes that are published together."""

    def __init__(self, place: str, engine: GrafeoEngine, publication: Publication) -> None:
        self._place, self._engine, self.publication = place, engine, publication
        self.state = publication.state
        """Of the graph, before the write whose turn it is."""
        self._ends_at = time.monotonic() + LONGEST_S
        self._writes = 0
        self.is_done, self.fault = False, ""

    def count(self) -> bool:
        """One more write has ended. Whether there may be another."""
        self._writes += 1
        return self._writes < MOST_WRITES and time.monotonic() < self._ends_at

    def publish(self) -> None:
        """Makes what was committed last, and brings the index to the graph's revision. Raises NotPublished."""
        try:
            self._engine.secure()
            self.publication.publish()
        except errors.StorageFailed as error:
            self.end(str(error))
            raise errors.NotPublished(self._place, str(error)) from error
        except BaseException as error:
            self.end(str(error) or type(error).__name__)
            raise
        self.end("")

    def end(self, fault: str) -> None:
        """Nothing is published after this. `fault`: why what was committed was not."""
        self.publication.close()
        self.is_done, self.fault = True, fault


class LiveGraph:
    """The graph of a file while it is written. Threads may share it."""

    def __init__(self, path: Path, folder: Path, place: str) -> None:
        self._path, self._folder, self._place = path, folder, place
        self._queue = queue_of(path)
        self._turns = threading.Condition()
        """Notified when a turn ends, and when somebody waits for one no more."""
        self._is_taken = False
        self._waiting = 0
        """How many threads wait whose writes may be published with the one before."""
        self._group: WriteGroup | None = None
        """Of writes that are committed, or being written, and not published. Whose turn it is may change it."""
        self._counting = threading.Lock()
        """Held to change `_engine`, `_readers` or `_keeper`."""
        self._readers = 0
        self._engine: GrafeoEngine | None = None
        self._is_closed = False
        self._file: tuple[int, int] | None = None
        self._stamps: dict[Path, tuple[int, ...]] = {}
        """Of the files as this process left them."""
        self._lock = ExitStack()
        self._keeper: threading.Thread | None = None
        self._used_at = self._gave_way_at = 0.0
        _LIVE.add(self)

    @contextmanager
    def turn(self, wait_s: float, *, alone: bool = False, whole: bool = False) -> Iterator[GrafeoEngine]:
        """The engine, at the present schema, to write alone. `alone`: no write before waits to be published with it.
        `whole`: the index will be built anew, so that the graph may be any.

        Raises RegistryUnusable; RegistryLocked after `wait_s`.
        """
        ends_at = time.monotonic() + wait_s
        with self._alone(wait_s, joins=not alone):
            if self._is_closed:
                raise errors.RegistryClosed
            engine = self._open(ends_at, wait_s, whole=whole)
            try:
                yield engine
            except BaseException as error:
                # Else the engine is as it was: the write was refused, and rolled back.
                if not isinstance(error, errors.WaygraphError) or isinstance(
                    error, (errors.EngineError, errors.StorageFailed)
                ):
                    self._give_back()
                raise
            finally:
                self._stay()

    @contextmanager
    def snapshot(self) -> Iterator[GraphSession]:
        """What is committed now, beside whoever writes. Raises RegistryLocked if another process holds the graph."""
        if (engine := self._enter()) is None:
            with self.turn(0) as engine:
                self._enter()
        try:
            with engine.snapshot() as session:
                yield session
        finally:
            with self._counting:
                self._readers -= 1
            self._used_at = time.monotonic()

    @contextmanager
    def reading_alone(self, wait_s: float) -> Iterator[GraphSession]:
        """The graph as it is, while nobody writes. First what a killed writer committed is published.

        Raises RegistryUnusable; RegistryLocked after `wait_s`.
        """
        with self._alone(wait_s, joins=False), self._as_it_is(wait_s) as session:
            self._publish_for_others()
            refuse_unknown(self._folder, read_state(session))
            self._catch_up(session)
            yield session
            self._catch_up(session)  # what was read may have met damage

    def _catch_up(self, session: GraphSession) -> None:
        """Publishes what a killed writer left, or an index that must be built anew. Raises StorageFailed."""
        if is_behind(self._folder):
            with closing(Publication(self._folder, session, NOUNS, whole=False)) as publication:
                publication.publish()

    def join(self, engine: GrafeoEngine, *, whole: bool, alone: bool) -> WriteGroup:
        """To be published with what others committed; `alone`: after that. `whole`: the index is built anew.

        In a turn. Raises StorageFailed.
        """
        if whole or alone:
            self._publish_for_others()
        if self._group is None:
            self._group = WriteGroup(self._place, engine, Publication(self._folder, engine, NOUNS, whole=whole))
        else:
            self._group.state = read_state(engine)
        return self._group

    def publish(self) -> None:
        """What the group committed, if there is one. In a turn. Raises NotPublished."""
        group, self._group = self._group, None
        if group is None:
            return
        try:
            group.publish()
        finally:
            with self._turns:
                self._turns.notify_all()

    def _publish_for_others(self) -> None:
        """The same before something else is done: who committed it learns of a fault; the note stays."""
        try:
            self.publish()
        except errors.RegistryError:
            pass
        except Exception:
            logger.exception("%s: what was written last could not be published", self._place)

    def publish_last(self, group: WriteGroup) -> bool:
        """Publishes after a write, in its turn, unless another thread that waits will. Raises NotPublished."""
        if group.count() and self._waiting:
            return False
        self.publish()
        return True

    def wait_published(self, group: WriteGroup) -> None:
        """After the turn. Publishes if nobody else does, as who waited gave up. Raises NotPublished."""
        while not group.is_done:
            with self._turns:
                self._turns.wait_for(lambda: group.is_done or not (self._is_taken or self._waiting))
            if not group.is_done:
                with suppress(errors.RegistryLocked), self._alone(0):
                    self.publish()
        if group.fault:
            raise errors.NotPublished(self._place, group.fault)

    @contextmanager
    def _alone(self, wait_s: float, *, joins: bool = True) -> Iterator[None]:
        with self._turns:
            self._waiting += joins
            try:
                is_free = self._turns.wait_for(lambda: not self._is_taken, min(wait_s, threading.TIMEOUT_MAX))
            finally:
                self._waiting -= joins
                self._turns.notify_all()
            if not is_free:
                raise self._lock_error("another thread of this process", wait_s)
            self._is_taken = True
        try:
            yield
        finally:
            with self._turns:
                self._is_taken = False
                self._turns.notify_all()

    def _lock_error(self, holder: str, wait_s: float) -> errors.RegistryLocked:
        return errors.RegistryLocked(self._place, holder=holder, waited_s=wait_s, setting=WRITE_TIMEOUT)

    def close(self) -> None:
        with self._alone(threading.TIMEOUT_MAX):
            self._is_closed = True
            self._give_back()

    def release_idle(self) -> None:
        """Gives the graph back unless somebody uses it."""
        with suppress(errors.RegistryLocked), self._alone(0):
            self._give_back()

    def abandon(self) -> None:
        """In a process that was forked off while a thread of its parent used the graph: all of it is the parent's."""
        self._turns, self._counting = threading.Condition(), threading.Lock()
        self._is_taken, self._waiting, self._readers = False, 0, 0
        self._group = self._keeper = None
        _OF_PARENTS.append(self._lock)  # to let go of it would unlock the parent's file
        self._lock = ExitStack()
        if self._engine is not None:
            self._engine.abandon()
            _OF_PARENTS.append(self._engine)
            self._engine = None

    def _enter(self) -> GrafeoEngine | None:
        with self._counting:
            if self._engine is not None:
                self._readers += 1
            return self._engine

    def _open(self, ends_at: float, wait_s: float, *, whole: bool) -> GrafeoEngine:
        if self._engine is not None:
            if self._file == _file_of(self._path):
                if self._is_changed():
                    logger.warning("%s: another program changed its log; all of it is written anew", self._path)
                    self._engine.renew_files()
                return self._engine
            self._give_back()
        with ExitStack() as lock:
            self._take_lock(lock, ends_at, wait_s)
            self._look_first(ends_at, wait_s, whole=whole)
            engine = self._open_file(GrafeoEngine.open, ends_at, wait_s)
            try:
                _ready(engine, self._place)
            except BaseException:
                _close(engine)
                raise
            self._lock = lock.pop_all()
        with self._counting:
            self._file, self._engine = _file_of(self._path), engine
        return engine

    def _take_lock(self, lock: ExitStack, ends_at: float, wait_s: float) -> None:
        """Our lock of the file, within the time that is left. Raises RegistryLocked, naming who holds it."""
        time.sleep(max(0.0, min(self._gave_way_at + LOOK_S, ends_at) - time.monotonic()))
        attempt_s = 0.0
        while True:
            try:
                lock.enter_context(write_lock(self._path, attempt_s, setting=WRITE_TIMEOUT, brief=False))
            except errors.RegistryLocked as error:
                self._wait_on(error, ends_at, wait_s)
            else:
                self._queue.unlink(missing_ok=True)
                return
            attempt_s = max(0.0, min(MARK_AGAIN_S, ends_at - time.monotonic()))

    def _open_file(self, open_it: Callable[[Path], GrafeoEngine], ends_at: float, wait_s: float) -> GrafeoEngine:
        """A process whose lock was unlinked, or that ends just now, holds the file a little longer than its lock."""
        while True:
            try:
                return open_it(self._path)
            except errors.RegistryLocked as error:
                self._wait_on(error, ends_at, wait_s)
            time.sleep(LOOK_S)

    def _wait_on(self, error: errors.RegistryLocked, ends_at: float, wait_s: float) -> None:
        """Says that this process waits. Raises RegistryLocked once the time is over."""
        with suppress(OSError):  # without the mark it takes a minute
            if wait_s:
                self._queue.touch()
        if time.monotonic() >= ends_at:
            raise self._lock_error(error.holder, wait_s) from None

    def _stay(self) -> None:
        """At the end of a turn: the graph stays open unless another process waits for it."""
        self._used_at = time.monotonic()
        self._stamps = graph_stamps(self._path)
        if self._engine is not None and self._queue.exists():
            self._give_back()
        with self._counting:
            if self._engine is None:
                return
            if self._keeper is None or not self._keeper.is_alive():
                self._keeper = threading.Thread(target=self._keep, name="graph", daemon=True)
                self._keeper.start()

    def _is_changed(self) -> bool:
        """Whether another program changed the file or its log. Between two turns."""
        return self._stamps != graph_stamps(self._path)

    def _keep(self) -> None:
        """Until the graph was given back. The process may end meanwhile: the log needs no more."""
        while True:
            time.sleep(LOOK_S)
            if self._queue.exists() or time.monotonic() > self._used_at + KEPT_S or self._is_changed():
                self.release_idle()
            with self._counting:
                if self._engine is None:
                    self._keeper = None
                    return

    def _give_back(self) -> None:
        """After what waits for it is published. Nothing while somebody reads, unless the file is another one by now:
        then no more may be written to it.
        """
        is_same = self._file == _file_of(self._path)
        if is_same:
            self._publish_for_others()
        elif self._group is not None:
            self._group.end("the graph file was replaced meanwhile")
            self._group = None
        with self._counting:
            if self._engine is None or (self._readers and is_same):
                return
            engine, self._engine = self._engine, None
        self._lock, lock = ExitStack(), self._lock
        with lock:
            if is_same:
                _close(engine)
            else:  # to close it would change the new file's log
                engine.abandon()
        self._gave_way_at = time.monotonic()

    @contextmanager
    def _as_it_is(self, wait_s: float) -> Iterator[GraphSession]:
        """The graph, at whatever schema it is, while this thread alone may write."""
        with ExitStack() as stack:
            engine, ends_at = self._engine, time.monotonic() + wait_s
            if engine is None:
                self._take_lock(stack, ends_at, wait_s)
                engine = stack.enter_context(self._open_copy(ends_at, wait_s))
            yield engine

    def _look_first(self, ends_at: float, wait_s: float, *, whole: bool) -> None:
        """Before the graph is opened to write, which alone would change its bytes.

        Refuses a graph that may not be ours, and one that is not the index's. Also one that is gone: a new one would be
        published over the index of that which was moved away, and with it the last copy lost.
        """
        if self._path.exists():
            with self._open_copy(ends_at, wait_s) as engine:
                if not whole:
                    refuse_unknown(self._folder, read_state(engine))
        elif current_path(self._folder) is not None:
            raise errors.RegistryUnusable(
                self._place,
                f"the graph file is gone, its index is still there. Put a copy back to {self._path}; run "
                "`waygraph doctor --repair`, which makes the graph anew from the index; or remove "
                f"{self._folder} to begin anew.",
            )

    @contextmanager
    def _open_copy(self, ends_at: float, wait_s: float) -> Iterator[GrafeoEngine]:
        """The file as it is, to be read. Raises RegistryUnusable for a graph that is not ours, or a newer one."""
        with closing(self._open_file(GrafeoEngine.open_copy, ends_at, wait_s)) as engine:
            _refuse_foreign(engine, self._place)
            seen_migrations(engine, self._place)
            yield engine


def _close(engine: GrafeoEngine) -> None:
    """What was committed is in the log, so an error loses nothing: the next one that opens the file meets it again."""
    try:
        engine.close()
    except errors.RegistryError as error:
        # As text: who keeps the error keeps its traceback, and with it the engine and its hold on the file.
        logger.warning("the graph's log could not be made part of its file: %s", str(error))


def _file_of(path: Path) -> tuple[int, int] | None:
    """Another value where the file was replaced, as by a copy that was put back; None where it is gone."""
    try:
        status = path.stat()
    except OSError:
        return None
    return status.st_dev, status.st_ino


def _ready(engine: GrafeoEngine, place: str) -> None:
    """Refuses a graph that is not ours, and brings ours to the present schema."""
    _refuse_foreign(engine, place)
    migrate(engine, place, clock.now())


def _refuse_foreign(engine: GrafeoEngine, place: str) -> None:
    """Raises RegistryUnusable for a graph of something else."""
    # Migrations are recorded before the Registry node is made; nothing else of ours comes before it.
    foreign = engine.labels() - {"Migration"}
    if foreign and read_state(engine) is None:
        raise errors.RegistryUnusable(
            place, f"it is a Grafeo graph of something else ({', '.join(sorted(foreign)[:5])})."
        )


_LIVE: "weakref.WeakSet[LiveGraph]" = weakref.WeakSet()


def _release_all() -> None:
    """A process that is forked off would share the engine and its locks with this one."""
    for live in list(_LIVE):
        live.release_idle()


_OF_PARENTS: list[object] = []


def _abandon_all() -> None:
    for live in list(_LIVE):
        live.abandon()


os.register_at_fork(before=_release_all, after_in_child=_abandon_all)
atexit.register(_release_all)
