"""The one object that users hold."""

import os
import random
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from functools import partial
from itertools import count
from types import TracebackType
from typing import TYPE_CHECKING, Self

from waygraph.registry.answering import Answering
from waygraph.registry.embedding.embedder import parse_spec
from waygraph.registry.embedding.factory import ChosenEmbedder, OpenedEmbedders
from waygraph.registry.index.search_index import IndexState, SearchIndex
from waygraph.registry.model.errors import ModelNotFound, RegistryNotFound, WriteConflict
from waygraph.registry.model.nouns import Agent, Filters, Principal, Query, Route, TextForm, Tool, ToolRoute
from waygraph.registry.model.settings import DEFAULT_EMBEDDER, Settings, load_settings
from waygraph.registry.model.tracing import span
from waygraph.registry.model.validation import (
    check_texts,
    checked,
    checked_filters,
    checked_for_tools,
    checked_statuses,
    setting_changes,
)
from waygraph.registry.routing.queries import (
    About,
    Listed,
    Page,
    about,
    agent_named,
    agents_page,
    named,
    seen_sources,
    seen_state,
    standing_sources,
    tool_named,
    tools_page,
    visible_agents,
)
from waygraph.registry.routing.recipes import DEFAULT_RECIPE, Recipe, recipe_named
from waygraph.registry.routing.rerank import OpenedRerankers
from waygraph.registry.routing.router import Ask
from waygraph.registry.storage.store import Store, is_service, named_place, open_store

if TYPE_CHECKING:
    from waygraph.registry.embedding.embedder import Progress
    from waygraph.registry.graph.engine import GraphSession
    from waygraph.registry.graph.user_cypher.sandbox import CypherResult
    from waygraph.registry.model.changes import Approved, Change, OperatorSettings, SourceSummary
    from waygraph.registry.storage.export.formats import ExportFormat
    from waygraph.registry.storage.writer import Forgotten, WriteSession, Written


@dataclass(frozen=True, slots=True, kw_only=True)
class Status:
    """Where a registry is and what it holds. `revision` grows by one with every committed change."""

    location: str
    state: IndexState
    sources: int


