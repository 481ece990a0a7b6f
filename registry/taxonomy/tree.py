"""A tree of categories over agents or tools: the nouns that building, keeping, searching and showing share."""

import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import asdict, dataclass, fields
from enum import StrEnum
from typing import Any

from waygraph.registry.model.errors import InvalidSetting
from waygraph.registry.model.identity import holds_control, is_broken, name_fault
from waygraph.registry.model.nouns import Of
from waygraph.registry.model.numbers import read_number, read_whole

ROOT = ""
"""The path of the root."""
SEPARATOR = "/"
"""Between the names of a path: `travel/flights`."""
HERE = "."
"""As the last name of a path: what stands in the category itself, and in no child of it."""


class By(StrEnum):
    """What put an entity into a category."""

    MODEL = "model"
    VECTORS = "vectors"
    WORDS = "words"
    CROSS = "cross"
    """A second parent, found after the tree stood."""
    NEAREST = "nearest"
    """The nearest leaf by vectors or words, since no model placed it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Category:
    """One node of the tree.

    `id` stays from one build to the next where most members stay. `name`: one path segment, unique among its siblings.
    `boundary`: what belongs to a sibling instead. `axis`: by what the children are told apart. `depth`: 0 is the root.
    `children`: ids, in the order in which they are shown. `holds`: ids of the entities that stand here and no deeper.
    `examples`: ids of entities below it that are the most like the rest, the best first.
    """

    id: str
    name: str
    description: str = ""
    boundary: str = ""
    axis: str = ""
    depth: int = 0
    children: tuple[str, ...] = ()
    holds: Mapping[str, By]
    examples: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class TaxonomySettings:
    """The parameters of A2X, Algorithm 1, with the paper's values."""

    keyword_threshold: int = 500
    """θ_kw: a node of more services is designed from keywords."""
    leaf_size: int = 40
    """θ_leaf: a larger node is split."""
    max_depth: int = 3
    max_categories: int = 20
    """Children of a node."""
    generic_ratio: float = 1 / 3
    """A service that fits more of the children than this share is generic, and stays at the node."""
    max_refinements: int = 3
    delete_size: int = 2
    """A child of as few services is deleted; they stay at the node."""
    keyword_batch: int = 50
    keywords_per_service: int = 5
    workers: int = 20
    """Calls at once."""
    temperature: float = 0.0
    single_axis: bool = True
    """Whether the children of a node must follow one axis, which the root's are checked for."""
    cross_domain: bool = True
    """Whether a service may also stand under a second top category."""
    description_chars: int = 150
    """Of a service, where many are shown for a second parent."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Taxonomy:
    """`categories`: by id, the root first, parents before children. `built_by`: `vectors`, `words` or
    `openai:MODEL`.

    `current`: the one that is meant where none is named. `private`: ids of the agents whose texts its words may be made
    of and that not everyone may see: who does not see all of them sees nothing of it, unless it is `shown_to_all`.
    """

    name: str
    of: Of
    built_by: str
    categories: Mapping[str, Category]
    built_at: str = ""
    revision: int = 0
    calls: int = 0
    prompt_tokens: int = 0
    completion_tokens: int = 0
    settings: TaxonomySettings = TaxonomySettings()
    current: bool = False
    private: tuple[str, ...] = ()
    shown_to_all: bool = False

    @property
    def root(self) -> Category:
        return next(iter(self.categories.values()))

    def children(self, category: Category) -> list[Category]:
        return [self.categories[child] for child in category.children]

    def below(self, category: Category) -> Iterator[str]:
        """Ids of all entities in the category and under it, each once, in the tree's order."""
        ids: set[str] = set()
        pending = [category]
        while pending:
            at = pending.pop()
            yield from (entity for entity in at.holds if entity not in ids)
            ids.update(at.holds)
            pending.extend(self.categories[child] for child in reversed(at.children))

    def paths(self) -> dict[str, str]:
        """Id → path of each category, in the tree's order; of one with several parents the first."""
        paths = {self.root.id: ROOT}
        for category in self.categories.values():
            above = paths[category.id]
            for child in self.children(category):
                paths.setdefault(child.id, f"{above}{SEPARATOR}{child.name}" if above else child.name)
        return paths

    def as_json(self) -> dict[str, Any]:
        return {**asdict(self), "categories": [asdict(each) for each in self.categories.values()]}

    @classmethod
    def of_json(cls, document: Mapping[str, Any]) -> "Taxonomy":
        """Of what `as_json` wrote. Raises KeyError, TypeError, ValueError for anything else."""
        rows = [
            Category(
                **{
                    **row,
                    "children": tuple(row["children"]),
                    "holds": {entity: By(by) for entity, by in row["holds"].items()},
                    "examples": tuple(row["examples"]),
                }
            )
            for row in document["categories"]
        ]
        places = {row.id: place for place, row in enumerate(rows)}
        below = {child for row in rows for child in row.children}
        if not rows or any(places[child] <= places[row.id] for row in rows for child in row.children):
            raise ValueError("its categories are no tree with parents before children")
        if len(places) < len(rows) or below != places.keys() - {rows[0].id}:
            raise ValueError("a category of it is there twice, or below no other")
        whole = {
            **document,
            "of": Of(document["of"]),
            "settings": TaxonomySettings(**document["settings"]),
            "private": tuple(document["private"]),
            "categories": {row.id: row for row in rows},
        }
        return cls(**whole)


