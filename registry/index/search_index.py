"""What a search index is, and what it answers."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Literal, NamedTuple, Protocol

from waygraph.registry.model import Agent, EntityKind, Filters, Principal, TextForm, Tool

if TYPE_CHECKING:
    from waygraph.registry.changes import OperatorSettings, SourceSummary
    from waygraph.registry.embedding.protocol import Vector


Leg = Literal["agent_vector", "tool_vector", "capability_vector", "agent_text", "capability_text", "name"]
"""One ranked list. A capability is a tool, or an agent that has none: so that such agents are as findable."""

VECTOR_LEGS: frozenset[Leg] = frozenset({"agent_vector", "tool_vector", "capability_vector"})
TEXT_LEGS: frozenset[Leg] = frozenset({"agent_text", "capability_text"})


class LegHits(NamedTuple):
    """Three lists of one length, best first: entity, its owner (an agent owns itself), score (cosine or BM25)."""

    entity_ids: Sequence[str]
    owner_ids: Sequence[str]
    scores: Sequence[float]


@dataclass(frozen=True, slots=True)
class Scope:
    """What may be found."""

    filters: Filters = field(default_factory=Filters)
    principal: Principal | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class IndexState:
    """Which revision the index shows, and by what its vectors were made (empty: it has none)."""

    revision: int
    embedder: str
    embedder_spec: str
    texts: TextForm
    dimension: int
    agents: int
    tools: int
    schema_version: int
    commit: str = ""


class Records(Protocol):
    """The entities of one revision, to the last word: all of them, or at least those of the hits."""

    @property
    def state(self) -> IndexState: ...

    def agents(self) -> Mapping[str, Agent]:
        """By id, in order of id."""
        ...

    def pinned(self) -> Sequence[Agent]:
        """The agents that an operator pinned, in order of id."""
        ...

    def tools(self, ids: Sequence[str]) -> list[Tool]:
        """The tools of these ids, in that order. Raises KeyError."""
        ...


class Hits(NamedTuple):
    """What a search found, and the records of it.

    `similarity`: the highest cosine seen, in [-1, 1]. `coverage`: how much of the query's words, weighted by their
    rarity, the best text holds, about 0 to 1. `populations`: how many agents, and how many capabilities (of kind
    `tool`), there are, found or not.
    """

    legs: Mapping[Leg, LegHits]
    similarity: float
    coverage: float
    records: Records
    populations: Mapping[EntityKind, int]


class SearchIndex(Records, Protocol):
    """A search over the registry as it is now, and all its records. Threads may share it."""

    @property
    def is_fixed(self) -> bool:
        """Whether every search sees the same revision."""
        ...

    def search(
        self, legs: Iterable[Leg], vector: "Vector | None", text: str, depth: int, scope: Scope, *, written: str = ""
    ) -> Hits:
        """The `depth` best of each leg, after the scope. Vector legs are absent without a `vector`.

        Words are those of `text`; names are looked for in it as it was `written`, if that differs.
        """
        ...

    def tool_ids(self, agent_id: str) -> Sequence[str]:
        """In order; none for an agent that is not there."""
        ...

    def tool_ids_of(self, agent_ids: Sequence[str]) -> Mapping[str, Sequence[str]]:
        """The same of each of these agents, asked for at once."""
        ...

    def pending_tools(self) -> Sequence[str]:
        """The ids of the tools that wait for approval, whatever their agents do; in order."""
        ...

    def owners_called(self, call_name: str) -> Sequence[str]:
        """The ids of the agents of which one may own a tool of this call name."""
        ...

    def sources(self) -> "Sequence[SourceSummary]": ...

    def settings(self) -> "Mapping[str, OperatorSettings]":
        """What operators say, by agent id: also of agents that are not there."""
        ...

    def close(self) -> None: ...
