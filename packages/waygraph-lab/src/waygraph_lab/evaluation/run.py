"""A way of routing, tried on a dataset's queries: what it ranked, how long it took, and the votes behind it."""

from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field, replace
from itertools import product
from statistics import quantiles
from typing import TYPE_CHECKING

from waygraph.registry.model.errors import InvalidQuery, InvalidSetting, LanguageModelError
from waygraph.registry.model.nouns import Filters, Of, Query, Route, TextForm, ToolRoute, Vote, Walked
from waygraph.registry.model.transitions import owner_of
from waygraph.registry.routing.recipes import TAXONOMY, Recipe
from waygraph.registry.writer import DEFAULT_TEXTS
from waygraph_lab.evaluation.asking import MOST_FAILURES, Failures, QueryFailed
from waygraph_lab.evaluation.dataset import Asked, Asker, By
from waygraph_lab.evaluation.metrics import DEPTHS, Gold, Mean, means, measure_query
from waygraph_lab.evaluation.sets import COSTS, measure_set

if TYPE_CHECKING:
    from waygraph.registry.catalog.searchable import Searchable
    from waygraph_lab.evaluation.answer_lines import TrialLines


DEPTH = max(DEPTHS)
"""Agents, and tools, ranked for each query."""
THREADS = 2
"""More gain nothing: what takes time is the model, which threads itself over long texts."""
TIMED = 200
"""The last queries, whose vectors are at hand still, are asked once more, one after the other, for their time.

With a reranker or a walk they are not, as its model is paid for each: their first answers' times count.
"""


class NotReranked(QueryFailed):
    """A stage of the recipe failed, so that the order is not the recipe's."""

    def __init__(self, query_id: str, recipe: str, reason: str) -> None:
        super().__init__(
            query_id, reason, told=f"a stage of {recipe!r} failed, so its order is not the recipe's: {reason}"
        )
        self.recipe = recipe


Progress = Callable[[int, int], None]
Routing = Callable[["Searchable", Query, Recipe], Route]


def by_recipe(registry: "Searchable", query: Query, recipe: Recipe) -> Route:
    """As the registry routes. Raises InvalidQuery, RecipeNeedsTexts."""
    return registry.route(query, recipe=recipe)


@dataclass(frozen=True, slots=True, kw_only=True)
class Trial:
    """A recipe with its weights, over one form of texts and one embedder, and how the dataset is asked.

    `routing`: what answers in place of the registry, for a method that no recipe can tell; it ranks agents alone.
    `asker`: what is known of the conversation before a query.
    """

    recipe: Recipe
    texts: TextForm
    by: By = "questions"
    embedder: str = ""
    split: str = ""
    label: str = ""
    """How tables call it; empty: the recipe's name."""
    routing: Routing = by_recipe
    asker: Asker = "service"

    @property
    def name(self) -> str:
        return self.label or self.recipe.name

    @property
    def is_paid(self) -> bool:
        """Whether each query asks a model beside the embedder."""
        return bool(self.recipe.rerank or self.recipe.walk or self.recipe.steps_by)


@dataclass(frozen=True, slots=True, kw_only=True)
class Answer:
    """What was ranked for one query: ids, best first, and the votes for each agent.

    `tools` is None where there are none to judge. `selected`: the ids that a walk returned, which cost `calls` of a
    model and `tokens`. `failure`: why the recipe's walk or reranker gave nothing; then nothing else is told.
    """

    agents: tuple[str, ...] = ()
    tools: tuple[str, ...] | None = None
    votes: Mapping[str, tuple[Vote, ...]] = field(default_factory=dict)
    elapsed_ms: float = 0.0
    selected: tuple[str, ...] | None = None
    calls: int = 0
    tokens: int = 0
    failure: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Judgement:
    """One query: ranked ids, best first, the votes for each agent, and every metric (`Recall@5`) at both levels.

    `tools` is empty where the dataset names no right tools, or the recipe ranks none. `elapsed_ms`: of the whole route.
    `set_metrics`: of the answer as a set, and what it cost; empty where there is none. `failure`: see `Answer`; such a
    query counts 0.
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
    set_metrics: Mapping[str, float] = field(default_factory=dict)
    failure: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Outcome:
    """What a trial came to. Latencies are of whole routes in milliseconds, the query's vector at hand.

    With a reranker or a walk they are of the first answers, the query's vector yet to be made.
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

    @property
    def sets(self) -> Mapping[str, Mean]:
        """Over the queries whose answer is a set."""
        return means([judgement.set_metrics for judgement in self.judgements if judgement.set_metrics])

    @property
    def failures(self) -> Mapping[str, int]:
        """Why queries failed, and how many."""
        return Counter(judgement.failure for judgement in self.judgements if judgement.failure)

    def refuse_failures(self) -> "Outcome":
        """Itself. Raises NotReranked if a query failed: its figures are no record then."""
        for judgement in self.judgements:
            if judgement.failure:
                raise NotReranked(judgement.id, self.trial.recipe.name, judgement.failure)
        return self


