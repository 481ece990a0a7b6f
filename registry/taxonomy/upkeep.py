"""Keeps taxonomies true to what is written: who may stand in one, where new ones are placed, leaves split and removed.

Words of categories are made of agents that everyone may see, unless a build was told otherwise. The others are placed
by their vectors alone, and where a leaf is split only those are counted that everyone may see: so nothing of a tree
tells of an agent to somebody who may not see it.
"""

from collections import defaultdict
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import replace
from itertools import chain
from operator import attrgetter
from typing import NamedTuple

from waygraph.registry.graph.engine import GraphSession
from waygraph.registry.graph.read import Vectors, overlaid, read_agents, read_settings, read_tools, read_vectors
from waygraph.registry.model.nouns import Agent, Of, Tool, is_doubtful
from waygraph.registry.model.transitions import owner_of
from waygraph.registry.taxonomy.prompts import Service
from waygraph.registry.taxonomy.rows import put_taxonomy, read_directions, read_taxonomies
from waygraph.registry.taxonomy.tree import By, Category, Taxonomy, TaxonomySettings


class Placeable(NamedTuple):
    """An agent or tool that may stand in a taxonomy. `is_public`: everyone may see it."""

    service: Service
    vector_key: str
    is_public: bool


def read_placeable(session: GraphSession, of: Of, agent_ids: Collection[str] | None = None) -> dict[str, Placeable]:
    """By id, of these agents; None: of all. What is pending, hidden or flagged is left out."""
    settings, agents_of_graph = read_settings(session, agent_ids), read_agents(session, agent_ids)
    agents = {agent_id: overlaid(item.agent, settings) for agent_id, item in agents_of_graph.items()}
    placeable = {
        agent_id: agent
        for agent_id, agent in agents.items()
        if not (agent.hidden or agent.pending or is_doubtful(agent))
    }
    tools = [each for each in read_tools(session, agent_ids) if not (each.tool.pending or is_doubtful(each.tool))]
    if of is Of.TOOLS:
        return {
            item.tool.id: Placeable(_service_of_tool(item.tool, owner), item.vector_key, not owner.visible_to)
            for item in tools
            if (owner := placeable.get(item.tool.agent_id))
        }
    tools_of: dict[str, list[Tool]] = defaultdict(list)
    for item in tools:
        tools_of[item.tool.agent_id].append(item.tool)
    return {
        agent_id: Placeable(
            Service(
                id=agent_id,
                name=agent.name,
                description=agent.description,
                words=" ".join(tool.name for tool in tools_of[agent_id]),
                tags=_unite_tags(agent.tags, *(tool.tags for tool in tools_of[agent_id])),
            ),
            agents_of_graph[agent_id].vector_key,
            not agent.visible_to,
        )
        for agent_id, agent in placeable.items()
    }


def _service_of_tool(tool: Tool, owner: Agent) -> Service:
    return Service(tool.id, tool.name, tool.description, owner.name, _unite_tags(tool.tags, owner.tags))


def _unite_tags(*tags: Iterable[str]) -> tuple[str, ...]:
    return tuple(dict.fromkeys(chain.from_iterable(tags)))


def read_placeable_vectors(session: GraphSession, of: Of, ids: Collection[str]) -> "Vectors":
    """Of those that have one, scaled to length 1: float32 of shape (dimension,)."""
    import numpy as np

    entities = sorted(ids)
    vectors = read_vectors(session, **({"agents": entities} if of is Of.AGENTS else {"tools": entities}))
    lengths = {entity: float(np.linalg.norm(vector)) for entity, vector in vectors.items()}
    return {entity: vector / lengths[entity] for entity, vector in vectors.items() if lengths[entity]}


def vectors_to_place(session: GraphSession, taxonomy: Taxonomy, placeable: Mapping[str, Placeable]) -> "Vectors":
    """Of these, of the kind that the taxonomy was built by: float32 of shape (dimension,) and length 1."""
    from waygraph.registry.taxonomy.vectors_build import word_vectors

    if taxonomy.built_by == By.WORDS:
        return dict(word_vectors([each.service for each in placeable.values()], by_rarity=False))
    return read_placeable_vectors(session, taxonomy.of, placeable.keys())


def _vectors_to_build(taxonomy: Taxonomy, services: Sequence[Service], vectors: "Vectors") -> "Vectors":
    """Of these services, of what they are placed by: float32 of shape (dimension,)."""
    from waygraph.registry.taxonomy.vectors_build import word_vectors

    if taxonomy.built_by == By.WORDS:
        return dict(word_vectors(services, by_rarity=True))
    return {service.id: vectors[service.id] for service in services if service.id in vectors}


