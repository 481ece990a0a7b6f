"""Batches to the registry: what changed of each source in one sync, then how its servers are."""

import time
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass, field, replace
from hashlib import sha256

import anyio

from waygraph.ingest.manifest.records import ServerEntry
from waygraph.ingest.sources.mcp_servers import LIVE_RANK, Answer, entry_of
from waygraph.ingest.sources.read import Parts
from waygraph.ingest.sync.apply import Member, put_statuses, sync
from waygraph.ingest.upstream.connection import ServerListing
from waygraph.ingest.watch.events import SourceFailed, SourceRead, Synced, WatchEvent
from waygraph.registry.model.changes import AgentEntry, Manifest, Policy, Rejected, SourceSummary
from waygraph.registry.model.errors import MassRemoval
from waygraph.registry.model.settings import Settings
from waygraph.registry.registry import Registry

# What waits to be written: gathered while a batch is being written, the newest word of each counting.


@dataclass(frozen=True, slots=True)
class Offer:
    """What a server offers, and what its source says of it."""

    server: ServerEntry
    listing: ServerListing = field(repr=False)


@dataclass(frozen=True, slots=True)
class Batch:
    """Sources that were read, what servers offer, and how they are."""

    said: dict[str, Parts] = field(default_factory=dict)
    offers: dict[Member, Offer] = field(default_factory=dict)
    statuses: dict[Member, str] = field(default_factory=dict)

    @property
    def is_empty(self) -> bool:
        return not (self.said or self.offers or self.statuses)


class Inbox:
    """Used in one event loop."""

    def __init__(self) -> None:
        self._next = Batch()
        self._filled = anyio.Event()

    def say(self, source: str, said: Parts) -> None:
        self._next.said[source] = said
        self._filled.set()

    def offer(self, member: Member, offer: Offer) -> None:
        self._next.offers[member] = offer
        self._filled.set()

    def status(self, member: Member, status: str) -> None:
        self._next.statuses[member] = status
        self._filled.set()

    @property
    def is_empty(self) -> bool:
        return self._next.is_empty

    async def take(self) -> Batch:
        """All that waits, once there is something."""
        await self._filled.wait()
        batch, self._next, self._filled = self._next, Batch(), anyio.Event()
        return batch

    def put_back(self, batch: Batch) -> None:
        """What could not be written, unless something newer is known."""
        newer = self._next
        self._next = Batch(
            said=batch.said | newer.said,
            offers=batch.offers | newer.offers,
            statuses=batch.statuses | newer.statuses,
        )
        if not self._next.is_empty:
            self._filled.set()


