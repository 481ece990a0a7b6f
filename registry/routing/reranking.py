"""The stage after fusion: a model that reads the query and the best candidates puts them in order.

A failure costs the new order, never the answer: the fused order stays, and the route's notice says why.
"""

import threading
import time
from collections.abc import Callable, Mapping
from contextlib import ExitStack
from dataclasses import replace

from waygraph.registry.embedding.texts import agent_texts, tool_texts
from waygraph.registry.errors import InvalidSetting, LanguageModelError, RegistryClosed
from waygraph.registry.model import AgentMatch, Query, Route, ToolMatch, ToolRoute
from waygraph.registry.routing.recipes import Rerank
from waygraph.registry.routing.reranker import GROUP, Reranker
from waygraph.registry.routing.router import union_of_steps
from waygraph.registry.settings import Settings

SHOWN_CHARS = 1_000
"""Of a candidate's text."""


def open_reranker(spec: str, settings: Settings, environ: Mapping[str, str]) -> Reranker:
    """`openai:MODEL`, `cross-encoder:MODEL`, or `NAME:MODEL` of one that another package brings. Touches no network.

    Raises InvalidSetting, LanguageModelRefused for a key that cannot be, MissingExtra, ModelNotFound.
    """
    scheme, _, model = spec.partition(":")
    if model and scheme == "cross-encoder":
        from waygraph.registry.routing.cross_encoder import CrossEncoderReranker

        return CrossEncoderReranker(model)
    if model and scheme == "openai":
        from waygraph.registry.chat import ChatModel
        from waygraph.registry.routing.listwise import ListwiseReranker

        return ListwiseReranker(ChatModel.open(model, settings, environ))
    from waygraph.registry.contributions import names

    brought = names(GROUP)
    if model and scheme in brought:
        from waygraph.registry.routing.contributed import open_contributed

        return open_contributed(scheme, model, settings, environ)
    known = " or ".join(f"{name}:MODEL" for name in ("openai", "cross-encoder", *brought))
    raise InvalidSetting(f"reranker {spec!r}: expected {known}")


class OpenedRerankers:
    """Opens specs, each once. Threads may share it."""

    def __init__(self, settings: Settings, environ: Mapping[str, str]) -> None:
        self._settings, self._environ = settings, environ
        self._opened: dict[str, Reranker] = {}
        self._lock, self._closed = threading.Lock(), False

    def open(self, spec: str) -> Reranker:
        """Raises as `open_reranker`; RegistryClosed after `close`, which would not end it any more."""
        with self._lock:
            if self._closed:
                raise RegistryClosed
            if spec not in self._opened:
                self._opened[spec] = open_reranker(spec, self._settings, self._environ)
            return self._opened[spec]

    def close(self) -> None:
        """Ends the connections of each, also if one of them fails at it."""
        with self._lock, ExitStack() as closing:
            self._closed = True
            while self._opened:
                closing.callback(self._opened.popitem()[1].close)


def widened(query: Query, rerank: Rerank) -> Query:
    """The same query for as many candidates as are put in order."""
    return replace(query, limit=max(query.limit, rerank.depth))


def reranked_route(route: Route, asked: Query, rerank: Rerank, reranker: Reranker) -> Route:
    """A route of the widened query, in the reranker's order, cut to what was asked; each step by its own text."""
    started = time.perf_counter()
    if route.steps:
        steps = tuple(_reranked_step(step, asked, rerank, reranker) for step in route.steps)
        done, matches = steps, union_of_steps(steps, asked.limit)
    else:
        step = _reranked_step(route, asked, rerank, reranker)
        steps, done, matches = (), (step,), step.matches
    took_ms = (time.perf_counter() - started) * 1000
    return replace(
        route,
        query=asked,
        steps=steps,
        matches=matches,
        notice=_joined(*(each.notice for each in done)),
        not_reranked=_joined(*(each.not_reranked for each in done)),
        elapsed_ms=route.elapsed_ms + took_ms,
    )


def reranked_tools(route: ToolRoute, asked: Query, rerank: Rerank, reranker: Reranker) -> ToolRoute:
    """The same of tools."""
    started = time.perf_counter()
    matches, failure = _in_order(asked.text, route.matches, _tool_text, rerank, reranker)
    took_ms = (time.perf_counter() - started) * 1000
    return replace(
        route,
        query=asked,
        matches=matches[: asked.limit],
        notice=_joined(route.notice, _told(failure)),
        not_reranked=failure,
        elapsed_ms=route.elapsed_ms + took_ms,
    )


def _reranked_step(step: Route, asked: Query, rerank: Rerank, reranker: Reranker) -> Route:
    matches, failure = _in_order(step.query.text, step.matches, _agent_text, rerank, reranker)
    return replace(
        step,
        query=replace(step.query, limit=asked.limit),
        matches=matches[: asked.limit],
        notice=_joined(step.notice, _told(failure)),
        not_reranked=failure,
    )


def _in_order[T](
    text: str, found: tuple[T, ...], told: Callable[[T], str], rerank: Rerank, reranker: Reranker
) -> tuple[tuple[T, ...], str]:
    """The first `depth` in the reranker's order, the rest behind them as they were; and why, if that failed."""
    best, rest = found[: rerank.depth], found[rerank.depth :]
    if len(best) < 2:
        return found, ""
    try:
        order = reranker.order(text, [told(match) for match in best])
    except LanguageModelError as error:
        return found, str(error)
    return (*(best[at] for at in order), *rest), ""


def _agent_text(match: AgentMatch) -> str:
    return agent_texts("contextual", match.agent, [tool.name for tool in match.tools], SHOWN_CHARS)[0]


def _tool_text(match: ToolMatch) -> str:
    return tool_texts("concat", match.agent, replace(match.tool, questions=()), SHOWN_CHARS)[0]


def _told(failure: str) -> str:
    return f"Not reranked: {failure}" if failure else ""


def _joined(*notices: str) -> str:
    """Each once."""
    return "; ".join(dict.fromkeys(filter(None, notices)))
