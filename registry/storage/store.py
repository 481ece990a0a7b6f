"""Where a registry lives, and what every such place does: a graph to write, a search index to read."""

import os
from collections.abc import Callable, Collection, Mapping
from contextlib import AbstractContextManager
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple, Protocol

from waygraph.registry.model.errors import InvalidSetting, NeedsRegistry
from waygraph.registry.model.files import as_written

if TYPE_CHECKING:
    from waygraph.registry.graph.engine import GraphEngine, GraphSession
    from waygraph.registry.graph.read import RegistryState
    from waygraph.registry.graph.user_cypher.sandbox import CypherResult
    from waygraph.registry.index.search_index import SearchIndex
    from waygraph.registry.model.settings import Settings
    from waygraph.registry.storage.fill import Filling, Origin

    Keep = Callable[[GraphSession, Collection[str] | None], AbstractContextManager[None]]

MEMORY = ":memory:"
SERVICE_SCHEMES = ("http", "https")
SERVER_SCHEMES = ("neo4j", "neo4j+s", "neo4j+ssc", "bolt", "bolt+s", "bolt+ssc")
_LISTED = ", ".join(f"{scheme}://" for scheme in SERVER_SCHEMES)


class Writing(NamedTuple):
    """The engine to write through, and what keeps the search index true to what is written.

    `keep(session, agent_ids)` is entered inside the transaction, before these agents or their tools change; with None
    in place of ids everything is indexed anew. `prepare(dimension)` is called before the first vectors of that many
    numbers are written; 0: before there are none any more. `state`: of the revision that this write goes on from, read
    while no other writer was committing; None: there is no registry yet.
    """

    engine: "GraphEngine"
    keep: "Keep"
    prepare: Callable[[int], None]
    state: "RegistryState | None"


class Store(Protocol):
    """Threads may share it."""

    @property
    def place(self) -> str:
        """For people: no secret in it."""
        ...

    @property
    def exists(self) -> bool:
        """Whether there is a registry to read. Raises RegistryUnusable, ServerUnavailable."""
        ...

    def index(self, *, fresh: bool = False) -> "SearchIndex":
        """`fresh`: its `state` and lists are of now, not of when it was last asked. Raises RegistryNotFound."""
        ...

    def look[T](self, work: "Callable[[SearchIndex], T]") -> T:
        """What `work` finds in the index of one revision; it may run more than once. Raises RegistryNotFound."""
        ...

    def read[T](self, work: "Callable[[GraphSession], T]") -> T:
        """What `work` makes of one revision, read whole; it may run more than once. Raises RegistryNotFound."""
        ...

    def writing(self, *, trust_index: bool = True) -> AbstractContextManager[Writing]:
        """To write; where a place has one writer at a time it is held alone. Raises RegistryLocked, StorageFailed."""
        ...

    def filling(self, origin: "Origin") -> "AbstractContextManager[Filling]":
        """To copy a whole registry to a place that holds none. Raises RegistryUnusable if it does, and as `writing`."""
        ...

    def run_read_only(self, statement: str, params: Mapping[str, object]) -> "CypherResult":
        """A statement that a person typed. Raises CypherRefused, CypherFailed, CypherLimit, CypherBusy."""
        ...

    def close(self) -> None: ...


def prepare_nothing(dimension: int) -> None:
    """For an index that takes vectors of any length."""


def named_place(location: object) -> str:
    """Raises InvalidSetting for what names no place."""
    named = os.fspath(location) if isinstance(location, (str, os.PathLike)) else None
    if not isinstance(named, str):
        raise InvalidSetting(f"a registry is named by a text or a path, not by {type(location).__name__}")
    return named


def is_server(location: object) -> bool:
    """Whether a location names a graph server, not a file."""
    return _scheme(location) in SERVER_SCHEMES


def is_service(location: object) -> bool:
    """Whether a location names a service, which keeps a registry of its own."""
    return _scheme(location) in SERVICE_SCHEMES


def is_part_of(path: Path, location: object) -> bool:
    """Whether a file is the registry of this place, its lock, or in its index."""
    if is_server(location) or is_service(location) or location == MEMORY:
        return False
    from waygraph.registry.index.local.generation import folder_of
    from waygraph.registry.model.files import lock_of

    home, given = as_written(str(location)).resolve(), as_written(path).resolve()
    index = folder_of(home)
    return given in (home, lock_of(home), index) or index in given.parents


def refuse_service(location: object) -> None:
    """Raises NeedsRegistry."""
    if is_service(location):
        from waygraph.registry.remote.address import ServiceAddress

        raise NeedsRegistry(ServiceAddress.parse(str(location)).url)


def _scheme(location: object) -> str:
    """In small letters; empty for what is no URL."""
    scheme, colon, _ = str(location).partition("://")
    return scheme.lower() if colon else ""


def open_store(location: object, settings: "Settings") -> Store:
    """The store of a location; nothing is read or written yet.

    Raises InvalidSetting for a URL or path that names none, NeedsRegistry for one of a service.
    """
    refuse_service(location)
    if is_server(location):
        from waygraph.registry.storage.server import ServerStore

        return ServerStore.at(str(location), settings)
    from waygraph.registry.storage.embedded import EmbeddedStore

    if "://" in str(location):
        raise InvalidSetting(f"a registry is a file, {MEMORY}, a service (http://, https://) or a server ({_LISTED})")
    return EmbeddedStore(None if str(location) == MEMORY else _file(str(location)), settings)


def _file(location: str) -> Path:
    """Where it is, whatever the working directory becomes. Raises InvalidSetting for what names no file."""
    try:
        path = as_written(location).resolve()
    except (OSError, ValueError, RuntimeError) as exc:  # a NUL, links that lead in a circle
        raise InvalidSetting(f"{location!r} cannot be the file of a registry: {exc}") from exc
    if not path.name:
        raise InvalidSetting(f"{location!r} cannot be the file of a registry: it is the root folder")
    return path