@dataclass(frozen=True, slots=True, kw_only=True)
class Terms:
    """How a trial is run. `at_once`: queries under way where a model is paid for each. `lines`: what was answered
    before is read there, and what is answered written.

    Answers are judged as sets too: what a walk selected, and of other recipes the first `set_size`; 0: not. `set_of`:
    what the sets hold.
    """

    at_once: int = 1
    set_of: Of = Of.AGENTS
    set_size: int = 0
    lines: "TrialLines | None" = None


def run(
    registry: "Searchable",
    trial: Trial,
    asked: Sequence[Asked],
    progress: Progress | None = None,
    terms: Terms = Terms(),
) -> Outcome:
    """Asks every query once, judges the answers, and asks some once more for their time (see `TIMED`).

    Raises ValueError without a query, InvalidQuery, RecipeNeedsTexts, NotReranked if the recipe's reranker or its walk
    fails for every query, or for `MOST_FAILURES` in a row.
    """
    if not asked:
        raise ValueError("there is no query to judge")
    judgements = tuple(_judge_all(registry, trial, asked, progress, terms))
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
    if trial.is_paid:
        return [judgement.elapsed_ms for judgement in judgements if not judgement.failure][-TIMED:]
    return [_route(registry, trial, query).elapsed_ms for query in asked[-TIMED:]]


def _judge_all(
    registry: "Searchable", trial: Trial, asked: Sequence[Asked], progress: Progress | None, terms: Terms
) -> Iterator[Judgement]:
    """Raises NotReranked as `run`."""
    failures = Failures()

    def refuse(most: int) -> None:
        if last := failures.last_of(most):
            query_id, reason = last
            raise NotReranked(query_id, trial.recipe.name, reason)

    def judge_next(query: Asked) -> Judgement:
        refuse(MOST_FAILURES)
        judgement = _judge_once(registry, trial, query, terms)
        failures.add(judgement.id, judgement.failure)
        refuse(MOST_FAILURES)
        return judgement

    with ThreadPoolExecutor(terms.at_once if trial.is_paid else THREADS) as threads:
        for done, judgement in enumerate(threads.map(judge_next, asked), start=1):
            yield judgement
            if progress:
                progress(done, len(asked))
    refuse(len(asked))


def _judge_once(registry: "Searchable", trial: Trial, asked: Asked, terms: Terms) -> Judgement:
    """By the line of a former answer, if there is one."""
    former = terms.lines.find(asked) if terms.lines else None
    answer = former or _answer(registry, trial, asked)
    judgement = judge(asked, answer, terms)
    if terms.lines and not former:
        terms.lines.add(asked, answer, judgement)
    return judgement


