"""A layer that scores sentences: learnt from attacks, made-up and collected, and from tools that are taken as harmless.

Logistic regression over an embedder's vectors, by Newton's method. What is reported is scored by a layer that learned
neither from the tool's server nor from the attack's style.
"""

import json
import random
from base64 import b64encode
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from hashlib import sha256
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from waygraph.ingest.manifest.suspicion.findings import Layer, Sentence, read_sentences
from waygraph.ingest.sources.read import read_path
from waygraph.registry.model.changes import AgentEntry
from waygraph.registry.model.nouns import Tool, canonical_json
from waygraph.registry.model.settings import Settings
from waygraph_lab.datasets.read_dataset import read_dataset
from waygraph_lab.synthesis.suspicious_sentences import generate_sentences

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from waygraph.registry.embedding.embedder import Embedder, Matrix

    Floats = NDArray[np.float64]

FOLDS = 5
FLAG_RATE, NOTICE_RATE = 0.0025, 0.0175
"""Shares of real tools, of servers that a layer did not learn from, that may be flagged, and flagged or noticed."""
STRENGTH = 1.0
"""Of the penalty on the square of the weights."""
STEPS = 8
OPENING_SHARE = 0.1
"""So many of the made-up attacks open a description."""
SEED = 20_261_126
COLLECTED = ("phrase_injection", "capability_mismatch", "code: prompt-injection")
"""Categories of the collected corpus whose attack is an order in words."""


class Example(NamedTuple):
    """`part`: the style of an attack, or the server of a tool. `source`: who made it."""

    sentence: Sentence
    is_attack: bool
    part: str
    language: str = ""
    source: str = ""

    @property
    def fold(self) -> int:
        return fold_of(self.part)


def fold_of(part: str) -> int:
    return sha256(part.encode()).digest()[0] % FOLDS


def invent_examples(seed: int = SEED) -> Iterator[Example]:
    rng = random.Random(seed)  # noqa: S311 - no secret
    for text, is_attack, style, language in generate_sentences(seed):
        opens = rng.random() < (OPENING_SHARE if is_attack else 0.5)
        yield Example(Sentence("description", text, opens), is_attack, style, language, "invented")


def read_real_tools(sources: Iterable[Path], settings: Settings) -> list[AgentEntry]:
    """Of data sets (folders) and catalogues. Raises InvalidDataset, SourceError."""
    return [
        entry
        for path in sources
        for manifest in ([read_dataset(path, settings).catalogue] if path.is_dir() else read_path(str(path), settings))
        for entry in manifest.entries
    ]


def harmless_examples(entries: Iterable[AgentEntry]) -> Iterator[Example]:
    for entry in entries:
        for entity in entry.entities:
            yield from (Example(each, False, entry.key, source="real") for each in read_sentences(entity))


def read_corpus(path: Path) -> Iterator[Example]:
    """Of the attacks that give orders in words, and of the harmless tools; sentences that open an attack are not it."""
    for line in path.read_text(encoding="utf-8").splitlines():
        row = json.loads(line)
        is_attack = row["label"] == "malicious"
        if is_attack and row["category"] not in COLLECTED:
            continue
        found = read_sentences(corpus_tool(row["tool"]))
        source = row["id"].partition("/")[0]
        yield from (
            Example(each, is_attack, row["id"], "en", source)
            for each in found
            if not (is_attack and each.opens and len(found) > 1)
        )


def corpus_tool(document: Mapping[str, Any]) -> Tool:
    schema = canonical_json(document.get("inputSchema") or {})
    name, description = document["name"], document.get("description") or ""
    return Tool(id=f"a/{name}", agent_id="a", name=name, description=description, input_schema=schema)


