"""The search index on Neo4j: its own vector and full-text indexes, all legs with owners and records in one round trip.

Neo4j reads what is committed, not one moment: a reader beside a commit may see half of it. So every answer carries
the revision and the mark of a running commit, both from its begin and from its end; one that is torn is asked again.
"""

import json
import math
import threading
import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, NamedTuple

from waygraph.cypher import load
from waygraph.registry.errors import EngineError, IndexOutdated, RegistryNotFound, ServerUnavailable
from waygraph.registry.graph.batches import batches
from waygraph.registry.graph.neo4j import IN_INDEX_FILTERS
from waygraph.registry.graph.reading import read_claims, read_sources
from waygraph.registry.index.analyser import named_in, query_terms
from waygraph.registry.index.call_names import CallNames
from waygraph.registry.index.documents import agent_of_record, tool_of_record
from waygraph.registry.index.neo4j_indexes import faults, vector_indexes
from waygraph.registry.index.neo4j_upkeep import ALL_TEXTS, index_name, vector_index
from waygraph.registry.index.search_index import TEXT_LEGS, VECTOR_LEGS, Hits, IndexState, Leg, LegHits, Scope
from waygraph.registry.model import Agent, EntityKind, Tool

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    from waygraph.cypher import Statement
    from waygraph.registry.changes import SourceSummary
    from waygraph.registry.graph.neo4j import Neo4jEngine

    Vector = NDArray[np.float32]

MOST_WORDS = 1_000
"""Lucene takes 1,024 clauses; of a longer query the first words and the first names count."""
LEAST_REACH = 100
"""An approximate index that is asked for few looks at few, and misses better ones."""
SCOPED_REACH = 4
"""How many times the depth is read at once where a scope may leave out some."""
DEAD_COMMIT_MS = 5_000
"""A living writer renews its mark every second; an older one is a dead writer's."""
_BM25_SATURATION = 2.2
"""k1 + 1 with k1 = 1.2: a factor of every BM25 score that Lucene leaves out and the local index does not."""
_TEXT_LEGS_SEARCHED = {"agent_text": 0, "capability_text": 1}
"""Leg → which of a Term's two counts is its own."""


