"""Toolsets in the graph: a node of what operators say, and an edge to each tool that it includes now."""

from collections.abc import Collection, Mapping
from itertools import batched

from waygraph.cypher import load
from waygraph.registry.graph.engine import BATCH_ROWS, GraphSession
from waygraph.registry.model.toolset import Toolset

_READ_INCLUSIONS = load("read/inclusions")
_READ_TOOLSETS = load("read/toolsets")
_TOOLSET_EXCLUDE = load("toolset/exclude")
_TOOLSET_INCLUDE = load("toolset/include")
_TOOLSET_PUT_TOOLSET = load("toolset/put_toolset")


def read_toolsets(session: GraphSession) -> list[Toolset]:
    """In order of their names, each with the ids of its tools in order."""
    rows = session.run(_READ_TOOLSETS)
    if not rows:
        return []
    tools: dict[str, list[str]] = {}
    for row in session.run(_READ_INCLUSIONS):
        tools.setdefault(row["toolset"], []).append(row["tool"])
    return [Toolset.of_json({**row, "includes": tools.get(row["name"], [])}) for row in rows]


def put_toolset(session: GraphSession, new: Toolset, tools_before: Collection[str] = ()) -> None:
    """`new` in place of the one of its name. `tools_before`: ids of the tools that it included so far."""
    session.run(_TOOLSET_PUT_TOOLSET, id=new.name, props=new.rule)
    put_edges(session, {new.name: (set(tools_before), set(new.includes))})


def put_edges(session: GraphSession, edges: Mapping[str, tuple[set[str], set[str]]]) -> None:
    """By name of a toolset: what it included, and what it includes. Only what differs is written."""
    old_edges = [{"toolset": name, "tool": tool} for name, (was, now) in edges.items() for tool in sorted(was - now)]
    come = [{"toolset": name, "tool": tool} for name, (was, now) in edges.items() for tool in sorted(now - was)]
    for statement, rows in ((_TOOLSET_EXCLUDE, old_edges), (_TOOLSET_INCLUDE, come)):
        for batch in batched(rows, BATCH_ROWS):
            session.run(statement, rows=list(batch))
