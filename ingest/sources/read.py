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
from waygraph.ingest.manifest.fields import MOST_TOLD, REPEATED
from waygraph.ingest.manifest.records import Intake, ServerEntry
from waygraph.ingest.sources.formats import export
from waygraph.ingest.sources.kinds import Kind, UnknownShape, kind_named, kind_of, of_another_kind
from waygraph.ingest.sources.mcp_servers import LIVE_RANK
from waygraph.ingest.sources.parse import SUFFIXES, Content, parse, text_of
from waygraph.ingest.sources.skill_folder import NAME, is_skill, read_skill_file
from waygraph.registry.model.changes import Document, Manifest, Rejected
from waygraph.registry.model.errors import SourceError
from waygraph.registry.model.identity import agent_id
from waygraph.registry.model.settings import Settings

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
    root: str = ""
    """Of a folder or a pattern: where the names of its documents begin to differ."""

    def document_name(self, where: str) -> str:
        """The path of a document within its source; empty for a source that is a single one."""
        path = PurePath(where)
        return str(path.relative_to(self.root)) if self.root and path.is_relative_to(self.root) else ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Reading:
    """How documents are read. `ask` None: no server is started or reached, whatever they name.

    `connect`: servers are asked also where their kind does not do so by itself.
    """

    settings: Settings
    kind: str = ""
    ask: Ask | None = None
    connect: bool = False
    surroundings: Surroundings = field(default_factory=Surroundings)

    def asks(self, kind: Kind) -> bool:
        return self.ask is not None and kind.servers is not None and (kind.live or self.connect)


@dataclass(frozen=True, slots=True, kw_only=True)
class Parts:
    """What a source says by itself, and the servers that it names and that are to be asked.

    Of a server that `must_answer` only its own word counts; another is listed as the source has it, asked or not.
    """

    manifest: Manifest
    servers: tuple[ServerEntry, ...] = ()
    must_answer: frozenset[str] = frozenset()
    """Keys."""
    no_document: str = ""
    """Of an address that is asked as a server for want of a document: why there is none."""


def read_listing(listing: Listing, reading: Reading) -> list[Manifest]:
    """One manifest, or for an export one for each source it holds.

    Raises SourceError if a single document cannot be read at all; of several it is rejected.
    """
    return [with_answers(parts, reading.ask) for parts in read_parts(listing, reading)]


def read_parts(listing: Listing, reading: Reading) -> list[Parts]:
    """As `read_listing`, with no server asked yet."""
    merged = _Merged(Intake(where=listing.source, settings=reading.settings), listing)
    for where, content in listing.files:
        try:
            document = parse(where, content, reading.settings, partial(merged.note_repeated, where))
            is_export = _is_export(document, where, reading.kind)
            if is_export and len(listing.files) == 1:
                held = export.read(document, where, reading.settings, restore=reading.kind == export.KIND)
                return [Parts(manifest=manifest) for manifest in merged.with_faults(held)]
            if is_export:
                raise SourceError(where, "is an export, which holds sources of its own: ingest it by itself")
            merged.take(document, where, reading)
        except SourceError as error:
            if len(listing.files) == 1:
                raise
            merged.refuse(error)
    return [merged.parts(listing)]


def _is_export(document: object, where: str, kind: str) -> bool:
    """Whether it is one, and is not called another kind. Raises SourceError for what is none and is called one."""
    if kind == export.KIND and not export.fits(document):
        raise of_another_kind(export.KIND, export.SHAPE, document, where)
    return kind in ("", export.KIND) and export.fits(document)


def with_answers(parts: Parts, ask: Ask | None) -> Manifest:
    """The manifest with what its servers say of themselves in place of what it says of them.

    A server that must answer and does not is not listed, but rejected: what is held of it stays as it is.
    """
    if not parts.servers or ask is None:
        return parts.manifest
    answers = ask(parts.manifest.source, parts.servers)
    told = {entry.key: entry for entry in answers.entries}
    silent = parts.must_answer - told.keys()
    listed = [
        replace(told.pop(entry.key, entry), document=entry.document)
        for entry in parts.manifest.entries
        if entry.key not in silent
    ]
    keys = {entry.key for entry in listed}
    # Of what is listed all the same only the asking failed, or a tool.
    cut = [fault for fault in answers.rejected if fault.key in keys]
    faults = [fault for fault in answers.rejected if fault.key not in keys]
    manifest = parts.manifest
    return replace(
        manifest,
        entries=(*listed, *told.values()),
        rejected=(*manifest.rejected, *faults),
        cut=(*manifest.cut, *answers.cut, *cut),
        rank=LIVE_RANK,
        partial=manifest.partial or answers.partial,
        silent=answers.silent,
    )


