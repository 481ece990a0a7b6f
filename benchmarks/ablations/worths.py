"""What `hybrid` makes of scores, over whole matrices: see `waygraph.registry.routing.fusion`."""

from collections.abc import Mapping

import numpy as np

from benchmarks.ablations.case import Case, Matrix
from waygraph.registry.index.search_index import Leg
from waygraph.registry.routing.fusion import DEVIATIONS
from waygraph.registry.routing.recipes import HYBRID

LEGS: tuple[Leg, ...] = ("capability_vector", "agent_vector", "capability_text", "agent_text")
SHARES = tuple({use.leg: use.share for use in HYBRID.legs}[leg] for leg in LEGS)


def hybrid(
    case: Case,
    *,
    agent_cosines: Matrix | None = None,
    capability_cosines: Matrix | None = None,
    worths: Mapping[Leg, Matrix] | None = None,
) -> Matrix:
    """(queries, agents); what is given takes the place of the case's own, cosines or a leg's worths. Names are left
    out."""
    own = dict(zip(LEGS, worths_of(case, agent_cosines, capability_cosines), strict=True))
    own.update(worths or {})
    return np.asarray(sum(share * own[leg] for leg, share in zip(LEGS, SHARES, strict=True)), dtype=np.float32)


def worths_of(
    case: Case, agent_cosines: Matrix | None = None, capability_cosines: Matrix | None = None
) -> tuple[Matrix, ...]:
    """What each of `LEGS` gives every agent, (queries, agents) each."""
    best = case.catalogue.best_of_owner
    capabilities = case.capability_cosines if capability_cosines is None else capability_cosines
    agents = case.agent_cosines if agent_cosines is None else agent_cosines
    return (
        best(above_the_last(capabilities)),
        above_the_last(agents),
        worth_of_words(best(among_the_best(case.capability_words))),
        worth_of_words(among_the_best(case.agent_words)),
    )


def above_the_last(scores: Matrix) -> Matrix:
    """By how much they are above the last candidate's, where more are there than are read; 0 below it."""
    floor = _last_read(scores) if scores.shape[1] > HYBRID.depth else 0.0
    return np.maximum(scores - np.maximum(floor, 0.0), 0.0).astype(np.float32)


def worth_of_words(scores: Matrix) -> Matrix:
    """In standard deviations over all agents: ten are 1, which is the most."""
    worth: Matrix = (scores / scale_of_words(scores)).astype(np.float32)
    return worth


def scale_of_words(scores: Matrix) -> Matrix:
    """The score that is worth 1, (queries, 1), above 0."""
    scale: Matrix = np.maximum(DEVIATIONS * scores.std(axis=1, keepdims=True), scores.max(axis=1, keepdims=True))
    return np.maximum(scale, 1e-9)


def among_the_best(scores: Matrix) -> Matrix:
    """0 for what is behind the candidates that are read."""
    if scores.shape[1] <= HYBRID.depth:
        return scores
    return np.where(scores >= _last_read(scores), scores, 0).astype(np.float32)


def _last_read(scores: Matrix) -> Matrix:
    """The score of the last candidate, (queries, 1)."""
    last: Matrix = np.partition(scores, -HYBRID.depth, axis=1)[:, -HYBRID.depth][:, None]
    return last
