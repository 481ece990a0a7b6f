"""A search as Neo4j takes it, and its answer: hits, their records, and whether all is of one revision."""

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from operator import truediv
from typing import Any, NamedTuple

import numpy as np

from waygraph.registry.access.visibility import tools_within
from waygraph.registry.embedding.embedder import Vector
from waygraph.registry.graph.engine import is_committing
from waygraph.registry.index.analyser import SATURATION, rarity
from waygraph.registry.index.call_facts import CallFacts
from waygraph.registry.index.neo4j_upkeep import ALL_TEXTS, index_name, vector_index
from waygraph.registry.index.search_index import (
    TEXT_LEGS,
    VECTOR_LEGS,
    Hits,
    Leg,
    LegHits,
    QueryText,
    ReadById,
    Records,
    Rows,
    Scope,
    no_hits,
    of_record,
)
from waygraph.registry.model.changes import IndexState
from waygraph.registry.model.errors import IndexOutdated, RegistryNotFound
from waygraph.registry.model.nouns import Agent, EntityKind, Filters, Tool
from waygraph.registry.model.transitions import owner_of

_SYNTAX = frozenset('+-&|!(){}[]^"~*?:\\/<>=')


@dataclass(frozen=True, slots=True, kw_only=True)
class Ask:
    """A search, as the statement takes it."""

    all_legs: tuple[Leg, ...]
    """All that was asked for; without a vector no vector leg."""
    legs: tuple[Leg, ...]
    """Those of them that can hold anything."""
    vector: "_Numbers"
    words: tuple[str, ...]
    names: tuple[str, ...]
    depth: int
    scope: Scope
    term_counts: "TermCounts | None" = None
    """Of whoever sees a part only."""

    @classmethod
    def of(cls, legs: tuple[Leg, ...], vector: Vector | None, text: QueryText, depth: int, scope: Scope) -> "Ask":
        """A search of `legs`. `vector` is float32 of shape (dimension,); without it there are no vector legs."""
        answerable = {
            *(VECTOR_LEGS if vector is not None and vector.any() else ()),
            *(TEXT_LEGS if text.words else ()),
            *(("name",) if text.names else ()),
        }
        return cls(
            all_legs=tuple(leg for leg in legs if vector is not None or leg not in VECTOR_LEGS),
            legs=tuple(leg for leg in legs if leg in answerable),
            vector=_Numbers() if vector is None else _Numbers(vector.tolist()),
            words=text.words,  # no more than the 1,024 clauses that Lucene takes
            names=tuple(map(index_name, text.names)),
            depth=depth,
            scope=scope,
        )

    @property
    def is_scoped(self) -> bool:
        return self.scope.principal is not None or self.scope.filters != Filters()

    def params(self, reach: int) -> dict[str, object]:
        dimension = len(self.vector)
        return self._scope_params() | {
            "legs": list(self.legs),
            "vector": self.vector,
            "agent_index": vector_index("agent", dimension),
            "capability_index": vector_index("capability", dimension),
            "agent_words": self._weighted_words(0),
            "capability_words": self._weighted_words(1),
            "names": lucene(self.names),
            "terms": [ALL_TEXTS, *self.words],
            "depth": self.depth,
            "reach": reach,
        }

    def count_params(self) -> dict[str, object]:
        queries = [lucene([word]) for word in self.words]
        return self._scope_params() | {"terms": [ALL_TEXTS, *self.words], "queries": queries}

    def _weighted_words(self, column: int) -> str:
        """Each word is as rare as among the texts counted: Lucene multiplies its own rarity by what stands behind ^."""
        if self.term_counts is None:
            return lucene(self.words)
        factors = map(truediv, rarities(self.term_counts.visible, column), rarities(self.term_counts.all, column))
        return " ".join(f"{lucene([word])}^{factor:.9f}" for word, factor in zip(self.words, factors, strict=True))

    def scan_params(self, legs: Sequence[Leg]) -> dict[str, object]:
        return self._scope_params() | {"legs": list(legs), "vector": self.vector, "depth": self.depth}

    def _scope_params(self) -> dict[str, object]:
        principal, filters = self.scope.principal, self.scope.filters
        return {
            "everyone": principal is None,
            "groups": list(principal.groups) if principal else [],
            "tags": list(filters.tags),
            "kinds": list(filters.kinds),
            "agent_ids": _agent_ids(filters),
            "without_tags": list(filters.without_tags),
            "without_kinds": list(filters.without_kinds),
            "without_agent_ids": list(filters.without_agent_ids),
            "reachable": filters.reachable,
        }


