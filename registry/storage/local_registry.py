"""A registry whose graph is read here: in a file, in memory, or on a graph server. Its methods: `registry.py`."""

import os
from collections.abc import Callable, Mapping
from contextlib import ExitStack, suppress
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, Any, Self

from waygraph.registry.catalog.searchable import Searchable
from waygraph.registry.embedding.embedder import ConnectedEmbedder, Progress, full_spec, parse_spec
from waygraph.registry.embedding.factory import ChosenEmbedder, OpenedEmbedders, default_spec
from waygraph.registry.index.names import visible_agents
from waygraph.registry.model import clock
from waygraph.registry.model.changes import CypherResult, SourceSummary, Written
from waygraph.registry.model.errors import EmbedderError, ModelNotFound
from waygraph.registry.model.nouns import (
    DEFAULT_TAXONOMY,
    Agent,
    Of,
    Principal,
    Query,
    Route,
    TextForm,
    ToolRoute,
)
from waygraph.registry.model.settings import Settings, load_settings
from waygraph.registry.model.tracing import span
from waygraph.registry.model.transitions import owner_of
from waygraph.registry.model.validation import check_query, checked_statuses, checked_texts
from waygraph.registry.operations.catalog import with_members
from waygraph.registry.routing.answering import Answering, StepStage, Walks
from waygraph.registry.routing.recipes import recipe_named
from waygraph.registry.routing.rerank import OpenedRerankers
from waygraph.registry.routing.router import Ask
from waygraph.registry.storage.location import named_place, open_store
from waygraph.registry.storage.store import GraphAccess, Store

if TYPE_CHECKING:
    from waygraph.registry.model.changes import SourceStatuses
    from waygraph.registry.model.pictures import Map
    from waygraph.registry.model.usage import Count
    from waygraph.registry.operations.operator import Operator
    from waygraph.registry.operations.request import ExportFormat, Request
    from waygraph.registry.operations.search import FindPlacement, FindTools, RouteAgents, SearchRequest
    from waygraph.registry.routing.placement import Placement
    from waygraph.registry.taxonomy.category_names import EmbedNames
    from waygraph.registry.taxonomy.tree import Taxonomy
    from waygraph.registry.taxonomy.vectors_build import Builder
    from waygraph.registry.writer import WriteSession


