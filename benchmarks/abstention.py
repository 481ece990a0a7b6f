"""Whether the router says "nothing fits" when nothing does: leave-one-out over requests with a known answer.

Each request is asked twice: of the whole catalogue, and with its right agents filtered out of the search.
"""

from collections.abc import Iterator, Mapping, Sequence
from contextlib import closing, contextmanager
from dataclasses import dataclass, replace
from math import floor, inf
from pathlib import Path
from typing import Any

from benchmarks.record import Measure, Result
from benchmarks.world import EXAMPLES, World
from waygraph.registry.embedding.factory import open_embedder
from waygraph.registry.embedding.query_cache import QueryCache
from waygraph.registry.embedding.query_text import query_text
from waygraph.registry.evaluation.dataset import Asked, By
from waygraph.registry.evaluation.metrics import recall
from waygraph.registry.evaluation.tables import markdown_table
from waygraph.registry.index.generation import folder_of
from waygraph.registry.index.local import LocalIndex
from waygraph.registry.index.search_index import Hits, Scope
from waygraph.registry.model import Filters, Query
from waygraph.registry.registry import Registry
from waygraph.registry.routing.recipes import RECIPES, Recipe
from waygraph.registry.routing.router import Ask, Router

NAME = "abstention"
DATA: Mapping[str, By] = {EXAMPLES: "questions", "livemcpbench": "steps"}
"""Data set and how it is asked."""
DEPTH = 5
RECIPE_NAMES = ("hybrid", "lexical")
SIGNALS = ("fit", "similarity", "coverage")
LOST_SHARE = 0.01
NOTES = (
    "Leave-one-out: `present` asks of the whole catalogue, `absent` filters the right agents out of the search. Word "
    "statistics (BM25) still count the filtered agents' texts.",
    "A right answer is a present request with a right agent among the first 5, withheld or not. `threshold` is the "
    "highest score below which at most 1 % of the right answers lie; `abstained` is the share of absent requests "
    "below it. `own_threshold` is the recipe's (of `fit`); own_abstained and own_lost are what the router does by it.",
    "The recipes' own thresholds were set on the examples, so the figures on the examples flatter them.",
    "A request that names an entity outright is never withheld and scores as infinity.",
    "LiveMCPBench figures are reported and never used for choosing a threshold.",
)


@dataclass(frozen=True, slots=True)
class Probe:
    """One search: its signals (infinite if an entity was named), whether the router withheld its answer, and
    whether that answer is right."""

    fit: float
    similarity: float
    coverage: float
    withheld: bool
    right: bool


@dataclass(frozen=True, slots=True)
class Prober:
    """Searches as the router does, and keeps the scores by which it decides."""

    router: Router
    recipe: Recipe

    def probe(self, need: Asked, filters: Filters) -> Probe:
        (asked,) = need.texts
        text = query_text(asked, literals=self.recipe.literals)
        vector = self.router.embed(text) if self.router.embed and self.recipe.needs_vectors else None
        hits = self.router.index.search(self.recipe.leg_names, vector, text, self.recipe.depth, Scope(filters))
        query = Query(text=asked, limit=DEPTH, filters=filters)
        withheld = not self._agents(query, self.recipe)
        right = recall(self._agents(query, without_threshold(self.recipe)), need.gold, DEPTH) > 0
        return Probe(*signals(hits, self.recipe), withheld=withheld, right=right)

    def _agents(self, query: Query, recipe: Recipe) -> list[str]:
        return [match.agent.id for match in self.router.route(query, Ask.of(recipe, None, None, None)).matches]


def without_threshold(recipe: Recipe) -> Recipe:
    return replace(recipe, least_fit=None)


def run(world: World) -> Result:
    rows = [row for name, by in DATA.items() if world.has(name) for row in _rows(world, name, by)]
    return Result(
        name=NAME,
        embedder=world.embedder().fingerprint,
        measures=_measures(rows),
        notes=(*NOTES, *(f"{name} was skipped: no data." for name in DATA if not world.has(name))),
        details={"rows": rows},
    )


