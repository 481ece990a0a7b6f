"""One embedder for all: Waygraph's int8 all-MiniLM-L6-v2, opened in each peer's process when it is first used."""

import time
from collections.abc import Sequence
from functools import cached_property
from typing import TYPE_CHECKING

from waygraph.registry.model.settings import DEFAULT_EMBEDDER, Settings

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    from waygraph.registry.embedding.cache import CachedEmbedder
    from waygraph.registry.embedding.embedder import Embedder

    Matrix = NDArray[np.float32]
    Vector = NDArray[np.float32]


class Vectors:
    """Documents come from the cache on disk where they were embedded before; a query is embedded each time.

    `documents_s` is the time spent on vectors of documents, `documents` how many texts they were.
    """

    def __init__(self, settings: Settings) -> None:
        self.settings = settings
        self.documents_s = 0.0
        self.documents = 0

    def of_documents(self, texts: Sequence[str]) -> "Matrix":
        """float32 of shape (len(texts), dim), rows of length 1."""
        started = time.perf_counter()
        matrix = self._cached.embed(texts, "document")
        self.documents_s += time.perf_counter() - started
        self.documents += len(set(texts))
        return matrix

    def of_query(self, text: str) -> "Vector":
        """float32 of shape (dim,), length 1."""
        row: Vector = self._bare.embed([text], "query")[0]
        return row

    @property
    def newly_embedded(self) -> int:
        return self._cached.embedded if self.documents else 0

    @cached_property
    def _bare(self) -> "Embedder":
        from waygraph.registry.embedding.factory import open_embedder

        opened = open_embedder(DEFAULT_EMBEDDER, self.settings, {})
        assert opened is not None
        return opened

    @cached_property
    def _cached(self) -> "CachedEmbedder":
        from waygraph.registry.embedding.cache import CachedEmbedder, vector_file_path

        return CachedEmbedder(self._bare, vector_file_path(self.settings, self._bare.fingerprint))
