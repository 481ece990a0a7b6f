"""The search index on Neo4j: its own vector and full-text indexes, all legs with owners and records in one round trip.

Neo4j reads what is committed, not one moment: a reader beside a commit may see half of it. So every answer carries
the revision and the mark of a running commit, both from its begin and from its end; one that is torn is asked again.
"""

import threading
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import cache
from itertools import batched
from typing import Any, NamedTuple, cast

from waygraph.cypher import Statement, load
from waygraph.registry.embedding.embedder import Vector
from waygraph.registry.graph.contents import GraphNoun, NounValue
from waygraph.registry.graph.engine import BATCH_ROWS, GraphEngine, GraphSession, Moment
from waygraph.registry.graph.neo4j import IN_INDEX_FILTERS, Neo4jEngine
from waygraph.registry.graph.read import (
    read_claims,
    read_settings,
    read_sources,
    read_tools,
    read_transitions,
    read_vectors,
)
from waygraph.registry.graph.schema import LABELS, MIGRATIONS
from waygraph.registry.index import call_graph
from waygraph.registry.index.neo4j_query import Answer, Ask, TermCounts, agent_of, merge_answers, tool_of
from waygraph.registry.index.neo4j_upkeep import (
    OWN_LABELS,
    VECTORS,
    make_text_indexes,
    make_vector_indexes,
    vector_index,
)
from waygraph.registry.index.search_index import TEXT_LEGS, VECTOR_LEGS, CallNames, Hits, Leg, QueryText, Scope
from waygraph.registry.model.changes import IndexState, OperatorSettings, SourceSummary
from waygraph.registry.model.errors import EngineError, IndexOutdated, RegistryNotFound, ServerUnavailable
from waygraph.registry.model.nouns import NOTICE, Agent, Tool
from waygraph.registry.model.tool_settings import ToolSetting, settings_of_tools
from waygraph.registry.model.transitions import is_tool, owner_of

_NEO4J_CHECK_INDEXES = load("neo4j/check/indexes")
_NEO4J_CHECK_UNIQUE_IDS = load("neo4j/check/unique_ids")
_NEO4J_SCHEMA_DROP_INDEX = load("neo4j/schema/drop_index")
_NEO4J_SEARCH_AGENTS = load("neo4j/search/agents")
_NEO4J_SEARCH_GIVING_TOOL = load("neo4j/search/giving_tool")
_NEO4J_SEARCH_LEGS = load("neo4j/search/legs")
_NEO4J_SEARCH_LEGS_WITHIN = load("neo4j/search/legs_within")
_NEO4J_SEARCH_NEAR_TOOLS = load("neo4j/search/near_tools")
_NEO4J_SEARCH_PENDING_TOOLS = load("neo4j/search/pending_tools")
_NEO4J_SEARCH_TOOLS_WITH_NOTICES = load("neo4j/search/tools_with_notices")
_NEO4J_SEARCH_SCAN = load("neo4j/search/scan")
_NEO4J_SEARCH_SEEN_WORDS = load("neo4j/search/seen_words")
_NEO4J_SEARCH_STATE = load("neo4j/search/state")
_NEO4J_SEARCH_TAKERS = load("neo4j/search/takers")
_NEO4J_SEARCH_TOOLS = load("neo4j/search/tools")
_NEO4J_SEARCH_TOOL_IDS = load("neo4j/search/tool_ids")


LEAST_REACH = 100
"""An approximate index that is asked for few looks at few, and misses better ones."""
SCOPED_REACH = 4
"""How many times the depth is read at once where a scope may leave out some."""
_ATTEMPTS = 5


