"""The documents of one source to its Manifest. The kind of each is told from its content."""

import glob
import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from itertools import takewhile
from os.path import commonpath
from pathlib import Path, PurePath
from typing import Any, BinaryIO

from waygraph.ingest.manifest.environment import Surroundings
from waygraph.ingest.manifest.own_gateway import is_gateway, launches_gateway, omission
from waygraph.ingest.manifest.records import AgentRecord, Intake, Manifest, ServerEntry
from waygraph.ingest.manifest.trust_store import Approvals, launch_in
from waygraph.ingest.sources.folder_files import FolderFiles, files_under, holds_other_settings, is_of_programs
from waygraph.ingest.sources.formats import catalogue
from waygraph.ingest.sources.formats.mcp_config import DISABLED
from waygraph.ingest.sources.kinds import Kind, UnknownShape, kind_named, kind_of, of_another_kind
from waygraph.ingest.sources.mcp_servers import LIVE_RANK
from waygraph.ingest.sources.parse import (
    FILES,
    Content,
    is_skill,
    parse,
    read_file,
    read_skill_file,
    referenced_files,
    text_of,
)
from waygraph.registry.model.changes import AgentEntry, Document, Rejected
from waygraph.registry.model.errors import SourceError
from waygraph.registry.model.identity import agent_id
from waygraph.registry.model.settings import Settings

ReadServers = Callable[[Any, str, Intake], Iterator[ServerEntry]]
FindServers = Callable[[str, Intake], list[ServerEntry]]
Ask = Callable[[str, Sequence[ServerEntry]], Manifest]
"""Asks the servers of a source for their tools: an entry of each that answered, `rejected` of each other with its key.
"""


@dataclass(frozen=True, slots=True, kw_only=True)
class Listing:
    """The documents of one source, unread: the name of each and what gives its content."""

    files: Sequence[tuple[str, Content]]
    source: str
    namespace: str
    are_files: bool = True
    """Whether they are there by these names later on, too."""
    is_named: bool = True
    """Whether a person named each of them; else they were met below a folder, or fit a pattern."""
    remark: str = ""
    """On what was left out of a folder."""
    root: str = ""
    """Of a folder or a pattern: where the names of its documents begin to differ."""

    def document_name(self, where: str) -> str:
        """The path of a document within its source; empty for a source that is a single one."""
        path = PurePath(where)
        return str(path.relative_to(self.root)) if self.root and path.is_relative_to(self.root) else ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Reading:
    """How documents are read. `ask` None: servers cannot be started or reached here, whatever documents name.

    `connect`: True also asks servers that a registry lists, False asks none, None those that only they themselves can
    tell of. `start`: a person's yes to those that documents name which nobody named.
    """

    settings: Settings
    kind: str = ""
    ask: Ask | None = field(default=None, repr=False)
    connect: bool | None = None
    start: bool = False
    registry: str = ""
    """The place of the registry into which they go: what a person has asked is noted for each of its own."""
    approvals: Approvals = field(default_factory=Approvals)
    """Of servers that a person had asked before."""
    surroundings: Surroundings = field(default_factory=Surroundings, repr=False)

    @property
    def asks(self) -> bool:
        """Whether servers are asked."""
        return self.ask is not None and self.connect is not False

    def asks_kind(self, kind: Kind) -> bool:
        return self.asks and kind.servers is not None and (kind.live or bool(self.connect))


@dataclass(frozen=True, slots=True, kw_only=True)
class Parts:
    """What a source says by itself, and the servers that it names and that are to be asked.

    Of a server that `must_answer` only its own word counts; another is listed as the source has it, asked or not.
    """

    manifest: Manifest
    servers: tuple[ServerEntry, ...] = ()
    must_answer: frozenset[str] = frozenset()
    """Keys."""
    approved_keys: frozenset[str] = frozenset()
    """Keys of those servers that are asked since a person had them asked before."""
    former_keys: frozenset[str] = frozenset()
    """Keys of what is listed still of that which a person had asked before, whether it is asked now or not."""
    waiting: tuple[Rejected, ...] = ()
    """Documents whose servers are not asked before a person says so; the manifest tells of them, too."""
    no_document: str = ""
    """Of an address that is asked as a server for want of a document: why there is none."""


