"""Batches to the registry: what changed of each source in one sync, then how its servers are."""

import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace

from waygraph.ingest.sources.mcp_servers import entry_of
from waygraph.ingest.sources.reading import LIVE_RANK, Parts
from waygraph.ingest.sync import sync
from waygraph.ingest.watching.events import SourceFailed, SourceRead, Synced, WatchEvent
from waygraph.ingest.watching.inbox import Answer, Batch, Member
from waygraph.registry.changes import AgentEntry, Manifest, Policy, Rejected, SourceSummary
from waygraph.registry.errors import MassRemoval
from waygraph.registry.registry import Registry
from waygraph.registry.settings import Settings

CONFIRM_S = 3600.0
"""After so long an unchanged server's claim is confirmed once more."""


class Abandoned(Exception):
    """A write was ended before it changed anything, since the watch is to stop."""


@dataclass(slots=True, kw_only=True)
class Writer:
    """Writes one batch at a time, in whichever thread calls. What it wrote once it does not write again."""

    registry: Registry
    settings: Settings
    tell: Callable[[WatchEvent], None]
    policy: Policy | None = None
    allow_mass_removal: bool = False
    stopping: bool = False
    _said: dict[str, Parts] = field(default_factory=dict)
    _with_servers: set[str] = field(default_factory=set)
    """Sources that name, or named, servers: they are written in parts."""
    _written: dict[Member, tuple[str, float]] = field(default_factory=dict)
    """The bundle hash that was written last of each server, and when."""
    _statuses: dict[str, str] = field(default_factory=dict)
    """By agent id, as they were put last."""

    def write(self, batch: Batch) -> None:
        """May be called again with the same batch after an error of the registry, which it raises. Raises Abandoned."""
        for source, said in batch.said.items():
            self._said[source] = said
            self._tell_read(source, said)
        for source in dict.fromkeys([*batch.said, *(source for source, _ in batch.answers)]):
            self._write_source(source, batch)
        self._put_statuses(batch.statuses)

    def _tell_read(self, source: str, said: Parts) -> None:
        manifest = said.manifest
        agents, rejected = len(manifest.entries), len(manifest.rejected)
        self.tell(SourceRead(source=source, servers=len(said.servers), agents=agents, rejected=rejected))

    def _write_source(self, source: str, batch: Batch) -> None:
        said = self._said[source]
        if not said.servers and source not in self._with_servers:
            self._sync(self._under_policy(said.manifest))
            return
        self._with_servers.add(source)
        named = {server.key for server in said.servers}
        answers = [answer for (of, key), answer in batch.answers.items() if of == source and key in named]
        self._sync_part(said, [self._read(answer) for answer in answers], whole=source in batch.said)

    def _sync_part(self, said: Parts, read: "list[_Read]", *, whole: bool) -> None:
        """`whole`: the source was read anew, so that what it says by itself counts, and what it names no more goes."""
        manifest, now = said.manifest, time.monotonic()
        fresh = [part for part in read if self._is_news(manifest.source, part, now)]
        own = self._own_word(said, read) if whole else replace(manifest, entries=(), rejected=(), cut=())
        part = replace(
            own,
            entries=(*own.entries, *(part.entry for part in fresh if part.entry)),
            rejected=(*own.rejected, *(fault for part in fresh for fault in part.rejected)),
            cut=(*own.cut, *(cut for part in fresh for cut in part.cut)),
            partial=True,
            rank=LIVE_RANK,
        )
        if part.entries or part.rejected:
            self._sync(self._under_policy(part))
        for each in fresh:
            self._written[manifest.source, each.key] = (each.hash, now)
        if whole and not manifest.partial:
            self._remove_gone(said)

    def _own_word(self, said: Parts, read: "list[_Read]") -> Manifest:
        """What the source says of agents that have not answered for themselves."""
        source = said.manifest.source
        silent = {entry.key for entry in said.manifest.entries} - {part.key for part in read}
        silent -= {key for of, key in self._written if of == source}
        return replace(said.manifest, entries=tuple(e for e in said.manifest.entries if e.key in silent))

    def _remove_gone(self, said: Parts) -> None:
        """Apart from what is new: a removal that is refused keeps nothing else back."""
        manifest = said.manifest
        named = {server.key for server in said.servers} | {entry.key for entry in manifest.entries}
        kept = named | {fault.key for fault in manifest.rejected}
        gone = sorted({key for key, _ in self._claims(manifest.source)} - kept)
        for key in gone:
            self._written.pop((manifest.source, key), None)
        if gone:
            nothing = replace(manifest, entries=(), rejected=(), cut=(), partial=True, rank=LIVE_RANK)
            self._sync(self._under_policy(replace(nothing, gone=tuple(gone))))

    def _under_policy(self, manifest: Manifest) -> Manifest:
        return replace(manifest, policy=self.policy or manifest.policy)

    def _is_news(self, source: str, part: "_Read", now: float) -> bool:
        known, at = self._written.get((source, part.key), ("", 0.0))
        return part.hash != known or now - at >= CONFIRM_S

    def _read(self, answer: Answer) -> "_Read":
        entry, rejected, cut = entry_of(answer.server, answer.listing, self.settings)
        return _Read(answer.server.key, entry, tuple(rejected), tuple(cut))

    def _sync(self, manifest: Manifest) -> None:
        try:
            report = sync(
                self.registry, manifest, allow_mass_removal=self.allow_mass_removal, progress=self._abandon_if_stopping
            )
        except MassRemoval as error:
            self.tell(SourceFailed(source=manifest.source, reason=str(error)))
            return
        if not report.changes.is_empty or report.changes.rejected:
            self.tell(Synced(report=report))

    def _abandon_if_stopping(self, done: int, total: int) -> None:  # noqa: ARG002 - it is called with how far it is
        if self.stopping:
            raise Abandoned

    def _put_statuses(self, statuses: Mapping[Member, str]) -> None:
        """Of the agents that the registry holds; a server that never answered is none yet."""
        sources = {source for source, _ in statuses}
        ids = {(source, key): agent_id for source in sources for key, agent_id in self._claims(source)}
        said = {ids[member]: status for member, status in statuses.items() if member in ids}
        changed = {agent_id: status for agent_id, status in said.items() if self._statuses.get(agent_id) != status}
        if changed:
            self.registry.put_statuses(changed)
            self._statuses |= changed

    def _claims(self, source: str) -> tuple[tuple[str, str], ...]:
        if not self.registry.exists:
            return ()
        found: SourceSummary | None = next((each for each in self.registry.sources() if each.name == source), None)
        return found.claims if found else ()


@dataclass(frozen=True, slots=True)
class _Read:
    """What became of a listing: an entry, unless it was refused whole."""

    key: str
    entry: AgentEntry | None
    rejected: tuple[Rejected, ...]
    cut: tuple[Rejected, ...]

    @property
    def hash(self) -> str:
        return self.entry.bundle_hash if self.entry else f"rejected {self.rejected}"