class Neo4jIndex:
    """Implements SearchIndex. Holds no data of the registry but its agents and their claims, kept for a revision."""

    def __init__(self, engine: Neo4jEngine) -> None:
        self._engine = engine
        self._lock = threading.Lock()
        self._kept: dict[str, tuple[str | None, object]] = {}
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
        if not (rows := self._engine.run(_NEO4J_SEARCH_STATE)):
            raise RegistryNotFound(self._engine.place)
        row = rows[0]
        apart = row.pop("apart")
        return IndexState(**row), apart

    # -- search ------------------------------------------------------------------------------------

    @property
    def transitions(self) -> call_graph.NextTools | None:
        return self._recall("transitions", self._read_transitions)

    def values[T: NounValue](self, noun: GraphNoun[T]) -> Sequence[T]:
        return self._recall(noun.name, noun.read)

    def has_values(self, name: str) -> bool:  # noqa: ARG002 - the graph is asked when they are read
        """As the protocol says."""
        return True

    def _recall[T](self, what: str, read: Callable[[GraphSession], T]) -> T:
        """What was read once for the present revision."""
        commit, value = self._kept.get(what, (None, None))
        if commit == self.state.commit:
            return cast("T", value)
        before = Moment.read(self._engine)
        value = read(self._engine)
        # Amid a commit it may be half of it.
        if before is not None and before.whole and Moment.read(self._engine) == before:
            self._kept[what] = before.commit, value
        return value

    def search(self, legs: Iterable[Leg], vector: Vector | None, text: QueryText, depth: int, scope: Scope) -> Hits:
        """As the protocol says; `vector` is float32 of shape (dimension,)."""
        ask = Ask.of(tuple(legs), vector if self.state.embedder else None, text, depth, scope)
        for _ in range(_ATTEMPTS):
            ask = self._count_words(ask)
            reach = self._reach(ask)
            answer, missing_legs = self._first(ask, reach)
            self._apart = answer.apart
            parts = [answer, *self._filling(ask, answer, [*answer.short_legs(ask.depth, reach), *missing_legs])]
            commits = {part.commit for part in parts}
            if ask.term_counts is not None:
                commits.add(ask.term_counts.commit)
            if len(commits) == 1:
                # What is read beside an answer, such as all agents, is not older than it.
                if answer.revision > self.state.revision:
                    self.state = replace(self.state, revision=answer.revision, commit=answer.commit)
                return merge_answers(parts).hits(ask, self.state, self)
        raise ServerUnavailable(self._engine.place, "it changes faster than it can be read")

    def _count_words(self, ask: Ask) -> Ask:
        """The same; for a principal with the frequencies of its words among the texts that it may find."""
        if ask.scope.principal is None or not (ask.words and TEXT_LEGS.intersection(ask.legs)):
            return ask
        if (row := self._row(_NEO4J_SEARCH_SEEN_WORDS, ask.count_params())) is None:
            raise RegistryNotFound(self._engine.place)
        return replace(ask, term_counts=TermCounts(row["commit"] or "", row["frequencies"], row["seen"]))

    def _first(self, ask: Ask, reach: int) -> tuple[Answer, list[Leg]]:
        """What the indexes answer, and the legs that none did: of vectors, while their index is not as it should be.

        It is being made after a reindex, and lacks owners after an upgrade of the server.
        """
        try:
            return self._ask_indexes(ask, reach), []
        except EngineError:
            if not self._vector_faults(ask):  # or no longer: it may have been made since
                return self._ask_indexes(ask, reach), []
        missing_legs = [leg for leg in ask.legs if leg in VECTOR_LEGS]
        others = replace(ask, legs=tuple(leg for leg in ask.legs if leg not in VECTOR_LEGS))
        return self._whole(_NEO4J_SEARCH_LEGS, others.params(reach)), missing_legs

    def _vector_faults(self, ask: Ask) -> dict[str, str]:
        return faults(self._engine, vector_indexes(len(ask.vector), by_owner=self._filters_in_index))

    @property
    def _filters_in_index(self) -> bool:
        return self._engine.version >= IN_INDEX_FILTERS

    def _ask_indexes(self, ask: Ask, reach: int) -> Answer:
        """All legs, each at least to its depth if the index itself knows the scope or the scope leaves out few."""
        if not (ask.is_scoped and ask.vector and self._filters_in_index):
            return self._whole(_NEO4J_SEARCH_LEGS, ask.params(reach))
        params = ask.params(reach) | {"least": max(ask.depth, LEAST_REACH)}
        del params["agent_index"], params["capability_index"]
        # An index cannot be named by a parameter here.
        return self._whole(_NEO4J_SEARCH_LEGS_WITHIN, params, {"DIMENSION": str(len(ask.vector))})

    def _reach(self, ask: Ask) -> int:
        """How many hits of an index are read at once: the depth, and so many more as may not be shown."""
        depth = max(ask.depth, LEAST_REACH)
        return depth * SCOPED_REACH if ask.is_scoped else depth + min(self._apart, depth * SCOPED_REACH)

    def _filling(self, ask: Ask, answer: Answer, short: Sequence[Leg]) -> Iterator[Answer]:
        """Legs that came short, read to the end: vectors by an exact scan of what the scope allows."""
        if vectors := [leg for leg in short if leg in VECTOR_LEGS]:
            yield self._whole(_NEO4J_SEARCH_SCAN, ask.scan_params(vectors))
        if words := [leg for leg in short if leg in TEXT_LEGS]:
            texts = max(1, *answer.frequencies[0])
            yield self._whole(_NEO4J_SEARCH_LEGS, replace(ask, legs=tuple(words)).params(texts))

    def _whole(self, statement: Statement, params: dict[str, object], texts: Mapping[str, str] | None = None) -> Answer:
        """An answer of one revision; waits while a writer commits. `texts` goes into the statement's text."""
        for placeholder, text in (texts or {}).items():
            statement = replace(statement, neo4j_text=statement.neo4j_text.replace(placeholder, text))
        give_up = time.monotonic() + self._engine.read_timeout_s
        pause_s = 0.002
        while True:
            answer = Answer.of(self._row(statement, params), self._engine.place)
            _refuse_outdated(self.state, answer.embedder, answer.texts)
            if not answer.is_torn:
                return answer
            if time.monotonic() > give_up:
                raise ServerUnavailable(self._engine.place, "a writer has been committing all the while")
            time.sleep(pause_s)
            pause_s = min(pause_s * 2, 0.1)

    def _row(self, statement: Statement, params: dict[str, object]) -> dict[str, Any] | None:
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
        agents, _ = self._recall("agents", _read_agents)
        return agents

    def owners_called(self, call_name: str) -> Sequence[str]:
        _, names = self._recall("agents", _read_agents)
        return names.owners(call_name)

    def _read_transitions(self, session: GraphSession) -> call_graph.NextTools | None:
        transitions = call_graph.usable_transitions(read_transitions(session))
        if not (transitions or session.run(_NEO4J_SEARCH_GIVING_TOOL)):
            return None  # without a look at the agents: each route after a change asks
        agents, _ = _read_agents(session)
        near = self._near_tools(call_graph.counted_tools(transitions), agents)
        return call_graph.NextTools(call_graph.CallGraph(transitions, near, cache(self._fits_of)), agents)

    def _fits_of(self, tool_id: str) -> Mapping[str, float]:
        """The tools that require what this one gives, and how much of what they require."""
        gives = {
            name
            for row in self._engine.run(_NEO4J_SEARCH_TOOLS, ids=[tool_id])
            for name in call_graph.given_names(tool_of(row["record"]).output_schema)
        }
        rows = self._engine.run(_NEO4J_SEARCH_TAKERS, names=sorted(gives)) if gives else ()
        needs = {row["id"]: call_graph.required_names(row["input_schema"]) for row in rows}
        agents = self.agents()
        pairs = [
            (tool, len(names))
            for tool, names in needs.items()
            if tool != tool_id and owner_of(tool) in agents
            for _ in names & gives
        ]
        return call_graph.fits_of(pairs, agents)

    def _near_tools(self, tool_ids: Sequence[str], agents: Mapping[str, Agent]) -> call_graph.Alike:
        """By the index of vectors; none while that is not as it should be."""
        dimension = self.state.dimension
        if not dimension or faults(self._engine, vector_indexes(dimension, by_owner=self._filters_in_index)):
            return {}
        alike: dict[str, list[tuple[str, float]]] = {}
        ask = {"index": vector_index("capability", dimension), "wanted": call_graph.MOST_ALIKE * SCOPED_REACH}
        for batch in batched(tool_ids, BATCH_ROWS):
            for row in self._engine.run(_NEO4J_SEARCH_NEAR_TOOLS, ids=list(batch), **ask):
                if row["cosine"] >= call_graph.LEAST_COSINE and owner_of(row["near"]) in agents:
                    alike.setdefault(row["id"], []).append((row["near"], row["cosine"]))
        return {tool: call_graph.keep_best(near, agents) for tool, near in alike.items()}

    def pinned_agents(self) -> Sequence[Agent]:
        return [agent for agent in self.agents().values() if agent.pinned]

    def tools(self, ids: Sequence[str]) -> list[Tool]:
        tools: dict[str, Tool] = {}
        for batch in batched(ids, BATCH_ROWS):
            rows = self._engine.run(_NEO4J_SEARCH_TOOLS, ids=list(batch))
            tools.update((row["id"], tool_of(row["record"])) for row in rows)
        return [tools[tool_id] for tool_id in ids]

    def tool_ids(self, agent_id: str) -> Sequence[str]:
        return self.tool_ids_of([agent_id])[agent_id]

    def tool_ids_of(self, agent_ids: Sequence[str]) -> Mapping[str, Sequence[str]]:
        ids: dict[str, list[str]] = {agent_id: [] for agent_id in agent_ids}
        for batch in batched(agent_ids, BATCH_ROWS):
            for row in self._engine.run(_NEO4J_SEARCH_TOOL_IDS, agent_ids=list(batch)):
                ids[row["agent_id"]].append(row["id"])
        return ids

    def vectors_of(self, ids: Sequence[str]) -> Mapping[str, Vector]:
        agents, tools = ([each for each in ids if is_tool(each) == of_tools] for of_tools in (False, True))
        return read_vectors(self._engine, agents=agents, tools=tools)

    def pending_tools(self) -> Sequence[str]:
        return [row["id"] for row in self._engine.run(_NEO4J_SEARCH_PENDING_TOOLS)]

    def tools_with_notices(self) -> Sequence[str]:
        return [row["id"] for row in self._engine.run(_NEO4J_SEARCH_TOOLS_WITH_NOTICES, notice=NOTICE)]

    def sources(self) -> Sequence[SourceSummary]:
        return read_sources(self._engine, self._recall("claims", read_claims))

    def settings(self) -> Mapping[str, OperatorSettings]:
        return read_settings(self._engine)

    def stated_tool(self, tool_id: str) -> tuple[Tool, ToolSetting] | None:
        agent_id, _, name = tool_id.partition("/")
        setting = settings_of_tools(self.settings().get(agent_id)).get(name)
        stored_tools = (item.tool for item in read_tools(self._engine, [agent_id]) if item.tool.id == tool_id)
        tool = next(stored_tools, None) if setting else None
        return (tool, setting) if tool and setting else None

    def close(self) -> None:
        """The engine is its owner's."""


