"""All kinds of values that a registry keeps beside agents and tools, and the reader of a whole graph."""

from typing import Any

from waygraph.registry.graph.contents import Contents
from waygraph.registry.graph.engine import GraphSession
from waygraph.registry.operators.toolset import TOOLSETS
from waygraph.registry.taxonomy.taxonomies import TAXONOMIES
from waygraph.registry.writer import RegistryNoun

NOUNS: tuple[RegistryNoun[Any], ...] = (TAXONOMIES, TOOLSETS)
"""In the order in which a transaction keeps them, a copy writes them and an export lists them."""


ALL_PARTS = ("state", "agents", "tools", "sources", "claims", "settings", "changes", "transitions", "vectors", "counts")


def read_whole(session: GraphSession, *parts: str) -> Contents:
    """These parts now, and all other nouns; of no part all, with every vector.

    Raises RegistryNotFound if the graph is not a registry.
    """
    contents = Contents(session).read(*(parts or ALL_PARTS))
    for noun in NOUNS:
        contents.values(noun)
        if not parts:
            contents.vectors_of(noun)
    return contents
