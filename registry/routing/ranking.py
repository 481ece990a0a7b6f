"""How a recipe ranks what one search found: legs → candidates → columns → sums. Pure."""

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property, partial
from typing import Self

import numpy as np

from waygraph.registry.index.analyser import query_terms
from waygraph.registry.index.call_facts import CallFacts
from waygraph.registry.index.search_index import Hits
from waygraph.registry.routing import votes
from waygraph.registry.routing.history import Past, Worths
from waygraph.registry.routing.recipes import Recipe

Lean = Callable[[], float]
"""How far the request leans from `OTHERS` to `REMOVALS`, as a cosine."""


@dataclass(kw_only=True)
class Ranking:
    """One search, by a recipe. `past`: what the turns before give. `fit`: what the request by itself gives to single
    tools, and to agents for theirs.
    """

    recipe: Recipe
    hits: Hits
    candidates: votes.Candidates
    legs: list[votes.Leg]
    past: Past[votes.Column]
    fit: Sequence[votes.Column | None] = ()

    def __post_init__(self) -> None:
        agents = self.hits.populations["agent"]
        self._columns = [votes.leg_column(self.recipe, leg, self.candidates, agents) for leg in self.legs]
        past = self.past
        columns = [*self._columns, past.use, past.finish, past.together, *self.fit]
        self._matrix = votes.Matrix.of(self.candidates, columns)

    @classmethod
    def of(cls, recipe: Recipe, weights: votes.Weights, hits: Hits, past: Past[Worths]) -> Self:
        """Return the ranking of what was found, with what the turns before name beside it."""
        names = [use.leg for use in recipe.legs if use.leg in hits.legs]
        rows = [hits.records.rows([*each.by_id, *each.speakers]) for each in past if each]
        candidates, lists = votes.Candidates.of(hits.records, [hits.legs[name].rows for name in names] + rows)
        at = iter(lists[len(names) :])
        columns = [_past_column(each, next(at)) if each else None for each in past]
        legs = votes.legs_of(recipe, weights, hits.legs, lists[: len(names)])
        return cls(recipe=recipe, hits=hits, candidates=candidates, legs=legs, past=Past(*columns))

    def as_calibrated(self, recipe: Recipe) -> Self:
        """Return it by the recipe's own weights, without the turns before: so its confidence was calibrated."""
        legs = votes.legs_of(recipe, recipe.weights, self.hits.legs, [leg.at for leg in self.legs])
        return replace(self, recipe=recipe, legs=legs, past=Past())

    def add_fit(self, text: str, lean: Lean) -> None:
        """Add what the text gives for the calls of the best tools, and what siblings add where scores are summed."""
        scores = votes.score_tools(self._matrix)
        best = (-scores.values).argsort(kind="stable")[:READ]
        best = best[scores.values[best] > -np.inf]
        facts = self.hits.records.call_facts(self.candidates.rows[best])
        fit = [judge_calls(text, best, facts, scores.best, lean) if facts else None]
        if self.recipe.merge == "by_score":
            fit.append(votes.count_siblings(self._columns, self.candidates))
        self.fit, self._matrix = fit, self._matrix.plus(*fit)

    @property
    def _silent(self) -> votes.Places:
        """The tools that were called for the request under way: they do not speak for their agents again."""
        finish = self.past.finish
        return finish.at[finish.scores > 0] if finish else np.empty(0, np.int64)

    @property
    def tools_by_text(self) -> votes.Scores:
        """Score the tools without what usually follows the last call, or comes instead of one that failed."""
        return votes.score_tools(self._matrix)

    @cached_property
    def tools(self) -> votes.Scores:
        """Score the tools that were found."""
        return _with_calls(self._matrix, self.past.tool_follows, self.past.tool_failures, votes.score_tools)

    @cached_property
    def agents(self) -> votes.Scores:
        """Score the agents that were found. Where scores are summed, an agent is as good as its best tool."""
        past, silent = self.past, self._silent
        score = partial(votes.score_agents, silent=silent)
        if self.recipe.merge == "one_list":
            return score(votes.Matrix.of(self.candidates, votes.list_columns(self.legs, self.candidates)))
        if self.recipe.merge == "by_score":
            matrix = self._matrix
            if past.finish:  # it tells of single tools alone
                matrix = votes.Matrix.of(self.candidates, [*self._columns, past.use, *self.fit])
        else:
            ranks = [votes.rank_column(leg, self.candidates, silent) for leg in self.legs]
            matrix = votes.Matrix.of(self.candidates, [*ranks, past.use])
        return _with_calls(matrix, past.agent_follows, past.agent_failures, score)


