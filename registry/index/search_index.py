"""What a search index is, what it answers, and which words and names of an entity it searches."""

from collections.abc import Callable, Hashable, ItemsView, Iterable, Iterator, Mapping, Sequence, ValuesView
from functools import cache, cached_property
from typing import TYPE_CHECKING, Any, Literal, NamedTuple, Protocol

from waygraph.registry.embedding.embedder import Vector
from waygraph.registry.embedding.texts import parameter_text
from waygraph.registry.index.analyser import fold, fold_path, names_in, query_terms, terms
from waygraph.registry.index.call_facts import CallFacts
from waygraph.registry.model.changes import IndexState, OperatorSettings, SourceSummary
from waygraph.registry.model.identity import call_prefix
from waygraph.registry.model.nouns import Agent, EntityKind, Filters, Principal, Tool, stated_text
from waygraph.registry.model.tool_settings import ToolSetting
from waygraph.registry.model.transitions import Partner

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    from waygraph.registry.graph.contents import GraphNoun, NounValue

Leg = Literal["agent_vector", "tool_vector", "capability_vector", "agent_text", "capability_text", "name"]
"""One ranked list. A capability is a tool, or an agent that has none: so that such agents are as findable."""

VECTOR_LEGS: frozenset[Leg] = frozenset({"agent_vector", "tool_vector", "capability_vector"})
TEXT_LEGS: frozenset[Leg] = frozenset({"agent_text", "capability_text"})


type Rows = NDArray[np.int64]
"""Numbers of agents and tools, as the records of one search number them."""


class LegHits(NamedTuple):
    """What one leg found, best first: rows, and scores (cosine or BM25) as float64; both of shape (hits,)."""

    rows: Rows
    scores: "NDArray[np.float64]"


@cache
def no_hits() -> LegHits:
    """Return what a leg found that found nothing."""
    import numpy as np

    return LegHits(np.empty(0, np.int64), np.empty(0, np.float64))


class Scope(NamedTuple):
    """What may be found."""

    filters: Filters = Filters()
    principal: Principal | None = None


class QueryText(NamedTuple):
    """What a search reads of a text: words for the text legs, folded names for the leg of names."""

    words: tuple[str, ...] = ()
    names: tuple[str, ...] = ()

    @classmethod
    def of(cls, text: str, raw_text: str = "", before: str = "") -> "QueryText":
        """Words are those of `text`, and of what was said `before` it; names those of the text as it was, `raw_text`,
        if that differs.
        """
        return cls(query_terms(text, before), names_in(raw_text or text))


class Entities(Protocol):
    """Agents and tools by their rows, int64 of shape (n,)."""

    def ids(self, rows: Rows) -> list[str]:
        """Of these rows, int64 of shape (n,)."""
        ...

    def owners(self, rows: Rows) -> Rows:
        """The row of the agent of each, an agent's own; both int64 of shape (n,)."""
        ...

    def rows(self, ids: Sequence[str]) -> Rows:
        """Of agents and tools that are there, whether they were found or not: int64 of shape (n,). Raises KeyError."""
        ...


class Records(Protocol):
    """The entities of one revision, to the last word: all of them, or at least those of the hits."""

    @property
    def state(self) -> IndexState: ...

    def agents(self) -> Mapping[str, Agent]:
        """By id, in order of id."""
        ...

    def pinned_agents(self) -> Sequence[Agent]:
        """The agents that an operator pinned, in order of id."""
        ...

    def tools(self, ids: Sequence[str]) -> list[Tool]:
        """The tools of these ids, in that order. Raises KeyError."""
        ...


class NumberedRecords(Records, Entities, Protocol):
    """The records of one search, whose rows its hits have."""

    def call_facts(self, rows: Rows) -> list[CallFacts]:
        """What ranking reads of these tools, int64 of shape (n,)."""
        ...

    def agents_at(self, rows: Rows) -> list[Agent]:
        """Of these rows, int64 of shape (n,). Raises IndexOutdated for what is gone since, as `tools_at`."""
        ...

    def tools_at(self, rows: Rows) -> list[Tool]:
        """Of these rows, int64 of shape (n,)."""
        ...


