"""A dataset's queries as matrices: every cosine and BM25 score of every agent and tool, on which ideas are tried.

The router reads a leg's best hundred. Here all are at hand, so that an idea is a few lines and needs no place in the
product until it wins.
"""

from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from benchmarks.world import World
from waygraph.ingest.sync.apply import sync
from waygraph.registry.embedding.embedder import Embedder, Role
from waygraph.registry.embedding.entities import TextForms, new_vectors
from waygraph.registry.embedding.factory import OpenedEmbedders
from waygraph.registry.embedding.texts import query_text
from waygraph.registry.evaluation.dataset import By, Dataset
from waygraph.registry.evaluation.metrics import Gold
from waygraph.registry.index.search_index import Leg, Scope, SearchIndex
from waygraph.registry.model.changes import AgentEntry
from waygraph.registry.model.nouns import TextForm
from waygraph.registry.model.settings import DEFAULT_EMBEDDER, Settings
from waygraph.registry.registry import Registry

Matrix = NDArray[np.float32]
ALL = 1_000_000
"""Deeper than any catalogue here."""


@dataclass(frozen=True, kw_only=True)
class Catalogue:
    """Agents, and capabilities: the tools of each, or itself if it has none. `index` searches their words alone.

    `agents` is (agents, dim), `capabilities` (capabilities, dim), of unit rows; `owners` has a row of `agents` for
    each capability, and `entries` are in the order of `agents`.
    """

    entries: tuple[AgentEntry, ...]
    capability_ids: tuple[str, ...]
    agents: Matrix
    capabilities: Matrix
    owners: NDArray[np.intp]
    index: SearchIndex
    queries: Embedder
    documents: Embedder
    """The same, which keeps vectors on disk."""

    @cached_property
    def agent_ids(self) -> tuple[str, ...]:
        return tuple(entry.agent.id for entry in self.entries)

    def embed(self, texts: Sequence[str], role: Role = "query") -> Matrix:
        return (self.queries if role == "query" else self.documents).embed(texts, role)

    def words(self, leg: Leg, texts: Sequence[str]) -> Matrix:
        """BM25 of every text and entity of the leg, (texts, entities); 0 where no word is shared."""
        names = self.agent_ids if leg == "agent_text" else self.capability_ids
        column = {name: at for at, name in enumerate(names)}
        scores = np.zeros((len(texts), len(names)), dtype=np.float32)
        for row, text in enumerate(texts):
            hits = self.index.search((leg,), None, text, ALL, Scope()).legs[leg]
            scores[row, [column[name] for name in hits.entity_ids]] = hits.scores
        return scores

    def coverage(self, leg: Leg, texts: Sequence[str]) -> Matrix:
        """How much of each text the leg's best hit holds, in [0, 1]; (texts, 1)."""
        found = [self.index.search((leg,), None, text, 1, Scope()).coverage for text in texts]
        return np.array(found, dtype=np.float32)[:, None]

    def best_of_owner(self, scores: Matrix) -> Matrix:
        """(queries, capabilities) → (queries, agents): the best of each agent's capabilities, which it always has."""
        best = np.full((len(scores), len(self.entries)), -np.inf, dtype=np.float32)
        for row, values in zip(best, scores, strict=True):
            np.maximum.at(row, self.owners, values)
        return best


@dataclass(frozen=True, kw_only=True)
class Case:
    """Queries over a catalogue: as written, and as read. `vectors` is (queries, dim), scores are (queries, agents) or
    (queries, capabilities)."""

    catalogue: Catalogue
    raw: tuple[str, ...]
    texts: tuple[str, ...]
    golds: tuple[Gold, ...]
    vectors: Matrix
    agent_words: Matrix
    capability_words: Matrix

    @cached_property
    def agent_cosines(self) -> Matrix:
        return self.vectors @ self.catalogue.agents.T

    @cached_property
    def capability_cosines(self) -> Matrix:
        return self.vectors @ self.catalogue.capabilities.T

    def asking(self, told: Callable[[str], str], *, words: bool = True) -> "Case":
        """The same queries in other words; what is left empty stays. Without `words` only their vectors change."""
        return self.reading([told(text).strip() or text for text in self.texts], words=words)

    def reading(self, texts: Sequence[str], *, words: bool = True) -> "Case":
        rows = [row for row, text in enumerate(texts) if text != self.texts[row]]
        if not rows:
            return self
        changed = [texts[row] for row in rows]
        case = replace(self, vectors=_with_rows(self.vectors, rows, self.catalogue.embed(changed)))
        if not words:
            return case
        return replace(
            case,
            texts=tuple(texts),
            agent_words=_with_rows(self.agent_words, rows, self.catalogue.words("agent_text", changed)),
            capability_words=_with_rows(self.capability_words, rows, self.catalogue.words("capability_text", changed)),
        )


@contextmanager
def opened(world: World, dataset: Dataset) -> Iterator[Catalogue]:
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
    vectors = vectors_of(entries, "contextual", documents)
    capabilities = list(capabilities_of(entries))
    with Registry.open(":memory:", embedder="none", settings=world.settings, environ=world.environ) as registry:
        sync(registry, dataset.catalogue)
        yield Catalogue(
            entries=entries,
            capability_ids=tuple(name for name, _ in capabilities),
            agents=np.stack([vectors[entry.agent.id] for entry in entries]),
            capabilities=np.stack([vectors[name] for name, _ in capabilities]),
            owners=np.array([owner for _, owner in capabilities], dtype=np.intp),
            index=registry.store.index(fresh=True),
            queries=queries,
            documents=documents,
        )


def vectors_of(entries: Iterable[AgentEntry], form: TextForm, documents: Embedder) -> dict[str, Matrix]:
    """Id of each agent and tool → its vector."""
    texts = TextForms(form=form, max_chars=Settings().max_embedded_chars).of_entries(entries)
    return {name: vector for name, vector in new_vectors(texts, {}, documents).vectors.items() if vector is not None}


def capabilities_of(entries: Sequence[AgentEntry]) -> Iterator[tuple[str, int]]:
    """Id and row of the owner."""
    for row, entry in enumerate(entries):
        yield from [(tool.id, row) for tool in entry.tools] or [(entry.agent.id, row)]


def case_of(catalogue: Catalogue, dataset: Dataset, by: By) -> Case:
    asked = dataset.asked(by)
    return case_asking(catalogue, [query.texts[0] for query in asked], [query.gold for query in asked])


def case_asking(catalogue: Catalogue, raw: Sequence[str], golds: Sequence[Gold]) -> Case:
    """Read as `hybrid` reads them."""
    texts = tuple(query_text(text) for text in raw)
    return Case(
        catalogue=catalogue,
        raw=tuple(raw),
        texts=texts,
        golds=tuple(golds),
        vectors=catalogue.embed(texts),
        agent_words=catalogue.words("agent_text", texts),
        capability_words=catalogue.words("capability_text", texts),
    )


def _with_rows(matrix: Matrix, rows: Sequence[int], changed: Matrix) -> Matrix:
    copy = matrix.copy()
    copy[rows] = changed
    return copy