def _agent_ids(filters: Filters) -> list[str]:
    """Empty: all of them. Those within a category are told by id, and tools of others are left out of the hits."""
    if filters.members is None:
        return list(filters.agent_ids)
    owners = {member for member in filters.members if "/" not in member}
    return sorted(owners.intersection(filters.agent_ids or owners)) or [_NOBODY]


_NOBODY = "?"
"""No agent's id."""


class _Numbers(list[float]):
    """A list that is short to print: the driver prints all parameters for its log before each statement, whether
    anybody keeps a log or not, and 384 numbers take it a quarter of a millisecond."""

    def __repr__(self) -> str:
        return f"<{len(self)} floats>"


class TermCounts(NamedTuple):
    """Of the texts, then of each word: how many texts of agents and of capabilities hold it. Of `all`, and of those
    that the principal may find, as they were after `commit`."""

    commit: str
    all: list[list[int]]
    visible: list[list[int]]


def rarities(frequencies: Sequence[Sequence[int]], column: int) -> list[float]:
    """The idf of each word, of the texts of one column."""
    total = frequencies[0][column]
    return [rarity(having[column], total) for having in frequencies[1:]]


def lucene(words: Iterable[str]) -> str:
    """Words as terms of a Lucene query: whatever has a meaning in its syntax is escaped."""
    return " ".join("".join("\\" + c if c in _SYNTAX else c for c in word) for word in words)


_TEXT_LEGS_SEARCHED = {"agent_text": 0, "capability_text": 1}
"""Leg → which of a Term's two counts is its own."""


class _Leg(NamedTuple):
    """`raw_count`: how many hits the index gave before the scope. The others: of each hit within it."""

    name: Leg
    raw_count: int
    ordered_ids: list[str]
    scores: list[float]
    names: list[str]


@dataclass(frozen=True, slots=True, kw_only=True)
class Answer:
    """What the server said, and whether it is of one revision."""

    revision: int
    commit: str
    embedder: str
    texts: str
    is_torn: bool
    legs: dict[Leg, _Leg]
    agents: dict[str, str]
    """Records by id, as those of tools and pinned agents."""
    tools: dict[str, str]
    pinned: dict[str, str]
    apart: int
    frequencies: list[list[int]]
    """Of all texts, then of each word of the query: how many texts of agents and of capabilities hold it."""

    @classmethod
    def of(cls, row: Mapping[str, Any] | None, place: str) -> "Answer":
        """Raises RegistryNotFound without a row: there is no Registry node."""
        if row is None:
            raise RegistryNotFound(place)
        revision, commit, embedder, texts, begun_ms = row["state"]
        return cls(
            revision=revision,
            commit=commit or "",
            embedder=embedder,
            texts=texts,
            is_torn=any(map(is_committing, (begun_ms, row["after"][2]))) or [revision, commit] != row["after"][:2],
            legs={leg[0]: _Leg(*leg) for leg in row["legs"]},
            agents=dict(row["agents"]),
            tools=dict(row["tools"]),
            pinned=dict(row.get("pinned", [])),
            apart=row.get("apart", 0),
            frequencies=row.get("frequencies", []),
        )

    def short_legs(self, depth: int, reach: int) -> list[Leg]:
        """Legs that the scope left short of the depth though the index may hold more."""
        legs = (leg for leg in self.legs.values() if leg.name != "name")
        return [leg.name for leg in legs if len(leg.scores) < depth and leg.raw_count >= reach]

    def hits(self, ask: Ask, state: IndexState, index: Records) -> Hits:
        """`index`: has the records of what is asked for beside the hits."""
        numbers: dict[str, int] = {}
        legs = {leg: self._leg_hits(leg, ask, numbers) for leg in ask.all_legs}
        tops = [float(hits.scores[0]) for leg, hits in legs.items() if leg in VECTOR_LEGS and len(hits.rows)]
        # How many there are in this answer's revision, not at the last look at the state; asked where words are.
        everything = self.frequencies[0][0] if self.frequencies else state.agents
        frequencies = ask.term_counts.visible if ask.term_counts else self.frequencies
        agents, capabilities = frequencies[0] if frequencies else (state.agents, state.tools)
        now = replace(state, revision=self.revision, commit=self.commit, agents=everything)
        populations: dict[EntityKind, int] = {"agent": agents, "tool": capabilities}
        records = _AnswerRecords(self, now, index, numbers)
        return Hits(legs, max(tops, default=0.0), _coverage(legs, frequencies), records, populations)

    def _leg_hits(self, name: Leg, ask: Ask, numbers: dict[str, int]) -> LegHits:
        """`numbers`: those of the entities, which begin with the first hit."""
        if (leg := self.legs.get(name)) is None:
            return no_hits()
        ranks = [_first_named(n, ask.names) for n in leg.names] if name == "name" else [-s for s in leg.scores]
        order = list(zip(ranks, leg.ordered_ids, strict=True))
        tools = tools_within(ask.scope.filters)
        fits = (at for at, each in enumerate(leg.ordered_ids) if tools is None or "/" not in each or each[1:] in tools)
        best = sorted(fits, key=order.__getitem__)
        return LegHits(
            np.asarray([numbers.setdefault(leg.ordered_ids[at][1:], len(numbers)) for at in best], np.int64),
            np.asarray([_comparable_score(name, leg.scores[at]) for at in best], np.float64),
        )


