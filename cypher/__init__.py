"""Every Cypher statement of Waygraph, one per file, and the loader."""

from waygraph.cypher.loader import TYPES, BadStatement, Statement, load, names

__all__ = ["TYPES", "BadStatement", "Statement", "load", "names"]
