"""An OpenAPI document whose parts stand in files beside it, as one document that can travel as one text.

Each file that a `$ref` names comes along under `x-waygraph-files`, by its path from the document's folder, and the
references lead there. Only regular files below that folder are read, and no link that leaves it. Nothing is fetched.
"""

import json
import re
import stat
from collections.abc import Iterator
from pathlib import Path, PurePath
from posixpath import join, normpath
from typing import Any
from urllib.parse import quote, unquote, urlsplit

from waygraph.ingest.manifest.fields import escape_pointer
from waygraph.ingest.sources.json_text import json_document

FILES = "x-waygraph-files"
MAX_FILES, MAX_FILES_BYTES = 1_000, 32 * 1024 * 1024
"""Of one document, all together. A reference to one more stays as it is, and is reported where the document is read."""
_SUFFIXES = (".json", ".yaml", ".yml")
_NAMES_FILE = re.compile(rb"""\$ref["']?\s*:\s*["']?[^#"'\s]""")


def with_referenced_files(path: Path, content: bytes) -> bytes:
    """Return the document's content as JSON with the files that it names; as it is if it names none."""
    if not (_NAMES_FILE.search(content) and re.search(rb"openapi|swagger", content)):
        return content
    document = _parse(path.name, content)
    if not (isinstance(document, dict) and document.keys() & {"openapi", "swagger"} and FILES not in document):
        return content
    files = dict(_files_of(document, path))
    return json.dumps({**document, FILES: files}, default=str).encode() if files else content


def referenced_files(document: object, where: str) -> set[str]:
    """Return the names of the files that came along with a document of this name."""
    files = document.get(FILES) if isinstance(document, dict) else None
    return {str(PurePath(where).parent / name) for name in files} if isinstance(files, dict) else set()


def _files_of(document: dict[str, Any], path: Path) -> Iterator[tuple[str, Any]]:
    """The content of each file that the document or one of these files names, by its path from the folder. Their
    references are changed in place to pointers into the one document.
    """
    root, room = path.parent.resolve(), MAX_FILES_BYTES
    pointers: dict[str, str] = {path.name: ""}
    parts: list[tuple[str, Any]] = [(path.name, document)]
    while parts:
        name, part = parts.pop()
        for holder in _references(part):
            target, _, fragment = holder["$ref"].partition("#")
            other = normpath(join(name.rpartition("/")[0], unquote(target))) if target else name
            if other not in pointers and len(pointers) <= MAX_FILES and not urlsplit(target).scheme:
                content = _read(root, other, room)
                room -= len(content)
                if content and isinstance(part_document := _parse(other, content), dict | list):
                    pointers[other] = f"/{FILES}/{quote(escape_pointer(other), safe='~')}"
                    parts.append((other, part_document))
                    yield other, part_document
            if other in pointers:
                holder["$ref"] = f"#{pointers[other]}{fragment}"


def _references(value: object) -> Iterator[dict[str, Any]]:
    """All mappings with a `$ref`, each once."""
    waiting, visited_ids = [value], set[int]()
    while waiting:
        value = waiting.pop()
        if id(value) in visited_ids or not isinstance(value, dict | list):
            continue
        visited_ids.add(id(value))
        if isinstance(value, dict) and isinstance(value.get("$ref"), str):
            yield value
        waiting += value.values() if isinstance(value, dict) else value


def _read(root: Path, name: str, most_bytes: int) -> bytes:
    """Empty for what is no regular file of the folder, has another suffix, or is too large."""
    try:
        file = (root / name).resolve()
        if not (name.endswith(_SUFFIXES) and file.is_relative_to(root) and stat.S_ISREG(file.stat().st_mode)):
            return b""
        with file.open("rb") as stream:
            content = stream.read(most_bytes + 1)
    except (OSError, ValueError, RuntimeError):
        return b""
    return content if len(content) <= most_bytes else b""


def _parse(name: str, content: bytes) -> Any:
    """None for what cannot be read: whoever reads the document says so."""
    import yaml

    from waygraph.ingest.sources import yaml_text

    try:
        text = content.decode("utf-8-sig")
        return json_document(text) if name.endswith(".json") else yaml_text.parse(text)
    except (yaml.YAMLError, ValueError, RecursionError):
        return None
