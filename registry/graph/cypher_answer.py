"""How a worker tells the answer to a statement: one JSON document, its values in JSON's types, alike on every engine.

Engines hand over nodes and edges as maps with `_id`, `_labels`, `_type`, `_source` and `_target` among the properties.
"""

import datetime
import json
import math
import time
from collections.abc import Iterable, Sequence
from typing import Any

SHORTEST_VECTOR = 16
"""Lists of at least so many floats are embeddings, and told by their length."""

NON_FINITE = {math.inf: "Infinity", -math.inf: "-Infinity"}


class RowTooLarge(Exception):
    pass


def told(columns: Sequence[str], rows: Iterable[Iterable[Any]], request: dict[str, Any], started: float) -> list[bytes]:
    """The answer in parts, as far as `max_rows` and `max_bytes` of the request allow; no row beyond is asked for."""
    parts: list[bytes] = []
    left = request["max_bytes"]
    truncated = False
    for row in rows:
        part = as_json([plain(value) for value in row])
        left -= len(part) + 1
        truncated = left < 0 or len(parts) == request["max_rows"]
        if truncated:
            break
        parts.append(part)
    if truncated and not parts and request["max_rows"]:
        raise RowTooLarge
    elapsed_ms = (time.perf_counter() - started) * 1000
    head = {"columns": list(columns), "truncated": truncated, "elapsed_ms": elapsed_ms}
    return [as_json(head)[:-1], b', "rows": [', b",".join(parts), b"]}"]


def plain(value: Any) -> Any:
    """`value` in JSON's types: nodes and edges as maps, times as ISO 8601, vectors by their length."""
    match value:
        case None | bool() | int() | str():
            return value
        case float():
            return value if math.isfinite(value) else NON_FINITE.get(value, "NaN")
        case dict():
            return _plain_map(value)
        case list() | tuple():
            return _plain_list(value)
        case _:
            return value.isoformat() if isinstance(value, datetime.date | datetime.time) else str(value)


def _plain_list(values: Sequence[Any]) -> Any:
    if len(values) >= SHORTEST_VECTOR and all(isinstance(value, float) for value in values):
        return f"<{len(values)} floats>"
    return [plain(value) for value in values]


def _plain_map(value: dict[str, Any]) -> dict[str, Any]:
    own = {key: plain(part) for key, part in value.items()}
    if {"_id", "_labels"} <= own.keys():
        return {"id": own.pop("_id"), "labels": own.pop("_labels"), "properties": own}
    if {"_id", "_type", "_source", "_target"} <= own.keys():
        ends = {"source": own.pop("_source"), "target": own.pop("_target")}
        return {"id": own.pop("_id"), "type": own.pop("_type"), **ends, "properties": own}
    return own


def as_json(value: Any) -> bytes:
    return json.dumps(value, allow_nan=False).encode()
