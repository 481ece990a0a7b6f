"""Keeps what Neo4j's own indexes search true to the graph, inside the transaction that changes it.

An agent and each of its tools carry, under names that begin with "index_", the words and names they are found by,
their record as it is shown, and what decides who may see them: the operator's word included. `Term` nodes count in
how many texts a word stands, for BM25 does not tell.
"""

import hashlib
import json
from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

from waygraph.cypher import load
from waygraph.registry.graph.engine import GraphEngine, GraphSession
from waygraph.registry.graph.read import read_entries, read_settings
from waygraph.registry.graph.schema import unique_id
from waygraph.registry.graph.write import run_batches
from waygraph.registry.index.search_index import agent_document, agent_names, record_of, tool_document, tool_names
from waygraph.registry.model.nouns import Agent, Tool, reachable
from waygraph.registry.model.transitions import is_tool

_NEO4J_CHECK_INDEXED_AGENTS = load("neo4j/check/indexed_agents")
_NEO4J_CHECK_INDEXED_TOOLS = load("neo4j/check/indexed_tools")
_NEO4J_CHECK_TERMS = load("neo4j/check/terms")
_NEO4J_SCHEMA_DROP_INDEX = load("neo4j/schema/drop_index")
_NEO4J_SCHEMA_VECTOR_INDEXES = load("neo4j/schema/vector_indexes")
_NEO4J_UPKEEP_COUNT_TERMS = load("neo4j/upkeep/count_terms")
_NEO4J_UPKEEP_ENTRIES = load("neo4j/upkeep/entries")
_NEO4J_UPKEEP_PUT_AGENTS = load("neo4j/upkeep/put_agents")
_NEO4J_UPKEEP_PUT_TOOLS = load("neo4j/upkeep/put_tools")

OWN_LABELS = ("Term", "Commit")
SCHEMA = (
    *map(unique_id, OWN_LABELS),
    load("neo4j/schema/agent_text"),
    load("neo4j/schema/capability_text"),
    load("neo4j/schema/name"),
)
VECTORS = {"agent": load("neo4j/schema/agent_vectors"), "capability": load("neo4j/schema/capability_vectors")}
VECTORS_BY_OWNER = {
    "agent": load("neo4j/schema/agent_vectors_by_owner"),
    "capability": load("neo4j/schema/capability_vectors_by_owner"),
}
LONGEST_NAME_CHARS = 200
"""Lucene cuts a word in two after 255 characters; a longer name is found by its hash."""
ALL_TEXTS = "*"
"""The Term that counts texts, whatever words they hold; no word is written so."""

Row = Mapping[str, Any]
"""What is indexed of an agent or a tool, as the statements take and give it: id, labels and `props`."""
Counts = tuple[Counter[str], Counter[str]]
"""Word → number of texts that hold it, of agents and of capabilities."""


def make_text_indexes(engine: GraphEngine) -> None:
    """Idempotent."""
    for statement in SCHEMA:
        engine.define(statement)


def make_vector_indexes(engine: GraphEngine, dimension: int, *, by_owner: bool) -> None:
    """Exact ones, not quantized. `by_owner`: the server can search within a list of owners. Idempotent."""
    exact = {"vector.quantization.type": "none"} if by_owner else {"vector.quantization.enabled": False}
    options = {"indexConfig": {"vector.dimensions": dimension, "vector.similarity_function": "cosine", **exact}}
    for label, statement in (VECTORS_BY_OWNER if by_owner else VECTORS).items():
        engine.define(statement, name=vector_index(label, dimension), options=options)


def drop_other_vector_indexes(engine: GraphEngine, dimension: int) -> None:
    """Those of an embedder that was replaced."""
    ours = {vector_index(label, dimension) for label in VECTORS}
    for row in engine.run(_NEO4J_SCHEMA_VECTOR_INDEXES):
        if row["name"] not in ours:
            engine.run(_NEO4J_SCHEMA_DROP_INDEX, name=row["name"])


def vector_index(label: str, dimension: int) -> str:
    """With the dimension, so that nobody asks the index of an embedder that was replaced.

    Of one label and property a server keeps one vector index: a new embedder's is made when the old one was dropped.
    """
    return f"{label}_vector_{dimension}"


@contextmanager
def keep_index(session: GraphSession, agent_ids: Collection[str]) -> Iterator[None]:
    """Notes what is indexed of these agents and their tools, and after the block indexes what there is then."""
    ids = sorted(agent_ids)
    before = {row["id"]: row for row in run_batches(session, _NEO4J_UPKEEP_ENTRIES, "agent_ids", ids)}
    yield
    after = Documents.read(session, ids)
    run_batches(session, _NEO4J_UPKEEP_PUT_AGENTS, "rows", after.agent_rows)
    # Of a text that is written again Lucene counts the former one too, until it merges its files.
    changed_tools = [row for row in after.tool_rows if not _is_indexed(row, before.get(row["id"]))]
    run_batches(session, _NEO4J_UPKEEP_PUT_TOOLS, "rows", changed_tools)
    run_batches(session, _NEO4J_UPKEEP_COUNT_TERMS, "rows", differences(counts(before.values()), counts(after.rows)))


def _is_indexed(row: Row, former: Row | None) -> bool:
    return former is not None and former["props"].items() <= row["props"].items()


def index_name(form: str) -> str:
    """A folded name as it is indexed and asked for: without white space, and not too long for Lucene."""
    if len(form) <= LONGEST_NAME_CHARS:
        return form
    return "#" + hashlib.sha256(form.encode("utf-8", "surrogatepass")).hexdigest()


