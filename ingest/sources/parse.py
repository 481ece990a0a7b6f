"""Text to plain values: JSON, JSON Lines, YAML or TOML, by the name of the file, else by the look of the text.

An OpenAPI document whose parts stand in files beside it, as one document that can travel as one text.

Each file that a `$ref` names comes along under `x-waygraph-files`, by its path from the document's folder, and the
references lead there. Only regular files below that folder are read, and no link that leaves it. Nothing is fetched.

The manifest of a plug-in (Claude Code, Codex), with the configurations that its `mcpServers` names in their places.

So the manifest can travel as one text. Only files below the plug-in's own folder are read; what cannot be read stays
named, and is reported where the servers are.
"""

import json
import re
import stat
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial
from pathlib import Path, PurePath
from posixpath import join, normpath
from typing import Any
from urllib.parse import quote, unquote, urlsplit

from waygraph.ingest.manifest.fields import Note, escape_pointer, ignore_fault
from waygraph.ingest.sources.json_text import json_document, load_json
from waygraph.ingest.sources.skill_folder import is_skill, skill_of
from waygraph.registry.model.bounded_text import UnboundedText, toml_document
from waygraph.registry.model.errors import SourceError
from waygraph.registry.model.settings import Settings

MANIFEST = "plugin.json"
MAX_NAMED_BYTES = 4 * 1024 * 1024
_MANIFEST_FOLDER = "-plugin"
_ROOT = "${CLAUDE_PLUGIN_ROOT}/"


def with_named_files(manifest: Path, content: bytes) -> bytes:
    """The manifest's content; as it is if it names no file."""
    document = _json(content)
    servers = document.get("mcpServers") if isinstance(document, dict) else None
    if isinstance(document, dict) and isinstance(servers, str):
        return json.dumps({**document, "mcpServers": _servers(manifest, servers)}).encode()
    if isinstance(document, dict) and isinstance(servers, list):
        return json.dumps({**document, "mcpServers": [_servers(manifest, each) for each in servers]}).encode()
    return content


def plugin_folder(manifest: Path) -> Path:
    """The plug-in's: the manifest lies in it, or in its `.claude-plugin`."""
    folder = manifest.parent
    return folder.parent if folder.name.startswith(".") and folder.name.endswith(_MANIFEST_FOLDER) else folder


def _servers(manifest: Path, name: object) -> object:
    """What a named file holds: the document, or its `mcpServers`. The name itself if it cannot be read."""
    if not isinstance(name, str):
        return name
    try:
        folder = plugin_folder(manifest).resolve()
        file = (folder / name.removeprefix(_ROOT)).resolve()
        if not file.is_relative_to(folder) or not stat.S_ISREG(file.stat().st_mode):
            return name
        with file.open("rb") as stream:
            document = _json(stream.read(MAX_NAMED_BYTES))
    except (OSError, ValueError, RuntimeError):
        return name
    return document.get("mcpServers", document) if isinstance(document, dict) else name


def _json(content: bytes) -> Any:
    """None for what is no JSON: whoever reads the manifest itself says so."""
    try:
        return json_document(content.decode("utf-8-sig"))
    except (ValueError, RecursionError):
        return None


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


Content = Callable[[int], bytes]
"""Gives at most so many bytes. Raises OSError, SourceError."""

JSON, JSON_LINES, YAML, TOML = (".json", ".jsonc"), (".jsonl", ".ndjson"), (".yaml", ".yml"), (".toml",)
SUFFIXES = (*JSON, *JSON_LINES, *YAML)
"""Of the files that a folder is searched for. TOML is mostly that of programs: only a host's own file is read there."""
_CODEX = re.compile(r"(?m)^\[[ \t]*mcp_servers\b")
"""TOML that comes without a name is Codex's."""
_NO_TEXT = re.compile("[\udc80-\udcff]")


@dataclass(frozen=True, slots=True)
class Line:
    """One line: the value that it holds, or why it holds none. `number` counts from 1, blank lines too."""

    number: int
    value: Any = None
    fault: str = ""


@dataclass(frozen=True, slots=True)
class Lines:
    """A document of JSON Lines: a value a line, each whole by itself. Blank lines are left out."""

    lines: tuple[Line, ...]


def parse(where: str, content: Content, settings: Settings, note: Note = ignore_fault) -> Any:
    """Plain values, or `Lines`. Raises SourceError with line and column of what is wrong."""
    text = text_of(where, content, settings)
    if is_skill(PurePath(where)) and text.lstrip()[:1] != "{":  # by itself, not packed with its folder
        return skill_of(text, folder=PurePath(where).parent.name)
    if _is_named(where, JSON_LINES):
        return _parse_lines(text, note)
    if _is_named(where, YAML):
        return parse_yaml(where, text, note)
    if _is_named(where, TOML):
        return _parse_toml(where, text)
    parse_rest = _parse_json if _is_named(where, JSON) else _parse_unnamed
    return parse_rest(where, text, note)


