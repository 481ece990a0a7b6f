"""A blind test of categories' names: by a name and its siblings' names alone, which one is opened for a request?"""

from collections.abc import Iterator, Mapping, Sequence
from statistics import fmean
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from benchmarks.record import Measure, Result
from benchmarks.taxonomy import SETS, Grown, grow
from benchmarks.world import World
from waygraph.registry.index.analyser import query_terms, rarity, saturate, terms
from waygraph.registry.model.nouns import Of
from waygraph.registry.taxonomy.tree import Category, Taxonomy
from waygraph.registry.taxonomy.vectors_build import build_by_vectors
from waygraph_lab.evaluation.compare import markdown_table
from waygraph_lab.evaluation.dataset import Dataset
from waygraph_lab.evaluation.metrics import Gold

if TYPE_CHECKING:
    from waygraph.registry.embedding.embedder import Embedder
    from waygraph.registry.taxonomy.category_names import EmbedNames

BY_NAME, DESCRIBED = "name", "name and description"
LEAF_REACHED, MEMBERS = "leaf reached", "members"
CHOOSERS = tuple(f"{chooser}, {form}" for form in (BY_NAME, DESCRIBED) for chooser in ("embedder", "BM25"))
FIGURES = ("chance", MEMBERS, *CHOOSERS, LEAF_REACHED)
BY_TEXTS = "by texts alone"
"""The figures of the same tree with names that no embedder chose."""


NAME = "category_names"
NOTES = (
    "For each request whose right agents or tools stand under exactly one of some siblings, the embedder and BM25 "
    "choose among the siblings by their names alone, or by names and descriptions. `leaf reached`: how often the "
    "embedder comes to a leaf with something right, by names alone from the root.",
    "`members`: of what stands under siblings, the share to whose texts the name of their category is the nearest. No "
    "request is read for it, and names are chosen by it. In brackets: the same tree with names chosen by texts alone, "
    "as one has them that is built without an embedder, and as all trees had them before.",
    "Settings of the choice were tried on sets of `training`: metatool, bfcl, seal and nestools.",
)


def run(world: World) -> Result:
    """Skips the data sets that are not there."""
    rows: list[dict[str, Any]] = []
    for name, of in SETS:
        if world.has(name):
            dataset = world.dataset(name)
            with world.registry_of([dataset.catalogue], texts="contextual") as registry:
                tree = grow(registry, f"{dataset.name}, {of.value}", of, len)
            rows += judge_tree(tree, requests_of(dataset, of), world.embedder())
    return Result(
        name=NAME,
        embedder=world.embedder().fingerprint,
        measures=[
            Measure(name=f"{row['tree']}, {figure}, {by}", value=figures[figure])
            for row in rows
            for figure in (MEMBERS, CHOOSERS[0], LEAF_REACHED)
            for by, figures in (("by the embedder", row), (BY_TEXTS, row[BY_TEXTS]))
        ],
        notes=NOTES,
        details={"rows": rows},
    )


def judge_tree(tree: Grown, requests: Sequence["Request"], embedder: "Embedder") -> Iterator[dict[str, Any]]:
    """Its names, and as if they were chosen by texts alone."""
    former = judge_names(tree.name, build_by_vectors(tree.services, tree.vectors), requests, embedder, tree.vectors)
    for row, was in zip(judge_names(tree.name, tree.taxonomy, requests, embedder, tree.vectors), former, strict=True):
        yield {**row, BY_TEXTS: {figure: was[figure] for figure in FIGURES}}


class Request(NamedTuple):
    """`gold`: items, each a set of ids of which any one is right."""

    text: str
    gold: Gold


class _Choice(NamedTuple):
    """What to open for a request among siblings: only one of them, by its number, holds what is right."""

    category: str
    request: int
    right: int


def requests_of(dataset: Dataset, of: Of) -> list[Request]:
    """Questions and steps, with the agents or tools that are right."""
    asked = [each for by in dataset.usual_bys() for each in dataset.queries(by)]
    pairs = [(each.texts[0], each.gold if of is Of.AGENTS else each.gold_tools) for each in asked]
    return [Request(text, gold) for text, gold in pairs if gold and text.strip()]


