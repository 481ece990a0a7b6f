"""A source, as a person names it, into a registry: opened, its servers asked, synced."""

import json
import os
import socket
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from waygraph.ingest.manifest.environment import Surroundings
from waygraph.ingest.manifest.records import Manifest, ServerEntry
from waygraph.ingest.sources.mcp_servers import McpServers
from waygraph.ingest.sources.opening import (
    Documents,
    NoAnswer,
    OpenedSource,
    Opening,
    name_of_command,
    open_command,
    open_sources,
    open_value,
    printable_source,
    refuse_unused,
    vouch,
)
from waygraph.ingest.sources.read import Parts, documents, without_answers
from waygraph.ingest.sync.apply import SyncTerms, plan_sync, put_statuses, rehearse, with_statuses, write
from waygraph.registry.embedding.embedder import Progress
from waygraph.registry.model.changes import Document, Policy, Rejected, SyncReport, status_of_fault
from waygraph.registry.model.errors import MassRemoval, SourceError
from waygraph.registry.model.nouns import TextForm
from waygraph.registry.model.settings import Settings
from waygraph.registry.registry import Registry, is_remote, require_local
from waygraph.registry.storage.export.formats import as_catalogue
from waygraph.registry.storage.local_registry import LocalRegistry

if TYPE_CHECKING:
    from waygraph.ingest.manifest.questions import QuestionAuthor
    from waygraph.registry.remote.remote_registry import RemoteRegistry


type SourceInput = str | os.PathLike[str] | Sequence[str] | Mapping[str, Any] | Sequence[Mapping[str, Any]]
"""A path, an address, the words of a command, or a document as a file would hold it in JSON."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Asking:
    """How many questions each tool shall have, and who writes those that it lacks."""

    count: int
    author: "QuestionAuthor"


@dataclass(frozen=True, slots=True, kw_only=True)
class IngestResult:
    """What became of one source. `without_questions`: tools that the author of questions had no fit answer for."""

    report: SyncReport
    without_questions: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class Ingestion:
    """How sources are opened, and what becomes of what they say. `policy` None: as it was; `texts`, of a new registry:
    the default."""

    opening: Opening
    policy: Policy | None = None
    texts: TextForm | None = None
    asking: Asking | None = None
    dry_run: bool = False
    allow_mass_removal: bool = False

    def ingest(
        self, registry: Registry, sources: Sequence[OpenedSource], progress: Progress | None = None
    ) -> Iterator[IngestResult]:
        """`sources`: those that one text or command names. Raises SourceError, MassRemoval, and what a write raises,
        after the reports of what came before.
        """
        if is_remote(registry):
            yield from self._send_offer(registry, sources[0])  # an export's are one file
            return
        local = require_local(registry)
        for source in sources:
            parts = source.parts()  # read
            try:
                manifest = self._ask_servers(source, parts)
            except NoAnswer as error:
                # What never worked is no source yet, and may be a slip of the pen.
                if not self.dry_run and self._known_sources(local, {error.manifest.source}):
                    self._sync(local, error.manifest, None)
                raise
            yield self.take(local, source, parts, manifest, progress)

    def take(
        self,
        registry: LocalRegistry,
        source: OpenedSource,
        parts: Parts,
        manifest: Manifest,
        progress: Progress | None = None,
    ) -> IngestResult:
        """`manifest`: the source's parts, with what its servers said. Raises as `ingest`."""
        result = self._sync(registry, replace(manifest, policy=self.policy or manifest.policy), progress)
        if not self.dry_run:  # what was only looked at, or refused, may not be called
            vouch(source, parts)
        return result

    def _ask_servers(self, source: OpenedSource, parts: Parts) -> Manifest:
        """A dry run starts nothing and asks no server, whoever named it."""
        return without_answers(parts) if self.dry_run else source.with_answers(parts)

    def _sync(self, registry: LocalRegistry, manifest: Manifest, progress: Progress | None) -> IngestResult:
        asking, complete_manifest = self.asking, manifest
        if asking:
            from waygraph.ingest.manifest.questions import with_questions

            complete_manifest = with_questions(manifest, asking.author, asking.count, progress)
        terms = SyncTerms(texts=self.texts, allow_mass_removal=self.allow_mass_removal)
        sync_plan = plan_sync(registry, complete_manifest, terms, dry_run=self.dry_run)
        if self.dry_run:
            report = rehearse(registry, sync_plan)
        else:
            report = write(registry, sync_plan, progress)  # and publish
            report = with_statuses(registry, manifest, report)
        return IngestResult(report=report, without_questions=len(complete_manifest.cut) - len(manifest.cut))

    def note_unreadable(self, registry: Registry, source_input: SourceInput, error: SourceError | MassRemoval) -> None:
        """Keeps why a source that the registry knows cannot be taken now."""
        if self.dry_run or isinstance(error, NoAnswer) or is_remote(registry):
            return
        local = require_local(registry)
        names = {self.opening.source} if self.opening.source else _names_of(source_input)
        names |= {error.source} if isinstance(error, MassRemoval) else set()
        reason = error.reason if isinstance(error, SourceError) else str(error)
        if known_names := self._known_sources(local, names):
            put_statuses(local, {(name, ""): status_of_fault(reason) for name in known_names})

    def _known_sources(self, registry: LocalRegistry, names: set[str]) -> set[str]:
        return names.intersection(source.name for source in registry.stored_sources())

    def _send_offer(self, registry: "RemoteRegistry", source: OpenedSource) -> list[IngestResult]:
        """Raises SourceError, also for more than `max_manifest_bytes`; MassRemoval and what else the service met."""
        parts, settings = source.parts(), self.opening.settings
        notes: Sequence[Rejected] = ()
        if isinstance(source.place, Documents) and not parts.servers and not parts.waiting:
            listing = source.place.list(source.how)
            name, namespace, contents = listing.source, listing.namespace, documents(listing, settings)
        else:  # files are read there, servers are asked here: what is noted of them is known here alone
            manifest = self._ask_servers(source, parts)
            name, namespace, notes = manifest.source, manifest.namespace, manifest.cut
            contents = documents_of(manifest)
        answer = registry.take(
            _bound_documents(contents, name, settings.max_manifest_bytes),
            # Other machines may have files at the same path.
            source=name if self.opening.source else f"{socket.gethostname()}:{name}",
            namespace=namespace,
            kind=self.opening.kind,
            policy=self.policy,
            texts=self.texts,
            dry_run=self.dry_run,
            allow_mass_removal=self.allow_mass_removal,
        )
        if answer.error:
            raise answer.error
        results = list[IngestResult]()
        for report in answer.reports:
            changes = replace(report.changes, cut=(*report.changes.cut, *notes))
            results.append(IngestResult(report=replace(report, changes=changes)))
        if not self.dry_run:
            vouch(source, parts)
        return results


