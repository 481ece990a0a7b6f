"""A write session: what a sync or an operator may do from one revision to the next."""

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Never

from waygraph.cypher import load
from waygraph.registry.access.operators import is_own, refuse_non_operator, refuse_setting
from waygraph.registry.embedding.cache import CachedEmbedder
from waygraph.registry.embedding.embedder import Embedder, Progress
from waygraph.registry.embedding.factory import ChosenEmbedder
from waygraph.registry.embedding.texts import TextForms, new_vectors, no_vectors
from waygraph.registry.graph.engine import GraphSession, batches
from waygraph.registry.graph.read import (
    Held,
    RegistryState,
    Stamp,
    Vectors,
    keep_changes,
    outranked_sources,
    overlaid,
    read_agents,
    read_held,
    read_state,
    read_tools,
    read_transitions,
    read_vectors,
    stamp_changes,
)
from waygraph.registry.graph.schema import SCHEMA_VERSION
from waygraph.registry.graph.taxonomies import put_taxonomy, read_taxonomies, remove_taxonomy
from waygraph.registry.graph.toolsets import put_toolset, read_toolsets
from waygraph.registry.graph.write import (
    NewVectors,
    advance,
    confirm_source,
    hold,
    put_agent_props,
    put_failures,
    put_setting,
    put_tool_props,
    put_transitions,
    remove_agents,
    touched_agents,
    write_changes,
    write_vectors,
)
from waygraph.registry.model.changes import (
    AgentEntry,
    Approved,
    Change,
    ChangeSet,
    Forgotten,
    OperatorSettings,
    Written,
    entries_of,
)
from waygraph.registry.model.errors import EmbedderMismatch, InvalidSetting, NotAllowed, UnknownName, WriteConflict
from waygraph.registry.model.failures import Failure, SourceStatuses, continue_failures
from waygraph.registry.model.nouns import Principal, TextForm
from waygraph.registry.model.taxonomy import Taxonomy
from waygraph.registry.model.tool_settings import overlay_entries
from waygraph.registry.model.toolset import Toolset
from waygraph.registry.model.transitions import (
    LearningReport,
    Transition,
    add_transitions,
    is_tool,
    keep_largest,
    owner_of,
)
from waygraph.registry.model.validation import refuse_other_texts
from waygraph.registry.storage.approval import OF_SOURCE, all_waiting, approval_of, approved_entries
from waygraph.registry.storage.store import Writing
from waygraph.registry.storage.toolset_upkeep import choose_tools, keep_toolsets, toolset_change
from waygraph.registry.taxonomy.upkeep import keep_taxonomies, settle

DEFAULT_TEXTS: TextForm = "contextual"
NOTHING_TRIED: SourceStatuses = {}
NO_PAUSES: Mapping[str, int] = {}


