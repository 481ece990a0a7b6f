"""All that is indexed on Neo4j beside all that should be: for the doctor to compare, for `reindex` to mend."""

from collections import Counter
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

from waygraph.cypher import load
from waygraph.registry.graph.batches import batches
from waygraph.registry.graph.engine import GraphSession
from waygraph.registry.index.neo4j_upkeep import Counts, Documents, counts, differences

Row = Mapping[str, Any]
_LABELS = ("capability", "apart", "unreachable", "pending")


@dataclass(frozen=True, slots=True)
class Comparison:
    """Rows of agents and tools as they should be, by id, beside those that are; and in how many texts words stand."""

    agents: Mapping[str, tuple[Row, Row]]
    tools: Mapping[str, tuple[Row, Row]]
    terms: tuple[Counts, Counts]

    @classmethod
    def read(cls, session: GraphSession) -> "Comparison":
        wanted = Documents.read(session, None)
        agents = session.run(load("neo4j/check/indexed_agents"))
        tools = session.run(load("neo4j/check/indexed_tools"))
        return cls(
            _beside(wanted.agent_rows, agents),
            _beside([{**row, "capability": True} for row in wanted.tool_rows], tools),
            (counts(wanted.entries()), _held_counts(session)),
        )

    def agent_faults(self) -> Iterator[str]:
        return _told(self.agents)

    def tool_faults(self) -> Iterator[str]:
        return _told(self.tools)

    def term_faults(self) -> Iterator[str]:
        wanted, held = self.terms
        for row in differences(held, wanted):
            word = row["id"]
            ours, theirs = ((side[0][word], side[1][word]) for side in (held, wanted))
            yield f"{word!r} is counted in {ours[0]} agents and {ours[1]} capabilities, not {theirs[0]} and {theirs[1]}"


@contextmanager
def renew_index(session: GraphSession) -> Iterator[None]:
    """After the block writes anew what is not indexed as it should be. The counts become true, whatever they were."""
    yield
    compared = Comparison.read(session)
    for statement, pairs in (("neo4j/upkeep/put_agents", compared.agents), ("neo4j/upkeep/put_tools", compared.tools)):
        for batch in batches([wanted for wanted, held in pairs.values() if wanted != held]):
            session.run(load(statement), rows=list(batch))
    wanted, held = compared.terms
    for batch in batches(differences(held, wanted)):
        session.run(load("neo4j/upkeep/count_terms"), rows=list(batch))


def _beside(wanted: list[dict[str, Any]], held: list[dict[str, Any]]) -> dict[str, tuple[Row, Row]]:
    found = {row["id"]: row for row in held}
    return {row["id"]: (row, found.get(row["id"], {})) for row in wanted}


def _told(pairs: Mapping[str, tuple[Row, Row]]) -> Iterator[str]:
    """`id (what differs, …)` of each that is not as it should be."""
    for entity, (wanted, held) in pairs.items():
        props, others = wanted["props"], held.get("props", {})
        differing = [name for name in props if props[name] != others.get(name)]
        differing += [name for name in _LABELS if wanted.get(name) != held.get(name)]
        if differing:
            yield f"{entity} ({', '.join(differing)})"


def _held_counts(session: GraphSession) -> Counts:
    rows = session.run(load("neo4j/check/terms"))
    return Counter({row["id"]: row["agents"] for row in rows}), Counter(
        {row["id"]: row["capabilities"] for row in rows}
    )