CONFIRM_S = 3600.0
"""After so long the claims of a source of which nothing changed are confirmed once more."""


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
    _written: dict[Member, str] = field(default_factory=dict)
    """What each server said when it was written last, as a hash."""
    _confirmed: dict[str, float] = field(default_factory=dict)
    """When the claims of each source were, by the clock of `monotonic`."""

    def write(self, batch: Batch) -> None:
        """May be called again with the same batch after an error of the registry, which it raises. Raises Abandoned."""
        for source, said in batch.said.items():
            if said is not self._said.get(source):  # else it is told already, and written again
                self._said[source] = said
                self._tell_read(source, said)
        for source in dict.fromkeys([*batch.said, *(source for source, _ in batch.offers)]):
            self._write_source(source, batch)
        put_statuses(self.registry, batch.statuses)

    def _tell_read(self, source: str, said: Parts) -> None:
        agents = sum(entry.key not in said.must_answer for entry in said.manifest.entries)
        rejected = len(said.manifest.rejected)
        self.tell(SourceRead(source=source, servers=len(said.servers), agents=agents, rejected=rejected))

    def _write_source(self, source: str, batch: Batch) -> None:
        said = self._said[source]
        if not said.servers and source not in self._with_servers:
            self._sync(self._under_policy(said.manifest))
            return
        self._with_servers.add(source)
        named = {server.key for server in said.servers}
        answers = {
            key: _answer(offer, source, self.settings)
            for (of, key), offer in batch.offers.items()
            if of == source and key in named
        }
        self._sync_part(said, answers, whole=source in batch.said)

    def _sync_part(self, said: Parts, answers: Mapping[str, Answer], *, whole: bool) -> None:
        """`whole`: the source was read anew, so that what it says by itself counts, and what it names no more goes."""
        manifest = said.manifest
        hashes = {key: _hash(answer) for key, answer in answers.items()}
        self._note_held(manifest.source, answers)
        fresh = [key for key in answers if self._is_news((manifest.source, key), hashes[key])]
        own = self._own_word(said, answers) if whole else replace(manifest, entries=(), rejected=(), cut=())
        documents = {entry.key: entry.document for entry in reversed(manifest.entries)}
        answered = [replace(each, document=documents.get(key, "")) for key in fresh if (each := answers[key].entry)]
        part = replace(
            own,
            entries=(*own.entries, *answered),
            rejected=(*own.rejected, *(fault for key in fresh for fault in answers[key].rejected)),
            cut=(*own.cut, *(cut for key in fresh for cut in answers[key].cut)),
            gone=(),
            partial=True,
            rank=LIVE_RANK,
        )
        if not (part.entries or part.rejected) or self._sync(self._under_policy(part)):
            self._written |= {(manifest.source, key): hashes[key] for key in fresh}
        if whole:
            self._remove_gone(said)

    def _own_word(self, said: Parts, answers: Collection[str]) -> Manifest:
        """What the source says by itself of agents that have not answered, and need not."""
        theirs = {key for source, key in self._written if source == said.manifest.source}
        theirs |= said.must_answer | set(answers)
        return replace(said.manifest, entries=tuple(e for e in said.manifest.entries if e.key not in theirs))

    def _remove_gone(self, said: Parts) -> None:
        """Apart from what is new: a removal that is refused keeps nothing else back.

        Of a source that was read in part only that is gone which it says so of.
        """
        manifest = said.manifest
        claimed = {key for key, _ in self._claims(manifest.source)}
        named = {server.key for server in said.servers} | {
            key for entry in manifest.entries for key in (entry.key, entry.key_in_document)
        }
        kept = claimed if manifest.partial else named | {fault.key for fault in manifest.rejected}
        gone = sorted(claimed - kept | claimed & set(manifest.gone))
        for key in gone:
            self._written.pop((manifest.source, key), None)
        if gone:
            nothing = replace(manifest, entries=(), rejected=(), cut=(), partial=True, rank=LIVE_RANK)
            self._sync(self._under_policy(replace(nothing, gone=tuple(gone))))

    def _under_policy(self, manifest: Manifest) -> Manifest:
        return replace(manifest, policy=self.policy or manifest.policy)

    def _is_news(self, member: Member, its_hash: str) -> bool:
        confirmed = self._confirmed.setdefault(member[0], time.monotonic())
        return its_hash != self._written.get(member) or time.monotonic() - confirmed >= CONFIRM_S

    def _note_held(self, source: str, answers: Mapping[str, Answer]) -> None:
        """What the registry holds from before this watch, and is as the servers say, needs no writing."""
        if self.policy is not None and source not in self._confirmed:
            return  # the policy is to be written
        unknown = [key for key in answers if (source, key) not in self._written]
        ids = dict(self._claims(source)) if unknown else {}
        for key in unknown:
            answer = answers[key]
            whole = answer.entry if not answer.rejected else None
            if whole and key in ids and self._held_hash(ids[key]) == whole.bundle_hash:
                self._written[source, key] = _hash(answer)

    def _held_hash(self, agent_id: str) -> str:
        agent, tools = self.registry.agent(agent_id), self.registry.tools(agent_id)
        return AgentEntry(key=agent_id, agent=agent, tools=tuple(tools)).bundle_hash

    def _sync(self, manifest: Manifest) -> bool:
        """Whether it was written: a removal of most of a source is refused, and told."""
        try:
            report = sync(
                self.registry, manifest, allow_mass_removal=self.allow_mass_removal, progress=self._abandon_if_stopping
            )
        except MassRemoval as error:
            self.tell(SourceFailed(source=manifest.source, reason=str(error)))
            return False
        self._confirmed[manifest.source] = time.monotonic()
        if not report.changes.is_empty or report.changes.rejected:
            self.tell(Synced(report=report))
        return True

    def _abandon_if_stopping(self, done: int, total: int) -> None:  # noqa: ARG002 - it is called with how far it is
        if self.stopping:
            raise Abandoned

    def _claims(self, source: str) -> tuple[tuple[str, str], ...]:
        if not self.registry.exists:
            return ()
        found: SourceSummary | None = next((each for each in self.registry.sources() if each.name == source), None)
        return found.claims if found else ()


def _answer(offer: Offer, source: str, settings: Settings) -> Answer:
    """What of a listing is taken. A fault in reading it costs this server alone."""
    try:
        return entry_of(offer.server, offer.listing, source, settings)
    except Exception as error:  # noqa: BLE001 - whatever a server may send, the others are written
        where = f"{source}#{offer.server.record.pointer}"
        return Answer(
            rejected=(Rejected(where=where, reason=f"unexpected {type(error).__name__}", key=offer.server.key),)
        )


def _hash(answer: Answer) -> str:
    """Equal means nothing changed, also of what was refused."""
    told = f"{answer.entry.bundle_hash if answer.entry else ''}\n{answer.rejected}"
    return sha256(told.encode("utf-8", "surrogatepass")).hexdigest()
