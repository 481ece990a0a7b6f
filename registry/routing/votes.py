"""What speaks for the candidates of one search, as one matrix: a row a candidate, a column a source. Pure.

Each source is a `Column`: a leg, siblings, the fit of the call, what was called before. All recipes sum the matrix, and
differ in how a leg becomes a column. Ranks: Nizar et al., "Agent-as-a-Graph", Equation 3 and Algorithm 1. Scores: a
convex combination of the legs (Bruch et al., "An Analysis of Fusion Functions for Hybrid Retrieval", 2023), which keeps
what ranks lose, how much better one hit is than the next. A cosine counts as it is, BM25 in standard deviations: a word
that few have tells more than one that many have, and a best hit among equals tells little.

This is the hot path: candidates are numbers until they are shown.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import accumulate
from math import inf, sqrt, sumprod
from typing import NamedTuple, Self

import numpy as np
from numpy.typing import NDArray

from waygraph.registry.index.search_index import TEXT_LEGS, Entities, LegHits, Rows
from waygraph.registry.index.search_index import Leg as LegName
from waygraph.registry.model.nouns import EntityKind, Vote
from waygraph.registry.routing.recipes import Recipe, RecipeLeg

type Numbers = NDArray[np.float64]
type Mask = NDArray[np.bool_]
type Places = NDArray[np.int64]
"""Positions of candidates."""
type Weights = Mapping[EntityKind, float]
"""α of Equation 3 per entity kind."""
DEVIATIONS = 10.0
"""A cosine of 1 counts as much as a BM25 score of so many standard deviations: those of all-MiniLM-L6-v2's cosines
are about 0.1."""
_AHEAD = 1e-6
"""How far another tool is ahead of one that failed, at least."""


@dataclass(frozen=True, kw_only=True)
class Candidates:
    """The agents and tools of one search, in order of their first hits; behind them agents that were not hit, whose
    tools were.

    `rows`: of the index, `owners`: positions of their agents, an agent's own; both int64 of shape (n,).
    """

    entities: Entities
    rows: Rows
    owners: Places

    @classmethod
    def of(cls, entities: Entities, lists: Sequence[Rows]) -> tuple[Self, list[Places]]:
        """Return the candidates that these lists name, and the positions of each list's."""
        rows = np.concatenate(lists) if lists else np.empty(0, np.int64)
        distinct, first, numbers = np.unique(
            np.concatenate([rows, entities.owners(rows)]), return_index=True, return_inverse=True
        )
        order = first.argsort()
        positions = order.argsort()[numbers]
        owners = np.arange(len(distinct))
        owners[positions[: len(rows)]] = positions[len(rows) :]
        ends = accumulate(map(len, lists))
        of_lists = [positions[end - len(each) : end] for each, end in zip(lists, ends, strict=True)]
        return cls(entities=entities, rows=distinct[order], owners=owners), of_lists

    @cached_property
    def is_agent(self) -> Mask:
        """Bool of shape (n,)."""
        return np.equal(self.owners, np.arange(len(self.owners)))

    @cached_property
    def ids(self) -> list[str]:
        """One for each."""
        return self.entities.ids(self.rows)


class Column(NamedTuple):
    """What one source says of the candidates `at`. All arrays are of shape (k,).

    `parts`: of a score, `scores`: as the source measures, `places`: from 1, `speakers`: whoever speaks for each, itself
    or a tool of it. `may_bring`: whether it names candidates, or speaks only of those that others name.
    """

    source: str
    weight: float
    at: Places
    parts: Numbers
    scores: Numbers
    places: Places
    speakers: Places
    may_bring: bool = True

    def only(self, mask: Mask) -> "Column":
        """Return it with those candidates alone that the mask, bool of shape (k,), is true of."""
        source, weight, at, parts, scores, places, speakers, may_bring = self
        return Column(source, weight, at[mask], parts[mask], scores[mask], places[mask], speakers[mask], may_bring)


def column_of(source: str, at: Places, scores: Numbers, weight: float, *, may_bring: bool = True) -> Column:
    """Return the column of a source whose scores count times its weight. `at`: int64, `scores`: float64, of shape
    (k,).
    """
    places = (-scores).argsort(kind="stable").argsort() + 1
    return Column(source, weight, at, weight * scores, scores, places, at, may_bring)


class Leg(NamedTuple):
    """A leg as a recipe uses it: its weight, and its hits as positions of candidates."""

    use: RecipeLeg
    weight: float
    at: Places
    scores: Numbers