class Neo4jIndex:
    """Implements SearchIndex. Holds no data of the registry but its agents, kept for their revision."""

    def __init__(self, engine: "Neo4jEngine") -> None:
        self._engine = engine
        self._lock = threading.Lock()
        self._held = _Held(None, {}, CallNames(()))
        self.state, self._apart = self._read_state()

    def refresh(self) -> bool:
        """Brings `state` to the present revision; False if queries must be embedded otherwise.

        Raises RegistryNotFound.
        """
        state, self._apart = self._read_state()
        same = (state.embedder, state.texts) == (self.state.embedder, self.state.texts)
        if same:
            self.state = state
        return same

    def _read_state(self) -> tuple[IndexState, int]:
        rows = self._engine.run(load("neo4j/search/state"))
        if not rows:
            raise RegistryNotFound(self._engine.place)
        row = rows[0]
        apart = row.pop("apart")
        return IndexState(**row), apart

    # -- search ------------------------------------------------------------------------------------

    @property
    def is_fixed(self) -> bool:
        return False

    def search(
        self, legs: Iterable[Leg], vector: "Vector | None", text: str, depth: int, scope: Scope, *, written: str = ""
    ) -> Hits:
        ask = _Ask.of(tuple(legs), vector if self.state.embedder else None, (text, written or text), depth, scope)
        for _ in range(_ATTEMPTS):
            reach = self._reach(ask)
            found, unanswered = self._first(ask, reach)
            self._apart = found.apart
            parts = [found, *self._filling(ask, found, [*found.short_legs(ask.depth, reach), *unanswered])]
            if len({part.commit for part in parts}) == 1:
                self._note(found)
                return _merged(parts).hits(ask, self.state)
        raise ServerUnavailable(self._engine.place, "it changes faster than it can be read")

    def _note(self, found: "_Answer") -> None:
        """What is read beside an answer, such as all agents, is not older than it."""
        if found.revision > self.state.revision:
            self.state = replace(self.state, revision=found.revision, commit=found.commit)

    def _first(self, ask: "_Ask", reach: int) -> "tuple[_Answer, list[Leg]]":
        """What the indexes answer, and the legs that none did: of vectors, while their index is not as it should be.

        It is being made after a reindex, and lacks owners after an upgrade of the server.
        """
        try:
            return self._indexed(ask, reach), []
        except EngineError:
            if not faults(self._engine, vector_indexes(len(ask.vector), by_owner=self._filters_in_index)):
                raise
        unanswered = [leg for leg in ask.legs if leg in VECTOR_LEGS]
        others = replace(ask, legs=tuple(leg for leg in ask.legs if leg not in VECTOR_LEGS))
        return self._whole("neo4j/search/legs", others.params(reach)), unanswered

    @property
    def _filters_in_index(self) -> bool:
        return self._engine.version >= IN_INDEX_FILTERS

    def _indexed(self, ask: "_Ask", reach: int) -> "_Answer":
        """All legs, each at least to its depth if the index itself knows the scope or the scope leaves out few."""
        if not (ask.is_scoped and ask.vector and self._filters_in_index):
            return self._whole("neo4j/search/legs", ask.params(reach))
        params = ask.params(reach) | {"least": max(ask.depth, LEAST_REACH)}
        del params["agent_index"], params["capability_index"]
        # An index cannot be named by a parameter here.
        return self._whole("neo4j/search/legs_within", params, {"DIMENSION": str(len(ask.vector))})

    def _reach(self, ask: "_Ask") -> int:
        """How many hits of an index are read at once: the depth, and so many more as may not be shown."""
        depth = max(ask.depth, LEAST_REACH)
        return depth * SCOPED_REACH if ask.is_scoped else depth + min(self._apart, depth * SCOPED_REACH)

    def _filling(self, ask: "_Ask", found: "_Answer", short: Sequence[Leg]) -> "Iterator[_Answer]":
        """Legs that came short, read to the end: vectors by an exact scan of what the scope allows."""
        if vectors := [leg for leg in short if leg in VECTOR_LEGS]:
            yield self._whole("neo4j/search/scan", ask.scan_params(vectors))
        if words := [leg for leg in short if leg in TEXT_LEGS]:
            texts = max(1, *found.frequencies[0])
            yield self._whole("neo4j/search/legs", replace(ask, legs=tuple(words)).params(texts))

    def _whole(self, name: str, params: dict[str, object], written: Mapping[str, str] | None = None) -> "_Answer":
        """An answer of one revision; waits while a writer commits. `written` goes into the statement's text."""
        statement = load(name)
        for placeholder, text in (written or {}).items():
            statement = replace(statement, text=statement.text.replace(placeholder, text))
        give_up = time.monotonic() + self._engine.read_timeout_s
        pause_s = 0.002
        while True:
            found = _Answer.of(self._row(statement, params), self._engine.place)
            _refuse_outdated(self.state, found.embedder, found.texts)
            if not found.torn:
                return found
            if time.monotonic() > give_up:
                raise ServerUnavailable(self._engine.place, "a writer has been committing all the while")
            time.sleep(pause_s)
            pause_s = min(pause_s * 2, 0.1)

    def _row(self, statement: "Statement", params: dict[str, object]) -> dict[str, Any] | None:
        try:
            # In one map: for each size of each list and text among the parameters the server makes another plan, which
            # takes longer than a hundred searches.
            return self._engine.read_once(statement, {"ask": params})
        except EngineError:
            # With another embedder the indexes of the former one's vectors go.
            state, _ = self._read_state()
            _refuse_outdated(self.state, state.embedder, state.texts)
            raise

    # -- records -----------------------------------------------------------------------------------

    def agents(self) -> Mapping[str, Agent]:
        return self._held_now().agents

    def owners_called(self, call_name: str) -> Sequence[str]:
        return self._held_now().call_names.owners(call_name)

    def _held_now(self) -> "_Held":
        held, commit = self._held, self.state.commit
        if held.commit != commit:
            rows = self._engine.run(load("neo4j/search/agents"))
            agents = {agent.id: agent for agent in map(agent_of, (row["record"] for row in rows))}
            held = self._held = _Held(commit, agents, CallNames(agents))
        return held

    def pinned(self) -> Sequence[Agent]:
        return [agent for agent in self.agents().values() if agent.pinned]

    def tools(self, ids: Sequence[str]) -> list[Tool]:
        found: dict[str, Tool] = {}
        for batch in batches(ids):
            rows = self._engine.run(load("neo4j/search/tools"), ids=list(batch))
            found.update((row["id"], tool_of(row["record"])) for row in rows)
        return [found[tool_id] for tool_id in ids]

    def tool_ids(self, agent_id: str) -> Sequence[str]:
        return self.tool_ids_of([agent_id])[agent_id]

    def tool_ids_of(self, agent_ids: Sequence[str]) -> Mapping[str, Sequence[str]]:
        found: dict[str, list[str]] = {agent_id: [] for agent_id in agent_ids}
        for batch in batches(agent_ids):
            for row in self._engine.run(load("neo4j/search/tool_ids"), agent_ids=list(batch)):
                found[row["agent_id"]].append(row["id"])
        return found

    def pending_tools(self) -> Sequence[str]:
        return [row["id"] for row in self._engine.run(load("neo4j/search/pending_tools"))]

    def sources(self) -> "Sequence[SourceSummary]":
        with self._engine.reading() as session:
            return read_sources(session, read_claims(session))

    def close(self) -> None:
        """The engine is its owner's."""


