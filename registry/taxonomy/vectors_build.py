"""A taxonomy without a language model: clusters of vectors, top down, named by what their members share.

Clusters: spherical k-means (Dhillon and Modha, "Concept Decompositions for Large Sparse Text Data", 2001), begun by
k-means++ (Arthur and Vassilvitskii, 2007) from fixed seeds, or where the former tree has as many children from those:
so that little changes where little has changed. Where nothing has a vector, words stand in for it.

Vectors of words, for a tree where nothing has a vector of an embedder.

A term's place follows from its hash (Weinberger and others, "Feature Hashing for Large Scale Multitask Learning",
2009). So a text that comes later has a vector without the texts that were there before. Rarity is counted once: in the
vectors that a tree and the directions of its categories are made of, and not in what is placed by them.
"""

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from hashlib import sha256
from math import isqrt, log
from typing import Any
from zlib import crc32

import numpy as np
from numpy.typing import NDArray

from waygraph.registry.index.analyser import rarity, telling_words
from waygraph.registry.model.errors import InvalidSetting
from waygraph.registry.model.nouns import DEFAULT_TAXONOMY, Of
from waygraph.registry.taxonomy.category_names import CategoryNamer, EmbedNames
from waygraph.registry.taxonomy.prompts import Service
from waygraph.registry.taxonomy.tree import By, Category, Taxonomy, TaxonomySettings

DIMENSION = 1024


