"""Hash synchronisation: what a source says now, against what it claimed before (ScaleMCP, Algorithm 1).

Made safe for many sources: a source changes and removes only what it claims, an agent goes when its last claim
goes, and different agents of one id are kept apart by the later source's namespace.

The texts of a manifest, embedded before the write lock is taken: by far the longest part of a sync of new texts.
"""

import time
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass, field, replace
from functools import partial
from itertools import batched

from waygraph.ingest.manifest.records import Manifest
from waygraph.ingest.manifest.suspicion.findings import Scorer, load_layers, text_chars
from waygraph.ingest.sync.checks import Checks, Draft
from waygraph.ingest.sync.identity import part_of, tells_apart
from waygraph.ingest.sync.plan import draft, plan
from waygraph.registry.access.visibility import visible
from waygraph.registry.embedding.cache import CachedEmbedder
from waygraph.registry.embedding.embedder import Progress, distinct, shift_progress
from waygraph.registry.embedding.texts import TextForms
from waygraph.registry.graph.engine import GraphSession
from waygraph.registry.graph.read import (
    GraphView,
    RegistryState,
    outranked_sources,
    overlaid,
    read_graph_view,
    read_state,
)
from waygraph.registry.graph.write import put_failures, touched_agents
from waygraph.registry.model import clock
from waygraph.registry.model.changes import (
    ChangeSet,
    Failure,
    SourceStatuses,
    SourceSummary,
    SyncReport,
    Written,
    bounded_key,
    continue_failures,
    status_of_fault,
)
from waygraph.registry.model.errors import EmbedderError, MassRemoval, NotAllowed, RegistryError, RegistryNotFound
from waygraph.registry.model.identity import namespaced_id, replace_surrogates
from waygraph.registry.model.nouns import ONLINE, Agent, Principal, TextForm, continue_outage
from waygraph.registry.model.process import without_collection
from waygraph.registry.model.settings import Settings
from waygraph.registry.model.validation import check_policy, checked_texts, refuse_other_texts
from waygraph.registry.operators.rights import is_operator, refuse_non_operator, refuse_source
from waygraph.registry.operators.sources import refuse_change, refuse_unseen
from waygraph.registry.registry import Registry, require_local
from waygraph.registry.routing.answering import NO_VECTORS
from waygraph.registry.storage.local_registry import LocalRegistry
from waygraph.registry.storage.noun_list import EXPORTED_NOUNS
from waygraph.registry.writer import DEFAULT_TEXTS, WriteSession

BATCH_TEXTS = 16_000
"""The vectors of so many, some 25 MB, are held at a time; they are kept in the cache."""


def embed_ahead(registry: LocalRegistry, draft: Draft, texts: TextForm | None, progress: Progress | None) -> int:
    """Embeds into the cache what a write of this draft will look for there; returns how many texts were new to it.

    The write itself embeds what is missed, such as texts that an operator changed, and says what stands against it.
    Without a cache nothing is embedded here. `texts`: of a new registry. Raises EmbedderUnavailable, EmbedderRefused.
    """
    state = None
    with suppress(RegistryError):  # the write says why, or mends it
        state = registry.read(read_state, before_write=True) if registry.store.exists else None
    if state and not state.embedder:
        return 0
    embedder = registry.open_embedder(state.embedder_spec if state else "").embedder
    if not isinstance(embedder, CachedEmbedder) or (state and state.embedder != embedder.fingerprint):
        return 0
    form = state.texts if state else texts or DEFAULT_TEXTS
    forms = TextForms(form=form, max_chars=registry.settings.max_embedded_chars)
    new_texts = distinct(map(replace_surrogates, _new_texts(draft, forms)))
    before = embedder.embedded
    with embedder.kept_open():
        for number, some in enumerate(batched(new_texts, BATCH_TEXTS)):
            embedder.embed(some, "document", progress=shift_progress(progress, number * BATCH_TEXTS, len(new_texts)))
    return embedder.embedded - before