class WriteSession:
    """What is written holds against the revision found at its start. `choose` gives the embedder for a spec."""

    def __init__(
        self,
        writing: Writing,
        choose: Callable[[str], ChosenEmbedder],
        *,
        texts: TextForm | None,
        max_embedded_chars: int,
        max_changes_kept: int,
        clock: Callable[[], str],
    ) -> None:
        self._engine, self._keep, self._prepare, self._state = writing
        self._choose, self._clock = choose, clock
        self._texts, self._max_chars, self._max_kept = texts, max_embedded_chars, max_changes_kept
        self._held: Held | None = None
        self._is_apart = False

    def set_apart(self, principal: Principal | None) -> None:
        """What this session embeds for a principal that does not see everything tells nothing of texts that others
        wrote: all of it is embedded anew.
        """
        self._is_apart = principal is not None

    def read_held(self) -> Held:
        """As it is before this session writes."""
        if self._held is None:
            self._held = read_held(self._engine)
        return self._held

    def state(self) -> RegistryState | None:
        return self._state

    def commit(self, changes: ChangeSet, progress: Progress | None = None) -> Written:
        """Embeds what is new and writes everything in one transaction.

        A change set that changes nothing only confirms the source's claims and keeps the revision.
        Raises EmbedderMismatch, ModelNotFound, StorageFailed, WriteConflict.
        """
        state = self._begin()
        if changes.is_empty:
            self._confirm(changes, state.revision)
            return Written(revision=state.revision)
        retold = self._retold(changes.operator, {entry.agent.id for entry in changes.written})
        chosen = self._choose_embedder(state) if changes.written or retold else None
        embedder = chosen.embedder if chosen else None
        before = texts_embedded(embedder)
        entries = [*changes.written, *retold]
        vectors = self._vectors(entries, state.texts, embedder, progress, said=changes.operator)
        stamp = Stamp(now=self._clock(), revision=state.revision + 1)

        def work(session: GraphSession) -> None:
            refuse_other_length(session, vectors, state.embedder)
            write_changes(session, changes, vectors, stamp, max_changes_kept=self._max_kept)
            write_vectors(session, *_ids_of(retold, vectors), vectors)

        revision = self._write(state.revision, touched_agents(changes), work)
        return Written(revision=revision, texts_embedded=texts_embedded(embedder) - before)

    def put_setting(self, said: OperatorSettings) -> Written:
        """Stores what an operator says; an agent it removes goes with its tools.

        What is said of tools is embedded. Raises as `commit`.
        """
        state = self._begin()
        held = self.read_held()
        gone = [said.agent_id] if said.removed and said.agent_id in held.agents else []
        tools = [item.tool.id for items in held.tools_of(gone).values() for item in items]

        retold = self._retold([said], gone)
        chosen = self._choose_embedder(state) if retold else None
        vectors = self._vectors(retold, state.texts, chosen.embedder if chosen else None, None, said=[said])

        def work(session: GraphSession) -> None:
            refuse_other_length(session, vectors, state.embedder)
            remove_agents(session, gone, tools)
            put_setting(session, said)
            write_vectors(session, *_ids_of(retold, vectors), vectors)

        return Written(revision=self._write(state.revision, [said.agent_id], work))

    def approve(self, *names: str, principal: Principal | None = None) -> Approved:
        """What waits of agents, tools and sources (`source:NAME`) waits no more, as its text is now.

        An agent whose tools were left out of its text is embedded anew. Raises UnknownName; NotAllowed for who is no
        operator, and for a source that claims an agent which the principal may not see; and as `commit`.
        """
        refuse_non_operator("an approval", principal)
        self.set_apart(principal)
        state = self._begin()
        held = self.read_held()
        for name in names:
            if name.startswith(OF_SOURCE):
                self._claims_of(name.removeprefix(OF_SOURCE), held, principal)
        agents, tools = all_waiting(held, names, principal)
        if not (agents or tools):
            return Approved(revision=state.revision)
        entries = approved_entries(held, agents, tools)
        # Without a tool that joins them, the agents' texts stay as they are.
        chosen = self._choose_embedder(state) if any(tool.pending for tool in tools) else None
        vectors = self._vectors(entries, state.texts, chosen.embedder if chosen else None, None)
        embedded = [entry.agent.id for entry in entries if entry.agent.id in vectors.vectors]

        def work(session: GraphSession) -> None:
            refuse_other_length(session, vectors, state.embedder)
            write_vectors(session, embedded, (), vectors)
            put_agent_props(session, {agent.id: approval_of(agent) for agent in agents})
            put_tool_props(session, {tool.id: approval_of(tool) for tool in tools})

        revision = self._write(state.revision, [entry.agent.id for entry in entries], work)
        return Approved(
            agents=tuple(agent.id for agent in agents), tools=tuple(tool.id for tool in tools), revision=revision
        )

    def put_statuses(
        self, statuses: Mapping[str, str], tried: SourceStatuses = NOTHING_TRIED, pauses: Mapping[str, int] = NO_PAUSES
    ) -> Written:
        """Agents' statuses, by id; unknown ids are left out. Where no status differs the revision stays.

        `tried`: by source, the status of each key that was tried. `pauses`: of these sources, in seconds.
        """
        state = self._begin()
        agents = self.read_held().agents
        failures = {source: self._failures_after(source, its) for source, its in tried.items()}
        differing = {
            agent_id: {"status": status}
            for agent_id, status in statuses.items()
            if agent_id in agents and agents[agent_id].agent.status != status
        }

        def work(session: GraphSession) -> None:
            put_agent_props(session, differing)
            for source, failing in failures.items():
                put_failures(session, source, failing, pauses.get(source, self._pause_s(source)))

        if not differing:
            if failures:
                self._touch(state.revision, work)
            return Written(revision=state.revision)
        return Written(revision=self._write(state.revision, differing, work))

    def put_failures(self, source: str, failures: Iterable[Failure]) -> Written:
        """What of a source does not work; one that was never read is made. The revision stays."""
        state = self._begin()
        self._touch(state.revision, lambda session: put_failures(session, source, failures, self._pause_s(source)))
        return Written(revision=state.revision)

    def _failures_after(self, source: str, statuses: Mapping[str, str]) -> tuple[Failure, ...]:
        known = self.read_held().sources.get(source)
        return continue_failures(source, known.failures if known else (), statuses, self._clock(), remaining=None)

    def _pause_s(self, source: str) -> int:
        known = self.read_held().sources.get(source)
        return known.pause_s if known else 0

    def forget_source(self, name: str, principal: Principal | None = None) -> Forgotten:
        """Removes a source, its claims, and the agents that only it claimed; of another what is held stays.

        Raises UnknownName; NotAllowed if it claims an agent that the principal may not see, or that others see, or has
        a policy, and the principal is no operator.
        """
        state = self._begin()
        held = self.read_held()
        mine = self._claims_of(name, held, principal)
        if held.policy_of(name) != "accept" or not all(is_own(held.overlaid(agent_id), principal) for agent_id in mine):
            refuse_non_operator("to forget a source that others see, or that has a policy,", principal)
        shared = {claim.agent_id for claim in held.claims if claim.source != name}
        gone = [agent_id for agent_id in mine if agent_id not in shared]
        tools = [item.tool.id for items in held.tools_of(gone).values() for item in items]

        def work(session: GraphSession) -> None:
            remove_agents(session, gone, tools)
            session.run(load("sync/remove_source"), source=name)

        revision = self._write(state.revision, gone, work)
        return Forgotten(
            revision=revision,
            agents=tuple(sorted(gone)),
            tools=tuple(sorted(tools)),
            ingest_again=outranked_sources(held, name, mine),
        )

    def learn_transitions(self, more: Sequence[Transition], half_life_days: float, max_kept: int) -> LearningReport:
        """Adds counts of what was called after what; of all at most `max_kept` stay, the largest.

        Those of agents and tools that the registry does not hold are left out. Nothing to add keeps the revision.
        """
        state = self._begin()
        held = read_transitions(self._engine)
        unknown = self._unknown_ids({name for each in more for name in each.ids})
        added = [each for each in more if unknown.isdisjoint(each.ids)]
        sums = add_transitions(held, added, half_life_days)
        kept, put = sums, list({each.key: None for each in added})
        if is_cut := len(sums) > max_kept:
            kept = keep_largest(sums, max_kept, half_life_days)
            put = list(kept)

        def work(session: GraphSession) -> None:
            if is_cut:
                session.run(load("learning/forget_transitions"))
            put_transitions(session, (kept[key] for key in put))

        revision = self._write(state.revision, (), work) if added else state.revision
        return LearningReport(transitions=len(kept), revision=revision, unknown=tuple(sorted(unknown)))

    def forget_transitions(self) -> Written:
        """All of them. Nothing to forget keeps the revision."""
        state = self._begin()
        if not read_transitions(self._engine):
            return Written(revision=state.revision)

        def work(session: GraphSession) -> None:
            session.run(load("learning/forget_transitions"))

        return Written(revision=self._write(state.revision, (), work))

    def put_taxonomy(self, new: Taxonomy) -> Taxonomy:
        """In place of the one of the same name. All that may stand in it is placed. Returns it as it is stored."""
        state = self._begin()
        new = replace(new, revision=state.revision + 1)

        def work(session: GraphSession) -> None:
            held = {each.name: each for each in read_taxonomies(session)}
            former = held.pop(new.name, None)
            if former and former.of is not new.of:
                remove_taxonomy(session, former)
                former = None
            settle(session, new, former)
            for other in held.values():
                if other.current and new.current:
                    put_taxonomy(session, replace(other, current=False), other)

        self._write(state.revision, (), work)
        return next(each for each in read_taxonomies(self._engine) if each.name == new.name)

    def restore_taxonomies(self, saved: Sequence[Taxonomy]) -> int:
        """Those whose names the registry has none of; none is current beside another. Returns the revision."""
        held = {each.name: each for each in read_taxonomies(self._engine)}
        has_current = any(each.current for each in held.values())
        missing = [each for each in saved if each.name not in held]

        def work(session: GraphSession) -> None:
            for each in missing:
                settle(session, replace(each, current=each.current and not has_current), None)

        revision = self._begin().revision
        return self._write(revision, (), work) if missing else revision

    def forget_taxonomy(self, name: str) -> Written:
        """If it was the current one, the first of those that are left is. Raises UnknownName."""
        state = self._begin()
        held = {each.name: each for each in read_taxonomies(self._engine)}
        if name not in held:
            raise UnknownName("taxonomy", name, held)
        gone, left = held.pop(name), list(held.values())

        def work(session: GraphSession) -> None:
            remove_taxonomy(session, gone)
            if gone.current and left:
                put_taxonomy(session, replace(left[0], current=True), left[0])

        return Written(revision=self._write(state.revision, (), work))

    def put_toolset(self, new: Toolset) -> Toolset:
        """In place of the one of the same name; returns it as it is stored. What changes nothing keeps the revision.

        Raises InvalidSetting for the name of a namespace.
        """
        state = self._begin()
        namespaces = {source.namespace: name for name, source in self.read_held().sources.items() if source.namespace}
        if new.name in namespaces:
            raise InvalidSetting(
                f"{new.name!r} is the namespace of the source {namespaces[new.name]!r}, which has the endpoint "
                f"/{new.name}/mcp; give the toolset another name"
            )
        held = {each.name: each for each in read_toolsets(self._engine)}.get(new.name)
        new = replace(new, includes=tuple(sorted(choose_tools(self._engine, [new])[new.name])))
        if new != held:
            log = [toolset_change(held, new)] if held is None or held.rule_json() != new.rule_json() else []

            def work(session: GraphSession) -> None:
                put_toolset(session, new, held.includes if held else ())
                self._log(session, log)

            self._write(state.revision, (), work)
        return new

    def remove_toolset(self, name: str) -> Written:
        """Raises UnknownName."""
        state = self._begin()
        held = {each.name: each for each in read_toolsets(self._engine)}
        if name not in held:
            raise UnknownName("toolset", name, held)

        def work(session: GraphSession) -> None:
            session.run(load("toolset/remove_toolset"), id=name)
            self._log(session, [toolset_change(held[name], None)])

        return Written(revision=self._write(state.revision, (), work))

    def restore_toolsets(self, saved: Sequence[Toolset]) -> int:
        """Those whose names neither a toolset nor a namespace has. Returns the revision."""
        taken = {each.name for each in read_toolsets(self._engine)}
        taken |= {source.namespace for source in self.read_held().sources.values()}
        for each in saved:
            if each.name not in taken:
                self.put_toolset(each)
        return self._begin().revision

    def _log(self, session: GraphSession, log: Sequence[Change]) -> None:
        stamp = Stamp(now=self._clock(), revision=self._begin().revision + 1)
        keep_changes(session, stamp_changes(log, stamp), self._max_kept)

    def _unknown_ids(self, ids: Collection[str]) -> set[str]:
        held = self.read_held()
        owners = {owner_of(each) for each in ids} & held.agents.keys()
        tools = {item.tool.id for items in held.tools_of(sorted(owners)).values() for item in items}
        return {each for each in ids if each not in (tools if is_tool(each) else owners)}

    def _claims_of(self, name: str, held: Held, principal: Principal | None) -> list[str]:
        """The agents that a source claims. Raises UnknownName, NotAllowed, as the principal may see them."""
        known = {str(row["name"]) for row in self._engine.run(load("read/sources"))}
        if principal is not None:
            known &= {claim.source for claim in held.claims if held.shows(claim.agent_id, principal)}
        if name not in known:
            raise UnknownName("source", name, known)
        claimed = [claim.agent_id for claim in held.claims if claim.source == name]
        refuse_unseen(held, claimed, principal)
        return claimed

    def reindex(self, texts: TextForm | None, chosen: ChosenEmbedder, progress: Progress | None = None) -> Written:
        """Embeds every text anew (cached ones apart), records embedder and text form, and makes the index anew.

        `texts` None: the form that it has.
        """
        state = self._begin()
        form = texts or state.texts
        before = texts_embedded(chosen.embedder)
        entries = self._all_entries()
        forms = TextForms(form=form, max_chars=self._max_chars).of_entries(
            overlay_entries(entries, self.read_held().settings)
        )
        vectors = new_vectors(forms, {}, chosen.embedder, progress) if chosen.embedder else no_vectors(forms)
        props = {"texts": form, "embedder": chosen.fingerprint, "embedder_spec": chosen.spec}
        self._prepare(chosen.embedder.dimension if chosen.embedder else 0)

        def work(session: GraphSession) -> None:
            agents = [entry.agent.id for entry in entries]
            tools = [tool.id for entry in entries for tool in entry.tools]
            write_vectors(session, agents, tools, vectors)
            session.run(load("state/update"), props=props)

        revision = self._write(state.revision, None, work)
        return Written(revision=revision, texts_embedded=texts_embedded(chosen.embedder) - before)

    def put_similar(self, choose: Callable[[Vectors], Sequence[Mapping[str, object]]]) -> Written:
        """Replaces the edges between near tools by those that it chooses: rows of `learning/put_similar`.

        It is given the vectors of the tools that have one.
        """
        state = self._begin()
        vectors = read_vectors(self._engine, tools=[item.tool.id for item in read_tools(self._engine)])
        rows = choose(vectors)

        def work(session: GraphSession) -> None:
            session.run(load("learning/clear_similar"))
            for batch in batches(rows):
                session.run(load("learning/put_similar"), revision=state.revision + 1, rows=list(batch))

        return Written(revision=self._write(state.revision, (), work))

    def _write(self, revision: int, touched: Collection[str] | None, work: Callable[[GraphSession], None]) -> int:
        """All of `work` as the next revision, in one transaction. Raises WriteConflict if another was first.

        `touched`: the agents it changes, or whose tools; None: the whole index is made anew.
        """

        def advancing(session: GraphSession) -> int:
            # First: it holds the Registry node, so that of two writers the second waits, and then sees that it is.
            following = advance(session, revision)
            with self._keep(session, touched), keep_taxonomies(session, touched):
                work(session)
                keep_toolsets(session, touched or ())
            return following

        following = self._engine.write(advancing)
        self._held = None
        assert self._state is not None  # noqa: S101 - it had this revision
        self._state = replace(self._state, revision=following)
        return following

    def _begin(self) -> RegistryState:
        """The registry's state; a new graph becomes a registry, with the embedder that there is."""
        state = self._state
        if state is not None:
            refuse_other_texts(self._texts, state.texts)
            return state
        chosen = self._choose("")
        props = {
            "revision": 0,
            "embedder": chosen.fingerprint,
            "embedder_spec": chosen.spec,
            "texts": self._texts or DEFAULT_TEXTS,
            "schema_version": SCHEMA_VERSION,
        }
        if chosen.embedder:
            self._prepare(chosen.embedder.dimension)
        self._engine.run(load("state/create"), props=props)
        created = self._state = read_state(self._engine)
        if created is None or created.revision:
            raise WriteConflict("another writer made this registry first")
        refuse_other_texts(self._texts, created.texts)
        return created

    def _choose_embedder(self, state: RegistryState) -> ChosenEmbedder:
        """The embedder that made this registry's vectors. Raises EmbedderMismatch if another was chosen."""
        chosen = self._choose(state.embedder_spec) if state.embedder else ChosenEmbedder(embedder=None, spec="none")
        if chosen.fingerprint != state.embedder:
            raise EmbedderMismatch(has=state.embedder, wants=chosen.fingerprint or "none")
        if self._is_apart and isinstance(chosen.embedder, CachedEmbedder):
            return replace(chosen, embedder=chosen.embedder.without_reading())
        return chosen

    def _retold(self, said: Iterable[OperatorSettings], others: Collection[str]) -> list[AgentEntry]:
        """The agents, `others` apart, of whose tools an operator says something else than before; whole."""
        held = self.read_held()
        agent_ids = [
            each.agent_id
            for each in said
            if each.agent_id in held.agents
            and each.agent_id not in others
            and each.tools != held.settings_of(each.agent_id).tools
        ]
        owned = held.tools_of(agent_ids) if agent_ids else {}
        return entries_of(
            (held.agents[agent_id].agent for agent_id in agent_ids),
            (item.tool for items in owned.values() for item in items),
        )

    def _vectors(
        self,
        written: Sequence[AgentEntry],
        form: TextForm,
        embedder: Embedder | None,
        progress: Progress | None,
        *,
        said: Iterable[OperatorSettings] = (),
    ) -> NewVectors:
        """`said`: what operators say now, beside what they said before."""
        if embedder is None:
            return NewVectors(vectors={}, keys={})
        held = self.read_held()
        written = overlay_entries(written, {**held.settings, **{each.agent_id: each for each in said}})
        if not held.agents:  # a registry that was copied while it was empty: nothing told the dimension
            self._prepare(embedder.dimension)
        ids = [entry.agent.id for entry in written]
        keys = {agent_id: held.agents[agent_id].vector_key for agent_id in ids if agent_id in held.agents}
        keys |= {item.tool.id: item.vector_key for items in held.tools_of(ids).values() for item in items}
        texts = TextForms(form=form, max_chars=self._max_chars).of_entries(written)
        return new_vectors(texts, keys, embedder, progress)

    def _confirm(self, changes: ChangeSet, revision: int) -> None:
        now = self._clock()
        self._touch(revision, lambda session: confirm_source(session, changes, now))

    def _touch(self, revision: int, work: Callable[[GraphSession], None]) -> None:
        """What no query depends on, in one transaction: the revision stays. Raises WriteConflict."""

        def holding(session: GraphSession) -> None:
            hold(session, revision)
            work(session)

        self._engine.write(holding)
        self._held = None

    def _all_entries(self) -> list[AgentEntry]:
        tools = [item.tool for item in read_tools(self._engine)]
        return entries_of((item.agent for item in read_agents(self._engine).values()), tools)