class Hits(NamedTuple):
    """What a search found, and the records of it.

    `similarity`: the highest cosine seen, in [-1, 1]. `coverage`: how much of the query's words, weighted by their
    rarity, the best text holds, about 0 to 1. `populations`: how many agents, and how many capabilities (of kind
    `tool`), the scope's principal may find; without a principal all that there are. The rarity of words is counted
    among the same texts, so that no score tells of what the principal may not see.
    """

    legs: Mapping[Leg, LegHits]
    similarity: float
    coverage: float
    records: NumberedRecords
    populations: Mapping[EntityKind, int]

    def scores_of(self, leg: Leg) -> dict[str, float]:
        """Return what a leg found, best first: ids with their scores; nothing of a leg that was not asked for."""
        rows, scores = self.legs.get(leg, no_hits())
        return dict(zip(self.records.ids(rows), scores.tolist(), strict=True))


class Transitions(Protocol):
    """Which call follows which, as it was counted. Threads may share it."""

    @property
    def is_counted(self) -> bool:
        """Whether any call was. Without that no calls are followed by nothing."""
        ...

    def follows(self, calls: Sequence[str], principal: Principal | None) -> Mapping[str, float]:
        """The probability, in (0, 1], that it is called next: of tools, and of agents whichever of their tools it be.

        Together at most 1. `calls`: ids of tools, of agents that were called as a whole; oldest first. What the
        principal may not see counts for nothing, nor does what is gone.
        """
        ...

    def partners(self, tools: Sequence[str], principal: Principal | None) -> Mapping[str, Partner]:
        """Tools that conversations call beside one of these, by id.

        Of several of these the one with the largest share. What the principal may not see counts for nothing, nor does
        what is gone.
        """
        ...


class SearchIndex(Records, Protocol):
    """A search over the registry as it is now, and all its records. Threads may share it."""

    @property
    def transitions(self) -> "Transitions | None":
        """How calls follow each other; None: nothing was learnt."""
        ...

    def values[T: NounValue](self, noun: "GraphNoun[T]") -> Sequence[T]:
        """All of a kind, such as toolsets, in order of their names, whoever may see or use them."""
        ...

    def has_values(self, name: str) -> bool:
        """Whether there may be any of a kind, by its noun's name."""
        ...

    def search(self, legs: Iterable[Leg], vector: Vector | None, text: QueryText, depth: int, scope: Scope) -> Hits:
        """The `depth` best of each leg, after the scope. Vector legs are absent without a `vector`, which is float32 of
        shape (dimension,) and of length 1.
        """
        ...

    def tool_ids(self, agent_id: str) -> Sequence[str]:
        """In order; none for an agent that is not there."""
        ...

    def tool_ids_of(self, agent_ids: Sequence[str]) -> Mapping[str, Sequence[str]]:
        """The same of each of these agents, asked for at once."""
        ...

    def vectors_of(self, ids: Sequence[str]) -> Mapping[str, Vector]:
        """Of agents and tools, by id: float32 of shape (dimension,) and length 1. Those without any are left out."""
        ...

    def pending_tools(self) -> Sequence[str]:
        """The ids of the tools that wait for approval, whatever their agents do; in order."""
        ...

    def tools_with_notices(self) -> Sequence[str]:
        """The ids of the tools with notices, and maybe of some with other flags alone; in order."""
        ...

    def owners_called(self, call_name: str) -> Sequence[str]:
        """The ids of the agents of which one may own a tool of this call name."""
        ...

    def sources(self) -> Sequence[SourceSummary]: ...

    def settings(self) -> Mapping[str, OperatorSettings]:
        """What operators say, by agent id: also of agents that are not there."""
        ...

    def stated_tool(self, tool_id: str) -> tuple[Tool, ToolSetting] | None:
        """A tool as its source states it, and what operators say of it; None: they say nothing."""
        ...

    def close(self) -> None: ...


