"""Vectors of queries, kept in memory."""

from collections import OrderedDict
from threading import Lock
from typing import TYPE_CHECKING, cast

from waygraph.registry.embedding.protocol import Embedder

if TYPE_CHECKING:
    from waygraph.registry.embedding.protocol import Vector


class QueryCache:
    """The vectors of the last `entries` queries, embedded by `inner`, read-only. Safe across threads."""

    def __init__(self, inner: Embedder, entries: int) -> None:
        self._inner, self._entries = inner, entries
        self._vectors: OrderedDict[str, Vector] = OrderedDict()
        self._lock = Lock()

    @property
    def fingerprint(self) -> str:
        return self._inner.fingerprint

    def holds(self, text: str) -> bool:
        """Whether the query's vector is at hand."""
        return text in self._vectors

    def vector(self, text: str) -> "Vector":
        """Of one query: shape (dimension,)."""
        with self._lock:
            vector = self._vectors.get(text)
            if vector is not None:
                self._vectors.move_to_end(text)
                return vector
        vector = cast("Vector", self._inner.embed([text], "query")[0])
        vector.flags.writeable = False
        self._keep(text, vector)
        return vector

    def _keep(self, text: str, vector: "Vector") -> None:
        with self._lock:
            self._vectors[text] = vector
            while len(self._vectors) > self._entries:
                self._vectors.popitem(last=False)
