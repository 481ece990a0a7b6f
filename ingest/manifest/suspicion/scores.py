"""A score of each sentence: how much it reads like an order to the model that the user did not give.

A linear layer over the embedder's vectors, learnt by `waygraph learn suspicion`. `layers/` holds one for each embedder
that has any; with another embedder, or without one, the rules speak alone.
"""

import json
from base64 import b64decode
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cache
from importlib.resources import files
from itertools import batched
from typing import TYPE_CHECKING, NamedTuple

from waygraph.ingest.manifest.suspicion.findings import Findings, describing_texts
from waygraph.ingest.manifest.suspicion.hidden_text import quote, without_hidden
from waygraph.ingest.manifest.suspicion.orders import sentences
from waygraph.registry.model.nouns import NOTICE, Agent, Tool

if TYPE_CHECKING:
    from waygraph.registry.embedding.embedder import Embedder, Matrix, Vector

MAX_SENTENCES = 100
"""Of one agent or tool, the longest ones; that there are more is told."""
MAX_SENTENCE_CHARS = 500
"""What is longer is scored in pieces, since an embedder reads only the beginning of a long text."""
ENTITIES_AT_ONCE = 500
"""So many are embedded together, which bounds the memory for vectors."""
LEAST_SENTENCE_BYTES, LEAST_OPENING_BYTES = 30, 60
"""Shorter ones are titles and labels; one that opens a description only says what the tool is for."""


class Sentence(NamedTuple):
    """`opens`: it is the first one of a description, which says what the tool is for."""

    where: str
    text: str
    opens: bool


def read_sentences(entity: Agent | Tool) -> list[Sentence]:
    """What of its texts can be scored, as a model reads it; values that are data are left out."""
    results = dict[Sentence, None]()
    for where, text in describing_texts(entity):
        opens = where == "description"
        for sentence in sentences(without_hidden(text)):
            for piece in _pieces(sentence):
                if len(piece.encode("utf-8", "surrogatepass")) >= (
                    LEAST_OPENING_BYTES if opens else LEAST_SENTENCE_BYTES
                ):
                    results[Sentence(where, piece, opens)] = None
            opens = False
    return list(results)


def _pieces(sentence: str) -> Iterator[str]:
    return (sentence[at : at + MAX_SENTENCE_CHARS] for at in range(0, len(sentence), MAX_SENTENCE_CHARS))


@dataclass(frozen=True, slots=True, kw_only=True)
class Layer:
    """What was learnt for one embedder. Scores lie between 0 and 1. From `notice` on a score is a notice; from `high`
    on the text waits under the policies `hold` and `strict`. No score is a suspicion.

    `weights`: float32 of shape (dimension,). `opening` is added for a sentence that opens a description.
    """

    embedder: str
    weights: "Vector"
    bias: float
    opening: float
    notice: float
    high: float

    def scores(self, vectors: "Matrix", texts: Sequence[Sentence]) -> "Vector":
        """float32 of shape (len(texts),); `vectors`: of these sentences."""
        import numpy as np

        opens = np.array([each.opens for each in texts], np.float32)
        sums = vectors @ self.weights + self.opening * opens + self.bias
        scores: Vector = (1 / (1 + np.exp(-sums))).astype(np.float32)
        return scores


@cache
def load_layers() -> dict[str, Layer]:
    """Fingerprint of an embedder → its layer."""
    places = files(__package__).joinpath("layers").iterdir()
    layers = [read_layer(place.read_bytes()) for place in places if place.name.endswith(".json")]
    return {layer.embedder: layer for layer in layers}


def read_layer(content: bytes) -> Layer:
    """`weights` are float16 in base64, little-endian."""
    import numpy as np

    document = json.loads(content)
    weights = np.frombuffer(b64decode(document["weights"]), "<f2").astype(np.float32)
    numbers = {name: float(document[name]) for name in ("bias", "opening", "notice", "high")}
    return Layer(embedder=document["embedder"], weights=weights, **numbers)


@dataclass(frozen=True, slots=True)
class Scorer:
    """An embedder and the layer that was learnt for it."""

    embedder: "Embedder"
    layer: Layer

    def find(self, entities: Sequence[Agent | Tool]) -> list[Findings]:
        """Of each the sentence with the highest score, if that is one to tell."""
        return [each for some in batched(entities, ENTITIES_AT_ONCE) for each in self._find(some)]

    def _find(self, entities: Sequence[Agent | Tool]) -> Iterator[Findings]:
        every = [read_sentences(entity) for entity in entities]
        longest = [sorted(each, key=lambda sentence: -len(sentence.text))[:MAX_SENTENCES] for each in every]
        vectors = self.embedder.embed([each.text for some in longest for each in some], "document")
        start = 0
        for some, whole in zip(longest, every, strict=True):
            scores = self.layer.scores(vectors[start : start + len(some)], some)
            start += len(some)
            yield self._judge(some, [float(score) for score in scores], len(whole))

    def _judge(self, texts: Sequence[Sentence], scores: Sequence[float], count: int) -> Findings:
        notices = list[str]()
        if count > len(texts):
            notices.append(f"{NOTICE}texts: of {count} sentences only the {len(texts)} longest were scored")
        score, sentence = max(zip(scores, texts, strict=True), default=(0.0, None))
        if sentence is not None and score >= self.layer.notice:
            words = f"(score {score:.2f}, no rule: {quote(sentence.text)})"
            notices.append(f"{NOTICE}{sentence.where}: may be an order to the model {words}")
        return Findings(notices=tuple(notices), scores_high=score >= self.layer.high)
