"""Whose word counts for an agent that several sources claim."""

from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import TYPE_CHECKING

from waygraph.registry.model.changes import Claim

if TYPE_CHECKING:
    from waygraph.registry.graph.read import Held


def speaks(claim: Claim, others: Iterable[Claim]) -> bool:
    """Whether the claim's source speaks for the agent, beside the agent's other claims.

    A live source speaks before a catalogue. Of live ones that asked last speaks: what they tell of is one server.
    Of catalogues it is the earliest claim.
    """
    if claim.rank > 0:
        return all(other.rank <= claim.rank for other in others)
    return all(_turn(claim) <= _turn(other) for other in others)


def unheard(held: "Held", source: str, released: Collection[str]) -> tuple[str, ...]:
    """The other sources, in order, that speak for one of these agents once `source` claims them no more, and say
    something else than is held. Of what each says the graph keeps only a hash: they must be read again.
    """
    left = _left(held, source, released)
    speaking = {agent_id: [each for each in claims if speaks(each, claims)] for agent_id, claims in left.items()}
    return tuple(sorted({each.source for claims in speaking.values() if not _is_held(held, claims) for each in claims}))


def _turn(claim: Claim) -> tuple[int, str, str]:
    return -claim.rank, claim.since, claim.source


def _left(held: "Held", source: str, released: Collection[str]) -> Mapping[str, Sequence[Claim]]:
    """The claims of other sources on these agents, by agent id."""
    agents = set(released)
    if not agents:
        return {}
    left: dict[str, list[Claim]] = {}
    for claim in held.claims:
        if claim.agent_id in agents and claim.source != source:
            left.setdefault(claim.agent_id, []).append(claim)
    return left


def _is_held(held: "Held", claims: Sequence[Claim]) -> bool:
    """Whether one of these claims of an agent says what is held."""
    return any(claim.hash == held.agents[claim.agent_id].bundle_hash for claim in claims)
