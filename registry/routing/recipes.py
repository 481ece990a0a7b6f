"""Recipes: named ways to route, as values. Command line, services and evaluation speak of the same names."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from functools import lru_cache
from math import exp, inf
from typing import Literal, get_args

from waygraph.registry.index.search_index import TEXT_LEGS, VECTOR_LEGS, Leg
from waygraph.registry.model.errors import InvalidSetting, UnknownRecipe
from waygraph.registry.model.nouns import EntityKind, Mode, TextForm

Merge = Literal["one_list", "by_owner", "by_score"]
"""`one_list`: all hits in one list with a global rank (Algorithm 1). `by_owner`: each leg ranks agents. `by_score`:
each leg scores agents."""


def _refuse_unless(subject: str, fits: bool, expectation: str) -> None:
    if not fits:
        raise InvalidSetting(f"{subject}: expected {expectation}")


type _Rule = tuple[Callable[[float], bool], str]
"""Whether a number of a recipe may be so, and what is expected."""

_NUMBER: _Rule = (lambda value: 0 <= value < inf, "a number from 0")
_SHARE: _Rule = (lambda value: 0 <= value <= 1, "a number from 0 to 1")
_PART: _Rule = (lambda value: 0 <= value < 1, "a number from 0, below 1")
_COUNT: _Rule = (lambda value: isinstance(value, int) and value >= 1, "a whole number from 1")


def _check_numbers(noun: object, subject: str, **rules: _Rule) -> None:
    """Each field by its rule. Raises InvalidSetting."""
    for name, (fits, expectation) in rules.items():
        value = getattr(noun, name)
        _refuse_unless(f"{subject}{name}={value!r}", isinstance(value, (int, float)) and fits(value), expectation)


@dataclass(frozen=True, slots=True, kw_only=True)
class RecipeLeg:
    """A leg's part: weight = `share` × the recipe's weight for `kind`.

    An agent's contribution is weight / (k + rank), or where a recipe merges by score, weight × worth: see `fusion`.
    """

    leg: Leg
    kind: EntityKind
    share: float = 1.0
    k: float = 60.0

    def __post_init__(self) -> None:
        """Raises InvalidSetting."""
        _refuse_unless(f"leg={self.leg!r}", self.leg in get_args(Leg), f"one of {', '.join(get_args(Leg))}")
        _refuse_unless(f"kind={self.kind!r}", self.kind in get_args(EntityKind), "agent or tool")
        own = "agent" if self.leg.startswith("agent") else "tool"
        _refuse_unless(f"kind={self.kind!r} of {self.leg}", self.kind == own, own)
        _check_numbers(self, "", share=_NUMBER, k=_NUMBER)


@dataclass(frozen=True, slots=True, kw_only=True)
class Calibration:
    """How likely anything is right, by the `fit` of the answer: 1 / (1 + exp(-(offset + slope × fit))).

    Source: Platt, "Probabilistic Outputs for Support Vector Machines" (1999). A strict query is not answered below
    `least`: nothing fits. Offset, slope and least are measured by `python -m benchmarks abstention`, least
    on catalogues of five real servers and more.

    `model`: whose vectors they were measured with, as a fingerprint names it: `org/name`, or `name@content` where only
    these weights are meant. Empty: any, since the recipe reads no vectors.
    """

    offset: float
    slope: float
    least: float
    model: str = ""

    def holds_for(self, fingerprint: str) -> bool:
        """Whether an embedder's fingerprint, `scheme:model@content+precision`, is of the very model."""
        name = fingerprint.partition(":")[2]
        model, _, content = name.rpartition("@")
        return self.model in ("", model or name, f"{model}@{content.partition('+')[0]}")

    def probability(self, fit: float) -> float:
        """In [0, 1]."""
        return 1 / (1 + exp(-(self.offset + self.slope * fit)))


