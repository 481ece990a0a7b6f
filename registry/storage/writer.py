"""A write session: what a sync or an operator may do from one revision to the next."""

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import replace
from itertools import batched
from typing import Never

from waygraph.cypher import load
from waygraph.registry.access.operators import is_own, refuse_non_operator, refuse_setting
from waygraph.registry.embedding.cache import CachedEmbedder
from waygraph.registry.embedding.embedder import Embedder, Progress
from waygraph.registry.embedding.factory import ChosenEmbedder
from waygraph.registry.embedding.texts import TextForms, new_vectors, no_vectors
from waygraph.registry.graph.engine import BATCH_ROWS, GraphSession
from waygraph.registry.graph.read import (
    GraphView,
    RegistryState,
    Stamp,
    Vectors,
    keep_changes,
    outranked_sources,
    overlaid,
    read_agents,
    read_graph_view,
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

_LEARNING_CLEAR_SIMILAR = load("learning/clear_similar")
_LEARNING_FORGET_TRANSITIONS = load("learning/forget_transitions")
_LEARNING_PUT_SIMILAR = load("learning/put_similar")
_READ_SOME_VECTOR = load("read/some_vector")
_READ_SOURCES = load("read/sources")
_STATE_CREATE = load("state/create")
_STATE_UPDATE = load("state/update")
_SYNC_REMOVE_SOURCE = load("sync/remove_source")
_TOOLSET_REMOVE_TOOLSET = load("toolset/remove_toolset")

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
        self._graph: GraphView | None = None
        self._is_apart = False

    def set_apart(self, principal: Principal | None) -> None:
        """What this session embeds for a principal that does not see everything tells nothing of texts that others
        wrote: all of it is embedded anew.
        """
        self._is_apart = principal is not None

    def read_graph_view(self) -> GraphView:
        """As it is before this session writes."""
        if self._graph is None:
            self._graph = read_graph_view(self._engine)
        return self._graph

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
        changed_entries = self._changed_entries(changes.operator, {entry.agent.id for entry in changes.written})
        choice = self._choose_embedder(state) if changes.written or changed_entries else None
        embedder = choice.embedder if choice else None
        before = texts_embedded(embedder)
        entries = [*changes.written, *changed_entries]
        vectors = self._vectors(entries, state.texts, embedder, progress, settings=changes.operator)
        stamp = Stamp(now=self._clock(), revision=state.revision + 1)

        def work(session: GraphSession) -> None:
            refuse_other_length(session, vectors, state.embedder)
            write_changes(session, changes, vectors, stamp, max_changes_kept=self._max_kept)
            write_vectors(session, *_ids_of(changed_entries, vectors), vectors)

        revision = self._write(state.revision, touched_agents(changes), work)
        return Written(revision=revision, texts_embedded=texts_embedded(embedder) - before)

    def put_setting(self, setting: OperatorSettings) -> Written:
        """Stores what an operator says; an agent it removes goes with its tools.

        What is said of tools is embedded. Raises as `commit`.
        """
        state = self._begin()
        graph = self.read_graph_view()
        agent_ids = [setting.agent_id] if setting.removed and setting.agent_id in graph.agents else []
        tools = [item.tool.id for items in graph.tools_of(agent_ids).values() for item in items]

        changed_entries = self._changed_entries([setting], agent_ids)
        choice = self._choose_embedder(state) if changed_entries else None
        vectors = self._vectors(
            changed_entries, state.texts, choice.embedder if choice else None, None, settings=[setting]
        )

        def work(session: GraphSession) -> None:
            refuse_other_length(session, vectors, state.embedder)
            remove_agents(session, agent_ids, tools)
            put_setting(session, setting)
            write_vectors(session, *_ids_of(changed_entries, vectors), vectors)

        return Written(revision=self._write(state.revision, [setting.agent_id], work))

    def approve(self, *names: str, principal: Principal | None = None) -> Approved:
        """What waits of agents, tools and sources (`source:NAME`) waits no more, as its text is now.

        An agent whose tools were left out of its text is embedded anew. Raises UnknownName; NotAllowed for who is no
        operator, and for a source that claims an agent which the principal may not see; and as `commit`.
        """
        refuse_non_operator("an approval", principal)
        self.set_apart(principal)
        state = self._begin()
        graph = self.read_graph_view()
        for name in names:
            if name.startswith(OF_SOURCE):
                self._claims_of(name.removeprefix(OF_SOURCE), graph, principal)
        agents, tools = all_waiting(graph, names, principal)
        if not (agents or tools):
            return Approved(revision=state.revision)
        entries = approved_entries(graph, agents, tools)
        # Without a tool that joins them, the agents' texts stay as they are.
        choice = self._choose_embedder(state) if any(tool.pending for tool in tools) else None
        vectors = self._vectors(entries, state.texts, choice.embedder if choice else None, None)
        agent_ids = [entry.agent.id for entry in entries if entry.agent.id in vectors.vectors]

        def work(session: GraphSession) -> None:
            refuse_other_length(session, vectors, state.embedder)
            write_vectors(session, agent_ids, (), vectors)
            put_agent_props(session, {agent.id: approval_of(agent) for agent in agents})
            put_tool_props(session, {tool.id: approval_of(tool) for tool in tools})

        revision = self._write(state.revision, [entry.agent.id for entry in entries], work)
        return Approved(
            agents=tuple(agent.id for agent in agents), tools=tuple(tool.id for tool in tools), revision=revision
        )

    def put_statuses(
        self,
        statuses: Mapping[str, str],
        attempts: SourceStatuses = NOTHING_TRIED,
        pauses: Mapping[str, int] = NO_PAUSES,
    ) -> Written:
        """Agents' statuses, by id; unknown ids are left out. Where no status differs the revision stays.

        `attempts`: by source, the status of each key that was tried. `pauses`: of these sources, in seconds.
        """
        state = self._begin()
        agents = self.read_graph_view().agents
        failures = {source: self._failures_after(source, its) for source, its in attempts.items()}
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
        summary = self.read_graph_view().sources.get(source)
        return continue_failures(source, summary.failures if summary else (), statuses, self._clock(), remaining=None)

    def _pause_s(self, source: str) -> int:
        summary = self.read_graph_view().sources.get(source)
        return summary.pause_s if summary else 0

    def forget_source(self, name: str, principal: Principal | None = None) -> Forgotten:
        """Removes a source, its claims, and the agents that only it claimed; of another what is held stays.

        Raises UnknownName; NotAllowed if it claims an agent that the principal may not see, or that others see, or has
        a policy, and the principal is no operator.
        """
        state = self._begin()
        graph = self.read_graph_view()
        mine = self._claims_of(name, graph, principal)
        if graph.policy_of(name) != "accept" or not all(
            is_own(graph.overlaid(agent_id), principal) for agent_id in mine
        ):
            refuse_non_operator("to forget a source that others see, or that has a policy,", principal)
        other_ids = {claim.agent_id for claim in graph.claims if claim.source != name}
        agent_ids = [agent_id for agent_id in mine if agent_id not in other_ids]
        tools = [item.tool.id for items in graph.tools_of(agent_ids).values() for item in items]

        def work(session: GraphSession) -> None:
            remove_agents(session, agent_ids, tools)
            session.run(_SYNC_REMOVE_SOURCE, source=name)

        revision = self._write(state.revision, agent_ids, work)
        return Forgotten(
            revision=revision,
            agents=tuple(sorted(agent_ids)),
            tools=tuple(sorted(tools)),
            ingest_again=outranked_sources(graph, name, mine),
        )

    def learn_transitions(self, more: Sequence[Transition], half_life_days: float, max_kept: int) -> LearningReport:
        """Adds counts of what was called after what; of all at most `max_kept` stay, the largest.

        Those of agents and tools that the registry does not hold are left out. Nothing to add keeps the revision.
        """
        state = self._begin()
        before = read_transitions(self._engine)
        unknown = self._unknown_ids({name for each in more for name in each.ids})
        additions = [each for each in more if unknown.isdisjoint(each.ids)]
        sums = add_transitions(before, additions, half_life_days)
        transitions, put = sums, list({each.key: None for each in additions})
        if is_cut := len(sums) > max_kept:
            transitions = keep_largest(sums, max_kept, half_life_days)
            put = list(transitions)

        def work(session: GraphSession) -> None:
            if is_cut:
                session.run(_LEARNING_FORGET_TRANSITIONS)
            put_transitions(session, (transitions[key] for key in put))

        revision = self._write(state.revision, (), work) if additions else state.revision
        return LearningReport(transitions=len(transitions), revision=revision, unknown=tuple(sorted(unknown)))

    def forget_transitions(self) -> Written:
        """All of them. Nothing to forget keeps the revision."""
        state = self._begin()
        if not read_transitions(self._engine):
            return Written(revision=state.revision)

        def work(session: GraphSession) -> None:
            session.run(_LEARNING_FORGET_TRANSITIONS)

        return Written(revision=self._write(state.revision, (), work))

    def put_taxonomy(self, new: Taxonomy) -> Taxonomy:
        """In place of the one of the same name. All that may stand in it is placed. Returns it as it is stored."""
        state = self._begin()
        new = replace(new, revision=state.revision + 1)

        def work(session: GraphSession) -> None:
            taxonomies = {each.name: each for each in read_taxonomies(session)}
            former = taxonomies.pop(new.name, None)
            if former and former.of is not new.of:
                remove_taxonomy(session, former)
                former = None
            settle(session, new, former)
            for other in taxonomies.values():
                if other.current and new.current:
                    put_taxonomy(session, replace(other, current=False), other)

        self._write(state.revision, (), work)
        return next(each for each in read_taxonomies(self._engine) if each.name == new.name)

    def restore_taxonomies(self, taxonomies: Sequence[Taxonomy]) -> int:
        """Those whose names the registry has none of; none is current beside another. Returns the revision."""
        present = {each.name: each for each in read_taxonomies(self._engine)}
        has_current = any(each.current for each in present.values())
        missing = [each for each in taxonomies if each.name not in present]

        def work(session: GraphSession) -> None:
            for each in missing:
                settle(session, replace(each, current=each.current and not has_current), None)

        revision = self._begin().revision
        return self._write(revision, (), work) if missing else revision

    def forget_taxonomy(self, name: str) -> Written:
        """If it was the current one, the first of those that are left is. Raises UnknownName."""
        state = self._begin()
        taxonomies = {each.name: each for each in read_taxonomies(self._engine)}
        if name not in taxonomies:
            raise UnknownName("taxonomy", name, taxonomies)
        taxonomy, others = taxonomies.pop(name), list(taxonomies.values())

        def work(session: GraphSession) -> None:
            remove_taxonomy(session, taxonomy)
            if taxonomy.current and others:
                put_taxonomy(session, replace(others[0], current=True), others[0])

        return Written(revision=self._write(state.revision, (), work))

    def put_toolset(self, new: Toolset) -> Toolset:
        """In place of the one of the same name; returns it as it is stored. What changes nothing keeps the revision.

        Raises InvalidSetting for the name of a namespace.
        """
        state = self._begin()
        namespaces = {
            source.namespace: name for name, source in self.read_graph_view().sources.items() if source.namespace
        }
        if new.name in namespaces:
            raise InvalidSetting(
                f"{new.name!r} is the namespace of the source {namespaces[new.name]!r}, which has the endpoint "
                f"/{new.name}/mcp; give the toolset another name"
            )
        before = {each.name: each for each in read_toolsets(self._engine)}.get(new.name)
        new = replace(new, includes=tuple(sorted(choose_tools(self._engine, [new])[new.name])))
        if new != before:
            log = [toolset_change(before, new)] if before is None or before.rule_json() != new.rule_json() else []

            def work(session: GraphSession) -> None:
                put_toolset(session, new, before.includes if before else ())
                self._log(session, log)

            self._write(state.revision, (), work)
        return new

    def remove_toolset(self, name: str) -> Written:
        """Raises UnknownName."""
        state = self._begin()
        toolsets = {each.name: each for each in read_toolsets(self._engine)}
        if name not in toolsets:
            raise UnknownName("toolset", name, toolsets)

        def work(session: GraphSession) -> None:
            session.run(_TOOLSET_REMOVE_TOOLSET, id=name)
            self._log(session, [toolset_change(toolsets[name], None)])

        return Written(revision=self._write(state.revision, (), work))

    def restore_toolsets(self, toolsets: Sequence[Toolset]) -> int:
        """Those whose names neither a toolset nor a namespace has. Returns the revision."""
        names = {each.name for each in read_toolsets(self._engine)}
        names |= {source.namespace for source in self.read_graph_view().sources.values()}
        for each in toolsets:
            if each.name not in names:
                self.put_toolset(each)
        return self._begin().revision

    def _log(self, session: GraphSession, log: Sequence[Change]) -> None:
        stamp = Stamp(now=self._clock(), revision=self._begin().revision + 1)
        keep_changes(session, stamp_changes(log, stamp), self._max_kept)

    def _unknown_ids(self, ids: Collection[str]) -> set[str]:
        graph = self.read_graph_view()
        owners = {owner_of(each) for each in ids} & graph.agents.keys()
        tools = {item.tool.id for items in graph.tools_of(sorted(owners)).values() for item in items}
        return {each for each in ids if each not in (tools if is_tool(each) else owners)}

    def _claims_of(self, name: str, graph: GraphView, principal: Principal | None) -> list[str]:
        """The agents that a source claims. Raises UnknownName, NotAllowed, as the principal may see them."""
        sources = {str(row["name"]) for row in self._engine.run(_READ_SOURCES)}
        if principal is not None:
            sources &= {claim.source for claim in graph.claims if graph.shows(claim.agent_id, principal)}
        if name not in sources:
            raise UnknownName("source", name, sources)
        agent_ids = [claim.agent_id for claim in graph.claims if claim.source == name]
        refuse_unseen(graph, agent_ids, principal)
        return agent_ids

    def reindex(self, texts: TextForm | None, choice: ChosenEmbedder, progress: Progress | None = None) -> Written:
        """Embeds every text anew (cached ones apart), records embedder and text form, and makes the index anew.

        `texts` None: the form that it has.
        """
        state = self._begin()
        form = texts or state.texts
        before = texts_embedded(choice.embedder)
        entries = self._all_entries()
        forms = TextForms(form=form, max_chars=self._max_chars).of_entries(
            overlay_entries(entries, self.read_graph_view().settings)
        )
        vectors = new_vectors(forms, {}, choice.embedder, progress) if choice.embedder else no_vectors(forms)
        props = {"texts": form, "embedder": choice.fingerprint, "embedder_spec": choice.spec}
        self._prepare(choice.embedder.dimension if choice.embedder else 0)

        def work(session: GraphSession) -> None:
            agents = [entry.agent.id for entry in entries]
            tools = [tool.id for entry in entries for tool in entry.tools]
            write_vectors(session, agents, tools, vectors)
            session.run(_STATE_UPDATE, props=props)

        revision = self._write(state.revision, None, work)
        return Written(revision=revision, texts_embedded=texts_embedded(choice.embedder) - before)

    def put_similar(self, choose: Callable[[Vectors], Sequence[Mapping[str, object]]]) -> Written:
        """Replaces the edges between near tools by those that it chooses: rows of `learning/put_similar`.

        It is given the vectors of the tools that have one.
        """
        state = self._begin()
        vectors = read_vectors(self._engine, tools=[item.tool.id for item in read_tools(self._engine)])
        rows = choose(vectors)

        def work(session: GraphSession) -> None:
            session.run(_LEARNING_CLEAR_SIMILAR)
            for batch in batched(rows, BATCH_ROWS):
                session.run(_LEARNING_PUT_SIMILAR, revision=state.revision + 1, rows=list(batch))

        return Written(revision=self._write(state.revision, (), work))

    def _write(self, revision: int, agent_ids: Collection[str] | None, work: Callable[[GraphSession], None]) -> int:
        """All of `work` as the next revision, in one transaction. Raises WriteConflict if another was first.

        `agent_ids`: the agents it changes, or whose tools; None: the whole index is made anew.
        """

        def advancing(session: GraphSession) -> int:
            # First: it holds the Registry node, so that of two writers the second waits, and then sees that it is.
            following = advance(session, revision)
            with self._keep(session, agent_ids), keep_taxonomies(session, agent_ids):
                work(session)
                keep_toolsets(session, agent_ids or ())
            return following

        following = self._engine.write(advancing)
        self._graph = None
        assert self._state is not None  # noqa: S101 - it had this revision
        self._state = replace(self._state, revision=following)
        return following

    def _begin(self) -> RegistryState:
        """The registry's state; a new graph becomes a registry, with the embedder that there is."""
        state = self._state
        if state is not None:
            refuse_other_texts(self._texts, state.texts)
            return state
        choice = self._choose("")
        props = {
            "revision": 0,
            "embedder": choice.fingerprint,
            "embedder_spec": choice.spec,
            "texts": self._texts or DEFAULT_TEXTS,
            "schema_version": SCHEMA_VERSION,
        }
        if choice.embedder:
            self._prepare(choice.embedder.dimension)
        self._engine.run(_STATE_CREATE, props=props)
        new_state = self._state = read_state(self._engine)
        if new_state is None or new_state.revision:
            raise WriteConflict("another writer made this registry first")
        refuse_other_texts(self._texts, new_state.texts)
        return new_state

    def _choose_embedder(self, state: RegistryState) -> ChosenEmbedder:
        """The embedder that made this registry's vectors. Raises EmbedderMismatch if another was chosen."""
        choice = self._choose(state.embedder_spec) if state.embedder else ChosenEmbedder(embedder=None, spec="none")
        if choice.fingerprint != state.embedder:
            raise EmbedderMismatch(has=state.embedder, wants=choice.fingerprint or "none")
        if self._is_apart and isinstance(choice.embedder, CachedEmbedder):
            return replace(choice, embedder=choice.embedder.without_reading())
        return choice

    def _changed_entries(self, settings: Iterable[OperatorSettings], others: Collection[str]) -> list[AgentEntry]:
        """The agents, `others` apart, of whose tools an operator says something else than before; whole."""
        graph = self.read_graph_view()
        agent_ids = [
            each.agent_id
            for each in settings
            if each.agent_id in graph.agents
            and each.agent_id not in others
            and each.tools != graph.settings_of(each.agent_id).tools
        ]
        tools_by_agent = graph.tools_of(agent_ids) if agent_ids else {}
        return entries_of(
            (graph.agents[agent_id].agent for agent_id in agent_ids),
            (item.tool for items in tools_by_agent.values() for item in items),
        )

    def _vectors(
        self,
        entries: Sequence[AgentEntry],
        form: TextForm,
        embedder: Embedder | None,
        progress: Progress | None,
        *,
        settings: Iterable[OperatorSettings] = (),
    ) -> NewVectors:
        """`settings`: what operators say now, beside what they said before."""
        if embedder is None:
            return NewVectors(vectors={}, keys={})
        graph = self.read_graph_view()
        entries = overlay_entries(entries, {**graph.settings, **{each.agent_id: each for each in settings}})
        if not graph.agents:  # a registry that was copied while it was empty: nothing told the dimension
            self._prepare(embedder.dimension)
        ids = [entry.agent.id for entry in entries]
        keys = {agent_id: graph.agents[agent_id].vector_key for agent_id in ids if agent_id in graph.agents}
        keys |= {item.tool.id: item.vector_key for items in graph.tools_of(ids).values() for item in items}
        texts = TextForms(form=form, max_chars=self._max_chars).of_entries(entries)
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
        self._graph = None

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
    graph: GraphView, agent_id: str, changes: Mapping[str, object], principal: Principal | None = None
) -> OperatorSettings:
    """What operators said of an agent so far, with these fields changed.

    Raises UnknownName, also for what the principal may not see; what is removed only those see who see everything.
    Raises NotAllowed for what the principal may not set.
    """
    if not graph.shows(agent_id, principal) and (principal is not None or agent_id not in graph.settings):
        raise UnknownName("agent", agent_id, (each for each in graph.agents if graph.shows(each, principal)))
    before = graph.settings_of(agent_id)
    after = replace(before, **changes)  # type: ignore[arg-type]
    if agent_id in graph.agents:
        now, then = (overlaid(graph.agents[agent_id].agent, {agent_id: setting}) for setting in (before, after))
        refuse_setting(now, then, changes, principal)
    return after


def refuse_other_length(session: GraphSession, vectors: NewVectors, embedder: str) -> None:
    """Raises EmbedderMismatch: an embedder's name may be that of whatever answers at an endpoint.

    Asked in the transaction that writes them: by then nobody embeds the registry anew.
    """
    wants = next((len(vector) for vector in vectors.vectors.values() if vector is not None), 0)
    for row in session.run(_READ_SOME_VECTOR) if wants else ():
        if (has := len(row["embedding"])) != wants:
            raise EmbedderMismatch.of_lengths(embedder, has=has, wants=wants)


def refuse_unseen(graph: GraphView, agent_ids: Iterable[str], principal: Principal | None) -> None:
    """Raises NotAllowed if one of these is held and the principal may not see it. Which one is not said."""
    if any(agent_id in graph.agents and not graph.shows(agent_id, principal) for agent_id in agent_ids):
        refuse_change()


def refuse_change() -> Never:
    """Raises NotAllowed; of which agent is not said."""
    raise NotAllowed("this would change an agent that the caller may not see; nothing was changed")
