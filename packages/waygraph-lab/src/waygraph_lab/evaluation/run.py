"""A way of routing, tried on a dataset's queries: what it ranked, how long it took, and the votes behind it."""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from itertools import product
from statistics import fmean, quantiles
from typing import TYPE_CHECKING

from waygraph.registry.model.errors import InvalidQuery, InvalidSetting, NotReranked
from waygraph.registry.model.nouns import Query, Route, TextForm, ToolRoute, Vote
from waygraph.registry.routing.recipes import TAXONOMY, Recipe
from waygraph.registry.writer import DEFAULT_TEXTS
from waygraph_lab.evaluation.dataset import Asked, By
from waygraph_lab.evaluation.metrics import DEPTHS, Gold, interval, measure_query

if TYPE_CHECKING:
    from waygraph.registry.catalog.searchable import Searchable


DEPTH = max(DEPTHS)
"""Agents, and tools, ranked for each query."""
THREADS = 2
"""More gain nothing: what takes time is the model, which threads itself over long texts."""
TIMED = 200
"""The last queries, whose vectors are at hand still, are asked once more, one after the other, for their time.

With a reranker they are not, as its model is paid for each: their first answers' times count, then made one by one.
"""

Progress = Callable[[int, int], None]
Routing = Callable[["Searchable", Query, Recipe], Route]


def by_recipe(registry: "Searchable", query: Query, recipe: Recipe) -> Route:
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


def run(registry: "Searchable", trial: Trial, asked: Sequence[Asked], progress: Progress | None = None) -> Outcome:
    """Asks every query once, judges the answers, and asks some once more for their time (see `TIMED`).

    Raises ValueError without a query, InvalidQuery, RecipeNeedsTexts, NotReranked if the recipe's reranker or its walk
    fails.
    """
    if not asked:
        raise ValueError("there is no query to judge")
    judgements = tuple(_judge_all(registry, trial, asked, progress))
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
    registry: "Searchable", trial: Trial, asked: Sequence[Asked], judgements: Sequence[Judgement]
) -> Sequence[float]:
    """In milliseconds, of the last `TIMED` queries."""
    if trial.recipe.rerank or trial.recipe.walk:
        return [judgement.elapsed_ms for judgement in judgements[-TIMED:]]
    return [_route(registry, trial, query).elapsed_ms for query in asked[-TIMED:]]


def _judge_all(
    registry: "Searchable", trial: Trial, asked: Sequence[Asked], progress: Progress | None
) -> Iterable[Judgement]:
    with ThreadPoolExecutor(1 if trial.recipe.rerank or trial.recipe.walk else THREADS) as threads:
        for done, judgement in enumerate(threads.map(lambda query: _judge(registry, trial, query), asked), start=1):
            yield judgement
            if progress:
                progress(done, len(asked))


def _judge(registry: "Searchable", trial: Trial, asked: Asked) -> Judgement:
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
        agent_metrics=measure_query(agents, asked.gold),
        tool_metrics={} if tools is None else measure_query(tools, asked.gold_tools),
        elapsed_ms=route.elapsed_ms,
    )


def _route(registry: "Searchable", trial: Trial, asked: Asked) -> Route:
    text, steps = (asked.texts[0], ()) if len(asked.texts) == 1 else ("", asked.texts)
    query = Query(text=text, steps=steps, limit=DEPTH, history=asked.history)
    return _require_reranked(trial.routing(registry, query, trial.recipe), asked)


def _tools(registry: "Searchable", trial: Trial, asked: Asked) -> tuple[str, ...] | None:
    """None where there is nothing to judge."""
    if not asked.gold_tools or not trial.recipe.ranks_tools or trial.routing is not by_recipe:
        return None
    if trial.by == "united":  # a query of several steps finds no tools, and the few of one step would stand for all
        return None
    query = Query(text=asked.texts[0], limit=DEPTH, history=asked.history)
    found = registry.find_tools(query, recipe=trial.recipe)
    return tuple(match.tool.id for match in _require_reranked(found, asked).matches)