def read_listing(listing: Listing, reading: Reading) -> list[Manifest]:
    """One manifest, or for an export one for each source it holds.

    Raises SourceError if a single document cannot be read at all; of several it is rejected.
    """
    return [with_answers(parts, reading.ask) for parts in read_parts(listing, reading)]


def read_parts(listing: Listing, reading: Reading) -> list[Parts]:
    """As `read_listing`, with no server asked yet."""
    merger = _Merger(Intake(where=listing.source), listing)
    if listing.remark:
        merger.intake.cut.append(Rejected(where=listing.source, reason=listing.remark))
    only_settings = all(holds_other_settings(where) for where, _ in listing.files)
    part_names = set[str]()
    for where, content in listing.files:
        try:
            document = parse(where, content, reading.settings)
            if isinstance(document, dict) and FILES in document:
                part_names |= referenced_files(document, where)
            if (is_export := _is_export(document, where, reading.kind)) and len(listing.files) == 1:
                manifests = catalogue.read_export(document, where, restore=reading.kind == catalogue.EXPORT_KIND)
                return [Parts(manifest=manifest) for manifest in manifests]
            if is_export:
                raise SourceError(where, "is an export, which holds sources of its own: ingest it by itself")
            merger.take(document, where, reading)
        except SourceError as error:
            if len(listing.files) == 1:
                raise
            if only_settings or not (isinstance(error, UnknownShape) and holds_other_settings(where)):
                merger.refuse(error)
    # What a document of the folder names is no document of its own.
    merger.intake.rejected = [each for each in merger.intake.rejected if each.where.partition("#")[0] not in part_names]
    return [merger.parts(reading.approvals)]


def _is_export(document: object, where: str, kind: str) -> bool:
    """Whether it is one, and is not called another kind. Raises SourceError for what is none and is called one."""
    if kind == catalogue.EXPORT_KIND and not catalogue.fits_export(document):
        raise of_another_kind(catalogue.EXPORT_KIND, catalogue.EXPORT_SHAPE, document, where)
    return kind in ("", catalogue.EXPORT_KIND) and catalogue.fits_export(document)


def with_answers(parts: Parts, ask: Ask | None) -> Manifest:
    """The manifest with what its servers say of themselves in place of what it says of them.

    A server that must answer and does not is not listed, but rejected: what is held of it stays as it is.
    """
    if not parts.servers or ask is None:
        return parts.manifest
    answers = ask(parts.manifest.source, parts.servers)
    by_key = {entry.key: entry for entry in answers.entries}
    silent = parts.must_answer - by_key.keys()
    entries = [
        replace(by_key.pop(entry.key, entry), document=entry.document)
        for entry in parts.manifest.entries
        if entry.key not in silent
    ]
    keys = {entry.key for entry in entries}
    # Of what is listed all the same only the asking failed, or a tool.
    cut = [fault for fault in answers.rejected if fault.key in keys]
    faults = [fault for fault in answers.rejected if fault.key not in keys]
    manifest = parts.manifest
    return replace(
        manifest,
        entries=(*entries, *by_key.values()),
        rejected=(*manifest.rejected, *faults),
        cut=(*manifest.cut, *answers.cut, *cut),
        rank=LIVE_RANK,
        partial=manifest.partial or answers.partial,
        silent=answers.silent,
    )


def without_answers(parts: Parts) -> Manifest:
    """The manifest of a dry run, which asks no server: what is held of each stays."""
    keys = {server.key for server in parts.servers}
    by_document: dict[str, list[str]] = {}
    for server in parts.servers:
        by_document.setdefault(server.where or parts.manifest.source, []).append(server.key)
    return replace(
        parts.manifest,
        entries=tuple(replace(each, unasked=each.unasked or each.key in keys) for each in parts.manifest.entries),
        cut=(
            *parts.manifest.cut,
            *(_servers_note(where, names, NOT_IN_REHEARSALS) for where, names in by_document.items()),
        ),
        rank=LIVE_RANK if keys else parts.manifest.rank,
    )


NOT_STARTED = "not started: name it, or --start"
NOT_IN_REHEARSALS = "not asked in a dry run"
_MOST_NAMES = 10


