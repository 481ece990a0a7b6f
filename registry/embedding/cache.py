"""Vectors that are kept: of documents in one SQLite file by key, for one embedder, of queries in memory.

The file is safe for several threads and processes. It is a cache: a fault of it is logged, never raised. A damaged file
is put aside and begun anew; one that cannot be written (read-only folder, full disk) is left alone, with one warning.
"""

import logging
import re
import sqlite3
from collections.abc import Callable, Iterator, Mapping, Sequence
from copy import copy
from hashlib import sha256
from itertools import batched
from pathlib import Path
from threading import Lock
from time import monotonic
from typing import Self, cast
from zlib import crc32

import numpy as np
from cachetools import LRUCache

from waygraph.registry.embedding.embedder import (
    Embedder,
    Literate,
    Matrix,
    Progress,
    Role,
    Vector,
    distinct,
    in_order,
    shift_progress,
)
from waygraph.registry.embedding.texts import is_latin
from waygraph.registry.model.errors import RegistryError
from waygraph.registry.model.settings import Settings
from waygraph.registry.model.sqlite_file import SqliteFile

logger = logging.getLogger(__name__)

KEYS_A_QUERY = 500
CREATE = "CREATE TABLE IF NOT EXISTS vector (key BLOB PRIMARY KEY NOT NULL, value BLOB NOT NULL)"
"""With row ids: random keys of a table without them leave its pages of whole vectors half empty."""
SUFFIX = ".3.sqlite"


def vector_file_path(settings: Settings, fingerprint: str) -> Path:
    """`vectors/<fingerprint, readable>-<its hash>.3.sqlite` in the cache folder: no two fingerprints share one."""
    readable = re.sub(r"[^A-Za-z0-9.@+_-]+", "-", fingerprint)[-80:].strip("-.")
    digest = sha256(fingerprint.encode()).hexdigest()[:8]
    return settings.cache_path / "vectors" / f"{readable}-{digest}{SUFFIX}"


class VectorFile:
    """float32 vectors, little-endian, by key, each with a checksum: one that is damaged is left out."""

    def __init__(self, path: Path) -> None:
        self._file = SqliteFile(path, CREATE)
        self.kept_open = self._file.kept_open
        self._warned = False

    def read(self, keys: Sequence[bytes], dimension: int) -> "dict[bytes, Vector]":
        """Key → its vector, float32 of shape (dimension,); keys without a vector of that dimension are left out."""
        values = self._attempt(lambda database: dict(_select(database, keys))) or {}
        return {key: vector for key, vector in values.items() if len(vector) == dimension}

    def write(self, vectors: "Mapping[bytes, Vector]") -> None:
        """Adds vectors by key, each float32 of shape (dimension,). Warns once of a file that cannot be written."""
        # Keys are random: in their order a page of their index is changed once.
        rows = [(key, _seal(key, vectors[key].astype("<f4", copy=False).tobytes())) for key in sorted(vectors)]
        if rows:
            self._attempt(lambda database: database.executemany("INSERT OR REPLACE INTO vector VALUES (?, ?)", rows))

    def _attempt[T](self, work: Callable[[sqlite3.Connection], T]) -> T | None:
        """The work's result; None if the file does not let itself be used."""
        try:
            return self._file.run(work)
        except (RegistryError, OSError) as error:
            if not self._warned:
                self._warned = True
                logger.warning("vectors are not kept: %s", error)
            return None


def _seal(key: bytes, value: bytes) -> bytes:
    """With the CRC-32 of both behind it, little-endian."""
    return value + crc32(value, crc32(key)).to_bytes(4, "little")


def _select(database: sqlite3.Connection, keys: Sequence[bytes]) -> "Iterator[tuple[bytes, Vector]]":
    for some in batched(keys, KEYS_A_QUERY):
        marks = ",".join("?" * len(some))
        rows = database.execute(f"SELECT key, CAST(value AS BLOB) FROM vector WHERE key IN ({marks})", some)  # noqa: S608 - marks only
        for key, value in rows:
            if value == _seal(key, value[:-4]) and len(value) % 4 == 0:
                yield key, np.frombuffer(value[:-4], dtype="<f4")


BATCH_TEXTS = 512
"""Given to the model at a time."""
WRITE_EVERY_S = 5.0
"""So much work at most is lost with a process that is killed; one that is interrupted keeps what it has. Each write
changes most pages of the keys' index.
"""


