"""What no host takes, or only some do, in any field of what the protocol has: made at random, the same for a seed."""

from random import Random
from typing import Any

FIELDS = (
    "name title description arguments required uri uriTemplate mimeType size icons src sizes theme annotations "
    "audience priority lastModified _meta progressToken io.modelcontextprotocol/related-task inputSchema type "
    "outputSchema properties execution taskSupport text data blob resource content role messages contents readOnlyHint "
    "destructiveHint idempotentHint openWorldHint isError structuredContent values total hasMore unknown"
).split()
SCALARS: tuple[Any, ...] = (
    None, True, False, 0, 1, -7, 0.5, 2**60, 1e300, "", "true", "text", "image", "object", "user", "assistant", "light",
    "a b", "chart", "note://a", "http://[", "QUJD", "QUJ", "Q-_D", "A===", "2026-01-31T10:00:00Z", "2026-02-31",
    "2026-13-01T10:00:00Z", "2026-01-31T10:00:00", "optional", "\N{SNOWMAN}", "audio", "resource", "resource_link",
)  # fmt: skip


def odd_value(random: Random, depth: int = 3) -> Any:
    kind = random.random()
    if depth and kind < 0.25:
        return [odd_value(random, depth - 1) for _ in range(random.randrange(4))]
    if depth and kind < 0.55:
        return {random.choice(FIELDS): odd_value(random, depth - 1) for _ in range(random.randrange(5))}
    return random.choice(SCALARS)


def spoil(random: Random, value: Any, share: float = 0.15) -> Any:
    """The value with some of its parts replaced, left out or joined by others."""
    if random.random() < share:
        return odd_value(random)
    if isinstance(value, list):
        return [spoil(random, each, share) for each in value] + ([odd_value(random)] if random.random() < share else [])
    if not isinstance(value, dict):
        return value
    told = {name: spoil(random, each, share) for name, each in value.items() if random.random() > share / 3}
    more = random.randrange(3)
    return told | {random.choice(FIELDS): odd_value(random, 2) for _ in range(more)}


_NOTES = {"audience": ["user"], "priority": 0.3, "lastModified": "2026-01-31T10:00:00Z"}
_ICONS = [{"src": "https://example.com/a.png", "mimeType": "image/png", "sizes": ["9x9"], "theme": "dark"}]
_COMMON = {"title": "T", "description": "D", "icons": _ICONS, "_meta": {"progressToken": "p"}}
_FILE = {"uri": "note://a", "mimeType": "text/plain", "text": "x", "_meta": {}}
BLOCKS = (
    {"type": "text", "text": "x", "annotations": _NOTES, "_meta": {}},
    {"type": "image", "data": "QUJD", "mimeType": "image/png", "annotations": _NOTES},
    {"type": "audio", "data": "QUI=", "mimeType": "audio/wav"},
    {"type": "resource", "resource": _FILE, "annotations": _NOTES},
    {"type": "resource", "resource": {"uri": "note://b", "blob": "QUJD"}},
    {"type": "resource_link", "uri": "note://a", "name": "a", "size": 3, **_COMMON},
)
PROMPT = {"name": "p", "arguments": [{"name": "a", "description": "d", "required": True}], **_COMMON}
RESOURCE = {"uri": "note://a", "name": "a", "mimeType": "text/plain", "size": 3, "annotations": _NOTES, **_COMMON}
TEMPLATE = {"uriTemplate": "note://{a}", "name": "a", "mimeType": "text/plain", "annotations": _NOTES, **_COMMON}
TOOL = {
    "name": "t",
    "inputSchema": {"type": "object", "properties": {"a": {"type": "string"}}, "required": ["a"]},
    "outputSchema": {"type": "object", "properties": {"a": {}}},
    "annotations": {"title": "T", "readOnlyHint": True, "destructiveHint": False, "openWorldHint": True},
    "execution": {"taskSupport": "optional"},
    **_COMMON,
}
MESSAGE = {"role": "user", "content": BLOCKS[0]}
COMPLETION = {"completion": {"values": ["a"], "total": 1, "hasMore": False}, "_meta": {}}
FORM = {
    "mode": "form",
    "message": "m",
    "requestedSchema": {
        "type": "object",
        "properties": {
            "a": {"type": "string", "title": "A", "minLength": 1, "format": "email", "default": "x"},
            "b": {"type": "boolean", "default": True},
            "c": {"type": "integer", "minimum": 1, "default": 2},
            "d": {"type": "string", "enum": ["x"], "enumNames": ["X"]},
            "e": {"type": "array", "items": {"type": "string", "enum": ["x"]}, "minItems": 1},
            "f": {"type": "string", "oneOf": [{"const": "x", "title": "X"}]},
        },
        "required": ["a"],
    },
}
PAGE = {"mode": "url", "message": "m", "elicitationId": "e", "url": "https://example.com/"}
SAMPLING = {
    "messages": [MESSAGE],
    "maxTokens": 5,
    "modelPreferences": {"hints": [{"name": "m"}], "costPriority": 0.5},
    "systemPrompt": "s",
    "temperature": 0.5,
    "stopSequences": ["x"],
    "includeContext": "none",
}