def _servers_note(where: str, names: Sequence[str], reason: str) -> Rejected:
    """Of one document, with the names of its servers."""
    more = f" and {len(names) - _MOST_NAMES} more" if len(names) > _MOST_NAMES else ""
    return Rejected(where=where, reason=f"{reason} ({', '.join(names[:_MOST_NAMES])}{more})")


@dataclass(slots=True)
class _Merger:
    """What all documents of a source say together."""

    intake: Intake
    listing: Listing
    servers: list[ServerEntry] = field(default_factory=list)
    must_answer: set[str] = field(default_factory=set)
    asks: bool = False
    approved_keys: set[str] = field(default_factory=set)
    waiting: list[Rejected] = field(default_factory=list)
    entries: dict[str, AgentEntry] = field(default_factory=dict)
    """The first of each key."""

    def take(self, document: object, where: str, reading: Reading) -> None:
        kind = kind_named(reading.kind, document, where) if reading.kind else kind_of(document, where)
        intake = Intake(where=where, surroundings=reading.surroundings)
        gateways = _take_records(kind, kind.read(document, where, intake), intake, reading)
        if reading.asks_kind(kind) and kind.servers:
            self.asks = True
            servers = self._servers_to_ask(partial(self._read_servers, kind.servers, document), intake, reading)
            gateways |= {server.key for server in servers if launches_gateway(server.launch, reading.registry)}
            self._take_servers(kind, [server for server in servers if server.key not in gateways], intake)
            # Of a server that cannot even be asked what is held stays; a fault may have been told by both readings.
            intake.rejected = [fault for fault in dict.fromkeys(intake.rejected) if fault.key not in gateways]
            omitted_keys = {fault.key for fault in intake.rejected if fault.key} | gateways
            intake.entries = [entry for entry in intake.entries if entry.key not in omitted_keys]
        self.intake.partial = self.intake.partial or intake.partial
        for entry in intake.entries:
            # Hosts have copies of one skill, and a plug-in's manifest names the servers of its `.mcp.json`.
            if (first := self.entries.setdefault(entry.key, entry)) is entry or first != entry:
                self.intake.entries.append(replace(entry, document=self.listing.document_name(where)))
        self.intake.rejected += intake.rejected
        self.intake.cut += [*intake.cut, *(omission(where, key) for key in sorted(gateways))]
        self.intake.gone += intake.gone

    def _read_servers(self, read: ReadServers, document: object, where: str, intake: Intake) -> list[ServerEntry]:
        servers = read(document, where, intake)
        return [replace(each, where=where, in_config=each.in_config and self.listing.are_files) for each in servers]

    def _servers_to_ask(self, find: FindServers, intake: Intake, reading: Reading) -> list[ServerEntry]:
        """All of a document that a person named, or said yes to; of another those that they had asked before."""
        if self.listing.is_named or reading.start:
            return find(intake.where, intake)
        servers = _approved_servers(find, intake, reading)
        approved_keys = {server.key for server in servers}
        waiting = [e.key for e in intake.entries if e.key not in approved_keys and DISABLED not in e.agent.tags]
        self.approved_keys |= approved_keys
        self.waiting += [_servers_note(intake.where, waiting, NOT_STARTED)] if waiting else []
        return servers

    def _take_servers(self, kind: Kind, servers: Sequence[ServerEntry], intake: Intake) -> None:
        by_key = {server.key: server for server in self.servers}  # of two documents that name one, the first counts
        self.servers += [server for server in servers if server.key not in by_key]
        for key in [each.key for each in servers if each.key in by_key and each.launch != by_key[each.key].launch]:
            intake.note_cut("", f"server {key!r} is not asked, since {by_key[key].where} names one so: ingest each")
        if kind.live:
            self.must_answer |= {server.key for server in servers}

    def refuse(self, error: SourceError) -> None:
        place = "" if "#" in error.where and not error.pointer else f"#{error.pointer}"  # it may be one already
        # What is of no kind known holds no agent that is ours to keep. What cannot be parsed may, and fails till then.
        is_ours = not isinstance(error, UnknownShape)
        key = error.where if is_ours else ""
        self.intake.rejected.append(Rejected(where=f"{error.where}{place}", reason=error.reason, key=key))
        self.intake.partial = self.intake.partial or is_ours

    def parts(self, approvals: Approvals) -> Parts:
        manifest = self.intake.manifest(self.listing.source, self.listing.namespace)
        keys = {entry.key for entry in manifest.entries} | {fault.key for fault in manifest.rejected}
        former_keys = keys & approvals.servers.keys() if self.asks else set[str]()
        return Parts(
            manifest=replace(manifest, cut=(*manifest.cut, *self.waiting), rank=LIVE_RANK if former_keys else 0),
            servers=tuple(self.servers),
            must_answer=frozenset(self.must_answer),
            approved_keys=frozenset(self.approved_keys),
            former_keys=frozenset(former_keys),
            waiting=tuple(self.waiting),
        )


