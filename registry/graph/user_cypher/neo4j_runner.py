"""Runs a statement typed by a stranger on a Neo4j server, and says how it ended.

What stands between the stranger and the graph, each line as if the others were not there:
- the words of the statement: `allow_list`, in Neo4j's dialect;
- the server's own plan, which must read and nothing else;
- a transaction of read access, which the server ends when its time is up;
- a worker process, in which the answer is received and which ends at the deadline, whatever it was sent: the driver
  takes in a row whole, however large it is.

What a server spends on a statement is the server's to limit. It stops a statement where it reads or passes on a row;
inside an expression (`reduce` over a long list) it does not. Such a statement fails here in time, and goes on there.
So no other one is sent while it does: what a stranger can keep busy is one thread, not all of them.
"""

import json
import os
import subprocess
from collections.abc import Mapping, Sequence
from dataclasses import asdict, replace
from pathlib import Path
from typing import TYPE_CHECKING

from waygraph.registry.graph.user_cypher.allow_list import NEO4J, Token, check_read_only, tokens_of
from waygraph.registry.graph.user_cypher.sandbox import (
    CypherPlaces,
    ask_worker,
    checked_params,
    limits,
    result_of,
    start_worker,
    worker_environment,
)
from waygraph.registry.model.changes import CypherResult
from waygraph.registry.model.errors import CypherLimit, CypherRefused, ServerRefused, ServerUnavailable
from waygraph.registry.model.settings import Settings

if TYPE_CHECKING:
    from waygraph.registry.graph.neo4j import Neo4jEngine

WORKER = Path(__file__).with_name("neo4j_worker.py")
LARGEST_LITERAL_IN_RANGE = 1_000_000
CERTIFICATES = ("SSL_CERT_FILE", "SSL_CERT_DIR")
"""Where OpenSSL is told of the system's certificates, if anywhere."""


def run_read_only(
    engine: "Neo4jEngine", statement: str, params: Mapping[str, object], settings: Settings, places: CypherPlaces
) -> CypherResult:
    """The rows of `statement` over the server's graph, which stays as it is. Embeddings are told as `<384 floats>`.

    Raises CypherRefused if it is not a plain read, CypherFailed with the server's reason, CypherLimit if time or
    memory ran out, CypherBusy; none of them tells the server's address. ServerUnavailable, ServerRefused as every call.
    """
    check_read_only(statement, dialect=NEO4J)
    check_ranges(list(tokens_of(statement)))
    answer = ask_worker(_start, _request(engine, statement, params, settings), settings, places)
    match answer:
        case {"unavailable": str(reason)}:
            raise ServerUnavailable(engine.place, reason)
        case {"no entry": str(reason)}:
            raise ServerRefused(engine.place, reason)
        case {"limit": "server memory"}:
            raise CypherLimit(
                "the statement was ended: the server has not enough memory for it beside what else it does. "
                "Ask for less, or try again later."
            )
        case {"limit": "unstopped"}:
            raise CypherLimit(
                "an earlier statement was ended and is still at work on the server, which cannot stop it in the middle "
                "of an expression. Try again later; if it stays, restart the server."
            )
    return result_of(answer, settings)


def check_ranges(tokens: Sequence[Token]) -> None:
    """Refuses a list that is plainly too long to go through: only as rows, behind UNWIND, can Neo4j be stopped."""
    for at, token in enumerate(tokens):
        is_unwound = at > 0 and tokens[at - 1].keyword == "UNWIND"
        if token.name == "range" and not is_unwound and any(map(_is_large, _arguments(tokens[at + 1 :]))):
            raise CypherRefused(
                f"a range beyond {LARGEST_LITERAL_IN_RANGE:,} is only allowed behind UNWIND: "
                "Neo4j cannot be stopped while it goes through such a list"
            )


def _arguments(tokens: Sequence[Token]) -> Sequence[Token]:
    """What stands between the parenthesis that comes first and the next one that closes."""
    if not (tokens and tokens[0].is_mark("(")):
        return ()
    return tokens[1 : next((at for at, token in enumerate(tokens) if token.is_mark(")")), None)]


def _is_large(token: Token) -> bool:
    if token.kind != "number":
        return False
    is_decimal = token.text[:2].lower() not in ("0x", "0o")
    return (float(token.text) if is_decimal else int(token.text, 0)) > LARGEST_LITERAL_IN_RANGE


def _request(engine: "Neo4jEngine", statement: str, params: Mapping[str, object], settings: Settings) -> bytes:
    ca_file = settings.neo4j_ca_file and str(Path(settings.neo4j_ca_file).resolve())
    request = {
        "location": asdict(engine.location),
        "settings": asdict(replace(settings, neo4j_ca_file=ca_file)),
        "bookmarks": engine.bookmarks(),
        "statement": statement,
        "params": checked_params(params),
    } | limits(settings)
    return json.dumps(request).encode()


def _start() -> subprocess.Popen[bytes]:
    certificates = {name: os.environ[name] for name in CERTIFICATES if name in os.environ}
    return start_worker(WORKER, worker_environment() | certificates)
