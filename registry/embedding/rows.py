"""The rows of an answer: equal texts embedded once, empty ones not at all, order kept."""

from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from waygraph.registry.embedding.protocol import Matrix


def distinct(texts: Iterable[str]) -> list[str]:
    """The texts worth embedding, each once, in the order of their first coming."""
    return [text for text in dict.fromkeys(texts) if text and not text.isspace()]


def in_order(texts: Sequence[str], vectors: Mapping[str, "NDArray[np.float32]"], dimension: int) -> "Matrix":
    """float32 of shape (len(texts), dimension): each text's vector, zeros for one that has none."""
    matrix = np.zeros((len(texts), dimension), dtype=np.float32)
    for row, text in zip(matrix, texts, strict=True):
        vector = vectors.get(text)
        if vector is not None:
            row[:] = vector
    return matrix


def unit_rows(matrix: "Matrix") -> "Matrix":
    """Every row scaled to length 1; a row of zeros stays."""
    norms = np.linalg.norm(matrix, axis=1, keepdims=True)
    return np.divide(matrix, norms, out=np.zeros_like(matrix), where=norms > 0)
