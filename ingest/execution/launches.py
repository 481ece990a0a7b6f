"""How the server of an agent is started or reached for a call, with every reference resolved.

Only what a person on this machine had us ask before (`ingest.vouched`) is started or reached. The graph says which
source claims the agent, and of a live source alone (rank 1) that counts; the file of what was vouched for says that
somebody here opened that source, that this key of it was asked, and what its launch was. All of it must fit the agent
as the graph holds it now. Rank by itself proves nothing: a restored export says its own, a part that was read from a
catalogue stands in a source whose other parts are alive, and a registry may be a copy that somebody sent.
"""

import json
from dataclasses import dataclass, field, replace
from pathlib import Path

import anyio
from anyio import to_thread
from cachetools import FIFOCache

from waygraph.ingest.execution.availability import HOW_TO_NAME
from waygraph.ingest.execution.claims import Claimed, claims_on, servers_vouched_for
from waygraph.ingest.execution.pool import MOST_AGENTS
from waygraph.ingest.manifest.environment import Scope, Surroundings
from waygraph.ingest.manifest.launch import HttpLaunch, Launch, StdioLaunch
from waygraph.ingest.manifest.records import Refusal
from waygraph.ingest.manifest.trust_store import VouchedFile, VouchedServer
from waygraph.ingest.sources.formats.configured_server import Faulty, launch_of, read_server
from waygraph.ingest.sources.formats.mcp_config import config_entry
from waygraph.registry.model.errors import NotCallable, SourceError
from waygraph.registry.model.nouns import Agent
from waygraph.registry.model.settings import Settings
from waygraph.registry.registry import Registry

FRESH_S = 1.0
"""So long a launch counts as it was found: calls that come one after the other do not each read files."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Launches:
    """Launches of the agents of a registry. `surroundings` resolve references at each launch."""

    registry: Registry
    settings: Settings
    surroundings: Surroundings = field(repr=False)
    vouched: VouchedFile
    _known: FIFOCache[str, "_Known"] = field(default_factory=lambda: FIFOCache(MOST_AGENTS), repr=False)

    async def fresh(self, agent: Agent) -> Launch:
        """As it was at most FRESH_S ago. Raises as `of`."""
        self._known[agent.id] = known = self._known.get(agent.id) or _Known()
        if launch := known.fresh(agent):
            return launch
        async with known.lock:
            if launch := known.fresh(agent):
                return launch
            known.launch, now = None, anyio.current_time()
            known.launch = launch = await to_thread.run_sync(self.of, agent, abandon_on_cancel=True)
            known.transport, known.at = agent.transport, now
            return launch

    def of(self, agent: Agent) -> Launch:
        """Reads files, and on a server the database.

        Raises NotCallable, whose text holds names of variables and no value; RegistryError, StorageFailed.
        """
        claims = claims_on(self.registry, agent.id)
        faults: list[str] = []
        for claim, server in servers_vouched_for(self.vouched, claims, agent):
            try:
                return self._launch(claim, server, agent)
            except (Faulty, SourceError, Refusal) as fault:
                faults.append(str(fault))  # another source may name the same server, and be as it was
        if faults:
            raise NotCallable(agent.id, f"its server cannot be started or reached: {'; '.join(faults)}")
        raise NotCallable(agent.id, _not_vouched(claims))

    def _launch(self, claim: Claimed, server: VouchedServer, agent: Agent) -> Launch:
        """Raises Faulty, SourceError, Refusal."""
        around = replace(self.surroundings, cwd=server.folder or self.surroundings.cwd)
        if server.config:
            launch = self._from_config(claim, server, around)
        else:
            launch = launch_of(read_server(json.loads(agent.transport)), Scope(surroundings=around))
        if isinstance(launch, HttpLaunch):
            return replace(launch, public=server.public, oauth=launch.oauth or server.oauth)
        return _where_it_was(launch, server.folder)

    def _from_config(self, claim: Claimed, server: VouchedServer, around: Surroundings) -> Launch:
        """The graph holds references in place of its values; the config has them."""
        entry = config_entry(server.config, claim.key, self.settings, around)
        if not server.written:
            reason = "was ingested when its values were not noted yet"
        elif self.vouched.digest_of(entry.written) != server.written:
            reason = "is another than was ingested"
        else:
            return entry.launch
        raise SourceError(server.config, f"server {claim.key!r} {reason}: look at it, and run `waygraph ingest` again")


@dataclass(slots=True)
class _Known:
    """A launch as it was found last. The lock keeps calls of one agent from looking for it all at once."""

    lock: anyio.Lock = field(default_factory=anyio.Lock)
    transport: str = ""
    at: float = 0.0
    launch: Launch | None = field(default=None, repr=False)

    def fresh(self, agent: Agent) -> Launch | None:
        """None: it has to be looked for."""
        is_old = anyio.current_time() - self.at > FRESH_S
        return None if self.transport != agent.transport or is_old else self.launch


def _where_it_was(launch: StdioLaunch, folder: str) -> StdioLaunch:
    """In the folder that it was asked in, if its config names none."""
    return launch if launch.cwd or not folder or not Path(folder).is_dir() else replace(launch, cwd=folder)


def _not_vouched(claims: list[Claimed]) -> str:
    if not any(claim.is_live for claim in claims):
        return (
            "it is known from a catalogue only, and what only a catalogue, a document or a service's caller names is "
            f"never started. Name its server on the machine of this gateway: {HOW_TO_NAME}"
        )
    names = ", ".join(repr(claim.source) for claim in claims if claim.is_live)
    return (
        f"its server was not asked on this machine as it is held now (known from {names}). Run `waygraph ingest` here, "
        f"with the same data folder, for what you trust: {HOW_TO_NAME}"
    )
