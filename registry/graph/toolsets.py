"""Toolsets in the graph: a node of what operators say, and an edge to each tool that it includes now."""

from collections.abc import Collection, Mapping
from dataclasses import replace
from typing import Any

from waygraph.cypher import load
from waygraph.registry.graph.engine import GraphSession, batches
from waygraph.registry.model.toolset import RULE, Toolset

_LISTS = frozenset(RULE) - {"description"}


def read_toolsets(session: GraphSession) -> list[Toolset]:
    """In order of their names, each with the ids of its tools in order."""
    stated = [_toolset(row) for row in session.run(load("read/toolsets"))]
    if not stated:
        return []
    included: dict[str, list[str]] = {}
    for row in session.run(load("read/inclusions")):
        included.setdefault(row["toolset"], []).append(row["tool"])
    return [replace(each, includes=tuple(included.get(each.name, ()))) for each in stated]


def _toolset(row: Mapping[str, Any]) -> Toolset:
    return Toolset(**{**row, **{each: tuple(row[each]) for each in _LISTS}})


def put_toolset(session: GraphSession, new: Toolset, held: Collection[str] = ()) -> None:
    """`new` in place of the one of its name. `held`: ids of the tools that it included so far."""
    props = {each: list(value) if each in _LISTS else value for each in RULE for value in (getattr(new, each),)}
    session.run(load("toolset/put_toolset"), id=new.name, props=props)
    put_edges(session, {new.name: (set(held), set(new.includes))})


def put_edges(session: GraphSession, edges: Mapping[str, tuple[set[str], set[str]]]) -> None:
    """By name of a toolset: what it included, and what it includes. Only what differs is written."""
    left = [{"toolset": name, "tool": tool} for name, (was, now) in edges.items() for tool in sorted(was - now)]
    come = [{"toolset": name, "tool": tool} for name, (was, now) in edges.items() for tool in sorted(now - was)]
    for statement, rows in (("toolset/exclude", left), ("toolset/include", come)):
        for batch in batches(rows):
            session.run(load(statement), rows=list(batch))