def legs_of(recipe: Recipe, weights: Weights, legs: Mapping[LegName, LegHits], at: Iterable[Places]) -> list[Leg]:
    """Return those legs of a recipe that were searched. `at`: positions of the hits of each, int64 of shape (k,)."""
    uses = [use for use in recipe.legs if use.leg in legs]
    return [
        Leg(use, use.share * weights[use.kind], positions, legs[use.leg].scores)
        for use, positions in zip(uses, at, strict=True)
    ]


def leg_column(recipe: Recipe, leg: Leg, candidates: Candidates, agents: int) -> Column:
    """Return what each hit of a leg says of itself. `agents`: how many there are, found or not."""
    use, weight, at, scores = leg
    places = np.arange(1, len(at) + 1)
    if use.leg == "name":
        places[:] = 1  # whoever is named outright is named as much as the next: no rank among them
    if recipe.merge != "by_score" or use.leg == "name":
        parts = weight / (use.k + places.astype(np.float64))
    elif use.leg in TEXT_LEGS:
        parts = _parts_of_words(leg, candidates, agents)
    else:
        # A cosine counts above that of the last candidate, so that nobody gains by being the last one read.
        floor = max(float(scores[-1]), 0.0) if len(scores) >= recipe.depth else 0.0
        parts = weight * np.maximum(scores - floor, 0.0)
    return Column(use.leg, weight, at, parts, scores, places, at)


def _parts_of_words(leg: Leg, candidates: Candidates, agents: int) -> Numbers:
    """Weight × the BM25 score in standard deviations: ten are 1, which is the most.

    They are those of all agents by the best text of each, those not found counting 0: so a word that is in many texts
    of one agent tells as much as in one.
    """
    scores, of_owners = leg.scores, np.zeros(len(candidates.rows))
    if not len(scores):
        return scores
    np.maximum.at(of_owners, candidates.owners[leg.at], scores)
    best = of_owners[of_owners > 0].tolist()
    size = max(agents, len(best))
    variance = sumprod(best, best) / size - (sum(best) / size) ** 2
    parts: Numbers = scores * (leg.weight / max(DEVIATIONS * sqrt(max(variance, 0.0)), *best))
    return parts


def rank_column(leg: Leg, candidates: Candidates, silent: Places) -> Column:
    """Return how a leg ranks agents, by the first hit of each (Equation 3). Tools that are `silent`, int64 of shape
    (tools,), do not speak for their agents, unless they are named outright.
    """
    use, weight, at, scores = leg
    if len(silent) and use.leg != "name":
        speaks = ~np.isin(at, silent)
        at, scores = at[speaks], scores[speaks]
    agents, first = _distinct(candidates.owners[at])
    places = np.arange(1, len(agents) + 1) if use.leg != "name" else np.ones(len(agents), np.int64)
    parts = weight / (use.k + places.astype(np.float64))
    return Column(use.leg, weight, agents, parts, scores[first], places, at[first])


def list_columns(legs: Sequence[Leg], candidates: Candidates) -> list[Column]:
    """Return Algorithm 1's one list, a column a leg: a global rank r(e) by similarity, s(e) = α_type / (k + r(e)).

    Each agent counts by its first entity, ties by smaller r(e) (lines 9 to 15).
    """
    if not legs:
        return []
    lengths = [len(leg.at) for leg in legs]
    of = np.repeat(np.arange(len(legs)), lengths)
    at = np.concatenate([leg.at for leg in legs])
    scores = np.concatenate([leg.scores for leg in legs])
    within = np.concatenate([np.arange(length) for length in lengths])
    places = np.lexsort((within, -scores)).argsort() + 1
    parts = np.asarray([leg.weight for leg in legs])[of] / (np.asarray([leg.use.k for leg in legs])[of] + places)
    order = np.lexsort((places, -parts))
    agents, first = _distinct(candidates.owners[at[order]])
    own = order[first]
    columns = []
    for number, (use, weight, *_) in enumerate(legs):
        mask = of[own] == number
        mine = own[mask]
        columns.append(Column(use.leg, weight, agents[mask], parts[mine], scores[mine], places[mine], at[mine]))
    return columns


def _distinct(at: Places) -> tuple[Places, Places]:
    """Return the distinct candidates in the order of their first places, and these places."""
    first = np.unique(at, return_index=True)[1]
    first.sort()
    return at[first], first


