"""Vectors of queries, kept in memory."""

from collections import OrderedDict
from collections.abc import Sequence
from threading import Lock
from typing import TYPE_CHECKING, cast

import numpy as np

from waygraph.registry.embedding.protocol import Embedder, Progress, Role

if TYPE_CHECKING:
    from waygraph.registry.embedding.protocol import Matrix, Vector


class QueryCache:
    """An embedder that remembers the last `entries` queries, in memory. Safe across threads.

    Query vectors are read-only. Documents go straight to `inner`.
    """

    def __init__(self, inner: Embedder, entries: int) -> None:
        self._inner, self._entries = inner, entries
        self._rows: OrderedDict[str, Matrix] = OrderedDict()
        self._lock = Lock()

    @property
    def fingerprint(self) -> str:
        return self._inner.fingerprint

    @property
    def dimension(self) -> int:
        return self._inner.dimension

    def embed(self, texts: Sequence[str], role: Role, *, progress: Progress | None = None) -> "Matrix":
        """As the protocol says."""
        if role != "query" or not texts:
            return self._inner.embed(texts, role, progress=progress)
        if len(texts) == 1:
            return self._row(texts[0])
        rows = np.concatenate([self._row(text) for text in texts])
        rows.flags.writeable = False
        return rows

    def holds(self, text: str) -> bool:
        """Whether the query's vector is at hand."""
        return text in self._rows

    def vector(self, text: str) -> "Vector":
        """Of one query: shape (dimension,), read-only."""
        return cast("Vector", self._row(text)[0])

    def _row(self, text: str) -> "Matrix":
        """(1, dimension), read-only."""
        with self._lock:
            row = self._rows.get(text)
            if row is not None:
                self._rows.move_to_end(text)
                return row
        row = self._inner.embed([text], "query")
        row.flags.writeable = False
        self._keep(text, row)
        return row

    def _keep(self, text: str, row: "Matrix") -> None:
        with self._lock:
            self._rows[text] = row
            while len(self._rows) > self._entries:
                self._rows.popitem(last=False)