class _Held(NamedTuple):
    """The agents by id, in order of id, as they were after `commit` (None: not read yet)."""

    commit: str | None
    agents: Mapping[str, Agent]
    call_names: CallNames


def _refuse_outdated(known: IndexState, embedder: str, texts: str) -> None:
    if (known.embedder, known.texts) != (embedder, texts):
        raise IndexOutdated


@dataclass(frozen=True, slots=True, kw_only=True)
class _Ask:
    """A search, as the statement takes it."""

    wanted: tuple[Leg, ...]
    """All that was asked for; without a vector no vector leg."""
    legs: tuple[Leg, ...]
    """Those of them that can hold anything."""
    vector: "_Numbers"
    words: tuple[str, ...]
    names: tuple[str, ...]
    depth: int
    scope: Scope

    @classmethod
    def of(
        cls, legs: tuple[Leg, ...], vector: "Vector | None", texts: tuple[str, str], depth: int, scope: Scope
    ) -> "_Ask":
        """`texts`: what words are taken of, and names."""
        # Half a surrogate pair cannot be sent, nor be stored.
        text, written = (each.encode("utf-8", "replace").decode() for each in texts)
        words, names = query_terms(text)[:MOST_WORDS], named_in(written)[:MOST_WORDS]
        answerable = {
            *(VECTOR_LEGS if vector is not None and vector.any() else ()),
            *(TEXT_LEGS if words else ()),
            *(("name",) if names else ()),
        }
        return cls(
            wanted=tuple(leg for leg in legs if vector is not None or leg not in VECTOR_LEGS),
            legs=tuple(leg for leg in legs if leg in answerable),
            vector=_Numbers() if vector is None else _Numbers(vector.tolist()),
            words=words,
            names=tuple(map(index_name, names)),
            depth=depth,
            scope=scope,
        )

    @property
    def is_scoped(self) -> bool:
        filters = self.scope.filters
        chosen = filters.tags or filters.kinds or filters.agent_ids or filters.reachable
        return self.scope.principal is not None or bool(chosen)

    def params(self, reach: int) -> dict[str, object]:
        dimension = len(self.vector)
        return self._scope_params() | {
            "legs": list(self.legs),
            "vector": self.vector,
            "agent_index": vector_index("agent", dimension),
            "capability_index": vector_index("capability", dimension),
            "words": lucene(self.words),
            "names": lucene(self.names),
            "terms": [ALL_TEXTS, *self.words],
            "depth": self.depth,
            "reach": reach,
        }

    def scan_params(self, legs: Sequence[Leg]) -> dict[str, object]:
        return self._scope_params() | {"legs": list(legs), "vector": self.vector, "depth": self.depth}

    def _scope_params(self) -> dict[str, object]:
        principal, filters = self.scope.principal, self.scope.filters
        return {
            "everyone": principal is None,
            "groups": list(principal.groups) if principal else [],
            "tags": list(filters.tags),
            "kinds": list(filters.kinds),
            "agent_ids": list(filters.agent_ids),
            "reachable": filters.reachable,
            "with_pinned": self.scope.with_pinned,
        }