def word_vectors(services: Sequence[Service], *, by_rarity: bool) -> dict[str, NDArray[np.float32]]:
    """Service id → float32 of shape (DIMENSION,) and length 1, of each that has a telling word.

    `by_rarity`: a term weighs more, the fewer of these services have it.
    """
    counts = {service.id: Counter(term for term, _ in telling_words(service.text)) for service in services}
    having = Counter(term for terms in counts.values() for term in terms)
    rare = {term: rarity(number, len(counts)) if by_rarity else 1.0 for term, number in having.items()}
    vectors: dict[str, NDArray[np.float32]] = {}
    for entity, terms in counts.items():
        vector = np.zeros(DIMENSION, dtype=np.float32)
        for term, times in terms.items():
            place = crc32(term.encode())
            vector[place // 2 % DIMENSION] += (1 - place % 2 * 2) * (1 + log(times)) * rare[term]
        if length := float(np.linalg.norm(vector)):
            vectors[entity] = vector / length
    return vectors


type Matrix = NDArray[np.float32]
type Vectors = Mapping[str, NDArray[np.float32]]
"""Entity id → vector: float32 of shape (dimension,), of length 1."""
type Builder = Callable[[Sequence[Service], Vectors, Taxonomy | None], Taxonomy]
"""Services by id, the vectors of those that have one, and the taxonomy of the same name that is there now."""

AXIS = "texts that are alike"
FEWEST_CHILDREN = 5
"""And as many as the square root of what a category holds: fewer hold too much of several kinds for one name."""
SECOND_PARENT = 0.95
"""A second parent is as near as this share of the first one's cosine."""
ANEW = 1.25
"""Where a node grew or shrank by so much, its children are chosen anew."""
SAME = 0.5
"""A category is the former one if they share more than this part of all that either holds."""
STAYS = 0.05
"""So much of a cosine another category must be nearer for what stood in one before."""
STILL_SPLIT = 0.75
"""A category that had children keeps them down to this share of the leaf size."""
_SEEDS, _ROUNDS = 3, 60
_BOUNDARY_WORDS, _EXAMPLES = 3, 3
_CENTRAL = 200
"""So many members in the middle of a category are looked at for examples of it."""
_LABEL_WORDS, _LABEL_CHARS = 4, 60
"""Of a member's name in a description."""


def build_without_model(services: Sequence[Service], vectors: Vectors, *more: Any, **how: Any) -> Taxonomy:
    """By vectors, float32 of shape (dimension,), if anything has one, else by words: as `build_by_vectors`."""
    return (build_by_vectors if vectors else build_by_words)(services, vectors, *more, **how)


def build_by_words(services: Sequence[Service], _vectors: Vectors, *more: Any, **how: Any) -> Taxonomy:
    """As `build_by_vectors`, by vectors of words, float32 of shape (DIMENSION,). Raises InvalidSetting without any."""
    if not (vectors := word_vectors(services, by_rarity=True)):
        raise InvalidSetting("a taxonomy needs agents or tools, and none here may stand in one: `waygraph ingest`")
    return build_by_vectors(services, vectors, *more, **how | {"by": By.WORDS, "embed": None})


def build_by_vectors(
    services: Sequence[Service],
    vectors: Vectors,
    before: Taxonomy | None = None,
    settings: TaxonomySettings = TaxonomySettings(),  # noqa: B008 - frozen
    *,
    embed: EmbedNames | None = None,
    by: By = By.VECTORS,
) -> Taxonomy:
    """Deterministic. Services without a vector, float32 of shape (dimension,), are left out.

    `embed`: by the embedder of the vectors; then names are those by which it finds the most members. Raises
    InvalidSetting if none has a vector.
    """
    if not vectors:
        raise InvalidSetting(
            "a taxonomy by vectors needs vectors, and nothing here has one. Embed the texts: `waygraph reindex`; or "
            "build it by words."
        )
    ids, matrix = _rows_of(services, vectors)
    former = _Former(before, {entity: row for row, entity in enumerate(ids)}, matrix, settings)
    root = _grow(np.arange(len(ids)), 0, former, before.root if before else None)
    if settings.cross_domain:
        _cross(root, matrix)
    return Taxonomy(
        name=DEFAULT_TAXONOMY,
        of=Of.AGENTS,
        built_by=by.value,
        categories=_Naming(services, ids, matrix, by, embed).name(root),
        settings=settings,
    )


def split(
    services: Sequence[Service], vectors: Vectors, category: Category, settings: TaxonomySettings, above: Iterable[str]
) -> list[Category]:
    """The category with children in place of what it holds, and the categories below it; alone if nothing parts it.

    `above`: the names of the categories it stands under, which its children do not repeat. Vectors: float32 of shape
    (dimension,).
    """
    ids, matrix = _rows_of(services, vectors)
    root = _grow(np.arange(len(ids)), category.depth, _Former(None, {}, matrix, settings), None)
    top, *below = _Naming(services, ids, matrix, By.VECTORS).name(root, [*above, category.name]).values()
    return [replace(category, axis=top.axis, children=top.children, holds=top.holds), *below]


def _rows_of(services: Sequence[Service], vectors: Vectors) -> tuple[list[str], Matrix]:
    """The ids of the services that have a vector, in order, and a row for each."""
    ids = sorted(service.id for service in services if service.id in vectors)
    return ids, np.stack([vectors[entity] for entity in ids]).astype(np.float32)


# -- clusters ------------------------------------------------------------------------------------------


@dataclass(slots=True, kw_only=True)
class Node:
    """`rows`: of all that stand at it and below. `crossed`: of those that have it as a second parent. `former_name`: of
    the category that it was, if any.
    """

    rows: NDArray[np.int64]
    depth: int
    direction: Matrix
    former_name: str = ""
    children: list["Node"] = field(default_factory=list)
    crossed: list[int] = field(default_factory=list)

    def leaves(self) -> Iterator["Node"]:
        if not self.children:
            yield self
        for child in self.children:
            yield from child.leaves()


@dataclass(frozen=True, slots=True)
class _Former:
    """The tree that was there, as directions: where the children of a node begin."""

    taxonomy: Taxonomy | None
    positions: Mapping[str, int]
    matrix: Matrix
    settings: TaxonomySettings

    def children(self, category: Category | None, size: int) -> list[Category]:
        """Those to begin with; none where they are too few, or the node has grown or shrunk."""
        if self.taxonomy is None or category is None or not category.children:
            return []
        was = len(self._members(category))
        children = [self.taxonomy.categories[child] for child in category.children]
        alike = was and 1 / ANEW <= size / was <= ANEW
        return children if alike and len(children) > 1 and all(len(self._rows(each)) for each in children) else []

    def labels(self, children: Sequence[Category]) -> NDArray[np.int64]:
        """Of all rows: the number of the child where each stood, -1 without one."""
        labels = np.full(len(self.matrix), -1, dtype=np.int64)
        for number, child in enumerate(children):
            labels[self._rows(child)] = number
        return labels

    def directions(self, children: Sequence[Category]) -> Matrix:
        return np.stack([direction_of(self.matrix[self._rows(child)]) for child in children])

    def _rows(self, category: Category) -> list[int]:
        """Of what stands there by itself, if anything still does."""
        return [self.positions[entity] for entity in self._members(category) if entity in self.positions]

    def _members(self, category: Category) -> dict[str, By]:
        """Without those that have it as a second parent."""
        assert self.taxonomy is not None  # noqa: S101 - only asked of a tree's categories
        below = (each.holds.items() for each in _subtree(self.taxonomy, category))
        return {entity: by for holds in below for entity, by in holds if by is not By.CROSS}


def _subtree(taxonomy: Taxonomy, category: Category) -> Iterator[Category]:
    yield category
    for child in category.children:
        yield from _subtree(taxonomy, taxonomy.categories[child])


def _grow(rows: NDArray[np.int64], depth: int, former: _Former, was: Category | None) -> Node:
    """The node of these rows and all below it. `was`: the category that it was."""
    matrix, settings = former.matrix[rows], former.settings
    node = Node(rows=rows, depth=depth, direction=direction_of(matrix), former_name=was.name if was else "")
    former_children = former.children(was, len(rows))[: settings.max_categories]
    least = settings.leaf_size * (STILL_SPLIT if former_children else 1)
    if len(rows) <= least or depth >= settings.max_depth:
        return node
    if former_children:
        labels, _ = _cluster(
            matrix, former.directions(former_children), settings.delete_size, former.labels(former_children)[rows]
        )
    else:
        count = min(max(FEWEST_CHILDREN, isqrt(len(rows))), settings.max_categories)
        tries = (_cluster(matrix, _starts(matrix, count, seed), settings.delete_size) for seed in range(_SEEDS))
        labels, _ = max(tries, key=lambda numbers: numbers[1])
    if depth + 1 == settings.max_depth and _halve_large(labels, matrix, settings):
        # As the next build would begin with them.
        parts = [direction_of(matrix[labels == label]) for label in range(int(labels.max()) + 1)]
        labels, _ = _cluster(matrix, np.stack(parts), settings.delete_size, labels)
    numbers = np.unique(labels).tolist()
    if len(numbers) > 1:
        for label in numbers:
            part = former_children[label] if label < len(former_children) else None
            node.children.append(_grow(rows[labels == label], depth + 1, former, part))
    return node


def _cluster(
    vectors: Matrix, starts: Matrix, delete_size: int, former_labels: NDArray[np.int64] | None = None
) -> tuple[NDArray[np.int64], float]:
    """The cluster of each row, by the number of its start, and the sum of cosines. Too small ones are dissolved.

    `former_labels`: the former cluster of each row, -1 without one.
    """
    alive = np.ones(len(starts), dtype=np.bool_)
    directions = starts.copy()
    bonus = np.zeros((len(vectors), len(starts)), dtype=np.float32)
    if former_labels is not None:
        bonus[np.flatnonzero(former_labels >= 0), former_labels[former_labels >= 0]] = STAYS
    while True:
        labels = np.full(len(vectors), -1, dtype=np.int64)
        for _ in range(_ROUNDS):
            cosines = vectors @ directions.T + bonus
            cosines[:, ~alive] = -np.inf
            following = cosines.argmax(axis=1)
            if (following == labels).all():
                break
            labels = following
            for label in np.unique(labels):
                directions[label] = direction_of(vectors[labels == label])
        sizes = np.bincount(labels, minlength=len(starts))
        small = alive & (sizes <= (0 if former_labels is not None else delete_size))
        if not small.any() or alive.sum() <= FEWEST_CHILDREN // 2:
            return labels, float((vectors * directions[labels]).sum())
        alive[np.flatnonzero(small)[sizes[small].argmin()]] = False


def _label_of(service: Service) -> str:
    """A free name may be a sentence that speaks to a model; then the id's last part."""
    words = service.name.split()
    return " ".join(words if len(words) <= _LABEL_WORDS else [service.id.rpartition("/")[2]])[:_LABEL_CHARS]


def _halve_large(labels: NDArray[np.int64], vectors: Matrix, settings: TaxonomySettings) -> bool:
    """Where no level is left, clusters over the leaf size become two, while there may be one more. In place; whether
    any did. Of several tries the most even one counts.
    """
    is_small = False
    while len(np.unique(labels)) < settings.max_categories:
        sizes = np.bincount(labels)
        rows = np.flatnonzero(labels == int(sizes.argmax()))
        tries = (_cluster(vectors[rows], _starts(vectors[rows], 2, seed), 0)[0] for seed in range(_SEEDS))
        halves = max(tries, key=lambda labels_of_try: int(np.bincount(labels_of_try, minlength=2).min()))
        if len(rows) <= settings.leaf_size or np.bincount(halves, minlength=2).min() <= settings.delete_size:
            break
        labels[rows[halves == 1]] = len(sizes)
        is_small = True
    return is_small


def _starts(vectors: Matrix, number: int, seed: int) -> Matrix:
    """k-means++: each next one far from those before, by chance in proportion to its squared distance."""
    chance = np.random.default_rng(seed)
    rows = [int(chance.integers(len(vectors)))]
    nearest = vectors @ vectors[rows[0]]
    while len(rows) < min(number, len(vectors)):
        distance = np.clip(1.0 - nearest.astype(np.float64), 0.0, None)
        if not distance.sum():
            break
        rows.append(int(chance.choice(len(vectors), p=distance / distance.sum())))
        nearest = np.maximum(nearest, vectors @ vectors[rows[-1]])
    return vectors[rows].copy()


def direction_of(vectors: Matrix) -> Matrix:
    """float32 of shape (dimension,) and length 1; zeros where the vectors have none, or there are no vectors."""
    total = vectors.sum(axis=0)
    length = float(np.linalg.norm(total))
    return (total / length if length else total).astype(np.float32)


def _cross(root: Node, matrix: Matrix) -> None:
    """A second parent under another top category for what is nearly as near to it."""
    if len(root.children) < 2:
        return
    cosines = matrix @ np.stack([top.direction for top in root.children]).T
    own = np.empty(len(matrix), dtype=np.int64)
    for number, top in enumerate(root.children):
        own[top.rows] = number
    for row, first in enumerate(own):
        near = cosines[row].copy()
        near[first] = -np.inf
        second = int(near.argmax())
        if near[second] >= SECOND_PARENT * cosines[row, first] > 0:
            leaves = list(root.children[second].leaves())
            max(leaves, key=lambda leaf: float(matrix[row] @ leaf.direction)).crossed.append(row)


# -- names ---------------------------------------------------------------------------------------------


class _Naming:
    """Names the nodes of one tree. `ids` and rows of `matrix` belong together."""

    def __init__(
        self, services: Sequence[Service], ids: list[str], matrix: Matrix, by: By, embed: EmbedNames | None = None
    ) -> None:
        self._ids, self._matrix, self._by = ids, matrix, by
        self._labels = {service.id: _label_of(service) for service in services}
        self._namer = CategoryNamer(services, embed)

    def name(self, root: Node, above: Iterable[str] = ()) -> dict[str, Category]:
        """The categories, parents first. Ids are made of what they hold, so that equal trees have equal ones.

        No name repeats a word of those above it.
        """
        categories: dict[str, Category] = {}
        top = Category(id=self._new_id(root), name="", depth=root.depth, holds={}, examples=self._examples(root))
        pending = [(root, top, frozenset(term for name in above for term, _ in telling_words(name)))]
        while pending:
            node, words, avoid = pending.pop()
            children = self._name_children(node, avoid) if node.children else []
            holds = {} if children else {self._ids[row]: self._by for row in node.rows.tolist()}
            holds |= {self._ids[row]: By.CROSS for row in node.crossed}
            categories[words.id] = replace(
                words,
                axis=AXIS if children else "",
                children=tuple(each.id for each in children),
                holds=dict(sorted(holds.items())),
            )
            for child, each in reversed(list(zip(node.children, children, strict=True))):
                pending.append((child, each, avoid | {term for term, _ in telling_words(each.name)}))
        return categories

    def _name_children(self, node: Node, avoid: frozenset[str]) -> list[Category]:
        classes = [[self._ids[row] for row in child.rows.tolist()] for child in node.children]
        former, members = zip(*((child.former_name, self._matrix[child.rows]) for child in node.children), strict=True)
        names, words = self._namer.name_siblings(classes, avoid, former, members)
        directions = np.stack([child.direction for child in node.children])
        cosines = directions @ directions.T
        np.fill_diagonal(cosines, -np.inf)
        near = cosines.argmax(axis=1).tolist()
        examples = [self._examples(child) for child in node.children]
        return [
            Category(
                id=self._new_id(child),
                name=name,
                description=", ".join(dict.fromkeys(self._labels[each] for each in typical)),
                boundary=f"not here: {', '.join(words[sibling][:_BOUNDARY_WORDS]) or 'others'} (see {names[sibling]})",
                depth=child.depth,
                holds={},
                examples=typical,
            )
            for child, name, typical, sibling in zip(node.children, names, examples, near, strict=True)
        ]

    def _examples(self, node: Node) -> tuple[str, ...]:
        """Members to whose texts together all are as near as can be: each next one beside those before."""
        members = self._matrix[node.rows]
        central = np.argsort(-(members @ node.direction), kind="stable")[:_CENTRAL]
        cosines = members @ members[central].T
        nearest, picks = np.full(len(members), -1.0, dtype=np.float32), list[int]()
        for _ in range(min(_EXAMPLES, len(central))):
            sums = np.maximum(cosines, nearest[:, None]).sum(axis=0)
            sums[picks] = -np.inf
            picks.append(int(sums.argmax()))
            nearest = np.maximum(nearest, cosines[:, picks[-1]])
        return tuple(self._ids[node.rows[central[each]]] for each in picks)

    def _new_id(self, node: Node) -> str:
        members = "\n".join(self._ids[row] for row in node.rows.tolist())
        return sha256(f"{node.depth}\n{members}".encode()).hexdigest()[:12]


# -- ids -----------------------------------------------------------------------------------------------


def keep_ids(new: Taxonomy, before: Taxonomy | None) -> Taxonomy:
    """With the ids of former categories that hold mostly the same, each for the one that shares the most with it."""
    if before is None:
        return new
    new_ids: dict[str, str] = {}
    former_ids: set[str] = set()
    for _, mine, former in sorted(_overlaps(new, before), reverse=True):
        if mine not in new_ids and former not in former_ids:
            new_ids[mine] = former
            former_ids.add(former)
    strange = former_ids | before.categories.keys()
    ids = {
        each: new_ids.get(each) or (f"{each}-{before.revision}" if each in strange else each) for each in new.categories
    }
    return replace(new, categories={each.id: each for each in rename_categories(new.categories.values(), ids)})


def rename_categories(categories: Iterable[Category], ids: Mapping[str, str]) -> list[Category]:
    """With other ids, where `ids` has one."""
    return [
        replace(each, id=ids.get(each.id, each.id), children=tuple(ids.get(child, child) for child in each.children))
        for each in categories
    ]


def _overlaps(new: Taxonomy, before: Taxonomy) -> Iterator[tuple[float, str, str]]:
    """Jaccard index, new id, former id; of equal ones those of one depth come first."""
    former = {each.id: set(before.below(each)) for each in before.categories.values()}
    holding: dict[str, list[str]] = {}
    for category, members in former.items():
        for entity in members:
            holding.setdefault(entity, []).append(category)
    for each in new.categories.values():
        mine = set(new.below(each))
        for category, number in Counter(category for entity in mine for category in holding.get(entity, ())).items():
            share = number / (len(mine) + len(former[category]) - number)
            if share > SAME:
                yield share + (1e-9 if each.depth == before.categories[category].depth else 0.0), each.id, category
