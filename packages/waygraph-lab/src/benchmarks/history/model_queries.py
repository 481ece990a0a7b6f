"""Queries that a model wrote for a router in the middle of its work, with and without the calls before."""

import json
from collections.abc import Mapping
from typing import Any

from benchmarks.history.answers import find
from benchmarks.history.steps import ALONE, LIVE
from benchmarks.world import World
from waygraph.registry.model.nouns import Turn

QUERIES = "model_queries"
CALLS = "calls alone"
DEPTHS = (1, 3, 5, 10)


def measure_model_queries(world: World) -> list[dict[str, Any]]:
    """A row without and one with the calls; none without the data."""
    file = world.data / QUERIES / "queries.jsonl"
    if not file.is_file():
        return []
    queries = [query for line in file.read_text().splitlines() if (query := json.loads(line))["before"]]
    with world.registry_of([world.dataset(LIVE).catalogue], texts="contextual") as registry:
        rows: list[dict[str, Any]] = []
        for name in (ALONE, CALLS):
            found = [
                list(find(registry, query["tool"] or query["query"], calls_of(query) if name == CALLS else ())["tools"])
                for query in queries
            ]
            shares = {
                f"tool {'first' if depth == 1 else f'in {depth}'}": _share_right(found, queries, depth)
                for depth in DEPTHS
            }
            rows.append({"history": name, "queries": len(queries), **shares})
    return rows


def calls_of(query: Mapping[str, Any]) -> tuple[Turn, ...]:
    return tuple(
        Turn(role="call", tool=call["tool"], outcome="failed" if call["outcome"] == "failed" else "ok")
        for call in query["before"]
    )


def _share_right(found: list[list[str]], queries: list[Any], depth: int) -> float:
    hits = sum(bool({*ids[:depth]} & {*query["right"]}) for ids, query in zip(found, queries, strict=True))
    return round(hits / len(queries), 4)