def signals(hits: Hits, recipe: Recipe) -> tuple[float, float, float]:
    """Fit, similarity, coverage; infinite if an entity is named outright, since such an answer is never withheld."""
    named = hits.legs.get("name")
    if named and named.entity_ids:
        return inf, inf, inf
    return recipe.fit(hits.similarity, hits.coverage), hits.similarity, hits.coverage


def _rows(world: World, data: str, by: By) -> list[dict[str, Any]]:
    rows = []
    dataset = world.dataset(data)
    needs = dataset.asked(by)
    with (
        world.registry_of([dataset.catalogue], texts="contextual") as registry,
        open_router(world, registry) as router,
    ):
        agents = list(router.index.agents())
        for name in RECIPE_NAMES:
            prober = Prober(router, RECIPES[name])
            present = [prober.probe(need, Filters()) for need in needs]
            absent = [prober.probe(need, Filters(agent_ids=others(agents, need))) for need in needs]
            rows += [row_of(data, prober.recipe, signal, present, absent) for signal in _signals_of(prober.recipe)]
    return rows


@contextmanager
def open_router(world: World, registry: Registry) -> Iterator[Router]:
    """A router over what the registry published, whose parts can be asked one by one."""
    embedder = open_embedder(registry.status().state.embedder_spec, world.settings, world.environ)
    assert embedder is not None
    queries = QueryCache(embedder, world.settings.query_cache_entries)
    with closing(LocalIndex.open(folder_of(Path(registry.status().location)))) as index:
        yield Router(index=index, embed=lambda text: queries.embed((text,), "query")[0])


def others(agents: Sequence[str], need: Asked) -> tuple[str, ...]:
    right = frozenset().union(*need.gold)
    return tuple(agent for agent in agents if agent not in right)


def _signals_of(recipe: Recipe) -> tuple[str, ...]:
    return SIGNALS if recipe.needs_vectors else ("fit",)


def row_of(data: str, recipe: Recipe, signal: str, present: Sequence[Probe], absent: Sequence[Probe]) -> dict[str, Any]:
    """AUROC of one signal, the threshold that it allows, and what the recipe's own rule does."""
    scores = [getattr(probe, signal) for probe in present]
    missing = [getattr(probe, signal) for probe in absent]
    right = [score for score, probe in zip(scores, present, strict=True) if probe.right]
    threshold = threshold_losing(right, LOST_SHARE)
    return {
        "data": data,
        "recipe": recipe.name,
        "signal": signal,
        "queries": len(present),
        "auroc": round(auroc(scores, missing), 4),
        "threshold": round(threshold, 4),
        "abstained": round(share_below(missing, threshold), 4),
        "lost": round(share_below(right, threshold), 4),
        "own_threshold": recipe.least_fit,
        "own_abstained": round(sum(probe.withheld for probe in absent) / len(absent), 4),
        "own_lost": round(sum(p.withheld for p in present if p.right) / len(right), 4),
    }


def _measures(rows: Sequence[dict[str, Any]]) -> list[Measure]:
    return [
        Measure(name=f"abstention on {row['data']}, {row['recipe']} by {row['signal']}: {what}", value=row[key])
        for row in rows
        for what, key in (("AUROC", "auroc"), ("abstained at ≤ 1 % lost", "abstained"))
    ]


def tables_of(details: Mapping[str, Any]) -> str:
    rows = details["rows"]
    return f"Abstention, leave-one-out:\n\n{markdown_table(tuple(rows[0]), [tuple(row.values()) for row in rows])}"


def auroc(present: Sequence[float], absent: Sequence[float]) -> float:
    """The chance that an answerable query scores above an unanswerable one; a tie is half. In [0, 1]."""
    above = sum((p > a) + 0.5 * (p == a) for p in present for a in absent)
    return above / (len(present) * len(absent))


def threshold_losing(right: Sequence[float], share: float) -> float:
    """The highest score t such that at most `share` of the right answers score below t."""
    return sorted(right)[floor(share * len(right))]


def share_below(scores: Sequence[float], threshold: float) -> float:
    return sum(score < threshold for score in scores) / len(scores)
