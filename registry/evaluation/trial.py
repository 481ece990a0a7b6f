"""A way of routing, tried on a dataset's queries: what it ranked, how long it took, and the votes behind it."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from statistics import fmean, quantiles
from typing import TYPE_CHECKING

from waygraph.registry.errors import InvalidQuery, NotReranked
from waygraph.registry.evaluation.dataset import Asked, By
from waygraph.registry.evaluation.metrics import DEPTHS, Gold, measured
from waygraph.registry.evaluation.significance import interval
from waygraph.registry.model import Query, Route, TextForm, ToolRoute, Vote
from waygraph.registry.routing.recipes import Recipe

if TYPE_CHECKING:
    from waygraph.registry.registry import Registry

DEPTH = max(DEPTHS)
"""Agents, and tools, ranked for each query."""
THREADS = 2
"""More gain nothing: what takes time is the model, which threads itself over long texts."""
TIMED = 200
"""The last queries, whose vectors are at hand still, are asked once more, one after the other, for their time.

With a reranker they are not, as its model is paid for each: their first answers' times count, then made one by one.
"""

Progress = Callable[[int, int], None]
Routing = Callable[["Registry", Query, Recipe], Route]


def by_recipe(registry: "Registry", query: Query, recipe: Recipe) -> Route:
    """As the registry routes. Raises InvalidQuery, RecipeNeedsTexts."""
    return registry.route(query, recipe=recipe)


@dataclass(frozen=True, slots=True, kw_only=True)
class Trial:
    """A recipe with its weights, over one form of texts and one embedder, and how the dataset is asked.

    `routing`: what answers in place of the registry, for a method that no recipe can tell; it ranks agents alone.
    """

    recipe: Recipe
    texts: TextForm
    by: By = "questions"
    embedder: str = ""
    split: str = ""
    label: str = ""
    """How tables call it; empty: the recipe's name."""
    routing: Routing = by_recipe

    @property
    def name(self) -> str:
        return self.label or self.recipe.name


@dataclass(frozen=True, slots=True, kw_only=True)
class Judgement:
    """One query: ranked ids, best first, the votes for each agent, and every metric (`Recall@5`) at both levels.

    `tools` is empty where the dataset names no right tools, or the recipe ranks none. `elapsed_ms`: of the whole route.
    """

    id: str
    text: str
    gold: Gold
    agents: tuple[str, ...]
    tools: tuple[str, ...]
    votes: Mapping[str, tuple[Vote, ...]]
    agent_metrics: Mapping[str, float]
    tool_metrics: Mapping[str, float]
    elapsed_ms: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Mean:
    """Over judged queries, with its 95 % bootstrap interval."""

    value: float
    low: float
    high: float

    @classmethod
    def of(cls, values: Sequence[float]) -> "Mean":
        low, high = interval(values)
        return cls(value=fmean(values), low=low, high=high)


@dataclass(frozen=True, slots=True, kw_only=True)
class Outcome:
    """What a trial came to. Latencies are of whole routes in milliseconds, the query's vector at hand.

    With a reranker they are of the first answers, the query's vector yet to be made.
    """

    trial: Trial
    judgements: tuple[Judgement, ...]
    fingerprint: str
    revision: int
    p50_ms: float
    p95_ms: float

    @property
    def agents(self) -> Mapping[str, Mean]:
        return means([judgement.agent_metrics for judgement in self.judgements])

    @property
    def tools(self) -> Mapping[str, Mean]:
        """Over the queries that name right tools."""
        return means([judgement.tool_metrics for judgement in self.judgements if judgement.tool_metrics])


def means(measured_queries: Sequence[Mapping[str, float]]) -> dict[str, Mean]:
    """Each metric over all queries; empty without queries."""
    names = measured_queries[0] if measured_queries else ()
    return {name: Mean.of([metrics[name] for metrics in measured_queries]) for name in names}


