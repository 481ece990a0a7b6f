"""Files, folders, globs and standard input to one Manifest a source. The kind is told from the content."""

import glob
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import BinaryIO

from waygraph.ingest.manifest import Intake
from waygraph.ingest.sources import export
from waygraph.ingest.sources.kinds import UnknownShape, kind_named, kind_of
from waygraph.ingest.sources.parsing import Content, parse, text_of
from waygraph.registry.changes import Document, Manifest, Rejected
from waygraph.registry.errors import SourceError
from waygraph.registry.identity import agent_id
from waygraph.registry.settings import Settings

SUFFIXES = (".json", ".yaml", ".yml")
STDIN = "-"


@dataclass(frozen=True, slots=True, kw_only=True)
class Listing:
    """The files of one source, unread: the name of each and what gives its content."""

    files: Sequence[tuple[str, Content]]
    source: str
    namespace: str


def read_path(
    text: str, settings: Settings, *, source: str = "", namespace: str = "", kind: str = ""
) -> list[Manifest]:
    """The manifests of a file, a folder or a glob: one, or for an export one for each source it holds.

    `source` overrules the name, by default the absolute path (of a glob: the pattern's).
    Raises SourceError if nothing is there, or a single file cannot be read at all.
    """
    return _manifests(list_path(text, source=source, namespace=namespace), settings, kind)


def read_stream(
    stream: BinaryIO, settings: Settings, *, source: str = "", namespace: str = "", kind: str = ""
) -> list[Manifest]:
    """The manifests of what standard input holds. Raises SourceError."""
    return _manifests(list_stream(stream, source=source, namespace=namespace), settings, kind)


def read_documents(
    documents: Sequence[Document], settings: Settings, *, source: str, namespace: str = "", kind: str = ""
) -> list[Manifest]:
    """The manifests of one source that comes as documents, as `read_path` reads files. Raises SourceError."""
    files = [(document.name, partial(_content_of, document)) for document in documents]
    space = namespace or agent_id(_last_plain_part(source) or "source")
    return _manifests(Listing(files=files, source=source, namespace=space), settings, kind)


def list_path(text: str, *, source: str = "", namespace: str = "") -> Listing:
    """The files that `read_path` reads. Raises SourceError if nothing is there."""
    try:
        files = _files(text)
        name = source or str(Path(text).expanduser().resolve())
    except (OSError, ValueError, RuntimeError) as exc:  # a name too long, a null in it, a home that is not there
        raise SourceError(text[:200], f"is no path: {exc}") from exc
    space = namespace or agent_id(_last_plain_part(text) or "source")
    return Listing(files=[(str(path), partial(_read_file, path)) for path in files], source=name, namespace=space)


def list_stream(stream: BinaryIO, *, source: str = "", namespace: str = "") -> Listing:
    """Standard input, as `read_stream` reads it."""
    name = source or "stdin"
    return Listing(files=[("stdin", stream.read)], source=name, namespace=namespace or agent_id(name))


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


def _read_file(path: Path, most_bytes: int) -> bytes:
    with path.open("rb") as file:
        return file.read(most_bytes)


def _last_plain_part(text: str) -> str:
    """`servers` of `~/servers/**/*.json`."""
    return next((Path(part).stem for part in reversed(Path(text).parts) if not set(part) & set("*?[")), "")


def _manifests(listing: Listing, settings: Settings, kind: str) -> list[Manifest]:
    files, source = listing.files, listing.source
    merged = Intake(where=source, settings=settings)
    for where, content in files:
        try:
            document = parse(where, content, settings)
            if export.fits(document) and len(files) == 1:
                return export.read(document, where, settings, restore=kind == export.KIND)
            if export.fits(document):
                raise SourceError(where, "is an export, which holds sources of its own: ingest it by itself")
            _read_document(document, where, merged, kind)
        except SourceError as error:
            if len(files) == 1:
                raise
            merged.rejected.append(Rejected(where=f"{error.where}#{error.pointer}", reason=error.reason))
            # What is of no kind known holds no agent that is ours to keep; what cannot be parsed may.
            merged.partial = merged.partial or not isinstance(error, UnknownShape)
    return [
        Manifest(
            source=source,
            namespace=listing.namespace,
            entries=tuple(merged.entries),
            rejected=tuple(merged.rejected),
            cut=tuple(merged.cut),
            partial=merged.partial,
        )
    ]


def _read_document(document: object, where: str, merged: Intake, kind: str) -> None:
    intake = Intake(where=where, settings=merged.settings)
    chosen = kind_named(kind, document, where) if kind else kind_of(document, where)
    for record in chosen.read(document, where, intake):
        intake.take(record)
    merged.partial = merged.partial or intake.partial
    merged.entries += intake.entries
    merged.rejected += intake.rejected
    merged.cut += intake.cut


def _files(text: str) -> list[Path]:
    path = Path(text).expanduser()
    if path.is_dir():
        found = sorted(p for p in path.rglob("*") if p.suffix.lower() in SUFFIXES and p.is_file() and _meant(p, path))
    elif path.exists():
        found = [path]
    else:
        found = sorted(Path(match) for match in glob.glob(str(path), recursive=True) if Path(match).is_file())
    if not found:
        raise SourceError(text, f"there is no such file, and no {', '.join(SUFFIXES)} file under it")
    return found


def _meant(file: Path, folder: Path) -> bool:
    """Whether a file under a folder is one of a person's: not in a dot folder, not of a registry's index."""
    return not any(part.startswith(".") or part.endswith(".index") for part in file.relative_to(folder).parts[:-1])