def check_taxonomy_name(name: str) -> None:
    """Raises InvalidSetting."""
    if not _NAME.fullmatch(name):
        raise InvalidSetting(f"{name!r} cannot be a taxonomy's name; expected letters, digits and dashes, at most 40")


_NAME = re.compile(r"[a-z0-9][a-z0-9-]{0,39}")


@dataclass(frozen=True, slots=True, kw_only=True)
class Branch:
    """A child as its parent shows it."""

    path: str
    description: str
    count: int
    """How many agents, or tools, are under it."""
    examples: tuple[str, ...]
    """Ids of at most two of them."""


@dataclass(frozen=True, slots=True, kw_only=True)
class CategoryView:
    """A category as somebody sees it. `count`: entities in it and under it."""

    taxonomy: str
    of: Of
    built_by: str
    """`vectors`, `words`, or the language model."""
    path: str
    description: str
    boundary: str
    """What belongs to a sibling instead."""
    count: int
    children: tuple[Branch, ...]
    members: tuple[str, ...]
    """Ids of what stands in it and in no child."""
    revision: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Drift:
    """`nearest`: entities placed since the build, or that no model placed. `unplaced`: those that may stand in it and
    do not. `private`: agents whose words it may have and that not everyone sees. `rebuild`: why to build it anew;
    empty: no need.
    """

    name: str
    current: bool
    of: str
    built_by: str
    built_at: str
    categories: int
    entities: int
    nearest: int
    over_size: int
    unplaced: int
    private: int
    rebuild: str


INDEX_CHANGED = "the registry was written meanwhile"
"""Why a walk ended."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Budget:
    """What one walk may cost. `tokens`: of prompts and answers together, checked before each call."""

    calls: int = 60
    tokens: int = 100_000
    deadline_s: float = 60.0


MAX_TEXT_CHARS = 2_000
"""Of a category's description, and of any other text of it."""


MAX_DEPTH = 32
MAX_WAYS = 10


def check_taxonomy(taxonomy: Taxonomy) -> None:
    """Of one that comes from outside: its names, texts and numbers, as a build would give them. Raises InvalidSetting,
    which quotes no text of it.
    """
    for what, noun in (("taxonomy", taxonomy), ("settings", taxonomy.settings)):
        _check_fields(noun, what)
    check_taxonomy_name(taxonomy.name)
    for number, category in enumerate(taxonomy.categories.values(), start=1):
        _check_fields(category, f"category {number}")
        own_names = [category.id] if category is taxonomy.root else [category.id, category.name]
        for fault in filter(None, map(name_fault, own_names)):
            raise InvalidSetting(f"category {number}: {fault}")
        if not all(map(_is_plain, category.holds)):
            raise InvalidSetting(f"category {number} holds what is no id of an agent or tool")
        names = [child.name for child in taxonomy.children(category)]
        if len(set(names)) < len(names) or any(SEPARATOR in name or name == HERE for name in names):
            raise InvalidSetting(f"category {number}: its children need names of their own, without {SEPARATOR!r}")
    _check_ways(taxonomy)


def _check_ways(taxonomy: Taxonomy) -> None:
    """Who lists a tree goes each way from the root: a chain costs its length squared, a ladder doubles at each rung."""
    depths, ways = {taxonomy.root.id: 0}, {taxonomy.root.id: 1}
    for category in taxonomy.categories.values():
        for child in category.children:
            depths[child] = max(depths.get(child, 0), depths[category.id] + 1)
            ways[child] = ways.get(child, 0) + ways[category.id]
    if max(depths.values()) > MAX_DEPTH:
        raise InvalidSetting(f"the taxonomy is deeper than {MAX_DEPTH} levels")
    if sum(ways.values()) > MAX_WAYS * len(ways):
        raise InvalidSetting(f"more than {MAX_WAYS} ways lead from the root to a category, on average")


def _check_fields(noun: Any, what: str) -> None:
    """By the type that each is declared with. Raises InvalidSetting."""
    for each in fields(noun):
        fits = _FITS.get(each.type)
        if fits is not None and not fits(getattr(noun, each.name)):
            raise InvalidSetting(f"{what}: its {each.name} is of another type, out of range, too long or not plain")


def _is_plain(value: object) -> bool:
    is_text = isinstance(value, str) and len(value) <= MAX_TEXT_CHARS
    return is_text and not (holds_control(value) or is_broken(value))  # type: ignore[arg-type]


_FITS: Mapping[object, Callable[[Any], bool]] = {
    str: _is_plain,
    bool: lambda value: isinstance(value, bool),
    int: lambda value: read_whole(value, 0) is not None,
    float: lambda value: read_number(value, 0) is not None,
    tuple[str, ...]: lambda value: all(map(_is_plain, value)),
}
