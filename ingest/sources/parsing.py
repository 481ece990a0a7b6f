"""Text to plain values: JSON or YAML, by the name of the file."""

import json
from collections.abc import Callable
from typing import Any

from waygraph.registry.errors import SourceError
from waygraph.registry.settings import Settings

Content = Callable[[int], bytes]
"""Gives at most so many bytes. Raises OSError, SourceError."""


def parse(where: str, content: Content, settings: Settings) -> Any:
    """JSON or YAML content. Raises SourceError with line and column of what is wrong."""
    text = text_of(where, content, settings)
    in_yaml = where.endswith((".yaml", ".yml")) or (where == "stdin" and text.lstrip()[:1] not in "{[")
    return parse_yaml(where, text) if in_yaml else _parse_json(where, text)


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


def _parse_json(where: str, text: str) -> object:
    try:
        return json.loads(text)
    except json.JSONDecodeError as exc:
        raise SourceError(where, f"is not JSON: {exc.msg} at line {exc.lineno}, column {exc.colno}") from exc
    except ValueError as exc:  # a number of more digits than Python reads
        raise SourceError(where, f"cannot be read: {exc}") from exc
    except RecursionError as exc:
        raise SourceError(where, "is nested too deeply") from exc


def parse_yaml(where: str, text: str) -> object:
    """Raises SourceError with line and column of what is wrong, and for what unfolds without end."""
    import yaml

    from waygraph.ingest.sources import yaml_text

    try:
        return yaml_text.parse(text)
    except yaml.YAMLError as exc:
        raise SourceError(where, f"is not YAML: {' '.join(str(exc).split())}") from exc
    except yaml_text.Unbounded as exc:
        raise SourceError(where, str(exc)) from exc
    except ValueError as exc:  # a date or number that cannot be
        raise SourceError(where, f"cannot be read: {exc}") from exc