class AnswerCache[V](dict[Hashable, V]):
    """The answers to what was asked, begun anew where there are too many. Threads may share it; two may make the same
    one at once. To keep the last asked for in order costs more at each question than it saves.
    """

    def __init__(self, most: int) -> None:
        self._most = most

    def keep(self, key: Hashable, answer: V) -> V:
        """Return the answer, which is kept from now on."""
        if len(self) >= self._most:
            self.clear()
        self[key] = answer
        return answer


class ReadById[K, V](Mapping[str, V]):
    """One value is read when it is asked for, all of them when somebody lists. `keys`: by what each id is read."""

    def __init__(self, keys: Mapping[str, K], read: Callable[[Sequence[K]], Sequence[V]]) -> None:
        self._keys, self._read = keys, read

    def __getitem__(self, value_id: str) -> V:
        return self._read([self._keys[value_id]])[0]

    def __contains__(self, value_id: object) -> bool:
        return value_id in self._keys

    def __iter__(self) -> Iterator[str]:
        return iter(self._keys)

    def __len__(self) -> int:
        return len(self._keys)

    def values(self) -> ValuesView[V]:
        return self._all.values()

    def items(self) -> ItemsView[str, V]:
        return self._all.items()

    @cached_property
    def _all(self) -> dict[str, V]:
        return dict(zip(self._keys, self._read(list(self._keys.values())), strict=True))


class CallNames:
    """Of the agents of one revision: made once, asked for any name."""

    def __init__(self, agent_ids: Iterable[str]) -> None:
        self._owners: dict[str, list[str]] = {}
        for agent_id in agent_ids:
            self._owners.setdefault(call_prefix(agent_id), []).append(agent_id)
        self._longest = max(map(len, self._owners), default=0)

    def owners(self, name: str) -> list[str]:
        """Agent ids, those of the longest prefix first."""
        lengths = range(min(len(name), self._longest), 0, -1)
        return [owner for length in lengths for owner in self._owners.get(name[:length], ())]


def tool_document(agent: Agent, tool: Tool) -> list[str]:
    """Terms of a tool for BM25: its agent's name, its own twice, description, parameters, questions."""
    text = f"{agent.name} {tool.name} {tool.name} {tool.description} {parameter_text(tool.input_schema)}"
    return terms(" ".join([text, *tool.questions]))


def agent_document(agent: Agent, tools: Iterable[Tool]) -> list[str]:
    """Terms of an agent for BM25: its name twice, description, tags, the names of its tools that are in routing."""
    names = (tool.name for tool in tools if not tool.pending)
    return terms(" ".join([agent.name, agent.name, stated_text(agent.description), *agent.tags, *names]))


def agent_names(agent: Agent) -> set[str]:
    """Folded; none is empty."""
    return {fold(agent.id), fold(agent.name)} - {""}


def tool_names(owner: Agent, tool: Tool) -> set[str]:
    """Folded, alone and behind the agent's id or name; none is empty."""
    paths = {fold_path(owner.id, tool.name), fold_path(owner.name, tool.name)}
    return ({fold(tool.name), fold(tool.call_name)} | paths) - {""}


def record_of(entity: Agent | Tool) -> dict[str, Any]:
    """As JSON; what few have only where it is."""
    values = ((name, getattr(entity, name)) for name in type(entity).__slots__)
    return {name: value for name, value in values if value or name not in _RARE_FIELDS}


def of_record[T](kind: type[T], record: Mapping[str, Any]) -> T:
    """The agent, tool or other value of a dataclass that was kept as JSON, which has no tuples."""
    return kind(**{name: tuple(value) if isinstance(value, list) else value for name, value in record.items()})


_RARE_FIELDS = ("questions", "pending", "flags", "approved_hash", "rejection")
