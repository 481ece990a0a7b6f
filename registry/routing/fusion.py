"""Legs to ranked candidates: type-weighted reciprocal-rank fusion and the walk from tools to agents. Pure.

Source: Nizar et al., "Agent-as-a-Graph", Equation 3 and Algorithm 1. This is the hot path: scores are added up by
name, and votes are made only for the candidates that are shown.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import lru_cache
from heapq import nlargest
from itertools import count
from operator import itemgetter
from typing import NamedTuple

from waygraph.registry.index.search_index import Leg, LegHits
from waygraph.registry.model import EntityKind, Vote
from waygraph.registry.routing.recipes import Recipe, RecipeLeg

Weights = Mapping[EntityKind, float]
"""α of Equation 3 per entity kind."""


class Candidate(NamedTuple):
    """An agent or a tool, and the votes that speak for it; `score` is the sum of their contributions."""

    id: str
    score: float
    votes: tuple[Vote, ...]


class Standing(NamedTuple):
    """How a leg ranks its targets: `ranks` by name, 1 = best, the first appearance of each counts."""

    use: RecipeLeg
    hits: LegHits
    targets: Sequence[str]
    weight: float
    ranks: Mapping[str, int]

    @classmethod
    def of(cls, use: RecipeLeg, hits: LegHits, targets: Sequence[str], weights: Weights) -> "Standing":
        distinct = dict.fromkeys(targets)
        # Whoever is named outright is named as much as the next: no rank among them.
        places = dict.fromkeys(distinct, 1) if use.leg == "name" else dict(zip(distinct, count(1), strict=False))
        return cls(use, hits, targets, use.share * weights[use.kind], places)

    def vote(self, target: str) -> Vote:
        at = self.targets.index(target)
        return _vote(self.use, self.hits, at, self.ranks[target], self.weight)


def fuse_agents(recipe: Recipe, legs: Mapping[Leg, LegHits], weights: Weights, limit: int) -> list[Candidate]:
    """The best `limit` agents."""
    if recipe.merge == "one_list":
        return _one_list(recipe, legs, weights)[:limit]
    standings = [Standing.of(use, legs[use.leg], legs[use.leg].owner_ids, weights) for use in _present(recipe, legs)]
    scores: dict[str, float] = {}
    for standing in standings:
        _add(scores, standing)
    return _best(scores, limit, lambda agent_id: _votes(standings, agent_id))


def fuse_tools(recipe: Recipe, legs: Mapping[Leg, LegHits], weights: Weights, limit: int) -> list[Candidate]:
    """The best `limit` tools: by each leg's rank of the tool itself, and of its agent where a leg ranks agents."""
    standings = [Standing.of(use, legs[use.leg], legs[use.leg].entity_ids, weights) for use in _present(recipe, legs)]
    owners = {tool: owner for s in standings for tool, owner in zip(s.targets, s.hits.owner_ids, strict=True)}
    scores: dict[str, float] = {}
    for standing in standings:
        _add(scores, standing)
    tools = {name: score + scores.get(owners[name], 0.0) for name, score in scores.items() if owners[name] != name}
    return _best(tools, limit, lambda tool: (*_votes(standings, tool), *_votes(standings, owners[tool])))


def tools_of(legs: Mapping[Leg, LegHits], agent_ids: Iterable[str], limit: int) -> dict[str, list[str]]:
    """For each agent the ids of its tools that were found, in the order of the legs, best first."""
    found: dict[str, dict[str, None]] = {agent_id: {} for agent_id in agent_ids}
    for hits in legs.values():
        for entity, owner in zip(hits.entity_ids, hits.owner_ids, strict=True):
            if owner in found and entity != owner:
                found[owner][entity] = None
    return {agent_id: list(tools)[:limit] for agent_id, tools in found.items()}


def rank(candidates: Iterable[Candidate]) -> list[Candidate]:
    """The one place of order: by score, then by smaller best rank, then by id."""
    return sorted(candidates, key=lambda c: (-c.score, min((vote.rank for vote in c.votes), default=0), c.id))


def _best(scores: Mapping[str, float], limit: int, votes: Callable[[str], tuple[Vote, ...]]) -> list[Candidate]:
    """The best of many; only those that may come within the limit are looked at closely."""
    least = min(nlargest(limit, scores.values()), default=0.0)
    return rank(Candidate(name, score, votes(name)) for name, score in scores.items() if score >= least)[:limit]


def _add(scores: dict[str, float], standing: Standing) -> None:
    parts = _parts(standing.weight, standing.use.k, max(standing.ranks.values(), default=0))
    if not scores and len(parts) == len(standing.ranks):
        scores.update(zip(standing.ranks, parts, strict=True))
        return
    for target, place in standing.ranks.items():
        scores[target] = scores.get(target, 0.0) + parts[place - 1]


@lru_cache(maxsize=256)
def _parts(weight: float, k: float, last: int) -> tuple[float, ...]:
    """weight / (k + rank) for the ranks 1 to `last`."""
    return tuple(weight / (k + place) for place in range(1, last + 1))


def _votes(standings: Iterable[Standing], target: str) -> tuple[Vote, ...]:
    return tuple(standing.vote(target) for standing in standings if target in standing.ranks)


def _vote(use: RecipeLeg, hits: LegHits, at: int, place: int, weight: float) -> Vote:
    entity = hits.entity_ids[at]
    return Vote(
        entity_id=entity,
        kind="agent" if entity == hits.owner_ids[at] else "tool",
        leg=use.leg,
        rank=place,
        score=hits.scores[at],
        weight=weight,
        contribution=weight / (use.k + place),
    )


def _present(recipe: Recipe, legs: Mapping[Leg, LegHits]) -> list[RecipeLeg]:
    return [use for use in recipe.legs if use.leg in legs]


def _one_list(recipe: Recipe, legs: Mapping[Leg, LegHits], weights: Weights) -> list[Candidate]:
    """Algorithm 1: a global rank r(e) by similarity, s(e) = α_type / (k + r(e)), ties by smaller r(e)."""
    found = [
        (-score, legs[use.leg].entity_ids[at], at, use)
        for use in _present(recipe, legs)
        for at, score in enumerate(legs[use.leg].scores)
    ]
    found.sort(key=itemgetter(0, 1))
    votes = [
        (legs[use.leg].owner_ids[at], _vote(use, legs[use.leg], at, place, use.share * weights[use.kind]))
        for place, (_, _, at, use) in enumerate(found, start=1)
    ]
    votes.sort(key=lambda pair: (-pair[1].contribution, pair[1].rank))
    return _traverse(votes)


def _traverse(votes: Iterable[tuple[str, Vote]]) -> list[Candidate]:
    """Algorithm 1, lines 9–15: walk from each entity to its agent; distinct agents in order, each by its first."""
    first: dict[str, Vote] = {}
    for owner, vote in votes:
        first.setdefault(owner, vote)
    return [Candidate(owner, vote.contribution, (vote,)) for owner, vote in first.items()]
