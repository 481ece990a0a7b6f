"""Hash synchronisation: what a source says now, against what it claimed before (ScaleMCP, Algorithm 1).

Made safe for many sources: a source changes and removes only what it claims, an agent goes when its last claim
goes, and different agents of one id are kept apart by the later source's namespace.
"""

import time
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace
from datetime import UTC, datetime

from waygraph.ingest.sync.checks import Checks, Draft
from waygraph.ingest.sync.identity import tells_apart
from waygraph.ingest.sync.plan import draft, plan
from waygraph.ingest.sync.scanner import Scan, scan_changes
from waygraph.registry.access.operators import refuse_non_operator
from waygraph.registry.access.visibility import seen_flags, visible
from waygraph.registry.embedding.embedder import Progress
from waygraph.registry.graph.engine import GraphSession
from waygraph.registry.graph.read import Held, RegistryState, outranked_sources, overlaid, read_held, read_state
from waygraph.registry.model.changes import ChangeSet, Flagged, Manifest, SourceSummary, SyncReport, Written
from waygraph.registry.model.errors import MassRemoval, NotAllowed, RegistryError, RegistryNotFound
from waygraph.registry.model.failures import Failure, SourceStatuses, bounded_key, continue_failures, status_of_fault
from waygraph.registry.model.identity import namespaced_id
from waygraph.registry.model.nouns import ONLINE, Agent, Principal, TextForm, continue_outage
from waygraph.registry.model.validation import check_policy, check_texts, refuse_other_texts
from waygraph.registry.registry import Registry
from waygraph.registry.routing.answering import NO_VECTORS
from waygraph.registry.storage.writer import NO_PAUSES, WriteSession, refuse_change, refuse_unseen

# Whether servers answer, written of the agents that they are in the registry.


Member = tuple[str, str]
"""A server as its source names it: the source's name, and the key there."""


def put_statuses(registry: Registry, statuses: Mapping[Member, str], pauses: Mapping[str, int] = NO_PAUSES) -> int:
    """Of agents that the registry holds; of the others, and of sources (key empty), only what fails is kept.

    `pauses`: how long a watch waits with the next change of a source, in seconds. Returns the revision; 0: unchanged.
    """
    sources = {source.name: source for source in registry.sources()} if registry.exists else {}
    ids = {(source.name, key): agent_id for source in sources.values() for key, agent_id in source.claims}
    said = {ids[member]: status for member, status in statuses.items() if member in ids}
    held = {agent.id: agent.status for agent in registry.agents()} if said else {}
    now = {agent_id: continue_outage(held[agent_id], status) for agent_id, status in said.items() if agent_id in held}
    changed = {agent_id: status for agent_id, status in now.items() if status != held[agent_id]}
    tried = _changed_failures(sources, statuses)
    return registry.put_statuses(changed, tried, pauses).revision if changed or tried else 0


def _changed_failures(sources: Mapping[str, SourceSummary], statuses: Mapping[Member, str]) -> SourceStatuses:
    """Of the sources whose failures these statuses change."""
    tried: dict[str, dict[str, str]] = {}
    for (source, key), status in statuses.items():
        tried.setdefault(source, {})[key] = status
    before = {name: sources[name].failures if name in sources else () for name in tried}
    after = {name: continue_failures(name, before[name], its, "", remaining=None) for name, its in tried.items()}
    return {name: its for name, its in tried.items() if after[name] != before[name]}


def with_statuses(registry: Registry, manifest: Manifest, report: SyncReport) -> SyncReport:
    """The report of the sync of a manifest, after the statuses of the servers that did not answer were put."""
    revision = put_statuses(registry, {(manifest.source, key): status for key, status in manifest.silent})
    return replace(report, revision=revision) if revision else report