@dataclass(slots=True)
class _Merged:
    """What all documents of a source say together."""

    intake: Intake
    listing: Listing
    servers: list[ServerEntry] = field(default_factory=list)
    must_answer: set[str] = field(default_factory=set)

    def take(self, document: object, where: str, reading: Reading) -> None:
        intake = Intake(where=where, settings=reading.settings, surroundings=reading.surroundings)
        kind = kind_named(reading.kind, document, where) if reading.kind else kind_of(document, where)
        for record in kind.read(document, where, intake):
            intake.take(record)
        if kind.live:
            intake.entries = [replace(entry, unasked=True) for entry in intake.entries]
        if reading.asks(kind) and kind.servers:
            found = kind.servers(document, where, intake)
            servers = [
                replace(each, where=where, in_config=each.in_config and self.listing.are_files) for each in found
            ]
            known = {server.key: server for server in self.servers}  # of two documents that name one, the first counts
            self.servers += [server for server in servers if server.key not in known]
            for key in [each.key for each in servers if each.key in known and each.launch != known[each.key].launch]:
                intake.note_cut("", f"server {key!r} is not asked, since {known[key].where} names one so: ingest each")
            self.must_answer |= {server.key for server in servers if kind.live}
            # Of a server that cannot even be asked what is held stays; a fault may have been told by both readings.
            intake.rejected = list(dict.fromkeys(intake.rejected))
            unasked = {fault.key for fault in intake.rejected if fault.key}
            intake.entries = [entry for entry in intake.entries if entry.key not in unasked]
        self.intake.partial = self.intake.partial or intake.partial
        self.intake.entries += [replace(e, document=self.listing.document_name(where)) for e in intake.entries]
        self.intake.rejected += intake.rejected
        self.intake.cut += intake.cut
        self.intake.gone += intake.gone

    def note_repeated(self, where: str, place: str) -> None:
        if len(self.intake.cut) < MOST_TOLD:  # of lines each is a document
            self.intake.cut.append(Rejected(where=f"{where}#{place}", reason=REPEATED))

    def with_faults(self, held: list[Manifest]) -> list[Manifest]:
        """Of an export: what was wrong with the document is told with the first of its sources."""
        return [replace(held[0], cut=(*held[0].cut, *self.intake.cut)), *held[1:]] if held else held

    def refuse(self, error: SourceError) -> None:
        place = "" if "#" in error.where and not error.pointer else f"#{error.pointer}"  # it may be one already
        self.intake.rejected.append(Rejected(where=f"{error.where}{place}", reason=error.reason))
        # What is of no kind known holds no agent that is ours to keep; what cannot be parsed may.
        self.intake.partial = self.intake.partial or not isinstance(error, UnknownShape)

    def parts(self, listing: Listing) -> Parts:
        manifest = self.intake.manifest(listing.source, listing.namespace)
        return Parts(manifest=manifest, servers=tuple(self.servers), must_answer=frozenset(self.must_answer))


# Files, folders, globs and standard input: which documents a source has, and what each holds.


STDIN = "-"


def read_path(
    text: str, settings: Settings, *, source: str = "", namespace: str = "", kind: str = ""
) -> list[Manifest]:
    """The manifests of a file, a folder or a glob: one, or for an export one for each source it holds.

    `source` overrules the name, by default the absolute path (of a glob: the pattern's).
    Raises SourceError if nothing is there, or a single file cannot be read at all.
    """
    return read_listing(list_path(text, source=source, namespace=namespace), Reading(settings=settings, kind=kind))


