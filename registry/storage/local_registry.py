"""A registry whose graph is read here: in a file, in memory, or on a graph server. Its methods: `registry.py`."""

import os
import random
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import replace
from functools import partial
from itertools import count
from types import TracebackType
from typing import TYPE_CHECKING, Any, Self

from waygraph.registry.access.operators import refuse_limited, refuse_non_operator
from waygraph.registry.embedding.embedder import full_spec, parse_spec
from waygraph.registry.embedding.factory import ChosenEmbedder, OpenedEmbedders, default_spec
from waygraph.registry.index.search_index import SearchIndex
from waygraph.registry.model.changes import About, ListedAgent, Page, Status
from waygraph.registry.model.errors import ModelNotFound, RegistryNotFound, WriteConflict
from waygraph.registry.model.nouns import Agent, Filters, Principal, Query, Route, TextForm, Tool, ToolRoute
from waygraph.registry.model.settings import Settings, load_settings
from waygraph.registry.model.taxonomy import DEFAULT_NAME, CategoryView, Of, Taxonomy, check_taxonomy_name
from waygraph.registry.model.toolset import Toolset
from waygraph.registry.model.tracing import span
from waygraph.registry.model.transitions import owner_of
from waygraph.registry.model.usage import Sort
from waygraph.registry.model.validation import (
    check_query,
    check_texts,
    checked_filters,
    checked_for_tools,
    checked_path,
    checked_statuses,
    setting_changes,
    stated_toolset,
)
from waygraph.registry.routing.answering import Answering, Walks
from waygraph.registry.routing.browse import browse_index, with_members
from waygraph.registry.routing.queries import (
    about,
    agent_named,
    agents_page,
    find_named,
    seen_sources,
    seen_state,
    seen_taxonomy,
    standing_sources,
    tool_named,
    tools_page,
    visible_agents,
)
from waygraph.registry.routing.recipes import DEFAULT_RECIPE, Recipe, recipe_named
from waygraph.registry.routing.rerank import OpenedRerankers
from waygraph.registry.routing.router import Ask
from waygraph.registry.routing.seen_toolsets import seen_toolset, seen_toolsets
from waygraph.registry.storage.location import named_place, open_store
from waygraph.registry.storage.store import Store

if TYPE_CHECKING:
    from waygraph.registry.embedding.embedder import Progress
    from waygraph.registry.graph.engine import GraphSession
    from waygraph.registry.http.openai_endpoint import ChatModel
    from waygraph.registry.model.changes import (
        Approved,
        Change,
        CypherResult,
        Forgotten,
        OperatorSettings,
        SourceSummary,
        Written,
    )
    from waygraph.registry.model.failures import SourceStatuses
    from waygraph.registry.model.usage import ToolUsage
    from waygraph.registry.storage.export.formats import ExportFormat
    from waygraph.registry.storage.writer import WriteSession
    from waygraph.registry.taxonomy.upkeep import BuildInput
    from waygraph.registry.taxonomy.vectors_build import Builder