MASS_REMOVAL_SHARE = 0.5
HELD_BACK = "Some of the source could not be read, so no agent of it was removed but those that it says are gone."
UNHEARD = "Agents that this source lists no more stay as it described them; others that list them say something else."
RESTORING = "Ingest the export as kind export, which brings them back, with policies and approvals."


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
    """Brings the registry to what the manifest says, in one transaction. `dry_run` changes nothing, and says what would
    change as if there were nothing but what the principal sees: the sync itself may be refused.

    Raises InvalidSetting for a policy or texts that cannot be, MassRemoval if more than half of the source's agents
    would go and that is not allowed, NotAllowed if an agent would change, or be claimed, that the principal may not
    see. InvalidSetting also for a scanner that cannot be: one that does not answer stops nothing.
    """
    started = time.perf_counter()
    check_policy(manifest.policy)
    check_texts(texts)

    scan, checks = Scan(), Checks(registry.settings.max_checked_chars)

    def check_changes(held: Held) -> ChangeSet:
        changes = plan(held, manifest, scan, principal, checks)
        changes = replace(changes, failures=_failures_after(held, manifest, changes, principal))
        _refuse_unseen(held, manifest, changes, principal)
        if not allow_mass_removal:
            refuse_mass_removal(held.part_for(principal), changes)
        return _as_seen(held, changes, principal)

    checks.run(_read_draft(registry, manifest))  # before the lock: others write meanwhile
    if dry_run:
        return _rehearse(registry, manifest, lambda held: check_changes(held.part_for(principal)), texts)

    if registry.settings.scanner:
        scan = scan_changes(registry, _plan_changes(registry, check_changes)[2])

    def work(session: WriteSession) -> tuple[Held, ChangeSet, Written, RegistryState | None]:
        session.set_apart(principal)
        held = session.read_held()
        changes = check_changes(held)
        if _is_refused_whole(held, changes):
            known = held.sources.get(changes.source)
            if changes.failures != (known.failures if known else ()):
                session.put_failures(changes.source, changes.failures)
            return held, changes, Written(revision=_revision(session.state())), session.state()
        written = session.commit(changes, progress)
        if manifest.taxonomies:
            written = replace(written, revision=session.restore_taxonomies(manifest.taxonomies))
        if manifest.toolsets:
            written = replace(written, revision=session.restore_toolsets(manifest.toolsets))
        return held, changes, written, session.state()

    held, changes, written, state = registry.change(work, texts=texts)
    return SyncReport(
        changes=changes,
        revision=written.revision,
        seconds=time.perf_counter() - started,
        texts_embedded=written.texts_embedded,
        notice=" ".join(
            filter(None, (*_notices(registry, manifest, held, changes, state), scan.notice(whole=principal is None)))
        ),
    )


def _read_draft(registry: Registry, manifest: Manifest) -> Draft:
    """Against what was published last. Where that cannot be read, the write says why, or mends it."""
    try:
        return registry.read(lambda session: draft(read_held(session), manifest))
    except RegistryError:
        return draft(Held(), manifest)


def _revision(state: RegistryState | None) -> int:
    return state.revision if state else 0


def _is_refused_whole(held: Held, changes: ChangeSet) -> bool:
    """Whether all of a new source was refused: it is none yet, so what it says once it is mended is its first word."""
    taken = changes.claims or changes.written or changes.operator
    return bool(changes.rejected) and not taken and not held.was_read(changes.source)


def _failures_after(
    held: Held, manifest: Manifest, changes: ChangeSet, principal: Principal | None
) -> tuple[Failure, ...]:
    """What of the source does not work, now that it, or a part of it, was read."""
    known = held.sources.get(manifest.source)
    before = known.failures if known else ()
    if known and not _sees_all_of(held, manifest.source, principal):
        return before
    listed = {entry.key for entry in manifest.entries}
    unasked = {bounded_key(entry.key) for entry in manifest.entries if entry.unasked}
    faults = {fault.key: fault.reason for fault in changes.rejected if fault.key and fault.key not in listed}
    statuses = {
        **dict.fromkeys([*(() if manifest.is_part else ("",)), *manifest.gone], ONLINE),
        **{entry.key: ONLINE for entry in manifest.entries if not entry.unasked},
        **{key: status_of_fault(reason) for key, reason in faults.items()},
        **dict(manifest.silent),
    }
    now = datetime.now(UTC).isoformat(timespec="seconds")
    return continue_failures(manifest.source, before, statuses, now, remaining=None if manifest.is_part else unasked)


def _sees_all_of(held: Held, source: str, principal: Principal | None) -> bool:
    """Whether the principal may see all agents of a source. Of one without agents nobody can tell."""
    claimed = [claim.agent_id for claim in held.claims if claim.source == source]
    return principal is None or (bool(claimed) and all(held.shows(agent_id, principal) for agent_id in claimed))


