"""Files, folders, globs and standard input: which documents a source has, and what each holds."""

import glob
import json
from collections.abc import Iterator, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any, BinaryIO

from waygraph.ingest.sources.kinds import UnknownShape
from waygraph.ingest.sources.parsing import SUFFIXES, Content, text_of
from waygraph.ingest.sources.reading import Listing, Reading, read_listing
from waygraph.ingest.sources.skill_folder import NAME, is_skill, packed
from waygraph.registry.changes import Document, Manifest
from waygraph.registry.errors import SourceError
from waygraph.registry.identity import agent_id
from waygraph.registry.settings import Settings

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
    listing = Listing(files=files, source=source, namespace=space)
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
    return Listing(files=content, source=name, namespace=space)


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
        return packed(path, most_bytes)
    with path.open("rb") as file:
        return file.read(most_bytes)


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
    files = [p for p in named if p.is_file() and _meant(p, folder)]
    owned = {p.parent for p in files if is_skill(p)}
    return sorted(p for p in files if is_skill(p) or owned.isdisjoint(p.parents))


def _meant(file: Path, folder: Path) -> bool:
    """Whether a file under a folder is one of a person's: not in a dot folder, not of a registry's index."""
    return not any(part.startswith(".") or part.endswith(".index") for part in file.relative_to(folder).parts[:-1])
