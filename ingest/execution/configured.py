"""What an operator configured for an agent, looked up by its id, else by the sources that claim it."""

from dataclasses import dataclass, field

from anyio import to_thread

from waygraph.ingest.execution.services import Login, Service, Services
from waygraph.ingest.execution.trust_store import claims_on
from waygraph.ingest.manifest.environment import Surroundings
from waygraph.ingest.manifest.launch import HttpLaunch
from waygraph.ingest.manifest.redaction import discretion
from waygraph.registry.model.nouns import Agent
from waygraph.registry.registry import Registry


@dataclass(frozen=True, slots=True, kw_only=True)
class Configured:
    """`surroundings` resolve references at each call."""

    registry: Registry
    services: Services
    surroundings: Surroundings = field(repr=False)

    async def service(self, agent: Agent) -> Service | None:
        """None: nothing is configured. Raises RegistryError."""
        if (own := self.services.of_agent(agent.id)) or not self.services.name_sources:
            return own
        claims = await to_thread.run_sync(claims_on, self.registry, agent.id)
        return self.services.of_source(claim.source for claim in claims)

    def place_of(self, service: Service) -> str:
        """Where an entry stands, for a person."""
        return f"[[service]] of {service.agent or service.source!r} in {self.services.place}"


def confidential(login: Login, address: str) -> tuple[str, ...]:
    """What no text of a result or an error shows, longest first: the login, and what of it stands for itself."""
    return discretion(HttpLaunch(url=address, confidential=login.confidential)).secrets
