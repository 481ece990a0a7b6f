"""Whether the tools of an agent can be run from here at all: told with what is found, before anybody calls.

It looks at what is written down (who claims the agent, what was vouched for, what an operator configured) and starts
and asks nothing: what it lets pass may still fail, and then the call says why.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field

from waygraph.ingest.execution.services import (
    Claimed,
    Services,
    all_claims,
    origins_vouched_for,
    places_vouched_for,
    servers_vouched_for,
)
from waygraph.ingest.manifest.trust_store import VouchedFile
from waygraph.registry.model.errors import StorageFailed
from waygraph.registry.model.nouns import Agent
from waygraph.registry.registry import Registry

HOW_TO_NAME = "`waygraph ingest -- COMMAND`, `waygraph ingest https://HOST/mcp` or `waygraph ingest CONFIG.json`"
OF_A_CATALOGUE = "it is known from a catalogue only"
NOT_ASKED_HERE = "its server was not asked on this machine as it is held now"
NOT_CONFIGURED = "where its service is was not configured here"
NOT_NAMED_HERE = "nobody named its address on this machine"
NOT_READ_HERE = "its folder was not ingested on this machine"
TO_DO: Mapping[str, str] = {
    OF_A_CATALOGUE: f"name its server on the machine of this gateway: {HOW_TO_NAME}",
    NOT_ASKED_HERE: f"run `waygraph ingest` on the machine of this gateway: {HOW_TO_NAME}",
    NOT_CONFIGURED: "write it into the services file of this gateway (WAYGRAPH_SERVICES_FILE)",
    NOT_NAMED_HERE: "ingest its card by its address on the machine of this gateway",
    NOT_READ_HERE: "ingest it on the machine of this gateway",
}
"""For each reason what helps."""


@dataclass(slots=True)
class Reach:
    """Of the agents of a registry. Threads may share it.

    What was vouched for and cannot be read stands against nobody: a call will tell it.
    """

    registry: Registry
    services: Services
    vouched: VouchedFile
    _kept: "tuple[object, ReachNow] | None" = field(default=None, repr=False)

    def now(self) -> "ReachNow":
        """As things stand. Raises RegistryNotFound."""
        stamp, kept = (self.registry.stamp, self.stamp), self._kept
        if kept is None or kept[0] != stamp:
            self._kept = kept = stamp, ReachNow(self.services, self.vouched, all_claims(self.registry))
        return kept[1]

    @property
    def stamp(self) -> object:
        """Another value where a person here may have vouched for something else."""
        try:
            return self.vouched.stamp
        except StorageFailed:
            return None


@dataclass(frozen=True, slots=True)
class ReachNow:
    """Good as long as neither the registry nor what was vouched for changes."""

    services: Services
    vouched: VouchedFile
    claims: Mapping[str, list[Claimed]]
    _reasons: dict[str, str] = field(default_factory=dict, repr=False)

    def why_not(self, agent: Agent) -> str:
        """Why nothing here runs the agent's tools; empty: it can be tried."""
        if (reason := self._reasons.get(agent.id)) is None:
            try:
                reason = self._reason(agent, self.claims.get(agent.id, []))
            except StorageFailed:
                return ""
            self._reasons[agent.id] = reason
        return reason

    def _reason(self, agent: Agent, claims: list[Claimed]) -> str:
        match agent.kind:
            case "mcp_server":
                return self._of_server(agent, claims)
            case "openapi":
                return "" if self._is_configured(agent, claims) else NOT_CONFIGURED
            case "a2a_agent":
                named = self._is_configured(agent, claims) or origins_vouched_for(self.vouched, claims, agent)
                return "" if named else NOT_NAMED_HERE
            case "skill":
                return "" if places_vouched_for(self.vouched, claims) else NOT_READ_HERE
        return f"nothing here runs tools of a {agent.kind} agent"

    def _of_server(self, agent: Agent, claims: list[Claimed]) -> str:
        if any(servers_vouched_for(self.vouched, claims, agent)):
            return ""
        return NOT_ASKED_HERE if any(claim.is_live for claim in claims) else OF_A_CATALOGUE

    def _is_configured(self, agent: Agent, claims: list[Claimed]) -> bool:
        sources = (claim.source for claim in claims)
        return bool(self.services.of_agent(agent.id) or self.services.of_source(sources))
