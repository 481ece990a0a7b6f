"""Batches to the registry: what changed of each source in one sync, then how its servers are."""

import time
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass, field, replace
from functools import partial
from hashlib import sha256

import anyio

from waygraph.ingest.manifest.records import Manifest, ServerEntry
from waygraph.ingest.sources.mcp_servers import LIVE_RANK, Answer, entry_of
from waygraph.ingest.sources.read import Parts
from waygraph.ingest.sync.apply import Member, put_statuses, sync
from waygraph.ingest.upstream.connection import Clock, ServerListing, first_of
from waygraph.ingest.watch.events import SourceFailed, SourceRead, SourceSynced, WatchEvent
from waygraph.registry.model.changes import (
    AgentEntry,
    Policy,
    Rejected,
    SourceSummary,
    bounded_key,
    server_key,
    status_of_fault,
)
from waygraph.registry.model.errors import MassRemoval
from waygraph.registry.model.nouns import ONLINE
from waygraph.registry.storage.local_registry import LocalRegistry

FREE_REVISIONS = 5
"""So many follow one another at once: a person who edits a file waits for nothing."""
FIRST_PAUSE_S, MOST_PAUSE_S = 1.0, 300.0
RECOVER_S = 600.0
"""After so long one revision of a source counts no more."""
_MOST_COUNTED = FREE_REVISIONS + 9.0
"""By then the pause is the longest: what changed for a year recovers as fast as what changed for an hour."""


@dataclass(slots=True)
class _Rate:
    revisions: float = 0.0
    """The revisions of late."""
    at_s: float = 0.0

    def count_now(self, now_s: float) -> float:
        return max(0.0, self.revisions - (now_s - self.at_s) / RECOVER_S)


@dataclass(slots=True)
class Intervals:
    """The least time from one revision of a source to the next, by a clock of which the caller tells the seconds.

    Each revision of a registry costs a new index, and a server may change one word each second. The pause doubles with
    each revision, after the first few, and halves with each `RECOVER_S` of rest.
    """

    _rates: dict[str, _Rate] = field(default_factory=dict)

    def count_revision(self, source: str, now_s: float) -> None:
        """A known part of the source changed, and was written."""
        self._rates[source] = _Rate(min(self._rates.get(source, _Rate()).count_now(now_s) + 1, _MOST_COUNTED), now_s)

    def pause_s(self, source: str, now_s: float, more: int = 0) -> float:
        """From one revision of the source to the next, after so many more."""
        count = min(self._rates.get(source, _Rate()).count_now(now_s) + more, _MOST_COUNTED)
        return 0.0 if count < FREE_REVISIONS else min(FIRST_PAUSE_S * 2 ** (count - FREE_REVISIONS), MOST_PAUSE_S)

    def wait_s(self, source: str, now_s: float) -> float:
        """From now to the next revision of the source; 0: it may be written."""
        rate = self._rates.get(source, _Rate())
        return max(0.0, rate.at_s + self.pause_s(source, rate.at_s) - now_s) if rate.revisions else 0.0


@dataclass(frozen=True, slots=True)
class Offer:
    """What a server offers, and what its source says of it."""

    server: ServerEntry
    listing: ServerListing = field(repr=False)


@dataclass(frozen=True, slots=True)
class Batch:
    """Sources that were read, what servers offer, and how they and the sources (key empty) are."""

    parts: dict[str, Parts] = field(default_factory=dict)
    offers: dict[Member, Offer] = field(default_factory=dict)
    statuses: dict[Member, str] = field(default_factory=dict)
    pauses: dict[str, int] = field(default_factory=dict)
    """By source: for how many seconds its next change waits once this is written."""

    @property
    def members(self) -> set[Member]:
        """Key empty: the source itself."""
        return {*self.offers, *self.statuses, *((source, "") for source in self.parts)}

    @property
    def sources(self) -> set[str]:
        return {source for source, _ in self.members}

    def select(self, fits: Callable[[Member], bool]) -> "Batch":
        return Batch(
            parts={source: parts for source, parts in self.parts.items() if fits((source, ""))},
            offers={member: offer for member, offer in self.offers.items() if fits(member)},
            statuses={member: status for member, status in self.statuses.items() if fits(member)},
        )

    @property
    def is_empty(self) -> bool:
        return not (self.parts or self.offers or self.statuses)


