"""A taxonomy without a language model: clusters of vectors, top down, named by the words that tell them apart.

Clusters: spherical k-means (Dhillon and Modha, "Concept Decompositions for Large Sparse Text Data", 2001), begun by
k-means++ (Arthur and Vassilvitskii, 2007) from fixed seeds, or where the former tree has as many children from those:
so that little changes where little has changed. Names: class-based TF-IDF (Grootendorst, "BERTopic", 2022).
"""

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from hashlib import sha256
from itertools import count
from math import ceil, log

import numpy as np
from numpy.typing import NDArray

from waygraph.registry.index.analyser import rarity, telling_words
from waygraph.registry.model.errors import InvalidSetting
from waygraph.registry.taxonomy.prompts import Service
from waygraph.registry.taxonomy.tree import (
    DEFAULT_NAME,
    By,
    Category,
    Of,
    Taxonomy,
    TaxonomySettings,
)

type Matrix = NDArray[np.float32]
type Vectors = Mapping[str, NDArray[np.float32]]
"""Entity id → vector: float32 of shape (dimension,), of length 1."""
type Builder = Callable[[Sequence[Service], Vectors, Taxonomy | None], Taxonomy]
"""Services by id, the vectors of those that have one, and the taxonomy of the same name that is there now."""

BY_VECTORS = "vectors"
AXIS = "texts that are alike"
FEWEST_CHILDREN = 5
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
_NAME_WORDS, _DESCRIPTION_WORDS, _BOUNDARY_WORDS, _EXAMPLES = 2, 6, 3, 3


def build_by_vectors(
    services: Sequence[Service],
    vectors: Vectors,
    before: Taxonomy | None = None,
    settings: TaxonomySettings = TaxonomySettings(),  # noqa: B008 - frozen
) -> Taxonomy:
    """Deterministic. Services without a vector, float32 of shape (dimension,), are left out.

    Raises InvalidSetting if none has one.
    """
    ids = sorted(service.id for service in services if service.id in vectors)
    if not ids:
        raise InvalidSetting(
            "a taxonomy by vectors needs vectors, and nothing here has one. Embed the texts: `waygraph reindex`."
        )
    matrix = np.stack([vectors[entity] for entity in ids]).astype(np.float32)
    former = _Former(before, {entity: row for row, entity in enumerate(ids)}, matrix, settings)
    root = _grow(np.arange(len(ids)), 0, former, before.root if before else None)
    if settings.cross_domain:
        _cross(root, matrix)
    return Taxonomy(
        name=DEFAULT_NAME,
        of=Of.AGENTS,
        built_by=BY_VECTORS,
        categories=_Naming(services, ids, matrix).name(root),
        settings=settings,
    )


def split(
    services: Sequence[Service], vectors: Vectors, category: Category, settings: TaxonomySettings, above: Iterable[str]
) -> list[Category]:
    """The category with children in place of what it holds, and the categories below it; alone if nothing parts it.

    `above`: the names of the categories it stands under, which its children do not repeat. Vectors: float32 of shape
    (dimension,).
    """
    ids = sorted(service.id for service in services if service.id in vectors)
    matrix = np.stack([vectors[entity] for entity in ids]).astype(np.float32)
    root = _grow(np.arange(len(ids)), category.depth, _Former(None, {}, matrix, settings), None)
    top, *below = _Naming(services, ids, matrix).name(root, [*above, category.name]).values()
    return [replace(category, axis=top.axis, children=top.children, holds=top.holds), *below]


# -- clusters ------------------------------------------------------------------------------------------


@dataclass(slots=True, kw_only=True)
class Node:
    """`rows`: of all that stand at it and below. `crossed`: of those that have it as a second parent."""

    rows: NDArray[np.int64]
    depth: int
    direction: Matrix
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
    node = Node(rows=rows, depth=depth, direction=direction_of(matrix))
    former_children = former.children(was, len(rows))[: settings.max_categories]
    least = settings.leaf_size * (STILL_SPLIT if former_children else 1)
    if len(rows) <= least or depth >= settings.max_depth:
        return node
    if former_children:
        labels, _ = _cluster(
            matrix, former.directions(former_children), settings.delete_size, former.labels(former_children)[rows]
        )
    else:
        count = min(max(ceil(len(rows) / settings.leaf_size), FEWEST_CHILDREN), settings.max_categories)
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


def _halve_large(labels: NDArray[np.int64], vectors: Matrix, settings: TaxonomySettings) -> bool:
    """Where no level is left, clusters over the leaf size become two, while there may be one more. In place; whether
    any did. Of several tries the most even one counts.
    """
    is_small = False
    while len(np.unique(labels)) < settings.max_categories:
        sizes = np.bincount(labels)
        largest = int(sizes.argmax())
        rows = np.flatnonzero(labels == largest)
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
            best = max(leaves, key=lambda leaf: float(matrix[row] @ leaf.direction))
            best.crossed.append(row)


