"""The process that sends one statement typed by a stranger to a Neo4j server, tells the answer, and then ends.

`neo4j_runner` starts this file by its path (`python -I neo4j_worker.py PARENT_PID`). One JSON request, with
what the server wants to know of us, comes in on stdin; one JSON answer, without it, goes out on stdout.
"""

import re
import time
from contextlib import closing
from urllib.parse import urlsplit

from waygraph.cypher import load
from waygraph.registry.graph.neo4j import Neo4jEngine, Plan
from waygraph.registry.graph.neo4j_address import ServerLocation
from waygraph.registry.graph.neo4j_errors import root_message
from waygraph.registry.graph.user_cypher.allow_list import NEO4J
from waygraph.registry.graph.user_cypher.worker import NotARead, Request, encode_answer, limit_memory, work
from waygraph.registry.model.errors import RegistryError, ServerRefused, ServerUnavailable
from waygraph.registry.model.process import forbid_inspection
from waygraph.registry.model.settings import Settings

_NEO4J_TYPED_UNSTOPPED = load("neo4j/typed/unstopped")

MARK = {"waygraph": "typed"}
"""By which the server's list of transactions tells a typed statement."""
ENDING_S = 2.0
"""What an ended statement may take to be gone."""

NO_READS = re.compile("LoadCSV|Transaction|Show|Terminate|Command")
"""Operators that read, in the server's eyes, and do not read the graph."""

POSITION = re.compile(r" *\(line (\d+), column (\d+) \(offset: \d+\)\)")
LONGEST_REASON_CHARS = 300


class StillRunning(Exception):
    pass


KNOWN_CODES: dict[str, dict[str, str]] = {
    "TransactionTimedOut": {"limit": "time"},
    "Transaction.Terminated": {"limit": "time"},
    "OutOfMemoryError": {"limit": "server memory"},
    "StackOverFlowError": {"limit": "server memory"},
    "Statement.AccessMode": {"refused": "it would write, and only reading is allowed"},
}
"""Part of the server's code → what it means."""


def main() -> None:
    forbid_inspection()  # the request holds a password
    work(_run, _failure)


def _run(request: Request) -> list[bytes]:
    settings = Settings(**request["settings"])
    with closing(Neo4jEngine.open(ServerLocation(**request["location"]), settings, request["bookmarks"])) as engine:
        _refuse_beside_unstopped(engine)
        limit_memory(request["memory_mib"])
        statement, params = request["statement"], request["params"]
        with engine.begin_typed(settings.cypher_timeout_s, MARK) as transaction:
            check_plan(transaction.plan(statement, params))
            start = time.perf_counter()
            columns, rows = transaction.run(statement, params)
            return encode_answer(columns, rows, request, start)


def _refuse_beside_unstopped(engine: Neo4jEngine) -> None:
    """Raises StillRunning while a typed statement runs on though it was ended."""
    give_up = time.monotonic() + ENDING_S
    while engine.run(_NEO4J_TYPED_UNSTOPPED, mark=MARK["waygraph"])[0]["statements"]:
        if time.monotonic() > give_up:
            raise StillRunning
        time.sleep(ENDING_S / 10)


def check_plan(plan: Plan) -> None:
    """Raises NotARead for a plan that does more than read the graph."""
    if plan.kind != "r":
        raise NotARead("its plan does more than read")
    for operator, details in plan.operators:
        procedure = tuple(details.partition("(")[0].lower().split("."))
        if NO_READS.search(operator) or (operator == "ProcedureCall" and procedure not in NEO4J.procedures):
            raise NotARead(f"its plan does more than read: {operator}")


def _failure(exc: BaseException, request: Request) -> dict[str, str]:
    if isinstance(exc, StillRunning):
        return {"limit": "unstopped"}
    cause = exc.__cause__ if isinstance(exc, RegistryError) else None
    code = str(getattr(cause, "code", ""))
    meaning_of_code = next((meaning for part, meaning in KNOWN_CODES.items() if part in code), None)
    if meaning_of_code:
        return meaning_of_code
    if isinstance(exc, ServerUnavailable):
        return {"unavailable": exc.reason}
    if isinstance(exc, ServerRefused):
        return {"no entry": exc.reason}
    netloc = urlsplit(request["location"]["address"]).netloc
    return {"failed": _in_one_line(root_message(cause or exc)).replace(netloc, "the server")}


def _in_one_line(message: str) -> str:
    """`Invalid input 'X': expected … (line 2, column 4 (offset: 12))` without the offset, and not too long."""
    first = (message.splitlines() or ["no reason given"])[0]
    where = POSITION.search(first)
    reason = POSITION.sub("", first)
    if len(reason) > LONGEST_REASON_CHARS:
        reason = reason[:LONGEST_REASON_CHARS] + " …"
    # The line of EXPLAIN is before it.
    return reason + (f" (line {int(where[1]) - 1}, column {where[2]})" if where else "")


if __name__ == "__main__":
    main()
