"""Who claims what, as one source sees it: its own claims, those of the others, and whose word counts."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from waygraph.registry.changes import STRICTNESS, Claim, Manifest, Policy
from waygraph.registry.graph.reading import Held
from waygraph.registry.speaking import speaks


@dataclass(frozen=True, slots=True, kw_only=True)
class Claims:
    """`mine`: the source's own claim by agent id. `others`: all other claims, by agent id."""

    source: str
    rank: int
    mine: Mapping[str, Claim]
    others: Mapping[str, Sequence[Claim]]

    @classmethod
    def of(cls, held: Held, manifest: Manifest) -> "Claims":
        mine: dict[str, Claim] = {}
        others: dict[str, list[Claim]] = {}
        for claim in held.claims:
            if claim.source == manifest.source:
                mine[claim.agent_id] = claim
            else:
                others.setdefault(claim.agent_id, []).append(claim)
        return cls(source=manifest.source, rank=manifest.rank, mine=mine, others=others)

    def speaks_for(self, agent_id: str) -> bool:
        """Whether this source's word counts for a shared agent. One that it does not claim yet it claims last."""
        new = Claim(source=self.source, agent_id=agent_id, key="", hash="", since="~")
        return speaks(replace(self.mine.get(agent_id, new), rank=self.rank), self.others.get(agent_id, ()))

    def live_policies(self, held: Held, agent_id: str) -> list[Policy]:
        """Those of the other live sources of an agent, if this one is live too: any of them may speak for it."""
        others = [claim for claim in self.others.get(agent_id, ()) if min(claim.rank, self.rank) > 0]
        return [held.policy_of(claim.source) for claim in others]


def strictest(policies: Sequence[Policy]) -> Policy:
    return max(policies, key=STRICTNESS.index)
