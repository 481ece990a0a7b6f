"""Text to plain values: JSON, JSON Lines or YAML, by the name of the file, else by the look of the text."""

import json
import re
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path, PurePath
from typing import Any

from waygraph.ingest.manifest.fields import Note, Objects, ignore_fault
from waygraph.ingest.sources.skill_folder import is_skill, skill_of
from waygraph.registry.model.errors import SourceError
from waygraph.registry.model.settings import Settings

# JSON with comments, as VS Code's files have it: `//` and `/* */` comments and a comma after the last item.
#
# Only these are taken away, and replaced by spaces, so that line and column of an error are still the file's. Libraries
# for JSON5 and its kin allow far more, such as names without quotes, and with it files that are broken.


# Each alternative ends with the text, if not before: so no text takes more than one pass.
_STRING_OR_COMMENT = re.compile(r'(?s)"(?:\\.|[^"\\])*+(?:"|\Z)|//[^\r\n]*|/\*.*?\*/|/\*.*\Z')
# A comma with nothing before it is a mistake, and stays.
_STRING_OR_LAST_COMMA = re.compile(r'(?s)"(?:\\.|[^"\\])*+(?:"|\Z)|[\[{,]\s*+,|,(?=\s*+[}\]])')
_NO_LINE_BREAK = re.compile(r"[^\r\n]")


def plain(text: str) -> str:
    """The same without comments and last commas, as long and with the same lines. Strings stay as they are."""
    return _STRING_OR_LAST_COMMA.sub(_blanked_comma, _STRING_OR_COMMENT.sub(_blanked_comment, text))


def _blanked_comment(found: re.Match[str]) -> str:
    comment = found[0]
    closed = comment.startswith("//") or (comment.endswith("*/") and len(comment) >= 4)
    return _NO_LINE_BREAK.sub(" ", comment) if closed and not comment.startswith('"') else comment


def _blanked_comma(found: re.Match[str]) -> str:
    return " " if found[0] == "," else found[0]


Content = Callable[[int], bytes]
"""Gives at most so many bytes. Raises OSError, SourceError."""

JSON, JSON_LINES, YAML = (".json",), (".jsonl", ".ndjson"), (".yaml", ".yml")
SUFFIXES = (*JSON, *JSON_LINES, *YAML)
"""Of the files that a folder is searched for."""
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
    parse_rest = _parse_json if _is_named(where, JSON) else _parse_unnamed
    return parse_rest(where, text, note)


def parse_file(path: PurePath | str, settings: Settings) -> Any:
    """As `parse`, of a file's content. Raises SourceError."""

    def content(most_bytes: int) -> bytes:
        with Path(path).open("rb") as file:
            return file.read(most_bytes)

    return parse(str(path), content, settings)


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
    if (where == "stdin" or "://" in where) and begin[:1] not in "{[":
        return parse_yaml(where, text, note)
    first, _, rest = begin.partition("\n")
    in_lines = first.startswith("{") and bool(rest.strip()) and not _line(1, first, ignore_fault).fault
    return _parse_lines(text, note) if in_lines else _parse_json(where, text, note)


def _parse_lines(text: str, note: Note) -> Lines:
    # Not `splitlines`: a JSON string may hold other characters that end a line.
    numbered = enumerate(text.split("\n"), start=1)
    return Lines(tuple(_line(number, line, note) for number, line in numbered if line.strip()))


def _line(number: int, text: str, note: Note) -> Line:
    try:
        return Line(number, _load_text(text, lambda place: note(f"L{number}{place}")))
    except json.JSONDecodeError as exc:
        what = "UTF-8 text" if "\0" in text else "JSON"
        return Line(number, fault=f"is not {what}: {exc.msg} at column {exc.colno}")
    except ValueError as exc:  # a number of more digits than Python reads
        return Line(number, fault=f"cannot be read: {exc}")
    except RecursionError:
        return Line(number, fault="is nested too deeply")


def _parse_json(where: str, text: str, note: Note) -> object:
    try:
        return _strictly_or_with_comments(text, note)
    except json.JSONDecodeError as exc:
        raise SourceError(where, f"is not JSON: {exc.msg} at line {exc.lineno}, column {exc.colno}") from exc
    except ValueError as exc:  # a number of more digits than Python reads
        raise SourceError(where, f"cannot be read: {exc}") from exc
    except RecursionError as exc:
        raise SourceError(where, "is nested too deeply") from exc


def _strictly_or_with_comments(text: str, note: Note) -> object:
    """Raises ValueError, RecursionError."""
    try:
        return _load_text(text, note)
    except json.JSONDecodeError:
        if (without := plain(text)) == text:
            raise
        return _load_text(without, note)


def _load_text(text: str, note: Note) -> object:
    """Raises ValueError, RecursionError."""
    objects = Objects()
    document = json.loads(text, object_pairs_hook=objects)
    objects.tell(document, note)
    return document


def parse_yaml(where: str, text: str, note: Note = ignore_fault) -> object:
    """Raises SourceError with line and column of what is wrong, and for what unfolds without end."""
    import yaml

    from waygraph.ingest.sources import yaml_text

    try:
        return yaml_text.parse(text, note)
    except yaml.YAMLError as exc:
        raise SourceError(where, f"is not YAML: {' '.join(str(exc).split())}") from exc
    except yaml_text.Unbounded as exc:
        raise SourceError(where, str(exc)) from exc
    except ValueError as exc:  # a number that cannot be
        raise SourceError(where, f"cannot be read: {exc}") from exc