def _take_records(kind: Kind, records: Iterator[AgentRecord], intake: Intake, reading: Reading) -> set[str]:
    """The keys of gateways of Waygraph in a configuration, which are not taken."""
    gateways = set[str]()
    for record in records:
        if kind.live and is_gateway(record.transport, reading.registry):
            gateways.add(str(record.key))
            # That it is left out says more than what its entry says of it, such as that it is switched off.
            intake.cut = [note for note in intake.cut if note.where != f"{intake.where}#{record.pointer}"]
        else:
            intake.take(record)
    if kind.live:
        # What lists tools, as a bundle's manifest may, says enough of a server that is not asked.
        intake.entries = [replace(entry, unasked=not entry.tools) for entry in intake.entries]
    return gateways


def _approved_servers(find: FindServers, intake: Intake, reading: Reading) -> list[ServerEntry]:
    """Those that a person had asked before, in the folder of then. What is wrong with one now is told to the intake."""
    around, before = reading.surroundings, reading.approvals.servers
    if before.keys().isdisjoint(entry.key for entry in intake.entries):
        return []

    def find_in(folder: str) -> list[ServerEntry]:
        there = Intake(where=intake.where, surroundings=replace(around, cwd=folder))
        servers = find(str(Path(around.cwd, intake.where)), there)
        intake.rejected += [fault for fault in there.rejected if fault.key in before]
        return servers

    same = ((server, before[server.key].folder) for server in reading.approvals.select_same(find_in))
    return [
        replace(
            server,
            where=intake.where,
            launch=server.launch if folder == around.cwd else launch_in(server.launch, folder),
        )
        for server, folder in same
    ]


STDIN = "-"


def read_path(
    text: str, settings: Settings, *, source: str = "", namespace: str = "", kind: str = ""
) -> list[Manifest]:
    """The manifests of a file, a folder or a glob: one, or for an export one for each source it holds.

    `source` overrules the name, by default the absolute path (of a glob: the pattern's).
    Raises SourceError if nothing is there, or a single file cannot be read at all.
    """
    return read_listing(list_path(text, source=source, namespace=namespace), Reading(settings=settings, kind=kind))


def read_documents(
    documents: Sequence[Document], settings: Settings, *, source: str, namespace: str = "", kind: str = ""
) -> list[Manifest]:
    """The manifests of one source that comes as documents, as `read_path` reads files. Raises SourceError."""
    files = [(document.name, partial(_content_of, document)) for document in documents]
    space = namespace or agent_id(_last_plain_part(source) or "source")
    listing = Listing(files=files, source=source, namespace=space, root=_common_folder([name for name, _ in files]))
    return read_listing(listing, Reading(settings=settings, kind=kind))


def list_path(text: str, *, source: str = "", namespace: str = "") -> Listing:
    """The files that `read_path` reads. Raises SourceError if nothing is there."""
    try:
        path = Path(text).expanduser()
        folder_files, folder = _files(text, path), path if text and path.is_dir() else None
        name = source or str(path.resolve())
    except (OSError, ValueError, RuntimeError) as exc:  # a name too long, a null in it, a home that is not there
        raise SourceError(text[:200], f"is no path: {exc}") from exc
    space = namespace or agent_id(_last_plain_part(text) or "source")
    content = [
        (str(file), partial(_read_skill, file, folder) if is_skill(file) else partial(read_file, file))
        for file in folder_files.files
    ]
    is_named = folder_files.files == [path] and folder is None
    return Listing(
        files=content, source=name, namespace=space, is_named=is_named, remark=folder_files.remark, root=_root(path)
    )


