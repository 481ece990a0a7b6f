"""Vectors of documents, kept on disk."""

from collections.abc import Sequence
from hashlib import sha256
from itertools import batched
from pathlib import Path
from threading import Lock
from typing import TYPE_CHECKING

from waygraph.registry.embedding.protocol import Embedder, Progress, Role
from waygraph.registry.embedding.rows import distinct, in_order
from waygraph.registry.embedding.vector_file import VectorFile

if TYPE_CHECKING:
    from waygraph.registry.embedding.protocol import Matrix, Vector


BATCH_TEXTS = 512
"""Vectors are written after so many: an interrupted ingest keeps what it has."""


class CachedEmbedder:
    """An embedder that embeds a document once, ever. Queries go straight to `inner`.

    `path` is the file, see `vector_file_path`. `embedded` counts the texts that `inner` really embedded. A cache
    that cannot be read or written costs time, never an error.
    """

    def __init__(self, inner: Embedder, path: Path) -> None:
        self._inner, self._file = inner, VectorFile(path)
        self._lock = Lock()
        self.embedded = 0

    @property
    def fingerprint(self) -> str:
        return self._inner.fingerprint

    @property
    def dimension(self) -> int:
        return self._inner.dimension

    def embed(self, texts: Sequence[str], role: Role, *, progress: Progress | None = None) -> "Matrix":
        """As the protocol says; `progress` counts distinct texts, those found included."""
        if role == "query":
            return self._inner.embed(texts, role, progress=progress)
        keys = {text: _key(text) for text in distinct(texts)}
        known = self._file.read(list(keys.values()), self.dimension)
        vectors = {text: known[key] for text, key in keys.items() if key in known}
        missing = [text for text in keys if text not in vectors]
        for some in batched(missing, BATCH_TEXTS):
            done = len(vectors)
            vectors.update(self._embed_and_keep(some, _shifted(progress, done, len(keys))))
        if progress:
            progress(len(keys), len(keys))
        return in_order(texts, vectors, self.dimension)

    def _embed_and_keep(self, texts: Sequence[str], progress: Progress | None) -> "dict[str, Vector]":
        vectors = dict(zip(texts, self._inner.embed(texts, "document", progress=progress), strict=True))
        self._file.write({_key(text): vector for text, vector in vectors.items()})
        with self._lock:
            self.embedded += len(texts)
        return vectors


def _key(text: str) -> bytes:
    return sha256(text.encode("utf-8", "surrogatepass")).digest()


def _shifted(progress: Progress | None, done: int, total: int) -> Progress | None:
    """Tells of a part as part of the whole."""
    return (lambda part_done, _: progress(done + part_done, total)) if progress else None