class _Numbers(list[float]):
    """A list that is short to print: the driver prints all parameters for its log before each statement, whether
    anybody keeps a log or not, and 384 numbers take it a quarter of a millisecond."""

    def __repr__(self) -> str:
        return f"<{len(self)} floats>"


class _Leg(NamedTuple):
    """`seen`: how many hits the index gave before the scope. Of each hit kept: order and id, owner, score, names."""

    name: Leg
    seen: int
    ordered_ids: list[str]
    owner_ids: list[str]
    scores: list[float]
    names: list[str]


@dataclass(frozen=True, slots=True, kw_only=True)
class _Answer:
    """What the server said, and whether it is of one revision."""

    revision: int
    commit: str
    embedder: str
    texts: str
    torn: bool
    legs: dict[Leg, _Leg]
    agents: dict[str, str]
    """Records by id, as those of tools and pinned agents."""
    tools: dict[str, str]
    pinned: dict[str, str]
    apart: int
    frequencies: list[list[int]]
    """Of all texts, then of each word of the query: how many texts of agents and of capabilities hold it."""

    @classmethod
    def of(cls, row: Mapping[str, Any] | None, place: str) -> "_Answer":
        """Raises RegistryNotFound without a row: there is no Registry node."""
        if row is None:
            raise RegistryNotFound(place)
        revision, commit, embedder, texts, begun_ms = row["state"]
        committing = any(0 <= ms < DEAD_COMMIT_MS for ms in (begun_ms, row["after"][2]))
        return cls(
            revision=revision,
            commit=commit or "",
            embedder=embedder,
            texts=texts,
            torn=committing or [revision, commit] != row["after"][:2],
            legs={leg[0]: _Leg(*leg) for leg in row["legs"]},
            agents=dict(row["agents"]),
            tools=dict(row["tools"]),
            pinned=dict(row.get("pinned", [])),
            apart=row.get("apart", 0),
            frequencies=row.get("frequencies", []),
        )

    def short_legs(self, depth: int, reach: int) -> list[Leg]:
        """Legs that the scope left short of the depth though the index may hold more."""
        ranked = (leg for leg in self.legs.values() if leg.name != "name")
        return [leg.name for leg in ranked if len(leg.scores) < depth and leg.seen >= reach]

    def hits(self, ask: _Ask, state: IndexState) -> Hits:
        legs = {leg: self._leg_hits(leg, ask) for leg in ask.wanted}
        tops = [hits.scores[0] for leg, hits in legs.items() if leg in VECTOR_LEGS and hits.scores]
        # How many there are in this answer's revision, not at the last look at the state; asked where words are.
        agents, capabilities = self.frequencies[0] if self.frequencies else (state.agents, state.tools)
        now = replace(state, revision=self.revision, commit=self.commit, agents=agents)
        populations: dict[EntityKind, int] = {"agent": agents, "tool": capabilities}
        return Hits(legs, max(tops, default=0.0), self._coverage(legs), _Shown(self, now), populations)

    def _leg_hits(self, name: Leg, ask: _Ask) -> LegHits:
        leg = self.legs.get(name)
        if leg is None:
            return LegHits([], [], [])
        ranks = [_first_named(n, ask.names) for n in leg.names] if name == "name" else [-s for s in leg.scores]
        order = list(zip(ranks, leg.ordered_ids, strict=True))
        best = sorted(range(len(order)), key=order.__getitem__)
        return LegHits(
            [leg.ordered_ids[at][1:] for at in best],
            [leg.owner_ids[at] for at in best],
            [_told(name, leg.scores[at]) for at in best],
        )

    def _coverage(self, legs: Mapping[Leg, LegHits]) -> float:
        """As the local index has it: the best score over the best that these words could have."""
        shares = [0.0]
        for leg, column in _TEXT_LEGS_SEARCHED.items():
            hits = legs.get(leg)  # type: ignore[call-overload]
            if hits and hits.scores:
                total = self.frequencies[0][column]
                best = _BM25_SATURATION * sum(_rarity(having[column], total) for having in self.frequencies[1:])
                shares.append(hits.scores[0] / best if best else 0.0)
        return max(shares)


