"""What every place of a registry does: a graph to write, a search index to read, a whole copy to take in; and how it is
read and written.
"""

import random
import time
from abc import ABC, abstractmethod
from collections.abc import Callable, Collection, Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass
from itertools import count
from threading import Lock
from typing import TYPE_CHECKING, NamedTuple, Protocol

from waygraph.registry.model import clock
from waygraph.registry.model.errors import RegistryNotFound, RegistryUnusable, WriteConflict
from waygraph.registry.model.nouns import TextForm
from waygraph.registry.model.settings import Settings
from waygraph.registry.model.tracing import span
from waygraph.registry.model.validation import checked_texts

if TYPE_CHECKING:
    from waygraph.registry.embedding.factory import ChosenEmbedder
    from waygraph.registry.graph.contents import Contents
    from waygraph.registry.graph.engine import GraphSession
    from waygraph.registry.graph.read import RegistryState
    from waygraph.registry.index.search_index import SearchIndex
    from waygraph.registry.model.changes import CypherResult
    from waygraph.registry.model.pictures import Map
    from waygraph.registry.writer import WriteSession, Writing


MEMORY = ":memory:"
"""The place of a registry that is gone when it is closed."""

type Work = Callable[[GraphSession], None]


@dataclass(frozen=True, slots=True, kw_only=True)
class Origin:
    """The revision that a copy is of; no other change has its `commit`. `dimension` of its vectors, 0 without any."""

    place: str
    revision: int
    commit: str
    dimension: int = 0


class Filling(NamedTuple):
    """A place while it is filled. An error on the way leaves no registry.

    `session` shows what an earlier attempt at the same copy has left. `put` takes a part of bounded size, which changes
    only these agents and their tools; `finish` the last one, which makes the Registry node and may run more than once.
    """

    session: "GraphSession"
    put: Callable[[Collection[str], Work], None]
    finish: Callable[[Work], None]


def refuse_registry(place: str, state: "RegistryState | None") -> None:
    """Raises RegistryUnusable if there is one."""
    if state is not None:
        raise RegistryUnusable(
            place,
            f"it holds another registry already, at revision {state.revision}. It was left as it is; "
            "copy to a place that holds none.",
        )


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


_MAPS_KEPT = 8


class GraphAccess(ABC):
    """Reads and writes the graph of a store. Threads may share one."""

    def __init__(self, store: Store, settings: Settings) -> None:
        self._store, self._settings = store, settings
        self._maps: dict[object, Map] = {}
        self._map_lock = Lock()

    @abstractmethod
    def open_embedder(self, spec: str) -> "ChosenEmbedder":
        """The embedder for a write: the one asked for, the registry's own (`spec`), or for a new registry the default.

        Without weights a new registry is made without vectors; one that has vectors refuses (ModelNotFound).
        """
        ...

    @property
    def store(self) -> Store:
        return self._store

    @property
    def settings(self) -> Settings:
        return self._settings

    def look[T](self, work: "Callable[[SearchIndex], T]") -> T:
        """What `work` finds in the index of one revision. Raises RegistryNotFound."""
        return self._store.look(work)

    def kept_map(self, key: Callable[[], object], draw: "Callable[[], Map]") -> "Map":
        """The one that was drawn of this revision for who sees the same. One is drawn at a time: whoever wants the same
        waits, and finds it; whoever wants one that is there does not wait.
        """
        if picture := self._maps.get(key()):
            return picture
        with self._map_lock:
            now = key()
            if now not in self._maps:
                picture = draw()
                if len(self._maps) >= _MAPS_KEPT:
                    del self._maps[next(iter(self._maps))]
                self._maps[now] = picture
            return self._maps[now]

    def read[T](self, work: "Callable[[GraphSession], T]", *, before_write: bool = False) -> T:
        """What `work` makes of one revision by declared statements: what sources state, without overlays.

        It may run more than once. `before_write`: a write follows. Raises RegistryNotFound.
        """
        return self._store.read(work, before_write=before_write)

    @contextmanager
    def writing(
        self, *, texts: TextForm | None = None, trust_index: bool = True, alone: bool = False
    ) -> "Iterator[WriteSession]":
        """To write once; `change` tries again. `texts` is chosen once, by the first write. `alone`: it may take long,
        so that no write before waits to be published with it.

        Raises RegistryLocked, naming the holder, after `write_timeout_s`; InvalidSetting for other texts than its
        own; WriteConflict if another writer was first, where a registry has several at a time.
        """
        from waygraph.registry.storage.noun_list import NOUNS
        from waygraph.registry.writer import WriteSession

        texts = checked_texts(texts)
        with self._store.writing(trust_index=trust_index, alone=alone) as writing:
            yield WriteSession(writing, self.open_embedder, NOUNS, self._settings, texts=texts, clock=clock.now)

    def change[T](
        self,
        work: "Callable[[WriteSession], T]",
        *,
        texts: TextForm | None = None,
        trust_index: bool = True,
        alone: bool = False,
    ) -> T:
        """What `work` does in a write session; done again, from its start, if another writer was first.

        Raises as `writing` does, WriteConflict after `write_timeout_s` of trying.
        """
        give_up = time.monotonic() + self._settings.write_timeout_s
        for attempt in count(1):
            try:
                with span("write"), self.writing(texts=texts, trust_index=trust_index, alone=alone) as session:
                    return work(session)
            except WriteConflict:
                if time.monotonic() > give_up:
                    raise
                time.sleep(random.uniform(0, min(0.5, 0.01 * 2 ** min(attempt, 10))))  # noqa: S311 - jitter, not a secret
        raise AssertionError("unreachable")

    def change_existing[T](self, work: "Callable[[WriteSession], T]", *, trust_index: bool = True) -> T:
        """As `change`, for what only changes what is there: it makes no registry. Raises RegistryNotFound."""
        if not self._store.exists:
            raise RegistryNotFound(self._store.place)
        return self.change(work, trust_index=trust_index)
