"""A learned stage after fusion: trees over the votes for each candidate, read without the library that learned them.

LambdaMART: Burges, "From RankNet to LambdaRank to LambdaMART: An Overview" (2010). A candidate's score is the fused one
times `scale`, plus a leaf of each tree: without trees the fused order stays.
"""

import json
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from hashlib import sha256
from math import log1p
from pathlib import Path
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from waygraph.registry.index.search_index import TEXT_LEGS, VECTOR_LEGS, SearchIndex
from waygraph.registry.model.changes import IndexState
from waygraph.registry.model.errors import InvalidSetting, LanguageModelRefused
from waygraph.registry.model.nouns import AgentMatch, TextForm, ToolMatch, Turn
from waygraph.registry.model.numbers import read_number, read_whole
from waygraph.registry.model.settings import Settings
from waygraph.registry.model.validation import is_form
from waygraph.registry.routing.recipes import HYBRID, Recipe
from waygraph.registry.routing.rerank import Choice

type Floats = NDArray[np.float64]
RankedLevel = Literal["agents", "tools"]
Matches = Sequence[AgentMatch | ToolMatch]
MAX_DEPTH, MAX_TREES, MAX_SCORE = 8, 1_000, 1e12
"""Of a file that is opened; of its scale and of a leaf, so that no sum of them is infinite."""
SHA_CHARS = 12
"""Of a version: NAME@sha."""
RIVAL = 0.05
"""A candidate whose fused score is so near is a rival."""

_LEGS = tuple(use.leg for use in HYBRID.legs if use.leg in VECTOR_LEGS | TEXT_LEGS)
_PAST = tuple((leg, kind) for leg in ("used", "failed", "follows") for kind in ("agent", "tool"))
_COLUMNS: dict[tuple[str, str], int] = {
    **{(leg, kind): at for at, leg in enumerate((*_LEGS, "name")) for kind in ("agent", "tool")},
    **{each: at for at, each in enumerate(_PAST, start=len(_LEGS) + 1)},
}
"""Where the contributions of a leg's votes for entities of a kind are added up."""
_VOTES, _OWN = len(_LEGS) + 1 + len(_PAST), 9
FEATURES: tuple[str, ...] = (
    *(*_LEGS, "name"),
    *(f"{leg} of the {kind}" for leg, kind in _PAST),
    *(f"{leg}, behind the best" for leg in _LEGS),
    *(f"{leg}, 1 / rank" for leg in _LEGS),
    *("fused score", "behind the best", "1 / place", "rivals", "of the same agent", "tools of the agent"),
    *("calls before", "turns of words before", "words of the request"),
)
"""Of a candidate: what each leg and the history add to its score, how far others are, and what the catalogue and the
request are like."""
FREE = len(FEATURES) - 6
"""Before this place more of a feature never counts against a candidate."""


def read_features(matches: Matches, tool_counts: Mapping[str, int], text: str, history: Sequence[Turn]) -> Floats:
    """Float64 of shape (len(matches), len(FEATURES)), all finite. `matches`: as fused, best first. `tool_counts`: how
    many tools each agent has.
    """
    table, legs = np.zeros((len(matches), len(FEATURES))), len(_LEGS)
    rows = [[0.0] * (_VOTES + legs) for _ in matches]  # lists are faster than arrays, one number at a time
    for row, match in zip(rows, matches, strict=True):
        for vote in match.votes:
            if (at := _COLUMNS.get((vote.leg, vote.kind))) is not None:
                row[at] += vote.contribution
                if at < legs:
                    row[_VOTES + at] = max(row[_VOTES + at], 1 / vote.rank)
    if rows:
        table[:, :_VOTES], table[:, _VOTES + legs : -_OWN] = np.split(np.array(rows), [_VOTES], axis=1)
    table[:, _VOTES : _VOTES + legs] = table[:, :legs] - table[:, :legs].max(axis=0, initial=0.0)
    owners = [match.agent.id for match in matches]
    same, scores = Counter(owners), np.array([match.score for match in matches])
    own = table[:, -_OWN:]
    own[:, 0] = scores
    own[:, 1] = scores - scores.max(initial=-np.inf)
    own[:, 2] = 1 / np.arange(1, len(matches) + 1)
    own[:, 3] = (np.abs(scores[:, None] - scores) < RIVAL).sum(axis=1)
    own[:, 4] = [same[owner] for owner in owners]
    own[:, 5] = [log1p(tool_counts.get(owner, 0)) for owner in owners]
    calls = sum(turn.role == "call" for turn in history)
    own[:, 6:] = min(calls, 5), min(len(history) - calls, 5), log1p(len(text.split()))
    return table


