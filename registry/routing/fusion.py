"""Legs to ranked candidates: by type-weighted ranks or scores, and the walk from tools to agents. Pure.

Ranks: Nizar et al., "Agent-as-a-Graph", Equation 3 and Algorithm 1. Scores: a convex combination of the legs (Bruch et
al., "An Analysis of Fusion Functions for Hybrid Retrieval", 2023), which keeps what ranks lose, how much better one hit
is than the next. A cosine counts as it is, BM25 in standard deviations: a word that few have tells more than one that
many have, and a best hit among equals tells little.

This is the hot path: scores are added up by name, and votes are made only for the candidates that are shown.
"""

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property, lru_cache
from heapq import nlargest
from math import sqrt, sumprod
from operator import itemgetter
from typing import NamedTuple

from waygraph.registry.index.search_index import TEXT_LEGS, Leg, LegHits
from waygraph.registry.model.nouns import EntityKind, Vote
from waygraph.registry.model.transitions import owner_of
from waygraph.registry.routing.recipes import Recipe, RecipeLeg

Weights = Mapping[EntityKind, float]
"""α of Equation 3 per entity kind."""
DEVIATIONS = 10.0
"""A cosine of 1 counts as much as a BM25 score of so many standard deviations: those of all-MiniLM-L6-v2's cosines
are about 0.1."""

_AHEAD = 1e-6
"""How far another tool is ahead of one that failed, at least."""


class Candidate(NamedTuple):
    """An agent or a tool, and the votes that speak for it; `score` is the sum of their contributions."""

    id: str
    score: float
    votes: tuple[Vote, ...]


class Standing(NamedTuple):
    """What a leg gives its targets: `parts` are contributions by name; of each the first hit counts."""

    leg: str
    hits: LegHits
    targets: Sequence[str]
    weight: float
    parts: Mapping[str, float]
    may_bring: bool = True
    """Whether it names candidates, or speaks only of those that others name."""

    @classmethod
    def of(
        cls,
        recipe: Recipe,
        use: RecipeLeg,
        hits: LegHits,
        weights: Weights,
        *,
        agents: int,
        by_owner: bool = False,
        silent: Collection[str] = (),
    ) -> "Standing":
        """`agents`: how many there are, found or not. `by_owner`: agents are the targets, for which tools that are
        `silent` do not speak.
        """
        # A cosine counts above that of the last candidate, so that nobody gains by being the last one read.
        floor = max(hits.scores[-1], 0.0) if len(hits.scores) >= recipe.depth else 0.0
        hits = _without(hits, silent) if silent and use.leg != "name" else hits
        targets = hits.owner_ids if by_owner else hits.entity_ids
        weight = use.share * weights[use.kind]
        if use.leg == "name":
            # Whoever is named outright is named as much as the next: no rank among them.
            parts = dict.fromkeys(targets, weight / (use.k + 1))
        elif recipe.merge != "by_score":
            distinct = dict.fromkeys(targets)
            parts = dict(zip(distinct, _parts(weight, use.k, len(distinct)), strict=True))
        elif use.leg in TEXT_LEGS:
            best_of_owners = _first(hits.owner_ids, hits.scores).values()
            parts = _parts_of_words(weight, _first(targets, hits.scores), best_of_owners, agents)
        else:
            parts = _first(targets, [weight * (score - floor) if score > floor else 0.0 for score in hits.scores])
        return cls(use.leg, hits, targets, weight, parts)

    def of_sum(self, scores: Mapping[str, float]) -> "Standing":
        """Shares, each its weight times a chance, as parts of scores: of all that is then given they are the weight.

        So they mean the same in every recipe, however many candidates there are.
        """
        factor = sum(score for score in scores.values() if score > 0) / (1 - self.weight)
        return self._replace(parts={target: factor * part for target, part in self.parts.items()})

    def of_rivals(self, scores: Mapping[str, float]) -> "Standing":
        """What lifts a rival before each that failed, if one fits well enough: `parts` say how much less it may fit, as
        a share of the score. A tool of the same agent, which seldom does the same, may fit less so by `weight`: it is
        one after a second failure.
        """
        parts: dict[str, float] = {}
        for name, share in self.parts.items():
            score = scores.get(name, 0.0)
            least = {True: score * (1 - share + self.weight), False: score * (1 - share)}
            rivals = [
                (of, each)
                for each, of in scores.items()
                if each not in self.parts and least[owner_of(each) == owner_of(name)] <= of <= score
            ]
            if rivals:
                of, rival = max(rivals)
                parts[rival] = max(parts.get(rival, 0.0), score - of + _AHEAD)
        ids = sorted(parts)
        hits = LegHits(ids, [owner_of(each) for each in ids], [parts[each] for each in ids])
        return self._replace(hits=hits, targets=ids, parts=parts)

    def vote(self, target: str) -> Vote:
        at = self.targets.index(target)
        place = 1 if self.leg == "name" else len(set(self.targets[:at])) + 1
        return _vote(self.leg, self.hits, at, place, weight=self.weight, contribution=self.parts[target])