class CachedEmbedder:
    """An embedder that embeds a document once, ever. Queries go straight to `inner`.

    `path` is the file, see `vector_file_path`. `embedded` counts the texts that `inner` really embedded. A cache
    that cannot be read or written costs time, never an error.
    """

    def __init__(self, inner: Embedder, path: Path) -> None:
        self._inner, self._file = inner, VectorFile(path)
        self.fingerprint = inner.fingerprint
        self.kept_open = self._file.kept_open
        self._reads = True
        self._lock = Lock()
        self.embedded = 0

    def without_reading(self) -> Self:
        """The same, which embeds every text: neither its time nor its count tells what was embedded before."""
        other = copy(self)
        other._reads, other._lock, other.embedded = False, Lock(), 0
        return other

    @property
    def dimension(self) -> int:
        return self._inner.dimension

    def embed(self, texts: Sequence[str], role: Role, *, progress: Progress | None = None) -> "Matrix":
        """float32 of shape (len(texts), dimension), as the protocol says.

        `progress` counts distinct texts, those found in the cache included.
        """
        if role == "query":
            return self._inner.embed(texts, role, progress=progress)
        keys = {text: sha256(text.encode("utf-8", "surrogatepass")).digest() for text in distinct(texts)}
        cached_vectors = self._file.read(list(keys.values()), self.dimension) if self._reads else {}
        vectors = {text: cached_vectors[key] for text, key in keys.items() if key in cached_vectors}
        missing = [text for text in keys if text not in vectors]
        waiting: dict[bytes, Vector] = {}
        written_s = monotonic()
        with self.kept_open():
            try:
                for some in batched(missing, BATCH_TEXTS):
                    part_progress = shift_progress(progress, len(vectors), len(keys))
                    new = dict(zip(some, self._inner.embed(some, role, progress=part_progress), strict=True))
                    waiting |= {keys[text]: vector for text, vector in new.items()}
                    if monotonic() - written_s > WRITE_EVERY_S:
                        self._file.write(waiting)
                        waiting, written_s = {}, monotonic()
                    vectors |= new
                    with self._lock:
                        self.embedded += len(some)
            finally:
                self._file.write(waiting)
        if progress:
            progress(len(keys), len(keys))
        return in_order(texts, vectors, self.dimension)


class QueryCache:
    """The vectors of the last `entries` queries, embedded by `inner`, read-only. Safe across threads."""

    def __init__(self, inner: Embedder, entries: int) -> None:
        self._inner, self.fingerprint = inner, inner.fingerprint
        self._vectors = LRUCache[str, "Vector"](entries)
        self._directions: dict[tuple[tuple[str, ...], tuple[str, ...]], Vector] = {}
        self._lock = Lock()

    def knows_script(self, text: str) -> bool:
        """Whether the model knows the script of the text; one that does not say what it knows is taken to know all."""
        return is_latin(text) or not isinstance(self._inner, Literate) or self._inner.languages == "multilingual"

    def holds(self, text: str) -> bool:
        """Whether the query's vector is at hand."""
        return text in self._vectors

    def vector(self, text: str) -> "Vector":
        """The vector of one query: float32 of shape (dimension,), of length 1, read-only."""
        with self._lock:
            if (vector := self._vectors.get(text)) is not None:
                return vector
        vector = cast("Vector", self._inner.embed([text], "query")[0])
        vector.flags.writeable = False
        if self._vectors.maxsize:
            with self._lock:
                self._vectors[text] = vector
        return vector

    def lean(self, vector: "Vector", *, toward: tuple[str, ...], away: tuple[str, ...]) -> float:
        """How far a vector of length 1 leans from the mean of some texts to that of others: a cosine, 0 if the two are
        one. The texts are embedded once. `vector`: float32 of shape (dim,).
        """
        if (direction := self._directions.get((toward, away))) is None:
            means = [self._inner.embed(texts, "query").mean(axis=0) for texts in (toward, away)]
            direction = means[0] - means[1]
            direction /= float(np.linalg.norm(direction)) or 1.0
            self._directions[toward, away] = direction
        return float(vector @ direction)

    def mix(self, vector: "Vector", text: str, share: float) -> "Vector":
        """The vector with `share` of that of a text of one caller, which is not kept; again of length 1.

        float32 of shape (dim,), as `vector` is.
        """
        mixture: Vector = (1 - share) * vector + share * self._inner.embed([text], "query")[0]
        length = float(np.linalg.norm(mixture))
        return mixture / length if length else mixture
