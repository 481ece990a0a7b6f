"""Taxonomies in a registry: read, kept true, checked and copied as a kind, and each put in place or forgotten.

And what one is like: its structure, its names, how far it has drifted from its build, and in what two differ.
"""

from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from statistics import median
from typing import Any

from waygraph.registry.graph.contents import Contents
from waygraph.registry.graph.engine import GraphSession
from waygraph.registry.graph.read import Vectors
from waygraph.registry.model.changes import Written
from waygraph.registry.model.errors import InvalidSetting, UnknownName
from waygraph.registry.taxonomy import upkeep
from waygraph.registry.taxonomy.rows import (
    directions_of,
    put_taxonomy,
    read_directions,
    read_taxonomies,
    remove_taxonomy,
)
from waygraph.registry.taxonomy.tree import By, Drift, Taxonomy, check_taxonomy
from waygraph.registry.writer import RegistryNoun, WriteSession

REBUILD_SHARE = 0.2
"""Of what a taxonomy holds, placed since it was built: from here on a rebuild pays."""


class Taxonomies(RegistryNoun[Taxonomy]):
    name, singular, kind = "taxonomies", "taxonomy", Taxonomy
    advice = "build the taxonomy anew: `waygraph taxonomy build --name NAME`"

    def read(self, session: GraphSession) -> list[Taxonomy]:
        return read_taxonomies(session)

    def put(self, session: GraphSession, value: Taxonomy, vectors: Vectors) -> None:
        """`vectors`: of all categories, float32 of shape (dimension,)."""
        put_taxonomy(session, value, None, directions_of(value.name, vectors))

    def of_export(self, document: Mapping[str, Any]) -> Taxonomy:
        taxonomy = Taxonomy.of_json(document)
        check_taxonomy(taxonomy)
        return taxonomy

    def texts(self, value: Taxonomy) -> Iterable[str]:
        return (text for at in value.categories.values() for text in (at.name, at.description, at.boundary))

    def restore(self, session: WriteSession, values: Sequence[Taxonomy]) -> Written:
        """Those whose names the registry has none of. The current one stays; without any, the values' own is."""
        revision = session.begin().revision
        present = {each.name: each for each in read_taxonomies(session.engine)}
        if not (missing := [each for each in values if each.name not in present]):
            return Written(revision=revision)
        has_current = any(each.current for each in present.values())
        current = "" if has_current else next((each for each in missing if each.current), missing[0]).name

        def work(graph_session: GraphSession) -> None:
            for each in missing:
                upkeep.settle(graph_session, replace(each, current=each.name == current), None)

        return session.write(work)

    @contextmanager
    def keep(self, session: GraphSession, agent_ids: Collection[str] | None) -> Iterator[None]:
        taxonomies = read_taxonomies(session) if agent_ids is None or agent_ids else []
        before = {of: upkeep.read_placeable(session, of, agent_ids) for of in {each.of for each in taxonomies}}
        yield
        for of, was in before.items():
            now = upkeep.read_placeable(session, of, agent_ids)
            for taxonomy in taxonomies:
                if taxonomy.of is of and agent_ids is None:
                    upkeep.settle(session, taxonomy, taxonomy)
                elif taxonomy.of is of and agent_ids is not None:
                    upkeep.keep_placed(session, taxonomy, was, now, agent_ids)

    def read_vectors(self, session: GraphSession) -> Vectors:
        """The direction of each category that has one: float32 of shape (dimension,)."""
        return read_directions(session)

    def counts(self, values: Sequence[Taxonomy]) -> dict[str, int]:
        categories = [category for each in values for category in each.categories.values()]
        holdings = sum(len(each.holds) for each in categories)
        return {"taxonomies": len(values), "categories": len(categories), "holdings": holdings}

    def rows(self, value: Taxonomy) -> int:
        return len(value.categories)

    def copy_fault(self, value: Taxonomy) -> str:
        try:
            check_taxonomy(value)
        except InvalidSetting as exc:
            return f"its taxonomy {value.name[:40]!r} is not as a build makes it ({exc}): build it anew, or forget it."
        return ""

    def faults(self, contents: Contents) -> Iterator[str]:
        """What is in no tree, siblings of one name, categories at another depth, and what may not stand in a tree."""
        taxonomies, counts = contents.values(self), contents.counts
        in_trees = self.counts(taxonomies)["categories"]
        if (len(taxonomies), in_trees) != (counts["taxonomies"], counts["categories"]):
            yield f"{in_trees} of {counts['categories']} categories are in a tree"
        if taxonomies and (current := sum(each.current for each in taxonomies)) != 1:
            yield f"there are {current} current ones"
        for taxonomy in taxonomies:
            placeable = upkeep.read_placeable(contents.session, taxonomy.of)
            for each in taxonomy.categories.values():
                children = taxonomy.children(each)
                names = Counter(child.name for child in children)
                yield from (f"{taxonomy.name}: {n} siblings are called {name!r}" for name, n in names.items() if n > 1)
                yield from (
                    f"{taxonomy.name}: {child.id} is at depth {child.depth}"
                    for child in children
                    if child.depth <= each.depth
                )
                yield from (f"{taxonomy.name} holds {entity}" for entity in each.holds if entity not in placeable)

    def sound(self, contents: Contents) -> str:  # noqa: ARG002
        return "each category is in its place"