def parse_file(path: PurePath | str, settings: Settings, note: Note = ignore_fault) -> Any:
    """As `parse`, of a file's content. Raises SourceError."""
    return parse(str(path), partial(read_file, Path(path)), settings, note)


def read_file(path: Path, most_bytes: int) -> bytes:
    """At most so many bytes; a plug-in's manifest or an OpenAPI document has the files that it names in it. Raises
    OSError.
    """
    with path.open("rb") as file:
        content = file.read(most_bytes)
    if path.name == MANIFEST:
        return with_named_files(path, content)
    return with_referenced_files(path, content) if b"$ref" in content else content


def text_of(where: str, content: Content, settings: Settings) -> str:
    """Raises SourceError for what is not text, or too much of it. Bytes that are no text cost only their line of
    JSON Lines: they become NUL, which no JSON takes.
    """
    try:
        raw = content(settings.max_source_bytes + 1)
    except OSError as exc:
        raise SourceError(where, f"cannot be read: {exc.strerror}") from exc
    if len(raw) > settings.max_source_bytes:
        raise SourceError(
            where, f"has more than the {settings.max_source_bytes} bytes that are read (WAYGRAPH_MAX_SOURCE_BYTES)"
        )
    try:
        return raw.decode("utf-8-sig")
    except UnicodeDecodeError as exc:
        if _is_named(where, JSON_LINES):
            return _NO_TEXT.sub("\0", raw.decode("utf-8-sig", "surrogateescape"))
        raise SourceError(where, f"is not UTF-8 text (byte {exc.start})") from exc


def _is_named(where: str, suffixes: tuple[str, ...]) -> bool:
    return where.lower().endswith(suffixes)


def _parse_unnamed(where: str, text: str, note: Note) -> object:
    """Standard input, what an address gave, a file of another name."""
    begin = text.lstrip()
    if _CODEX.search(text) and not begin.startswith("{"):
        return _parse_toml(where, text)
    if (where == "stdin" or "://" in where) and not begin.startswith(("{", "[", "//", "/*")):
        return parse_yaml(where, text, note)
    first, _, rest = begin.partition("\n")
    in_lines = first.startswith("{") and bool(rest.strip()) and not _line(1, first, ignore_fault).fault
    return _parse_lines(text, note) if in_lines else _parse_json(where, text, note)


def _parse_lines(text: str, note: Note) -> Lines:
    # Not `splitlines`: a JSON string may hold other characters that end a line.
    lines = enumerate(text.split("\n"), start=1)
    return Lines(tuple(_line(number, line, note) for number, line in lines if line.strip()))


def _line(number: int, text: str, note: Note) -> Line:
    try:
        return Line(number, load_json(text, lambda place: note(f"L{number}{place}")))
    except json.JSONDecodeError as exc:
        what = "UTF-8 text" if "\0" in text else "JSON"
        return Line(number, fault=f"is not {what}: {exc.msg} at column {exc.colno}")
    except ValueError as exc:  # a number of more digits than Python reads
        return Line(number, fault=f"cannot be read: {exc}")
    except RecursionError:
        return Line(number, fault="is nested too deeply")


def _parse_json(where: str, text: str, note: Note) -> object:
    try:
        return json_document(text, note)
    except json.JSONDecodeError as exc:
        raise SourceError(where, f"is not JSON: {exc.msg} at line {exc.lineno}, column {exc.colno}") from exc
    except ValueError as exc:  # a number of more digits than Python reads
        raise SourceError(where, f"cannot be read: {exc}") from exc
    except RecursionError as exc:
        raise SourceError(where, "is nested too deeply") from exc


def _parse_toml(where: str, text: str) -> object:
    try:
        return json.loads(json.dumps(toml_document(text), default=str))  # a date is a text, as JSON has it
    except UnboundedText as exc:
        raise SourceError(where, str(exc)) from exc
    except ValueError as exc:
        raise SourceError(where, f"is not TOML: {exc}") from exc


def parse_yaml(where: str, text: str, note: Note = ignore_fault) -> object:
    """Raises SourceError with line and column of what is wrong, and for what unfolds without end."""
    import yaml

    from waygraph.ingest.sources import yaml_text

    try:
        return yaml_text.parse(text, note)
    except yaml.YAMLError as exc:
        raise SourceError(where, f"is not YAML: {' '.join(str(exc).split())}") from exc
    except UnboundedText as exc:
        raise SourceError(where, str(exc)) from exc
    except ValueError as exc:  # a number that cannot be
        raise SourceError(where, f"cannot be read: {exc}") from exc
