"""The one writer of a registry: what a transaction begins from, what it embeds, and the revision that it makes."""

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from contextlib import AbstractContextManager, ExitStack
from dataclasses import replace
from typing import Any, NamedTuple, Protocol

from waygraph.cypher import load
from waygraph.registry.embedding.cache import CachedEmbedder
from waygraph.registry.embedding.embedder import Embedder, Progress
from waygraph.registry.embedding.factory import ChosenEmbedder
from waygraph.registry.embedding.texts import TextForms, new_vectors, no_vectors
from waygraph.registry.graph.contents import GraphNoun, NounValue
from waygraph.registry.graph.engine import GraphEngine, GraphSession
from waygraph.registry.graph.read import (
    GraphView,
    Part,
    RegistryState,
    Stamp,
    keep_changes,
    read_agents,
    read_graph_view,
    read_tools,
    stamp_changes,
)
from waygraph.registry.graph.schema import SCHEMA_VERSION, link_subjects
from waygraph.registry.graph.write import (
    NewVectors,
    advance,
    hold,
    put_source,
    touched_agents,
    write_changes,
    write_vectors,
)
from waygraph.registry.model.changes import AgentEntry, Change, ChangeSet, OperatorSettings, Written, entries_of
from waygraph.registry.model.errors import EmbedderMismatch, WriteConflict
from waygraph.registry.model.nouns import Principal, TextForm
from waygraph.registry.model.settings import Settings
from waygraph.registry.model.tool_settings import overlay_entries
from waygraph.registry.model.validation import refuse_other_texts

_READ_SOME_VECTOR = load("read/some_vector")
_STATE_CREATE = load("state/create")
_STATE_UPDATE = load("state/update")

DEFAULT_TEXTS: TextForm = "contextual"
_NOTHING_EMBEDDED = NewVectors(vectors={}, keys={})

type Keep = Callable[[GraphSession, Collection[str] | None], AbstractContextManager[None]]


class Writing(NamedTuple):
    """The engine to write through, and what keeps the search index true to what is written.

    `keep(session, agent_ids)` is entered inside the transaction, before these agents or their tools change; with None
    in place of ids everything is indexed anew. `prepare(dimension)` is called before the first vectors of that many
    numbers are written; 0: before there are none any more. `state`: of the revision that this write goes on from, read
    while no other writer was committing; None: there is no registry yet.
    """

    engine: GraphEngine
    keep: Keep
    prepare: Callable[[int], None]
    state: RegistryState | None


class RegistryNoun[T: NounValue](GraphNoun[T], Protocol):
    """A kind of value that an export carries, and an ingest of the export may restore."""

    singular: str

    def as_export(self, value: T) -> dict[str, Any]:
        return value.as_json()

    def of_export(self, document: Mapping[str, Any]) -> T:
        """Of what `as_export` wrote, or anybody else. Raises InvalidSetting, LookupError, TypeError, ValueError."""
        ...

    def texts(self, value: T) -> Iterable[str]:
        """What models are shown of it as it is."""
        ...

    def restore(self, session: "WriteSession", values: Sequence[T]) -> Written:
        """Those whose names are free."""
        ...


def prepare_nothing(dimension: int) -> None:
    """For an index that takes vectors of any length."""


