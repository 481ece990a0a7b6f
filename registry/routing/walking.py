"""The stage before the search: a language model walks a taxonomy, and only what it selected is ranked.

A failure costs the walk, never the answer: it is hybrid's then, and the route's notice says why.
"""

import logging
import threading
from collections.abc import Mapping, Sequence
from contextlib import ExitStack
from dataclasses import replace
from typing import TYPE_CHECKING

from waygraph.registry.access.visibility import narrow
from waygraph.registry.embedding.texts import query_text
from waygraph.registry.index.search_index import SearchIndex
from waygraph.registry.model.errors import IndexOutdated, InvalidSetting, LanguageModelRefused, RegistryClosed
from waygraph.registry.model.nouns import Query, Route, ToolRoute, Walked
from waygraph.registry.model.settings import Settings
from waygraph.registry.model.transitions import owner_of
from waygraph.registry.routing.recipes import BY_OPERATOR, Walk
from waygraph.registry.routing.router import Ask, without_history
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
    """Walks by specs; each language model is opened once. Threads may share it."""

    def __init__(self, settings: Settings, environ: Mapping[str, str]) -> None:
        self._settings, self._environ = settings, environ
        self._models: dict[str, ChatModel] = {}
        self._lock, self._is_closed = threading.Lock(), False

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
        from waygraph.registry.language_model.endpoint import ChatModel, configured_model

        model = configured_model(spec, self._environ, option="walk by", purpose="for the walk")
        with self._lock:
            if self._is_closed:
                raise RegistryClosed
            if model not in self._models:
                self._models[model] = ChatModel.open(model, self._settings, self._environ)
            return self._models[model]

    def close(self) -> None:
        """Ends the connections of each, also if one of them fails at it."""
        with self._lock, ExitStack() as closing:
            self._is_closed = True
            while self._models:
                closing.callback(self._models.popitem()[1].close)


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
