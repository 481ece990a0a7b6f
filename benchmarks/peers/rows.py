"""From what a contender did to a row of figures. Pure."""

from collections.abc import Mapping, Sequence
from statistics import fmean
from typing import Any

from benchmarks.peers.measure import LIMIT, Account
from benchmarks.route_speed import percentile
from waygraph.registry.evaluation.dataset import Asked
from waygraph.registry.evaluation.metrics import Metric, ndcg, recall


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