def _new_texts(draft: Draft, forms: TextForms) -> Iterator[str]:
    """Of what changed; under another name of the agent all of its tools have other texts."""
    for entry in draft.entries:
        if not (changed_ids := {each.id for each in draft.changed_entities(entry)}):
            continue
        old = draft.old_agents.get(entry.agent.id)
        is_renamed = old is None or old.name != entry.agent.name
        for entity_id, parts in forms.of_agent(entry.agent, entry.tools).items():
            if is_renamed or entity_id in changed_ids or entity_id == entry.agent.id:
                yield from parts.texts


Member = tuple[str, str]
"""A server as its source names it: the source's name, and the key there."""
MemberStatuses = Mapping[Member, str]


def put_statuses(registry: LocalRegistry, statuses: MemberStatuses, pauses: Mapping[str, int] | None = None) -> int:
    """Of agents that the registry holds; of the others, and of sources (key empty), only what fails is kept. A source
    that never gave anything is none yet.

    `pauses`: how long a watch waits with the next change of a source, in seconds. Returns the revision; 0: unchanged.
    """
    if not statuses:
        return 0
    sources = {source.name: source for source in registry.stored_sources()}
    ids = {(source.name, key): agent_id for source in sources.values() for key, agent_id in source.claims}
    statuses_by_agent = {ids[member]: status for member, status in statuses.items() if member in ids}
    old_statuses = {agent.id: agent.status for agent in registry.agents()} if statuses_by_agent else {}
    now = {
        agent_id: continue_outage(old_statuses[agent_id], status)
        for agent_id, status in statuses_by_agent.items()
        if agent_id in old_statuses
    }
    new_statuses = {agent_id: status for agent_id, status in now.items() if status != old_statuses[agent_id]}
    attempts = _changed_failures(sources, statuses)
    return registry.put_statuses(new_statuses, attempts, pauses).revision if new_statuses or attempts else 0


def _changed_failures(sources: Mapping[str, SourceSummary], statuses: MemberStatuses) -> SourceStatuses:
    """Of the sources whose failures these statuses change."""
    attempts: dict[str, dict[str, str]] = {}
    for (source, key), status in statuses.items():
        if source in sources:
            attempts.setdefault(source, {})[key] = status
    before = {name: sources[name].failures for name in attempts}
    after = {name: continue_failures(name, before[name], its, "", remaining=None) for name, its in attempts.items()}
    return {name: its for name, its in attempts.items() if after[name] != before[name]}


def with_statuses(registry: LocalRegistry, manifest: Manifest, report: SyncReport) -> SyncReport:
    """The report of the sync of a manifest, after the statuses of the servers that did not answer were put."""
    if not manifest.silent:
        return report
    revision = put_statuses(registry, {(manifest.source, key): status for key, status in manifest.silent})
    return replace(report, revision=revision) if revision else report