def read_stream(
    stream: BinaryIO, settings: Settings, *, source: str = "", namespace: str = "", kind: str = ""
) -> list[Manifest]:
    """The manifests of what standard input holds. Raises SourceError."""
    listing = list_stream(stream, source=source, namespace=namespace)
    return read_listing(listing, Reading(settings=settings, kind=kind))


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
        files = _files(text)
        name = source or str(Path(text).expanduser().resolve())
    except (OSError, ValueError, RuntimeError) as exc:  # a name too long, a null in it, a home that is not there
        raise SourceError(text[:200], f"is no path: {exc}") from exc
    space = namespace or agent_id(_last_plain_part(text) or "source")
    folder = Path(text).expanduser() if text and Path(text).expanduser().is_dir() else None
    content = [(str(path), partial(_read_file, path, folder)) for path in files]
    return Listing(files=content, source=name, namespace=space, root=_root(text))


def list_stream(stream: BinaryIO, *, source: str = "", namespace: str = "") -> Listing:
    """Standard input, as `read_stream` reads it."""
    name = source or "stdin"
    files = [("stdin", stream.read)]
    return Listing(files=files, source=name, namespace=namespace or agent_id(name), are_files=False)


def list_value(value: object, *, source: str, namespace: str = "") -> Listing:
    """A document in memory, as if a file held it as JSON. Raises SourceError if JSON cannot."""
    try:
        content = json.dumps(value, allow_nan=False, default=_as_dict).encode()
    except (TypeError, ValueError, RecursionError) as exc:
        raise SourceError(source, f"cannot be written as JSON: {exc}") from exc
    files = [(f"{source}.json", lambda most_bytes: content[:most_bytes])]
    return Listing(files=files, source=source, namespace=namespace or agent_id(source), are_files=False)


def _as_dict(value: object) -> dict[Any, Any]:
    if isinstance(value, Mapping):
        return dict(value)
    raise TypeError(f"{type(value).__name__} is none of its types")


def documents(listing: Listing, settings: Settings) -> Iterator[Document]:
    """The files as texts, to be read elsewhere: `read_documents` there gives what `read_path` gives here."""
    return (_document(where, content, settings) for where, content in listing.files)


def _document(where: str, content: Content, settings: Settings) -> Document:
    try:
        return Document(where, text_of(where, content, settings))
    except SourceError as error:
        return Document(where, unreadable=error.reason)


def _content_of(document: Document, most_bytes: int) -> bytes:
    """Raises SourceError for one that could not be read where it was."""
    if document.unreadable:
        raise SourceError(document.name, document.unreadable)
    return document.text.encode("utf-8", "surrogatepass")[:most_bytes]


def _read_file(path: Path, folder: Path | None, most_bytes: int) -> bytes:
    """A skill that a folder only links to is not read: what it holds was not put there."""
    if is_skill(path):
        if folder and not path.resolve().is_relative_to(folder.resolve()):
            raise UnknownShape(str(path), "is a link to what is not in the folder, and is not followed")
        return read_skill_file(path, most_bytes)
    with path.open("rb") as file:
        return file.read(most_bytes)


def _root(text: str) -> str:
    """The folder itself, or that in which a pattern looks; empty for a single file."""
    path = Path(text).expanduser()
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


def _files(text: str) -> list[Path]:
    path = Path(text).expanduser()
    if path.is_dir():
        found = _under(path)
    elif path.exists():
        found = [path]
    else:
        found = sorted(Path(match) for match in glob.glob(str(path), recursive=True) if Path(match).is_file())
    if not found:
        raise SourceError(text, f"there is no such file, and no {', '.join(SUFFIXES)} file under it, nor a {NAME}")
    return found


def _under(folder: Path) -> list[Path]:
    """The files that may be sources. In a folder with a SKILL.md that is the one; its other files belong to it."""
    named = (p for p in folder.rglob("*") if p.suffix.lower() in SUFFIXES or is_skill(p))
    files = [p for p in named if p.is_file() and _is_own_file(p, folder)]
    owned = {p.parent for p in files if is_skill(p)}
    return sorted(p for p in files if is_skill(p) or owned.isdisjoint(p.parents))


def _is_own_file(file: Path, folder: Path) -> bool:
    """Whether a file under a folder is one of a person's: not in a dot folder, not of a registry's index."""
    return not any(part.startswith(".") or part.endswith(".index") for part in file.relative_to(folder).parts[:-1])