class Inbox:
    """Used in one event loop. Gives a source that changes again and again at its intervals; what is heard for the first
    time waits for nothing."""

    def __init__(self) -> None:
        self._next = Batch()
        self._event = anyio.Event()
        self._intervals = Intervals()
        self._members = set[Member]()
        """What was written once. Key empty: what the source says by itself."""
        self.is_patient = True
        """Whether intervals are kept; not by a watch that ends with the first word of each server."""

    def say(self, source: str, parts: Parts) -> None:
        self._next.parts[source] = parts
        self.status((source, ""), ONLINE)

    def offer(self, member: Member, offer: Offer) -> None:
        self._next.offers[member] = offer
        self._event.set()

    def status(self, member: Member, status: str) -> None:
        """Key empty: of the source itself."""
        self._next.statuses[member] = status
        self._event.set()

    @property
    def is_empty(self) -> bool:
        return self._next.is_empty

    async def take(self, clock: Clock) -> Batch:
        """All that may be written now, once there is something."""
        while True:
            await self._event.wait()
            due, wait_s = self.take_due(clock.now_s())
            if not due.is_empty:
                return due
            event = self._event = anyio.Event()
            await first_of(event.wait, partial(clock.sleep, wait_s))
            event.set()

    def take_due(self, now_s: float) -> tuple[Batch, float]:
        """What may be written now, and how long until more may."""
        waiting, self._next = self._next, Batch()
        waits_s = {source: self._intervals.wait_s(source, now_s) for source in waiting.sources if self.is_patient}
        late = {source: wait_s for source, wait_s in waits_s.items() if wait_s > 0}
        # What a source says anew by itself comes before what the servers do that it names.
        closed_sources = {source for source in late if source in waiting.parts and (source, "") in self._members}
        due = waiting.select(
            lambda member: not (member[0] in closed_sources or (member[0] in late and member in self._members))
        )
        self._next = waiting.select(lambda member: member not in due.members)
        if self._next.is_empty:
            self._event = anyio.Event()
        counts = {source: int(self.is_patient and self._is_repeated(source, due)) for source in due.sources}
        pauses = {source: round(self._intervals.pause_s(source, now_s, more)) for source, more in counts.items()}
        return replace(due, pauses=pauses), min(late.values(), default=0.0)

    def note_written(self, batch: Batch, sources: Collection[str], now_s: float) -> None:
        """`sources`: those of which something was written."""
        for source in sources:
            if self.is_patient and self._is_repeated(source, batch):
                self._intervals.count_revision(source, now_s)
        self._members |= batch.members

    def _is_repeated(self, source: str, batch: Batch) -> bool:
        return any(member[0] == source for member in batch.members & self._members)

    def put_back(self, batch: Batch) -> None:
        """What could not be written, unless something newer is known."""
        newer = self._next
        self._next = Batch(
            parts=batch.parts | newer.parts,
            offers=batch.offers | newer.offers,
            statuses=batch.statuses | newer.statuses,
        )
        if not self._next.is_empty:
            self._event.set()


CONFIRM_S = 3600.0
"""After so long the claims of a source of which nothing changed are confirmed once more."""


class WriteAbandoned(Exception):
    """A write was ended before it changed anything, since the watch is to stop."""


