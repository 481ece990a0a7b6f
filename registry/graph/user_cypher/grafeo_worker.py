"""The process in which one statement typed by a stranger runs, over a copy of the graph, and then ends.

`sandbox` starts this file by its path (`python -I grafeo_worker.py PARENT_PID`); it imports the engine, the standard
library, and of Waygraph only what limits a worker and tells its answer. One JSON request comes in on stdin, one JSON
answer goes out on stdout.

What holds even if `allow_list` was fooled:
- the copy is opened read-only, and no file may grow (RLIMIT_FSIZE);
- once it is open, no further file or socket can be (RLIMIT_NOFILE): LOAD CSV finds nothing to read;
- a plan with any operator beyond those that read is refused before it runs;
- memory (RLIMIT_AS, Linux) and processor time (RLIMIT_CPU) end, and so does this process when its parent does.
"""

import datetime
import decimal
import re
import resource
import time
from collections.abc import Iterator
from typing import Any

import grafeo

from waygraph.registry.graph.user_cypher.worker import NotARead, Request, encode_answer, limit_memory, lower, work

IMPORTED_FOR_THE_ENGINE = (datetime, decimal)
"""It imports them at the first value of their kind, when no file can be opened any more."""

READ_OPERATORS = frozenset({
    "Aggregate", "AntiJoin", "Apply", "Bind", "CallProcedure", "Distinct", "EdgeScan", "Empty", "Except", "Expand",
    "Filter", "HorizontalAggregate", "Intersect", "Join", "LeftJoin", "Limit", "MapCollect", "MultiWayJoin",
    "NodeScan", "Otherwise", "Project", "Return", "ShortestPath", "Skip", "Sort", "TextScan", "Union", "Unwind",
    "VectorScan",
    "Discriminant(51)",  # how the engine prints ParameterScan, the rows a subquery gets
})  # fmt: skip

OPERATOR = re.compile(r"\s*(Discriminant\(\d+\)|\w*)")


def main() -> None:
    work(_run, _failure)


def _failure(exc: BaseException, request: Request) -> dict[str, str]:
    if isinstance(exc, Exception):
        return {"failed": _in_one_line(str(exc), request["path"])}
    # A panic tells of the engine's insides, and of this machine's folders.
    return {"limit": "memory"} if re.search("capacity overflow|memory", str(exc)) else {"failed": "the engine panicked"}


def _run(request: Request) -> list[bytes]:
    graph = grafeo.GrafeoDB.open_read_only(request["path"])
    _close_the_door(request["memory_mib"])
    start = time.perf_counter()
    _check_plan(graph, request["statement"], request["params"])
    result = graph.execute_cypher(request["statement"], request["params"])
    return encode_answer(result.columns, _rows(result), request, start)


def _close_the_door(memory_mib: int) -> None:
    """From here on: so much more memory than the open graph takes, and no file or socket opened any more."""
    limit_memory(memory_mib)
    lower(resource.RLIMIT_NOFILE, 0)


def _check_plan(graph: Any, statement: str, params: dict[str, Any]) -> None:
    """Raises NotARead for a plan that does more than read; schema commands have no plan and fail here."""
    for line in graph.execute_cypher("EXPLAIN\n" + statement, params).scalar().splitlines():
        operator = OPERATOR.match(line)
        if operator and operator[1] and operator[1] not in READ_OPERATORS:
            raise NotARead(f"its plan does more than read: {operator[1]}")


def _rows(result: Any) -> Iterator[list[Any]]:
    columns = list(result.columns)
    for row in result:
        yield [row[column] for column in columns]


def _in_one_line(message: str, path: str) -> str:
    """`GRAFEO-Q001: syntax error: [Cypher] Expected identifier …` without code, source excerpt and file path."""
    first = re.sub(r"^GRAFEO-\w+: |\[Cypher\] ", "", (message.splitlines() or ["no reason given"])[0])
    where = re.search(r"--> query:(\d+):(\d+)", message)
    advice = re.search(r"help: (.+)", message)
    # The line of EXPLAIN is before it.
    first += f" (line {int(where[1]) - 1}, column {where[2]})" if where else ""
    first += f". {advice[1]}" if advice else ""
    return first.replace(path, "the copy of the graph")[:400]


if __name__ == "__main__":
    main()
