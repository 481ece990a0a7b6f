"""The benchmark of taxonomies: what a perfect model pays, and that a model behind an endpoint is asked where one is."""

from collections.abc import Iterator, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path

import numpy as np
import pytest

from benchmarks import taxonomy
from benchmarks.naming import BY_TEXTS, Request, judge_names, judge_tree, tables_of
from benchmarks.world import EXAMPLES, World, data_folder
from tests.fake_openai import KEY, USAGE, FakeOpenAI, fake_openai
from waygraph.registry.model.nouns import Of
from waygraph.registry.model.settings import Settings
from waygraph.registry.storage.local_registry import LocalRegistry
from waygraph.registry.taxonomy.prompts import Service
from waygraph.registry.taxonomy.tree import By, Category, Taxonomy
from waygraph.registry.taxonomy.vectors_build import build_by_vectors
from waygraph_lab.evaluation.dataset import Asked


def category(name: str, *children: str, holds: Sequence[str] = (), crossed: Sequence[str] = ()) -> Category:
    held = dict.fromkeys(holds, By.VECTORS) | dict.fromkeys(crossed, By.CROSS)
    return Category(id=name, name=name, children=children, holds=held, depth=1)


def taxonomy_of(*rows: Category) -> Taxonomy:
    return Taxonomy(name="main", of=Of.AGENTS, built_by="vectors", categories={each.id: each for each in rows})


def grown(tree: Taxonomy, registry: LocalRegistry) -> taxonomy.Grown:
    ids = sorted(tree.below(tree.root))
    return taxonomy.Grown(
        name="by hand",
        registry=registry,
        taxonomy=tree,
        services=[Service(each, each.upper(), f"It does {each}.") for each in ids],
        vectors={each: np.eye(len(ids), dtype=np.float32)[at] for at, each in enumerate(ids)},
        seconds=0.0,
        count=len,
    )


TREE = taxonomy_of(category("root", "x", "y"), category("x", holds="ab"), category("y", holds="cd", crossed="a"))


@pytest.fixture
def registry() -> Iterator[LocalRegistry]:
    with LocalRegistry.open(":memory:", embedder="none") as opened:
        yield opened


@pytest.mark.parametrize("crosses", [True, False])
@pytest.mark.parametrize("gold", ["c", "bc", "a"])
def test_a_perfect_model_finds_all_that_is_right(registry: LocalRegistry, gold: str, crosses: bool) -> None:
    """It is asked of the root, then of what stands in the branches that it opened, put together as they are small."""
    tree = grown(TREE, registry)
    asked = Asked(id="q", texts=("do it",), gold=tuple(map(frozenset, gold)), gold_tools=())
    answer = taxonomy.perfect_sets(tree, TREE if crosses else taxonomy.without_crosses(TREE))(asked)
    assert (sorted(answer.ids), answer.calls) == (sorted(gold), 2)
    assert answer.tokens > 0


def test_a_beam_reaches_the_leaves_that_are_nearest(registry: LocalRegistry) -> None:
    directions = {"x": np.array([1, 1, 0, 0], np.float32), "y": np.array([0, 0, 1, 1], np.float32)}
    near_x = np.array([1, 0.5, 0.1, 0], np.float32)
    tree = grown(TREE, registry)
    assert taxonomy.walk_by_vectors(tree, directions, near_x, 1) == ["a", "b"]
    assert taxonomy.walk_by_vectors(tree, directions, near_x, 2) == ["a", "b", "c", "d"]


@pytest.mark.parametrize(
    ("names", "right"), [(("weather", "hotels"), (1.0, 0.75)), (("hotels", "weather"), (0.0, 0.25))]
)
def test_names_are_judged_blind(tmp_path: Path, names: tuple[str, str], right: tuple[float, float]) -> None:
    """Of equal scores each counts its share; what stands under both siblings, or under none, is not judged."""
    rows = [replace(category(name, holds=holds), id=holds) for name, holds in zip(names, ("ab", "cd"), strict=True)]
    tree = taxonomy_of(category("root", "ab", "cd"), *rows)
    requests = [
        Request("what will the weather be tomorrow", (frozenset("a"),)),
        Request("a room to sleep in tonight", (frozenset("d"),)),
        Request("weather and hotels", (frozenset("a"), frozenset("c"))),
        Request("of another catalogue", (frozenset("z"),)),
    ]
    world = World(settings=Settings(), environ={}, data=data_folder({}), cache=tmp_path)
    members = dict(zip("ad", world.embedder().embed(["rain and storm", "an inn with beds"], "document"), strict=True))
    (row,) = judge_names("by hand", tree, requests, world.embedder(), members)
    assert (row["choices"], row["chance"]) == (2, 0.5)
    assert (row["embedder, name"], row["BM25, name"]) == right
    assert row["members"] == float(names[0] == "weather")
    assert list(judge_names("a root alone", taxonomy_of(rows[0]), requests, world.embedder(), members)) == []


def test_names_are_judged_beside_those_by_texts_alone(registry: LocalRegistry, tmp_path: Path) -> None:
    """Of the same tree; the embedder is asked for the names, and their members alone choose them."""
    world = World(settings=Settings(), environ={}, data=data_folder({}), cache=tmp_path)
    embedder = world.embedder()
    texts = {"rain": "Rain and storm forecasts for a city", "loaf": "Loaf of bread from the oven of a bakery"}
    services = [Service(f"{kind}{at}", "z", text) for kind, text in texts.items() for at in range(30)]
    vectors = dict(
        zip([each.id for each in services], embedder.embed([each.text for each in services], "document"), strict=True)
    )
    embed = partial(embedder.embed, role="document")
    tree = build_by_vectors(services, vectors, embed=embed)
    all_of_it = replace(grown(TREE, registry), taxonomy=tree, services=services, vectors=vectors, embed=embed)
    requests = [Request("will there be rain", (frozenset({"rain0"}),))]
    (row,) = judge_tree(all_of_it, requests, embedder)
    assert row.keys() - {"tree", "choices", BY_TEXTS} == row[BY_TEXTS].keys()
    assert row["members"] >= row[BY_TEXTS]["members"]
    assert f"{row['members']:.3f} ({row[BY_TEXTS]['members']:.3f})" in tables_of({"rows": [row]})


@pytest.fixture
def endpoint() -> Iterator[FakeOpenAI]:
    with fake_openai() as running:
        running.answers = ['{"numbers": [1]}']
        yield running


def test_a_model_is_asked_where_an_endpoint_is_named(
    registry: LocalRegistry, endpoint: FakeOpenAI, tmp_path: Path
) -> None:
    environ = {"OPENAI_BASE_URL": endpoint.url, "OPENAI_API_KEY": KEY}
    settings = Settings(cache_dir=str(tmp_path))
    world = World(settings=settings, environ=environ, data=data_folder({}), cache=tmp_path, quick=True)
    dataset = replace(found := world.dataset(EXAMPLES), questions=found.questions[:3])
    ids = sorted({min(item) for question in dataset.questions for item in question.need.gold})
    flat = grown(taxonomy_of(category("root", holds=ids)), registry)
    rows = list(taxonomy.navigate_by_model(world, "m", EXAMPLES, dataset, flat))
    assert [row["method"] for row in rows][:2] == ["m: full context", "m: get_all, tree by the model"]
    names = [row["method"] for row in rows[7:]]
    assert names == [f"m: get_all, {told}" for told in taxonomy.ablations(len(ids))]
    for row in rows:
        assert (row["Calls"], row["Tokens"], row["Size"]) == (1, sum(USAGE.values()), 1)
        assert row["Hit"] > 0
