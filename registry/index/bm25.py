"""BM25 as every index has it: Robertson and Zaragoza, "The Probabilistic Relevance Framework" (2009), k1 = 1.2 and
b = 0.75, as Lucene writes it, which Neo4j asks.
"""

from math import log
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

_K1, _B = 1.2, 0.75
SATURATION = _K1 + 1
"""The most that one term adds, times its rarity. Lucene leaves this factor out."""
_EXACT_UP_TO, _KEPT_BITS = 24, 4


def rarity(having: int, total: int) -> float:
    """The idf of a term that `having` of `total` texts hold."""
    return log(1 + (total - having + 0.5) / (having + 0.5))


def saturated(counts: "NDArray[np.int64]", lengths: "NDArray[np.int64]", mean_length: float) -> "NDArray[np.float64]":
    """What a term adds to each text's score, as a share of its rarity: in (0, SATURATION).

    `counts`: how often a text holds the term, `lengths`: how many terms the text has. Both of shape (texts,).
    """
    return SATURATION * counts / (counts + _K1 * (1 - _B + _B * lengths / mean_length))


def kept_length(terms: int) -> int:
    """A text's length as Lucene keeps it in a byte: what is above 24 by its four highest bits. So all score alike."""
    above = terms - _EXACT_UP_TO
    dropped = max(above.bit_length() - _KEPT_BITS, 0)
    return _EXACT_UP_TO + (above >> dropped << dropped) if above > 0 else terms