# -- names ---------------------------------------------------------------------------------------------


class _Naming:
    """Names the nodes of one tree. `ids` and rows of `matrix` belong together."""

    def __init__(self, services: Iterable[Service], ids: Sequence[str], matrix: Matrix) -> None:
        words = {service.id: _words_of(service) for service in services}
        self._ids, self._matrix = list(ids), matrix
        terms_of_names = {service.id: {term for term, _ in telling_words(service.name)} for service in services}
        self._terms = [[*{term for term, _ in words[entity]}, *terms_of_names[entity]] for entity in ids]
        self._spelling = _spelling(words[entity] for entity in ids)
        having = Counter(term for terms in self._terms for term in set(terms))
        self._rarity = {term: rarity(number, len(ids)) for term, number in having.items()}

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
            holds = {} if children else {self._ids[row]: By.VECTORS for row in node.rows.tolist()}
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
        classes = [[self._terms[row] for row in child.rows.tolist()] for child in node.children]
        rankings = _telling_terms(classes, self._rarity)
        words = [[self._spelling[term] for term in terms if term not in avoid] or ["other"] for terms in rankings]
        names: list[str] = []
        for each in words:
            names.append(_free_name(each, names))
        directions = np.stack([child.direction for child in node.children])
        cosines = directions @ directions.T
        np.fill_diagonal(cosines, -np.inf)
        near = cosines.argmax(axis=1).tolist()
        return [
            Category(
                id=self._new_id(child),
                name=name,
                description=", ".join(each[:_DESCRIPTION_WORDS]),
                boundary=f"not here: {', '.join(words[sibling][:_BOUNDARY_WORDS])} (see {names[sibling]})",
                depth=child.depth,
                holds={},
                examples=self._examples(child),
            )
            for child, name, each, sibling in zip(node.children, names, words, near, strict=True)
        ]

    def _examples(self, node: Node) -> tuple[str, ...]:
        order = np.argsort(-(self._matrix[node.rows] @ node.direction), kind="stable")[:_EXAMPLES]
        return tuple(self._ids[row] for row in node.rows[order].tolist())

    def _new_id(self, node: Node) -> str:
        members = "\n".join(self._ids[row] for row in node.rows.tolist())
        return sha256(f"{node.depth}\n{members}".encode()).hexdigest()[:12]


def _words_of(service: Service) -> Counter[tuple[str, str]]:
    return Counter(telling_words(f"{service.name} {service.description} {service.words}"))


def _telling_terms(classes: Sequence[Sequence[Sequence[str]]], rare: Mapping[str, float]) -> list[list[str]]:
    """Of each class its terms, the most telling first: tf · log(1 + A / f), where f is how many services of all
    classes have the term, tf how many of the class, A how many terms a class has on average. One counts twice that has
    it in its name. `rare`: of a term in the whole tree, a further factor, since siblings are few.
    """
    counts = [Counter(term for terms in services for term in terms) for services in classes]
    everywhere = sum(counts, Counter[str]())
    average = everywhere.total() / len(classes)
    weights = {term: rare[term] * log(1 + average / number) for term, number in everywhere.items()}
    rankings: list[list[str]] = []
    for services, having in zip(classes, counts, strict=True):
        telling = Counter(term for terms in services for term in set(terms))
        # What one service alone says names no class of several.
        order = sorted((number == 1, -having[term] * weights[term], term) for term, number in telling.items())
        rankings.append([term for *_, term in order])
    return rankings


def _spelling(words: Iterable[Counter[tuple[str, str]]]) -> dict[str, str]:
    """Term → the word that stands for it most often."""
    counts = Counter[tuple[str, str]]()
    for each in words:
        counts.update(each)
    by_count = sorted(counts.items(), key=lambda item: (item[1], item[0]))
    return {term: word for (term, word), _ in by_count}


def _free_name(words: Sequence[str], names: Sequence[str]) -> str:
    """Of the first words, one more as long as a sibling bears the name; then numbered. A word is no other's plural."""
    words = [word for at, word in enumerate(words) if not any(word[:4] == other[:4] for other in words[:at])]
    for length in range(_NAME_WORDS, len(words) + 1):
        if (name := "-".join(words[:length])) not in names:
            return name
    first = "-".join(words[:_NAME_WORDS])
    return next(name for number in count(1) if (name := first if number == 1 else f"{first}-{number}") not in names)


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
        common = Counter(category for entity in mine for category in holding.get(entity, ()))
        for category, number in common.items():
            share = number / (len(mine) + len(former[category]) - number)
            if share > SAME:
                alike = each.depth == before.categories[category].depth
                yield share + (1e-9 if alike else 0.0), each.id, category
