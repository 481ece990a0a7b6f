"""A JSON Schema in fewer characters: without remarks, then without what is nested deeper and deeper.

Whatever fits the schema fits its outline as well: only keywords that can be left out one by one are kept.
"""

import json
from collections.abc import Iterator, Mapping
from typing import Any

_OUTLINE_WORDS = ("type", "const", "format", "contentEncoding")
_DEPTHS = (8, 3, 1, 0)
MAX_CHOICES_CHARS = 400
"""Of an `enum`; of a longer one the first three stand as examples."""
_REFERENCE = "#/$defs/"


def outlines(schema: Any) -> Iterator[tuple[Any, dict[str, None]]]:
    """Each shorter than the one before, with the names under `$defs` that it refers to."""
    for depth in _DEPTHS:
        refs: dict[str, None] = {}
        yield _outline(schema, depth, refs), refs


def _outline(schema: Any, depth: int, refs: dict[str, None]) -> Any:
    if not isinstance(schema, Mapping):
        return schema
    outline = {word: schema[word] for word in _OUTLINE_WORDS if word in schema} | _choices(schema)
    if isinstance(reference := schema.get("$ref"), str) and reference.startswith(_REFERENCE):
        outline["$ref"] = reference
        refs[reference.removeprefix(_REFERENCE)] = None
    if not depth:
        return outline
    if isinstance(properties := schema.get("properties"), Mapping):
        outline["properties"] = {name: _outline(each, depth - 1, refs) for name, each in properties.items()}
    if isinstance(schema.get("required"), list):
        outline["required"] = schema["required"]
    if "items" in schema and "prefixItems" not in schema:  # which say what it is that is left for `items`
        outline["items"] = _outline(schema["items"], depth - 1, refs)
    for word in ("allOf", "anyOf"):
        if isinstance(parts := schema.get(word), list):
            outline[word] = [_outline(part, depth - 1, refs) for part in parts]
    if isinstance(parts := schema.get("oneOf"), list) and "anyOf" not in outline:  # several may fit an outline
        outline["anyOf"] = [_outline(part, depth - 1, refs) for part in parts]
    return outline


def _choices(schema: Mapping[str, Any]) -> dict[str, Any]:
    if not isinstance(choices := schema.get("enum"), list):
        return {}
    return {"enum": choices} if len(json.dumps(choices)) <= MAX_CHOICES_CHARS else {"examples": choices[:3]}
