"""Hash synchronisation: what a source says now, against what it claimed before (ScaleMCP, Algorithm 1).

Made safe for many sources: a source changes and removes only what it claims, an agent goes when its last claim
goes, and different agents of one id are kept apart by the later source's namespace.
"""

import time
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial

from waygraph.ingest.change_log import changes_of, removal
from waygraph.ingest.policies import AGENT_FIELDS, TOOL_FIELDS, Judge, differing
from waygraph.registry.answering import NO_VECTORS
from waygraph.registry.changes import (
    STRICTNESS,
    AgentEntry,
    Change,
    ChangeSet,
    Claim,
    Flagged,
    Manifest,
    OperatorSettings,
    Policy,
    Rejected,
    SyncReport,
    Updated,
)
from waygraph.registry.checks import check_policy
from waygraph.registry.embedding.protocol import Progress
from waygraph.registry.errors import MassRemoval, NotAllowed, RegistryNotFound
from waygraph.registry.flags import seen_flags
from waygraph.registry.graph.engine import GraphSession
from waygraph.registry.graph.reading import Held, RegistryState, StoredAgent, read_held, read_state
from waygraph.registry.identity import namespaced_id, parsed, placed
from waygraph.registry.model import JsonText, Principal, TextForm, Tool
from waygraph.registry.registry import Registry
from waygraph.registry.statuses import KNOWN
from waygraph.registry.writing import WriteSession, Written, refuse_unseen

MASS_REMOVAL_SHARE = 0.5
HELD_BACK = "Some of the source could not be read, so no agent of it was removed but those that it says are gone."
RESTORING = "Ingest the export with --kind export, which brings them back, with policies and approvals."


def sync(
    registry: Registry,
    manifest: Manifest,
    *,
    dry_run: bool = False,
    allow_mass_removal: bool = False,
    texts: TextForm | None = None,
    principal: Principal | None = None,
    progress: Progress | None = None,
) -> SyncReport:
    """Brings the registry to what the manifest says, in one transaction. `dry_run` changes nothing.

    Raises InvalidSetting for a policy that there is not, MassRemoval if more than half of the source's agents would go
    and that is not allowed, NotAllowed if an agent would change, or be claimed, that the principal may not see.
    """
    started = time.perf_counter()
    check_policy(manifest.policy)

    def allowed(held: Held) -> ChangeSet:
        changes = plan(held, manifest)
        _refuse_unseen(held, manifest, changes, principal)
        if not allow_mass_removal:
            refuse_mass_removal(held, changes)
        return _as_seen(held, changes, principal)

    if dry_run:
        return _rehearsed(registry, manifest, allowed)

    def work(session: WriteSession) -> tuple[ChangeSet, Written, RegistryState | None]:
        changes = allowed(session.held())
        return changes, session.commit(changes, progress), session.state()

    changes, written, state = registry.change(work, texts=texts)
    return SyncReport(
        changes=changes,
        revision=written.revision,
        seconds=time.perf_counter() - started,
        texts_embedded=written.texts_embedded,
        notice=" ".join(_notices(registry, manifest, changes, state)),
    )


def _notices(registry: Registry, manifest: Manifest, changes: ChangeSet, state: RegistryState | None) -> Iterator[str]:
    """A part that says nothing else is all that was asked for; one that could not be read whole is told. That nothing
    is embedded is told unless somebody chose that.
    """
    if manifest.partial and manifest.rejected:
        yield HELD_BACK
    if manifest.unrestored:
        yield f"Operators' settings that were not restored: {manifest.unrestored}. {RESTORING}"
    if changes.operator:
        yield f"Operators' settings restored: {len(changes.operator)}."
    if state and not state.embedder and "none" not in (state.embedder_spec, registry.settings.embedder):
        yield NO_VECTORS


def _rehearsed(registry: Registry, manifest: Manifest, allowed: Callable[[Held], ChangeSet]) -> SyncReport:
    """What a sync would do, planned over what is published: it needs no lock and touches no file."""
    started = time.perf_counter()

    def work(session: GraphSession) -> tuple[RegistryState | None, ChangeSet]:
        return read_state(session), allowed(read_held(session))

    try:
        state, changes = registry.read(work)
    except RegistryNotFound:
        state, changes = None, allowed(Held())
    return SyncReport(
        changes=changes,
        revision=state.revision if state else 0,
        seconds=time.perf_counter() - started,
        texts_embedded=0,
        dry_run=True,
        notice=" ".join(_notices(registry, manifest, changes, state)),
    )


