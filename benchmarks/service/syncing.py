"""Routes by a hundred clients while a thousand tools are written anew, and whether any answer mixes two revisions."""

import time
from collections import defaultdict
from collections.abc import Callable, Iterable, Sequence
from dataclasses import asdict, dataclass
from functools import partial
from statistics import median
from typing import Any

from benchmarks.catalogue import catalogue
from benchmarks.record import Measure, Target
from benchmarks.route_speed import percentile
from benchmarks.service.arena import Arena, Endpoint, Queries
from benchmarks.service.calls import Calls
from benchmarks.service.load import Tally
from benchmarks.service.speed import CROWD, NONE, WARM_UP_S

SHARE = Target(bound="at_least", value=0.7)
SEED = 7
REVISION, EDITION = r'"revision": ?(\d+)', r"Edition (\d+)\."
LONGEST_S = 240.0
"""A sync under load that takes longer has no load at its end, and fails the benchmark."""
STARTING_S = 1.0
"""Until the load generator has made its requests."""
AFTERWARDS_S = 2.0
"""So that each load sees the revision before the sync and the one after it."""
FEWER_A_SECOND = 400
"""Requests that are made for each second: the load may last minutes."""
WHILE = f"POST /v1/route, {CROWD} clients, while tools are synchronised"


def edition(tools: int, number: int) -> dict[str, Any]:
    """A catalogue of so many tools; every text of it says of which edition it is, and no vector of another serves."""
    document = catalogue(tools, seed=SEED)
    for agent in document["agents"]:
        agent["id"] = f"synced-{agent['id']}"
        agent["description"] = _marked(agent["description"], number)
        for tool in agent["tools"]:
            tool["description"] = _marked(tool["description"], number)
    return document


def _marked(text: str, number: int) -> str:
    return f"{text} Edition {number}."


@dataclass(frozen=True, slots=True, kw_only=True)
class Consistency:
    """`mixed`: answers of more than one edition; `torn`: revisions of which answers showed more than one edition."""

    answers: int
    marked: int
    revisions: int
    mixed: int
    torn: int

    @classmethod
    def of(cls, found: Iterable[Sequence[Sequence[str]]]) -> "Consistency":
        """`found`: of each answer the revisions and the editions that it tells."""
        seen = [(revisions[0], set(editions)) for revisions, editions in found]
        by_revision: dict[str, set[str]] = defaultdict(set)
        for revision, editions in seen:
            by_revision[revision] |= editions
        return cls(
            answers=len(seen),
            marked=sum(1 for _, editions in seen if editions),
            revisions=len(by_revision),
            mixed=sum(1 for _, editions in seen if len(editions) > 1),
            torn=sum(1 for editions in by_revision.values() if len(editions) > 1),
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class Round:
    """One sync under load, and the load before it and during it."""

    sync_s: float
    quiet_a_second: float
    during_a_second: float
    during_p99_ms: float
    tally: Tally


def measured(
    arena: Arena, queries: Queries, *, tools: int, rounds: int, quiet_s: float
) -> tuple[list[Measure], dict[str, Any]]:
    """`quiet_s`: how long the load goes on before each sync."""
    with arena.service() as endpoint:
        calls = Calls(endpoint.server.port, endpoint.headers)
        alone_s = _timed_sync(calls, tools, 0)
        done = [
            _round(endpoint, queries, quiet_s, partial(_timed_sync, calls, tools, number))
            for number in range(1, rounds + 1)
        ]
    consistency = Consistency.of(found for each in done for found in each.tally.found)
    details = {"sync_alone_s": round(alone_s, 2), "rounds": [_told(each) for each in done], **asdict(consistency)}
    return _measures(tools, alone_s, done, consistency), details


def _timed_sync(calls: Calls, tools: int, number: int) -> float:
    began = time.perf_counter()
    calls.synchronise("synced", edition(tools, number))
    return time.perf_counter() - began


def _round(endpoint: Endpoint, queries: Queries, quiet_s: float, sync: Callable[[], float]) -> Round:
    texts = queries.take(int((WARM_UP_S + quiet_s + LONGEST_S) * FEWER_A_SECOND))
    seconds = quiet_s + LONGEST_S
    loading = endpoint.begin(texts, clients=CROWD, warm_up_s=WARM_UP_S, seconds=seconds, patterns=(REVISION, EDITION))
    time.sleep(STARTING_S + WARM_UP_S + quiet_s)
    began = time.perf_counter()
    sync_s = sync()
    time.sleep(AFTERWARDS_S)
    loading.stop()
    return _rounded(loading.result().tally, began, sync_s)


def _rounded(tally: Tally, began: float, sync_s: float) -> Round:
    answers = list(zip(tally.ended_s, tally.latency_ms, strict=True))
    during = [latency for ended, latency in answers if began <= ended < began + sync_s]
    return Round(
        sync_s=sync_s,
        quiet_a_second=sum(1 for ended, _ in answers if ended < began) / (began - tally.began_s),
        during_a_second=len(during) / sync_s,
        during_p99_ms=percentile(during, 0.99),
        tally=tally,
    )


def _measures(tools: int, alone_s: float, done: Sequence[Round], consistency: Consistency) -> list[Measure]:
    kept = median(each.during_a_second / each.quiet_a_second for each in done)
    synced = f"sync of {tools} tools by POST /v1/manifests"
    return [
        Measure(name=WHILE, value=median(each.during_a_second for each in done), unit="requests/s"),
        Measure(name=f"{WHILE} / before", value=kept, unit="×", target=SHARE),
        Measure(name=f"{WHILE}, p99", value=median(each.during_p99_ms for each in done), unit="ms"),
        Measure(name=f"{WHILE}, errors", value=sum(each.tally.errors for each in done), target=NONE),
        Measure(
            name=f"answers of more than one revision, of {consistency.marked} that tell",
            value=consistency.mixed + consistency.torn,
            target=NONE,
        ),
        Measure(name=f"{synced}, alone", value=alone_s, unit="s"),
        Measure(name=f"{synced}, under that load", value=median(each.sync_s for each in done), unit="s"),
    ]


def _told(done: Round) -> dict[str, Any]:
    return {
        "sync_s": round(done.sync_s, 2),
        "before_requests_a_second": round(done.quiet_a_second, 1),
        "during_requests_a_second": round(done.during_a_second, 1),
        "during_p99_ms": round(done.during_p99_ms, 1),
        "errors": done.tally.errors,
    }
