"""How a recipe ranks what one search found: legs → candidates → columns → sums. Pure."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import cached_property, partial
from typing import Self

import numpy as np

from waygraph.registry.index.search_index import Hits
from waygraph.registry.routing.call_fit import READ, Lean, judge_calls
from waygraph.registry.routing.history import Past, Worths
from waygraph.registry.routing.recipes import Recipe
from waygraph.registry.routing.votes import (
    Candidates,
    Column,
    Leg,
    Matrix,
    Places,
    Scores,
    Weights,
    column_of,
    count_siblings,
    leg_column,
    legs_of,
    lift_rivals,
    list_columns,
    rank_column,
    score_agents,
    score_tools,
    share_of_sum,
)


@dataclass(kw_only=True)
class Ranking:
    """One search, by a recipe. `past`: what the turns before give. `fit`: what the request by itself gives to single
    tools, and to agents for theirs.
    """

    recipe: Recipe
    hits: Hits
    candidates: Candidates
    legs: list[Leg]
    past: Past[Column]
    fit: Sequence[Column | None] = ()

    def __post_init__(self) -> None:
        agents = self.hits.populations["agent"]
        self._columns = [leg_column(self.recipe, leg, self.candidates, agents) for leg in self.legs]
        self._matrix = Matrix.of(self.candidates, [*self._columns, self.past.use, self.past.finish, *self.fit])

    @classmethod
    def of(cls, recipe: Recipe, weights: Weights, hits: Hits, past: Past[Worths]) -> Self:
        """Return the ranking of what was found, with what the turns before name beside it."""
        names = [use.leg for use in recipe.legs if use.leg in hits.legs]
        rows = [hits.records.rows(list(each.by_id)) for each in past if each]
        candidates, lists = Candidates.of(hits.records, [hits.legs[name].rows for name in names] + rows)
        at = iter(lists[len(names) :])
        columns = [column_of(each.source, next(at), each.scores, each.weight) if each else None for each in past]
        legs = legs_of(recipe, weights, hits.legs, lists[: len(names)])
        return cls(recipe=recipe, hits=hits, candidates=candidates, legs=legs, past=Past(*columns))

    def as_calibrated(self, recipe: Recipe) -> Self:
        """Return it by the recipe's own weights, without the turns before: so its confidence was calibrated."""
        legs = legs_of(recipe, recipe.weights, self.hits.legs, [leg.at for leg in self.legs])
        return replace(self, recipe=recipe, legs=legs, past=Past())

    def add_fit(self, text: str, lean: Lean) -> None:
        """Add what the text gives for the calls of the best tools, and what siblings add where scores are summed."""
        scores = score_tools(self._matrix)
        best = (-scores.values).argsort(kind="stable")[:READ]
        best = best[scores.values[best] > -np.inf]
        facts = self.hits.records.call_facts(self.candidates.rows[best])
        fit = [judge_calls(text, best, facts, scores.best, lean) if facts else None]
        if self.recipe.merge == "by_score":
            fit.append(count_siblings(self._columns, self.candidates))
        self.fit, self._matrix = fit, self._matrix.plus(*fit)

    @property
    def _silent(self) -> Places:
        """The tools that were called for the request under way: they do not speak for their agents again."""
        finish = self.past.finish
        return finish.at[finish.scores > 0] if finish else np.empty(0, np.int64)

    @cached_property
    def tools(self) -> Scores:
        """Score the tools that were found."""
        return _with_calls(self._matrix, self.past.tool_follows, self.past.tool_failures, score_tools)

    @cached_property
    def agents(self) -> Scores:
        """Score the agents that were found. Where scores are summed, an agent is as good as its best tool."""
        past, silent = self.past, self._silent
        score = partial(score_agents, silent=silent)
        if self.recipe.merge == "one_list":
            return score(Matrix.of(self.candidates, list_columns(self.legs, self.candidates)))
        if self.recipe.merge == "by_score":
            matrix = self._matrix
            if past.finish:  # it tells of single tools alone
                matrix = Matrix.of(self.candidates, [*self._columns, past.use, *self.fit])
        else:
            ranks = [rank_column(leg, self.candidates, silent) for leg in self.legs]
            matrix = Matrix.of(self.candidates, [*ranks, past.use])
        return _with_calls(matrix, past.agent_follows, past.agent_failures, score)


def _with_calls(
    matrix: Matrix, follows: Column | None, failures: Column | None, score: Callable[[Matrix], Scores]
) -> Scores:
    """Score with what usually follows the last call, then with what comes instead of one that failed."""
    scores = score(matrix)
    if follows:
        scores = score(scores.matrix.plus(share_of_sum(follows, scores)))
    if failures and (rivals := lift_rivals(failures, scores)):
        scores = score(scores.matrix.plus(rivals))
    return scores