class PastVotes(NamedTuple):
    """What the turns before a request give agents, or tools: `votes` as legs do, `follows` as shares of the sum of all
    scores (`Standing.of_sum`), and what failed at last (`Standing.of_rivals`).
    """

    votes: tuple[Standing, ...] = ()
    follows: Standing | None = None
    failures: Standing | None = None


NO_PAST = PastVotes()


@dataclass(frozen=True, kw_only=True)
class LegVotes:
    """What the legs of one search give by a recipe and weights: made once, for all that read it. `agents`: how many
    there are, found or not.
    """

    recipe: Recipe
    legs: Mapping[Leg, LegHits]
    weights: Weights
    agents: int

    @cached_property
    def standings(self) -> Sequence[Standing]:
        """One a leg, for tools and agents."""
        return self._make(by_owner=False)

    @property
    def of_tools(self) -> Sequence[Standing]:
        """Those of the legs that rank tools."""
        uses = _present(self.recipe, self.legs)
        return [standing for use, standing in zip(uses, self.standings, strict=True) if use.kind == "tool"]

    def by_owner(self, silent: Collection[str]) -> Sequence[Standing]:
        """One a leg, for agents alone; tools that are `silent` do not speak for theirs."""
        return self._make(by_owner=True, silent=silent)

    def _make(self, *, by_owner: bool, silent: Collection[str] = ()) -> Sequence[Standing]:
        return [
            Standing.of(
                self.recipe,
                use,
                self.legs[use.leg],
                self.weights,
                agents=self.agents,
                by_owner=by_owner,
                silent=silent,
            )
            for use in _present(self.recipe, self.legs)
        ]


def fuse_agents(
    votes: LegVotes, limit: int, *, past: PastVotes = NO_PAST, silent: Collection[str] = ()
) -> list[Candidate]:
    """The best `limit` agents. Tools that are `silent` do not speak for theirs, unless they are named outright.

    Where scores are summed, an agent is as good as its best tool, so that both come in one order.
    """
    if votes.recipe.merge == "one_list":
        return _one_list(votes.recipe, votes.legs, votes.weights)[:limit]
    if votes.recipe.merge == "by_score":
        standings = [*votes.standings, *past.votes]
        scores, best = _agents_by_tools(standings, silent)
    else:
        standings = [*votes.by_owner(silent), *past.votes]
        scores, best = _sum_parts(standings)[0], {}
    if past.follows:
        standings.append(follows := past.follows.of_sum(scores))
        _add(scores, follows)
    if past.failures:
        standings.append(rivals := past.failures.of_rivals(scores))
        _add(scores, rivals)
    return _best(scores, limit, lambda each: (*_votes(standings, best.get(each, "")), *_votes(standings, each)))


def _agents_by_tools(standings: Sequence[Standing], silent: Collection[str]) -> tuple[dict[str, float], dict[str, str]]:
    """The scores of agents, and the best tool of each that has one."""
    scores, owners = _sum_parts(standings)
    by_name = {each for standing in standings if standing.leg == "name" for each in standing.targets}
    without = frozenset(silent) - by_name
    tools = {name: score for name, score in scores.items() if owners[name] != name and name not in without}
    best = _best_of_owners(tools, owners)
    agents = {owner: scores.get(owner, 0.0) + tools[tool] for owner, tool in best.items()}
    agents |= {name: score for name, score in scores.items() if owners[name] == name and name not in best}
    return agents, best