class LocalRegistry(GraphAccess, Searchable):
    """Implements Registry over a store. Reading needs only what the last write published."""

    def __init__(self, store: Store, settings: Settings, environ: Mapping[str, str], spec: str) -> None:
        super().__init__(store, settings)
        self._environ = environ
        self._embedders = OpenedEmbedders(settings, environ)
        self._rerankers = OpenedRerankers(settings, environ)
        self._walks = Walks(settings, environ)
        self._steps = StepStage(settings, environ)
        self._answering = Answering(store, self._embedders, self._rerankers, self._walks, spec)

    @classmethod
    def open(
        cls,
        location: str | os.PathLike[str],
        *,
        embedder: str | None = None,
        settings: Settings | None = None,
        environ: Mapping[str, str] | None = None,
    ) -> Self:
        """Raises as `Registry.open`, and NeedsRegistry for the location of a service."""
        location = named_place(location)
        environ = os.environ if environ is None else environ
        settings = load_settings(environ) if settings is None else settings
        if spec := full_spec(embedder or settings.embedder):
            parse_spec(spec)
        store = open_store(location, settings)
        registry = cls(store, settings, environ, spec)
        with ExitStack() as unless_open:
            unless_open.callback(registry.close)
            if store.exists and spec:
                registry._answering.check()
            unless_open.pop_all()
        return registry

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Lets go of files and connections. A closed registry answers nothing more."""
        with ExitStack() as closing:
            for part in (self._embedders, self._rerankers, self._walks, self._answering, self._store):
                closing.callback(part.close)

    def perform[A](self, request: "Request[A]", principal: Principal | None = None) -> A:
        """What the request says of the graph that is here."""
        return request.answer(self, principal)

    @property
    def location(self) -> str:
        """Where the registry is."""
        return self._store.place

    @property
    def operator(self) -> "Operator":
        from waygraph.registry.operations.operator import Operator

        return Operator(self)

    def rank_agents(self, request: "RouteAgents", principal: Principal | None) -> Route:
        query, ask = self._prepare(request, principal)
        with span("route", recipe=ask.recipe.name, steps=len(query.steps)):
            return self._steps.answer(query, ask.recipe, lambda query: self._answering.route(query, ask))

    def rank_tools(self, request: "FindTools", principal: Principal | None) -> ToolRoute:
        query, ask = self._prepare(request, principal)
        with span("find_tools", recipe=ask.recipe.name):
            return self._steps.answer(query, ask.recipe, lambda query: self._answering.find_tools(query, ask))

    def agents(self, *, principal: Principal | None = None) -> list[Agent]:
        return self._store.look(lambda index: visible_agents(index, principal))

    def stored_sources(self) -> list[SourceSummary]:
        """For whoever writes: also with failures that are over, which `sources` leaves out and a write has to end."""
        return self._store.look(lambda index: list(index.sources())) if self._store.exists else []

    @property
    def stamp(self) -> str:
        state = self._store.index(fresh=True).state
        return f"{state.revision}.{state.commit}"

    def put_statuses(
        self,
        statuses: Mapping[str, str],
        tried: "SourceStatuses | None" = None,
        pauses: Mapping[str, int] | None = None,
    ) -> Written:
        """Agent id → what is known of whether it answers, as `statuses` words it; in one transaction.

        Unknown ids are left out; where nothing differs there is no new revision. `tried`: by source, the status of each
        key that was tried, of which the failures are kept; `pauses`: of these sources, for how many seconds a watch
        waits with the next change. Raises InvalidSetting.
        """
        from waygraph.registry.operators.sources import put_statuses

        checked_statuses(statuses)
        return self.change_existing(lambda session: put_statuses(session, statuses, tried or {}, pauses or {}))

    def open_embedder(self, spec: str) -> ChosenEmbedder:
        choice = self._answering.spec or spec or default_spec(self.settings)
        try:
            return self._embedders.open_for_documents(choice)
        except ModelNotFound:
            if spec or self._answering.spec:
                raise
            return ChosenEmbedder(embedder=None, spec=choice)

    def name_embedder(self, *, is_local: bool = False) -> "EmbedNames | None":
        """Embeds names to be compared with the stored vectors; None where the embedder of these is not here.

        `is_local`: None too where it is an endpoint's, which costs requests.
        """
        state = self.look(lambda index: index.state)
        with suppress(EmbedderError):
            embedder = self._embedders.open(state.embedder_spec).embedder if state.embedder else None
            is_remote = isinstance(embedder, ConnectedEmbedder)
            if embedder and embedder.fingerprint == state.embedder and not (is_local and is_remote):
                return partial(embedder.embed, role="document")
        return None

    def reindex(
        self, *, texts: TextForm | None = None, embedder: str | None = None, progress: Progress | None = None
    ) -> Written:
        """Embeds everything anew, with another embedder or text form if given. Raises InvalidSetting."""
        texts = checked_texts(texts)

        def work(session: "WriteSession") -> tuple[ChosenEmbedder, Written]:
            state = session.state()
            own = state.embedder_spec if state and (state.embedder or state.embedder_spec == "none") else ""
            choice = self._embedders.open_for_documents(
                embedder or self._answering.spec or own or default_spec(self.settings)
            )
            return choice, session.reindex(texts, choice, progress)

        choice, result = self.change_existing(work, trust_index=False)
        self._answering.spec = choice.spec
        return result

    def build_taxonomy(
        self,
        builder: "Builder | None" = None,
        *,
        name: str = DEFAULT_TAXONOMY,
        of: Of = Of.AGENTS,
        private: bool = False,
        shown_to_all: bool = False,
        keep_current: bool = False,
    ) -> "Taxonomy":
        """Builds the taxonomy of this name, in place of the former one, and current if that was. One of a new name is
        current, unless `keep_current` and another one is; `operator.use_taxonomy` makes another one current.

        `builder` None: by vectors, or by words where nothing has one. It sees what everyone may see, with `private`
        all; then who does not see every such agent sees nothing of the tree, unless it is `shown_to_all`. What it does
        not place goes to the nearest leaf.
        It works without a lock, on vectors that are float32 of shape (dimension,) and length 1. Raises InvalidSetting,
        RegistryNotFound, and what the builder raises.
        """
        from waygraph.registry.taxonomy.taxonomies import set_taxonomy
        from waygraph.registry.taxonomy.tree import check_taxonomy_name
        from waygraph.registry.taxonomy.upkeep import read_given
        from waygraph.registry.taxonomy.vectors_build import build_without_model, keep_ids

        check_taxonomy_name(name)
        inputs = self.read(lambda session: read_given(session, name, of))
        before = inputs.before
        placeable = {entity: each for entity, each in inputs.placeable.items() if private or each.is_public}
        vectors = {entity: vector for entity, vector in inputs.vectors.items() if entity in placeable}
        builder = builder or partial(build_without_model, embed=self.name_embedder())
        taxonomy = builder([each.service for each in placeable.values()], vectors, before)
        private_agents = sorted({owner_of(entity) for entity, each in placeable.items() if not each.is_public})
        taxonomy = keep_ids(taxonomy, before if before and before.of is of else None)
        whole = replace(
            taxonomy, name=name, of=of, built_at=clock.now(), private=tuple(private_agents), shown_to_all=shown_to_all
        )
        return self.change_existing(lambda session: set_taxonomy(session, whole, keep_current=keep_current))

    def forget_taxonomy(self, name: str = DEFAULT_TAXONOMY) -> Written:
        """Removes it. Raises UnknownName."""
        from waygraph.registry.taxonomy.taxonomies import forget_taxonomy

        return self.change_existing(lambda session: forget_taxonomy(session, name))

    @property
    def notice(self) -> str:
        """What limits its answers now, such as a missing model; empty if nothing does. Raises EmbedderMismatch."""
        return self._answering.router(fresh=True).notice

    def place(self, request: "FindPlacement", principal: Principal | None) -> "Placement":
        """Where an agent or a tool stands for a query. Raises as `route`, and UnknownName."""
        from waygraph.registry.routing.placement import MOST_RANKS, place, read_subject

        query, ask = self._prepare(request, principal)
        subject = self._store.look(lambda index: read_subject(index, request.id, query, ask))
        search: Callable[[Query, Ask], Any] = self._answering.find_tools if subject.tool else self._answering.route
        answer = self._steps.answer(query, ask.recipe, lambda query: search(query, ask))
        plain = ask.by(replace(ask.recipe, walk=None, rerank=None))
        deep = ask.by(replace(plain.recipe, depth=MOST_RANKS))
        return place(subject, query, answer, lambda query: search(query, plain), lambda query: search(query, deep))

    def run_cypher(self, statement: str, params: Mapping[str, object]) -> CypherResult:
        """Raises CypherRefused, CypherFailed, CypherLimit, CypherBusy."""
        with span("cypher"):
            return self._store.run_read_only(statement, params)

    def export(self, format: "ExportFormat") -> str:  # noqa: A002 - what every caller calls it
        """Raises UnknownName, RegistryNotFound."""
        from waygraph.registry.storage.export.formats import export

        return export(self, format, self.name_embedder(is_local=True) if format == "html" else None)

    def usage_counts(self, of: str, days: int = 0) -> "list[Count]":
        """Of so many days, today included; 0: all. Raises StorageFailed."""
        from waygraph.registry.storage.usage_file import UsageFile

        return UsageFile(self._settings, self._store.place).read(of, days)

    def draw_map(self, principal: Principal | None) -> "Map":
        """Made once a revision, in seconds for thousands of tools. Raises RegistryNotFound."""
        from waygraph.registry.storage.export.map import lay_out_map, read_map

        def key() -> object:
            state = self._store.index(fresh=True).state
            return state.revision, state.commit, principal and (frozenset(principal.groups), principal.operates)

        read = partial(read_map, principal=principal)
        return self.kept_map(key, lambda: lay_out_map(self.look(read), self.name_embedder(is_local=True)))

    def _prepare(self, request: "SearchRequest[Any]", principal: Principal | None) -> tuple[Query, Ask]:
        """The query with the ids of what is in the category and the toolset that its filters name.

        Raises UnknownRecipe, InvalidQuery, UnknownName.
        """
        choice = recipe_named(request.recipe) if isinstance(request.recipe, str) else request.recipe
        agent_weight, tool_weight = getattr(request, "agent_weight", None), getattr(request, "tool_weight", None)
        ask = Ask.of(choice, agent_weight, tool_weight, principal)
        ask = ask if self._settings.route_history else ask.by(replace(ask.recipe, history=None))
        query = check_query(request.query, self._settings)
        if not (query.filters.within or query.filters.toolset):
            return query, ask
        filters = self._store.look(lambda index: with_members(index, query.filters, principal))
        return replace(query, filters=filters), ask