def _refuse_unseen(held: Held, manifest: Manifest, changes: ChangeSet, principal: Principal | None) -> None:
    """Raises NotAllowed for what the principal must not change, or would learn of by what becomes of an entry."""
    if principal is None:
        return
    if changes.operator:
        raise NotAllowed("what operators said is only restored for a caller who sees everything")
    refuse_unseen(held, _touched(changes), principal)
    refuse_unseen(held, _met(held, manifest), principal)
    if changes.new_terms:
        refuse_unseen(held, (claim.agent_id for claim in held.claims if claim.source == manifest.source), principal)


def _as_seen(held: Held, changes: ChangeSet, principal: Principal | None) -> ChangeSet:
    """With those flags that the principal may read; what is written keeps all of them."""
    if principal is None or not changes.flagged:
        return changes
    known, new = held.shown_to(principal), set(changes.created_agents)

    def shows(agent_id: str) -> bool:
        return agent_id in new or (known is not None and known(agent_id))

    flagged = ((each.id, seen_flags(each.flags, shows)) for each in changes.flagged)
    return replace(changes, flagged=tuple(Flagged(id=entity, flags=flags) for entity, flags in flagged if flags))


def _touched(changes: ChangeSet) -> Iterator[str]:
    """The agents that change, or that the source comes to claim or leaves."""
    yield from (entry.agent.id for entry in changes.written)
    yield from (claim.agent_id for claim in changes.claims)
    yield from changes.removed_agents
    yield from changes.released


def _met(held: Held, manifest: Manifest) -> Iterator[str]:
    """The agents by which the entries are placed: of the same id, or claimed already, or of the same launch."""
    keys = {entry.key for entry in manifest.entries}
    launches = {entry.agent.transport for entry in manifest.entries if tells_apart(entry.agent.transport)}
    for entry in manifest.entries:
        yield entry.agent.id
        yield namespaced_id(manifest.namespace, entry.agent.id)
    yield from (claim.agent_id for claim in held.claims if claim.source == manifest.source and claim.key in keys)
    yield from (agent_id for agent_id, stored in held.agents.items() if stored.agent.transport in launches)


def plan(held: Held, manifest: Manifest) -> ChangeSet:
    """What a sync of this manifest will do to what is held. Pure, apart from reading tools of changed agents."""
    return _Plan(held, manifest).change_set()


def refuse_mass_removal(held: Held, changes: ChangeSet) -> None:
    """Raises MassRemoval if the source would release more than half of what it claims."""
    claimed = sum(claim.source == changes.source for claim in held.claims)
    if len(changes.released) > claimed * MASS_REMOVAL_SHARE:
        raise MassRemoval(changes.source, removed=len(changes.released), held=claimed)


OldTools = Mapping[str, Mapping[str, Tool]]
"""Agent id → tool name → tool as held."""


