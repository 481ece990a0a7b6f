"""Text to plain values: JSON, JSON Lines, YAML or TOML, by the name of the file, else by the look of the text.

JSON may have what hosts allow in their files: comments, and a comma after the last item.

An OpenAPI document whose parts stand in files beside it, as one document that can travel as one text.

Each file that a `$ref` names comes along under `x-waygraph-files`, by its path from the document's folder, and the
references lead there. Only regular files below that folder are read, and no link that leaves it. Nothing is fetched.

The manifest of a plug-in (Claude Code, Codex), with the configurations that its `mcpServers` names in their places.

So the manifest can travel as one text. Only files below the plug-in's own folder are read; what cannot be read stays
named, and is reported where the servers are.

A skill's folder as one text that can travel: what of SKILL.md and its scripts is needed to know the skill.

The text is a JSON object: `folder` (its name), `skill` (the front matter, null if there is none), `body` (its
beginning), `files` (path → `sha256` and `size` of each), `partial` (whether there are more), `left_out` (path → why a
file is not among them), `flags` (what of other texts than SKILL.md looks suspicious), and `scripts`, each with `path`,
`head` (its beginning) and `sha256`. Nothing in a skill is executed, and no link out of its folder is followed.
"""

import json
import os
import re
import stat
from collections.abc import Callable, Iterator, Mapping
from functools import partial
from hashlib import sha256
from itertools import islice
from pathlib import Path, PurePath
from posixpath import join, normpath
from typing import Any
from urllib.parse import quote, unquote, urlsplit

from waygraph.ingest.manifest.fields import escape_pointer, fields_of
from waygraph.registry.model.errors import SourceError
from waygraph.registry.model.foreign_text import BOM, UnboundedText, toml_document
from waygraph.registry.model.nouns import Agent, suspicions
from waygraph.registry.model.settings import Settings

# Only these are taken away, and replaced by spaces, so that line and column of an error are still the file's. Libraries
# for JSON5 and its kin allow far more, such as names without quotes, and with it files that are broken.


# Each alternative ends with the text, if not before: so no text takes more than one pass.
_STRING_OR_COMMENT = re.compile(r'(?s)"(?:\\.|[^"\\])*+(?:"|\Z)|//[^\r\n]*|/\*.*?\*/|/\*.*\Z')
# A comma with nothing before it is a mistake, and stays.
_STRING_OR_LAST_COMMA = re.compile(r'(?s)"(?:\\.|[^"\\])*+(?:"|\Z)|[\[{,]\s*+,|,(?=\s*+[}\]])')
_NO_LINE_BREAK = re.compile(r"[^\r\n]")


def without_comments(text: str) -> str:
    """The same without comments and last commas, as long and with the same lines. Strings stay as they are."""
    plain = _STRING_OR_COMMENT.sub(_blanked_comment, text)
    return _STRING_OR_LAST_COMMA.sub(lambda match: " " if match[0] == "," else match[0], plain)


def _blanked_comment(match: re.Match[str]) -> str:
    comment = match[0]
    is_closed = comment.startswith("//") or (comment.endswith("*/") and len(comment) >= 4)
    return _NO_LINE_BREAK.sub(" ", comment) if is_closed and not comment.startswith('"') else comment


def json_document(text: str) -> Any:
    """JSON, with comments and last commas as well. Raises ValueError, RecursionError."""
    text = text.removeprefix(BOM)
    try:
        return json.loads(text)
    except json.JSONDecodeError:
        if (plain := without_comments(text)) == text:
            raise
        return json.loads(plain)


MANIFEST = "plugin.json"
MAX_NAMED_BYTES = 4 * 1024 * 1024
_MANIFEST_FOLDER = "-plugin"
_ROOT = "${CLAUDE_PLUGIN_ROOT}/"


def with_named_files(manifest: Path, content: bytes) -> bytes:
    """The manifest's content; as it is if it names no file."""
    document = fields_of(_parse(manifest.name, content))
    if not isinstance(names := document.get("mcpServers"), str | list):
        return content
    servers = [_servers(manifest, each) for each in names] if isinstance(names, list) else _servers(manifest, names)
    return json.dumps({**document, "mcpServers": servers}).encode()