TAXONOMIES = Taxonomies()


def set_taxonomy(session: WriteSession, new: Taxonomy, *, keep_current: bool) -> Taxonomy:
    """In place of the one of the same name, and current if that was. All that may stand in it is placed.

    One of a new name is the current one, unless `keep_current` and another is. Returns it as it is stored.
    """
    new = replace(new, revision=session.begin().revision + 1)

    def work(graph_session: GraphSession) -> None:
        taxonomies = {each.name: each for each in read_taxonomies(graph_session)}
        former = taxonomies.pop(new.name, None)
        is_current = former.current if former else not keep_current
        is_current = is_current or not any(each.current for each in taxonomies.values())
        if former and former.of is not new.of:
            remove_taxonomy(graph_session, former)
            former = None
        upkeep.settle(graph_session, replace(new, current=is_current), former)
        if is_current:
            _put_current(graph_session, taxonomies.values(), new.name)

    session.write(work)
    return next(each for each in read_taxonomies(session.engine) if each.name == new.name)


def use_taxonomy(session: WriteSession, name: str) -> Written:
    """Makes it the current one. Raises UnknownName."""
    revision = session.begin().revision
    taxonomies = _read_by_name(session, name)
    if taxonomies[name].current:
        return Written(revision=revision)
    return session.write(lambda graph_session: _put_current(graph_session, taxonomies.values(), name))


def forget_taxonomy(session: WriteSession, name: str) -> Written:
    """If it was the current one, the first of those that are left is. Raises UnknownName."""
    session.begin()
    others = _read_by_name(session, name)
    taxonomy = others.pop(name)

    def work(graph_session: GraphSession) -> None:
        remove_taxonomy(graph_session, taxonomy)
        if taxonomy.current and others:
            _put_current(graph_session, others.values(), next(iter(others)))

    return session.write(work)


def _read_by_name(session: WriteSession, name: str) -> dict[str, Taxonomy]:
    """All of them. Raises UnknownName if none has this name."""
    taxonomies = {each.name: each for each in read_taxonomies(session.engine)}
    if name not in taxonomies:
        raise UnknownName("taxonomy", name, taxonomies)
    return taxonomies


def _put_current(session: GraphSession, taxonomies: Iterable[Taxonomy], name: str) -> None:
    """Of these the one of this name is current, and no other."""
    for each in taxonomies:
        if each.current != (each.name == name):
            put_taxonomy(session, replace(each, current=not each.current), each)


@dataclass(frozen=True, slots=True, kw_only=True)
class Structure:
    """Numbers, as the paper's Table 4 has them. `entities`: agents or tools. `unassigned`: at the root, beside its
    children. `generic`: at other inner nodes. `several_parents`: in more than one category. Sizes are of leaves.
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
            over_size=sum(upkeep.is_over_size(each.holds, taxonomy.settings) for each in leaves),
            unassigned=len(root.holds) if root.children else 0,
            generic=len({entity for each in every if each.children and each is not root for entity in each.holds}),
            several_parents=sum(1 for number in parents.values() if number > 1),
        )


def read_drift(session: GraphSession) -> list[Drift]:
    """Of each taxonomy, by name."""
    return [_drift(session, each) for each in read_taxonomies(session)]


def _drift(session: GraphSession, taxonomy: Taxonomy) -> Drift:
    structure = Structure.of(taxonomy)
    holds = [(entity, by) for each in taxonomy.categories.values() for entity, by in each.holds.items()]
    nearest = len({entity for entity, by in holds if by is By.NEAREST})
    placeable = upkeep.read_placeable(session, taxonomy.of)
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
        private=private,
        rebuild="; ".join(text for holds, text in reasons if holds),
    )