def ingest(
    registry: Registry,
    given: SourceInput,
    *,
    source: str = "",
    namespace: str = "",
    kind: str = "",
    headers: Mapping[str, str] | None = None,
    env: Mapping[str, str] | None = None,
    connect: bool | None = None,
    start: bool = False,
    policy: Policy | None = None,
    texts: TextForm | None = None,
    dry_run: bool = False,
    allow_mass_removal: bool = False,
    environ: Mapping[str, str] | None = None,
    progress: Progress | None = None,
) -> list[SyncReport]:
    """What `waygraph ingest` does with one source: a report of it, several of an export.

    `given`: a file, folder, glob or address, the words of a command that starts an MCP server, or what a file would
    hold as JSON, in memory; that needs `source`, the name by which it is known when it comes again. The servers of an
    MCP host's configuration are started, or reached, and asked for their tools; `connect` also asks those that a
    registry lists (True), or none (False). Servers of configurations below a folder, or that fit a glob, are asked
    only with `start`, or as they were asked before. A `dry_run` starts nothing and asks no server. `headers` go to an
    address, `env` to a command; like configurations they may refer to variables, of `environ` (default: the
    process's).

    Nothing of `rejected` was taken: a server that does not answer is named there, with the reason.
    Raises SourceError for what cannot be read at all, MassRemoval, and what a write raises.
    """
    settings = registry.settings
    how = Opening(
        settings=settings,
        registry=registry.store.place,
        surroundings=Surroundings.here(os.environ if environ is None else environ),
        source=source,
        namespace=namespace,
        kind=kind,
        headers=headers or {},
        env=env or {},
        connect=connect,
        start=start,
        ask=partial(ask_servers, settings),
    )
    terms = Ingestion(opening=how, policy=policy, texts=texts, dry_run=dry_run, allow_mass_removal=allow_mass_removal)
    names = [os.fspath(given)] if isinstance(given, (str, os.PathLike)) else []
    refuse_unused(names, () if names or _is_document(given) else _words(given), how)
    try:
        return [each.report for each in terms.ingest(registry, open_given(given, how), progress)]
    except (SourceError, MassRemoval) as error:
        terms.note_unreadable(registry, given, error)
        raise


def open_given(source_input: SourceInput, how: Opening) -> list[OpenedSource]:
    """The sources that one text, path, command or document names. Raises SourceError."""
    if isinstance(source_input, (str, os.PathLike)):
        return open_sources(os.fspath(source_input), how)
    return open_value(source_input, how) if _is_document(source_input) else [open_command(_words(source_input), how)]


def _names_of(source_input: SourceInput) -> set[str]:
    """By which a source may be known that could not be opened. One in memory has a name of its own."""
    if _is_document(source_input):
        return set()
    if not isinstance(source_input, (str, os.PathLike)):
        return {name_of_command(_words(source_input))}
    names = {printable_source(os.fspath(source_input))}
    with suppress(OSError, ValueError, RuntimeError):  # what is no path
        names.add(str(Path(source_input).expanduser().resolve()))
    return names


def _is_document(value: object) -> bool:
    if isinstance(value, Sequence) and not isinstance(value, str):
        return bool(value) and all(isinstance(each, Mapping) for each in value)
    return isinstance(value, Mapping)


def _words(value: object) -> list[str]:
    """Of a command. Raises SourceError for what is none."""
    if not isinstance(value, Sequence) or not all(isinstance(word, str) for word in value):
        expectation = "expected a path, an address, a list of the words of a command, or a document as a dict"
        raise SourceError("ingest", f"{expectation}, not {type(value).__name__}")
    return list(value)


def ask_servers(settings: Settings, source: str, servers: Sequence[ServerEntry]) -> Manifest:
    """What the servers of a configuration say of themselves; who does not answer is among the rejected."""
    return McpServers(name=source, servers=servers, settings=settings).read()


def documents_of(manifest: Manifest) -> Iterator[Document]:
    """What was read here, servers' own answers say, as a catalogue.

    What was rejected goes along as a document without a text: it is counted there, and removes nothing.
    """
    content = {"waygraph": 1, "agents": [as_catalogue(entry) for entry in manifest.entries]}
    yield Document(f"{manifest.source}.json", json.dumps(content, ensure_ascii=False))
    yield from (Document(fault.where, unreadable=fault.reason) for fault in manifest.rejected)


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