def _answer(registry: "Searchable", trial: Trial, asked: Asked) -> Answer:
    """Raises InvalidQuery."""
    has_tools = _judges_tools(trial, asked)
    try:
        route = _route(registry, trial, asked)
        tools = _tools(registry, trial, asked, route.walked) if has_tools else None
    except InvalidQuery as exc:
        raise InvalidQuery(f"query {asked.id!r} of the dataset: {exc}") from exc
    except (NotReranked, LanguageModelError) as error:
        failure = error.reason if isinstance(error, NotReranked) else f"no steps: {error}"
        return Answer(tools=() if has_tools else None, selected=() if trial.recipe.walk else None, failure=failure)
    walked = route.walked or Walked(mode="")
    return Answer(
        agents=tuple(match.agent.id for match in route.matches)[:DEPTH],
        tools=tools,
        votes={match.agent.id: match.votes for match in route.matches},
        elapsed_ms=route.elapsed_ms,
        selected=walked.selected if route.walked else None,
        calls=walked.calls,
        tokens=walked.prompt_tokens + walked.completion_tokens,
    )


def judge(asked: Asked, answer: Answer, terms: Terms) -> Judgement:
    """A query that failed has an empty answer."""
    return Judgement(
        id=asked.id,
        text=" / ".join(asked.texts),
        gold=asked.gold,
        agents=answer.agents,
        tools=answer.tools or (),
        votes=answer.votes,
        agent_metrics=measure_query(answer.agents, asked.gold),
        tool_metrics={} if answer.tools is None else measure_query(answer.tools, asked.gold_tools),
        elapsed_ms=answer.elapsed_ms,
        set_metrics=_judge_set(asked, answer, terms),
        failure=answer.failure,
    )


def _judge_set(asked: Asked, answer: Answer, terms: Terms) -> dict[str, float]:
    """Empty where the answer is no set, or nothing says what is right in it."""
    ranked, gold = (answer.agents, asked.gold) if terms.set_of is Of.AGENTS else (answer.tools or (), asked.gold_tools)
    ids = ranked[: terms.set_size] if answer.selected is None and terms.set_size else answer.selected
    if ids is None or not gold:
        return {}
    return measure_set(ids, gold) | dict(zip(COSTS, map(float, (answer.calls, answer.tokens)), strict=True))


def _route(registry: "Searchable", trial: Trial, asked: Asked) -> Route:
    """Raises NotReranked."""
    text, steps = (asked.texts[0], ()) if len(asked.texts) == 1 else ("", asked.texts)
    query = Query(text=text, steps=steps, limit=DEPTH, history=asked.history)
    return require_stages(trial.routing(registry, query, trial.recipe), asked.id)


def _judges_tools(trial: Trial, asked: Asked) -> bool:
    """A query of several steps finds no tools, and the few of one step would stand for all."""
    can_rank = trial.recipe.ranks_tools and trial.routing is by_recipe and trial.by != "united"
    return bool(asked.gold_tools) and can_rank


def _tools(registry: "Searchable", trial: Trial, asked: Asked, walked: Walked | None) -> tuple[str, ...]:
    """Ranked among what was selected, as a second walk would do. Raises NotReranked."""
    recipe = replace(trial.recipe, walk=None) if walked else trial.recipe
    query = Query(text=asked.texts[0], limit=DEPTH, history=asked.history)
    if walked and walked.selected:
        members = frozenset([*walked.selected, *map(owner_of, walked.selected)])
        found = registry.find_tools(replace(query, filters=Filters(members=members)), recipe=recipe)
        if found.matches:
            return _tool_ids(found, asked)
    return _tool_ids(registry.find_tools(query, recipe=recipe), asked)


def _tool_ids(found: ToolRoute, asked: Asked) -> tuple[str, ...]:
    return tuple(match.tool.id for match in require_stages(found, asked.id).matches)


def require_stages[R: (Route, ToolRoute)](route: R, name: str) -> R:
    """The answer to the query of this name, if the stages of its recipe were made.

    Raises NotReranked: the fused order must not pass for the reranker's, or all for what a walk selected.
    """
    if reason := route.notice("not_reranked") or route.notice("not_split"):
        raise NotReranked(name, route.recipe, reason)
    if route.walked and route.walked.failure:
        raise NotReranked(name, TAXONOMY.name, f"no walk: {route.walked.failure}")
    return route


def _quantile(times: Sequence[float], percent: int) -> float:
    """Of one time or more."""
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
