"""Whether the tools of an agent can be run from here at all: told with what is found, before anybody calls.

It looks at what is written down (who claims the agent, what was vouched for, what an operator configured) and starts
and asks nothing: what it lets pass may still fail, and then the call says why.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field

from waygraph.ingest.calling.launches import Claimed, all_claims
from waygraph.ingest.calling.services import Services
from waygraph.ingest.vouched import VouchedFile, launch_digest
from waygraph.registry.errors import StorageFailed
from waygraph.registry.model import Agent
from waygraph.registry.registry import Registry

OF_A_CATALOGUE = "it is known from a catalogue only"
NOT_ASKED_HERE = "its server was not asked on this machine as it is held now"
NOT_CONFIGURED = "where its service is was not configured here"
NOT_NAMED_HERE = "nobody named its address on this machine"
NOT_READ_HERE = "its folder was not ingested on this machine"


@dataclass(slots=True)
class Reach:
    """Of the agents of a registry. Threads may share it.

    What was vouched for and cannot be read stands against nobody: a call will tell it.
    """

    registry: Registry
    services: Services
    vouched: VouchedFile
    _known: "_Known | None" = field(default=None, repr=False)

    def now(self) -> "ReachNow":
        """As things stand. Raises RegistryNotFound."""
        stamp = self.registry.stamp, self.stamp
        known = self._known
        if known is None or known.stamp != stamp:
            self._known = known = _Known(stamp, all_claims(self.registry), {})
        return ReachNow(self.services, self.vouched, known)

    @property
    def stamp(self) -> object:
        """Another value where a person here may have vouched for something else."""
        try:
            return self.vouched.stamp
        except StorageFailed:
            return None


@dataclass(frozen=True, slots=True)
class _Known:
    """What was found while nothing changed."""

    stamp: object
    claims: Mapping[str, list[Claimed]]
    reasons: dict[str, str]


@dataclass(frozen=True, slots=True)
class ReachNow:
    services: Services
    vouched: VouchedFile
    known: _Known

    def why_not(self, agent: Agent) -> str:
        """Why nothing here runs the agent's tools; empty: it can be tried."""
        if (reason := self.known.reasons.get(agent.id)) is None:
            try:
                reason = self._reason(agent, self.known.claims.get(agent.id, []))
            except StorageFailed:
                return ""
            self.known.reasons[agent.id] = reason
        return reason

    def _reason(self, agent: Agent, claims: list[Claimed]) -> str:
        match agent.kind:
            case "mcp_server":
                return self._of_server(agent, claims)
            case "openapi":
                return "" if self._is_configured(agent, claims) else NOT_CONFIGURED
            case "a2a_agent":
                return "" if self._is_configured(agent, claims) or self._has_card(agent, claims) else NOT_NAMED_HERE
            case "skill":
                return "" if any(self.vouched.source(claim.source).path for claim in claims) else NOT_READ_HERE
        return f"nothing here runs tools of a {agent.kind} agent"

    def _of_server(self, agent: Agent, claims: list[Claimed]) -> str:
        live, held = [claim for claim in claims if claim.is_live], launch_digest(agent.transport)
        for claim in live:
            server = self.vouched.source(claim.source).servers.get(claim.key)
            if server is not None and server.launch == held:
                return ""
        return NOT_ASKED_HERE if live else OF_A_CATALOGUE

    def _is_configured(self, agent: Agent, claims: list[Claimed]) -> bool:
        if self.services.of_agent(agent.id):
            return True
        return self.services.of_source(claim.source for claim in claims) is not None

    def _has_card(self, agent: Agent, claims: list[Claimed]) -> bool:
        held = launch_digest(agent.transport)
        return any(self.vouched.source(claim.source).cards.get(claim.key) == held for claim in claims)
