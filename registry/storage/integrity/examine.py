"""Whether a registry is well: quick checks of what is published, and on request of every record."""

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path

from waygraph.registry.model.errors import NeedsRegistry
from waygraph.registry.model.settings import Settings, load_settings
from waygraph.registry.storage.embedded import EmbeddedStore
from waygraph.registry.storage.integrity.embedded_checks import examine_embedded
from waygraph.registry.storage.integrity.findings import Finding
from waygraph.registry.storage.local_registry import LocalRegistry
from waygraph.registry.storage.location import open_store
from waygraph.registry.storage.store import Stored


def examine(registry: Stored, *, deep: bool = False) -> list[Finding]:
    """The findings, in the order of the checks; never raises for what is wrong with the registry.

    Quick checks read only what is published. `deep` waits for the write lock, then recomputes every hash of the
    live graph and compares the published index with one built anew; what a killed writer left is published.
    On a graph server there is no such lock: it reads one revision whole, and changes nothing. Raises NeedsRegistry
    for what a service keeps.
    """
    store = registry.store
    if isinstance(store, EmbeddedStore):
        return examine_embedded(registry, store, deep=deep)
    from waygraph.registry.storage.integrity.server_checks import examine_server
    from waygraph.registry.storage.server import ServerStore

    if not isinstance(store, ServerStore):
        raise NeedsRegistry(store.place)
    return examine_server(registry, store, deep=deep)


def examine_at(
    location: str | Path, *, deep: bool = False, settings: Settings | None = None, environ: Mapping[str, str]
) -> list[Finding]:
    """The same for a registry that may be too damaged for `Registry.open`."""
    settings = load_settings(environ) if settings is None else settings
    if deep:  # all of it is read in one transaction, which may take as long as one that writes
        patience_s = max(settings.neo4j_read_timeout_s, settings.neo4j_write_timeout_s)
        settings = replace(settings, neo4j_read_timeout_s=patience_s)
    with LocalRegistry(open_store(location, settings), settings, environ, settings.embedder) as registry:
        return examine(registry, deep=deep)
