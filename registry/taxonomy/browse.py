"""A taxonomy as somebody sees it: a category only if it holds what that caller may find, and counts of that alone."""

from collections.abc import Collection, Iterator
from dataclasses import replace
from itertools import chain

from waygraph.registry.access.visibility import Shows, routable, tools_within
from waygraph.registry.index.names import shows
from waygraph.registry.index.search_index import SearchIndex
from waygraph.registry.model.errors import UnknownName
from waygraph.registry.model.nouns import Filters, Principal
from waygraph.registry.model.transitions import owner_of
from waygraph.registry.taxonomy.taxonomies import TAXONOMIES
from waygraph.registry.taxonomy.tree import ROOT, SEPARATOR, Branch, Category, CategoryView, Of, Taxonomy

EXAMPLES = 2
BUILD_FIRST = "`waygraph taxonomy build` makes one."


def browse_index(index: SearchIndex, path: str, filters: Filters, principal: Principal | None) -> CategoryView:
    """Of the current taxonomy. Raises UnknownName, of noun `taxonomy` where none is there, or none for this caller."""
    taxonomy = _current_taxonomy(index, principal)
    view = browse(taxonomy, path, _findable(index, taxonomy.of, filters, principal))
    if not view.count:
        raise _no_taxonomy()
    return replace(view, revision=index.state.revision)


def current_members(index: SearchIndex, path: str, principal: Principal | None) -> frozenset[str]:
    """Ids of what somebody may find in a category of the current taxonomy. Raises UnknownName as `browse_index`."""
    taxonomy = _current_taxonomy(index, principal)
    return members_within(taxonomy, path, _findable(index, taxonomy.of, Filters(), principal))


def findable_taxonomy(
    index: SearchIndex, name: str | None, filters: Filters, principal: Principal | None
) -> Taxonomy | None:
    """The taxonomy of this name, None: the current one, with what a search by these filters may find."""
    taxonomy = permitted_taxonomy(index, name, principal)
    if taxonomy is None:
        return None
    visible_ids = _findable(index, taxonomy.of, filters, principal)
    return prune_taxonomy(taxonomy, lambda entity: entity in visible_ids)


def _no_taxonomy() -> UnknownName:
    return UnknownName("taxonomy", "current", (), hint=BUILD_FIRST)


def _current_taxonomy(index: SearchIndex, principal: Principal | None) -> Taxonomy:
    """The whole of it: what is asked of it counts only what the principal may find."""
    taxonomy = permitted_taxonomy(index, None, principal)
    if taxonomy is None:
        raise _no_taxonomy()
    return taxonomy


def _findable(index: SearchIndex, of: Of, filters: Filters, principal: Principal | None) -> Collection[str]:
    """Ids of all agents, or tools, that a search may find."""
    agents = [agent.id for agent in index.agents().values() if routable(agent, principal, filters)]
    if of is Of.AGENTS:
        return frozenset(agents)
    tools = frozenset(chain.from_iterable(index.tool_ids_of(agents).values())).difference(index.pending_tools())
    within = tools_within(filters)
    return tools if within is None else tools.intersection(within)


def browse(taxonomy: Taxonomy, path: str, visible_ids: Collection[str]) -> CategoryView:
    """The category of a path (`travel/flights`; empty: the root). Raises UnknownName, which says what there is."""
    below, category = _find(taxonomy, path, visible_ids)
    branches = [(child, _seen_below(taxonomy, child, visible_ids)) for child in _children(taxonomy, category)]
    return CategoryView(
        taxonomy=taxonomy.name,
        of=taxonomy.of,
        built_by=taxonomy.built_by,
        path=below,
        description=category.description,
        boundary=category.boundary,
        count=len(_seen_below(taxonomy, category, visible_ids)),
        children=tuple(
            Branch(
                path=_join(below, child.name),
                description=child.description,
                count=len(member_ids),
                examples=tuple(dict.fromkeys([*(each for each in child.examples if each in visible_ids), *member_ids]))[
                    :EXAMPLES
                ],
            )
            for child, member_ids in branches
            if member_ids
        ),
        members=tuple(each for each in category.holds if each in visible_ids),
        revision=taxonomy.revision,
    )