def judge_names(
    name: str,
    taxonomy: Taxonomy,
    requests: Sequence[Request],
    embedder: "Embedder",
    members: Mapping[str, NDArray[np.float32]],
) -> Iterator[dict[str, Any]]:
    """One row, or none where no request can be judged. Of equally good siblings each counts its share.

    `members`: the vectors of what the tree holds, float32 of shape (dimension,), by the same embedder.
    """
    choices = list(_choices(taxonomy, requests))
    if not choices:
        return
    vectors = embedder.embed([each.text for each in requests], "query")
    words = [query_terms(each.text) for each in requests]
    texts = {each.id: _texts(taxonomy, each) for each in taxonomy.categories.values() if len(each.children) > 1}
    ways = {
        (category, form): embedder.embed(lines, "document")
        for category, forms in texts.items()
        for form, lines in forms.items()
    }
    shares: dict[str, list[float]] = {chooser: [] for chooser in CHOOSERS}
    for choice in choices:
        for form, lines in texts[choice.category].items():
            by_vectors = ways[choice.category, form] @ vectors[choice.request]
            shares[f"embedder, {form}"].append(_right_share(by_vectors, choice.right))
            shares[f"BM25, {form}"].append(_right_share(_bm25(lines, words[choice.request]), choice.right))
    by_name = {category: way for (category, form), way in ways.items() if form == BY_NAME}
    reached = [_reaches(taxonomy, each, vector, by_name) for each, vector in zip(requests, vectors, strict=True)]
    means = {chooser: round(fmean(each), 3) for chooser, each in shares.items()}
    chance = fmean(1 / len(texts[choice.category][BY_NAME]) for choice in choices)
    yield {
        "tree": name,
        "choices": len(choices),
        "chance": round(chance, 3),
        MEMBERS: share_found_by_name(taxonomy, members, lambda names: embedder.embed(names, "document")),
        **means,
        LEAF_REACHED: round(fmean(reached), 3),
    }


def share_found_by_name(
    taxonomy: Taxonomy, vectors: "Mapping[str, NDArray[np.float32]]", embed: "EmbedNames"
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


def _reaches(
    taxonomy: Taxonomy, request: Request, vector: NDArray[np.float32], ways: Mapping[str, NDArray[np.float32]]
) -> bool:
    """Whether the category to which the nearest names lead holds something right. float32 of shape (dimension,), and
    of each category (children, dimension).
    """
    at = taxonomy.root
    while at.children:
        nearest = int((ways[at.id] @ vector).argmax()) if at.id in ways else 0
        at = taxonomy.categories[at.children[nearest]]
    return any(item & at.holds.keys() for item in request.gold)


def _choices(taxonomy: Taxonomy, requests: Sequence[Request]) -> Iterator[_Choice]:
    for category in taxonomy.categories.values():
        below = [set(taxonomy.below(taxonomy.categories[child])) for child in category.children]
        for number, request in enumerate(requests if len(below) > 1 else ()):
            places = [{place for place, held in enumerate(below) if item & held} for item in request.gold]
            if all(places) and len(right := set[int]().union(*places)) == 1:
                yield _Choice(category.id, number, right.pop())


def _texts(taxonomy: Taxonomy, category: Category) -> dict[str, list[str]]:
    """Of its children, as they are told to a chooser."""
    children = [taxonomy.categories[child] for child in category.children]
    names = [child.name.replace("-", " ") for child in children]
    described = [f"{name}: {child.description}" for name, child in zip(names, children, strict=True)]
    return {BY_NAME: names, DESCRIBED: described}


def _right_share(scores: NDArray[Any], right: int) -> float:
    best = np.flatnonzero(np.isclose(scores, scores.max()))
    return float(right in best) / len(best)


def _bm25(texts: Sequence[str], query: Sequence[str]) -> NDArray[np.float64]:
    """Of each text: float64 of shape (texts,)."""
    words = [terms(text) for text in texts]
    lengths = np.array([len(each) for each in words])
    scores = np.zeros(len(texts))
    for term in query:
        counts = np.array([each.count(term) for each in words])
        if having := int((counts > 0).sum()):
            scores += rarity(having, len(texts)) * saturate(counts, lengths, float(lengths.mean()))
    return scores


def tables_of(details: Mapping[str, Any]) -> str:
    """For each tree how often the right category was chosen, and by names of texts alone."""
    rows = [[row["tree"], str(row["choices"]), *(_cell(row, each) for each in FIGURES)] for row in details["rows"]]
    title = "The right category by its name alone, and by name and description, as a share of choices:"
    return f"{title}\n\n{markdown_table(('tree', 'choices', *FIGURES), rows)}"


def _cell(row: Mapping[str, Any], figure: str) -> str:
    return f"{row[figure]:.3f} ({row[BY_TEXTS][figure]:.3f})"
