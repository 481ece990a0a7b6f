"""All contenders over one catalogue: each in its process, asked in turn, block by block: noise hits all alike."""

import random
import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field
from itertools import batched
from pathlib import Path
from statistics import fmean
from typing import Any

from benchmarks.catalogue import SEED, requests
from benchmarks.peers.contenders import Contender
from benchmarks.peers.process import PeerFailed, PeerProcess
from benchmarks.timing import percentile
from waygraph_lab.evaluation.dataset import Asked
from waygraph_lab.evaluation.metrics import Metric, ndcg, recall

LIMIT = 5
BLOCK = 20
"""Texts that a peer is asked back to back before the next peer's turn."""
MOST_ROUNDS, LEAST_TEXTS = 3, 10
PROBES = 5


@dataclass(frozen=True, slots=True, kw_only=True)
class Effort:
    """How much is asked: a peer gets about `budget_s` for a catalogue, but every text once if it takes less than
    `whole_below_ms` for one."""

    budget_s: float
    whole_below_ms: float

    def plan(self, probe_ms: float, texts: int) -> tuple[int, int]:
        """(rounds, texts asked in each) for a peer that takes about `probe_ms` for a text."""
        can_ask = int(self.budget_s * 1000 / max(probe_ms, 0.001))
        if probe_ms < self.whole_below_ms or can_ask >= texts:
            return max(1, min(MOST_ROUNDS, can_ask // texts)), texts
        return 1, min(texts, max(LEAST_TEXTS, can_ask))


@dataclass(slots=True, kw_only=True)
class Account:
    """What a contender did over one catalogue. Keys of `agents` and `times_ms` are places in the list of texts.

    `failed` says why there is nothing, or no more.
    """

    contender: Contender
    told: Mapping[str, Any] = field(default_factory=dict)
    rounds: int = 0
    chosen: frozenset[int] = frozenset()
    agents: dict[int, list[str]] = field(default_factory=dict)
    times_ms: dict[int, list[float]] = field(default_factory=dict)
    memory: Mapping[str, float] = field(default_factory=dict)
    failed: str = ""

    def take(self, places: Sequence[int], said: Mapping[str, Any]) -> None:
        for place, agents, ms in zip(places, said["agents"], said["ms"], strict=True):
            self.agents.setdefault(place, agents)
            self.times_ms.setdefault(place, []).append(ms)
        self.memory = said["memory"]


def accounts(
    contenders: Sequence[Contender],
    catalogue: Path,
    asked: Sequence[Asked],
    effort: Effort,
    *,
    cache: Path,
    environ: Mapping[str, str],
) -> list[Account]:
    """One for each contender, in their order; a peer that fails leaves the reason and does not stop the others."""
    kept = [Account(contender=contender) for contender in contenders]
    texts = [query.texts[0] for query in asked]
    with ExitStack() as stack:
        running: dict[str, PeerProcess] = {}
        for account in kept:
            name = account.contender.name
            print(f"{catalogue.stem}: {name} takes the catalogue in", file=sys.stderr)
            try:
                running[name] = stack.enter_context(PeerProcess(name, catalogue, cache, environ))
                _prepare(account, running[name], texts, effort)
            except PeerFailed as failure:
                account.failed = failure.reason
        for account, places in _turns(kept, len(texts)):
            _ask(account, running[account.contender.name], places, texts)
    return kept


def _prepare(account: Account, process: PeerProcess, texts: Sequence[str], effort: Effort) -> None:
    account.told = process.told
    probe = sorted(process.ask(requests(PROBES), LIMIT)["ms"])[PROBES // 2]
    account.rounds, count = effort.plan(probe, len(texts))
    account.chosen = sample(len(texts), count)


def sample(texts: int, count: int) -> frozenset[int]:
    """The same places for the same numbers."""
    return frozenset(random.Random(SEED).sample(range(texts), count))  # noqa: S311 - not a secret


def _turns(kept: Sequence[Account], texts: int) -> Iterator[tuple[Account, list[int]]]:
    """Who is asked what: round by round, block by block, each time another contender first."""
    turn = 0
    for number in range(MOST_ROUNDS):
        for block in batched(range(texts), BLOCK):
            turn += 1
            for at in range(len(kept)):
                account = kept[(turn + at) % len(kept)]
                places = [place for place in block if place in account.chosen]
                if places and number < account.rounds and not account.failed:
                    yield account, places


def _ask(account: Account, process: PeerProcess, places: Sequence[int], texts: Sequence[str]) -> None:
    try:
        account.take(places, process.ask([texts[place] for place in places], LIMIT))
    except PeerFailed as failure:
        account.failed = failure.reason


# -- rows of figures ---------------------------------------------------------------------------------


def row(account: Account, asked: Sequence[Asked], reference: Account, tools: int) -> dict[str, Any]:
    """`reference` is whose p50 over the same texts the ratio divides by. Quality only where every text was asked."""
    named = {
        "name": account.contender.name,
        "package": account.contender.package,
        "version": account.contender.version,
        "settings": account.contender.settings,
        "tools": tools,
        "failed": account.failed,
    }
    if account.failed or not account.times_ms:
        return named
    return named | _quality(account, asked) | _times(account, reference) | _weight(account)


def _quality(account: Account, asked: Sequence[Asked]) -> dict[str, Any]:
    if len(account.agents) < len(asked):
        return {"R@1": None, "R@5": None, "nDCG@5": None, "fewer": None}

    def mean(metric: Metric, depth: int) -> float:
        return round(fmean(metric(account.agents[at], query.gold, depth) for at, query in enumerate(asked)), 4)

    return {
        "R@1": mean(recall, 1),
        "R@5": mean(recall, LIMIT),
        "nDCG@5": mean(ndcg, LIMIT),
        "fewer": sum(len(ranked) < LIMIT for ranked in account.agents.values()),
    }


def _times(account: Account, reference: Account) -> dict[str, Any]:
    times = _all_times(account.times_ms)
    compared = _all_times(
        {place: reference.times_ms[place] for place in account.times_ms if place in reference.times_ms}
    )
    return {
        "texts_asked": len(account.times_ms),
        "rounds": account.rounds,
        "p50_ms": round(percentile(times, 0.5), 3),
        "p95_ms": round(percentile(times, 0.95), 3),
        "p50_ratio": round(percentile(times, 0.5) / percentile(compared, 0.5), 3) if compared else None,
    }


def _weight(account: Account) -> dict[str, Any]:
    told = account.told
    return {
        "ingest_s": round(told["ingest_s"], 3),
        "vectors_s": round(told["vectors_s"], 3),
        "texts_embedded": told["texts"],
        "newly_embedded": told["newly_embedded"],
        "resident_mib": round(account.memory.get("VmRSS", 0.0), 1),
        "anonymous_mib": round(account.memory.get("RssAnon", 0.0), 1),
    }


def _all_times(times_ms: Mapping[int, Sequence[float]]) -> list[float]:
    return [ms for times in times_ms.values() for ms in times]