class BuildInput(NamedTuple):
    """What a build begins with. `before`: the taxonomy of the same name."""

    placeable: Mapping[str, Placeable]
    vectors: "Vectors"
    before: Taxonomy | None


def read_given(session: GraphSession, name: str, of: Of) -> BuildInput:
    placeable = read_placeable(session, of)
    before = next((each for each in read_taxonomies(session) if each.name == name), None)
    return BuildInput(placeable, read_placeable_vectors(session, of, placeable.keys()), before)


def settle(session: GraphSession, new: Taxonomy, former: Taxonomy | None) -> None:
    """Stores a whole taxonomy: all that may stand in it is placed, the rest is taken out, directions are made anew."""
    now = read_placeable(session, new.of)
    vectors = vectors_to_place(session, new, now)
    # As with names: an agent that not everyone may see says nothing, unless the build read such ones.
    telling = [each.service for each in now.values() if new.private or each.is_public]
    tree = _Tree(new, _directions(new, _vectors_to_build(new, telling, vectors)), new_ids=new.categories)
    tree.take_out([entity for entity in tree.where if entity not in now])
    tree.place([entity for entity in now if entity not in tree.where], vectors)
    tree.split_large(session, now)
    tree.drop_empty()
    put_taxonomy(session, tree.taxonomy(), former, tree.directions)


def _directions(taxonomy: Taxonomy, vectors: "Vectors") -> "Vectors":
    """Of every category below which anything has a vector."""
    import numpy as np

    from waygraph.registry.taxonomy.vectors_build import direction_of

    directions: Vectors = {}
    for each in taxonomy.categories.values():
        if rows := [vectors[entity] for entity in taxonomy.below(each) if entity in vectors]:
            directions[each.id] = direction_of(np.stack(rows))
    return directions


def keep_placed(
    session: GraphSession,
    former: Taxonomy,
    before: Mapping[str, Placeable],
    now: Mapping[str, Placeable],
    agent_ids: Collection[str],
) -> None:
    tree = _Tree(former, {}, new_ids=())
    absent = [entity for entity in tree.where if owner_of(entity) in agent_ids and entity not in now]
    key = attrgetter("service" if former.built_by == By.WORDS else "vector_key")
    with_new_vector = [each for each in now if each in before and key(before[each]) != key(now[each])]
    coming = [entity for entity in now if entity not in tree.where or entity in with_new_vector]
    stood_open = {owner_of(entity) for entity, was in before.items() if was.is_public and entity in tree.where}
    private = {*former.private, *_private_agents(session, stood_open)}
    if not (absent or coming or private != set(former.private)):
        return
    tree.take_out([*absent, *with_new_vector])
    if coming:
        tree.directions = dict(read_directions(session, former.name))
        tree.place(coming, vectors_to_place(session, former, {entity: now[entity] for entity in coming}))
        directions = dict(tree.directions)
        tree.split_large(session, None)
        new_directions = {each: way for each, way in tree.directions.items() if way is not directions.get(each)}
    else:
        new_directions = {}
    tree.drop_empty()
    put_taxonomy(session, replace(tree.taxonomy(), private=tuple(sorted(private))), former, new_directions)


def _private_agents(session: GraphSession, agent_ids: Collection[str]) -> set[str]:
    """Those of them that are held and that not everyone may see any more."""
    if not agent_ids:
        return set()
    settings = read_settings(session, agent_ids)
    agents = (overlaid(item.agent, settings) for item in read_agents(session, agent_ids).values())
    return {agent.id for agent in agents if agent.hidden or agent.visible_to}


def is_over_size(holds: Mapping[str, By], settings: TaxonomySettings) -> bool:
    """Whether a leaf has outgrown the size. Second parents do not count: a build adds them when the tree stands."""
    return sum(by is not By.CROSS for by in holds.values()) > settings.leaf_size