BY_OPERATOR = "default"
"""In place of a reranker's spec: the one that `WAYGRAPH_RERANK` names."""
MOST_WEIGHT = 1e9
"""Of a request: so much do agents, or tools, count at most."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Rerank:
    """A stage after fusion: `spec` names a reranker, such as openai:MODEL, which puts the best `depth` in order.

    `default`: the one that an operator set by `WAYGRAPH_RERANK`.
    """

    spec: str
    depth: int = 20

    def __post_init__(self) -> None:
        """Raises InvalidSetting."""
        _check_numbers(self, "rerank ", depth=_COUNT)


@dataclass(frozen=True, slots=True, kw_only=True)
class Walk:
    """A stage before the search: `spec` names a language model, openai:MODEL or `default` as in `Rerank`, that walks a
    taxonomy; the recipe then ranks what it selected. `merge`: θ_merge of A2X. `taxonomy`: its name; empty: the current
    one.
    """

    spec: str = BY_OPERATOR
    mode: Mode = Mode.ALL
    merge: int = 30
    taxonomy: str = ""

    def __post_init__(self) -> None:
        """Raises InvalidSetting."""
        _refuse_unless(f"walk mode={self.mode!r}", self.mode in [*Mode], f"one of {', '.join(Mode)}")
        _check_numbers(self, "walk ", merge=_COUNT)


@dataclass(frozen=True, slots=True, kw_only=True)
class HistoryShares:
    """What the turns before a request add to a score, in the recipe's own scale, times its weight for the kind.

    A call is of the request under way unless the assistant spoke since: what is done is seldom done again, and its
    agent goes on. Of calls alone nobody knows where a request ends: there nothing counts as done. Chosen on development
    sets (evals/decisions.md).
    """

    used: float
    """For an agent that was called, by its last call."""
    under_way: float
    """The same, if that call is of the request under way, or where no words are known, as far as this one needs it."""
    done: float
    """Against a tool that was called for the request under way."""
    failed: float
    """A rival of another agent may fit so much less, as a share of the score, and comes before a tool or agent whose
    last call failed. Less with each call since, by `decay`."""
    follows: float
    """For what is sure to be called next, see `Transitions`: a share of the sum of all scores, below 1."""
    together: float = 0.25
    """For what is always called beside one of the first tools, see `Transitions.partners`: a share of the best score.
    Of requests before which nothing was called."""
    decay: float = 0.8
    """Of `used` and `under_way` with each call since, in (0, 1]."""
    topic: float = 0.5
    """How much the words before a request count beside it in its vector, in [0, 1]."""
    topic_turns: int = 2
    """How many turns of words that is."""
    sure: float = 0.6
    """A request of this confidence by itself needs earlier calls the least."""
    unsure: float = 0.3
    """One of this confidence, or none, needs them whole; between the two in part."""
    doubt: float = 0.0
    """Off the `fit` of a request with words before it: they are near something, whatever it asks."""

    def __post_init__(self) -> None:
        """Raises InvalidSetting."""
        _check_numbers(self, "history ", used=_NUMBER, under_way=_NUMBER, done=_NUMBER, doubt=_NUMBER)
        _check_numbers(self, "history ", failed=_SHARE, decay=_SHARE, topic=_SHARE, sure=_SHARE, unsure=_SHARE)
        _check_numbers(self, "history ", follows=_PART, together=_SHARE, topic_turns=_COUNT)


@dataclass(frozen=True, slots=True, kw_only=True)
class Recipe:
    """`depth`: candidates a leg gives, whatever the caller's limit. `texts`: the embedded texts it was made for.
    `literals`: a query's URLs, paths and addresses are read as written, not as the kind of thing they are.
    `calibrations`: one a model. `rerank`: a stage after fusion, `walk`: one before it. `history`: what the turns before
    a request count; None: nothing. `judges_calls`: whether tools count less whose call the request does not give or ask
    for (`ranking.judge_calls`). `unread_words`: what legs of words count, times their share, where the model does
    not know the script of the query.
    """

    name: str
    purpose: str
    legs: tuple[RecipeLeg, ...]
    merge: Merge = "by_owner"
    agent_weight: float = 1.0
    tool_weight: float = 1.0
    depth: int = 100
    texts: TextForm | None = None
    literals: bool = False
    calibrations: tuple[Calibration, ...] = ()
    rerank: Rerank | None = None
    walk: Walk | None = None
    steps_by: str = ""
    """The language model that splits a request into steps before all: openai:MODEL, or `default` as in `Rerank`."""
    history: HistoryShares | None = None
    judges_calls: bool = False
    unread_words: float = 1.0

    def __post_init__(self) -> None:
        """Raises InvalidSetting."""
        of = f"recipe {self.name!r}: "
        are_legs = all(isinstance(use, RecipeLeg) for use in self.legs)
        _refuse_unless(f"{of}legs={self.legs!r}", bool(self.legs) and are_legs, "one RecipeLeg or more")
        _check_numbers(self, of, depth=_COUNT, agent_weight=_NUMBER, tool_weight=_NUMBER, unread_words=_NUMBER)
        merges = get_args(Merge)
        _refuse_unless(f"{of}merge={self.merge!r}", self.merge in merges, f"one of {', '.join(merges)}")
        fits = self.rerank is None or isinstance(self.rerank, Rerank)
        _refuse_unless(f"{of}rerank={self.rerank!r}", fits, "a Rerank, such as Rerank(spec='openai:MODEL')")
        fits = self.walk is None or isinstance(self.walk, Walk)
        _refuse_unless(f"{of}walk={self.walk!r}", fits, "a Walk, such as Walk(spec='openai:MODEL')")

    @property
    def weights(self) -> Mapping[EntityKind, float]:
        """α per entity kind, where the caller gives none."""
        return {"agent": self.agent_weight, "tool": self.tool_weight}

    def takes(self, form: TextForm) -> bool:
        """Whether it may be asked of such texts: one made for contextual ones takes all that say more than plain."""
        return self.texts in (None, form) or (self.texts == "contextual" and form != "plain")

    @property
    def needs_vectors(self) -> bool:
        return not VECTOR_LEGS.isdisjoint([use.leg for use in self.legs])

    @property
    def ranks_tools(self) -> bool:
        return any(use.kind == "tool" and use.leg != "name" for use in self.legs)

    def calibration(self, fingerprint: str) -> Calibration | None:
        """The one for the embedder of this fingerprint."""
        return next((each for each in self.calibrations if each.holds_for(fingerprint)), None)

    def fit(self, similarity: float, coverage: float, score: float) -> float:
        """How near the nearest is: cosine and half the share of the query's words found, or that share alone.

        Where recipes merge by score, the best agent's score if that is more: it tells how much the best stands out,
        which of many alike none does.
        """
        near = similarity + _COVERAGE_SHARE * coverage if self.needs_vectors else coverage
        return max(score, near) if self.merge == "by_score" else near

    @property
    def leg_names(self) -> tuple[Leg, ...]:
        return tuple([use.leg for use in self.legs])


MINILM = "sentence-transformers/all-MiniLM-L6-v2"
WAYGRAPH_MINILM = "waygraph-minilm@74ea8caa35f6"
"""The models whose cosines the calibrations are of, the second as it ships: one trained anew has no confidence yet."""
_COVERAGE_SHARE = 0.5
"""Of coverage beside similarity, in `fit`."""
_NAME = RecipeLeg(leg="name", kind="tool", share=1.0, k=0.0)
"""An entity named outright outweighs all other legs together (at most 0.25)."""
_BY_RANKS = HistoryShares(used=0.02, under_way=0.04, done=0.04, failed=0.2, follows=0.07, sure=0.0)
"""Where the first of a leg gets a share / 11. Ranks part those that fit alike: there earlier calls always count."""

PAPER = Recipe(
    name="paper",
    purpose="Agent-as-a-Graph, Algorithm 1: one list of tools and agents by vector, type-weighted RRF, traversal",
    legs=(RecipeLeg(leg="tool_vector", kind="tool"), RecipeLeg(leg="agent_vector", kind="agent")),
    merge="one_list",
    agent_weight=1.5,
    tool_weight=1.0,
    texts="plain",
    literals=True,
)
"""Weights as published; equal ones are better on this project's gold sets (evals/README.md)."""
AGENTS = Recipe(
    name="agents",
    purpose="agents by their own vectors alone",
    legs=(RecipeLeg(leg="agent_vector", kind="agent"),),
    literals=True,
)
TOOLS = Recipe(
    name="tools",
    purpose="agents by their best tool's vector alone",
    legs=(RecipeLeg(leg="tool_vector", kind="tool"),),
    literals=True,
)
LEXICAL = Recipe(
    name="lexical",
    purpose="words only (BM25): needs no model",
    legs=(
        RecipeLeg(leg="capability_text", kind="tool", k=10.0),
        RecipeLeg(leg="agent_text", kind="agent", share=0.5, k=10.0),
        _NAME,
    ),
    # Only what shares next to no word is in doubt: many right answers share few words with the request.
    calibrations=(Calibration(offset=-0.21, slope=1.63, least=0.451),),
    history=_BY_RANKS,
    judges_calls=True,
)
HYBRID = Recipe(
    name="hybrid",
    purpose="the default: vectors and words, tools and agents, by their scores",
    legs=(
        RecipeLeg(leg="capability_vector", kind="tool"),
        RecipeLeg(leg="agent_vector", kind="agent", share=0.75),
        RecipeLeg(leg="capability_text", kind="tool", share=0.5),
        RecipeLeg(leg="agent_text", kind="agent", share=0.25),
        # More than all other legs together can give.
        RecipeLeg(leg="name", kind="tool", share=3.0, k=0.0),
    ),
    merge="by_score",
    texts="contextual",
    unread_words=1.5,
    calibrations=(
        Calibration(offset=-1.86, slope=2.22, least=0.212, model=MINILM),
        Calibration(offset=-1.85, slope=2.03, least=0.215, model=WAYGRAPH_MINILM),
    ),
    history=HistoryShares(used=0.15, under_way=0.3, done=0.3, failed=0.2, follows=0.07, doubt=0.25),
    judges_calls=True,
)
RANKS = Recipe(
    name="ranks",
    purpose="the legs of hybrid by reciprocal ranks alone, whatever the scores",
    legs=(
        RecipeLeg(leg="capability_vector", kind="tool", k=10.0),
        RecipeLeg(leg="agent_vector", kind="agent", share=0.5, k=10.0),
        RecipeLeg(leg="capability_text", kind="tool", share=0.75, k=10.0),
        RecipeLeg(leg="agent_text", kind="agent", share=0.25, k=10.0),
        _NAME,
    ),
    texts="contextual",
    calibrations=(
        Calibration(offset=-1.34, slope=2.3, least=0.304, model=MINILM),
        Calibration(offset=-1.62, slope=2.79, least=0.276, model=WAYGRAPH_MINILM),
    ),
    history=replace(_BY_RANKS, doubt=0.25),
    judges_calls=True,
)
TAXONOMY = replace(
    HYBRID,
    name="taxonomy",
    purpose="a language model walks the taxonomy (A2X, Algorithm 2); hybrid orders what it selects",
    calibrations=(),
    walk=Walk(),
)