def _coverage(legs: Mapping[Leg, LegHits], frequencies: Sequence[Sequence[int]]) -> float:
    """As the local index has it: the best score over the best that these words could have."""
    shares = [0.0]
    for leg, column in _TEXT_LEGS_SEARCHED.items():
        hits = legs.get(leg)  # type: ignore[call-overload]
        if hits and len(hits.rows):
            best = SATURATION * sum(rarities(frequencies, column))
            shares.append(float(hits.scores[0]) / best if best else 0.0)
    return max(shares)


def merge_answers(parts: Sequence[Answer]) -> Answer:
    """The first, with the legs and records of the others added."""
    return replace(
        parts[0],
        legs={name: leg for part in parts for name, leg in part.legs.items()},
        agents={i: record for part in parts for i, record in part.agents.items()},
        tools={i: record for part in parts for i, record in part.tools.items()},
    )


class _AnswerRecords:
    """Implements NumberedRecords over the records that came with an answer; each is parsed when it is asked for.

    What a history names beside them is read from the index.
    """

    def __init__(self, answer: Answer, state: IndexState, index: Records, numbers: dict[str, int]) -> None:
        self._answer, self.state, self._index, self._numbers = answer, state, index, numbers

    def ids(self, rows: Rows) -> list[str]:
        ids = list(self._numbers)
        return [ids[row] for row in rows.tolist()]

    def owners(self, rows: Rows) -> Rows:
        return self.rows([owner_of(each) for each in self.ids(rows)])

    def rows(self, ids: Sequence[str]) -> Rows:
        return np.asarray([self._numbers.setdefault(each, len(self._numbers)) for each in ids], np.int64)

    def call_facts(self, rows: Rows) -> list[CallFacts]:
        return [CallFacts.of(tool) for tool in self.tools_at(rows)]

    def agents_at(self, rows: Rows) -> list[Agent]:
        agents = self.agents()
        return [agents[each] for each in self.ids(rows)]

    def tools_at(self, rows: Rows) -> list[Tool]:
        return self.tools(self.ids(rows))

    def agents(self) -> Mapping[str, Agent]:
        own = ReadById(dict(sorted(self._answer.agents.items())), lambda records: [*map(agent_of, records)])
        owners = set(map(owner_of, self._numbers))
        return own if owners <= own.keys() else {**self._index.agents(), **own}

    def pinned_agents(self) -> Sequence[Agent]:
        return [agent_of(record) for _, record in sorted(self._answer.pinned.items())]

    def tools(self, ids: Sequence[str]) -> list[Tool]:
        records = self._answer.tools
        others = [each for each in ids if each not in records]
        try:
            read = dict(zip(others, self._index.tools(others), strict=True)) if others else {}
        except KeyError:  # gone since
            raise IndexOutdated from None
        return [read[each] if each in read else tool_of(records[each]) for each in ids]


def agent_of(record: str) -> Agent:
    return of_record(Agent, json.loads(record))


def tool_of(record: str) -> Tool:
    return of_record(Tool, json.loads(record))


def _first_named(names: str, candidates: Sequence[str]) -> float:
    words = set(names.split(" "))
    return next((at for at, name in enumerate(candidates) if name in words), len(candidates))


def _comparable_score(leg: Leg, score: float) -> float:
    """As every index tells it: a cosine, BM25 with its constant factor, 1 for a name."""
    if leg in VECTOR_LEGS:
        return 2 * score - 1
    return SATURATION * score if leg in TEXT_LEGS else 1.0