def _ids_of(entries: Iterable[AgentEntry], vectors: NewVectors) -> tuple[list[str], list[str]]:
    """The agents and the tools among these entries that have another vector now."""
    entries = list(entries)
    agents = [entry.agent.id for entry in entries if entry.agent.id in vectors.vectors]
    return agents, [tool.id for entry in entries for tool in entry.tools if tool.id in vectors.vectors]


def texts_embedded(embedder: Embedder | None) -> int:
    """How many texts this embedder really embedded so far, cached ones apart."""
    return int(getattr(embedder, "embedded", 0))


def changed_setting(
    held: Held, agent_id: str, changes: Mapping[str, object], principal: Principal | None = None
) -> OperatorSettings:
    """What operators said of an agent so far, with these fields changed.

    Raises UnknownName, also for what the principal may not see; what is removed only those see who see everything.
    Raises NotAllowed for what the principal may not set.
    """
    if not held.shows(agent_id, principal) and (principal is not None or agent_id not in held.settings):
        raise UnknownName("agent", agent_id, (each for each in held.agents if held.shows(each, principal)))
    before = held.settings_of(agent_id)
    after = replace(before, **changes)  # type: ignore[arg-type]
    if agent_id in held.agents:
        now, then = (overlaid(held.agents[agent_id].agent, {agent_id: said}) for said in (before, after))
        refuse_setting(now, then, changes, principal)
    return after


def refuse_other_length(session: GraphSession, vectors: NewVectors, embedder: str) -> None:
    """Raises EmbedderMismatch: an embedder's name may be that of whatever answers at an endpoint.

    Asked in the transaction that writes them: by then nobody embeds the registry anew.
    """
    wants = next((len(vector) for vector in vectors.vectors.values() if vector is not None), 0)
    for row in session.run(load("read/some_vector")) if wants else ():
        if (has := len(row["embedding"])) != wants:
            raise EmbedderMismatch.of_lengths(embedder, has=has, wants=wants)


def refuse_unseen(held: Held, agent_ids: Iterable[str], principal: Principal | None) -> None:
    """Raises NotAllowed if one of these is held and the principal may not see it. Which one is not said."""
    if any(agent_id in held.agents and not held.shows(agent_id, principal) for agent_id in agent_ids):
        refuse_change()


def refuse_change() -> Never:
    """Raises NotAllowed; of which agent is not said."""
    raise NotAllowed("this would change an agent that the caller may not see; nothing was changed")