_ATTEMPTS = 5


def _merged(parts: Sequence[_Answer]) -> _Answer:
    """The first, with the legs and records of the others added."""
    first = parts[0]
    return replace(
        first,
        legs={name: leg for part in parts for name, leg in part.legs.items()},
        agents={i: record for part in parts for i, record in part.agents.items()},
        tools={i: record for part in parts for i, record in part.tools.items()},
    )


class _Shown:
    """Implements Records over the records that came with an answer; each is parsed when it is asked for."""

    def __init__(self, answer: _Answer, state: IndexState) -> None:
        self._answer, self.state = answer, state

    def agents(self) -> Mapping[str, Agent]:
        return _Parsed(self._answer.agents)

    def pinned(self) -> Sequence[Agent]:
        return [agent_of(record) for _, record in sorted(self._answer.pinned.items())]

    def tools(self, ids: Sequence[str]) -> list[Tool]:
        return [tool_of(self._answer.tools[tool_id]) for tool_id in ids]


class _Parsed(Mapping[str, Agent]):
    """Agents by id, in order of id, over their records."""

    def __init__(self, records: Mapping[str, str]) -> None:
        self._records = records

    def __getitem__(self, agent_id: str) -> Agent:
        return agent_of(self._records[agent_id])

    def __iter__(self) -> Iterator[str]:
        return iter(sorted(self._records))

    def __len__(self) -> int:
        return len(self._records)


def lucene(words: Iterable[str]) -> str:
    """Words as terms of a Lucene query: whatever has a meaning in its syntax is escaped."""
    return " ".join("".join("\\" + c if c in _SYNTAX else c for c in word) for word in words)


_SYNTAX = frozenset('+-&|!(){}[]^"~*?:\\/<>=')


def agent_of(record: str) -> Agent:
    return agent_of_record(json.loads(record))


def tool_of(record: str) -> Tool:
    return tool_of_record(json.loads(record))


def _first_named(names: str, asked: Sequence[str]) -> float:
    held = set(names.split(" "))
    return next((at for at, name in enumerate(asked) if name in held), len(asked))


def _told(leg: Leg, score: float) -> float:
    """As every index tells it: a cosine, BM25 with its constant factor, 1 for a name."""
    if leg in VECTOR_LEGS:
        return 2 * score - 1
    return _BM25_SATURATION * score if leg in TEXT_LEGS else 1.0


def _rarity(having: int, total: int) -> float:
    """BM25's idf."""
    return math.log(1 + (total - having + 0.5) / (having + 0.5))