def plugin_folder(manifest: Path) -> Path:
    """The plug-in's: the manifest lies in it, or in its `.claude-plugin`."""
    folder = manifest.parent
    return folder.parent if folder.name.startswith(".") and folder.name.endswith(_MANIFEST_FOLDER) else folder


def _servers(manifest: Path, name: object) -> object:
    """What a named file holds: the document, or its `mcpServers`. The name itself if it cannot be read."""
    if not isinstance(name, str):
        return name
    content = _read_below(plugin_folder(manifest), name.removeprefix(_ROOT), MAX_NAMED_BYTES)
    document = _parse(manifest.name, content)
    return document.get("mcpServers", document) if isinstance(document, dict) else name


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
    room = MAX_FILES_BYTES
    pointers: dict[str, str] = {path.name: ""}
    parts: list[tuple[str, Any]] = [(path.name, document)]
    while parts:
        name, part = parts.pop()
        for holder in _references(part):
            target, _, fragment = holder["$ref"].partition("#")
            other = normpath(join(name.rpartition("/")[0], unquote(target))) if target else name
            if other not in pointers and len(pointers) <= MAX_FILES and not urlsplit(target).scheme:
                content = _read_below(path.parent, other, room) if other.endswith(_SUFFIXES) else b""
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


def _read_below(folder: Path, name: str, most_bytes: int) -> bytes:
    """Empty for what is no regular file below the folder, or is too large."""
    try:
        file = (folder / name).resolve()
        if not (file.is_relative_to(folder.resolve()) and stat.S_ISREG(file.stat().st_mode)):
            return b""
        with file.open("rb") as stream:
            content = stream.read(most_bytes + 1)
    except (OSError, ValueError, RuntimeError):
        return b""
    return content if len(content) <= most_bytes else b""


def _parse(name: str, content: bytes) -> Any:
    """None for what cannot be read: whoever reads the document says so."""
    try:
        text = content.decode("utf-8-sig")
        return json_document(text) if name.endswith(".json") else parse_yaml(name, text)
    except (SourceError, ValueError, RecursionError):
        return None


Content = Callable[[int], bytes]
"""Gives at most so many bytes. Raises OSError, SourceError."""

JSON, JSON_LINES, YAML, TOML = (".json", ".jsonc"), (".jsonl", ".ndjson"), (".yaml", ".yml"), (".toml",)
SUFFIXES = (*JSON, *JSON_LINES, *YAML)
"""Of the files that a folder is searched for. TOML is mostly that of programs: only a host's own file is read there."""
_CODEX = re.compile(r"(?m)^\[[ \t]*mcp_servers\b")
"""TOML that comes without a name is Codex's."""


def parse(where: str, content: Content, settings: Settings) -> Any:
    """Plain values; of JSON Lines a list of them. Raises SourceError with line and column of what is wrong."""
    text = text_of(where, content, settings)
    if is_skill(PurePath(where)) and text.lstrip()[:1] != "{":  # by itself, not packed with its folder
        return skill_of(text, PurePath(where).parent.name)
    if _is_named(where, JSON_LINES):
        return _parse_lines(where, text)
    if _is_named(where, YAML):
        return parse_yaml(where, text)
    if _is_named(where, TOML):
        return _parse_toml(where, text)
    parse_rest = _parse_json if _is_named(where, JSON) else _parse_unnamed
    return parse_rest(where, text)


def parse_file(path: PurePath | str, settings: Settings) -> Any:
    """As `parse`, of a file's content. Raises SourceError."""
    return parse(str(path), partial(read_file, Path(path)), settings)


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
    """Raises SourceError for what is not text, or too much of it."""
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
        raise SourceError(where, f"is not UTF-8 text (byte {exc.start})") from exc


def _is_named(where: str, suffixes: tuple[str, ...]) -> bool:
    return where.lower().endswith(suffixes)