class LocalRegistry:
    """Implements Registry over a store. Reading needs only what the last write published."""

    def __init__(self, store: Store, settings: Settings, environ: Mapping[str, str], spec: str) -> None:
        self._store, self._settings, self._environ = store, settings, environ
        self._embedders = OpenedEmbedders(settings, environ)
        self._rerankers = OpenedRerankers(settings, environ)
        self._walks = Walks(settings, environ)
        self._answering = Answering(store, self._embedders, self._rerankers, self._walks, spec)

    @staticmethod
    def open(
        location: str | os.PathLike[str],
        *,
        embedder: str | None = None,
        settings: Settings | None = None,
        environ: Mapping[str, str] | None = None,
    ) -> "LocalRegistry":
        """Raises as `Registry.open`, and NeedsRegistry for the location of a service."""
        location = named_place(location)
        environ = os.environ if environ is None else environ
        settings = load_settings(environ) if settings is None else settings
        spec = full_spec(embedder or settings.embedder)
        if spec:
            parse_spec(spec)
        store = open_store(location, settings)
        registry = LocalRegistry(store, settings, environ, spec)
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
            for part in (self._embedders, self._rerankers, self._walks, self._answering, self._store):
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
        ask = self._ask(recipe, agent_weight, tool_weight, principal)
        request = self._within(check_query(query, self._settings, limit), principal)
        with span("route", recipe=ask.recipe.name, steps=len(request.steps)):
            return self._answering.route(request, ask)

    def find_tools(
        self,
        query: str | Query,
        *,
        limit: int | None = None,
        agent_ids: Sequence[str] | None = None,
        recipe: str | Recipe = DEFAULT_RECIPE,
        principal: Principal | None = None,
    ) -> ToolRoute:
        request = self._within(checked_for_tools(query, limit, agent_ids, self._settings), principal)
        ask = self._ask(recipe, None, None, principal)
        with span("find_tools", recipe=ask.recipe.name):
            return self._answering.find_tools(request, ask)

    # -- looking -----------------------------------------------------------------------------------

    def agents(self, *, principal: Principal | None = None) -> list[Agent]:
        return self._store.look(lambda index: visible_agents(index, principal))

    def agent(self, agent_id: str, *, principal: Principal | None = None) -> Agent:
        return self._store.look(lambda index: agent_named(index, agent_id, principal))

    def tools(self, agent_id: str | None = None, *, principal: Principal | None = None) -> list[Tool]:
        return list(self.tools_page(agent_id, principal=principal).items)

    def tool(self, name: str, *, principal: Principal | None = None) -> Tool:
        return self._store.look(lambda index: tool_named(index, name, principal))

    def lookup(self, name: str, *, principal: Principal | None = None) -> Agent | Tool:
        return self._store.look(lambda index: find_named(index, name, principal))

    def about(self, agent_id: str, *, principal: Principal | None = None) -> About:
        return self._store.look(partial(about, agent_id=agent_id, principal=principal))

    def agents_page(
        self,
        *,
        filters: Filters = Filters(),  # noqa: B008 - frozen
        after: str = "",
        limit: int | None = None,
        principal: Principal | None = None,
    ) -> Page[ListedAgent]:
        criteria = self._with_members(checked_filters(filters), principal)
        return self._store.look(lambda index: agents_page(index, criteria, principal, after, limit))

    def browse(
        self,
        path: str = "",
        *,
        filters: Filters = Filters(),  # noqa: B008 - frozen
        principal: Principal | None = None,
    ) -> CategoryView:
        category, criteria = checked_path(path), self._with_members(checked_filters(filters), principal)
        return self._store.look(lambda index: browse_index(index, category, criteria, principal))

    def tools_page(
        self,
        agent_id: str | None = None,
        *,
        after: str = "",
        limit: int | None = None,
        principal: Principal | None = None,
    ) -> Page[Tool]:
        return self._store.look(lambda index: tools_page(index, agent_id, principal, after, limit))

    def taxonomy(self, name: str | None = None, *, principal: Principal | None = None) -> Taxonomy | None:
        return self._store.look(lambda index: seen_taxonomy(index, name, principal))

    def toolsets(self, *, principal: Principal | None = None) -> list[Toolset]:
        return self._store.look(lambda index: seen_toolsets(index, principal))

    def toolset(self, name: str, *, principal: Principal | None = None) -> Toolset:
        return self._store.look(lambda index: seen_toolset(index, name, principal))

    def sources(self, *, principal: Principal | None = None) -> "list[SourceSummary]":
        return self._store.look(lambda index: standing_sources(index, principal))

    def changes(
        self, *, since: str = "", agent_id: str = "", limit: int | None = 100, principal: Principal | None = None
    ) -> "list[Change]":
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
        from waygraph.registry.routing.queries import ChangesQuery, seen_changes

        request = ChangesQuery.of(since, agent_id, after, limit)
        return self.read(lambda session: seen_changes(session, request, principal))

    def usage(
        self, *, agent_id: str = "", sort: Sort = "calls", limit: int = 100, principal: Principal | None = None
    ) -> "list[ToolUsage]":
        from waygraph.registry.storage.usage_file import read_usage

        return read_usage(self._store, self._settings, agent_id=agent_id, sort=sort, limit=limit, principal=principal)

    def status(self, *, principal: Principal | None = None) -> Status:

        def read_status(index: SearchIndex) -> Status:
            sources = seen_sources(index, principal)
            return Status(
                location=self._store.place,
                state=seen_state(index, principal),
                sources=len(sources),
                failures=tuple(failure for source in sources for failure in source.failures),
            )

        return self._store.look(read_status)

    @property
    def stamp(self) -> str:
        state = self._store.index(fresh=True).state
        return f"{state.revision}.{state.commit}"

    def export(self, format: "ExportFormat") -> str:  # noqa: A002 - what every caller calls it
        from waygraph.registry.storage.export.formats import export

        return export(self, format)

    def read[T](self, work: "Callable[[GraphSession], T]") -> T:
        return self._store.read(work)

    def cypher(self, statement: str, params: Mapping[str, object] | None = None) -> "CypherResult":
        with span("cypher"):
            return self._store.run_read_only(statement, params or {})

    # -- writing -----------------------------------------------------------------------------------

    @property
    def exists(self) -> bool:
        return self._store.exists

    @contextmanager
    def writing(self, *, texts: TextForm | None = None, trust_index: bool = True) -> "Iterator[WriteSession]":
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

    def _change[T](self, work: "Callable[[WriteSession], T]", *, trust_index: bool = True) -> T:
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
        from waygraph.registry.storage.writer import changed_setting

        changes = setting_changes(
            tags=tags, visible_to=visible_to, everyone=everyone, pinned=pinned, hidden=hidden, removed=removed
        )

        def work(session: "WriteSession") -> "OperatorSettings":
            graph = session.read_graph_view()
            setting = changed_setting(graph, agent_id, changes, principal)
            if setting != graph.settings_of(agent_id):
                session.put_setting(setting)
            return setting

        return self._change(work)

    def set_tool(
        self, name: str, changes: Mapping[str, Any], *, principal: Principal | None = None
    ) -> "OperatorSettings":
        from waygraph.registry.model.tool_settings import merge_tool_setting
        from waygraph.registry.storage.approval import find_held_tool

        refuse_non_operator("to set a tool", principal)

        def work(session: "WriteSession") -> "OperatorSettings":
            session.set_apart(principal)
            graph = session.read_graph_view()
            tool = find_held_tool(graph, name, principal, hint="")
            siblings = [item.tool for item in graph.tools_of([tool.agent_id])[tool.agent_id]]
            setting = merge_tool_setting(graph.settings_of(tool.agent_id), tool, siblings, changes)
            if setting != graph.settings_of(tool.agent_id):
                session.put_setting(setting)
            return setting

        return self._change(work)

    def remove(self, agent_id: str, *, principal: Principal | None = None) -> "OperatorSettings":
        return self.set(agent_id, removed=True, principal=principal)

    def approve(self, *names: str, principal: Principal | None = None) -> "Approved":
        from waygraph.registry.storage.approval import checked_names

        unique_names = checked_names(names)
        return self._change(lambda session: session.approve(*unique_names, principal=principal))

    def put_statuses(
        self,
        statuses: Mapping[str, str],
        tried: "SourceStatuses | None" = None,
        pauses: Mapping[str, int] | None = None,
    ) -> "Written":
        checked_statuses(statuses)
        change = self.change if tried else self._change  # what fails before anything works is kept, too
        return change(lambda session: session.put_statuses(statuses, tried or {}, pauses or {}))

    def forget(self, source: str, *, principal: Principal | None = None) -> "Forgotten":
        return self._change(lambda session: session.forget_source(source, principal))

    def reindex(
        self, *, texts: TextForm | None = None, embedder: str | None = None, progress: "Progress | None" = None
    ) -> "Written":
        check_texts(texts)

        def work(session: "WriteSession") -> "tuple[ChosenEmbedder, Written]":
            state = session.state()
            has_own = state and (state.embedder or state.embedder_spec == "none")
            own = state.embedder_spec if state and has_own else ""
            choice = self._embedders.open_for_documents(embedder or self._answering.spec or own or default_spec())
            return choice, session.reindex(texts, choice, progress)

        choice, result = self._change(work, trust_index=False)
        self._answering.spec = choice.spec
        return result

    def build_taxonomy(
        self,
        builder: "Builder | None" = None,
        *,
        name: str = DEFAULT_NAME,
        of: Of = Of.AGENTS,
        private: bool = False,
        shown_to_all: bool = False,
    ) -> Taxonomy:
        """As `Registry.build_taxonomy`; the builder gets float32 vectors of shape (dimension,) and length 1."""
        from waygraph.registry.storage.embedded import now
        from waygraph.registry.taxonomy.vectors_build import build_by_vectors, keep_ids

        check_taxonomy_name(name)
        inputs = self.read(partial(_read_given, name=name, of=of))
        before = inputs.before
        placeable = {entity: each for entity, each in inputs.placeable.items() if private or each.is_public}
        vectors = {entity: vector for entity, vector in inputs.vectors.items() if entity in placeable}
        taxonomy = (builder or build_by_vectors)([each.service for each in placeable.values()], vectors, before)
        private_agents = sorted({owner_of(entity) for entity, each in placeable.items() if not each.is_public})
        taxonomy = keep_ids(taxonomy, before if before and before.of is of else None)
        whole = replace(
            taxonomy,
            name=name,
            of=of,
            built_at=now(),
            private=tuple(private_agents),
            shown_to_all=shown_to_all,
            current=True,
        )
        return self._change(lambda session: session.put_taxonomy(whole))

    def forget_taxonomy(self, name: str = DEFAULT_NAME) -> "Written":
        return self._change(lambda session: session.forget_taxonomy(name))

    def set_toolset(
        self,
        name: str,
        *,
        description: str = "",
        tools: Sequence[str] = (),
        agents: Sequence[str] = (),
        tags: Sequence[str] = (),
        callers: Sequence[str] = (),
        principal: Principal | None = None,
    ) -> Toolset:
        refuse_limited(principal)
        new = stated_toolset(name, description=description, tools=tools, agents=agents, tags=tags, callers=callers)
        self._change(lambda session: session.put_toolset(new))
        return self.toolset(name)

    def remove_toolset(self, name: str, *, principal: Principal | None = None) -> "Written":
        refuse_limited(principal)
        return self._change(lambda session: session.remove_toolset(name))

    # -- for those who look after it ---------------------------------------------------------------

    @property
    def store(self) -> Store:
        return self._store

    @property
    def settings(self) -> Settings:
        return self._settings

    def open_model(self, spec: str, *, option: str) -> "ChatModel":
        from waygraph.registry.http.openai_endpoint import ChatModel, configured_model

        model = configured_model(spec, self._environ, option=option, purpose=f"for {option}")
        return ChatModel.open(model, self._settings, self._environ)

    @property
    def notice(self) -> str:
        return self._answering.router(fresh=True).notice

    # -- inside ------------------------------------------------------------------------------------

    def _ask(
        self,
        recipe: str | Recipe,
        agent_weight: float | None,
        tool_weight: float | None,
        principal: Principal | None,
    ) -> Ask:
        """Raises UnknownRecipe, InvalidQuery."""
        choice = recipe_named(recipe) if isinstance(recipe, str) else recipe
        ask = Ask.of(choice, agent_weight, tool_weight, principal)
        return ask if self._settings.route_history else ask.by(replace(ask.recipe, history=None))

    def _within(self, query: Query, principal: Principal | None) -> Query:
        """With the ids of what is in the category and the toolset that its filters name. Raises UnknownName."""
        filters = self._with_members(query.filters, principal)
        return query if filters is query.filters else replace(query, filters=filters)

    def _with_members(self, filters: Filters, principal: Principal | None) -> Filters:
        if not (filters.within or filters.toolset):
            return filters
        return self._store.look(lambda index: with_members(index, filters, principal))

    def _choose(self, spec: str) -> ChosenEmbedder:
        """The embedder for a write: the one asked for, the registry's own (`spec`), or for a new registry the default.

        Without weights a new registry is made without vectors; one that has vectors refuses (ModelNotFound).
        """
        choice = self._answering.spec or spec or default_spec()
        try:
            return self._embedders.open_for_documents(choice)
        except ModelNotFound:
            if spec or self._answering.spec:
                raise
            return ChosenEmbedder(embedder=None, spec=choice)


def _read_given(session: "GraphSession", *, name: str, of: Of) -> "BuildInput":
    from waygraph.registry.taxonomy.upkeep import read_given

    return read_given(session, name, of)
