"""Every Cypher statement of Waygraph, one per file, and the loader."""

from waygraph.cypher.loader import BadStatement, Statement, load, load_for, names

__all__ = ["BadStatement", "Statement", "load", "load_for", "names"]
