"""An embedder for measuring what is not embedding: a text's vector is the sum of fixed random vectors of its words.

Other processes find it by an entry point, as they find any package's embedder.
"""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any
from zlib import crc32

import numpy as np

if TYPE_CHECKING:
    from numpy.typing import NDArray

SPEC = "words:384"
DIMENSION, ROWS = 384, 1024
_METADATA = "Metadata-Version: 2.1\nName: waygraph-benchmark-words\nVersion: 1.0\n"
_POINTS = f"[waygraph.embedders]\nwords = {__name__}:open_words\n"


class Words:
    fingerprint, dimension = "words:384@1", DIMENSION

    def __init__(self) -> None:
        self._table = np.random.default_rng(1).random((ROWS, DIMENSION), dtype=np.float32) - np.float32(0.5)

    def embed(self, texts: Sequence[str], role: str, *, progress: object = None) -> "NDArray[np.float32]":  # noqa: ARG002
        """float32 of shape (len(texts), 384); rows have length 1 (0 for an empty text)."""
        matrix = np.zeros((len(texts), DIMENSION), dtype=np.float32)
        for row, text in enumerate(texts):
            words = [crc32(word.encode()) % ROWS for word in text.lower().split()]
            self._table[words].sum(axis=0, out=matrix[row])
        lengths = np.linalg.norm(matrix, axis=1, keepdims=True)
        return np.divide(matrix, lengths, out=matrix, where=lengths > 0)


def open_words(spec: object, settings: object, environ: Mapping[str, str]) -> Any:  # noqa: ARG001 - what an entry point is
    return Words()


def install_words(folder: Path) -> Path:
    """Writes what an installer writes for the entry point. Returns the folder, for PYTHONPATH."""
    told = folder / "waygraph_benchmark_words-1.0.dist-info"
    told.mkdir(parents=True, exist_ok=True)
    (told / "METADATA").write_text(_METADATA, encoding="utf-8")
    (told / "entry_points.txt").write_text(_POINTS, encoding="utf-8")
    return folder
