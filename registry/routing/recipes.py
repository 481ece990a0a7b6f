"""Recipes: named ways to route, as values. Command line, services and evaluation speak of the same names."""

from dataclasses import dataclass
from typing import Literal

from waygraph.registry.errors import UnknownRecipe
from waygraph.registry.index.search_index import VECTOR_LEGS, Leg
from waygraph.registry.model import EntityKind, TextForm

Merge = Literal["one_list", "by_owner", "by_score"]
"""`one_list`: all hits in one list with a global rank (Algorithm 1). `by_owner`: each leg ranks agents. `by_score`:
each leg scores agents."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RecipeLeg:
    """A leg's part: weight = `share` × the recipe's weight for `kind`.

    An agent's contribution is weight / (k + rank), or where a recipe merges by score, weight × worth: see `fusion`.
    """

    leg: Leg
    kind: EntityKind
    share: float = 1.0
    k: float = 60.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Recipe:
    """`depth`: candidates a leg gives, whatever the caller's limit. `texts`: the embedded texts it was made for.
    `literals`: a query's URLs, paths and addresses are read as written, not as the kind of thing they are.

    An answer whose `fit` is below `least_fit` is withheld: nothing fits. The thresholds are set on
    examples/catalog, so that no right answer to its requests is lost; None: never withheld.
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
    least_fit: float | None = None

    @property
    def needs_vectors(self) -> bool:
        return any(use.leg in VECTOR_LEGS for use in self.legs)

    @property
    def ranks_tools(self) -> bool:
        return any(use.kind == "tool" and use.leg != "name" for use in self.legs)

    def fit(self, similarity: float, coverage: float) -> float:
        """How near the nearest is: cosine and half the share of the query's words found, or that share alone."""
        return similarity + _COVERAGE_SHARE * coverage if self.needs_vectors else coverage

    @property
    def leg_names(self) -> tuple[Leg, ...]:
        return tuple(use.leg for use in self.legs)


_COVERAGE_SHARE = 0.5
"""Of coverage beside similarity, in `fit`."""
_NAME = RecipeLeg(leg="name", kind="tool", share=1.0, k=0.0)
"""An entity named outright outweighs all other legs together (at most 0.25)."""

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
    least_fit=0.04,
)
HYBRID = Recipe(
    name="hybrid",
    purpose="the default: vectors and words, tools and agents, by their scores",
    legs=(
        RecipeLeg(leg="capability_vector", kind="tool"),
        RecipeLeg(leg="agent_vector", kind="agent", share=0.5),
        RecipeLeg(leg="capability_text", kind="tool", share=0.5),
        RecipeLeg(leg="agent_text", kind="agent", share=0.25),
        # More than all other legs together can give.
        RecipeLeg(leg="name", kind="tool", share=2.5, k=0.0),
    ),
    merge="by_score",
    texts="contextual",
    least_fit=0.25,
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
    least_fit=0.25,
)

RECIPES: dict[str, Recipe] = {recipe.name: recipe for recipe in (AGENTS, HYBRID, LEXICAL, PAPER, RANKS, TOOLS)}
DEFAULT_RECIPE = HYBRID.name


def recipe_named(name: str) -> Recipe:
    """Raises UnknownRecipe."""
    try:
        return RECIPES[name]
    except KeyError:
        raise UnknownRecipe(name, RECIPES) from None