class _Tree:
    """A taxonomy while it is changed. `where`: entity id → the categories that hold it."""

    def __init__(self, taxonomy: Taxonomy, directions: "Vectors", *, new_ids: Iterable[str]) -> None:
        """`new_ids`: categories that may have become too large, beside those where something is placed."""
        self._held, self.directions = taxonomy, directions
        self._categories = dict(taxonomy.categories)
        self._holds = {each.id: dict(each.holds) for each in taxonomy.categories.values()}
        self.where: dict[str, list[str]] = {}
        self._grown = set(new_ids)
        for category, holds in self._holds.items():
            for entity in holds:
                self.where.setdefault(entity, []).append(category)

    def take_out(self, entities: Iterable[str]) -> None:
        for entity in entities:
            for category in self.where.pop(entity, ()):
                del self._holds[category][entity]

    def place(self, entities: Iterable[str], vectors: "Vectors") -> None:
        """Each into the nearest leaf; without a vector, or where no leaf has a direction, nowhere."""
        for entity, leaf in self._nearest(entities, vectors, self._leaves()):
            self._holds[leaf][entity] = By.NEAREST
            self.where[entity] = [leaf]
            self._grown.add(leaf)

    def _nearest(self, entities: Iterable[str], vectors: "Vectors", leaves: Iterable[str]) -> list[tuple[str, str]]:
        """Of each that has a vector, float32 of shape (dimension,), the leaf whose direction is nearest."""
        import numpy as np

        if not (with_direction := [each for each in leaves if each in self.directions]):
            return []
        directions = np.stack([self.directions[each] for each in with_direction])
        rows = [(entity, vectors[entity]) for entity in entities if entity in vectors]
        return [
            (entity, with_direction[int((directions @ vector).argmax())])
            for entity, vector in rows
            if len(vector) == directions.shape[1]
        ]

    def _leaves(self) -> list[str]:
        return [each.id for each in self._categories.values() if not each.children]

    def split_large(self, session: GraphSession, placeable: Mapping[str, Placeable] | None) -> None:
        """Splits leaves with more than the leaf size of what everyone may see.

        `placeable`: all that stands; None: it is read.
        """
        settings = self._held.settings
        for leaf in self._leaves():
            category, holds = self._categories[leaf], self._holds[leaf]
            if not is_over_size(holds, settings) or category.depth >= settings.max_depth or leaf not in self._grown:
                continue
            entities = placeable or read_placeable(session, self._held.of, {owner_of(entity) for entity in holds})
            members = {each: entities[each] for each in holds if each in entities}
            public = [each.service for each in members.values() if each.is_public]
            if is_over_size({each.id: holds[each.id] for each in public}, settings):
                self._split(category, public, vectors_to_place(session, self._held, members))

    def _split(self, category: Category, public: list[Service], vectors: "Vectors") -> None:
        from waygraph.registry.taxonomy.vectors_build import rename_categories, split

        holds = self._holds[category.id]
        if not (telling := _vectors_to_build(self._held, public, vectors)):
            return
        path = self._held.paths().get(category.id, "")
        top, *below = split(public, telling, category, self._held.settings, path.split("/"))
        ids = {each.id: f"{each.id}-{top.id}" for each in below if each.id in self._holds}
        top, *below = rename_categories([top, *below], ids)
        if not below:
            return
        by = next((each for each in (By.VECTORS, By.WORDS) if each == self._held.built_by), By.NEAREST)
        parts = {each.id: each for each in (top, *below)}
        self._categories |= parts
        self._holds |= {each: {} for each in parts}
        part = Taxonomy(name="", of=self._held.of, built_by="", categories=parts)
        self.directions |= {each: way for each, way in _directions(part, telling).items() if each != top.id}
        for entity in holds:
            self.where[entity].remove(top.id)
        for each in below:
            for entity in each.holds:
                self._holds[each.id][entity] = holds[entity] if holds[entity] is By.CROSS else by
                self.where[entity].append(each.id)
        entities_below = set(part.below(top))
        rest = {each: how for each, how in holds.items() if each not in entities_below}
        for entity, leaf in self._nearest(rest, vectors, [each.id for each in below if not each.children]):
            self._holds[leaf][entity] = rest.pop(entity)
            self.where[entity].append(leaf)
        self._holds[top.id] = rest
        for entity in rest:
            self.where[entity].append(top.id)

    def drop_empty(self) -> None:
        """Leaves that hold nothing, and what then has neither children nor anything else; never the root."""
        root = self._held.root.id
        while empty := {
            each.id
            for each in self._categories.values()
            if each.id != root and not each.children and not self._holds[each.id]
        }:
            self._categories = {
                each.id: replace(each, children=tuple(child for child in each.children if child not in empty))
                for each in self._categories.values()
                if each.id not in empty
            }

    def taxonomy(self) -> Taxonomy:
        """As it is now. Parents stay before children: a split adds its parts behind all others."""
        holds = {each: dict(sorted(self._holds[each].items())) for each in self._categories}
        categories = {each.id: replace(each, holds=holds[each.id]) for each in self._categories.values()}
        return replace(self._held, categories=categories)