@dataclass(slots=True)
class _Plan:
    held: Held
    manifest: Manifest
    entries: list[AgentEntry] = field(default_factory=list)
    rejected: list[Rejected] = field(default_factory=list)
    renamed: list[tuple[str, str]] = field(default_factory=list)
    withheld: list[str] = field(default_factory=list)
    mine: dict[str, Claim] = field(default_factory=dict)
    """This source's claims by agent id."""
    others: dict[str, list[Claim]] = field(default_factory=dict)
    """All other claims, by agent id."""
    launched: dict[str, list[str]] = field(default_factory=dict)
    """Ids of the agents held, by transport."""
    settings: dict[str, OperatorSettings] = field(default_factory=dict)
    """What operators said, the manifest's own word included."""

    def __post_init__(self) -> None:
        self.settings = {**self.held.settings, **{said.agent_id: said for said in self.manifest.operator}}
        for agent_id, stored in self.held.agents.items():
            self.launched.setdefault(stored.agent.transport, []).append(agent_id)
        for claim in self.held.claims:
            if claim.source == self.manifest.source:
                self.mine[claim.agent_id] = claim
            else:
                self.others.setdefault(claim.agent_id, []).append(claim)

    def change_set(self) -> ChangeSet:
        self._place_entries()
        stated = [self._with_status(entry) for entry in self.entries if self._must_write(entry)]
        released = self._released()
        banned = {said.agent_id for said in self.manifest.operator if said.removed} & self.held.agents.keys()
        gone = sorted({agent_id for agent_id in released if agent_id not in self.others} | banned)
        old_tools = self._old_tools(stated, gone)
        written = self._judged(stated, old_tools)
        updated_agents, updated_tools = self._updates(written, old_tools)
        created_tools = [t.id for e in written for t in e.tools if t.name not in old_tools.get(e.agent.id, {})]
        return ChangeSet(
            source=self.manifest.source,
            namespace=self.manifest.namespace,
            rank=self.manifest.rank,
            policy=self.policy,
            new_terms=self._has_new_terms(),
            written=tuple(written),
            created_agents=tuple(e.agent.id for e in written if e.agent.id not in self.held.agents),
            created_tools=tuple(created_tools),
            updated_agents=tuple(updated_agents),
            updated_tools=tuple(updated_tools),
            removed_agents=tuple(gone),
            removed_tools=tuple(self._removed_tools(written, old_tools, gone)),
            unchanged_agents=len(self.entries)
            - sum(e.agent.id not in self.held.agents for e in written)
            - len(updated_agents),
            unchanged_tools=sum(len(e.tools) for e in self.entries) - len(created_tools) - len(updated_tools),
            claims=tuple(self._claims()),
            released=tuple(released),
            renamed=tuple(self.renamed),
            withheld=tuple(self.withheld),
            rejected=(*self.manifest.rejected, *self.rejected),
            cut=self.manifest.cut,
            operator=tuple(s for s in self.manifest.operator if self.held.settings.get(s.agent_id) != s),
            waiting=tuple(each.id for entry in written for each in entry.entities if each.pending),
            flagged=tuple(self._flagged(written, old_tools)),
            log=tuple(self._log(written, old_tools, gone)),
        )

    # -- which id an entry has ---------------------------------------------------------------------

    def _place_entries(self) -> None:
        mine = {claim.key: claim.agent_id for claim in self.mine.values()}
        entries = self._distinct()
        taken = {mine[entry.key] for entry in entries if entry.key in mine}
        shared = Counter(entry.agent.transport for entry in entries)
        for entry in entries:
            alone = shared[entry.agent.transport] == 1
            agent_id = mine.get(entry.key) or self._free_id(entry, taken)
            if entry.key not in mine and not self._removed_by_operator(agent_id):
                agent_id = self._same_launch(entry, alone, taken) or agent_id
            taken.add(agent_id)
            if agent_id != entry.agent.id:
                self.renamed.append((entry.key, agent_id))
            if self._removed_by_operator(agent_id):
                self.withheld.append(agent_id)
                continue
            # In the graph's order: the agent's text names its tools, and must be the same when embedded anew.
            in_order = tuple(sorted(entry.tools, key=lambda tool: tool.name))
            agent, tools = placed(entry.agent, in_order, agent_id)
            self.entries.append(replace(entry, agent=agent, tools=tools))
        self._keep_unasked()

    def _keep_unasked(self) -> None:
        """What is held stands in place of what a source says of servers that were not asked."""
        stay = {entry.agent.id for entry in self.entries if entry.unasked} & self.held.agents.keys()
        held = self.held.tools_of(sorted(stay)) if stay else {}
        for place, entry in enumerate(self.entries):
            if (agent_id := entry.agent.id) in stay and entry.unasked:
                tools = tuple(item.tool for item in held.get(agent_id, ()))
                self.entries[place] = replace(entry, agent=self.held.agents[agent_id].agent, tools=tools)

    def _distinct(self) -> list[AgentEntry]:
        """The first entry of each key; the others are rejected."""
        first: dict[str, AgentEntry] = {}
        for entry in self.manifest.entries:
            if first.setdefault(entry.key, entry) is not entry:
                reason = f"this source lists agent {entry.key!r} twice; the first one is kept"
                self.rejected.append(Rejected(where=self.manifest.source, reason=reason, key=entry.key))
        return list(first.values())

    def _same_launch(self, entry: AgentEntry, alone: bool, taken: set[str]) -> str:
        """The one agent that is launched like this entry, if the entry is also the only one of its source."""
        ids = self.launched.get(entry.agent.transport, []) if tells_apart(entry.agent.transport) else []
        return ids[0] if alone and len(ids) == 1 and ids[0] not in taken else ""

    def _free_id(self, entry: AgentEntry, taken: set[str]) -> str:
        """The entry's own id, unless a different agent has it."""
        wanted = entry.agent.id
        namespaced = namespaced_id(self.manifest.namespace, wanted)
        own = namespaced_id(self.manifest.namespace, wanted, self.manifest.source, entry.key)
        if self._spoken_of(own):  # no other entry has it: what an operator removed does not come back beside it
            return own
        # What an operator said of the namespaced id holds on, also when the plain one has become free.
        known = self._spoken_of(namespaced) and not self._spoken_of(wanted)
        for candidate in (namespaced, wanted) if known else (wanted, namespaced):
            stored = self.held.agents.get(candidate)
            if candidate not in taken and (stored is None or same_agent(stored, entry)):
                return candidate
        return own

    def _spoken_of(self, agent_id: str) -> bool:
        """Whether operators said anything that holds: a word that was taken back counts no more."""
        return self.settings.get(agent_id, OperatorSettings(agent_id=agent_id)) != OperatorSettings(agent_id=agent_id)

    def _removed_by_operator(self, agent_id: str) -> bool:
        said = self.settings.get(agent_id)
        return said is not None and said.removed

    # -- what changes ------------------------------------------------------------------------------

    def _must_write(self, entry: AgentEntry) -> bool:
        stored = self.held.agents.get(entry.agent.id)
        if stored is None:
            return True
        same = stored.bundle_hash == entry.bundle_hash and entry.agent.status in (KNOWN, stored.agent.status)
        return not same and self._speaks_for(entry.agent.id)

    def _with_status(self, entry: AgentEntry) -> AgentEntry:
        """The entry with the status that is held, unless it tells another itself."""
        stored = self.held.agents.get(entry.agent.id)
        if stored is None or entry.agent.status != KNOWN:
            return entry
        return replace(entry, agent=replace(entry.agent, status=stored.agent.status))

    def _speaks_for(self, agent_id: str) -> bool:
        """Whether this source's word counts for a shared agent.

        A live source speaks before a catalogue. Of live ones that asked last speaks: what they tell of is one server.
        Of catalogues it is the earliest claim.
        """
        others = self.others.get(agent_id, ())
        if self.manifest.rank > 0:
            return all(claim.rank <= self.manifest.rank for claim in others)
        since = self.mine[agent_id].since if agent_id in self.mine else "~"
        own = (-self.manifest.rank, since, self.manifest.source)
        return all(own <= (-claim.rank, claim.since, claim.source) for claim in others)

    def _old_tools(self, written: Iterable[AgentEntry], gone: Iterable[str]) -> OldTools:
        """Of agents that will be written or removed."""
        known = [entry.agent.id for entry in written if entry.agent.id in self.held.agents]
        stored = self.held.tools_of([*known, *gone])
        return {agent_id: {item.tool.name: item.tool for item in items} for agent_id, items in stored.items()}

    def _updates(self, written: Iterable[AgentEntry], old_tools: OldTools) -> tuple[list[Updated], list[Updated]]:
        agents, tools = [], []
        for entry in written:
            stored = self.held.agents.get(entry.agent.id)
            if stored and (fields := differing(stored.agent, entry.agent, (*AGENT_FIELDS, "status"))):
                agents.append(Updated(id=entry.agent.id, fields=fields))
            for tool in entry.tools:
                old = old_tools.get(entry.agent.id, {}).get(tool.name)
                if old and (fields := differing(old, tool, TOOL_FIELDS)):
                    tools.append(Updated(id=tool.id, fields=fields))
        return agents, tools

    def _removed_tools(self, written: Iterable[AgentEntry], old_tools: OldTools, gone: Iterable[str]) -> list[str]:
        removed = [tool.id for agent_id in gone for tool in old_tools.get(agent_id, {}).values()]
        for entry in written:
            kept = {tool.name for tool in entry.tools}
            removed += [tool.id for name, tool in old_tools.get(entry.agent.id, {}).items() if name not in kept]
        return removed

    # -- policy, suspicion, the log ----------------------------------------------------------------

    @property
    def policy(self) -> Policy:
        return self.manifest.policy or self.held.policy_of(self.manifest.source)

    def _has_new_terms(self) -> bool:
        said, known = self.manifest, self.held.sources.get(self.manifest.source)
        if known is None:
            return False
        return (known.namespace, known.rank, known.policy) != (said.namespace, said.rank, self.policy)

    def _judged(self, stated: Sequence[AgentEntry], old_tools: OldTools) -> list[AgentEntry]:
        held = {agent_id: stored.agent for agent_id, stored in self.held.agents.items()}
        return [
            self._judge(each.agent.id, stated).judged(each, held.get(each.agent.id), old_tools.get(each.agent.id, {}))
            for each in stated
        ]

    def _judge(self, agent_id: str, stated: Sequence[AgentEntry]) -> Judge:
        """Of live sources that share an agent any may speak: the strictest policy among them holds for all.

        Else what one of them holds back would come in by the next one that asks the same server.
        """
        others = [claim for claim in self.others.get(agent_id, ()) if min(claim.rank, self.manifest.rank) > 0]
        policies = [self.held.policy_of(claim.source) for claim in others]
        policy = max((self.policy, *policies), key=STRICTNESS.index)
        return Judge(
            policy=policy,
            first=self.manifest.source not in self.held.sources and policy not in policies,
            owners_named=partial(self._owners_named, stated),
        )

    def _owners_named(self, stated: Sequence[AgentEntry], names: Collection[str]) -> dict[str, set[str]]:
        """The agents that own a tool of one of these names, held ones and those that come."""
        owners = {name: set(agent_ids) for name, agent_ids in self.held.owners_named(names).items()}
        for entry in stated:
            for tool in entry.tools:
                if tool.name in names:
                    owners.setdefault(tool.name, set()).add(entry.agent.id)
        return owners

    def _flagged(self, written: Iterable[AgentEntry], old_tools: OldTools) -> Iterator[Flagged]:
        """What is new or says something else, and looks suspicious."""
        for entry in written:
            stored = self.held.agents.get(entry.agent.id)
            hashes = {tool.id: tool.content_hash for tool in old_tools.get(entry.agent.id, {}).values()}
            hashes[entry.agent.id] = stored.agent.content_hash if stored else ""
            for each in entry.entities:
                if each.flags and hashes.get(each.id) != each.content_hash:
                    yield Flagged(id=each.id, flags=each.flags)

    def _log(self, written: Iterable[AgentEntry], old_tools: OldTools, gone: Iterable[str]) -> Iterator[Change]:
        """Of agents that were known before."""
        for entry in written:
            stored = self.held.agents.get(entry.agent.id)
            if stored:
                yield from changes_of(self.manifest.source, stored.agent, old_tools.get(entry.agent.id, {}), entry)
        for agent_id in gone:
            yield removal(self.manifest.source, self.held.agents[agent_id].agent, old_tools.get(agent_id, {}))

    # -- claims ------------------------------------------------------------------------------------

    def _claims(self) -> list[Claim]:
        """Claims that are new, under another key, or state something else of an agent that this source speaks for."""
        before = {claim.agent_id: (claim.key, claim.hash) for claim in self.mine.values()}
        return [
            Claim(
                source=self.manifest.source, agent_id=e.agent.id, key=e.key, hash=e.bundle_hash, rank=self.manifest.rank
            )
            for e in self.entries
            if e.agent.id not in before
            or before[e.agent.id][0] != e.key
            or (before[e.agent.id][1] != e.bundle_hash and self._speaks_for(e.agent.id))
        ]

    def _released(self) -> list[str]:
        """Agents this source claimed and lists no more. One whose record is now unreadable is not among them, nor any

        of a source that was read in part; but those are that it says are gone.
        """
        listed = {entry.agent.id for entry in self.entries} | set(self.withheld)
        unreadable = {record.key for record in self.manifest.rejected if record.key}
        unlisted = [claim for claim in self.mine.values() if claim.agent_id not in listed]
        certain = set() if self.manifest.partial else {claim for claim in unlisted if claim.key not in unreadable}
        gone = set(self.manifest.gone)
        return [claim.agent_id for claim in unlisted if claim.key in gone or claim in certain]


def same_agent(stored: StoredAgent, entry: AgentEntry) -> bool:
    """One launch or URL is one agent; so is the same content, word for word."""
    if stored.agent.transport and entry.agent.transport:
        return stored.agent.transport == entry.agent.transport
    return stored.bundle_hash == entry.bundle_hash


def tells_apart(transport: JsonText) -> bool:
    """Whether a transport by itself names one agent: it says where, and no reference in it stands for what differs."""
    said = parsed(transport) or {}
    return bool(said.get("url") or said.get("command")) and "${" not in transport


def counts(changes: ChangeSet) -> Counter[str]:
    """The numbers of a change set by name, as reports show them."""
    return Counter(
        {
            "agents created": len(changes.created_agents),
            "agents updated": len(changes.updated_agents),
            "agents removed": len(changes.removed_agents),
            "agents unchanged": changes.unchanged_agents,
            "tools created": len(changes.created_tools),
            "tools updated": len(changes.updated_tools),
            "tools removed": len(changes.removed_tools),
            "tools unchanged": changes.unchanged_tools,
            "rejected": len(changes.rejected),
        }
    )
