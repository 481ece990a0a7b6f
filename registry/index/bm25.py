"""BM25 as both indexes have it: Robertson and Zaragoza, "The Probabilistic Relevance Framework" (2009), k1 = 1.2."""

from math import log

SATURATION = 2.2
"""k1 + 1: the most that one term adds, times its rarity. Lucene leaves this factor out, tantivy does not."""


def rarity(having: int, total: int) -> float:
    """The idf of a term that `having` of `total` texts hold."""
    return log(1 + (total - having + 0.5) / (having + 0.5))
