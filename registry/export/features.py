"""What the map knows agents by: numbers that say which agents are alike, and words that name a region of them."""

import math
import re
from collections import Counter
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING
from zlib import crc32

import numpy as np

from waygraph.registry.index.analyser import STOP_WORDS, terms
from waygraph.registry.model import Agent, Tool

if TYPE_CHECKING:
    from numpy.typing import NDArray

    Matrix = NDArray[np.float32]

HASHED_COLUMNS = 1024
_WORD = re.compile(r"[^\W\d_]{3,24}")
_VAGUE = STOP_WORDS | frozenset(
    """add agent agents allows api available based call create data delete example get given including information
    list manage mcp new one provides read return returns search server service set show support supports tool tools
    two update use used user users using via without access discovery miscellaneous various multiple including
    simple through different""".split()
)
"""Words that name no field of work."""


def features_of(
    agents: Sequence[Agent], owned: Mapping[str, Sequence[Tool]], vectors: "Mapping[str, Matrix]"
) -> "Matrix":
    """(agents, columns), rows of length 1 or 0: the stored vectors, or in a registry without them hashed words."""
    if not vectors:
        return hashed_words([_words_of(agent, owned[agent.id]) for agent in agents])
    dimension = len(next(iter(vectors.values())))
    rows = [vectors.get(agent.id, np.zeros(dimension, dtype=np.float32)) for agent in agents]
    return np.asarray(rows, dtype=np.float32).reshape(-1, dimension)


def hashed_words(documents: "Sequence[Sequence[str]]") -> "Matrix":
    """(documents, HASHED_COLUMNS): a column a hashed term, rare terms weighing more."""
    bearing = Counter(word for words in documents for word in set(words))
    matrix = np.zeros((len(documents), HASHED_COLUMNS), dtype=np.float32)
    for row, words in enumerate(documents):
        for word in words:
            matrix[row, crc32(word.encode()) % HASHED_COLUMNS] += math.log(1 + len(documents) / bearing[word])
    norms = np.linalg.norm(matrix, axis=1, keepdims=True)
    return np.divide(matrix, norms, out=np.zeros_like(matrix), where=norms > 0)


def region_names(
    agents: Sequence[Agent], owned: Mapping[str, Sequence[Tool]], regions: Sequence[Sequence[int]]
) -> list[str]:
    """Two words a region that many of its agents use and others do not; tags count most."""
    words = [_plain_words(agent, owned[agent.id]) for agent in agents]
    everywhere = Counter(word for weights in words for word in weights)
    return [" · ".join(_telling([words[row] for row in rows], everywhere, len(agents))) for rows in regions]


def _telling(members: Sequence[Mapping[str, int]], everywhere: Mapping[str, int], agents: int) -> list[str]:
    weight: Counter[str] = Counter()
    for words in members:
        weight.update(words)
    scores = {word: number * math.log(1 + agents / everywhere[word]) for word, number in weight.items()}
    best: list[str] = []
    for word in sorted(scores, key=lambda word: (-scores[word], word)):
        if len(best) < 2 and not any(terms(word) == terms(other) for other in best):
            best.append(word)
    return best


def _plain_words(agent: Agent, tools: Sequence[Tool]) -> dict[str, int]:
    """Word → weight: 3 for a tag, 2 in the agent's name, 1 in its description or the names of its tools."""
    weights: dict[str, int] = {}
    told = " ".join([agent.description[:2000], *(tool.name for tool in tools)]).replace("_", " ")
    for weight, text in ((1, told), (2, agent.name), (3, " ".join(agent.tags))):
        weights |= {word: weight for word in _WORD.findall(text.casefold()) if word not in _VAGUE}
    return weights


def _words_of(agent: Agent, tools: Sequence[Tool]) -> list[str]:
    names = " ".join(tool.name for tool in tools)
    return terms(f"{agent.name} {agent.description[:2000]} {' '.join(agent.tags)} {names}")