class Registry:
    """Agents and their tools as a graph, and the router over them. Threads may share one.

    Reading needs only what the last write published, so any number of processes may read while one writes.
    """

    def __init__(self, store: Store, settings: Settings, environ: Mapping[str, str], spec: str) -> None:
        self._store, self._settings = store, settings
        self._embedders = OpenedEmbedders(settings, environ)
        self._rerankers = OpenedRerankers(settings, environ)
        self._answering = Answering(store, self._embedders, self._rerankers, spec)

    @staticmethod
    def open(
        location: str | os.PathLike[str],
        *,
        embedder: str | None = None,
        settings: Settings | None = None,
        environ: Mapping[str, str] | None = None,
    ) -> "Registry":
        """A registry in a file, in memory (`:memory:`) or on a server (`neo4j://host`). The first write makes it.

        Or one that a service keeps (`https://host`): a RemoteRegistry, of which nothing is asked yet.

        `embedder` is a spec such as `onnx:sentence-transformers/all-MiniLM-L6-v2`; by default the registry's own.
        Raises RegistryUnusable for a damaged, empty, foreign or newer file, EmbedderMismatch if the registry's
        vectors were made by another embedder than the one asked for, EmbedderRefused for a spec that names none,
        InvalidSetting if a service is to have another.
        """
        location = named_place(location)
        environ = os.environ if environ is None else environ
        settings = load_settings(environ) if settings is None else settings
        if is_service(location):
            from waygraph.registry.remote.remote_registry import RemoteRegistry

            return RemoteRegistry.open(location, embedder=embedder, settings=settings)
        spec = embedder or settings.embedder
        if spec:
            parse_spec(spec)
        store = open_store(location, settings)
        registry = Registry(store, settings, environ, spec)
        with ExitStack() as unless_open:
            unless_open.callback(registry.close)
            if store.exists:
                registry._answering.check()
            unless_open.pop_all()
        return registry

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def close(self) -> None:
        """Lets go of files and connections. A closed registry answers nothing more."""
        with ExitStack() as closing:
            for part in (self._embedders, self._rerankers, self._answering, self._store):
                closing.callback(part.close)

    # -- asking ------------------------------------------------------------------------------------

    def route(
        self,
        query: str | Query,
        *,
        limit: int | None = None,
        recipe: str | Recipe = DEFAULT_RECIPE,
        agent_weight: float | None = None,
        tool_weight: float | None = None,
        principal: Principal | None = None,
    ) -> Route:
        """The agents that can do this, best first, each with the votes that put it there and its best tools.

        `limit` overrules the query's own, weights the recipe's α for agents and tools. Raises InvalidQuery,
        UnknownRecipe, RecipeNeedsTexts, and of a reranker that cannot be opened InvalidSetting, LanguageModelRefused,
        MissingExtra, ModelNotFound.
        """
        ask = Ask.of(_recipe(recipe), agent_weight, tool_weight, principal)
        asked = checked(query, self._settings.max_query_chars, limit)
        with span("route", recipe=ask.recipe.name, steps=len(asked.steps)):
            return self._answering.route(asked, ask)

    def find_tools(
        self,
        query: str | Query,
        *,
        limit: int | None = None,
        agent_ids: Sequence[str] | None = None,
        recipe: str | Recipe = DEFAULT_RECIPE,
        principal: Principal | None = None,
    ) -> ToolRoute:
        """The tools that can do this, best first; `limit` and `agent_ids` overrule the query's own.

        Raises as `route`.
        """
        asked = checked_for_tools(query, limit, agent_ids, self._settings.max_query_chars)
        ask = Ask.of(_recipe(recipe), None, None, principal)
        with span("find_tools", recipe=ask.recipe.name):
            return self._answering.find_tools(asked, ask)

    # -- looking -----------------------------------------------------------------------------------

    def agents(self, *, principal: Principal | None = None) -> list[Agent]:
        """Every agent the principal may see, by id."""
        return self._store.look(lambda index: visible_agents(index, principal))

    def agent(self, agent_id: str, *, principal: Principal | None = None) -> Agent:
        """Raises UnknownName, which suggests only what the principal may see."""
        return self._store.look(lambda index: agent_named(index, agent_id, principal))

    def tools(self, agent_id: str | None = None, *, principal: Principal | None = None) -> list[Tool]:
        """The tools of one agent, or of all that the principal may see, by id. Raises UnknownName."""
        return list(self.tools_page(agent_id, principal=principal).items)

    def tool(self, name: str, *, principal: Principal | None = None) -> Tool:
        """By id (`agent/tool`) or by call name (`agent__tool`). Raises UnknownName, as `agent`."""
        return self._store.look(lambda index: tool_named(index, name, principal))

    def named(self, name: str, *, principal: Principal | None = None) -> Agent | Tool:
        """The agent of that id, else the tool of that id or call name. Raises UnknownName, as `agent`."""
        return self._store.look(lambda index: named(index, name, principal))

    def about(self, agent_id: str, *, principal: Principal | None = None) -> About:
        """All that is known of an agent, at one revision. Raises UnknownName."""
        return self._store.look(partial(about, agent_id=agent_id, principal=principal))

    def agents_page(
        self,
        *,
        filters: Filters = Filters(),  # noqa: B008 - frozen
        after: str = "",
        limit: int | None = None,
        principal: Principal | None = None,
    ) -> Page[Listed]:
        """The agents that fit, by id: those after the id `after`, at most `limit` of them."""
        allowed = checked_filters(filters)
        return self._store.look(lambda index: agents_page(index, allowed, principal, after, limit))

    def tools_page(
        self,
        agent_id: str | None = None,
        *,
        after: str = "",
        limit: int | None = None,
        principal: Principal | None = None,
    ) -> Page[Tool]:
        """The tools of one agent, or of all, by id: those after the id `after`, at most `limit` of them.

        Raises UnknownName.
        """
        return self._store.look(lambda index: tools_page(index, agent_id, principal, after, limit))

    def sources(self, *, principal: Principal | None = None) -> "list[SourceSummary]":
        """Each with its claims on agents that the principal may see; none of which it sees no agent."""
        return self._store.look(lambda index: standing_sources(index, principal))

    def changes(
        self, *, since: str = "", agent_id: str = "", limit: int | None = 100, principal: Principal | None = None
    ) -> "list[Change]":
        """What syncs changed of agents that were known before and of their tools: the newest `limit`, newest first.

        `since`: ISO 8601, in UTC unless it says otherwise. Of an agent that is gone only who sees everything learns.
        Raises InvalidQuery, RegistryNotFound.
        """
        return list(self.changes_page(since=since, agent_id=agent_id, limit=limit, principal=principal).items)

    def changes_page(
        self,
        *,
        since: str = "",
        agent_id: str = "",
        after: str = "",
        limit: int | None = None,
        principal: Principal | None = None,
    ) -> "Page[Change]":
        """As `changes`: those that are older than the change of the id `after`, at most `limit` of them."""
        from waygraph.registry.routing.queries import ChangesAsked, seen_changes

        asked = ChangesAsked.of(since, agent_id, after, limit)
        return self.read(lambda session: seen_changes(session, asked, principal))

    def status(self, *, principal: Principal | None = None) -> Status:
        """Its numbers are those of what the principal may see."""

        def seen(index: SearchIndex) -> Status:
            sources = len(seen_sources(index, principal))
            return Status(location=self._store.place, state=seen_state(index, principal), sources=sources)

        return self._store.look(seen)

    @property
    def stamp(self) -> str:
        """Another text for each revision, also where a copy of the registry came to the same number another way."""
        state = self._store.index(fresh=True).state
        return f"{state.revision}.{state.commit}"

    def export(self, format: "ExportFormat") -> str:  # noqa: A002 - what every caller calls it
        """The whole registry as text; the same revision gives the same text. Raises UnknownName, RegistryNotFound."""
        from waygraph.registry.storage.export.formats import export

        return export(self, format)

    def read[T](self, work: "Callable[[GraphSession], T]") -> T:
        """What `work` makes of one revision by declared statements: what sources state, without overlays.

        It may run more than once. Raises RegistryNotFound.
        """
        return self._store.read(work)

    def cypher(self, statement: str, params: Mapping[str, object] | None = None) -> "CypherResult":
        """Runs a statement that only reads, with limits of time, rows and memory, and of how many are at work.

        Raises CypherRefused, CypherFailed, CypherLimit, CypherBusy.
        """
        with span("cypher"):
            return self._store.run_read_only(statement, params or {})

    # -- writing -----------------------------------------------------------------------------------

    @property
    def exists(self) -> bool:
        """Whether anything was ever written at this place."""
        return self._store.exists

    @contextmanager
    def writing(self, *, texts: TextForm | None = None, trust_index: bool = True) -> "Iterator[WriteSession]":
        """To write once; `change` tries again. `texts` is chosen once, by the first write.

        Raises RegistryLocked, naming the holder, after `write_timeout_s`; InvalidSetting for other texts than its
        own; WriteConflict if another writer was first, where a registry has several at a time.
        """
        from waygraph.registry.storage.embedded import now
        from waygraph.registry.storage.writer import WriteSession

        check_texts(texts)
        with self._store.writing(trust_index=trust_index) as writing:
            yield WriteSession(
                writing,
                self._choose,
                texts=texts,
                max_embedded_chars=self._settings.max_embedded_chars,
                max_changes_kept=self._settings.max_changes_kept,
                clock=now,
            )

    def change[T](
        self, work: "Callable[[WriteSession], T]", *, texts: TextForm | None = None, trust_index: bool = True
    ) -> T:
        """What `work` does in a write session; done again, from its start, if another writer was first.

        Raises as `writing` does, WriteConflict after `write_timeout_s` of trying.
        """
        give_up = time.monotonic() + self._settings.write_timeout_s
        for attempt in count(1):
            try:
                with span("write"), self.writing(texts=texts, trust_index=trust_index) as session:
                    return work(session)
            except WriteConflict:
                if time.monotonic() > give_up:
                    raise
                time.sleep(random.uniform(0, min(0.5, 0.01 * 2 ** min(attempt, 10))))  # noqa: S311 - jitter, not a secret
        raise AssertionError("unreachable")

    def _changed[T](self, work: "Callable[[WriteSession], T]", *, trust_index: bool = True) -> T:
        """What only changes what is there makes no registry. Raises RegistryNotFound."""
        if not self.exists:
            raise RegistryNotFound(self._store.place)
        return self.change(work, trust_index=trust_index)

    def set(
        self,
        agent_id: str,
        *,
        tags: Sequence[str] | None = None,
        visible_to: Sequence[str] | None = None,
        everyone: bool = False,
        pinned: bool | None = None,
        hidden: bool | None = None,
        removed: bool | None = None,
        principal: Principal | None = None,
    ) -> "OperatorSettings":
        """What an operator says of an agent; None leaves a field as it is. It survives every sync.

        Raises UnknownName, also for an agent that the principal may not see; InvalidSetting for an empty name, and for
        no group at all: that would open it to everyone. `everyone` takes an operator's `visible_to` back.
        `removed=False` lets a removed agent's source bring it back.
        """
        from waygraph.registry.storage.writer import changed_setting

        changes = setting_changes(
            tags=tags, visible_to=visible_to, everyone=everyone, pinned=pinned, hidden=hidden, removed=removed
        )

        def work(session: "WriteSession") -> "OperatorSettings":
            held = session.held()
            said = changed_setting(held, agent_id, changes, principal)
            if said != held.said_of(agent_id):
                session.put_setting(said)
            return said

        return self._changed(work)

    def remove(self, agent_id: str, *, principal: Principal | None = None) -> "OperatorSettings":
        """Removes an agent and its tools, and keeps it away whatever its source says. Raises UnknownName."""
        return self.set(agent_id, removed=True, principal=principal)

    def approve(self, *names: str, principal: Principal | None = None) -> "Approved":
        """What waits of an agent and its tools, of a tool, or of a source (`source:NAME`) is in routing from now on.

        So are flagged texts approved, as they are now. All of the names or, if there is an error, none. A new revision,
        unless nothing waited. Raises UnknownName, also for what the principal may not see; NotAllowed for a source that
        claims an agent which it may not see; InvalidSetting for no name.
        """
        from waygraph.registry.storage.approval import checked_names

        wanted = checked_names(names)
        return self._changed(lambda session: session.approve(*wanted, principal=principal))

    def put_statuses(self, statuses: Mapping[str, str]) -> "Written":
        """Agent id → what is known of whether it answers, as `statuses` words it; in one transaction.

        Unknown ids are left out; where nothing differs there is no new revision. Raises InvalidSetting.
        """
        checked_statuses(statuses)
        return self._changed(lambda session: session.put_statuses(statuses))

    def forget(self, source: str, *, principal: Principal | None = None) -> "Forgotten":
        """Removes a source and the agents that only it claimed, which the answer names, beside the sources that speak
        for another agent now and must be ingested again to be heard.

        Raises UnknownName; NotAllowed if it claims an agent that the principal may not see.
        """
        return self._changed(lambda session: session.forget_source(source, principal))

    def reindex(
        self, *, texts: TextForm | None = None, embedder: str | None = None, progress: "Progress | None" = None
    ) -> "Written":
        """Embeds everything anew, with another embedder or text form if given. Raises InvalidSetting."""
        check_texts(texts)

        def work(session: "WriteSession") -> "tuple[ChosenEmbedder, Written]":
            state = session.state()
            own = state.embedder_spec if state else ""
            chosen = self._embedders.open_for_documents(embedder or self._answering.spec or own or DEFAULT_EMBEDDER)
            return chosen, session.reindex(texts, chosen, progress)

        chosen, written = self._changed(work, trust_index=False)
        self._answering.spec = chosen.spec
        return written

    # -- for those who look after it ---------------------------------------------------------------

    @property
    def store(self) -> Store:
        return self._store

    @property
    def settings(self) -> Settings:
        return self._settings

    @property
    def notice(self) -> str:
        """What limits its answers now, such as a missing model; empty if nothing does. Raises EmbedderMismatch."""
        return self._answering.router(fresh=True).notice

    # -- inside ------------------------------------------------------------------------------------

    def _choose(self, spec: str) -> ChosenEmbedder:
        """The embedder for a write: the one asked for, the registry's own (`spec`), or for a new registry the default.

        Without weights a new registry is made without vectors; one that has vectors refuses (ModelNotFound).
        """
        wanted = self._answering.spec or spec or DEFAULT_EMBEDDER
        try:
            return self._embedders.open_for_documents(wanted)
        except ModelNotFound:
            if spec or self._answering.spec:
                raise
            return ChosenEmbedder(embedder=None, spec=wanted)


def _recipe(recipe: str | Recipe) -> Recipe:
    """Raises UnknownRecipe."""
    return recipe_named(recipe) if isinstance(recipe, str) else recipe
