"""Text to plain values: JSON, JSON Lines, YAML or TOML, by the name of the file, else by the look of the text."""

import json
import re
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from pathlib import Path, PurePath
from typing import Any

from waygraph.ingest.manifest.fields import Note, ignore_fault
from waygraph.ingest.sources.json_text import json_document, load_json
from waygraph.ingest.sources.plugin_manifest import MANIFEST, with_named_files
from waygraph.ingest.sources.referenced_files import with_referenced_files
from waygraph.ingest.sources.skill_folder import is_skill, skill_of
from waygraph.registry.model.bounded_text import UnboundedText, toml_document
from waygraph.registry.model.errors import SourceError
from waygraph.registry.model.settings import Settings

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
