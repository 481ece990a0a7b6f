"""Waygraph itself: a registry in memory, asked by a recipe over the texts that the recipe is made for."""

from dataclasses import replace
from typing import TYPE_CHECKING

from benchmarks.peers.vectors import Vectors

if TYPE_CHECKING:
    from waygraph.registry.model.changes import Manifest
    from waygraph.registry.registry import Registry


class RegistryPeer:
    def __init__(self, vectors: Vectors, *, recipe: str, agent_weight: float | None = None) -> None:
        self._vectors, self._recipe, self._agent_weight = vectors, recipe, agent_weight
        self._registry: Registry

    def ingest(self, catalogue: "Manifest") -> None:
        from waygraph.ingest.sync.apply import sync
        from waygraph.registry.embedding.entities import TextForms
        from waygraph.registry.model.settings import DEFAULT_EMBEDDER
        from waygraph.registry.registry import Registry
        from waygraph.registry.routing.recipes import recipe_named

        recipe = recipe_named(self._recipe)
        # No vector of a query is remembered: every peer embeds every query each time.
        settings = replace(self._vectors.settings, query_cache_entries=0)
        texts = recipe.texts or "contextual"
        if recipe.needs_vectors:
            forms = TextForms(form=texts, max_chars=settings.max_embedded_chars).of_entries(catalogue.entries)
            self._vectors.of_documents([text for parts in forms.values() for text in parts.texts])
        spec = DEFAULT_EMBEDDER if recipe.needs_vectors else "none"
        self._registry = Registry.open(":memory:", embedder=spec, settings=settings, environ={})
        sync(self._registry, catalogue, texts=texts)
        self.ask("warm", 1)

    def ask(self, text: str, limit: int) -> list[str]:
        from waygraph.registry.model.nouns import Query

        route = self._registry.route(
            Query(text=text, limit=limit), recipe=self._recipe, agent_weight=self._agent_weight
        )
        return [match.agent.id for match in route.matches]
