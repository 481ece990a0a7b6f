"""Legs to ranked candidates: type-weighted reciprocal-rank fusion and the walk from tools to agents. Pure.

Source: Nizar et al., "Agent-as-a-Graph", Equation 3 and Algorithm 1.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

from waygraph.registry.index.search_index import Leg, LegHits
from waygraph.registry.model import EntityKind, Vote
from waygraph.registry.routing.recipes import Recipe, RecipeLeg


@dataclass(slots=True)
class Candidate:
    """An agent, or a tool, that votes speak for. `entities`: what was found of it, best first, without repeats."""

    id: str
    score: float = 0.0
    votes: list[Vote] = field(default_factory=list)
    entities: dict[str, None] = field(default_factory=dict)

    def add(self, vote: Vote) -> None:
        self.votes.append(vote)
        self.score += vote.contribution


def rank(candidates: Iterable[Candidate]) -> list[Candidate]:
    """The one place of order: by score, then by smaller best rank, then by id."""
    return sorted(candidates, key=lambda c: (-c.score, min((v.rank for v in c.votes), default=0), c.id))


def fuse_agents(recipe: Recipe, legs: Mapping[Leg, LegHits], weights: Mapping[EntityKind, float]) -> list[Candidate]:
    """Agents, best first. `weights`: α of Equation 3 per entity kind."""
    if recipe.merge == "one_list":
        return _one_list(recipe, legs, weights)
    return rank(_by_owner(recipe, legs, weights, own=False))


def fuse_tools(recipe: Recipe, legs: Mapping[Leg, LegHits], weights: Mapping[EntityKind, float]) -> list[Candidate]:
    """Tools, best first: each leg's rank of the tool itself, and of its agent where the leg ranks agents."""
    tools = _by_owner(recipe, legs, weights, own=True)
    agents = {c.id: c for c in tools if "/" not in c.id}
    ranked = [c for c in tools if "/" in c.id]
    for candidate in ranked:
        owner = agents.get(candidate.id.partition("/")[0])
        for vote in owner.votes if owner else ():
            candidate.add(vote)
    return rank(ranked)


def _by_owner(
    recipe: Recipe, legs: Mapping[Leg, LegHits], weights: Mapping[EntityKind, float], *, own: bool
) -> list[Candidate]:
    """One vote a leg for each owner (or, with `own`, each entity), by the order of first appearance."""
    candidates: dict[str, Candidate] = {}
    for use in recipe.legs:
        hits = legs.get(use.leg)
        if hits is not None:
            _count_leg(candidates, use, hits, use.share * weights[use.kind], own=own)
    return list(candidates.values())


def _count_leg(candidates: dict[str, Candidate], use: RecipeLeg, hits: LegHits, weight: float, *, own: bool) -> None:
    seen: set[str] = set()
    for entity, owner, score in zip(hits.entity_ids, hits.owner_ids, hits.scores, strict=True):
        target = entity if own else owner
        candidate = candidates.get(target)
        if candidate is None:
            candidate = candidates[target] = Candidate(target)
        if entity != owner:
            candidate.entities[entity] = None
        if target not in seen:
            seen.add(target)
            # Whoever is named outright is named as much as the next: no rank among them.
            place = 1 if use.leg == "name" else len(seen)
            candidate.add(_vote(entity, owner, use.leg, place, score, weight, use.k))


def _vote(entity: str, owner: str, leg: Leg, place: int, score: float, weight: float, k: float) -> Vote:
    return Vote(
        entity_id=entity,
        kind="agent" if entity == owner else "tool",
        leg=leg,
        rank=place,
        score=score,
        weight=weight,
        contribution=weight / (k + place),
    )


def _one_list(recipe: Recipe, legs: Mapping[Leg, LegHits], weights: Mapping[EntityKind, float]) -> list[Candidate]:
    """Algorithm 1: a global rank r(e) by similarity, s(e) = α_type / (k + r(e)), first entity of each agent counts."""
    found = [
        (score, use, entity, owner)
        for use in recipe.legs
        if use.leg in legs
        for entity, owner, score in zip(
            legs[use.leg].entity_ids, legs[use.leg].owner_ids, legs[use.leg].scores, strict=True
        )
    ]
    found.sort(key=lambda hit: (-hit[0], hit[2]))
    voted = [
        (owner, _vote(entity, owner, use.leg, place, score, use.share * weights[use.kind], use.k))
        for place, (score, use, entity, owner) in enumerate(found, start=1)
    ]
    voted.sort(key=lambda pair: (-pair[1].contribution, pair[1].rank))
    return _traverse(voted)


def _traverse(voted: Iterable[tuple[str, Vote]]) -> list[Candidate]:
    """Algorithm 1, lines 9–15: walk from each entity to its agent; distinct agents in order."""
    agents: dict[str, Candidate] = {}
    for owner, vote in voted:
        if owner not in agents:
            agents[owner] = Candidate(owner)
            agents[owner].add(vote)
        if vote.kind == "tool":
            agents[owner].entities[vote.entity_id] = None
    return list(agents.values())
