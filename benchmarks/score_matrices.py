"""A dataset's queries as matrices: what every leg of `hybrid` gives every agent, on which shares are tried.

The router reads a leg's best hundred, and is asked again for each choice of shares; here all scores are at hand. The
rules are those of `waygraph.registry.routing.fusion`; names are left out.
"""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from benchmarks.world import World
from waygraph.ingest.sync.apply import sync
from waygraph.registry.embedding.embedder import Embedder
from waygraph.registry.embedding.entities import TextForms, new_vectors
from waygraph.registry.embedding.factory import OpenedEmbedders
from waygraph.registry.embedding.texts import query_text
from waygraph.registry.evaluation.dataset import By, Dataset
from waygraph.registry.evaluation.metrics import DEPTHS, Gold, measured
from waygraph.registry.index.search_index import Leg, Scope, SearchIndex
from waygraph.registry.model.changes import AgentEntry
from waygraph.registry.model.settings import DEFAULT_EMBEDDER, Settings
from waygraph.registry.registry import Registry
from waygraph.registry.routing.fusion import DEVIATIONS
from waygraph.registry.routing.recipes import HYBRID

Matrix = NDArray[np.float32]
ALL = 1_000_000
"""Deeper than any catalogue here."""
LEGS: tuple[Leg, ...] = ("capability_vector", "agent_vector", "capability_text", "agent_text")
SHARES = tuple({use.leg: use.share for use in HYBRID.legs}[leg] for leg in LEGS)


@dataclass(frozen=True, kw_only=True)
class Catalogue:
    """Agents, and capabilities: the tools of each, or itself if it has none. `index` searches their words alone.

    `agents` is (agents, dim), `capabilities` (capabilities, dim), of unit rows; `owners` has a row of `agents` for
    each capability.
    """

    agent_ids: tuple[str, ...]
    capability_ids: tuple[str, ...]
    agents: Matrix
    capabilities: Matrix
    owners: NDArray[np.intp]
    index: SearchIndex
    queries: Embedder

    def word_scores(self, leg: Leg, texts: Sequence[str]) -> Matrix:
        """BM25 of every text and entity of the leg, (texts, entities); 0 where no word is shared."""
        names = self.agent_ids if leg == "agent_text" else self.capability_ids
        column = {name: at for at, name in enumerate(names)}
        scores = np.zeros((len(texts), len(names)), dtype=np.float32)
        for row, text in enumerate(texts):
            hits = self.index.search((leg,), None, text, ALL, Scope()).legs[leg]
            scores[row, [column[name] for name in hits.entity_ids]] = hits.scores
        return scores

    def best_of_owner(self, scores: Matrix) -> Matrix:
        """(queries, capabilities) → (queries, agents): the best of each agent's capabilities, which it always has."""
        best = np.full((len(scores), len(self.agent_ids)), -np.inf, dtype=np.float32)
        for row, values in zip(best, scores, strict=True):
            np.maximum.at(row, self.owners, values)
        return best


@dataclass(frozen=True, kw_only=True)
class Queries:
    """A dataset's queries over its catalogue. `scores` is (legs, queries, agents), in the order of `LEGS`."""

    agent_ids: tuple[str, ...]
    texts: tuple[str, ...]
    golds: tuple[Gold, ...]
    scores: Matrix

    def fuse(self, shares: Sequence[float] = SHARES) -> Matrix:
        """(queries, agents): the score that `hybrid` with these shares gives every agent."""
        fused: Matrix = np.tensordot(np.asarray(shares, dtype=np.float32), self.scores, axes=1)
        return fused

    def judge(self, scores: Matrix, metrics: Sequence[str]) -> dict[str, list[float]]:
        """Each metric of each query. Equal scores stand in the order of ids."""
        ids = np.array(self.agent_ids)
        by_id = np.argsort(ids)
        order = np.argsort(-scores[:, by_id], axis=1, kind="stable")[:, : max(DEPTHS)]
        each = [measured(ids[by_id][row].tolist(), gold) for row, gold in zip(order, self.golds, strict=True)]
        return {metric: [query[metric] for query in each] for metric in metrics}


