"""The rule of what may be called: a person's word for a source, given by taking it in, kept in the trust store."""

from waygraph.ingest.manifest.records import Refusal
from waygraph.ingest.manifest.trust_store import (
    VouchedFile,
    VouchedServer,
    VouchedSource,
    vouched_cards,
    vouched_servers,
)
from waygraph.ingest.sources.opening import OpenedSource
from waygraph.ingest.sources.read import Parts
from waygraph.registry.model.errors import RegistryLocked, SourceError, StorageFailed


def vouch(source: OpenedSource, parts: Parts) -> None:
    """Notes what a person means by taking these parts in: which servers and addresses may be called from now on.

    Not of the sources in whose names an export speaks: a person opened the export. Raises SourceError if it cannot be
    noted.
    """
    if (manifest := parts.manifest).source != source.opened_name and not parts.no_document:
        return
    cards = vouched_cards(manifest) if source.origin and not parts.no_document else {}
    try:
        file = source.how.vouched_file()
        vouched_source = VouchedSource(
            servers=_vouched_servers(source, parts, file) if source.how.asks else {},
            cards=cards,
            origin=source.origin if cards else "",
            path=source.path if any(entry.agent.kind == "skill" for entry in manifest.entries) else "",
        )
        file.keep(manifest.source, vouched_source, partial=manifest.partial)
    except (Refusal, RegistryLocked, StorageFailed) as exc:
        raise SourceError(manifest.source, str(exc)) from exc


def _vouched_servers(source: OpenedSource, parts: Parts, file: VouchedFile) -> dict[str, VouchedServer]:
    """What a person had asked before counts as long as it is listed, unless it is asked as it is now."""
    earlier = file.source(parts.manifest.source).servers if parts.former_keys else {}
    servers = [server for server in parts.servers if server.key not in parts.approved_keys]
    return {
        **{key: server for key, server in earlier.items() if key in parts.former_keys},
        **vouched_servers(servers, source.how.surroundings.cwd, file.digest_of),
    }
