"""Taxonomies in the graph: a node of the whole, its categories, and the edges to what they hold.

A category's id in the graph is `TAXONOMY:ID`, so that two taxonomies may use one id.
"""

import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict
from typing import TYPE_CHECKING, Any

from waygraph.cypher import load
from waygraph.registry.graph.engine import GraphSession
from waygraph.registry.graph.read import Vectors
from waygraph.registry.graph.write import run_batches
from waygraph.registry.model.nouns import Of
from waygraph.registry.taxonomy.tree import Category, Taxonomy

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

_READ_CATEGORIES = load("read/categories")
_READ_CATEGORY_CHILDREN = load("read/category_children")
_READ_CATEGORY_VECTORS = load("read/category_vectors")
_READ_HOLDINGS = load("read/holdings")
_READ_TAXONOMIES = load("read/taxonomies")
_TAXONOMY_HOLD_AGENTS = load("taxonomy/hold_agents")
_TAXONOMY_HOLD_TOOLS = load("taxonomy/hold_tools")
_TAXONOMY_PUT_CATEGORIES = load("taxonomy/put_categories")
_TAXONOMY_PUT_CHILDREN = load("taxonomy/put_children")
_TAXONOMY_PUT_ROOT = load("taxonomy/put_root")
_PUT_TAXONOMY = load("node/put", "Taxonomy")
_TAXONOMY_RELEASE = load("taxonomy/release")
_TAXONOMY_REMOVE_CATEGORIES = load("taxonomy/remove_categories")
_TAXONOMY_REMOVE_CHILDREN = load("taxonomy/remove_children")
_REMOVE_TAXONOMY = load("node/remove", "Taxonomy")

type Directions = Mapping[str, NDArray[np.float32]]
"""Category id → the direction of what it holds: float32 of shape (dimension,), of length 1."""

_OF_TREE = frozenset({"id", "children", "holds", "examples"})
_OF_WHOLE = frozenset({"name", "categories", "settings", "private"})


def read_taxonomies(session: GraphSession) -> list[Taxonomy]:
    """In order of their names. What no root leads to is left out, and so is an edge that leads back."""
    if not (wholes := session.run(_READ_TAXONOMIES)):
        return []
    rows = {row["id"]: row for row in session.run(_READ_CATEGORIES)}
    children: dict[str, list[str]] = {}
    for row in session.run(_READ_CATEGORY_CHILDREN):
        children.setdefault(row["parent"], []).append(row["child"])
    holds: dict[str, dict[str, str]] = {}
    for row in session.run(_READ_HOLDINGS):
        holds.setdefault(row["category"], {})[row["entity"]] = row["by"]
    return [_taxonomy(dict(whole), rows, children, holds) for whole in wholes]


def _taxonomy(
    whole: dict[str, Any],
    rows: Mapping[str, Mapping[str, Any]],
    children: Mapping[str, Sequence[str]],
    holds: Mapping[str, Mapping[str, str]],
) -> Taxonomy:
    root, prefix = whole.pop("root"), f"{whole['name']}:"
    below: dict[str, list[str]] = {}
    for parent, child in _edges(root, children):
        below.setdefault(parent, []).append(child.removeprefix(prefix))
        below.setdefault(child, [])
    order = list(_parents_first(root, below, prefix))
    ids = {at.removeprefix(prefix) for at in order}
    categories = [
        {
            **rows[at],
            "id": at.removeprefix(prefix),
            "children": [child for child in below.get(at, ()) if child in ids],
            "holds": holds.get(at, {}),
        }
        for at in order
    ]
    return Taxonomy.of_json({**whole, "settings": json.loads(whole["settings"]), "categories": categories})


def _edges(root: str, children: Mapping[str, Sequence[str]]) -> Iterator[tuple[str, str]]:
    """Depth first, without those that lead back to a category on the way."""
    pending: list[tuple[str, frozenset[str]]] = [(root, frozenset({root}))]
    visits = {root}
    while pending:
        parent, way = pending.pop()
        for child in children.get(parent, ()):
            if child in way:
                continue
            yield parent, child
            if child not in visits:
                visits.add(child)
                pending.append((child, way | {child}))


def _parents_first(root: str, below: Mapping[str, Sequence[str]], prefix: str) -> Iterator[str]:
    """Each once, behind all of its parents; siblings in their order."""
    waiting: dict[str, int] = {}
    for children in below.values():
        for child in children:
            waiting[child] = waiting.get(child, 0) + 1
    ready = [root]
    while ready:
        at = ready.pop()
        yield at
        for child in reversed(below.get(at, ())):
            waiting[child] -= 1
            if not waiting[child]:
                ready.append(prefix + child)


