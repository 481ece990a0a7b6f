"""What is read here for a registry that a service keeps: documents, which the service reads and syncs."""

import json
from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from waygraph.ingest.manifest.records import Manifest
from waygraph.ingest.sources.read import Listing, documents
from waygraph.registry.model.changes import Document, Policy, SyncReport
from waygraph.registry.model.errors import SourceError
from waygraph.registry.model.nouns import TextForm
from waygraph.registry.model.settings import Settings
from waygraph.registry.registry import DocumentReader
from waygraph.registry.storage.export.formats import as_catalogue


@dataclass(frozen=True, slots=True, kw_only=True)
class Offer:
    """The documents of one source, for a service to read."""

    source: str
    namespace: str
    documents: Iterable[Document]


def offer_of_listing(listing: Listing, settings: Settings) -> Offer:
    """The files as they are."""
    return Offer(source=listing.source, namespace=listing.namespace, documents=documents(listing, settings))


def offer_of_manifest(manifest: Manifest) -> Offer:
    """What was read here, servers' own answers say, as a catalogue.

    What was rejected goes along as a document without a text: it is counted there, and removes nothing.
    """
    content = {"waygraph": 1, "agents": [as_catalogue(entry) for entry in manifest.entries]}
    catalogue = Document(f"{manifest.source}.json", json.dumps(content, ensure_ascii=False))
    unread = [Document(fault.where, unreadable=fault.reason) for fault in manifest.rejected]
    return Offer(source=manifest.source, namespace=manifest.namespace, documents=[catalogue, *unread])


def offer_documents(
    registry: DocumentReader,
    offer: Offer,
    settings: Settings,
    *,
    host: str = "",
    kind: str = "",
    policy: Policy | None = None,
    texts: TextForm | None = None,
    dry_run: bool = False,
    allow_mass_removal: bool = False,
) -> Iterator[SyncReport]:
    """A report for each manifest of the source, as `sync` of what `read_path` gives would report it.

    `host`: put before the source's name, since other machines may have files at the same path. Raises SourceError,
    also for more text than `max_manifest_bytes`; MassRemoval and what else the service met, after the reports of
    what came before.
    """
    answer = registry.take(
        _bound_documents(offer.documents, offer.source, settings.max_manifest_bytes),
        source=f"{host}:{offer.source}" if host else offer.source,
        namespace=offer.namespace,
        kind=kind,
        policy=policy,
        texts=texts,
        dry_run=dry_run,
        allow_mass_removal=allow_mass_removal,
    )
    yield from answer.reports
    if answer.error:
        raise answer.error


def _bound_documents(read: Iterable[Document], source: str, most_bytes: int) -> list[Document]:
    documents, left_bytes = list[Document](), most_bytes
    for document in read:
        left_bytes -= len(document.text.encode())
        if left_bytes < 0:
            raise SourceError(
                source,
                f"has more than the {most_bytes:,} bytes that a service takes at once (WAYGRAPH_MAX_MANIFEST_BYTES, "
                "here and there); ingest it in parts, each under a source name of its own",
            )
        documents.append(document)
    return documents
