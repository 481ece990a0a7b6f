"""A policy over one registry, for one caller: what it needs to know of the sources is read once."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING

from waygraph.registry.model import Agent, Principal, Tool
from waygraph.registry.policy import FREE, CallPolicy, Judgement, judge

if TYPE_CHECKING:
    from waygraph.registry.registry import Registry


@dataclass(frozen=True, slots=True, kw_only=True)
class Judging:
    """Of the agents as they are now: made anew for each answer and each call."""

    policy: CallPolicy
    principal: Principal | None
    claims: Mapping[str, frozenset[str]]
    """Agent id → names of the sources that claim it; empty where the policy names no source."""

    def judge(self, agent: Agent, tool: Tool, *, by_name: bool) -> Judgement:
        """See `policy.judge`."""
        sources = self.claims.get(agent.id, frozenset())
        return judge(agent, tool, self.policy, by_name=by_name, principal=self.principal, sources=sources)


def judging(registry: "Registry", policy: CallPolicy | None, principal: Principal | None) -> Judging:
    """Without a policy the one that says nothing holds."""
    policy = policy or FREE
    claims = _claims(registry, principal) if policy.names_sources else {}
    return Judging(policy=policy, principal=principal, claims=claims)


def _claims(registry: "Registry", principal: Principal | None) -> dict[str, frozenset[str]]:
    claims: dict[str, set[str]] = {}
    for source in registry.sources(principal=principal):
        for agent_id in source.agent_ids:
            claims.setdefault(agent_id, set()).add(source.name)
    return {agent_id: frozenset(names) for agent_id, names in claims.items()}
