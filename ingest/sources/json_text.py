"""JSON to plain values, with what hosts allow in their files: comments, and a comma after the last item."""

import json
import re
from typing import Any

from waygraph.ingest.manifest.fields import Note, Objects, ignore_fault
from waygraph.registry.model.bounded_text import BOM

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


def _blanked_comment(match: re.Match[str]) -> str:
    comment = match[0]
    is_closed = comment.startswith("//") or (comment.endswith("*/") and len(comment) >= 4)
    return _NO_LINE_BREAK.sub(" ", comment) if is_closed and not comment.startswith('"') else comment


def _blanked_comma(match: re.Match[str]) -> str:
    return " " if match[0] == "," else match[0]


def json_document(text: str, note: Note = ignore_fault) -> Any:
    """JSON, with comments and last commas as well. Raises ValueError, RecursionError."""
    text = text.removeprefix(BOM)
    try:
        return load_json(text, note)
    except json.JSONDecodeError:
        if (without := plain(text)) == text:
            raise
        return load_json(without, note)


def load_json(text: str, note: Note) -> Any:
    """Raises ValueError, RecursionError."""
    objects = Objects()
    document = json.loads(text, object_pairs_hook=objects)
    objects.tell(document, note)
    return document
