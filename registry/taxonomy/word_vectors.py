"""Vectors of words, for a tree where nothing has a vector of an embedder.

A term's place follows from its hash (Weinberger and others, "Feature Hashing for Large Scale Multitask Learning",
2009). So a text that comes later has a vector without the texts that were there before. Rarity is counted once: in the
vectors that a tree and the directions of its categories are made of, and not in what is placed by them.
"""

from collections import Counter
from collections.abc import Sequence
from math import log
from zlib import crc32

import numpy as np
from numpy.typing import NDArray

from waygraph.registry.index.analyser import rarity, telling_words
from waygraph.registry.taxonomy.prompts import Service

DIMENSION = 1024


def word_vectors(services: Sequence[Service], *, by_rarity: bool) -> dict[str, NDArray[np.float32]]:
    """Service id → float32 of shape (DIMENSION,) and length 1, of each that has a telling word.

    `by_rarity`: a term weighs more, the fewer of these services have it.
    """
    counts = {service.id: Counter(term for term, _ in telling_words(service.text)) for service in services}
    having = Counter(term for terms in counts.values() for term in terms)
    rare = {term: rarity(number, len(counts)) if by_rarity else 1.0 for term, number in having.items()}
    vectors: dict[str, NDArray[np.float32]] = {}
    for entity, terms in counts.items():
        vector = np.zeros(DIMENSION, dtype=np.float32)
        for term, times in terms.items():
            place = crc32(term.encode())
            vector[place // 2 % DIMENSION] += (1 - place % 2 * 2) * (1 + log(times)) * rare[term]
        if length := float(np.linalg.norm(vector)):
            vectors[entity] = vector / length
    return vectors