def members_within(taxonomy: Taxonomy, path: str, visible_ids: Collection[str]) -> frozenset[str]:
    """What somebody may find in a category and under it. Raises UnknownName as `browse`."""
    return frozenset(_seen_below(taxonomy, _find(taxonomy, path, visible_ids)[1], visible_ids))


def paths(taxonomy: Taxonomy, visible_ids: Collection[str]) -> Iterator[tuple[str, Category]]:
    """Each category that somebody sees with its path, parents before children; one of two parents twice."""
    pending = [(ROOT, taxonomy.root)]
    while pending:
        path, category = pending.pop()
        if _seen_below(taxonomy, category, visible_ids):
            yield path, category
            children = reversed(_children(taxonomy, category))
            pending += [(_join(path, child.name), child) for child in children]


def _find(taxonomy: Taxonomy, path: str, visible_ids: Collection[str]) -> tuple[str, Category]:
    """The path as the tree writes it, and its category."""
    at, category = ROOT, taxonomy.root
    for name in filter(None, (part.strip() for part in path.split(SEPARATOR))):
        children = [child for child in _children(taxonomy, category) if _seen_below(taxonomy, child, visible_ids)]
        matches = [child for child in children if child.name == name]
        matches = matches or [child for child in children if child.name.casefold() == name.casefold()]
        if not matches:
            raise _unknown_path(taxonomy, path, at, children, visible_ids)
        at, category = _join(at, matches[0].name), matches[0]
    return at, category


def _unknown_path(
    taxonomy: Taxonomy, path: str, at: str, children: list[Category], visible_ids: Collection[str]
) -> UnknownName:
    names = ", ".join(child.name for child in children)
    where = f"{at!r}" if at else "The root"
    hint = f"{where} holds: {names}." if names else f"{where} holds no category."
    return UnknownName(
        "category", path, (path for path, _ in paths(taxonomy, visible_ids) if path), some=True, hint=hint
    )


def _children(taxonomy: Taxonomy, category: Category) -> list[Category]:
    return [taxonomy.categories[child] for child in category.children]


def _seen_below(taxonomy: Taxonomy, category: Category, visible_ids: Collection[str]) -> list[str]:
    return [entity for entity in taxonomy.below(category) if entity in visible_ids]


def _join(path: str, name: str) -> str:
    return f"{path}{SEPARATOR}{name}" if path else name


def seen_taxonomy(index: SearchIndex, name: str | None, principal: Principal | None) -> Taxonomy | None:
    """The taxonomy of this name, None: the current one, with what the principal may see of it.

    A category is there if something below it is. None if there is no such taxonomy, if nothing of it may be seen, or
    if its words may be made of agents that the principal may not see.
    """
    whole, may_see = permitted_taxonomy(index, name, principal), shows(index, principal)
    return (
        whole if whole is None or may_see is None else prune_taxonomy(whole, lambda entity: may_see(owner_of(entity)))
    )


def permitted_taxonomy(index: SearchIndex, name: str | None, principal: Principal | None) -> Taxonomy | None:
    """The whole of it, for whoever leaves out what may not be found; None where `seen_taxonomy` is."""
    taxonomy = next(
        (each for each in index.values(TAXONOMIES) if (each.current if name is None else each.name == name)), None
    )
    may_see = shows(index, principal)
    if taxonomy is None or may_see is None:
        return taxonomy
    if not (taxonomy.shown_to_all or all(may_see(agent_id) for agent_id in taxonomy.private)):
        return None
    return taxonomy if any(may_see(owner_of(entity)) for entity in taxonomy.below(taxonomy.root)) else None


def prune_taxonomy(whole: Taxonomy, may_see: Shows) -> Taxonomy | None:
    """Without what the build took, which tells how many there are in all."""
    remaining: dict[str, Category] = {}
    for category in reversed(list(whole.categories.values())):
        holds = {entity: by for entity, by in category.holds.items() if may_see(entity)}
        children = tuple(child for child in category.children if child in remaining)
        if holds or children:
            examples = tuple(entity for entity in category.examples if may_see(entity))
            remaining[category.id] = replace(category, holds=holds, children=children, examples=examples)
    if whole.root.id not in remaining:
        return None
    categories = dict(reversed(list(remaining.items())))
    return replace(whole, categories=categories, private=(), calls=0, prompt_tokens=0, completion_tokens=0)
