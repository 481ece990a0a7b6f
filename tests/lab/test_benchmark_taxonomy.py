"""The benchmark of taxonomies: what a perfect model pays, and that a model behind an endpoint is asked where one is."""

import json
import subprocess
import sys
import threading
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from benchmarks import taxonomy
from benchmarks.naming import BY_TEXTS, Request, judge_names, judge_tree, tables_of
from benchmarks.one_shot import AXIS, VARIANTS
from benchmarks.record import PROJECT
from benchmarks.rewriting import read_need
from benchmarks.taxonomy_by_model import ablations, measured_break_even, navigate_by_model
from benchmarks.trees import Grown, perfect_sets
from benchmarks.world import EXAMPLES, World, data_folder
from tests.fake_openai import KEY, USAGE, FakeOpenAI, fake_openai
from waygraph.ingest.sources.read import read_path
from waygraph.ingest.sync.apply import sync
from waygraph.registry.model.nouns import Of
from waygraph.registry.model.settings import Settings
from waygraph.registry.storage.local_registry import LocalRegistry
from waygraph.registry.taxonomy.prompts import Service
from waygraph.registry.taxonomy.tree import By, Category, Taxonomy
from waygraph.registry.taxonomy.vectors_build import build_by_vectors
from waygraph_lab.evaluation.asking import QueryFailed
from waygraph_lab.evaluation.dataset import Asked


def category(name: str, *children: str, holds: Sequence[str] = (), crossed: Sequence[str] = ()) -> Category:
    held = dict.fromkeys(holds, By.VECTORS) | dict.fromkeys(crossed, By.CROSS)
    return Category(id=name, name=name, children=children, holds=held, depth=1)


def taxonomy_of(*rows: Category) -> Taxonomy:
    return Taxonomy(name="main", of=Of.AGENTS, built_by="vectors", categories={each.id: each for each in rows})


