"""Which sources claim an agent, and what of it a person on this machine vouched for by opening them."""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from waygraph.ingest.manifest.trust_store import VouchedFile, VouchedServer, launch_digest
from waygraph.registry.model.nouns import Agent
from waygraph.registry.registry import Registry


@dataclass(frozen=True, slots=True, kw_only=True)
class Claimed:
    """That a source claims an agent, under a key of its own."""

    source: str
    key: str
    is_live: bool


def claims_on(registry: Registry, agent_id: str) -> list[Claimed]:
    """By the source's name."""
    return [claim for claimed, claim in _claims(registry) if claimed == agent_id]


def all_claims(registry: Registry) -> dict[str, list[Claimed]]:
    """By agent id, those of each by the source's name."""
    claims: dict[str, list[Claimed]] = {}
    for agent_id, claim in _claims(registry):
        claims.setdefault(agent_id, []).append(claim)
    return claims


def _claims(registry: Registry) -> Iterator[tuple[str, Claimed]]:
    for source in registry.store.look(lambda index: list(index.sources())):
        for key, agent_id in source.claims:
            yield agent_id, Claimed(source=source.name, key=key, is_live=source.rank > 0)


def servers_vouched_for(
    vouched: VouchedFile, claims: Iterable[Claimed], agent: Agent
) -> Iterator[tuple[Claimed, VouchedServer]]:
    """Of live sources, where the launch is what the graph holds now. Raises StorageFailed."""
    held = launch_digest(agent.transport)
    for claim in claims:
        server = vouched.source(claim.source).servers.get(claim.key)
        if claim.is_live and server is not None and server.launch == held:
            yield claim, server


def origins_vouched_for(vouched: VouchedFile, claims: Iterable[Claimed], agent: Agent) -> set[str]:
    """The origins of addresses that gave the agent's card as the graph holds it now. Raises StorageFailed."""
    held = launch_digest(agent.transport)
    sources = [(vouched.source(claim.source), claim.key) for claim in claims]
    return {source.origin for source, key in sources if source.origin and source.cards.get(key) == held}


def places_vouched_for(vouched: VouchedFile, claims: Iterable[Claimed]) -> list[str]:
    """The files, folders and patterns that hold the agent's skill. Raises StorageFailed."""
    sources = (vouched.source(claim.source) for claim in claims)
    return [source.path for source in sources if source.path]
