"""Sources that lie here for a registry that a service keeps: read as text here, understood and synced there."""

from collections.abc import Iterable, Iterator

from waygraph.ingest.sources import Listing, documents
from waygraph.registry.changes import Document, SyncReport
from waygraph.registry.errors import SourceError
from waygraph.registry.model import TextForm
from waygraph.registry.remote.client import RemoteRegistry
from waygraph.registry.settings import Settings


def offered(
    registry: RemoteRegistry,
    listing: Listing,
    settings: Settings,
    *,
    host: str = "",
    kind: str = "",
    texts: TextForm | None = None,
    dry_run: bool = False,
    allow_mass_removal: bool = False,
) -> Iterator[SyncReport]:
    """A report for each manifest of the source, as `sync` of what `read_path` gives would report it.

    `host`: put before the source's name, since other machines may have files at the same path. Raises SourceError,
    also for more text than `max_manifest_bytes`; MassRemoval and what else the service met, after the reports of
    what came before.
    """
    taken = registry.take(
        _bounded(documents(listing, settings), listing.source, settings.max_manifest_bytes),
        source=f"{host}:{listing.source}" if host else listing.source,
        namespace=listing.namespace,
        kind=kind,
        texts=texts,
        dry_run=dry_run,
        allow_mass_removal=allow_mass_removal,
    )
    yield from taken.reports
    if taken.error:
        raise taken.error


def _bounded(read: Iterable[Document], source: str, most_bytes: int) -> list[Document]:
    kept, left_bytes = list[Document](), most_bytes
    for document in read:
        left_bytes -= len(document.text.encode())
        if left_bytes < 0:
            raise SourceError(
                source,
                f"has more than the {most_bytes:,} bytes that a service takes at once (WAYGRAPH_MAX_MANIFEST_BYTES, "
                "here and there); ingest it in parts, each under a --source name",
            )
        kept.append(document)
    return kept