RECIPES: dict[str, Recipe] = {
    recipe.name: recipe for recipe in (AGENTS, HYBRID, LEXICAL, PAPER, RANKS, TAXONOMY, TOOLS)
}
DEFAULT_RECIPE = HYBRID.name


def recipe_named(name: str, *, rerank: str = "", walk: str = "", mode: str = "", steps_by: str = "") -> Recipe:
    """With a reranker's stage after it, if one is named, and for one that walks the model and mode of its walk.

    `steps_by`: the model that splits requests into steps.

    Raises UnknownRecipe, InvalidSetting.
    """
    try:
        recipe = RECIPES[name]
    except KeyError:
        raise UnknownRecipe(name, RECIPES) from None
    if walk or mode:
        _refuse_unless(f"a walk by recipe {name!r}", recipe.walk is not None, f"{TAXONOMY.name!r}, which walks")
        _refuse_unless(f"mode {mode!r}", not mode or mode in [*Mode], f"one of {', '.join(Mode)}")
        recipe = replace(recipe, walk=Walk(spec=walk or BY_OPERATOR, mode=Mode(mode or Mode.ALL)))
    recipe = replace(recipe, steps_by=steps_by) if steps_by else recipe
    return with_rerank(recipe, Rerank(spec=rerank) if rerank else None)


@lru_cache(maxsize=64)
def for_unread_script(recipe: Recipe) -> Recipe:
    """The recipe for queries in a script that the model does not know."""
    by = recipe.unread_words
    legs = (replace(use, share=by * use.share) if use.leg in TEXT_LEGS else use for use in recipe.legs)
    return recipe if by == 1 else replace(recipe, legs=tuple(legs))


def with_rerank(recipe: Recipe, rerank: Rerank | None) -> Recipe:
    """Named by the stage too, such as `lexical + openai:m`; without a stage the recipe itself."""
    return replace(recipe, name=f"{recipe.name} + {rerank.spec}", rerank=rerank) if rerank else recipe