def _read_agents(session: GraphSession) -> tuple[Mapping[str, Agent], CallNames]:
    """By id, in order of it; and the names of calls that are theirs."""
    agents = {agent.id: agent for agent in (agent_of(row["record"]) for row in session.run(_NEO4J_SEARCH_AGENTS))}
    return agents, CallNames(agents)


def _refuse_outdated(state: IndexState, embedder: str, texts: str) -> None:
    if (state.embedder, state.texts) != (embedder, texts):
        raise IndexOutdated


UNIQUE = frozenset({*LABELS, *OWN_LABELS})
"""The labels whose ids are unique."""
BEING_MADE = "is still being made"


class Index(NamedTuple):
    """As `SHOW INDEXES` tells it; of `config` what matters here."""

    name: str
    kind: str
    labels: tuple[str, ...]
    properties: tuple[str, ...]
    config: Mapping[str, object]


def text_indexes() -> tuple[Index, ...]:
    config = {"fulltext.analyzer": "whitespace"}
    return (
        Index("agent_text", "FULLTEXT", ("Agent",), ("index_terms",), config),
        Index("capability_text", "FULLTEXT", ("Capability",), ("index_terms",), config),
        Index("name", "FULLTEXT", ("Agent", "Tool"), ("index_names",), config),
    )