@contextmanager
def open_catalogue(world: World, dataset: Dataset) -> Iterator[Catalogue]:
    """The dataset's catalogue with contextual texts, by the default embedder."""
    # Tools as the registry keeps them: an agent's text names them in that order.
    entries = tuple(
        replace(entry, tools=tuple(sorted(entry.tools, key=lambda tool: tool.id)))
        for entry in dataset.catalogue.entries
    )
    embedders = OpenedEmbedders(world.settings, world.environ)
    documents = embedders.open_for_documents(DEFAULT_EMBEDDER).embedder
    queries = embedders.open(DEFAULT_EMBEDDER).embedder
    assert documents is not None
    assert queries is not None
    texts = TextForms(form="contextual", max_chars=Settings().max_embedded_chars).of_entries(entries)
    vectors = new_vectors(texts, {}, documents).vectors
    capabilities = list(_capabilities(entries))
    with Registry.open(":memory:", embedder="none", settings=world.settings, environ=world.environ) as registry:
        sync(registry, dataset.catalogue)
        yield Catalogue(
            agent_ids=tuple(entry.agent.id for entry in entries),
            capability_ids=tuple(name for name, _ in capabilities),
            agents=_stack([vectors[entry.agent.id] for entry in entries]),
            capabilities=_stack([vectors[name] for name, _ in capabilities]),
            owners=np.array([owner for _, owner in capabilities], dtype=np.intp),
            index=registry.store.index(fresh=True),
            queries=queries,
        )


def score_queries(catalogue: Catalogue, dataset: Dataset, by: By) -> Queries:
    """Read as `hybrid` reads them."""
    queries = dataset.asked(by)
    raw = tuple(query.texts[0] for query in queries)
    texts = [query_text(text) for text in raw]
    vectors = catalogue.queries.embed(texts, "query")
    best = catalogue.best_of_owner
    scores = (
        best(_above_the_last(vectors @ catalogue.capabilities.T)),
        _above_the_last(vectors @ catalogue.agents.T),
        _in_deviations(best(_among_the_best(catalogue.word_scores("capability_text", texts)))),
        _in_deviations(_among_the_best(catalogue.word_scores("agent_text", texts))),
    )
    return Queries(
        agent_ids=catalogue.agent_ids,
        texts=raw,
        golds=tuple(query.gold for query in queries),
        scores=np.stack(scores),
    )


def _capabilities(entries: Sequence[AgentEntry]) -> Iterator[tuple[str, int]]:
    """Id and row of the owner."""
    for row, entry in enumerate(entries):
        yield from [(tool.id, row) for tool in entry.tools] or [(entry.agent.id, row)]


def _stack(rows: Sequence[Matrix | None]) -> Matrix:
    return np.stack([row for row in rows if row is not None])


def _above_the_last(scores: Matrix) -> Matrix:
    """By how much they are above the last candidate's, where more are there than are read; 0 below it."""
    floor = _last_read(scores) if scores.shape[1] > HYBRID.depth else 0.0
    return np.maximum(scores - np.maximum(floor, 0.0), 0.0).astype(np.float32)


def _in_deviations(scores: Matrix) -> Matrix:
    """In standard deviations over all agents: ten are 1, which is the most."""
    scale = np.maximum(DEVIATIONS * scores.std(axis=1, keepdims=True), scores.max(axis=1, keepdims=True))
    in_deviations: Matrix = (scores / np.maximum(scale, 1e-9)).astype(np.float32)
    return in_deviations


def _among_the_best(scores: Matrix) -> Matrix:
    """0 for what is behind the candidates that are read."""
    if scores.shape[1] <= HYBRID.depth:
        return scores
    return np.where(scores >= _last_read(scores), scores, 0).astype(np.float32)


def _last_read(scores: Matrix) -> Matrix:
    """The score of the last candidate, (queries, 1)."""
    last: Matrix = np.partition(scores, -HYBRID.depth, axis=1)[:, -HYBRID.depth][:, None]
    return last