@dataclass(frozen=True, slots=True)
class Trees:
    """Complete binary trees of one depth, node `i` above `2i + 1` and `2i + 2`; a value above a threshold goes right.

    `features` (int64) and `thresholds` (float64) have the shape (trees, 2^depth - 1), `leaves` (trees, 2^depth).
    """

    scale: float
    features: NDArray[np.int64]
    thresholds: Floats
    leaves: Floats

    def score(self, table: Floats) -> Floats:
        """Of each row of features, shape (rows,)."""
        trees, nodes = self.features.shape
        first = np.arange(trees) * nodes
        rows = np.arange(len(table))[:, None] * table.shape[1]
        at = np.zeros((len(table), trees), np.int64)
        for _ in range(nodes.bit_length()):
            node = at + first
            at = 2 * at + 1 + (table.take(rows + self.features.take(node)) > self.thresholds.take(node))
        leaf = at - nodes + np.arange(trees) * (nodes + 1)
        scores: Floats = self.scale * table[:, -_OWN] + self.leaves.take(leaf).sum(axis=1)
        return scores

    def times(self, strength: float) -> "Trees":
        """With leaves that count so much."""
        return Trees(self.scale, self.features, self.thresholds, strength * self.leaves)

    @classmethod
    def of(cls, document: Mapping[str, Any]) -> "Trees":
        """Raises ValueError, TypeError or LookupError for what is none."""
        features = np.array(_rows(document["features"], lambda each: read_whole(each, 0, len(FEATURES) - 1)), np.int64)
        thresholds, leaves = (np.array(_rows(document[name], read_number)) for name in ("thresholds", "leaves"))
        trees, nodes = thresholds.shape
        whole = features.shape == thresholds.shape and leaves.shape == (trees, nodes + 1)
        fits = trees <= MAX_TREES and nodes + 1 in {2**depth for depth in range(1, MAX_DEPTH + 1)}
        scale = read_number(document["scale"], -MAX_SCORE, MAX_SCORE)
        if not (whole and fits and scale is not None and (np.abs(leaves) <= MAX_SCORE).all()):
            raise ValueError("its trees are not as they should be")
        return cls(scale, features, thresholds, leaves)

    def as_json(self) -> dict[str, Any]:
        arrays = {name: getattr(self, name).tolist() for name in ("features", "thresholds", "leaves")}
        return {"scale": self.scale} | arrays


def _rows(table: Iterable[Iterable[object]], read: Callable[[object], float | None]) -> list[list[float | None]]:
    """Raises ValueError for what `read` does not take."""
    rows = [[read(each) for each in row] for row in table]
    if any(None in row for row in rows):
        raise ValueError("it holds what is no number, or one out of range")
    return rows


