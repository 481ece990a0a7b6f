"""A taxonomy as somebody sees it: a category only if it holds what that caller may find, and counts of that alone."""

from collections.abc import Collection, Iterable, Iterator, Sequence
from dataclasses import replace
from itertools import chain

from waygraph.registry.access.visibility import Shows, routable, tools_within
from waygraph.registry.index.names import shows
from waygraph.registry.index.search_index import SearchIndex
from waygraph.registry.model.errors import UnknownName
from waygraph.registry.model.nouns import Filters, Principal
from waygraph.registry.model.transitions import owner_of
from waygraph.registry.taxonomy.taxonomies import TAXONOMIES
from waygraph.registry.taxonomy.tree import HERE, ROOT, SEPARATOR, Branch, By, Category, CategoryView, Of, Taxonomy

EXAMPLES = 2
NAMES_TOLD = 30
"""Of what a category holds, where a path leads to nothing."""
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
    if (taxonomy := permitted_taxonomy(index, name, principal)) is None:
        return None
    visible_ids = _findable(index, taxonomy.of, filters, principal)
    return prune_taxonomy(taxonomy, lambda entity: entity in visible_ids)


def _no_taxonomy() -> UnknownName:
    return UnknownName("taxonomy", "current", (), hint=BUILD_FIRST)


def _current_taxonomy(index: SearchIndex, principal: Principal | None) -> Taxonomy:
    """The whole of it: what is asked of it counts only what the principal may find."""
    if (taxonomy := permitted_taxonomy(index, None, principal)) is None:
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
    """The category of a path (`travel/flights`; empty: the root). Raises UnknownName, which says what there is.

    `travel/.` is what stands in `travel` itself; in a tree of agents, `travel/flights/ID` is one agent of it.
    """
    below, category = _find(taxonomy, path, visible_ids)
    branches = [(child, _seen_below(taxonomy, child, visible_ids)) for child in _children(taxonomy, category)]
    return CategoryView(
        taxonomy=taxonomy.name,
        of=taxonomy.of,
        built_by=taxonomy.built_by,
        path=below,
        description=_seen_description(taxonomy, category, visible_ids),
        boundary=category.boundary,
        count=len(_seen_below(taxonomy, category, visible_ids)),
        children=tuple(
            Branch(
                path=_join(below, child.name),
                description=_seen_description(taxonomy, child, visible_ids),
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


def _seen_description(taxonomy: Taxonomy, category: Category, visible_ids: Collection[str]) -> str:
    """Without a model it names the examples: whoever may not find one of them reads none of it."""
    is_of_names = taxonomy.built_by in (By.VECTORS, By.WORDS)
    return "" if is_of_names and not all(each in visible_ids for each in category.examples) else category.description


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
            pending += [(_join(path, child.name), child) for child in reversed(_children(taxonomy, category))]


def _find(taxonomy: Taxonomy, path: str, visible_ids: Collection[str]) -> tuple[str, Category]:
    """The path as the tree writes it, and its category.

    A path may end in `.`, which stands for what no child holds, or in the id of an agent.
    """
    at, category = ROOT, taxonomy.root
    for name in filter(None, map(str.strip, path.split(SEPARATOR))):
        children = {child.name: child for child in _children(taxonomy, category)}
        children = {name: child for name, child in children.items() if _seen_below(taxonomy, child, visible_ids)}
        members = [each for each in category.holds if each in visible_ids]
        agents = members if taxonomy.of is Of.AGENTS else []
        part = _find_name(name, [*children, *([HERE] if members else []), *agents])
        if part is None:
            raise _unknown_path(taxonomy, path, at, [*children, *agents], visible_ids)
        at = _join(at, part)
        category = children.get(part) or _holding(category, members if part == HERE else [part])
    return at, category


def _find_name(name: str, names: Sequence[str]) -> str | None:
    """Of several that differ in case alone the one that is written so."""
    return name if name in names else next((each for each in names if each.strip().casefold() == name.casefold()), None)


def _holding(category: Category, entities: Iterable[str]) -> Category:
    """A category that holds only these, which the words of the whole do not describe."""
    holds = {each: category.holds[each] for each in entities}
    return replace(category, children=(), holds=holds, description="", boundary="")


def _unknown_path(
    taxonomy: Taxonomy, path: str, at: str, names: Sequence[str], visible_ids: Collection[str]
) -> UnknownName:
    where = f"{at!r}" if at else "The root"
    hint = f"{where} holds: {', '.join(names[:NAMES_TOLD])}." if names else f"{where} holds no category."
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
            part = replace(category, holds=holds, children=children, examples=examples)
            remaining[category.id] = replace(part, description=_seen_description(whole, category, frozenset(examples)))
    if whole.root.id not in remaining:
        return None
    categories = dict(reversed(list(remaining.items())))
    return replace(whole, categories=categories, private=(), calls=0, prompt_tokens=0, completion_tokens=0)
