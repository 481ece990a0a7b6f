"""What a taxonomy is like: its structure, its names, how far it has drifted from its build, and in what two differ."""

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass
from statistics import median

import numpy as np
from numpy.typing import NDArray

from waygraph.registry.graph.engine import GraphSession
from waygraph.registry.taxonomy.name_choice import EmbedNames
from waygraph.registry.taxonomy.rows import read_directions, read_taxonomies
from waygraph.registry.taxonomy.tree import By, Drift, Taxonomy
from waygraph.registry.taxonomy.upkeep import Placeable, is_over_size, read_placeable, vectors_to_place

REBUILD_SHARE = 0.2
"""Of what a taxonomy holds, placed since it was built: from here on a rebuild pays."""
FAR = 0.8
"""What is not even so near to its leaf, as a share of the cosine to the nearest one, is far from it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Structure:
    """Numbers, as the paper's Table 4 has them. `entities`: agents or tools. `unassigned`: at the root, beside its
    children. `generic`: at other inner nodes. `several_parents`: in more than one category. Sizes are of leaves.
    `found_by_name`: see `share_found_by_name`; None where that was not counted.
    """

    categories: int
    leaves: int
    depth: int
    entities: int
    smallest: int
    median: float
    largest: int
    over_size: int
    unassigned: int
    generic: int
    several_parents: int
    found_by_name: float | None = None

    @classmethod
    def of(cls, taxonomy: Taxonomy) -> "Structure":
        root, every = taxonomy.root, taxonomy.categories.values()
        leaves = [each for each in every if not each.children]
        sizes = [len(each.holds) for each in leaves]
        parents = Counter(entity for each in every for entity in each.holds)
        return cls(
            categories=len(every),
            leaves=len(leaves),
            depth=max(each.depth for each in every),
            entities=len(parents),
            smallest=min(sizes),
            median=float(median(sizes)),
            largest=max(sizes),
            over_size=sum(is_over_size(each.holds, taxonomy.settings) for each in leaves),
            unassigned=len(root.holds) if root.children else 0,
            generic=len({entity for each in every if each.children and each is not root for entity in each.holds}),
            several_parents=sum(1 for number in parents.values() if number > 1),
        )


def share_found_by_name(
    taxonomy: Taxonomy, vectors: Mapping[str, NDArray[np.float32]], embed: EmbedNames
) -> float | None:
    """Of the members of all siblings, those to whose vectors the name of their category is the nearest of these names.

    None where nothing has siblings. Vectors: float32 of shape (dimension,), by the embedder of `embed`.
    """
    hits: list[bool] = []
    for category in taxonomy.categories.values():
        children = [taxonomy.categories[child] for child in category.children]
        if len(children) < 2:
            continue
        names = embed([child.name.replace("-", " ") for child in children])
        for number, child in enumerate(children):
            rows = [vectors[entity] for entity in taxonomy.below(child) if entity in vectors]
            hits += [int((names @ row).argmax()) == number for row in rows]
    return round(sum(hits) / len(hits), 3) if hits else None


def read_drift(session: GraphSession) -> list[Drift]:
    """Of each taxonomy, by name."""
    return [_drift(session, each) for each in read_taxonomies(session)]


def _drift(session: GraphSession, taxonomy: Taxonomy) -> Drift:
    structure = Structure.of(taxonomy)
    holds = [(entity, by) for each in taxonomy.categories.values() for entity, by in each.holds.items()]
    nearest = len({entity for entity, by in holds if by is By.NEAREST})
    placeable = read_placeable(session, taxonomy.of)
    private = 0 if taxonomy.shown_to_all else len(taxonomy.private)
    reasons = [
        (private, f"callers who do not see all of {private} private agents see nothing of it"),
        (nearest > REBUILD_SHARE * structure.entities, f"{nearest} of {structure.entities} were placed since"),
        (structure.over_size, f"leaves over the size: {structure.over_size}"),
    ]
    return Drift(
        name=taxonomy.name,
        current=taxonomy.current,
        of=taxonomy.of.value,
        built_by=taxonomy.built_by,
        built_at=taxonomy.built_at,
        categories=structure.categories,
        entities=structure.entities,
        nearest=nearest,
        over_size=structure.over_size,
        unplaced=len(placeable.keys() - {entity for entity, _ in holds}),
        far=_count_far(session, taxonomy, placeable),
        private=private,
        rebuild="; ".join(text for holds, text in reasons if holds),
    )


def _count_far(session: GraphSession, taxonomy: Taxonomy, placeable: Mapping[str, Placeable]) -> int:
    """By the directions of the leaves as they were built."""
    directions = read_directions(session, taxonomy.name)
    leaves = [each for each in taxonomy.categories.values() if not each.children and each.id in directions]
    entities = {entity for leaf in leaves for entity in leaf.holds} & placeable.keys()
    vectors = vectors_to_place(session, taxonomy, {entity: placeable[entity] for entity in entities})
    if not leaves or not vectors:
        return 0
    matrix = np.stack([directions[leaf.id] for leaf in leaves])
    far = 0
    for row, leaf in enumerate(leaves):
        members = [vectors[entity] for entity, by in leaf.holds.items() if by is not By.CROSS and entity in vectors]
        if members and len(members[0]) == matrix.shape[1]:
            cosines = np.stack(members) @ matrix.T
            far += int((cosines[:, row] < FAR * cosines.max(axis=1)).sum())
    return far


@dataclass(frozen=True, slots=True, kw_only=True)
class Difference:
    """Paths of categories that only one of two has, and of those that both have under other paths (by their ids);
    `moved`: how many entities stand under other ids."""

    only_first: tuple[str, ...]
    only_second: tuple[str, ...]
    renamed: tuple[tuple[str, str], ...]
    kept: int
    moved: int
    gone: int
    new: int


def compare_taxonomies(first: Taxonomy, second: Taxonomy) -> Difference:
    paths, others = first.paths(), second.paths()
    common = [each for each in paths if each in others]
    places_after, places_before = _places(second), _places(first)
    return Difference(
        only_first=tuple(path for each, path in paths.items() if each not in others),
        only_second=tuple(path for each, path in others.items() if each not in paths),
        renamed=tuple((paths[each], others[each]) for each in common if paths[each] != others[each]),
        kept=len(common),
        moved=sum(
            1 for each in places_before.keys() & places_after.keys() if places_before[each] != places_after[each]
        ),
        gone=len(places_before.keys() - places_after.keys()),
        new=len(places_after.keys() - places_before.keys()),
    )


def _places(taxonomy: Taxonomy) -> dict[str, set[str]]:
    """Entity id → the ids of the categories that hold it."""
    places: dict[str, set[str]] = {}
    for category in taxonomy.categories.values():
        for entity in category.holds:
            places.setdefault(entity, set()).add(category.id)
    return places
