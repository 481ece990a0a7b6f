"""Shares of the default recipe are chosen on matrices: their scores must be the router's."""

import os
from pathlib import Path

import pytest

from benchmarks.score_matrices import open_catalogue, score_queries
from benchmarks.world import EXAMPLES, World
from waygraph.ingest.sync.apply import sync
from waygraph.registry.model.settings import Settings
from waygraph.registry.registry import Registry


def test_matrices_score_every_agent_as_the_router_does() -> None:
    """For the first questions about the examples, of which none names an agent outright."""
    world = World(settings=Settings(), environ=os.environ, data=Path("nowhere"), cache=Path("nowhere"), quick=True)
    dataset = world.dataset(EXAMPLES)
    with open_catalogue(world, dataset) as catalogue:
        queries = score_queries(catalogue, dataset, "questions")
    with Registry.open(":memory:", settings=world.settings, environ=world.environ) as registry:
        sync(registry, dataset.catalogue)
        for text, row in zip(queries.texts, queries.fuse(), strict=True):
            scores = dict(zip(queries.agent_ids, map(float, row), strict=True))
            matches = registry.route(text).matches
            assert not any(vote.leg == "name" for match in matches for vote in match.votes)
            routed = {match.agent.id: match.score for match in matches}
            assert routed == pytest.approx({agent: scores[agent] for agent in routed}, abs=1e-4)
            assert max(scores, key=lambda agent: scores[agent]) == matches[0].agent.id
    right_first = queries.judge(queries.fuse(), ["Recall@1"])["Recall@1"]
    wrong_first = queries.judge(-queries.fuse(), ["Recall@1"])["Recall@1"]
    assert sum(right_first) > sum(wrong_first)
