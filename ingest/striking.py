"""What is held in confidence, struck out of what a service or server says: it may repeat what it was sent."""

import json
import re
from collections.abc import Mapping, Sequence
from html import unescape
from typing import Any
from urllib.parse import unquote

STRUCK = "***"
_ESCAPED = re.compile(r"\\+u([0-9a-fA-F]{4})|\\+/")
"""What writers of JSON need not escape, and some do: `+` as `\\u002B` (.NET), `/` as `\\/` (PHP)."""


def struck(text: str, secrets: Sequence[str]) -> str:
    """The text without any of `secrets`, which come longest first.

    Where one stands in the escapes of JSON, HTML or URLs, the whole text comes without such escapes.
    """
    text = _without(text, secrets)
    if not secrets or not any(mark in text for mark in "\\&%"):
        return text
    for read in (_without_json_escapes, unescape, unquote):
        plain = read(text)
        if any(secret in plain for secret in secrets):
            text = _without(plain, secrets)
    return text


def struck_json(data: Any, secrets: Sequence[str]) -> Any:
    """Parsed JSON with `secrets` struck out of every text, name and number."""
    if isinstance(data, str):
        return struck(data, secrets)
    if isinstance(data, Mapping):
        return {struck(name, secrets): struck_json(value, secrets) for name, value in data.items()}
    if isinstance(data, list):
        return [struck_json(part, secrets) for part in data]
    if isinstance(data, (int, float)) and any(secret in json.dumps(data) for secret in secrets):
        return STRUCK
    return data


def _without(text: str, secrets: Sequence[str]) -> str:
    for secret in secrets:
        text = text.replace(secret, STRUCK)
    return text


def _without_json_escapes(text: str) -> str:
    return _ESCAPED.sub(lambda found: chr(int(found[1], 16)) if found[1] else "/", text)