@dataclass(frozen=True, slots=True)
class Documents:
    """What is to be indexed of agents as they hold now, and of their tools, as rows of the statements."""

    agent_rows: list[Row]
    tool_rows: list[Row]

    @classmethod
    def read(cls, session: GraphSession, agent_ids: Collection[str] | None) -> "Documents":
        """None: all agents."""
        rows = cls([], [])
        for owner, items in read_entries(session, agent_ids, read_settings(session, agent_ids)):
            tools = [item.tool for item in items]
            rows.agent_rows.append(_agent_row(owner.agent, tools))
            rows.tool_rows.extend(_tool_row(owner.agent, tool) for tool in tools)
        return rows

    @property
    def rows(self) -> list[Row]:
        return [*self.agent_rows, *self.tool_rows]


def _agent_row(agent: Agent, tools: Collection[Tool]) -> dict[str, Any]:
    return {
        "id": agent.id,
        "capability": not tools,
        "apart": agent.hidden or agent.pending or agent.pinned,
        "unreachable": not reachable(agent.status),
        "props": {
            "index_owner": agent.id,
            "index_record": _record(agent),
            "index_terms": " ".join(agent_document(agent, tools)),
            "index_names": _names(agent_names(agent)),
            "index_tags": list(agent.tags),
            "index_groups": list(agent.visible_to),
            "index_hidden": agent.hidden or agent.pending,
            "index_pinned": agent.pinned,
        },
    }


def _tool_row(owner: Agent, tool: Tool) -> dict[str, Any]:
    return {
        "id": tool.id,
        "capability": True,
        "pending": tool.pending,
        "props": {
            # An index of vectors that is searched for some owners alone then leaves out what waits.
            "index_owner": "" if tool.pending else owner.id,
            "index_record": _record(tool),
            "index_terms": " ".join(tool_document(owner, tool)),
            "index_names": _names(tool_names(owner, tool)),
        },
    }


def _record(entity: Agent | Tool) -> str:
    return json.dumps(record_of(entity), ensure_ascii=False, separators=(",", ":"))


def _names(forms: Iterable[str]) -> str:
    return " ".join(sorted(map(index_name, forms)))


def counts(rows: Iterable[Row]) -> Counts:
    """Of these texts; those that are not indexed yet are left out."""
    agents: Counter[str] = Counter()
    capabilities: Counter[str] = Counter()
    for row in rows:
        terms = row["props"]["index_terms"]
        words = () if terms is None else {ALL_TEXTS, *terms.split()}
        agents.update(() if is_tool(row["id"]) else words)
        capabilities.update(words if row["capability"] else ())
    return agents, capabilities


def differences(before: Counts, after: Counts) -> list[dict[str, Any]]:
    words = sorted({*before[0], *before[1], *after[0], *after[1]})
    rows = [{"id": w, "agents": after[0][w] - before[0][w], "capabilities": after[1][w] - before[1][w]} for w in words]
    return [row for row in rows if row["agents"] or row["capabilities"]]


_LABELS = ("capability", "apart", "unreachable", "pending")


@dataclass(frozen=True, slots=True)
class Comparison:
    """Rows of agents and tools as they should be, by id, beside those that are; and in how many texts words stand."""

    agents: Mapping[str, tuple[Row, Row]]
    tools: Mapping[str, tuple[Row, Row]]
    terms: tuple[Counts, Counts]

    @classmethod
    def read(cls, session: GraphSession) -> "Comparison":
        target = Documents.read(session, None)
        agents = session.run(_NEO4J_CHECK_INDEXED_AGENTS)
        tools = session.run(_NEO4J_CHECK_INDEXED_TOOLS)
        return cls(
            _beside(target.agent_rows, agents),
            _beside(target.tool_rows, tools),
            (counts(target.rows), _held_counts(session)),
        )

    def agent_faults(self) -> Iterator[str]:
        return _difference_lines(self.agents)

    def tool_faults(self) -> Iterator[str]:
        return _difference_lines(self.tools)

    def term_faults(self) -> Iterator[str]:
        target, actual = self.terms
        for row in differences(actual, target):
            word = row["id"]
            ours, theirs = ((side[0][word], side[1][word]) for side in (actual, target))
            yield f"{word!r} is counted in {ours[0]} agents and {ours[1]} capabilities, not {theirs[0]} and {theirs[1]}"


@contextmanager
def renew_index(session: GraphSession) -> Iterator[None]:
    """After the block writes anew what is not indexed as it should be. The counts become true, whatever they were."""
    yield
    comparison = Comparison.read(session)
    for statement, pairs in (
        (_NEO4J_UPKEEP_PUT_AGENTS, comparison.agents),
        (_NEO4J_UPKEEP_PUT_TOOLS, comparison.tools),
    ):
        run_batches(session, statement, "rows", [target for target, actual in pairs.values() if target != actual])
    target, actual = comparison.terms
    run_batches(session, _NEO4J_UPKEEP_COUNT_TERMS, "rows", differences(actual, target))


def _beside(target: Iterable[Row], actual: Iterable[Row]) -> dict[str, tuple[Row, Row]]:
    by_id = {row["id"]: row for row in actual}
    return {row["id"]: (row, by_id.get(row["id"], {})) for row in target}


def _difference_lines(pairs: Mapping[str, tuple[Row, Row]]) -> Iterator[str]:
    """`id (what differs, …)` of each that is not as it should be."""
    for entity, (target, actual) in pairs.items():
        props, others = target["props"], actual.get("props", {})
        differing = [name for name in props if props[name] != others.get(name)]
        differing += [name for name in _LABELS if target.get(name) != actual.get(name)]
        if differing:
            yield f"{entity} ({', '.join(differing)})"


def _held_counts(session: GraphSession) -> Counts:
    rows = session.run(_NEO4J_CHECK_TERMS)
    return Counter({row["id"]: row["agents"] for row in rows}), Counter(
        {row["id"]: row["capabilities"] for row in rows}
    )