def run(registry: "Registry", trial: Trial, asked: Sequence[Asked], progress: Progress | None = None) -> Outcome:
    """Asks every query once, judges the answers, and asks some once more for their time (see `TIMED`).

    Raises ValueError without a query, InvalidQuery, RecipeNeedsTexts, NotReranked if the recipe's reranker fails.
    """
    if not asked:
        raise ValueError("there is no query to judge")
    judgements = tuple(_judged(registry, trial, asked, progress))
    state = registry.status().state
    times = _times(registry, trial, asked, judgements)
    return Outcome(
        trial=trial,
        judgements=judgements,
        fingerprint=state.embedder,
        revision=state.revision,
        p50_ms=_quantile(times, 50),
        p95_ms=_quantile(times, 95),
    )


def _times(
    registry: "Registry", trial: Trial, asked: Sequence[Asked], judgements: Sequence[Judgement]
) -> Sequence[float]:
    """In milliseconds, of the last `TIMED` queries."""
    if trial.recipe.rerank:
        return [judgement.elapsed_ms for judgement in judgements[-TIMED:]]
    return [_route(registry, trial, query).elapsed_ms for query in asked[-TIMED:]]


def _judged(
    registry: "Registry", trial: Trial, asked: Sequence[Asked], progress: Progress | None
) -> Iterable[Judgement]:
    with ThreadPoolExecutor(1 if trial.recipe.rerank else THREADS) as threads:
        for done, judgement in enumerate(threads.map(lambda query: _judge(registry, trial, query), asked), start=1):
            yield judgement
            if progress:
                progress(done, len(asked))


def _judge(registry: "Registry", trial: Trial, asked: Asked) -> Judgement:
    try:
        route, tools = _route(registry, trial, asked), _tools(registry, trial, asked)
    except InvalidQuery as exc:
        raise InvalidQuery(f"query {asked.id!r} of the dataset: {exc}") from exc
    agents = tuple(match.agent.id for match in route.matches)[:DEPTH]
    return Judgement(
        id=asked.id,
        text=" / ".join(asked.texts),
        gold=asked.gold,
        agents=agents,
        tools=tools or (),
        votes={match.agent.id: match.votes for match in route.matches},
        agent_metrics=measured(agents, asked.gold),
        tool_metrics={} if tools is None else measured(tools, asked.gold_tools),
        elapsed_ms=route.elapsed_ms,
    )


def _route(registry: "Registry", trial: Trial, asked: Asked) -> Route:
    text, steps = (asked.texts[0], ()) if len(asked.texts) == 1 else ("", asked.texts)
    return _reranked(trial.routing(registry, Query(text=text, steps=steps, limit=DEPTH), trial.recipe), asked)


def _tools(registry: "Registry", trial: Trial, asked: Asked) -> tuple[str, ...] | None:
    """None where there is nothing to judge."""
    if not asked.gold_tools or not trial.recipe.ranks_tools or trial.routing is not by_recipe:
        return None
    if trial.by == "united":  # a query of several steps finds no tools, and the few of one step would stand for all
        return None
    found = registry.find_tools(Query(text=asked.texts[0], limit=DEPTH), recipe=trial.recipe)
    return tuple(match.tool.id for match in _reranked(found, asked).matches)


def _reranked[R: (Route, ToolRoute)](route: R, asked: Asked) -> R:
    """Raises NotReranked: the fused order must not pass for the reranker's."""
    if route.not_reranked:
        raise NotReranked(asked.id, route.recipe, route.not_reranked)
    return route


def _quantile(times: Sequence[float], percent: int) -> float:
    return quantiles(times, n=100, method="inclusive")[percent - 1] if len(times) > 1 else times[0]


def varied(
    recipe: Recipe,
    *,
    weights: tuple[float, float] | None = None,
    k: float | None = None,
    depth: int | None = None,
) -> Recipe:
    """The recipe with other weights (agent, tool), one k for all legs but names, or another depth.

    One that merges by score has no k, and withholds nothing when it is varied: it was calibrated as it was.
    Raises InvalidSetting for a k or depth that cannot be.
    """
    was = recipe
    if weights is not None:
        recipe = replace(recipe, agent_weight=weights[0], tool_weight=weights[1])
    if k is not None:
        recipe = replace(recipe, legs=tuple(use if use.leg == "name" else replace(use, k=k) for use in recipe.legs))
    if depth is not None:
        recipe = replace(recipe, depth=depth)
    changed = recipe != was and recipe.merge == "by_score"
    return replace(recipe, calibration=None) if changed else recipe
