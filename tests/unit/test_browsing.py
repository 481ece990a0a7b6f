"""A taxonomy as somebody sees it: whatever may not be found is in no name, count, example or error."""

from collections.abc import Iterator, Sequence

import pytest
from hypothesis import given
from hypothesis import strategies as st

from waygraph.registry.model.errors import UnknownName
from waygraph.registry.model.nouns import Of
from waygraph.registry.taxonomy.browse import browse, members_within, prune_taxonomy
from waygraph.registry.taxonomy.tree import By, Category, Taxonomy

type Shape = tuple[Sequence[str], Sequence["Shape"]]
"""What a category holds, and its children."""
ENTITIES = "abcdefgh"
holdings = st.lists(st.sampled_from(ENTITIES), unique=True, max_size=4)
shapes: st.SearchStrategy[Shape] = st.recursive(
    st.tuples(holdings, st.just(())), lambda inner: st.tuples(holdings, st.lists(inner, max_size=3)), max_leaves=8
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


def walked(taxonomy: Taxonomy, path: str = "") -> Iterator[tuple[str, frozenset[str]]]:
    """Each path that browsing comes to, with what stands there."""
    found = browse(taxonomy, path)
    yield path, frozenset(found.members)
    for child in found.children:
        yield from walked(taxonomy, child.path)


@given(shapes, st.frozensets(st.sampled_from(ENTITIES)))
def test_of_any_tree_only_what_is_seen_is_told(shape: Shape, seen: frozenset[str]) -> None:
    whole = tree_of(shape)
    part = prune_taxonomy(whole, seen.__contains__)
    assert (part is None) == seen.isdisjoint(whole.below(whole.root))
    if part is None:
        return
    shown = dict(walked(part))
    assert frozenset().union(*shown.values()) == seen.intersection(whole.below(whole.root))
    for path in dict(walked(whole)):
        if path not in shown:
            with pytest.raises(UnknownName) as caught:
                browse(part, path)
            told = str(caught.value).replace(repr(path), "")
            names = {each.rpartition("/")[2] for each in shown}
            assert not any(name in told.split("'")[1::2] for name in whole.categories if name not in names)
            continue
        found = browse(part, path)
        assert found.count == len(members_within(part, path)) == len(members_within(whole, path) & seen)
        for member in found.members:
            assert browse(part, f"{path}/./{member}").members == (member,)
        if found.members:
            here = browse(part, f"{path}/.")
            assert (here.members, here.children, here.count) == (found.members, (), len(found.members))
        for child in found.children:
            assert child.count == len(members_within(whole, child.path) & seen) > 0
            assert set(child.examples) <= seen


TREE = tree_of(((), [(("a",), [(("b", "c"), ()), ((), ())]), (("d",), ())]))


@pytest.mark.parametrize("path", ["n0/n00", "/n0/n00/", " N0 / N00 "])
def test_a_path_is_taken_in_any_spelling(path: str) -> None:
    found = browse(TREE, path)
    assert (found.path, found.members, found.count) == ("n0/n00", ("b", "c"), 2)


def test_an_unknown_path_says_what_there_is() -> None:
    with pytest.raises(UnknownName, match="'n0' holds: n00") as caught:
        browse(TREE, "n0/n0O")
    assert caught.value.nearest[0] == "n0/n00"
    with pytest.raises(UnknownName, match="The root holds: n0, n1"):
        browse(TREE, "travel")


@pytest.mark.parametrize(
    ("built_by", "seen", "description", "boundary"),
    [
        ("vectors", "abc", "a, b", "not here: c (see cake)"),
        ("words", "ac", "", "not here: c (see cake)"),
        ("vectors", "ab", "a, b", ""),
        ("openai:m", "a", "a, b", ""),
    ],
)
def test_words_of_what_is_not_seen_are_left_out(built_by: str, seen: str, description: str, boundary: str) -> None:
    """A description that names examples, and what a boundary says of a sibling; one of a model tells of its members."""
    bread = Category(
        id="bread",
        name="bread",
        depth=1,
        description="a, b",
        boundary="not here: c (see cake)",
        examples=("a", "b"),
        holds=dict.fromkeys("ab", By.VECTORS),
    )
    cake = Category(id="cake", name="cake", depth=1, holds={"c": By.VECTORS})
    root = Category(id="root", name="", children=("bread", "cake"), holds={})
    whole = Taxonomy(
        name="main", of=Of.AGENTS, built_by=built_by, categories={each.id: each for each in (root, bread, cake)}
    )
    part = prune_taxonomy(whole, frozenset(seen).__contains__)
    assert part
    shown = browse(part, "bread")
    assert (browse(part, "").children[0].description, shown.description) == (description, description)
    assert (shown.boundary, part.categories["bread"].boundary) == (boundary, boundary)
