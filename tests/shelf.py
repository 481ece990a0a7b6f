"""Registries of the example catalogue in any place: many beside each other in a folder, one at a time on a server."""

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import cast

from tests.neo4j_fixtures import SERVERS
from tests.places import Place, Servers, new_place
from waygraph.ingest.sources.read import read_path
from waygraph.ingest.sync.apply import sync
from waygraph.registry.model.nouns import TextForm
from waygraph.registry.model.settings import Settings
from waygraph.registry.storage.local_registry import LocalRegistry

EXAMPLES = Path(__file__).parent.parent / "examples"
ROOM = dict.fromkeys(SERVERS, 1)
"""How many registries a place holds, where that is limited."""


@dataclass(frozen=True)
class Edition:
    """How the catalogue was embedded."""

    texts: TextForm = "contextual"
    embedder: str | None = None


class Shelf:
    """Holds registries at one of PLACES; where there is no more room they make way, and are filled again when asked."""

    def __init__(self, place: str, new_folder: Callable[[], Path], servers: Servers) -> None:
        self._place, self._new_folder, self._servers = place, new_folder, servers
        self._held: dict[Edition, LocalRegistry] = {}

    def empty(self) -> Place:
        """A place for a registry of the test's own."""
        if ROOM.get(self._place, len(self._held) + 1) <= len(self._held):
            self.close()
        return new_place(self._place, self._new_folder(), self._servers)

    def catalogue(self, edition: Edition) -> LocalRegistry:
        """For many tests, none of which may change it."""
        return cast("LocalRegistry", _Held(self, edition))

    def held(self, edition: Edition) -> LocalRegistry:
        if edition not in self._held:
            self._held[edition] = filled(self.empty(), edition)
        return self._held[edition]

    def close(self) -> None:
        for registry in self._held.values():
            registry.close()
        self._held.clear()


class _Held:
    """A Registry that is there whenever it is asked something."""

    def __init__(self, shelf: Shelf, edition: Edition) -> None:
        self._shelf, self._edition = shelf, edition

    def __getattr__(self, name: str) -> object:
        return getattr(self._shelf.held(self._edition), name)


def filled(place: Place, edition: Edition) -> LocalRegistry:
    """The example catalogue at this place."""
    registry = LocalRegistry.open(place.location, embedder=edition.embedder, settings=place.settings, environ={})
    for manifest in read_path(str(EXAMPLES / "catalog"), Settings()):
        sync(registry, manifest, texts=edition.texts)
    return registry
