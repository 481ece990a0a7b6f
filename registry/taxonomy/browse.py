"""A taxonomy as somebody sees it: a category only if it holds what that caller may find, and counts of that alone."""

from collections.abc import Collection, Iterable, Sequence
from dataclasses import replace
from itertools import chain

from waygraph.registry.access.visibility import Shows, routable, tools_within
from waygraph.registry.index.names import shows
from waygraph.registry.index.search_index import SearchIndex
from waygraph.registry.model.errors import UnknownName
from waygraph.registry.model.nouns import Filters, Of, Principal
from waygraph.registry.model.transitions import owner_of
from waygraph.registry.taxonomy.taxonomies import TAXONOMIES
from waygraph.registry.taxonomy.tree import HERE, ROOT, SEPARATOR, Branch, By, Category, CategoryView, Taxonomy

EXAMPLES = 2
NAMES_TOLD = 30
"""Of what a category holds, where a path leads to nothing."""
BUILD_FIRST = "`waygraph taxonomy build` makes one."


def browse_index(index: SearchIndex, path: str, filters: Filters, principal: Principal | None) -> CategoryView:
    """Of the current taxonomy. Raises UnknownName, of noun `taxonomy` where none is there, or none for this caller."""
    return replace(browse(_current_taxonomy(index, filters, principal), path), revision=index.state.revision)


def current_members(index: SearchIndex, path: str, principal: Principal | None) -> frozenset[str]:
    """Ids of what somebody may find in a category of the current taxonomy. Raises UnknownName as `browse_index`."""
    return members_within(_current_taxonomy(index, Filters(), principal), path)


def findable_taxonomy(
    index: SearchIndex, name: str | None, filters: Filters, principal: Principal | None
) -> Taxonomy | None:
    """The taxonomy of this name, None: the current one, with what a search by these filters may find."""
    if (taxonomy := permitted_taxonomy(index, name, principal)) is None:
        return None
    visible_ids = _findable(index, taxonomy.of, filters, principal)
    return prune_taxonomy(taxonomy, lambda entity: entity in visible_ids)


def _current_taxonomy(index: SearchIndex, filters: Filters, principal: Principal | None) -> Taxonomy:
    if (taxonomy := findable_taxonomy(index, None, filters, principal)) is None:
        raise no_taxonomy()
    return taxonomy


def no_taxonomy(name: str | None = None) -> UnknownName:
    """Of a name, None: the current one."""
    return UnknownName("taxonomy", name or "current", (), hint="" if name else BUILD_FIRST)


def _findable(index: SearchIndex, of: Of, filters: Filters, principal: Principal | None) -> Collection[str]:
    """Ids of all agents, or tools, that a search may find."""
    agents = [agent.id for agent in index.agents().values() if routable(agent, principal, filters)]
    if of is Of.AGENTS:
        return frozenset(agents)
    tools = frozenset(chain.from_iterable(index.tool_ids_of(agents).values())).difference(index.pending_tools())
    within = tools_within(filters)
    return tools if within is None else tools.intersection(within)


def browse(taxonomy: Taxonomy, path: str) -> CategoryView:
    """The category of a path (`travel/flights`; empty: the root), of a taxonomy that holds only what may be found.

    `travel/.` is what stands in `travel` itself; in a tree of agents, `travel/flights/ID` is one agent of it. Raises
    UnknownName, which says what there is.
    """
    below, category = _find(taxonomy, path)
    branches = [(child, list(taxonomy.below(child))) for child in taxonomy.children(category)]
    return CategoryView(
        taxonomy=taxonomy.name,
        of=taxonomy.of,
        built_by=taxonomy.built_by,
        path=below,
        description=category.description,
        boundary=category.boundary,
        count=sum(1 for _ in taxonomy.below(category)),
        children=tuple(
            Branch(
                path=_join(below, child.name),
                description=child.description,
                count=len(member_ids),
                examples=tuple(dict.fromkeys([*child.examples, *member_ids]))[:EXAMPLES],
            )
            for child, member_ids in branches
        ),
        members=tuple(category.holds),
        revision=taxonomy.revision,
    )


def members_within(taxonomy: Taxonomy, path: str) -> frozenset[str]:
    """What a category and those under it hold. Raises UnknownName as `browse`."""
    return frozenset(taxonomy.below(_find(taxonomy, path)[1]))


def _find(taxonomy: Taxonomy, path: str) -> tuple[str, Category]:
    """The path as the tree writes it, and its category.

    A path may end in `.`, which stands for what no child holds, or in the id of an agent.
    """
    at, category = ROOT, taxonomy.root
    for name in filter(None, map(str.strip, path.split(SEPARATOR))):
        children = {child.name: child for child in taxonomy.children(category)}
        agents = category.holds if taxonomy.of is Of.AGENTS else ()
        part = _find_name(name, [*children, *([HERE] if category.holds else []), *agents])
        if part is None:
            raise _unknown_path(taxonomy, path, at, [*children, *agents])
        at = _join(at, part)
        category = children.get(part) or _holding(category, category.holds if part == HERE else [part])
    return at, category


def _find_name(name: str, names: Sequence[str]) -> str | None:
    """Of several that differ in case alone the one that is written so."""
    return name if name in names else next((each for each in names if each.strip().casefold() == name.casefold()), None)


def _holding(category: Category, entities: Iterable[str]) -> Category:
    """A category that holds only these, which the words of the whole do not describe."""
    holds = {each: category.holds[each] for each in entities}
    return replace(category, children=(), holds=holds, description="", boundary="")


def _unknown_path(taxonomy: Taxonomy, path: str, at: str, names: Sequence[str]) -> UnknownName:
    where = f"{at!r}" if at else "The root"
    hint = f"{where} holds: {', '.join(names[:NAMES_TOLD])}." if names else f"{where} holds no category."
    return UnknownName("category", path, filter(None, taxonomy.paths().values()), some=True, hint=hint)


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
    """Without what the build took, which tells how many there are in all, and without words of what is left out.

    A description without a model names the examples, a boundary names a sibling.
    """
    is_of_names = whole.built_by in (By.VECTORS, By.WORDS)
    remaining: dict[str, Category] = {}
    for category in reversed(list(whole.categories.values())):
        holds = {entity: by for entity, by in category.holds.items() if may_see(entity)}
        children = tuple(child for child in category.children if child in remaining)
        if holds or children:
            examples = tuple(entity for entity in category.examples if may_see(entity))
            description = "" if is_of_names and len(examples) < len(category.examples) else category.description
            remaining[category.id] = replace(
                category, holds=holds, children=children, examples=examples, description=description
            )
            if len(children) < len(category.children):
                remaining |= {child: replace(remaining[child], boundary="") for child in children}
    if whole.root.id not in remaining:
        return None
    categories = dict(reversed(list(remaining.items())))
    return replace(whole, categories=categories, private=(), calls=0, prompt_tokens=0, completion_tokens=0)
