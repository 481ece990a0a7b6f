"""The process in which one statement typed by a stranger runs, over a copy of the graph, and then ends.

`sandbox` starts this file by its path (`python -I cypher_worker.py PARENT_PID`); it imports the engine and the
standard library, nothing of Waygraph. One JSON request comes in on stdin, one JSON answer goes out on stdout.

What holds even if `readonly` was fooled:
- the copy is opened read-only, and no file may grow (RLIMIT_FSIZE);
- once it is open, no further file or socket can be (RLIMIT_NOFILE): LOAD CSV finds nothing to read;
- a plan with any operator beyond those that read is refused before it runs;
- memory (RLIMIT_AS, Linux) and processor time (RLIMIT_CPU) end, and so does this process when its parent does.
"""

import ctypes
import datetime
import decimal
import json
import math
import os
import re
import resource
import signal
import sys
import time
from collections.abc import Iterable, Iterator, Sequence
from typing import Any

import grafeo

IMPORTED_FOR_THE_ENGINE = (datetime, decimal)
"""It imports them at the first value of their kind, when no file can be opened any more."""

MIB = 1024 * 1024
SHORTEST_VECTOR = 16
"""Lists of at least so many floats are embeddings, and told by their length."""

READ_OPERATORS = frozenset({
    "Aggregate", "AntiJoin", "Apply", "Bind", "CallProcedure", "Distinct", "EdgeScan", "Empty", "Except", "Expand",
    "Filter", "HorizontalAggregate", "Intersect", "Join", "LeftJoin", "Limit", "MapCollect", "MultiWayJoin",
    "NodeScan", "Otherwise", "Project", "Return", "ShortestPath", "Skip", "Sort", "TextScan", "Union", "Unwind",
    "VectorScan",
    "Discriminant(51)",  # how the engine prints ParameterScan, the rows a subquery gets
})  # fmt: skip

OPERATOR = re.compile(r"\s*(Discriminant\(\d+\)|\w*)")

NON_FINITE = {math.inf: "Infinity", -math.inf: "-Infinity"}


class NotARead(Exception):
    pass


class RowTooLarge(Exception):
    pass


KNOWN_FAILURES: dict[type[BaseException], dict[str, str]] = {
    RowTooLarge: {"limit": "size"},
    MemoryError: {"limit": "memory"},
    RecursionError: {"failed": "a value of the answer is nested too deeply"},
}


def main() -> None:
    _die_with(int(sys.argv[1]))
    request = json.loads(sys.stdin.buffer.read())
    for part in _answer(request):
        sys.stdout.buffer.write(part)
    sys.stdout.buffer.flush()


def _answer(request: dict[str, Any]) -> Iterable[bytes]:
    try:
        return _run(request)
    except BaseException as exc:  # noqa: BLE001 - the parent must hear of it, and a panic of the engine is no Exception
        return [_json(_failure(exc, request["path"]))]


def _failure(exc: BaseException, path: str) -> dict[str, str]:
    known = KNOWN_FAILURES.get(type(exc))
    if known:
        return known
    if isinstance(exc, NotARead):
        return {"refused": str(exc)}
    if isinstance(exc, Exception):
        return {"failed": _in_one_line(str(exc), path)}
    # A panic tells of the engine's insides, and of this machine's folders.
    return {"limit": "memory"} if re.search("capacity overflow|memory", str(exc)) else {"failed": "the engine panicked"}


def _run(request: dict[str, Any]) -> list[bytes]:
    _limit(resource.RLIMIT_CORE, 0)
    _limit(resource.RLIMIT_FSIZE, 0)
    _limit(resource.RLIMIT_CPU, request["cpu_s"])
    graph = grafeo.GrafeoDB.open_read_only(request["path"])
    _close_the_door(request["memory_mib"])
    started = time.perf_counter()
    _check_plan(graph, request["statement"], request["params"])
    result = graph.execute_cypher(request["statement"], request["params"])
    return _told(result, request, started)


def _die_with(parent: int) -> None:
    """Ends this process when the thread that started it ends, which waits for it; Linux only."""
    if sys.platform != "linux":
        return
    pr_set_pdeathsig = 1
    ctypes.CDLL(None).prctl(pr_set_pdeathsig, signal.SIGKILL)
    if os.getppid() != parent:  # it ended before the call
        sys.exit(1)


