"""Legs to ranked candidates: by type-weighted ranks or scores, and the walk from tools to agents. Pure.

Ranks: Nizar et al., "Agent-as-a-Graph", Equation 3 and Algorithm 1. Scores: a convex combination of the legs (Bruch et
al., "An Analysis of Fusion Functions for Hybrid Retrieval", 2023), which keeps what ranks lose, how much better one hit
is than the next. A cosine counts as it is, BM25 in standard deviations: a word that few have tells more than one that
many have, and a best hit among equals tells little.

This is the hot path: scores are added up by name, and votes are made only for the candidates that are shown.
"""

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from functools import lru_cache
from heapq import nlargest
from math import inf, sqrt, sumprod
from operator import itemgetter
from typing import NamedTuple

from waygraph.registry.index.search_index import TEXT_LEGS, Leg, LegHits
from waygraph.registry.model.nouns import EntityKind, Vote
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

    def behind_others(self, scores: Mapping[str, float]) -> "Standing":
        """The same, its parts at least so much below zero that the best of the others is ahead."""
        best = max((score for target, score in scores.items() if target not in self.parts), default=inf)
        parts = {t: min(part, best - scores.get(t, 0.0) - _AHEAD) for t, part in self.parts.items()}
        return self._replace(parts=parts)

    def vote(self, target: str) -> Vote:
        at = self.targets.index(target)
        place = 1 if self.leg == "name" else len(set(self.targets[:at])) + 1
        return _vote(self.leg, self.hits, at, place, weight=self.weight, contribution=self.parts[target])


def fuse_agents(
    recipe: Recipe,
    legs: Mapping[Leg, LegHits],
    weights: Weights,
    limit: int,
    *,
    agents: int,
    past: Sequence[Standing] = (),
    silent: Collection[str] = (),
) -> list[Candidate]:
    """The best `limit` agents. `past`: what the turns before the request give agents, and what speaks of single tools;
    tools that are `silent` do not speak for theirs, unless they are named outright.

    Where scores are summed, an agent is as good as its best tool, so that both come in one order.
    """
    if recipe.merge == "one_list":
        return _one_list(recipe, legs, weights)[:limit]
    if recipe.merge == "by_score":
        return _best_by_tools([*leg_standings(recipe, legs, weights, agents=agents), *past], limit, silent)
    standings = [
        Standing.of(recipe, use, legs[use.leg], weights, agents=agents, by_owner=True, silent=silent)
        for use in _present(recipe, legs)
    ]
    standings += past
    scores: dict[str, float] = {}
    for standing in standings:
        _add(scores, standing)
    return _best(scores, limit, lambda agent_id: _votes(standings, agent_id))


def _best_by_tools(standings: Sequence[Standing], limit: int, silent: Collection[str]) -> list[Candidate]:
    scores, owners = _sum_parts(standings)
    by_name = {each for standing in standings if standing.leg == "name" for each in standing.targets}
    without = frozenset(silent) - by_name
    tools = {name: score for name, score in scores.items() if owners[name] != name and name not in without}
    best = _best_of_owners(tools, owners)
    agents = {owner: scores.get(owner, 0.0) + tools[tool] for owner, tool in best.items()}
    agents |= {name: score for name, score in scores.items() if owners[name] == name and name not in best}
    return _best(agents, limit, lambda each: (*_votes(standings, best.get(each, "")), *_votes(standings, each)))


def fuse_tools(
    recipe: Recipe,
    legs: Mapping[Leg, LegHits],
    weights: Weights,
    limit: int,
    *,
    agents: int,
    past: Sequence[Standing] = (),
    failures: Standing | None = None,
) -> list[Candidate]:
    """The best `limit` tools: each leg speaks of the tool, or of its agent where a leg ranks agents.

    `past`: what the turns before the request give tools and agents. `failures`: the tools that failed in those turns;
    none of them is first, unless there is no other.
    """
    standings = [*leg_standings(recipe, legs, weights, agents=agents), *past]
    tools, owners = _tool_scores(standings)
    if failures is not None:
        failures = failures.behind_others(tools)
        _add(tools, failures)
        standings.append(failures)
    return _best(tools, limit, lambda tool: (*_votes(standings, tool), *_votes(standings, owners[tool])))


def score_tools(standings: Sequence[Standing]) -> dict[str, float]:
    """The sum of what speaks for each tool and for its agent."""
    return _tool_scores(standings)[0]


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


def leg_standings(recipe: Recipe, legs: Mapping[Leg, LegHits], weights: Weights, *, agents: int) -> list[Standing]:
    """What each leg gives to tools and agents. `agents`: how many there are."""
    uses = _present(recipe, legs)
    return [Standing.of(recipe, use, legs[use.leg], weights, agents=agents) for use in uses]


def _tool_scores(standings: Sequence[Standing]) -> tuple[dict[str, float], Mapping[str, str]]:
    """Of each tool, with what speaks for its owner; and the owners."""
    scores, owners = _sum_parts(standings)
    tools = {name: score + scores.get(owners[name], 0.0) for name, score in scores.items() if owners[name] != name}
    return tools, owners


def _sum_parts(standings: Sequence[Standing]) -> tuple[dict[str, float], Mapping[str, str]]:
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


def tools_of(
    recipe: Recipe,
    legs: Mapping[Leg, LegHits],
    weights: Weights,
    agent_ids: Iterable[str],
    limit: int,
    *,
    agents: int,
    past: Sequence[Standing],
    last: Callable[[str], bool],
) -> dict[str, list[str]]:
    """For each agent the ids of its tools that were found, best first: by what speaks for the tools themselves.

    `agents`: how many there are. `past`: what the turns before the request give tools. Those come last
    of which `last` says so.
    """
    standings = [
        Standing.of(recipe, use, legs[use.leg], weights, agents=agents)
        for use in _present(recipe, legs)
        if use.kind == "tool"
    ]
    scores: dict[str, dict[str, float]] = {agent_id: {} for agent_id in agent_ids}
    for standing in [*standings, *past]:
        for entity, owner in zip(standing.hits.entity_ids, standing.hits.owner_ids, strict=True):
            if owner in scores and entity != owner:
                scores[owner][entity] = scores[owner].get(entity, 0.0) + standing.parts.get(entity, 0.0)
    # Equal ones stay in the order of the legs.
    return {
        agent_id: sorted(tools, key=lambda tool: (last(tool), -tools[tool]))[:limit]
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