def fuse_tools(votes: LegVotes, limit: int, *, past: PastVotes = NO_PAST) -> list[Candidate]:
    """The best `limit` tools: each leg speaks of the tool, or of its agent where a leg ranks agents."""
    standings = [*votes.standings, *past.votes]
    scores, owners = _sum_parts(standings)
    if past.follows:
        for name, owner in zip(past.follows.targets, past.follows.hits.owner_ids, strict=True):
            scores.setdefault(name, 0.0)
            owners.setdefault(name, owner)
    tools = _with_owners(scores, owners)
    if past.follows:
        standings.append(follows := past.follows.of_sum(tools))
        for tool in tools:
            tools[tool] += follows.parts.get(tool, 0.0) + follows.parts.get(owners[tool], 0.0)
    if past.failures:
        standings.append(rivals := past.failures.of_rivals(tools))
        _add(tools, rivals)
    return _best(tools, limit, lambda tool: (*_votes(standings, tool), *_votes(standings, owners[tool])))


def score_tools(standings: Sequence[Standing]) -> dict[str, float]:
    """The sum of what speaks for each tool and for its agent."""
    return _with_owners(*_sum_parts(standings))


def count_siblings(standings: Sequence[Standing]) -> Standing:
    """What an agent and its tools get for what its other tools have beyond its best one: half of that, in each leg.

    Where scores are summed. `standings`: those of the legs.
    """
    own: dict[str, float] = {}
    owners: dict[str, str] = {}
    best_of_legs: dict[str, float] = {}
    for standing in (each for each in standings if not each.leg.startswith("agent")):
        owners.update(zip(standing.targets, standing.hits.owner_ids, strict=True))
        _add(own, standing)
        best: dict[str, float] = {}
        for tool, part in standing.parts.items():
            if part > best.get(owner := owners[tool], 0.0):
                best[owner] = part
        for owner, part in best.items():
            best_of_legs[owner] = best_of_legs.get(owner, 0.0) + part
    halves = {
        owner: (best_of_legs.get(owner, 0.0) - own[tool]) / 2 for owner, tool in _best_of_owners(own, owners).items()
    }
    ids = sorted((owner for owner, part in halves.items() if part > 0), key=lambda each: (-halves[each], each))
    hits = LegHits(ids, ids, [2 * halves[each] for each in ids])
    return Standing("siblings", hits, ids, 0.5, {each: halves[each] for each in ids}, may_bring=False)


def _best_of_owners(parts: Mapping[str, float], owners: Mapping[str, str]) -> dict[str, str]:
    """Of each owner the tool with the highest part; of equal ones the first."""
    best: dict[str, str] = {}
    for tool, part in parts.items():
        owner = owners[tool]
        if owner not in best or part > parts[best[owner]]:
            best[owner] = tool
    return best


def _with_owners(scores: Mapping[str, float], owners: Mapping[str, str]) -> dict[str, float]:
    """Of each tool, with what speaks for its owner."""
    return {name: score + scores.get(owners[name], 0.0) for name, score in scores.items() if owners[name] != name}


def _sum_parts(standings: Sequence[Standing]) -> tuple[dict[str, float], dict[str, str]]:
    """Of each name, and its owner."""
    owners: dict[str, str] = {}
    scores: dict[str, float] = {}
    for standing in standings:
        owners.update(zip(standing.targets, standing.hits.owner_ids, strict=True))
        _add(scores, standing)
    return scores, owners


def _without(hits: LegHits, tools: Collection[str]) -> LegHits:
    places = [at for at, entity in enumerate(hits.entity_ids) if entity not in tools]
    ids, owners, scores = hits
    return LegHits([ids[at] for at in places], [owners[at] for at in places], [scores[at] for at in places])


def tools_of(votes: LegVotes, agent_ids: Iterable[str], limit: int, *, past: PastVotes) -> dict[str, list[str]]:
    """For each agent the ids of its tools that were found, best first: by what speaks for the tools themselves."""
    standings = [*votes.of_tools, *past.votes]
    if past.follows:
        standings.append(past.follows.of_sum(_sum_parts(standings)[0]))
    scores: dict[str, dict[str, float]] = {agent_id: {} for agent_id in agent_ids}
    for standing in standings:
        for entity, owner in zip(standing.hits.entity_ids, standing.hits.owner_ids, strict=True):
            if owner in scores and entity != owner:
                scores[owner][entity] = scores[owner].get(entity, 0.0) + standing.parts.get(entity, 0.0)
    # Equal ones stay in the order of the legs.
    return {
        agent_id: [name for name, _ in sorted(tools.items(), key=lambda item: -item[1])][:limit]
        for agent_id, tools in scores.items()
    }


