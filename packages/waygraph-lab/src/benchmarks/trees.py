"""Trees of categories by vectors, and what a perfect model makes of them."""

import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from waygraph.registry.model.nouns import Of, Walked
from waygraph.registry.storage.local_registry import LocalRegistry
from waygraph.registry.taxonomy.category_names import EmbedNames
from waygraph.registry.taxonomy.prompts import Service
from waygraph.registry.taxonomy.tree import Category, Taxonomy
from waygraph.registry.taxonomy.vectors_build import build_by_vectors
from waygraph_lab.evaluation.asking import key_of
from waygraph_lab.evaluation.dataset import Asked, Dataset
from waygraph_lab.evaluation.estimate import perfect_walks
from waygraph_lab.evaluation.sets import COSTS, SET_METRICS, SetAnswer, judge_sets

type Vector = NDArray[np.float32]


@dataclass(frozen=True, kw_only=True)
class Grown:
    """A tree by vectors of what a registry holds."""

    name: str
    registry: LocalRegistry
    taxonomy: Taxonomy
    services: Sequence[Service]
    vectors: Mapping[str, Vector]
    seconds: float
    count: Callable[[str], int]
    embed: EmbedNames | None = None

    @cached_property
    def digest(self) -> str:
        """Of the services."""
        return key_of([list(service) for service in self.services])

    @cached_property
    def ids(self) -> frozenset[str]:
        return frozenset(service.id for service in self.services)

    def children(self, category: Category) -> list[Category]:
        return [self.taxonomy.categories[child] for child in category.children]

    def walk(self) -> Iterator[Category]:
        return iter(self.taxonomy.categories.values())


def grow(registry: LocalRegistry, name: str, of: Of, count: Callable[[str], int]) -> Grown:
    seen: list[tuple[Sequence[Service], Mapping[str, Vector]]] = []
    embed = registry.name_embedder()

    def builder(services: Sequence[Service], vectors: Mapping[str, Vector], before: Taxonomy | None) -> Taxonomy:
        seen.append((services, vectors))
        return build_by_vectors(services, vectors, before, embed=embed)

    started = time.perf_counter()
    taxonomy = registry.build_taxonomy(builder, of=of)
    seconds = time.perf_counter() - started
    services, vectors = seen[0]
    return Grown(
        name=name,
        registry=registry,
        taxonomy=taxonomy,
        services=services,
        vectors=vectors,
        seconds=seconds,
        count=count,
        embed=embed,
    )


def set_of(walked: Walked) -> SetAnswer:
    tokens = walked.prompt_tokens + walked.completion_tokens
    return SetAnswer(ids=walked.selected, calls=walked.calls, tokens=tokens)


def perfect_sets(tree: Grown, taxonomy: Taxonomy) -> Callable[[Asked], SetAnswer]:
    walk_to = perfect_walks(taxonomy, tree.services, tree.count)
    return lambda query: set_of(walk_to(query.texts[0], right_ids(query, tree)))


def right_ids(query: Asked, tree: Grown) -> list[str]:
    """Of each gold item one id, if it can be one that the tree holds."""
    return [min(item & tree.ids or item) for item in query.gold]


def set_row(folder: str, dataset: Dataset, method: str, answer: Callable[[Asked], SetAnswer]) -> dict[str, Any]:
    """What a method's answers to the questions come to. `folder`: the name of the dataset's."""
    asked = dataset.queries("questions")
    means = judge_sets(asked, answer)
    told = {metric: round(means[metric].value, 4) for metric in (*SET_METRICS, *COSTS)}
    return {"dataset": dataset.name, "folder": folder, "queries": len(asked), "method": method, **told}