def read_directions(session: GraphSession, taxonomy: str | None = None) -> Vectors:
    """Of the categories that have one, by node id; of a taxonomy by their ids in it: float32 of shape (dimension,)."""
    import numpy as np

    vectors = {row["id"]: np.asarray(row["embedding"], dtype=np.float32) for row in session.run(_READ_CATEGORY_VECTORS)}
    return vectors if taxonomy is None else directions_of(taxonomy, vectors)


def directions_of(taxonomy: str, vectors: Vectors) -> Vectors:
    """Of the categories of this one, by their ids in it: float32 of shape (dimension,). `vectors`: by node id."""
    prefix = f"{taxonomy}:"
    return {node.removeprefix(prefix): vector for node, vector in vectors.items() if node.startswith(prefix)}


def put_taxonomy(
    session: GraphSession, new: Taxonomy, former: Taxonomy | None, directions: Directions | None = None
) -> None:
    """Brings what is held of it to what is new; edges to what is not there are not made.

    `directions`: those that change, float32 of shape (dimension,); others stay.
    """
    before = former.categories if former else {}
    old_ids = [f"{new.name}:{each}" for each in before if each not in new.categories]
    run_batches(session, _TAXONOMY_REMOVE_CATEGORIES, "ids", old_ids)
    session.run(_PUT_TAXONOMY, id=new.name, props=_whole_props(new))
    categories = [each for each in new.categories.values() if each != before.get(each.id)]
    rows = [{"id": f"{new.name}:{each.id}", "props": _category_props(each, directions or {})} for each in categories]
    new_ids = {each.id for each in categories}
    rows += [
        {"id": f"{new.name}:{category}", "props": {"embedding": direction.tolist()}}
        for category, direction in (directions or {}).items()
        if category not in new_ids and category in new.categories
    ]
    run_batches(session, _TAXONOMY_PUT_CATEGORIES, "rows", rows)
    session.run(_TAXONOMY_PUT_ROOT, id=new.name, root=f"{new.name}:{new.root.id}")
    children = {each.id: each.children for each in before.values()}
    _put_children(session, new.name, [each for each in categories if children.get(each.id, ()) != each.children])
    _put_holdings(session, new, categories, before)


def remove_taxonomy(session: GraphSession, taxonomy: Taxonomy) -> None:
    ids = [f"{taxonomy.name}:{each}" for each in taxonomy.categories]
    run_batches(session, _TAXONOMY_REMOVE_CATEGORIES, "ids", ids)
    session.run(_REMOVE_TAXONOMY, id=taxonomy.name)


def _whole_props(taxonomy: Taxonomy) -> dict[str, object]:
    return {
        **{name: getattr(taxonomy, name) for name in Taxonomy.__dataclass_fields__ if name not in _OF_WHOLE},
        "of": taxonomy.of.value,
        "settings": json.dumps(asdict(taxonomy.settings), sort_keys=True),
        "private": list(taxonomy.private),
    }


def _category_props(category: Category, directions: Directions) -> dict[str, object]:
    props: dict[str, object] = {
        name: getattr(category, name) for name in Category.__dataclass_fields__ if name not in _OF_TREE
    }
    if category.id in directions:
        props["embedding"] = directions[category.id].tolist()
    return {**props, "examples": list(category.examples)}


def _put_children(session: GraphSession, name: str, parents: Sequence[Category]) -> None:
    run_batches(session, _TAXONOMY_REMOVE_CHILDREN, "ids", (f"{name}:{each.id}" for each in parents))
    rows = (
        {"parent": f"{name}:{each.id}", "child": f"{name}:{child}", "position": position}
        for each in parents
        for position, child in enumerate(each.children)
    )
    run_batches(session, _TAXONOMY_PUT_CHILDREN, "rows", rows)


def _put_holdings(
    session: GraphSession, new: Taxonomy, categories: Iterable[Category], before: Mapping[str, Category]
) -> None:
    """Only the edges that differ."""
    old_edges: list[dict[str, object]] = []
    new_edges: list[dict[str, object]] = []
    for each in categories:
        former = before[each.id].holds if each.id in before else {}
        node = f"{new.name}:{each.id}"
        old_edges += [{"category": node, "entity": entity} for entity in former if entity not in each.holds]
        new_edges += [
            {"category": node, "entity": entity, "by": by.value}
            for entity, by in each.holds.items()
            if former.get(entity) != by
        ]
    run_batches(session, _TAXONOMY_RELEASE, "rows", old_edges)
    hold = _TAXONOMY_HOLD_AGENTS if new.of is Of.AGENTS else _TAXONOMY_HOLD_TOOLS
    run_batches(session, hold, "rows", new_edges)