class WriteSession:
    """What is written holds against the revision found at its start.

    What a noun is, and what may be done with it, its own room says by functions that take this session.
    """

    def __init__(
        self,
        writing: Writing,
        choose: Callable[[str], ChosenEmbedder],
        nouns: Sequence[GraphNoun[Any]],
        settings: Settings,
        *,
        texts: TextForm | None,
        clock: Callable[[], str],
    ) -> None:
        """`choose` gives the embedder for a spec; `nouns`: what each transaction keeps true beside the index."""
        self.engine, self._keep, self._prepare, self._state = writing
        self._choose, self._nouns, self.clock = choose, nouns, clock
        self._texts, self._settings = texts, settings
        self._graph: GraphView | None = None
        self._is_apart = False

    def set_apart(self, principal: Principal | None) -> None:
        """What this session embeds for a principal that does not see everything tells nothing of texts that others
        wrote: all of it is embedded anew.
        """
        self._is_apart = principal is not None

    def read_graph_view(self, part: Part | None = None) -> GraphView:
        """As it is before this session writes; None: whole."""
        if self._graph is None and part is not None:
            return read_graph_view(self.engine, part)
        if self._graph is None:
            self._graph = read_graph_view(self.engine)
        return self._graph

    def read_agents(self, agent_ids: Collection[str], principal: Principal | None) -> GraphView:
        """These agents; the whole graph unless the principal sees all of them: then the error names those it sees."""
        graph = self.read_graph_view(Part(agent_ids=agent_ids))
        return graph if all(graph.shows(each, principal) for each in agent_ids) else self.read_graph_view()

    def state(self) -> RegistryState | None:
        return self._state

    def begin(self) -> RegistryState:
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
        rows = self.engine.run(_STATE_CREATE, props=props)
        if not rows or rows[0]["revision"]:
            raise WriteConflict("another writer made this registry first")
        new_state = self._state = RegistryState(**rows[0])
        refuse_other_texts(self._texts, new_state.texts)
        return new_state

    def write(
        self,
        work: Callable[[GraphSession], None],
        agent_ids: Collection[str] | None = (),
        vectors: NewVectors = _NOTHING_EMBEDDED,
    ) -> Written:
        """All of `work` as the next revision, in one transaction. Raises WriteConflict if another was first.

        `agent_ids`: the agents it changes, or whose tools; None: the whole index is made anew. `vectors`: those that it
        writes; raises EmbedderMismatch for such as are of another length than the registry's.
        """
        state = self.begin()

        def advancing(session: GraphSession) -> int:
            # First: it holds the Registry node, so that of two writers the second waits, and then sees that it is.
            following = advance(session, state.revision)
            with ExitStack() as keeps:
                for keep in (self._keep, *(noun.keep for noun in self._nouns)):
                    keeps.enter_context(keep(session, agent_ids))
                refuse_other_length(session, vectors, state.embedder)
                work(session)
            return following

        following = self.engine.write(advancing)
        self._graph = None
        self._state = replace(state, revision=following)
        return Written(revision=following)

    def touch(self, work: Callable[[GraphSession], None]) -> Written:
        """What no query depends on, in one transaction: the revision stays. Raises WriteConflict."""
        revision = self.begin().revision

        def holding(session: GraphSession) -> None:
            hold(session, revision)
            with self._keep(session, ()):
                work(session)

        self.engine.write(holding)
        self._graph = None
        return Written(revision=revision)

    def log(self, session: GraphSession, changes: Sequence[Change]) -> None:
        """Adds to the log of changes, with the revision that the transaction makes."""
        stamp = Stamp(now=self.clock(), revision=self.begin().revision + 1)
        keep_changes(session, stamp_changes(changes, stamp), self._settings.max_changes_kept)
        link_subjects(session, {change.agent_id for change in changes})

    def commit(self, changes: ChangeSet, progress: Progress | None = None, graph: GraphView | None = None) -> Written:
        """Embeds what is new and writes everything in one transaction. `graph`: what the changes were planned over;
        None: it is read.

        A change set that changes nothing only confirms the source and keeps the revision.
        Raises EmbedderMismatch, ModelNotFound, StorageFailed, WriteConflict.
        """
        state = self.begin()
        if changes.is_empty:
            now = self.clock()
            return self.touch(lambda session: put_source(session, changes.source, changes, now))
        graph = self.read_graph_view() if graph is None else graph
        changed_entries = changed_entries_of(graph, changes.operator, {entry.agent.id for entry in changes.written})
        entries = [*changes.written, *changed_entries]
        choice = self._choose_embedder(state) if entries else None
        before = texts_embedded(choice)
        vectors = self._vectors(graph, entries, choice, progress, changes.operator)
        stamp = Stamp(now=self.clock(), revision=state.revision + 1)

        def work(session: GraphSession) -> None:
            write_changes(session, changes, vectors, stamp, max_changes_kept=self._settings.max_changes_kept)
            write_vectors(session, [each.id for entry in changed_entries for each in entry.entities], vectors)

        return replace(
            self.write(work, touched_agents(changes), vectors), texts_embedded=texts_embedded(choice) - before
        )

    def embed(
        self, graph: GraphView, entries: Sequence[AgentEntry], settings: Iterable[OperatorSettings] = ()
    ) -> NewVectors:
        """The vectors of those whose texts are new, of agents in the view. `settings`: what operators say now, beside
        what they said before.

        Raises EmbedderMismatch, ModelNotFound.
        """
        choice = self._choose_embedder(self.begin()) if entries else None
        return self._vectors(graph, entries, choice, None, settings)

    def reindex(self, texts: TextForm | None, choice: ChosenEmbedder, progress: Progress | None = None) -> Written:
        """Embeds every text anew (cached ones apart), records embedder and text form, and makes the index anew.

        `texts` None: the form that it has.
        """
        form = texts or self.begin().texts
        before = texts_embedded(choice)
        agents = [item.agent for item in read_agents(self.engine).values()]
        tools = [item.tool for item in read_tools(self.engine)]
        forms = TextForms(form=form, max_chars=self._settings.max_embedded_chars).of_entries(
            overlay_entries(entries_of(agents, tools), self.read_graph_view().settings)
        )
        vectors = new_vectors(forms, {}, choice.embedder, progress) if choice.embedder else no_vectors(forms)
        props = {"texts": form, "embedder": choice.fingerprint, "embedder_spec": choice.spec}
        self._prepare(choice.embedder.dimension if choice.embedder else 0)

        def work(session: GraphSession) -> None:
            write_vectors(session, [*(agent.id for agent in agents), *(tool.id for tool in tools)], vectors)
            session.run(_STATE_UPDATE, props=props)

        return replace(self.write(work, None), texts_embedded=texts_embedded(choice) - before)

    def _choose_embedder(self, state: RegistryState) -> ChosenEmbedder:
        """The embedder that made this registry's vectors. Raises EmbedderMismatch if another was chosen."""
        choice = self._choose(state.embedder_spec) if state.embedder else ChosenEmbedder(embedder=None, spec="none")
        if choice.fingerprint != state.embedder:
            raise EmbedderMismatch(has=state.embedder, wants=choice.fingerprint or "none")
        if self._is_apart and isinstance(choice.embedder, CachedEmbedder):
            return replace(choice, embedder=choice.embedder.without_reading())
        return choice

    def _vectors(
        self,
        graph: GraphView,
        entries: Sequence[AgentEntry],
        choice: ChosenEmbedder | None,
        progress: Progress | None,
        settings: Iterable[OperatorSettings],
    ) -> NewVectors:
        embedder: Embedder | None = choice.embedder if choice else None
        if embedder is None:
            return _NOTHING_EMBEDDED
        entries = overlay_entries(entries, {**graph.settings, **{each.agent_id: each for each in settings}})
        if not (graph.agents or self.engine.run(_READ_SOME_VECTOR)):  # it was copied empty: nothing told the dimension
            self._prepare(embedder.dimension)
        ids = [entry.agent.id for entry in entries]
        keys = {agent_id: graph.agents[agent_id].vector_key for agent_id in ids if agent_id in graph.agents}
        keys |= {item.tool.id: item.vector_key for items in graph.tools_of(ids).values() for item in items}
        texts = TextForms(form=self.begin().texts, max_chars=self._settings.max_embedded_chars).of_entries(entries)
        return new_vectors(texts, keys, embedder, progress)


def changed_entries_of(
    graph: GraphView, settings: Iterable[OperatorSettings], others: Collection[str] = ()
) -> list[AgentEntry]:
    """The agents, `others` apart, of whose tools an operator says something else than before; whole."""
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


def texts_embedded(choice: ChosenEmbedder | None) -> int:
    """How many texts this embedder really embedded so far, cached ones apart."""
    return int(getattr(choice.embedder, "embedded", 0)) if choice else 0


def refuse_other_length(session: GraphSession, vectors: NewVectors, embedder: str) -> None:
    """Raises EmbedderMismatch: an embedder's name may be that of whatever answers at an endpoint.

    Asked in the transaction that writes them: by then nobody embeds the registry anew.
    """
    wants = next((len(vector) for vector in vectors.vectors.values() if vector is not None), 0)
    for row in session.run(_READ_SOME_VECTOR) if wants else ():
        if (has := len(row["embedding"])) != wants:
            raise EmbedderMismatch.of_lengths(embedder, has=has, wants=wants)
