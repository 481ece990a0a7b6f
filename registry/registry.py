"""The one object that users hold: a registry in a file, in memory, on a graph server, or one that a service keeps."""

import os
from collections.abc import Mapping
from typing import TYPE_CHECKING, Protocol, Self, TypeGuard, cast, runtime_checkable

from waygraph.registry.catalog.searchable import Searchable
from waygraph.registry.model.errors import NeedsRegistry
from waygraph.registry.model.settings import Settings
from waygraph.registry.storage.location import is_service, named_place

if TYPE_CHECKING:
    from waygraph.registry.operations.operator import Operator
    from waygraph.registry.remote.remote_registry import RemoteRegistry
    from waygraph.registry.storage.local_registry import LocalRegistry
    from waygraph.registry.storage.store import Place


@runtime_checkable
class Registry(Searchable, Protocol):
    """Agents and their tools as a graph, and the router over them. Threads may share one.

    Any number of processes may read while one writes. What operators do stands at `operator`. Implemented by
    RemoteRegistry and by LocalRegistry, which alone has what works on the graph itself.
    """

    @staticmethod
    def open(
        location: str | os.PathLike[str],
        *,
        embedder: str | None = None,
        settings: Settings | None = None,
        environ: Mapping[str, str] | None = None,
    ) -> "Registry":
        """A registry in a file, in memory (`:memory:`) or on a server (`neo4j://host`). The first write makes it.

        Or one that a service keeps (`https://host`): a RemoteRegistry, of which nothing is asked yet.

        `embedder` is a spec such as `onnx:sentence-transformers/all-MiniLM-L6-v2`; by default the registry's own.
        Raises RegistryUnusable for a damaged, empty, foreign or newer file, EmbedderMismatch if the registry's
        vectors were made by another embedder than the one asked for, EmbedderRefused for a spec that names none,
        InvalidSetting if a service is to have another.
        """
        location = named_place(location)
        if is_service(location):
            from waygraph.registry.remote.remote_registry import RemoteRegistry

            return RemoteRegistry.open(location, embedder=embedder, settings=settings, environ=environ)
        from waygraph.registry.storage.local_registry import LocalRegistry

        return LocalRegistry.open(location, embedder=embedder, settings=settings, environ=environ)

    def __enter__(self) -> Self: ...

    def __exit__(self, *_: object) -> None: ...

    def close(self) -> None:
        """Lets go of files and connections. A closed registry answers nothing more."""
        ...

    @property
    def store(self) -> "Place":
        """Where it is, and whether anything was ever written there."""
        ...

    @property
    def stamp(self) -> str:
        """Another text for each revision, also where a copy of the registry came to the same number another way."""
        ...

    @property
    def operator(self) -> "Operator":
        """What operators do with it, and how they watch it."""
        ...


def is_remote(registry: Registry) -> "TypeGuard[RemoteRegistry]":
    """Whether a service keeps it, which reads documents itself."""
    from waygraph.registry.storage.local_registry import LocalRegistry

    return not isinstance(registry, LocalRegistry)


def require_local(registry: Registry) -> "LocalRegistry":
    """The registry whose graph is here. Raises NeedsRegistry for one that a service keeps."""
    if is_remote(registry):
        raise NeedsRegistry(registry.store.place)
    return cast("LocalRegistry", registry)
