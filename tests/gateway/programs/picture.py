"""A result with much in it that no type of the SDK knows."""

from typing import Any

PICTURE: dict[str, Any] = {
    "content": [
        {"type": "image", "data": "aGk=", "mimeType": "image/png", "annotations": {"priority": 1}, "camera": "box"},
        {"type": "resource", "resource": {"uri": "file:///harbour.txt", "text": "low tide"}},
        {"type": "hologram", "depth": 3},
    ],
    "structuredContent": {"z": 1, "a": [None, 2]},
    "_meta": {"example.org/brush": "wide"},
    "signature": "toolbox",
}