def grown(tree: Taxonomy, registry: LocalRegistry) -> Grown:
    ids = sorted(tree.below(tree.root))
    return Grown(
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
        fill(opened)
        yield opened


def fill(registry: LocalRegistry) -> None:
    """With the example catalogue."""
    for manifest in read_path(str(PROJECT / "examples" / "catalog"), registry.settings):
        sync(registry, manifest)


@pytest.mark.parametrize("crosses", [True, False])
@pytest.mark.parametrize("gold", ["c", "bc", "a"])
def test_a_perfect_model_finds_all_that_is_right(registry: LocalRegistry, gold: str, crosses: bool) -> None:
    """It is asked of the root, then of what stands in the branches that it opened, put together as they are small."""
    tree = grown(TREE, registry)
    asked = Asked(id="q", texts=("do it",), gold=tuple(map(frozenset, gold)), gold_tools=())
    answer = perfect_sets(tree, TREE if crosses else taxonomy.without_crosses(TREE))(asked)
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
    endpoint.answer = guide
    with world.asking(taxonomy.NAME) as asking:
        rows, builds = navigate_by_model(world, asking, "m", EXAMPLES, dataset, flat)
    told = [row["method"] for row in rows]
    assert told[:3] == ["m: full context", "m: full context, whole texts", "m: get_all, tree by vectors"]
    assert told[5:8] == [f"m: {mode}, tree by the model" for mode in ("get_all", "get_important", "get_one")]
    assert told[8:-2] == [f"m: get_all, {each}" for each in (*ablations(len(ids)), *VARIANTS)]
    assert told[-2:] == [f"m: MCP-Zero's rewriting, first {size}" for size in (5, 10)]
    assert [build["build"] for build in builds] == ["the model", *ablations(len(ids)), *VARIANTS]
    for row in rows[:8]:
        assert (row["Calls"], row["Tokens"], row["Size"]) == (1, sum(USAGE.values()), 1)
        assert row["Hit"] > 0
    shots = {build["build"]: build for build in builds if build["build"] in VARIANTS}
    services = len(ids)
    assert shots["one shot"]["calls"] == 1 + services
    assert shots["one shot, keyword table"]["calls"] == 2 + services
    assert {(each["entities"], each["depth"]) for each in shots.values()} == {(services - 1, 3)}
    assert shots["one shot, refinement"]["calls"] == 2 + services, "the catalogue is the same again"
    designs = [each["messages"] for each in endpoint.requests if "catalogue" in each["messages"][0]["content"]]
    assert sum(AXIS in system["content"] for system, _ in designs) == 1
    even = list(measured_break_even(rows, builds))
    assert even[0]["by"] == "m: tree by the model"
    assert all(each["walk, tokens"] > 0 for each in even)


def guide(request: Mapping[str, Any]) -> str:
    """Opens and takes the first choice; designs a catalogue of two leaves, and puts one service into none."""
    if "<tool_assistant>" in request["messages"][0]["content"]:
        return "<tool_assistant>\nserver: Trackers\ntool: find what is lost\n</tool_assistant>"
    told = json.loads(request["messages"][1]["content"])
    if "choices" in told:
        return '{"numbers": [1]}'
    if "known" in told:
        return '{"keywords": [{"number": 1, "keywords": ["tracking"]}]}'
    if "service" in told:
        is_lost = told["service"]["name"] == min(SEEN)
        return json.dumps({"path": "Nowhere" if is_lost else told["leaves"][0]})
    SEEN.update(each["name"] for each in told.get("services", ()))
    below = [{"name": "All", "children": [{"name": "Everything"}]}]
    return json.dumps({"categories": [{"name": name, "children": below} for name in ("Work", "Life")]})


SEEN: set[str] = set()
"""The names of services that `guide` was shown."""


NIGHT = """
import sys
from pathlib import Path
from tests.lab.test_benchmark_taxonomy import navigate_kept
navigate_kept(Path(sys.argv[1]), sys.argv[2])
"""


def navigate_kept(folder: Path, url: str, jobs: int = 1) -> list[dict[str, Any]]:
    """A few questions by a model over a small tree; the lines and the answers of builds are in `folder`."""
    environ = {"OPENAI_BASE_URL": url, "OPENAI_API_KEY": KEY}
    settings = Settings(cache_dir=str(folder), openai_retries=0)
    world = World(settings=settings, environ=environ, data=folder, cache=folder, jobs=jobs, lines=folder)
    dataset = replace(found := world.dataset(EXAMPLES), questions=found.questions[:6])
    with LocalRegistry.open(":memory:", embedder="none") as registry, world.asking(taxonomy.NAME) as asking:
        fill(registry)
        return navigate_by_model(world, asking, "m", EXAMPLES, dataset, grown(TREE, registry))[0]


def test_a_killed_run_goes_on(endpoint: FakeOpenAI, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """In a process of its own, killed while a query of a walk waits: what has a line is not asked again, and no call
    of a build is. What it costs is told before and after.
    """
    waits, killed, walks = threading.Event(), threading.Event(), list[str]()

    def wait_in_a_walk(request: Mapping[str, Any]) -> str:
        if '"choices"' in request["messages"][1]["content"]:
            walks.append(request["messages"][1]["content"])
        if len(walks) == 15 and not killed.is_set():
            waits.set()
            killed.wait(100)
        return guide(request)

    endpoint.answer = wait_in_a_walk
    command = [sys.executable, "-c", NIGHT, str(tmp_path), endpoint.url]
    quiet = subprocess.DEVNULL
    with subprocess.Popen(command, cwd=PROJECT, stdin=quiet, stdout=quiet, stderr=quiet) as process:
        try:
            assert waits.wait(100)
        finally:
            process.kill()
            killed.set()
    lines = [json.loads(line) for line in (tmp_path / "taxonomy.jsonl").read_text(encoding="utf-8").splitlines()]
    assert [line["id"] for line in lines[:7]] == [*(line["id"] for line in lines[:6]), lines[0]["id"]]
    endpoint.requests.clear()
    rows = navigate_kept(tmp_path, endpoint.url, jobs=3)
    asked = [each["messages"][1]["content"] for each in endpoint.requests]
    assert all('"choices"' in text or text.startswith("I need to ") for text in asked), "a build is asked again"
    told = capsys.readouterr().err
    assert f"; {len(lines)} queries were not asked again; the lines are in {tmp_path / 'taxonomy.jsonl'}" in told
    assert f"taxonomy: asked: {len(asked)} calls, {len(asked) * USAGE['prompt_tokens']:,} + " in told
    queries = 6 * len(rows)
    assert f"estimate for {queries} queries, {len(lines)} of them answered before: " in told
    endpoint.requests.clear()
    assert navigate_kept(tmp_path, endpoint.url) == rows
    assert endpoint.requests == []
    assert f"; {queries} queries were not asked again" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("answer", "need"),
    [
        (
            "<tool_assistant>\nserver: GitHub\ntool: open a pull request\n</tool_assistant>",
            "GitHub open a pull request",
        ),
        ("Server: maps\nTool: route</tool_assistant>", "maps route"),
        ("I cannot help.", ""),
    ],
)
def test_what_a_model_needs_is_read_of_its_block(answer: str, need: str) -> None:
    assert read_need(answer) == need


def test_a_query_that_failed_is_told_and_asked_again(endpoint: FakeOpenAI, tmp_path: Path) -> None:
    """Everything else is asked in the same run; there is no figure before that query has an answer."""
    endpoint.answer, endpoint.overloads = guide, 0
    navigate_kept(tmp_path, endpoint.url)
    (tmp_path / "taxonomy.jsonl").unlink()
    endpoint.overloads = 1
    with pytest.raises(QueryFailed, match=r"query '\w+', m: full context, .*: 127.0.0.1 still answers 429 after 1 try"):
        navigate_kept(tmp_path, endpoint.url)
    endpoint.requests.clear()
    navigate_kept(tmp_path, endpoint.url)
    assert len(endpoint.requests) == 1
