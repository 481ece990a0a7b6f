"""Taxonomies on a terminal: where each stands, one category with what is below it, numbers, differences."""

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

from waygraph.api.cli.render.blocks import Aside, Block, Fields, Table

if TYPE_CHECKING:
    from waygraph.registry.taxonomy.model_build import Estimate
    from waygraph.registry.taxonomy.structure import Difference, Drift, Structure
    from waygraph.registry.taxonomy.tree import Category, Taxonomy


class CategoryView(NamedTuple):
    """A category of a taxonomy, as it is shown. `path` empty: the root."""

    taxonomy: "Taxonomy"
    category: "Category"
    path: str

    @property
    def children(self) -> "list[tuple[Category, int]]":
        """With the number of entities below each."""
        below = (self.taxonomy.categories[child] for child in self.category.children)
        return [(each, sum(1 for _ in self.taxonomy.below(each))) for each in below]


def category_json(view: CategoryView) -> dict[str, Any]:
    category, taxonomy = view.category, view.taxonomy
    return {
        "taxonomy": taxonomy.name,
        "built_by": taxonomy.built_by,
        "of": taxonomy.of.value,
        "path": view.path,
        "description": category.description,
        "boundary": category.boundary,
        "entities": sum(1 for _ in taxonomy.below(category)),
        "children": [
            {"name": each.name, "description": each.description, "boundary": each.boundary, "entities": entities}
            for each, entities in view.children
        ],
        "holds": [{"id": entity, "by": by.value} for entity, by in category.holds.items()],
    }


def view_category(view: CategoryView) -> Iterator[Block]:
    category, taxonomy = view.category, view.taxonomy
    yield Fields(
        (
            ("taxonomy", f"{taxonomy.name}, of {taxonomy.of}, built by {taxonomy.built_by}"),
            ("path", view.path or "/"),
            ("description", category.description),
            ("boundary", category.boundary),
            (str(taxonomy.of), sum(1 for _ in taxonomy.below(category))),
        )
    )
    if category.children:
        rows = [(each.name, entities, each.description, each.examples[:2]) for each, entities in view.children]
        yield Table(columns=("category", str(taxonomy.of), "description", "such as"), rows=rows, brief=("description",))
    if category.holds:
        yield Table(
            columns=(str(taxonomy.of), "placed by"), rows=[(each, by.value) for each, by in category.holds.items()]
        )


def view_drift(taxonomies: "Sequence[Drift]") -> Iterator[Block]:
    counts = ("categories", "holds", "nearest", "far", "over size", "unplaced")
    rows = [
        (
            f"{each.name} (current)" if each.current else each.name,
            each.of,
            each.built_by,
            each.built_at[:19],
            each.categories,
            each.entities,
            each.nearest,
            each.far,
            each.over_size,
            each.unplaced,
        )
        for each in taxonomies
    ]
    yield Table(columns=("taxonomy", "of", "built by", "built at", *counts), rows=rows)
    for each in taxonomies:
        if each.rebuild:
            yield Aside(f"build {each.name} anew: {each.rebuild}")


def view_structure(numbers: "Structure") -> Iterator[Block]:
    yield Fields(tuple((name.replace("_", " "), getattr(numbers, name)) for name in numbers.__dataclass_fields__))


def view_estimate(estimate: "Estimate") -> Iterator[Block]:
    yield Fields(tuple((name.replace("_", " "), getattr(estimate, name)) for name in estimate.__dataclass_fields__))


def view_difference(difference: "Difference") -> Iterator[Block]:
    yield Fields(
        (
            ("categories kept", difference.kept),
            ("moved", difference.moved),
            ("gone", difference.gone),
            ("new", difference.new),
        )
    )
    rows = [("only in the first", path, "") for path in difference.only_first]
    rows += [("only in the second", "", path) for path in difference.only_second]
    rows += [("renamed", was, now) for was, now in difference.renamed]
    if rows:
        yield Table(columns=("what", "first", "second"), rows=rows)