def _parse_unnamed(where: str, text: str) -> object:
    """Standard input, what an address gave, a file of another name."""
    begin = text.lstrip()
    if _CODEX.search(text) and not begin.startswith("{"):
        return _parse_toml(where, text)
    if (where == "stdin" or "://" in where) and not begin.startswith(("{", "[", "//", "/*")):
        return parse_yaml(where, text)
    first, _, rest = begin.partition("\n")
    try:
        in_lines = first.startswith("{") and bool(rest.strip()) and isinstance(json.loads(first), dict)
    except (ValueError, RecursionError):
        in_lines = False
    return (_parse_lines if in_lines else _parse_json)(where, text)


def _parse_lines(where: str, text: str) -> list[Any] | None:
    """The values of the lines that are not blank; None if all are."""
    # Not `splitlines`: a JSON string may hold other characters that end a line.
    lines = [(f"{where}#L{number}", line) for number, line in enumerate(text.split("\n"), start=1) if line.strip()]
    return [_parse_json(place, line) for place, line in lines] or None


def _parse_json(where: str, text: str) -> object:
    try:
        return json_document(text)
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


def parse_yaml(where: str, text: str) -> object:
    """Raises SourceError with line and column of what is wrong, and for what unfolds without end."""
    import yaml

    from waygraph.ingest.sources import yaml_text

    try:
        return yaml_text.parse(text)
    except yaml.YAMLError as exc:
        raise SourceError(where, f"is not YAML: {' '.join(str(exc).split())}") from exc
    except UnboundedText as exc:
        raise SourceError(where, str(exc)) from exc
    except ValueError as exc:  # a number that cannot be
        raise SourceError(where, f"cannot be read: {exc}") from exc


SKILL_FILE = "SKILL.md"
SCRIPTS = "scripts"
MAX_BODY_CHARS = 100_000
MAX_HEAD_BYTES = 4_000
MAX_SKILL_BYTES = 4 * 1024 * 1024
MAX_FILES_OF_SKILL, MAX_BYTES_OF_SKILL = 512, 16 * 1024 * 1024
"""Of all files of a skill together, by its specification."""
MAX_SCRIPTS = 200
TEXT_SUFFIXES = (".md", ".txt")
SCRIPT_SUFFIXES = frozenset(
    ".bash .bat .cjs .cmd .fish .go .groovy .java .jl .js .kt .lua .mjs .mts .php .pl .ps1 .py .r .rb .rs .scala .sh"
    " .swift .ts .zsh".split()
)
_OLD_BREAK = re.compile(r"\r(?!\n)")
_FRONT = re.compile(r"\s*---[ \t]*\r?\n(.*?)^(?:---|\.\.\.)[ \t]*(?:\r?\n|\Z)(.*)", re.DOTALL | re.MULTILINE)


def is_skill(path: PurePath) -> bool:
    return path.name.casefold() == SKILL_FILE.casefold()


def read_skill_file(path: Path, most_bytes: int) -> bytes:
    """The skill of a SKILL.md, at most so many bytes of it. Raises OSError, and SourceError if it is no text."""
    with path.open("rb") as file:
        raw = file.read(MAX_SKILL_BYTES + 1)
    if len(raw) > MAX_SKILL_BYTES:
        raise SourceError(str(path), f"has more than {MAX_SKILL_BYTES} bytes")
    try:
        text = raw.decode("utf-8-sig")
    except UnicodeDecodeError as exc:
        raise SourceError(str(path), f"is not UTF-8 text (byte {exc.start})") from exc
    folder = path.absolute().parent
    return json.dumps(skill_of(text, folder.name) | _read_files(folder, {path.name: raw})).encode()[:most_bytes]


def skill_of(text: str, folder: str) -> dict[str, Any]:
    """The parts of a SKILL.md that came alone."""
    lines = _OLD_BREAK.sub("\n", text)
    parts = _FRONT.match(lines)
    return {
        "folder": folder,
        "skill": parts[1] if parts else None,
        "body": (parts[2] if parts else lines)[:MAX_BODY_CHARS],
        "files": {SKILL_FILE: digest_of(text.encode("utf-8", "surrogatepass"))},
        "scripts": [],
    }