MASS_REMOVAL_SHARE = 0.5
MOST_EMBEDDED_UNDER_LOCK = 16
"""Agents and tools: of so few the texts take no longer than to look for them beforehand."""
MOST_CHARS_UNDER_LOCK = 50_000
"""Texts of so many characters are checked in some .1 s, which a look at the published graph would take, too."""
NO_REMOVALS = "Some of the source could not be read, so no agent of it was removed but those that it says are gone."
STALE_AGENTS = (
    "Agents that this source lists no more stay as it described them; others that list them say something else."
)
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
    see, NeedsRegistry.
    """
    terms = SyncTerms(principal=principal, texts=texts, allow_mass_removal=allow_mass_removal)
    local = require_local(registry)
    with without_collection():
        plan = plan_sync(local, manifest, terms, dry_run=dry_run)
        return rehearse(local, plan) if dry_run else write(local, plan, progress)


@dataclass(frozen=True, slots=True, kw_only=True)
class SyncTerms:
    """`principal`: who sends the manifest; None sees everything. `texts`: of a new registry; None: the default."""

    principal: Principal | None = None
    texts: TextForm | None = None
    allow_mass_removal: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class SyncPlan:
    """A manifest whose texts were checked, before the write lock is taken: others write meanwhile.

    What it changes is only certain under the lock.
    """

    manifest: Manifest
    terms: SyncTerms
    settings: Settings
    checks: Checks
    draft: Draft | None = None
    start_s: float = field(default_factory=time.perf_counter)

    def changes(self, graph: GraphView, state: RegistryState | None) -> ChangeSet:
        """Against what the graph holds. Raises MassRemoval, NotAllowed."""
        manifest, principal = self.manifest, self.terms.principal
        self.checks.state = state
        changes = plan(graph, manifest, principal, self.checks)
        changes = replace(changes, failures=_failures_after(graph, manifest, changes, principal))
        _refuse_unseen(graph, manifest, changes, principal)
        if not self.terms.allow_mass_removal:
            refuse_mass_removal(graph.part_for(principal), changes)
        return changes

    def report(self, changes: ChangeSet, result: Written, notices: Iterable[str], *, dry_run: bool) -> SyncReport:
        return SyncReport(
            changes=changes,
            revision=result.revision,
            seconds=time.perf_counter() - self.start_s,
            texts_embedded=result.texts_embedded,
            dry_run=dry_run,
            notice=" ".join(filter(None, notices)),
        )


def plan_sync(registry: LocalRegistry, manifest: Manifest, terms: SyncTerms, *, dry_run: bool = False) -> SyncPlan:
    """Checks the texts of a manifest, as far as they are new; few are checked under the lock, without a look at what is
    held before. Raises InvalidSetting for a policy or texts that cannot be.
    """
    check_policy(manifest.policy)
    checked_texts(terms.texts)
    settings = registry.settings
    checks = Checks(partial(_open_scorer, registry, terms.principal))
    sync_plan = SyncPlan(manifest=manifest, terms=terms, settings=settings, checks=checks)
    entities = [each for entry in manifest.entries for each in entry.entities]
    if len(entities) <= MOST_EMBEDDED_UNDER_LOCK and sum(map(text_chars, entities)) <= MOST_CHARS_UNDER_LOCK:
        return sync_plan
    draft = _read_draft(registry, sync_plan, before_write=not dry_run)
    checks.run(draft)
    return replace(sync_plan, draft=draft)


def _open_scorer(registry: LocalRegistry, principal: Principal | None, state: RegistryState | None) -> Scorer | None:
    """For the embedder of the registry; None: no layer was learnt for it. What cannot be opened, the write reports.

    For a principal nothing is read from the cache of vectors, as its time would tell of others' texts.
    """
    with suppress(RegistryError, EmbedderError):
        layers = load_layers()
        if state and state.embedder not in layers:
            return None
        embedder = registry.open_embedder(state.embedder_spec if state else "").embedder
        layer = layers.get(embedder.fingerprint) if embedder else None
        if embedder and layer:
            if principal is not None and isinstance(embedder, CachedEmbedder):
                embedder = embedder.without_reading()
            return Scorer(embedder, layer)
    return None


def rehearse(registry: LocalRegistry, sync_plan: SyncPlan) -> SyncReport:
    """What a sync would do, planned over what is published: it needs no lock and touches no file. Raises as `sync`."""
    state, graph, changes = _plan_published(registry, sync_plan, sync_plan.terms.principal)
    if state:
        refuse_other_texts(sync_plan.terms.texts, state.texts)
    notices = _notices(sync_plan, graph, changes, state)
    return sync_plan.report(changes, Written(revision=_revision(state)), notices, dry_run=True)


def write(registry: LocalRegistry, sync_plan: SyncPlan, progress: Progress | None = None) -> SyncReport:
    """Embeds the texts, writes them in one transaction, and publishes. Raises as `sync`."""
    texts, principal = sync_plan.terms.texts, sync_plan.terms.principal
    ahead_count = 0
    if sync_plan.draft and sync_plan.draft.count_changed() > MOST_EMBEDDED_UNDER_LOCK and principal is None:
        # For a principal no cache is read, so that there is nothing to fill.
        ahead_count = embed_ahead(registry, sync_plan.draft, texts, progress)
    is_long = sync_plan.draft is not None
    work = partial(_write_plan, sync_plan, progress)
    graph, changes, result, state = registry.change(work, texts=texts, alone=is_long)
    result = replace(result, texts_embedded=result.texts_embedded + ahead_count)
    return sync_plan.report(changes, result, _notices(sync_plan, graph, changes, state), dry_run=False)


def _write_plan(
    sync_plan: SyncPlan, progress: Progress | None, session: WriteSession
) -> tuple[GraphView, ChangeSet, Written, RegistryState | None]:
    """Under the lock: the changes against what the graph holds now, in one transaction."""
    manifest = sync_plan.manifest
    session.set_apart(sync_plan.terms.principal)
    graph = session.read_graph_view(part_of(manifest))
    changes = sync_plan.changes(graph, session.state())
    has_effect = changes.claims or changes.written or changes.operator
    if changes.rejected and not has_effect and not graph.was_read(changes.source):
        # All of a new source was refused: it is none yet, so what it says once it is mended is its first word.
        source = graph.sources.get(changes.source)
        if source and is_operator(sync_plan.terms.principal) and changes.failures != source.failures:
            session.touch(lambda writing: put_failures(writing, source.name, changes.failures, source.pause_s))
        return graph, changes, Written(revision=_revision(session.state())), session.state()
    result = session.commit(changes, progress, graph)
    for noun in EXPORTED_NOUNS:
        if values := manifest.values.get(noun.name):
            result = replace(result, revision=noun.restore(session, values).revision)
    return graph, changes, result, session.state()


def _read_draft(registry: LocalRegistry, sync_plan: SyncPlan, *, before_write: bool) -> Draft:
    """Against what was published last. Where that cannot be read, the write says why, or mends it."""

    def draft_in(session: GraphSession) -> Draft:
        sync_plan.checks.state = read_state(session)
        return draft_of(read_graph_view(session, part_of(sync_plan.manifest)))

    draft_of = partial(draft, manifest=sync_plan.manifest, checks=sync_plan.checks, principal=sync_plan.terms.principal)
    try:
        return registry.read(draft_in, before_write=before_write)
    except RegistryError:
        return draft_of(GraphView())


def _revision(state: RegistryState | None) -> int:
    return state.revision if state else 0


def _failures_after(
    graph: GraphView, manifest: Manifest, changes: ChangeSet, principal: Principal | None
) -> tuple[Failure, ...]:
    """What of the source does not work, now that it, or a part of it, was read."""
    source = graph.sources.get(manifest.source)
    before = source.failures if source else ()
    if source and not _sees_all_of(graph, manifest.source, principal):
        return before
    keys = {entry.key for entry in manifest.entries}
    keys_not_asked = {bounded_key(entry.key) for entry in manifest.entries if entry.unasked}
    faults = {fault.key: fault.reason for fault in changes.rejected if fault.key and fault.key not in keys}
    statuses = {
        **dict.fromkeys([*(() if manifest.is_part else ("",)), *manifest.gone], ONLINE),
        **{entry.key: ONLINE for entry in manifest.entries if not entry.unasked},
        **{key: status_of_fault(reason) for key, reason in faults.items()},
        **dict(manifest.silent),
    }
    remaining = None if manifest.is_part else keys_not_asked
    return continue_failures(manifest.source, before, statuses, clock.now(), remaining=remaining)


def _sees_all_of(graph: GraphView, source: str, principal: Principal | None) -> bool:
    """Whether the principal may see all agents of a source. Of one without agents nobody can tell."""
    agent_ids = [claim.agent_id for claim in graph.claims if claim.source == source]
    return principal is None or (bool(agent_ids) and all(graph.shows(agent_id, principal) for agent_id in agent_ids))


def _notices(sync_plan: SyncPlan, graph: GraphView, changes: ChangeSet, state: RegistryState | None) -> Iterator[str]:
    """What a source leaves to others is told where these say something else of it. A part that says nothing else is
    all that was asked for; one that could not be read whole is told. That nothing is embedded is told unless somebody
    chose that.
    """
    manifest = sync_plan.manifest
    if again := outranked_sources(graph, changes.source, set(changes.released) - set(changes.removed_agents)):
        yield f"{STALE_AGENTS} Ingest again: {', '.join(again)}."
    if manifest.partial and manifest.rejected:
        yield NO_REMOVALS
    if manifest.unrestored:
        yield f"Operators' settings that were not restored: {manifest.unrestored}. {RESTORING}"
    if manifest.operator and changes.operator:
        yield f"Operators' settings restored: {len(changes.operator)}."
    if state and not state.embedder and "none" not in (state.embedder_spec, sync_plan.settings.embedder):
        from waygraph.registry.embedding.weights import vectors_advice

        yield f"{NO_VECTORS} {vectors_advice(sync_plan.settings)}"


def _plan_published(
    registry: LocalRegistry, sync_plan: SyncPlan, principal: Principal | None
) -> tuple[RegistryState | None, GraphView, ChangeSet]:
    """Against what is published, as if there were nothing but what the principal sees."""

    def plan_in(session: GraphSession) -> tuple[RegistryState | None, GraphView, ChangeSet]:
        state, graph = read_state(session), read_graph_view(session, part_of(sync_plan.manifest))
        return state, graph, sync_plan.changes(graph.part_for(principal), state)

    try:
        return registry.read(plan_in)
    except RegistryNotFound:
        return None, GraphView(), sync_plan.changes(GraphView(), None)


def _refuse_unseen(graph: GraphView, manifest: Manifest, changes: ChangeSet, principal: Principal | None) -> None:
    """Raises NotAllowed for what the principal must not change, or would learn of by what becomes of an entry."""
    if principal is None:
        return
    if (manifest.operator and changes.operator) or manifest.values or manifest.owner:
        raise NotAllowed("what operators said is only restored for a caller who sees everything")
    claimed_ids = {claim.agent_id for claim in graph.claims if claim.source == manifest.source}
    source = graph.sources.get(manifest.source)
    refuse_source(source, [graph.overlaid(agent_id) for agent_id in claimed_ids], principal)
    refuse_unseen(graph, touched_agents(changes), principal)
    if is_operator(principal):
        refuse_unseen(graph, _placing_agents(graph, manifest), principal)
    elif graph.agents.keys() & touched_agents(changes) - claimed_ids:
        refuse_change()
    if any(not visible(overlaid(Agent(id=each, name=each), graph.settings), principal) for each in changes.withheld):
        refuse_change()  # one that is removed, and was not theirs to see
    if changes.new_terms:
        refuse_unseen(graph, claimed_ids, principal)
    if graph.was_read(manifest.source) and changes.policy != graph.policy_of(manifest.source):
        refuse_non_operator("another policy of a source", principal)


def _placing_agents(graph: GraphView, manifest: Manifest) -> Iterator[str]:
    """The agents by which the entries are placed: of the same id, or claimed already, or of the same launch."""
    keys = {entry.key for entry in manifest.entries}
    launches = {entry.agent.transport for entry in manifest.entries if tells_apart(entry.agent.transport)}
    for entry in manifest.entries:
        yield entry.agent.id
        yield namespaced_id(manifest.namespace, entry.agent.id)
    yield from (claim.agent_id for claim in graph.claims if claim.source == manifest.source and claim.key in keys)
    yield from (agent_id for agent_id, item in graph.agents.items() if item.agent.transport in launches)


def refuse_mass_removal(graph: GraphView, changes: ChangeSet) -> None:
    """Raises MassRemoval if more than half of what the source claims would go; what others claim, too, stays."""
    number = sum(claim.source == changes.source for claim in graph.claims)
    losses = set(changes.released) & set(changes.removed_agents)
    if len(losses) > number * MASS_REMOVAL_SHARE:
        raise MassRemoval(changes.source, removed=len(losses), held=number)


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