def _notices(
    registry: Registry, manifest: Manifest, held: Held, changes: ChangeSet, state: RegistryState | None
) -> Iterator[str]:
    """What a source leaves to others is told where these say something else of it. A part that says nothing else is
    all that was asked for; one that could not be read whole is told. That nothing is embedded is told unless somebody
    chose that.
    """
    if again := outranked_sources(held, changes.source, set(changes.released) - set(changes.removed_agents)):
        yield f"{UNHEARD} Ingest again: {', '.join(again)}."
    if manifest.partial and manifest.rejected:
        yield HELD_BACK
    if manifest.unrestored:
        yield f"Operators' settings that were not restored: {manifest.unrestored}. {RESTORING}"
    if changes.operator:
        yield f"Operators' settings restored: {len(changes.operator)}."
    if state and not state.embedder and "none" not in (state.embedder_spec, registry.settings.embedder):
        yield NO_VECTORS


def _rehearse(
    registry: Registry, manifest: Manifest, allowed: Callable[[Held], ChangeSet], texts: TextForm | None
) -> SyncReport:
    """What a sync would do, planned over what is published: it needs no lock and touches no file."""
    started = time.perf_counter()
    state, held, changes = _plan_changes(registry, allowed)
    if state:
        refuse_other_texts(texts, state.texts)
    return SyncReport(
        changes=changes,
        revision=_revision(state),
        seconds=time.perf_counter() - started,
        texts_embedded=0,
        dry_run=True,
        notice=" ".join(_notices(registry, manifest, held, changes, state)),
    )


def _plan_changes(
    registry: Registry, allowed: Callable[[Held], ChangeSet]
) -> tuple[RegistryState | None, Held, ChangeSet]:
    def work(session: GraphSession) -> tuple[RegistryState | None, Held, ChangeSet]:
        held = read_held(session)
        return read_state(session), held, allowed(held)

    try:
        return registry.read(work)
    except RegistryNotFound:
        return None, Held(), allowed(Held())


def _refuse_unseen(held: Held, manifest: Manifest, changes: ChangeSet, principal: Principal | None) -> None:
    """Raises NotAllowed for what the principal must not change, or would learn of by what becomes of an entry."""
    if principal is None:
        return
    if changes.operator or manifest.taxonomies or manifest.toolsets:
        raise NotAllowed("what operators said is only restored for a caller who sees everything")
    refuse_unseen(held, _touched_agents(changes), principal)
    refuse_unseen(held, _placing_agents(held, manifest), principal)
    if any(not visible(overlaid(Agent(id=each, name=each), held.settings), principal) for each in changes.withheld):
        refuse_change()  # one that is removed, and was not theirs to see
    if changes.new_terms:
        refuse_unseen(held, (claim.agent_id for claim in held.claims if claim.source == manifest.source), principal)
    if held.was_read(manifest.source) and changes.policy != held.policy_of(manifest.source):
        refuse_non_operator("another policy of a source", principal)


def _as_seen(held: Held, changes: ChangeSet, principal: Principal | None) -> ChangeSet:
    """With those flags that the principal may read; what is written keeps all of them."""
    if principal is None or not changes.flagged:
        return changes
    known, new = held.view_for(principal), set(changes.created_agents)

    def shows(agent_id: str) -> bool:
        return agent_id in new or (known is not None and known(agent_id))

    flagged = ((each.id, seen_flags(each.flags, shows)) for each in changes.flagged)
    return replace(changes, flagged=tuple(Flagged(id=entity, flags=flags) for entity, flags in flagged if flags))


def _touched_agents(changes: ChangeSet) -> Iterator[str]:
    """The agents that change, or that the source comes to claim or leaves."""
    yield from (entry.agent.id for entry in changes.written)
    yield from (claim.agent_id for claim in changes.claims)
    yield from changes.removed_agents
    yield from changes.released


def _placing_agents(held: Held, manifest: Manifest) -> Iterator[str]:
    """The agents by which the entries are placed: of the same id, or claimed already, or of the same launch."""
    keys = {entry.key for entry in manifest.entries}
    launches = {entry.agent.transport for entry in manifest.entries if tells_apart(entry.agent.transport)}
    for entry in manifest.entries:
        yield entry.agent.id
        yield namespaced_id(manifest.namespace, entry.agent.id)
    yield from (claim.agent_id for claim in held.claims if claim.source == manifest.source and claim.key in keys)
    yield from (agent_id for agent_id, stored in held.agents.items() if stored.agent.transport in launches)


def refuse_mass_removal(held: Held, changes: ChangeSet) -> None:
    """Raises MassRemoval if the source would release more than half of what it claims."""
    claimed = sum(claim.source == changes.source for claim in held.claims)
    if len(changes.released) > claimed * MASS_REMOVAL_SHARE:
        raise MassRemoval(changes.source, removed=len(changes.released), held=claimed)


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
