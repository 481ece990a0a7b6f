"""A taxonomy as somebody sees it: whatever may not be found is in no name, count, example or error."""

from collections.abc import Iterator, Sequence

import pytest
from hypothesis import given
from hypothesis import strategies as st

from waygraph.registry.model.errors import UnknownName
from waygraph.registry.taxonomy.browse import browse, members_within, paths, prune_taxonomy
from waygraph.registry.taxonomy.tree import By, Category, Of, Taxonomy

type Shape = tuple[Sequence[str], Sequence["Shape"]]
"""What a category holds, and its children."""
ENTITIES = "abcdefgh"
holdings = st.lists(st.sampled_from(ENTITIES), unique=True, max_size=4)
shapes: st.SearchStrategy[Shape] = st.recursive(
    st.tuples(holdings, st.just(())),
    lambda inner: st.tuples(holdings, st.lists(inner, max_size=3)),
    max_leaves=8,
)


def tree_of(shape: Shape) -> Taxonomy:
    """Names tell the place: `n0`, below it `n00` and `n01`."""
    categories: dict[str, Category] = {}

    def add(name: str, shape: Shape, depth: int) -> None:
        holds, children = shape
        names = [f"{name}{at}" for at in range(len(children))]
        categories[name] = Category(
            id=name, name=name, depth=depth, children=tuple(names), holds=dict.fromkeys(holds, By.VECTORS)
        )
        for child, below in zip(names, children, strict=True):
            add(child, below, depth + 1)

    add("n", shape, 0)
    return Taxonomy(name="main", of=Of.AGENTS, built_by="vectors", categories=categories)


def walked(taxonomy: Taxonomy, seen: frozenset[str], path: str = "") -> Iterator[tuple[str, frozenset[str]]]:
    """Each path that browsing comes to, with what stands there."""
    found = browse(taxonomy, path, seen)
    yield path, frozenset(found.members)
    for child in found.children:
        yield from walked(taxonomy, seen, child.path)


@given(shapes, st.frozensets(st.sampled_from(ENTITIES)))
def test_of_any_tree_only_what_is_seen_is_told(shape: Shape, seen: frozenset[str]) -> None:
    taxonomy = tree_of(shape)
    every = frozenset(ENTITIES)
    shown = dict(walked(taxonomy, seen))
    assert frozenset().union(*shown.values()) == seen.intersection(taxonomy.below(taxonomy.root))
    for path in dict(walked(taxonomy, every)):
        if path and path not in shown:
            with pytest.raises(UnknownName) as caught:
                browse(taxonomy, path, seen)
            told = str(caught.value).replace(repr(path), "")
            names = {each.rpartition("/")[2] for each in shown}
            assert not any(name in told.split("'")[1::2] for name in taxonomy.categories if name not in names)
            continue
        found = browse(taxonomy, path, seen)
        assert (
            found.count
            == len(members_within(taxonomy, path, seen))
            == len(members_within(taxonomy, path, every) & seen)
        )
        for member in found.members:
            assert browse(taxonomy, f"{path}/./{member}", seen).members == (member,)
        if found.members:
            here = browse(taxonomy, f"{path}/.", seen)
            assert (here.members, here.children, here.count) == (found.members, (), len(found.members))
        for child in found.children:
            assert child.count == len(members_within(taxonomy, child.path, every) & seen) > 0
            assert set(child.examples) <= seen
    assert set(shown) - {""} == {path for path, _ in paths(taxonomy, seen) if path}


TREE = tree_of(((), [(("a",), [(("b", "c"), ()), ((), ())]), (("d",), ())]))


@pytest.mark.parametrize("path", ["n0/n00", "/n0/n00/", " N0 / N00 "])
def test_a_path_is_taken_in_any_spelling(path: str) -> None:
    found = browse(TREE, path, frozenset(ENTITIES))
    assert (found.path, found.members, found.count) == ("n0/n00", ("b", "c"), 2)


def test_an_unknown_path_says_what_there_is() -> None:
    with pytest.raises(UnknownName, match="'n0' holds: n00") as caught:
        browse(TREE, "n0/n0O", frozenset(ENTITIES))
    assert caught.value.nearest[0] == "n0/n00"
    with pytest.raises(UnknownName, match="The root holds: n0, n1"):
        browse(TREE, "travel", frozenset(ENTITIES))


def test_a_description_that_names_examples_is_read_by_who_may_find_them_all() -> None:
    """One of a model is written by the model, and stays."""
    categories = {
        "root": Category(id="root", name="", children=("bread",), holds={}),
        "bread": Category(
            id="bread",
            name="bread",
            depth=1,
            description="a, b",
            examples=("a", "b"),
            holds=dict.fromkeys("ab", By.VECTORS),
        ),
    }
    for built_by, seen, description in (("vectors", "ab", "a, b"), ("words", "a", ""), ("openai:m", "a", "a, b")):
        tree = Taxonomy(name="main", of=Of.AGENTS, built_by=built_by, categories=categories)
        assert browse(tree, "", frozenset(seen)).children[0].description == description
        assert browse(tree, "bread", frozenset(seen)).description == description
        part = prune_taxonomy(tree, frozenset(seen).__contains__)
        assert part
        assert part.categories["bread"].description == description