@dataclass(slots=True, kw_only=True)
class Writer:
    """Writes one batch at a time, in whichever thread calls. What it wrote once it does not write again."""

    registry: LocalRegistry
    tell: Callable[[WatchEvent], None]
    policy: Policy | None = None
    allow_mass_removal: bool = False
    stopping: bool = False
    _parts: dict[str, Parts] = field(default_factory=dict)
    _with_servers: set[str] = field(default_factory=set)
    """Sources that name, or named, servers: they are written in parts."""
    _hashes: dict[Member, str] = field(default_factory=dict)
    """What each server said when it was written last, as a hash."""
    _confirmations: dict[str, float] = field(default_factory=dict)
    """When the claims of each source were, by the clock of `monotonic`."""
    _statuses: dict[Member, str] = field(default_factory=dict)
    """Those that were written last."""
    _written_sources: set[str] = field(default_factory=set)
    """By the present batch; also where what is held was only confirmed, which costs a copy of the graph."""
    _refusals: dict[Member, str] = field(default_factory=dict)
    """The status of each source that the registry does not take as it is."""
    _pauses: Mapping[str, int] = field(default_factory=dict)
    _stamps: dict[str, tuple[str, str]] = field(default_factory=dict)
    """By source: the registry's stamp, and when the source was confirmed, as this watch wrote or saw it last."""
    _rewrites: set[str] = field(default_factory=set)
    """Those that another changed since: all of them is written anew."""

    def must_rewrite(self, source: str) -> bool:
        """Whether another changed or removed what this watch wrote of a source. Threads may ask; true once a change."""
        stamp, confirmation = self._stamps.get(source, ("", ""))
        if not stamp or not self.registry.store.exists or (now := self.registry.stamp) == stamp:
            return False
        summary = self._known_source(source)
        self._stamps[source] = now, summary.seen_at if summary else ""
        if self._stamps[source][1] == confirmation:
            return False
        self._rewrites.add(source)
        return True

    def write(self, batch: Batch) -> Collection[str]:
        """Returns the sources of which something was written.

        May be called again with the same batch after an error of the registry, which it raises. Raises WriteAbandoned.
        """
        self._written_sources, self._refusals, self._pauses = set(), {}, batch.pauses
        for source, parts in batch.parts.items():
            if parts is not self._parts.get(source):  # else it is told already, and written again
                self._parts[source] = parts
                agents = sum(entry.key not in parts.must_answer for entry in parts.manifest.entries)
                rejections = len(parts.manifest.rejected)
                self.tell(SourceRead(source=source, servers=len(parts.servers), agents=agents, rejected=rejections))
        for source in dict.fromkeys([*batch.parts, *(source for source, _ in batch.offers)]):
            self._write_source(source, batch)
        statuses = batch.statuses | self._refusals
        if put_statuses(self.registry, statuses, batch.pauses):
            new_members = (member for member, status in statuses.items() if self._statuses.get(member) != status)
            self._written_sources.update(source for source, _ in new_members)
        self._statuses |= statuses
        if self._written_sources:
            stamp = self.registry.stamp
            times = {each.name: each.seen_at for each in self.registry.sources()}
            self._stamps |= {name: (stamp, times.get(name, "")) for name in self._written_sources}
        return self._written_sources

    def _write_source(self, source: str, batch: Batch) -> None:
        parts = self._parts[source]
        if source in self._rewrites and source in batch.parts:
            self._rewrites.discard(source)
            self._hashes = {member: its_hash for member, its_hash in self._hashes.items() if member[0] != source}
        if not parts.servers and source not in self._with_servers:
            self._sync(parts.manifest)
            return
        self._with_servers.add(source)
        keys = {server.key for server in parts.servers}
        answers = {
            key: _answer(offer, source) for (of, key), offer in batch.offers.items() if of == source and key in keys
        }
        self._sync_part(parts, answers, whole=source in batch.parts)

    def _sync_part(self, parts: Parts, answers: Mapping[str, Answer], *, whole: bool) -> None:
        """`whole`: the source was read anew, so that what it says by itself counts, and what it names no more goes."""
        manifest = parts.manifest
        hashes = {key: _hash(answer) for key, answer in answers.items()}
        self._note_held(manifest.source, answers)
        fresh = [key for key in answers if self._is_news((manifest.source, key), hashes[key])]
        own = self._own_word(parts, answers) if whole else replace(manifest, entries=(), rejected=(), cut=())
        documents = {entry.key: entry.document for entry in reversed(manifest.entries)}
        live_entries = [
            replace(each, document=documents.get(key, "")) for key in fresh for each in answers[key].entries
        ]
        live_keys = {entry.key for entry in live_entries}
        # A skill that its server lists no more; what is held of the server itself is never gone by its own word.
        skill_keys = {key for key in self._claimed_keys(manifest.source) if server_key(key) != key}
        ends = {
            key
            for key in skill_keys - live_keys
            if server_key(key) in live_keys and not answers[server_key(key)].rejected
        }
        part = replace(
            own,
            entries=(*own.entries, *live_entries),
            rejected=(*own.rejected, *(fault for key in fresh for fault in answers[key].rejected)),
            cut=(*own.cut, *(cut for key in fresh for cut in answers[key].cut)),
            gone=tuple(sorted(ends)),
            partial=True,
            is_part=True,
            rank=LIVE_RANK,
        )
        if not (part.entries or part.rejected or part.cut) or self._sync(part):
            self._hashes |= {(manifest.source, key): hashes[key] for key in fresh}
        if whole:
            self._remove_gone(parts)

    def _own_word(self, parts: Parts, answers: Collection[str]) -> Manifest:
        """What the source says by itself of agents that have not answered, and need not."""
        theirs = {key for source, key in self._hashes if source == parts.manifest.source}
        theirs |= parts.must_answer | set(answers)
        return replace(parts.manifest, entries=tuple(e for e in parts.manifest.entries if e.key not in theirs))

    def _remove_gone(self, parts: Parts) -> None:
        """Apart from what is new: a removal that is refused keeps nothing else back.

        Of a source that was read in part only that is gone which it says so of.
        """
        manifest = parts.manifest
        summary, claimed_keys = self._known_source(manifest.source), self._claimed_keys(manifest.source)
        claimed_keys |= {failure.key for failure in summary.failures if failure.key} if summary else set()
        keys = {server.key for server in parts.servers} | {
            key for entry in manifest.entries for key in (entry.key, entry.key_in_document)
        }
        keys |= {fault.key for fault in manifest.rejected}
        keys_to_keep = claimed_keys if manifest.partial else keys | set(map(bounded_key, keys))
        keys_to_keep = {key for key in claimed_keys if server_key(key) in keys_to_keep} | keys_to_keep
        gone_keys = sorted(claimed_keys - keys_to_keep | claimed_keys & set(manifest.gone))
        for key in gone_keys:
            self._hashes.pop((manifest.source, key), None)
        if gone_keys:
            nothing = replace(manifest, entries=(), rejected=(), cut=(), partial=True, is_part=True, rank=LIVE_RANK)
            self._sync(replace(nothing, gone=tuple(gone_keys)))

    def _is_news(self, member: Member, its_hash: str) -> bool:
        confirmation_s = self._confirmations.setdefault(member[0], time.monotonic())
        return its_hash != self._hashes.get(member) or time.monotonic() - confirmation_s >= CONFIRM_S

    def _note_held(self, source: str, answers: Mapping[str, Answer]) -> None:
        """What the registry holds from before this watch, and is as the servers say, needs no writing."""
        if self.policy is not None and source not in self._confirmations:
            return  # the policy is to be written
        unknown = [key for key in answers if (source, key) not in self._hashes]
        summary = self._known_source(source) if unknown else None
        ids = dict(summary.claims) if summary else {}
        for key in unknown:
            answer = answers[key]
            if answer.entry and not (answer.rejected or answer.skills) and (agent_id := ids.get(key)):
                agent, tools = self.registry.agent(agent_id), self.registry.tools(agent_id)
                if AgentEntry(key=agent_id, agent=agent, tools=tuple(tools)).bundle_hash == answer.entry.bundle_hash:
                    self._hashes[source, key] = _hash(answer)

    def _sync(self, manifest: Manifest) -> bool:
        """Whether it was written: a removal of most of a source is refused, and told."""
        manifest = replace(manifest, policy=self.policy or manifest.policy, pause_s=self._pauses.get(manifest.source))
        try:
            report = sync(
                self.registry, manifest, allow_mass_removal=self.allow_mass_removal, progress=self._abandon_if_stopping
            )
        except MassRemoval as error:
            self.tell(SourceFailed(source=manifest.source, reason=str(error)))
            self._refusals[manifest.source, ""] = status_of_fault(str(error))
            return False
        self._confirmations[manifest.source] = time.monotonic()
        self._written_sources.add(manifest.source)
        if not report.changes.is_empty or report.changes.rejected or report.changes.cut:
            self.tell(SourceSynced(report=report))
        return True

    def _abandon_if_stopping(self, count: int, total: int) -> None:  # noqa: ARG002 - it is called with how far it is
        if self.stopping:
            raise WriteAbandoned

    def _claimed_keys(self, source: str) -> set[str]:
        summary = self._known_source(source)
        return {key for key, _ in summary.claims} if summary else set()

    def _known_source(self, name: str) -> SourceSummary | None:
        return next((each for each in self.registry.stored_sources() if each.name == name), None)


def _answer(offer: Offer, source: str) -> Answer:
    """What of a listing is taken. A fault in reading it costs this server alone."""
    try:
        return entry_of(offer.server, offer.listing, source)
    except Exception as error:  # noqa: BLE001 - whatever a server may send, the others are written
        where = f"{source}#{offer.server.record.pointer}"
        reason = f"unexpected {type(error).__name__}"
        return Answer(rejected=(Rejected(where=where, reason=reason, key=offer.server.key),))


def _hash(answer: Answer) -> str:
    """Equal means nothing changed, also of what was refused."""
    text = f"{[entry.bundle_hash for entry in answer.entries]}\n{answer.rejected}"
    return sha256(text.encode("utf-8", "surrogatepass")).hexdigest()