@dataclass(frozen=True, slots=True, kw_only=True)
class Ranker:
    """Trees for each level, and what they were learned with: the fingerprint of the embedder, the texts, the recipe."""

    name: str
    embedder: str
    texts: TextForm
    levels: Mapping[RankedLevel, Trees]

    @property
    def version(self) -> str:
        """`ranker:NAME@sha`, by the SHA-256 of its file."""
        return f"ranker:{self.name}@{sha256(self.content()).hexdigest()[:SHA_CHARS]}"

    @classmethod
    def open(cls, spec: str) -> "Ranker":
        """`FILE`, or `FILE@sha` of the very version. Raises InvalidSetting."""
        file_name, _, sha = spec.rpartition("@")
        path, sha = (Path(spec), "") if not file_name or Path(spec).is_file() else (Path(file_name), sha)
        try:
            document = json.loads(path.read_bytes())
            if document["features"] != list(FEATURES):
                raise InvalidSetting(f"{path} was learned by another version of Waygraph: learn it again")
            levels = {level: Trees.of(trees) for level, trees in document["levels"].items()}
            name, embedder, texts = document["name"], document["embedder"], document["texts"]
            if not (isinstance(name, str) and isinstance(embedder, str) and is_form(texts)):
                raise ValueError("it does not say its name, embedder and texts")
            ranker = cls(name=name, embedder=embedder, texts=texts, levels=levels)
        except (OSError, ValueError, LookupError, TypeError, AttributeError, RecursionError) as error:
            raise InvalidSetting(f"{path} is no ranker of `waygraph learn ranker`: {error}") from error
        if not ranker.version.rpartition("@")[2].startswith(sha[:SHA_CHARS]):
            raise InvalidSetting(f"{path} is {ranker.version}, not @{sha}")
        return ranker

    def content(self) -> bytes:
        """The file: the same bytes for the same ranker."""
        document = {"name": self.name, "embedder": self.embedder, "texts": self.texts, "features": FEATURES}
        return json.dumps(
            document | {"levels": {level: trees.as_json() for level, trees in self.levels.items()}}
        ).encode()

    def check(self, state: IndexState) -> None:
        """Raises InvalidSetting for a registry with another embedder or texts than it was learned with."""
        own, actual = (self.embedder, self.texts), (state.embedder, state.texts)
        if own != actual:
            needs, has = (f"{embedder or 'no embedder'} and {texts} texts" for embedder, texts in (own, actual))
            raise InvalidSetting(f"{self.version} was learned with {needs}; this registry has {has}: learn another")

    def order(self, level: RankedLevel, table: Floats) -> list[int]:
        """Every row once, best first; as they were where nothing was learned for the level."""
        trees = self.levels.get(level)
        return rank_rows(trees, table) if trees else list(range(len(table)))


def rank_rows(trees: Trees, table: Floats) -> list[int]:
    """Every row once, best first, equal ones as they were."""
    order: list[int] = np.argsort(-trees.score(table), kind="stable").tolist()
    return order


class RankerStage:
    """A ranker and, once it is `over` one, the index that knows how many tools agents have."""

    def __init__(self, ranker: Ranker, index: SearchIndex | None = None) -> None:
        self._ranker, self._index = ranker, index

    def over(self, index: SearchIndex, recipe: Recipe) -> "RankerStage":
        """Raises InvalidSetting if it was learned with another embedder, other texts or another recipe."""
        self._ranker.check(index.state)
        if (recipe.legs, recipe.merge) != (HYBRID.legs, HYBRID.merge):
            raise InvalidSetting(f"{self._ranker.version} reads the votes of {HYBRID.name!r}, not of {recipe.name!r}")
        return RankerStage(self._ranker, index)

    def order(self, choice: Choice) -> Sequence[int]:
        """By votes, not by texts. Raises LanguageModelRefused where no vector was searched."""
        matches = choice.matches
        if self._index is None or not any(vote.leg in VECTOR_LEGS for match in matches for vote in match.votes):
            raise LanguageModelRefused(f"{self._ranker.version} reads the votes of vectors, and there are none")
        tools_by_agent = self._index.tool_ids_of(list({match.agent.id for match in matches}))
        waiting = set(self._index.pending_tools())  # nobody learns of them by the order of others
        counts = {agent_id: len({*tools} - waiting) for agent_id, tools in tools_by_agent.items()}
        level: RankedLevel = "tools" if isinstance(matches[0], ToolMatch) else "agents"
        return self._ranker.order(level, read_features(matches, counts, choice.query, choice.history))

    def close(self) -> None:
        """Nothing is open."""


def open_ranker(spec: str, _settings: Settings, _environ: Mapping[str, str]) -> RankerStage:
    """Open `FILE` or `FILE@sha`, as the entry point `ranker` of `waygraph.rerankers`. Raises InvalidSetting."""
    return RankerStage(Ranker.open(spec))
