"""The life of a worker process: one JSON request on stdin, one JSON answer on stdout, and nothing after it."""

import json
import resource
import sys
from collections.abc import Callable, Iterable
from typing import Any

from waygraph.registry.graph.cypher_answer import RowTooLarge, as_json
from waygraph.registry.graph.worker_limits import lower
from waygraph.registry.machine.parent import die_with

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
    for part in _answer(request, run, failure):
        sys.stdout.buffer.write(part)
    sys.stdout.buffer.flush()


def _answer(
    request: Request,
    run: Callable[[Request], list[bytes]],
    failure: Callable[[BaseException, Request], dict[str, str]],
) -> Iterable[bytes]:
    try:
        lower(resource.RLIMIT_CORE, 0)
        lower(resource.RLIMIT_FSIZE, 0)
        lower(resource.RLIMIT_CPU, request["cpu_s"])
        return run(request)
    except BaseException as exc:  # noqa: BLE001 - the parent must hear of it, and a panic of the engine is no Exception
        return [as_json(_shared_failure(exc) or failure(exc, request))]


def _shared_failure(exc: BaseException) -> dict[str, str] | None:
    return {"refused": str(exc)} if isinstance(exc, NotARead) else KNOWN_FAILURES.get(type(exc))
