"""How a worker tells the answer to a statement: one JSON document, its values in JSON's types, alike on every engine.

Engines hand over nodes and edges as maps with `_id`, `_labels`, `_type`, `_source` and `_target` among the properties.
"""

import datetime
import json
import math
import resource
import sys
import time
from collections.abc import Callable, Iterable, Sequence
from typing import Any

from waygraph.registry.model.process import die_with

SHORTEST_VECTOR = 16
"""Lists of at least so many floats are embeddings, and told by their length."""

NON_FINITE = {math.inf: "Infinity", -math.inf: "-Infinity"}


class RowTooLarge(Exception):
    pass


def encode_answer(
    columns: Sequence[str], rows: Iterable[Iterable[Any]], request: dict[str, Any], start: float
) -> list[bytes]:
    """The answer in parts, as far as `max_rows` and `max_bytes` of the request allow; no row beyond is asked for."""
    parts: list[bytes] = []
    free_bytes = request["max_bytes"]
    is_cut = False
    for row in rows:
        part = as_json([plain(value) for value in row])
        free_bytes -= len(part) + 1
        is_cut = free_bytes < 0 or len(parts) == request["max_rows"]
        if is_cut:
            break
        parts.append(part)
    if is_cut and not parts and request["max_rows"]:
        raise RowTooLarge
    elapsed_ms = (time.perf_counter() - start) * 1000
    head = {"columns": list(columns), "truncated": is_cut, "elapsed_ms": elapsed_ms}
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


MIB = 1024 * 1024


def lower(what: int, most: int) -> None:
    """Lowers a limit for good; one that is lower already stays."""
    hard = resource.getrlimit(what)[1]
    most = most if hard == resource.RLIM_INFINITY else min(most, hard)
    resource.setrlimit(what, (most, most))


def limit_memory(mib: int) -> None:
    """So much more address space than is taken now; Linux only."""
    if sys.platform == "linux":
        with open("/proc/self/statm", "rb") as statm:
            base = int(statm.read().split()[0]) * resource.getpagesize()
        lower(resource.RLIMIT_AS, base + mib * MIB)


Request = dict[str, Any]


class NotARead(Exception):
    pass


KNOWN_FAILURES: dict[type[BaseException], dict[str, str]] = {
    RowTooLarge: {"limit": "size"},
    MemoryError: {"limit": "memory"},
    RecursionError: {"failed": "a value of the answer is nested too deeply"},
}


def work(run: Callable[[Request], list[bytes]], failure: Callable[[BaseException, Request], dict[str, str]]) -> None:
    """Answers the request by `run`, or by what `failure` makes of its error where the engines do not share it."""
    die_with(int(sys.argv[1]))
    request = json.loads(sys.stdin.buffer.read())
    try:
        lower(resource.RLIMIT_CORE, 0)
        lower(resource.RLIMIT_FSIZE, 0)
        lower(resource.RLIMIT_CPU, request["cpu_s"])
        parts = run(request)
    except BaseException as exc:  # noqa: BLE001 - the parent must hear of it, and a panic of the engine is no Exception
        usual = {"refused": str(exc)} if isinstance(exc, NotARead) else KNOWN_FAILURES.get(type(exc))
        parts = [as_json(usual or failure(exc, request))]
    for part in parts:
        sys.stdout.buffer.write(part)
    sys.stdout.buffer.flush()
