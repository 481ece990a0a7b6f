"""All kinds of values that a registry keeps beside agents and tools, and the reader of a whole graph."""

from typing import Any

from waygraph.registry.graph.contents import Contents
from waygraph.registry.graph.engine import GraphSession
from waygraph.registry.operators.toolset import TOOLSETS
from waygraph.registry.taxonomy.taxonomies import TAXONOMIES
from waygraph.registry.writer import RegistryNoun

NOUNS: tuple[RegistryNoun[Any], ...] = (TAXONOMIES, TOOLSETS)
"""In the order in which a transaction keeps them, a copy writes them and an export lists them."""


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
