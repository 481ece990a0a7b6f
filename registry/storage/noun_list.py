"""All kinds of values that a registry keeps beside agents and tools, and the readers of a whole graph and index."""

from collections.abc import Mapping, Sequence
from dataclasses import asdict, fields, replace
from functools import cached_property
from typing import TYPE_CHECKING, Any

from waygraph.cypher import Statement
from waygraph.registry.graph.contents import Contents, GraphNoun, NounValue
from waygraph.registry.graph.engine import GraphSession, Rows
from waygraph.registry.graph.read import RegistryState, StoredAgent, StoredTool, Vectors
from waygraph.registry.model.changes import Claim, OperatorSettings, SourceSummary, entries_of
from waygraph.registry.model.nouns import Agent, Tool
from waygraph.registry.model.transitions import Transition
from waygraph.registry.operators.skill_links import LINKS
from waygraph.registry.operators.toolset import TOOLSETS
from waygraph.registry.taxonomy.taxonomies import TAXONOMIES
from waygraph.registry.writer import RegistryNoun

if TYPE_CHECKING:
    from waygraph.registry.index.local.local_index import LocalIndex

EXPORTED_NOUNS: tuple[RegistryNoun[Any], ...] = (TAXONOMIES, TOOLSETS)
"""In the order in which an export lists them."""
NOUNS: tuple[GraphNoun[Any], ...] = (*EXPORTED_NOUNS, LINKS)
"""In the order in which a transaction keeps them, and a copy writes them."""


def count_subjects(contents: Contents) -> int:
    """How many edges changes and settings have to what they are about: agents, tools, toolsets and sources.

    A source that was never read has none.
    """
    ids = {*contents.agents, *(item.tool.id for item in contents.tools)}
    ids |= {f"toolset:{each.name}" for each in contents.values(TOOLSETS)}
    ids |= {f"source:{source.name}" for source in contents.sources if source.seen_at}
    ends = [*contents.settings]
    for change in contents.changes:
        ends += [change.agent_id, f"source:{change.source}"]
        ends += [f"{change.agent_id}/{change.tool}"] if change.tool else []
    return sum(end in ids for end in ends)


ALL_PARTS = ("state", "agents", "tools", "sources", "claims", "settings", "changes", "transitions", "vectors", "counts")


def read_whole(session: GraphSession, *parts: str) -> Contents:
    """These parts now, and all other nouns; of no part all, with every vector.

    Raises RegistryNotFound if the graph is not a registry.
    """
    return read_parts(Contents(session), *parts)


def read_parts(contents: Contents, *parts: str) -> Contents:
    """The same of contents of which nothing was read."""
    contents.read(*(parts or ALL_PARTS))
    for noun in NOUNS:
        contents.values(noun)
        if not parts:
            contents.vectors_of(noun)
    return contents


def count_parts(contents: Contents) -> dict[str, int]:
    """How many nodes and edges the lists tell of, by the names of `check/counts`."""
    counts = {
        "agents": len(contents.agents),
        "tools": len({item.tool.id for item in contents.tools}),
        "owns": len(contents.tools),
        "sources": len(contents.sources),
        "claims": len({(claim.source, claim.agent_id) for claim in contents.claims}),
        "changes": len({change.id for change in contents.changes}),
        "transitions": len({each.key for each in contents.transitions}),
        "subjects": count_subjects(contents),
    }
    for noun in NOUNS:
        counts |= noun.counts(contents.values(noun))
    return counts


class _NoGraph:
    """Implements GraphSession over nothing."""

    def run(self, statement: Statement, /, **params: object) -> Rows:  # noqa: ARG002
        return []


class IndexContents(Contents):
    """What the index of a file holds of its graph: a copy that answers while the graph is written, or is lost.

    All but the log of changes and the directions of categories, which are empty.
    """

    def __init__(self, index: "LocalIndex") -> None:
        super().__init__(_NoGraph())
        self._index = index

    def values[T: NounValue](self, noun: GraphNoun[T]) -> Sequence[T]:
        return self._index.values(noun)

    @cached_property
    def state(self) -> RegistryState:
        state = asdict(self._index.state)
        return RegistryState(**{each.name: state[each.name] for each in fields(RegistryState)})

    @cached_property
    def _entities(self) -> dict[str, Agent | Tool]:
        """As sources state them, by id."""
        index, records = self._index, self._index.source_records()
        agents = index.agents()
        tool_ids = [each for ids in index.tool_ids_of(list(agents)).values() for each in ids]
        entities: list[Agent | Tool] = [
            *(replace(each, pinned=False, hidden=False) for each in agents.values()),
            *index.tools(sorted(tool_ids)),
        ]
        return {each.id: records.get(each.id, each) for each in entities}

    @cached_property
    def agents(self) -> dict[str, StoredAgent]:
        keys = self._index.vector_keys()
        agents = [each for each in self._entities.values() if isinstance(each, Agent)]
        return {
            entry.key: StoredAgent(agent=entry.agent, bundle_hash=entry.bundle_hash, vector_key=keys[entry.key])
            for entry in entries_of(agents, (item.tool for item in self.tools))
        }

    @cached_property
    def tools(self) -> list[StoredTool]:
        keys = self._index.vector_keys()
        tools = (each for each in self._entities.values() if isinstance(each, Tool))
        return [StoredTool(tool=each, vector_key=keys[each.id]) for each in tools]

    @cached_property
    def claims(self) -> list[Claim]:
        return self._index.claims()

    @cached_property
    def sources(self) -> list[SourceSummary]:
        return list(self._index.sources())

    @cached_property
    def settings(self) -> dict[str, OperatorSettings]:
        return dict(self._index.settings())

    @cached_property
    def transitions(self) -> list[Transition]:
        return self._index.transition_rows()

    @cached_property
    def counts(self) -> Mapping[str, int]:
        return count_parts(self)

    @cached_property
    def vectors(self) -> Vectors:
        return self._index.vectors()
