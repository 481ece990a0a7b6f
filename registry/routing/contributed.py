"""Rerankers that other packages bring, by entry points of the group `waygraph.rerankers`. See docs/concepts.md."""

from collections.abc import Callable, Mapping, Sequence

from waygraph.registry.contributions import blaming, brought
from waygraph.registry.errors import InvalidSetting, LanguageModelRefused
from waygraph.registry.routing.reranker import GROUP, Reranker
from waygraph.registry.settings import Settings

type Opens = Callable[[str, Settings, Mapping[str, str]], Reranker]
"""What an entry point is: the model's name, the settings and the environment → a reranker."""


def open_contributed(scheme: str, model: str, settings: Settings, environ: Mapping[str, str]) -> Reranker:
    """Raises InvalidSetting for one that cannot be had."""
    brings, called = brought(GROUP, scheme, "reranker", InvalidSetting)
    opens: Opens = brings
    with blaming(called, InvalidSetting):
        return _AtArmsLength(opens(model, settings, environ), called)


class _AtArmsLength:
    """The same reranker, with LanguageModelRefused in place of whatever else it raises, and its order looked at."""

    def __init__(self, inner: Reranker, called: str) -> None:
        self._inner, self._called = inner, called

    def order(self, query: str, documents: Sequence[str]) -> Sequence[int]:
        with blaming(self._called, LanguageModelRefused):
            order = [int(at) for at in self._inner.order(query, documents)]
        if sorted(order) != list(range(len(documents))):
            raise LanguageModelRefused(f"{self._called}: expected each of {len(documents)} candidates once")
        return order

    def close(self) -> None:
        with blaming(self._called, LanguageModelRefused):
            self._inner.close()