def digest_of(content: bytes) -> dict[str, Any]:
    """Of a file: what tells another one from it."""
    return {"sha256": sha256(content).hexdigest(), "size": len(content)}


def beside(skill: Path) -> Iterator[Path]:
    """The files of a SKILL.md's skill, as far as they are looked at."""
    return islice(_files(skill.absolute().parent), MAX_FILES_OF_SKILL + 1)


def _read_files(folder: Path, read: Mapping[str, bytes]) -> dict[str, Any]:
    """Of all files of a skill what its text has of them, by their paths in order.

    With more files or bytes than a skill may have there are none but those that were `read` before.
    """
    files, omissions, flags = dict[str, dict[str, Any]](), dict[str, str](), list[str]()
    scripts, room = list[dict[str, str]](), MAX_BYTES_OF_SKILL
    for number, file in enumerate(sorted(beside(folder / SKILL_FILE), key=lambda each: each.relative_to(folder).parts)):
        path = file.relative_to(folder).as_posix()
        content = read.get(path) or _read_file(file, folder, room)
        if isinstance(content, str):
            omissions[path] = content
            continue
        room -= len(content)
        if number >= MAX_FILES_OF_SKILL or room < 0:
            omissions[""] = (
                f"has more than {MAX_FILES_OF_SKILL} files or {MAX_BYTES_OF_SKILL:,} bytes: none but {SKILL_FILE} and "
                "some scripts is known here, and none is served"
            )
            only = {name: digest_of(content) for name, content in read.items()}
            return {"files": only, "partial": True, "left_out": omissions, "flags": flags, "scripts": scripts}
        files[path] = digest = digest_of(content)
        head = content[:MAX_HEAD_BYTES].decode("utf-8-sig", "replace")
        is_script = file.suffix.casefold() in SCRIPT_SUFFIXES or content.startswith(b"#!")
        if path.startswith(f"{SCRIPTS}/") and not file.name.startswith("__") and is_script:
            scripts.append({"path": path, "head": head, "sha256": digest["sha256"]})
        elif path not in read and file.suffix.casefold() in TEXT_SUFFIXES:
            flags += suspicions_in(path, content[: 4 * MAX_BODY_CHARS].decode("utf-8-sig", "replace")[:MAX_BODY_CHARS])
    if len(scripts) > MAX_SCRIPTS:
        omissions[SCRIPTS] = f"of more scripts than {MAX_SCRIPTS} the other {len(scripts) - MAX_SCRIPTS} are no tools"
    return {"files": files, "left_out": omissions, "flags": flags, "scripts": scripts[:MAX_SCRIPTS]}


def suspicions_in(path: str, text: str) -> list[str]:
    """What of a text that a model reads with a skill looks suspicious, by the rules for descriptions of tools."""
    from waygraph.ingest.manifest.suspicion.findings import examine

    flags = examine(Agent(id="", name="", description=text)).flags(lambda _: {})
    return [f"{path}: {flag.partition(': ')[2]}" for flag in suspicions(flags)]


def _files(folder: Path) -> Iterator[Path]:
    """What a person put there: nothing hidden, no caches; folders that are links are not entered."""
    for place, folders, files in os.walk(folder, followlinks=False):
        folders[:] = sorted(name for name in folders if not name.startswith((".", "__")) and name != "node_modules")
        yield from (Path(place) / name for name in sorted(files) if not name.startswith("."))


def _read_file(file: Path, folder: Path, room: int) -> bytes | str:
    """The content, one byte more than there is room for at most; or why there is none."""
    try:
        if not file.resolve().is_relative_to(folder.resolve()):
            return "is a link to what is not in the folder of the skill"
        if not file.is_file():
            return "is no file"
        with file.open("rb") as stream:
            return stream.read(room + 1)
    except (OSError, RuntimeError) as exc:  # also a link that leads to itself
        return f"cannot be read: {getattr(exc, 'strerror', None) or exc}"