def _past_column(worths: Worths, at: votes.Places) -> votes.Column:
    """Return what the turns before give. `at`: positions of who gets it, and behind them of who speaks for each."""
    column = votes.column_of(worths.source, at[: len(worths.by_id)], worths.scores, worths.weight)
    return column._replace(speakers=at[len(worths.by_id) :]) if worths.speakers else column


def _with_calls(
    matrix: votes.Matrix,
    follows: votes.Column | None,
    failures: votes.Column | None,
    score: Callable[[votes.Matrix], votes.Scores],
) -> votes.Scores:
    """Score with what usually follows the last call, then with what comes instead of one that failed."""
    scores = score(matrix)
    if follows:
        scores = score(scores.matrix.plus(votes.share_of_sum(follows, scores)))
    if failures and (rivals := votes.lift_rivals(failures, scores)):
        scores = score(scores.matrix.plus(rivals))
    return scores


SOURCE = "call"
READ = 30
"""The best so many tools are judged."""
ARGUMENT_SHARE, MOST_ARGUMENTS = 0.05, 3
"""Against a tool, for each required argument of which the request gives no value; for so many at most."""
NAME_SHARE = 0.1
"""For a tool whose whole name the request says, in half of its telling words or more."""
REMOVAL_SHARE = 0.25
"""Against a destructive tool where the request asks for nothing of the kind."""
LEAN = 0.02
"""A request asks to end or remove something if its vector leans so far, as a cosine, from `OTHERS` to `REMOVALS`."""

REMOVALS = (
    *("Cancel it.", "Delete this.", "Remove it.", "Take it away.", "Call it off.", "Stop it.", "End it.", "Close it."),
    *("Get rid of it.", "Withdraw it.", "Throw it away.", "Undo it.", "It must go.", "We won't come."),
    *("I do not want it any more.", "It is no longer needed."),
)
OTHERS = (
    *("Make a new one.", "Add this.", "Show it to me.", "What is it?", "Book one.", "Set it up.", "I need one."),
    *("Send it.", "Find some.", "Which ones are there?", "Start it.", "Change it to another.", "Save it."),
    *("Put it there.", "List them.", "Let me have it."),
)
_DAY = r"(to|yester)day|to(night|morrow)|(mon|tues|wednes|thurs|fri|satur|sun)day|week(end)?|month|year"
_MONTH = r"january|february|march|april|may|june|july|august|september|october|november|december"
_NUMBER = "one|two|three|four|five|six|seven|eight|nine|ten|dozen|half|couple"
_VALUES: Mapping[str, re.Pattern[str]] = {
    "id": re.compile(r"\d"),
    "date": re.compile(
        rf"\d{{4}}-\d\d|\d(st|nd|rd|th)\b|\d:\d|\b\d{{1,2}} ?[ap]m\b|\b({_DAY}|{_MONTH})\b", re.IGNORECASE
    ),
    "url": re.compile(r"://|www\.|\w\.(com|org|net|io)\b", re.IGNORECASE),
    "email": re.compile("@"),
    "number": re.compile(rf"\d|\b({_NUMBER})\b", re.IGNORECASE),
}
"""How a value of each kind looks in a request."""


def judge_calls(
    text: str, at: votes.Places, facts: Sequence[CallFacts], best: float, lean: Lean
) -> votes.Column | None:
    """Return a share of the `best` score for each tool, or against it; None where nothing speaks for or against any.

    `at`: positions of the tools that are judged, int64 of shape (tools,). `facts`: of each.
    """
    request = frozenset(query_terms(text))
    values = frozenset([kind for kind, pattern in _VALUES.items() if pattern.search(text)])
    shares = np.zeros(len(facts))
    for number, (name, kinds, choices, removing) in enumerate(facts):
        if name <= request and len(name) > 1 and 2 * len(name) >= len(request):  # one word is said by chance too
            shares[number] = NAME_SHARE
        missing = [kind for kind in kinds if kind not in values]
        missing += ["choice" for terms in choices if True not in [each <= request for each in terms]]
        if missing:
            shares[number] -= ARGUMENT_SHARE * min(len(missing), MOST_ARGUMENTS)
        if removing and removing.isdisjoint(request) and lean() < LEAN:
            shares[number] -= REMOVAL_SHARE
    some = shares.nonzero()[0]
    return votes.column_of(SOURCE, at[some], shares[some], best, may_bring=False) if len(some) else None