@dataclass(frozen=True, slots=True)
class TrainingSet:
    """Each text once. `folds`: of all examples with a text. `vectors`: float32 of shape (len(examples), dimension)."""

    examples: Sequence[Example]
    folds: Sequence[frozenset[int]]
    vectors: "Matrix"
    embedder: str

    @classmethod
    def of(cls, examples: Iterable[Example], embedder: "Embedder") -> "TrainingSet":
        groups: defaultdict[tuple[str, bool, bool], list[Example]] = defaultdict(list)
        for each in examples:
            groups[each.sentence.text, each.sentence.opens, each.is_attack].append(each)
        folds = [frozenset(each.fold for each in group) for group in groups.values()]
        vectors = embedder.embed([text for text, _, _ in groups], "document")
        return cls([group[0] for group in groups.values()], folds, vectors, embedder.fingerprint)

    def fit(self, without: Callable[[Example], bool] = lambda _: False, fold: int | None = None) -> Layer:
        """By what is not `without`, and has no text of the fold. Thresholds are chosen later, on other texts."""
        pairs = enumerate(zip(self.examples, self.folds, strict=True))
        rows = [at for at, (each, folds) in pairs if fold not in folds and not without(each)]
        labels = np.array([self.examples[at].is_attack for at in rows], np.float64)
        opens = np.array([[self.examples[at].sentence.opens, 1.0] for at in rows])
        sums = _fit_logistic(np.hstack([self.vectors[rows], opens]), labels)
        return Layer(
            embedder=self.embedder,
            weights=sums[:-2].astype("<f2").astype(np.float32),
            opening=round(float(sums[-2]), 4),
            bias=round(float(sums[-1]), 4),
            notice=1.0,
            high=1.0,
        )


def _fit_logistic(table: "Floats", labels: "Floats") -> "Floats":
    """The weights of the columns; the last one, the bias, has no penalty."""
    weights = np.zeros(table.shape[1])
    penalty = np.full(len(weights), STRENGTH)
    penalty[-1] = 1e-6
    for _ in range(STEPS):
        chances = 1 / (1 + np.exp(-table @ weights))
        slope = table.T @ (chances - labels) + penalty * weights
        curvature = (table * (chances * (1 - chances))[:, None]).T @ table + np.diag(penalty)
        weights -= np.linalg.solve(curvature, slope)
    return weights


def cross_fit(examples: TrainingSet) -> list[Layer]:
    """For each fold a layer that learned nothing of its servers and styles."""
    return [examples.fit(fold=fold) for fold in range(FOLDS)]


def score_tools(tools: Sequence[Tool], layer: Layer, embedder: "Embedder") -> list[float]:
    """Of each its highest score; 0 without a sentence."""
    found = [read_sentences(tool) for tool in tools]
    vectors = embedder.embed([each.text for some in found for each in some], "document")
    scores = layer.scores(vectors, [each for some in found for each in some])
    ends = np.cumsum([len(some) for some in found])
    return [float(scores[end - len(some) : end].max(initial=0)) for some, end in zip(found, ends, strict=True)]


def score_apart(entries: Sequence[AgentEntry], layers: Sequence[Layer], embedder: "Embedder") -> list[float]:
    """The scores of all tools, each by the layer that did not learn from its server."""
    scores = list[float]()
    for fold, layer in enumerate(layers):
        tools = [tool for entry in entries if fold_of(entry.key) == fold for tool in entry.tools]
        scores += score_tools(tools, layer, embedder)
    return scores


def with_thresholds(layer: Layer, real_scores: Sequence[float]) -> Layer:
    """`real_scores`: of real tools, by layers that did not learn from their servers."""
    flag, notice = np.quantile(real_scores, [1 - FLAG_RATE, 1 - NOTICE_RATE])
    return replace(layer, high=round(float(flag), 4), notice=round(float(notice), 4))


def layer_content(layer: Layer) -> bytes:
    """As `scores.read_layer` reads it."""
    document = asdict(layer) | {"weights": b64encode(layer.weights.astype("<f2").tobytes()).decode()}
    return json.dumps(document, indent=1).encode() + b"\n"


def learn_layer(
    entries: Sequence[AgentEntry], corpora: Sequence[Path], embedder: "Embedder", seed: int = SEED
) -> tuple[Layer, TrainingSet, list[Layer]]:
    """The layer with thresholds, what it learned from, and the layers of the folds. `entries`: taken as harmless."""
    collected = [example for path in corpora for example in read_corpus(path)]
    examples = TrainingSet.of([*invent_examples(seed), *collected, *harmless_examples(entries)], embedder)
    layers = cross_fit(examples)
    return with_thresholds(examples.fit(), score_apart(entries, layers, embedder)), examples, layers


def layer_card(layer: Layer, examples: TrainingSet) -> dict[str, Any]:
    attacks = sum(each.is_attack for each in examples.examples)
    counts = {"attacks": attacks, "harmless": len(examples.examples) - attacks}
    return {"embedder": layer.embedder, "high": layer.high, "notice": layer.notice, **counts}