def rank(candidates: Iterable[Candidate]) -> list[Candidate]:
    """The one place of order, but for Algorithm 1's one list: by score, then by smaller best rank, then by id."""
    return sorted(candidates, key=lambda c: (-c.score, min((vote.rank for vote in c.votes), default=0), c.id))


def _best(scores: Mapping[str, float], limit: int, votes: Callable[[str], tuple[Vote, ...]]) -> list[Candidate]:
    """The best of many; only those that may come within the limit are looked at closely."""
    least = min(nlargest(limit, scores.values()), default=0.0)
    return rank(Candidate(name, score, votes(name)) for name, score in scores.items() if score >= least)[:limit]


def _add(scores: dict[str, float], standing: Standing) -> None:
    if not scores and standing.may_bring:
        scores.update(standing.parts)
        return
    for target, part in standing.parts.items():
        if standing.may_bring or target in scores:
            scores[target] = scores.get(target, 0.0) + part


@lru_cache(maxsize=256)
def _parts(weight: float, k: float, last: int) -> tuple[float, ...]:
    """weight / (k + rank) for the ranks 1 to `last`."""
    return tuple(weight / (k + place) for place in range(1, last + 1))


def _first(targets: Sequence[str], values: Sequence[float]) -> dict[str, float]:
    """The value of each target's first place."""
    # Read from the end, the first one stays. Without a loop of ours.
    return dict(zip(reversed(targets), reversed(values), strict=True))


def _parts_of_words(
    weight: float, best: Mapping[str, float], best_of_owners: Collection[float], agents: int
) -> dict[str, float]:
    """Weight × the BM25 score in standard deviations: ten are 1, which is the most.

    They are those of all agents by the best text of each, those not found counting 0: so a word that is in many texts
    of one agent tells as much as in one.
    """
    if not best:
        return {}
    size = max(agents, len(best_of_owners))
    variance = sumprod(best_of_owners, best_of_owners) / size - (sum(best_of_owners) / size) ** 2
    factor = weight / max(DEVIATIONS * sqrt(max(variance, 0.0)), *best_of_owners)
    return {target: factor * score for target, score in best.items()}


def _votes(standings: Iterable[Standing], target: str) -> tuple[Vote, ...]:
    return tuple(standing.vote(target) for standing in standings if target in standing.parts)


def _vote(leg: str, hits: LegHits, at: int, place: int, *, weight: float, contribution: float) -> Vote:
    entity = hits.entity_ids[at]
    kind: EntityKind = "agent" if entity == hits.owner_ids[at] else "tool"
    return Vote(entity, kind, leg, place, hits.scores[at], weight, contribution)


def _present(recipe: Recipe, legs: Mapping[Leg, LegHits]) -> list[RecipeLeg]:
    return [use for use in recipe.legs if use.leg in legs]


def _one_list(recipe: Recipe, legs: Mapping[Leg, LegHits], weights: Weights) -> list[Candidate]:
    """Algorithm 1: a global rank r(e) by similarity, s(e) = α_type / (k + r(e)), ties by smaller r(e)."""
    hits = [
        (-score, legs[use.leg].entity_ids[at], at, use)
        for use in _present(recipe, legs)
        for at, score in enumerate(legs[use.leg].scores)
    ]
    hits.sort(key=itemgetter(0, 1))
    votes = [
        (legs[use.leg].owner_ids[at], _global_vote(use, legs[use.leg], at, place, use.share * weights[use.kind]))
        for place, (_, _, at, use) in enumerate(hits, start=1)
    ]
    votes.sort(key=lambda pair: (-pair[1].contribution, pair[1].rank))
    # Algorithm 1, lines 9–15: walk from each entity to its agent; distinct agents in order, each by its first.
    first: dict[str, Vote] = {}
    for owner, vote in votes:
        first.setdefault(owner, vote)
    return [Candidate(owner, vote.contribution, (vote,)) for owner, vote in first.items()]


def _global_vote(use: RecipeLeg, hits: LegHits, at: int, place: int, weight: float) -> Vote:
    return _vote(use.leg, hits, at, place, weight=weight, contribution=weight / (use.k + place))