@dataclass(frozen=True, kw_only=True)
class Matrix:
    """The columns of one ranking, with `sums` of the parts of each candidate, float64 of shape (n,). `is_named`:
    whether any source speaks of it, bool of shape (n,).
    """

    candidates: Candidates
    columns: tuple[Column, ...]
    sums: Numbers
    is_named: Mask

    @classmethod
    def of(cls, candidates: Candidates, columns: Iterable[Column | None]) -> Self:
        """Return the matrix of these columns, in their order."""
        size = len(candidates.rows)
        return cls(candidates=candidates, columns=(), sums=np.zeros(size), is_named=np.zeros(size, np.bool_)).plus(
            *columns
        )

    def plus(self, *columns: Column | None) -> Self:
        """Return it with more columns; what only speaks of those that others name is cut to these."""
        all_columns, sums, is_named = self.columns, self.sums.copy(), self.is_named.copy()
        for each in filter(None, columns):
            column = each if each.may_bring else each.only(is_named[each.at])
            sums[column.at] += column.parts
            is_named[column.at] = True
            all_columns += (column,)
        return type(self)(candidates=self.candidates, columns=all_columns, sums=sums, is_named=is_named)

    def votes(self, at: Places) -> dict[int, list[Vote]]:
        """Explain the candidates `at`, int64 of shape (k,): what each source says of each, by its position."""
        votes: dict[int, list[Vote]] = {each: [] for each in at.tolist()}
        is_explained = np.zeros(len(self.sums), np.bool_)
        is_explained[at] = True
        sources, weights, of_columns, *arrays, _ = zip(*self.columns, strict=True)
        columns = np.repeat(np.arange(len(sources)), [len(each) for each in of_columns])
        positions = np.concatenate(of_columns)
        own = is_explained[positions].nonzero()[0]
        parts, scores, places, speakers = [np.concatenate(each)[own] for each in arrays]
        are_agents = speakers == self.candidates.owners[positions[own]]
        values = positions[own], columns[own], speakers, are_agents, places, scores, parts
        ids = self.candidates.ids
        for position, column, speaker, is_agent, place, score, part in zip(
            *map(np.ndarray.tolist, values), strict=True
        ):
            kind: EntityKind = "agent" if is_agent else "tool"
            votes[position].append(Vote(ids[speaker], kind, sources[column], place, score, weights[column], part))
        return votes


class Scores(NamedTuple):
    """Scores of the candidates of one kind: `values` are -inf where there is none, float64 of shape (n,). `partners`:
    positions of whoever speaks with each, its agent or its best tool, or its own.
    """

    matrix: Matrix
    values: Numbers
    partners: Places

    @property
    def best(self) -> float:
        """The highest; 0 without candidates."""
        highest = float(self.values.max(initial=-inf))
        return highest if highest > -inf else 0.0


def score_tools(matrix: Matrix) -> Scores:
    """Score tools: each by what speaks for it and for its agent."""
    candidates, sums = matrix.candidates, matrix.sums
    values = sums + sums[candidates.owners]
    values[candidates.is_agent | ~matrix.is_named] = -inf
    return Scores(matrix, values, candidates.owners)


def score_agents(matrix: Matrix, silent: Places) -> Scores:
    """Score agents: each by what speaks for it and for its best tool, so that agents and tools come in one order.

    Tools that are `silent`, int64 of shape (tools,), do not speak for theirs, unless they are named outright.
    """
    sums, is_agent, owners = matrix.sums, matrix.candidates.is_agent, matrix.candidates.owners
    speaks = matrix.is_named & ~is_agent
    if len(silent):
        outright = [silent[:0], *(column.at for column in matrix.columns if column.source == "name")]
        speaks[np.setdiff1d(silent, np.concatenate(outright))] = False
    values = np.where(matrix.is_named & is_agent, sums, -inf)
    partners = np.arange(len(values))
    tools = _best_of_owners(speaks.nonzero()[0], sums, owners)
    agents = owners[tools]
    values[agents] = sums[agents] + sums[tools]
    partners[agents] = tools
    return Scores(matrix, values, partners)


def _best_of_owners(at: Places, values: Numbers, owners: Places) -> Places:
    """Return the best of these candidates of each owner; of equal ones the first."""
    order = at[np.lexsort((-values[at], owners[at]))]
    of, is_first = owners[order], np.empty(len(order), np.bool_)
    is_first[:1] = True
    is_first[1:] = of[1:] != of[:-1]
    return order[is_first]