def _close_the_door(memory_mib: int) -> None:
    """From here on: so much more memory than the open graph takes, and no file or socket opened any more."""
    if sys.platform == "linux":
        with open("/proc/self/statm", "rb") as statm:
            base = int(statm.read().split()[0]) * resource.getpagesize()
        _limit(resource.RLIMIT_AS, base + memory_mib * MIB)
    _limit(resource.RLIMIT_NOFILE, 0)


def _limit(what: int, most: int) -> None:
    """Lowers a limit for good; one that is lower already stays."""
    hard = resource.getrlimit(what)[1]
    most = most if hard == resource.RLIM_INFINITY else min(most, hard)
    resource.setrlimit(what, (most, most))


def _check_plan(graph: Any, statement: str, params: dict[str, Any]) -> None:
    """Raises NotARead for a plan that does more than read; schema commands have no plan and fail here."""
    plan = graph.execute_cypher("EXPLAIN\n" + statement, params).scalar()
    for line in plan.splitlines():
        operator = OPERATOR.match(line)
        if operator and operator[1] and operator[1] not in READ_OPERATORS:
            raise NotARead(f"its plan does more than read: {operator[1]}")


def _told(result: Any, request: dict[str, Any], started: float) -> list[bytes]:
    rows: list[bytes] = []
    left = request["max_bytes"]
    truncated = False
    for row in _rows(result, request["vectors"]):
        left -= len(row) + 1
        truncated = left < 0 or len(rows) == request["max_rows"]
        if truncated:
            break
        rows.append(row)
    if truncated and not rows and request["max_rows"]:
        raise RowTooLarge
    elapsed_ms = (time.perf_counter() - started) * 1000
    head = {"columns": list(result.columns), "truncated": truncated, "elapsed_ms": elapsed_ms}
    return [_json(head)[:-1], b', "rows": [', b",".join(rows), b"]}"]


def _rows(result: Any, vectors: bool) -> Iterator[bytes]:
    columns = list(result.columns)
    for row in result:
        yield _json([_plain(row[column], vectors) for column in columns])


def _plain(value: Any, vectors: bool) -> Any:
    """`value` in JSON's types: nodes and edges as maps, times as ISO 8601, vectors by their length."""
    match value:
        case None | bool() | int() | str():
            return value
        case float():
            return value if math.isfinite(value) else NON_FINITE.get(value, "NaN")
        case dict():
            return _plain_map(value, vectors)
        case list() | tuple():
            return _plain_list(value, vectors)
        case _:
            return value.isoformat() if isinstance(value, datetime.date | datetime.time) else str(value)


def _plain_list(values: Sequence[Any], vectors: bool) -> Any:
    if not vectors and len(values) >= SHORTEST_VECTOR and all(isinstance(value, float) for value in values):
        return f"<{len(values)} floats>"
    return [_plain(value, vectors) for value in values]


def _plain_map(value: dict[str, Any], vectors: bool) -> dict[str, Any]:
    """The engine writes `_id`, `_labels`, `_type`, `_source`, `_target` among an entity's properties."""
    own = {key: _plain(part, vectors) for key, part in value.items()}
    if {"_id", "_labels"} <= own.keys():
        return {"id": own.pop("_id"), "labels": own.pop("_labels"), "properties": own}
    if {"_id", "_type", "_source", "_target"} <= own.keys():
        ends = {"source": own.pop("_source"), "target": own.pop("_target")}
        return {"id": own.pop("_id"), "type": own.pop("_type"), **ends, "properties": own}
    return own


def _in_one_line(message: str, path: str) -> str:
    """`GRAFEO-Q001: syntax error: [Cypher] Expected identifier …` without code, source excerpt and file path."""
    first = re.sub(r"^GRAFEO-\w+: |\[Cypher\] ", "", (message.splitlines() or ["no reason given"])[0])
    where = re.search(r"--> query:(\d+):(\d+)", message)
    advice = re.search(r"help: (.+)", message)
    # The line of EXPLAIN is before it.
    first += f" (line {int(where[1]) - 1}, column {where[2]})" if where else ""
    first += f". {advice[1]}" if advice else ""
    return first.replace(path, "the copy of the graph")[:400]


def _json(value: Any) -> bytes:
    return json.dumps(value, allow_nan=False).encode()


if __name__ == "__main__":
    main()
