"""Secrets taken out of the arguments of a call, where an operator wants these recorded.

What a field is called decides, as for launches that sources name: in doubt a value is struck, whole.
"""

import json
import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from waygraph.api.observing.redaction import HIDDEN, without_keys, without_secrets
from waygraph.ingest.transport import names_secret

MOST_DEPTH = 64
"""What lies deeper is struck, JSON in texts included."""
_NAME = re.compile(r"[\w.-]{1,100}:?")
_LABELS = ("name", "key")


def arguments_without_secrets(arguments: Mapping[str, Any]) -> dict[str, Any]:
    """The same JSON with `***` for each value that may be a secret."""
    return _object(arguments, MOST_DEPTH)


def _told(value: Any, levels: int) -> Any:
    if isinstance(value, str):
        return _text(value, levels)
    if not isinstance(value, (Mapping, list)):
        return value
    if not levels:
        return HIDDEN
    return _object(value, levels - 1) if isinstance(value, Mapping) else list(_items(value, levels - 1))


def _object(fields: Mapping[str, Any], levels: int) -> dict[str, Any]:
    """A field may also be written as `{"name": "Authorization", "value": …}`."""
    label = next((name for name in _LABELS if name in fields), "") if "value" in fields else ""

    def told(name: str, value: Any) -> Any:
        called = fields[label] if label and name == "value" else name
        is_secret = name != label and _is_secret(called) and _may_hold(value)
        return HIDDEN if is_secret else _told(value, levels)

    return {without_keys(name): told(name, value) for name, value in fields.items()}


def _items(values: Sequence[Any], levels: int) -> Iterator[Any]:
    """What follows a name of a secret is one: `["--token", …]`, `["Authorization", …]`."""
    before: Any = None
    for value in values:
        is_named = isinstance(before, str) and _NAME.fullmatch(before) and names_secret(before)
        yield HIDDEN if is_named and _may_hold(value) else _told(value, levels)
        before = value


def _text(text: str, levels: int) -> str:
    """JSON by its fields, any other text by what stands in it."""
    if text.lstrip()[:1] not in ("{", "["):
        return without_secrets(text)
    try:
        parsed = json.loads(text)
    except (ValueError, RecursionError):
        return without_secrets(text)
    return json.dumps(_told(parsed, levels), ensure_ascii=False)


def _is_secret(name: object) -> bool:
    return isinstance(name, str) and names_secret(name)


def _may_hold(value: object) -> bool:
    return value is not None and not isinstance(value, bool)
