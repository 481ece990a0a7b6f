"""The embedders that a process has opened: each spec once, with its caches."""

import threading
from collections.abc import Mapping
from contextlib import ExitStack
from dataclasses import dataclass
from typing import TYPE_CHECKING

from waygraph.registry.embedding.factory import open_embedder
from waygraph.registry.embedding.protocol import Connected, Embedder
from waygraph.registry.identity import digest
from waygraph.registry.settings import Settings

if TYPE_CHECKING:
    from waygraph.registry.embedding.query_cache import QueryCache


@dataclass(frozen=True, slots=True, kw_only=True)
class ChosenEmbedder:
    """An embedder (None: lexical only) and the spec by which it can be opened again."""

    embedder: Embedder | None
    spec: str

    @property
    def fingerprint(self) -> str:
        return self.embedder.fingerprint if self.embedder else ""


class OpenedEmbedders:
    """Opens specs, each once. Documents are cached on disk, queries in memory. Threads may share it."""

    def __init__(self, settings: Settings, environ: Mapping[str, str]) -> None:
        self._settings, self._environ = settings, environ
        self._opened: dict[str, Embedder | None] = {}
        self._documents: dict[str, Embedder] = {}
        self._queries: dict[str, QueryCache] = {}
        self._lock = threading.RLock()

    def open(self, spec: str) -> ChosenEmbedder:
        """Raises EmbedderRefused, ModelNotFound."""
        with self._lock:
            if spec not in self._opened:
                self._opened[spec] = open_embedder(spec, self._settings, self._environ)
            return ChosenEmbedder(embedder=self._opened[spec], spec=spec)

    def open_for_documents(self, spec: str) -> ChosenEmbedder:
        """The same, with the vectors of documents kept on disk. Raises EmbedderRefused, ModelNotFound."""
        with self._lock:
            embedder = self.open(spec).embedder
            if embedder is not None and spec not in self._documents:
                self._documents[spec] = self._cached(embedder)
            return ChosenEmbedder(embedder=self._documents.get(spec), spec=spec)

    def queries(self, embedder: Embedder) -> "QueryCache":
        """The vectors of queries, remembered across generations of the index."""
        from waygraph.registry.embedding.query_cache import QueryCache

        with self._lock:
            queries = self._queries.get(embedder.fingerprint)
            if queries is None:
                queries = QueryCache(embedder, self._settings.query_cache_entries)
                self._queries[embedder.fingerprint] = queries
        return queries

    def close(self) -> None:
        """Ends the connections of its embedders: they are its own, nobody else's."""
        with self._lock, ExitStack() as closing:
            held: list[object] = list(self._opened.values())
            for kept in (self._opened, self._documents, self._queries):
                kept.clear()
            for embedder in held:
                if isinstance(embedder, Connected):
                    closing.callback(embedder.close)

    def _cached(self, embedder: Embedder) -> Embedder:
        from waygraph.registry.embedding.cache import CachedEmbedder
        from waygraph.registry.embedding.vector_file import vector_file_path

        return CachedEmbedder(embedder, vector_file_path(self._settings, _made_by(embedder)))


def _made_by(embedder: Embedder) -> str:
    """What the vectors on disk are of: OpenAI's own have its name, those of other endpoints one for each endpoint."""
    if not isinstance(embedder, Connected):
        return embedder.fingerprint
    from waygraph.registry.openai_endpoint import DEFAULT_BASE_URL  # it imports an HTTP client

    if embedder.place == DEFAULT_BASE_URL:
        return embedder.fingerprint
    return f"{embedder.fingerprint}+{digest(embedder.place)[:12]}"