def vector_indexes(dimension: int, *, by_owner: bool) -> tuple[Index, ...]:
    """None without vectors, dimension 0."""
    config = {"vector.dimensions": dimension, "vector.similarity_function": "COSINE", "quantized": False}
    properties = ("embedding", "index_owner") if by_owner else ("embedding",)
    return tuple(
        Index(vector_index(label, dimension), "VECTOR", (label.capitalize(),), properties, config)
        for label in (VECTORS if dimension else ())
    )


def faults(session: GraphSession, indexes: tuple[Index, ...]) -> dict[str, str]:
    """Name of an index → what is wrong with it; nothing of one that is as it should be."""
    rows = {row["name"]: row for row in session.run(_NEO4J_CHECK_INDEXES)}
    faults_by_name = {index.name: _fault(index, rows.get(index.name)) for index in indexes}
    return {name: fault for name, fault in faults_by_name.items() if fault}


def labels_not_unique(session: GraphSession) -> list[str]:
    return sorted(UNIQUE - {row["label"] for row in session.run(_NEO4J_CHECK_UNIQUE_IDS)})


def renew_schema(engine: GraphEngine, dimension: int, *, by_owner: bool) -> None:
    """Makes what is missing, and anew what is not as it should be. Idempotent."""
    faults_by_name = faults(engine, (*text_indexes(), *vector_indexes(dimension, by_owner=by_owner)))
    for name, fault in faults_by_name.items():
        if fault != BEING_MADE:
            engine.run(_NEO4J_SCHEMA_DROP_INDEX, name=name)
    if faults_by_name or labels_not_unique(engine):
        for migration in MIGRATIONS:
            for statement in migration.statements:
                engine.define(statement)
        make_text_indexes(engine)
        if dimension:
            make_vector_indexes(engine, dimension, by_owner=by_owner)


def _fault(index: Index, row: Mapping[str, Any] | None) -> str:
    if row is None:
        return "is missing"
    if row["state"] == "POPULATING":
        return BEING_MADE
    if row["state"] != "ONLINE":
        return f"is {row['state']}: {row['failure']}".partition("\n")[0]
    return ", ".join(_differences(index, row))


def _differences(index: Index, row: Mapping[str, Any]) -> Iterator[str]:
    for what, target, actual in (
        ("kind", index.kind, row["kind"]),
        ("labels", sorted(index.labels), sorted(row["labels"])),
        ("properties", list(index.properties), row["properties"]),
    ):
        if target != actual:
            yield f"has the {what} {actual}, not {target}"
    config = {**row["config"], "quantized": _is_quantized(row["config"])}
    for name, value in index.config.items():
        if config.get(name) != value:
            yield f"has {name} {config.get(name)}, not {value}"


def _is_quantized(config: Mapping[str, object]) -> bool:
    """Releases before 2026.06 know but one kind of it, and tell whether it is on."""
    if "vector.quantization.type" in config:
        return config["vector.quantization.type"] != "NONE"
    return bool(config.get("vector.quantization.enabled", True))