def count_siblings(columns: Iterable[Column], candidates: Candidates) -> Column:
    """Return what an agent and its tools get for what its other tools have beyond its best one: half of that, in each
    leg.
    """
    size = len(candidates.rows)
    own, sums, speaks = np.zeros(size), np.zeros(size), np.zeros(size, np.bool_)
    for column in columns:
        if column.source in ("agent_vector", "agent_text"):
            continue
        best_of_leg = np.zeros(size)
        np.maximum.at(best_of_leg, candidates.owners[column.at], column.parts)
        sums += best_of_leg
        own[column.at] += column.parts
        speaks[column.at] = True
    best = _best_of_owners(speaks.nonzero()[0], own, candidates.owners)
    agents = candidates.owners[best]
    halves = (sums[agents] - own[best]) / 2
    gains = halves > 0
    return column_of("siblings", agents[gains], 2 * halves[gains], 0.5, may_bring=False)


def share_of_sum(column: Column, scores: Scores) -> Column:
    """Return shares, each the column's weight times a chance, as parts of scores: of all that is then given they are
    the weight. So they mean the same in every recipe, however many candidates there are.
    """
    values = scores.values
    return column._replace(parts=column.parts * (float(values[values > 0].sum()) / (1 - column.weight)))


def lift_rivals(column: Column, scores: Scores) -> Column | None:
    """Return what lifts a rival before each that failed, if one fits well enough.

    The column's parts say how much less it may fit, as a share of the score. A tool of the same agent, which seldom
    does the same, may fit less so by the weight: it is one after a second failure.
    """
    candidates, values = scores.matrix.candidates, scores.values
    may_follow = values > -inf
    may_follow[column.at] = False
    lifts: dict[int, float] = {}
    for at, share in zip(column.at.tolist(), column.parts.tolist(), strict=True):
        score = float(values[at]) if values[at] > -inf else 0.0
        is_same = candidates.owners == candidates.owners[at]
        least = score * (1 - share + np.where(is_same, column.weight, 0.0))
        rivals = (may_follow & (values >= least) & (values <= score)).nonzero()[0].tolist()
        if rivals:
            rival = max(rivals, key=lambda each: (values[each], candidates.ids[each]))
            lifts[rival] = max(lifts.get(rival, 0.0), score - float(values[rival]) + _AHEAD)
    if not lifts:
        return None
    rivals_column = column_of(column.source, np.asarray(list(lifts), np.int64), np.asarray(list(lifts.values())), 1.0)
    return rivals_column._replace(weight=column.weight)


class Candidate(NamedTuple):
    """An agent or a tool that is shown, and the votes that speak for it; `score` is the sum of their contributions."""

    at: int
    id: str
    score: float
    votes: tuple[Vote, ...]


def best_candidates(scores: Scores, limit: int) -> list[Candidate]:
    """Return the best `limit`, in the one order: by score, then by smaller best rank, then by id."""
    matrix, values, partners = scores
    top = (values > -inf).nonzero()[0]
    if len(top) > limit:
        top = top[values[top] >= np.partition(values[top], len(top) - limit)[len(top) - limit]]
    if not len(top):
        return []
    owners, ids, others = matrix.candidates.owners, matrix.candidates.ids, partners[top]
    votes_of = matrix.votes(np.concatenate([top, others]))
    candidates = []
    for at, partner in zip(top.tolist(), others.tolist(), strict=True):
        votes = votes_of[at]
        if partner != at:  # a tool's agent speaks behind it, an agent's tool before it
            votes = [*votes, *votes_of[partner]] if owners[at] == partner else [*votes_of[partner], *votes]
        candidate = Candidate(at, ids[at], float(values[at]), tuple(votes))
        candidates.append((-candidate.score, min([vote.rank for vote in votes], default=0), candidate.id, candidate))
    candidates.sort()
    return [candidate for *_, candidate in candidates[:limit]]


def best_tools(scores: Scores, agents: Iterable[Candidate], limit: int) -> list[Rows]:
    """Return for each agent its best tools, at most `limit`, best first: rows, int64 of shape (tools,)."""
    candidates, values = scores.matrix.candidates, scores.values
    tools = (-values).argsort(kind="stable")
    tools = tools[values[tools] > -inf]
    owners = candidates.owners[tools]
    return [candidates.rows[tools[owners == agent.at][:limit]] for agent in agents]