def _require_reranked[R: (Route, ToolRoute)](route: R, asked: Asked) -> R:
    """Raises NotReranked: the fused order must not pass for the reranker's, or all for what a walk selected."""
    if route.not_reranked:
        raise NotReranked(asked.id, route.recipe, route.not_reranked)
    if route.walked and route.walked.failure:
        raise NotReranked(asked.id, TAXONOMY.name, f"no walk: {route.walked.failure}")
    return route


def _quantile(times: Sequence[float], percent: int) -> float:
    return quantiles(times, n=100, method="inclusive")[percent - 1] if len(times) > 1 else times[0]


def vary_recipe(
    recipe: Recipe,
    *,
    weights: tuple[float, float] | None = None,
    k: float | None = None,
    depth: int | None = None,
) -> Recipe:
    """The recipe with other weights (agent, tool), one k for all legs but names, or another depth.

    One that merges by score has no k, and no confidence when it is varied: it was calibrated as it was.
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
    return replace(recipe, calibrations=()) if changed else recipe


@dataclass(frozen=True, slots=True, kw_only=True)
class Grid:
    """What to vary. `None` among the values: as the recipe has it. Weights are (agent, tool)."""

    recipes: Sequence[Recipe]
    bys: Sequence[By] = ("questions",)
    weights: Sequence[tuple[float, float] | None] = (None,)
    ks: Sequence[float | None] = (None,)
    depths: Sequence[int | None] = (None,)
    texts: Sequence[TextForm | None] = (None,)
    embedders: Sequence[str] = ("",)
    split: str = ""

    def trials(self) -> tuple[Trial, ...]:
        """In the order of the values; a recipe that is made for other texts than those asked for is left out, and one
        that merges by score is not tried by k, which it has not.

        Raises InvalidSetting if none is left, or for a k or depth that cannot be.
        """
        trials = tuple(self._trials())
        for recipe, texts in () if trials else self.unfit:
            raise InvalidSetting(f"{recipe.name} is not tried over {texts} texts: it is made for {recipe.texts} ones")
        return trials

    @property
    def unfit(self) -> Sequence[tuple[Recipe, TextForm]]:
        """Which recipes are left out over which texts."""
        return [(r, texts) for r in self.recipes for texts in self.texts if texts and not r.takes(texts)]

    @property
    def without_k(self) -> Sequence[Recipe]:
        """Those that `ks` cannot vary."""
        return [recipe for recipe in self.recipes if recipe.merge == "by_score" and any(k is not None for k in self.ks)]

    def _trials(self) -> Iterator[Trial]:
        for recipe in self.recipes:
            ks = (None,) if recipe in self.without_k else self.ks
            texts_taken = [texts for texts in self.texts if texts is None or recipe.takes(texts)]
            combined = product(self.bys, self.embedders, texts_taken, self.weights, ks, self.depths)
            for by, embedder, texts, weights, k, depth in combined:
                yield Trial(
                    recipe=vary_recipe(recipe, weights=weights, k=k, depth=depth),
                    by=by,
                    texts=texts or recipe.texts or DEFAULT_TEXTS,
                    embedder=embedder,
                    split=self.split,
                    label=_label(recipe.name, weights, k, depth, self._trial_name(recipe, texts, embedder)),
                )

    def _trial_name(self, recipe: Recipe, texts: TextForm | None, embedder: str) -> list[str]:
        """What tells a trial from others that share the rest."""
        told = [texts] if texts and len(self.texts) > 1 and recipe.needs_vectors else []
        return [*told, *([embedder] if len(self.embedders) > 1 and embedder else [])]


def _label(
    name: str, weights: tuple[float, float] | None, k: float | None, depth: int | None, others: Sequence[str]
) -> str:
    """Such as `paper (1.5, 1) k=60 N=50`."""
    parts = [name]
    parts += [f"({weights[0]:g}, {weights[1]:g})"] if weights else []
    parts += [f"k={k:g}"] if k is not None else []
    parts += [f"N={depth}"] if depth is not None else []
    return " ".join([*parts, *others])