def list_stream(stream: BinaryIO, most_bytes: int, *, source: str = "", namespace: str = "") -> Listing:
    """Standard input, read at once, since it can be read once only. Raises SourceError."""
    name = source or "stdin"
    try:
        content = stream.read(most_bytes)
    except OSError as exc:
        raise SourceError("stdin", f"cannot be read: {exc.strerror}") from exc
    files = [("stdin", lambda most: content[:most])]
    return Listing(files=files, source=name, namespace=namespace or agent_id(name), are_files=False)


def list_value(value: object, *, source: str, namespace: str = "") -> Listing:
    """A document in memory, as if a file held it as JSON. Raises SourceError if JSON cannot."""
    try:
        content = json.dumps(value, allow_nan=False, default=_as_dict).encode()
    except (TypeError, ValueError, RecursionError) as exc:
        raise SourceError(source, f"cannot be written as JSON: {exc}") from exc
    files = [(f"{source}.json", lambda most: content[:most])]
    return Listing(files=files, source=source, namespace=namespace or agent_id(source), are_files=False)


def _as_dict(value: object) -> dict[Any, Any]:
    if isinstance(value, Mapping):
        return dict(value)
    raise TypeError(f"{type(value).__name__} is none of its types")


def documents(listing: Listing, settings: Settings) -> Iterator[Document]:
    """The files as texts, to be read elsewhere: `read_documents` there gives what `read_path` gives here."""
    for where, content in listing.files:
        try:
            yield Document(where, text_of(where, content, settings))
        except SourceError as error:
            yield Document(where, unreadable=error.reason)


def _content_of(document: Document, most_bytes: int) -> bytes:
    """Raises SourceError for one that could not be read where it was."""
    if document.unreadable:
        raise SourceError(document.name, document.unreadable)
    return document.text.encode("utf-8", "surrogatepass")[:most_bytes]


def _read_skill(path: Path, folder: Path | None, most_bytes: int) -> bytes:
    """One that a folder only links to is not read: what it holds was not put there."""
    if folder and not path.resolve().is_relative_to(folder.resolve()):
        raise UnknownShape(str(path), "is a link to what is not in the folder, and is not followed")
    return read_skill_file(path, most_bytes)


def _root(path: Path) -> str:
    """The folder itself, or that in which a pattern looks; empty for a single file."""
    if path.is_dir():
        return str(path)
    plain = list(takewhile(lambda part: not set(part) & set("*?["), path.parts))
    return str(Path(*plain)) if len(plain) < len(path.parts) else ""


def _common_folder(names: Sequence[str]) -> str:
    """That of documents which come from elsewhere; empty for a single one, and if there is none."""
    try:
        return (commonpath([str(PurePath(name).parent) for name in names]) or ".") if len(names) > 1 else ""
    except ValueError:  # some of them absolute
        return ""


def _last_plain_part(text: str) -> str:
    """`servers` of `~/servers/**/*.json`."""
    plain = (Path(part) for part in reversed(Path(text).parts) if not set(part) & set("*?["))
    return next((part.stem for part in plain if not is_skill(part)), "")


def _files(text: str, path: Path) -> FolderFiles:
    """Raises SourceError if nothing is there."""
    if path.is_dir():
        if not (folder_files := files_under(path)).files:
            raise SourceError(text, folder_files.absence)
        return folder_files
    matches = [path] if path.exists() else _matches(path, include_hidden=False)
    if not matches:
        dot_files = [match for match in _matches(path, include_hidden=True) if not is_of_programs(match)]
        hint = f", but {dot_files[0]} does if the pattern names the dot" if dot_files else ""
        raise SourceError(text, f"there is no such file, and no file matches it as a pattern{hint}")
    return FolderFiles(files=matches)


def _matches(path: Path, *, include_hidden: bool) -> list[Path]:
    paths = glob.glob(str(path), recursive=True, include_hidden=include_hidden)
    return sorted(Path(match) for match in paths if Path(match).is_file())
