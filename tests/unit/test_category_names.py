"""What categories are called, on real catalogues and through the command."""

import json
import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path

import numpy as np
import pytest
from numpy.typing import NDArray

from waygraph.api.cli.app import main
from waygraph.ingest.sources.read import read_path
from waygraph.ingest.sync.apply import sync
from waygraph.registry.index.analyser import telling_words
from waygraph.registry.model.nouns import Of
from waygraph.registry.model.settings import Settings
from waygraph.registry.storage.local_registry import LocalRegistry
from waygraph.registry.taxonomy.category_names import CategoryNamer, choose_names, domains, remember, verbs
from waygraph.registry.taxonomy.prompts import Service
from waygraph.registry.taxonomy.tree import TaxonomySettings
from waygraph.registry.taxonomy.vectors_build import build_by_vectors, build_by_words

CATALOG = Path(__file__).parents[2] / "examples" / "catalog"
SIZES = TaxonomySettings(leaf_size=12)

type Run = Callable[..., tuple[int, str, str]]


@pytest.fixture
def run(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> Run:
    """A command on a registry without an embedder: status, stdout, stderr."""

    def call(*words: str) -> tuple[int, str, str]:
        code = main(["--registry", str(tmp_path / "r.grafeo"), "--embedder", "none", *words])
        said = capsys.readouterr()
        return code, said.out, said.err

    return call


def catalogue(folder: Path, agents: int) -> str:
    """Three kinds of agents in turn, of two tools each."""
    kinds = (
        ("weather", "Forecasts of rain and storm for any city"),
        ("hotels", "Rooms of hotels and flights for a trip"),
        ("code", "Pull requests and commits of a git repository"),
    )
    rows = [
        {
            "id": f"zork-{number}",
            "name": f"Zork {number}",
            "description": f"{text}, branch {number}",
            "tools": [{"name": f"get_{kind}_{each}_{number}", "description": f"Get {text}: {each}"} for each in "ab"],
        }
        for number in range(agents)
        for kind, text in [kinds[number % len(kinds)]]
    ]
    path = folder / f"of-{agents}.json"
    path.write_text(json.dumps({"waygraph": 1, "agents": rows}), encoding="utf-8")
    return str(path)


@pytest.mark.parametrize("of", list(Of))
def test_names_of_the_examples(of: Of) -> None:
    """At most two words, no verb, no name of an agent, no sibling's name, and of several members."""
    with LocalRegistry.open(":memory:", embedder="none", settings=Settings(), environ={}) as registry:
        for manifest in read_path(str(CATALOG), Settings()):
            sync(registry, manifest)
        agents = {re.sub(r"\W+", "-", agent.name.lower()) for agent in registry.agents()}
        tree = registry.build_taxonomy(partial(build_by_words, settings=SIZES), of=of)
    below_root = [each for each in tree.categories.values() if each.depth]
    assert len(below_root) >= 5
    for each in below_root:
        assert re.fullmatch(r"[^\W_]+(-[^\W_]+)?(-\d+)?", each.name)
        assert each.name not in agents
        terms = [term for term, word in telling_words(each.name) if word not in domains()]
        assert not verbs() & set(terms)
        assert 0 < len(each.description.split(", ")) <= 3
        assert set(each.examples) <= set(tree.below(each))
    for each in tree.categories.values():
        names = [tree.categories[child].name for child in each.children]
        assert len(set(names)) == len(names)


def services(prefix: str, texts: Sequence[str], name: str = "", tags: tuple[str, ...] = ()) -> list[Service]:
    return [Service(f"{prefix}{at}", name or f"{prefix} {at}", text, tags=tags) for at, text in enumerate(texts)]


def test_what_members_share_names_them() -> None:
    """A domain whose words they use, a tag, a noun; no brand, verb, qualifier, filler or participle."""
    trips = services("trip", ["Book a hotel", "Find flights", "Zork lists airlines", "Zork gets hotels"], "Zork")
    bread = services(
        "bread",
        ["Create sourdough", "Create a loaf of sourdough", "An organized data api (https://zork.com/loaf): sourdough"]
        * 2,
    )
    chess = services("chess", ["It helps", "Powerful data", "Manages information"], tags=("chess openings",))
    classes = [[each.id for each in group] for group in (trips, bread, chess)]
    names, words = CategoryNamer([*trips, *bread, *chess]).name_siblings(classes, ())
    assert [name.partition("-")[0] for name in names] == ["travel", "sourdough", names[2].partition("-")[0]]
    assert set(names[2].split("-")) <= {"games", "chess", "openings"}
    used = {word for ranking in words for word in ranking}
    assert not used & {*"zork https com create find powerful organized data api information helps".split()}


def test_a_former_name_stays_while_it_fits() -> None:
    """Not if its words tell nothing apart any more, and not if two siblings had it."""
    bread = services("bread", ["Sourdough of rye", "Sourdough of rye and wheat", "Rye sourdough with yeast"])
    chess = services("chess", ["Chess openings", "Openings of chess", "Chess openings and problems"])
    classes = [[each.id for each in bread], [each.id for each in chess]]
    namer = CategoryNamer([*bread, *chess])
    fresh, _ = namer.name_siblings(classes, ())
    former = ["-".join(reversed(name.split("-"))) for name in fresh]
    assert namer.name_siblings(classes, (), former)[0] == former != fresh
    assert namer.name_siblings(classes, (), [fresh[1], fresh[1]])[0] == fresh
    assert namer.name_siblings(classes, (), [former[0], "adviser-desk"])[0] == [former[0], fresh[1]]


def test_equal_siblings_have_names_of_their_own() -> None:
    """No name repeats a word of the category above; where nothing is left, they are counted."""
    group = services("a", ["Rain and storm forecasts"] * 9)
    classes = [[each.id for each in group[at : at + 3]] for at in (0, 3, 6)]
    names, _ = CategoryNamer(group).name_siblings(classes, {term for term, _ in telling_words("weather rain storm")})
    assert len(set(names)) == 3
    assert not [name for name in names if {"weather", "rain", "storm"} & set(name.split("-"))]
    chinese = services("c", ["查询天气预报", "天气预报和气温", "获取天气预报"])
    plain = services("p", ["Bread of rye", "Rye and wheat", "Flour of rye"])
    names, _ = CategoryNamer([*chinese, *plain, *group]).name_siblings(
        [[each.id for each in chinese], [each.id for each in plain]], ()
    )
    assert all(name.isascii() for name in names)


def by_axes(*axes: str) -> Callable[[Sequence[str]], NDArray[np.float32]]:
    """An embedder whose texts point along the axes that they name; any other word has an axis of its own."""

    def embed(texts: Sequence[str]) -> NDArray[np.float32]:
        rows = np.array([[float(axis in text.split()) for axis in (*axes, "")] for text in texts], np.float32)
        rows[~rows.any(axis=1), -1] = 1.0
        scaled: NDArray[np.float32] = rows / np.linalg.norm(rows, axis=1, keepdims=True)
        return scaled

    return embed


def test_the_words_that_find_the_members_name_them() -> None:
    """Not the most telling word if the embedder leads nobody from it to the members."""
    embed = by_axes("trip", "hotel", "bread")
    trips, bread = embed(["trip hotel"] * 3), embed(["bread"] * 3)
    candidates = [{"assignee": 1.0, "trip": 0.9, "hotel": 0.8}, {"attachment": 1.0, "bread": 0.2}]
    assert choose_names(candidates, [trips, bread], embed) == ["trip-hotel", "bread"]
    assert choose_names(candidates, [trips, bread], remember(embed)) == ["trip-hotel", "bread"]


def test_a_second_word_finds_members_by_itself() -> None:
    """And is neither a form of the first one nor a word of a sibling's name."""
    embed = by_axes("trip", "trips", "bread")
    trips, bread = embed(["trip trips"] * 3), embed(["bread"] * 3)
    for second in ("assignee", "trips", "bread"):
        names = choose_names([{"trip": 1.0, second: 0.9}, {"bread": 1.0}], [trips, bread], embed)
        assert names == ["trip", "bread"]
    assert choose_names([{}, {"bread": 1.0}], [trips, bread], embed) == ["", "bread"]


def test_a_tree_is_named_by_the_embedder_of_its_vectors() -> None:
    """Equal builds have equal names, and a name that still fits stays."""
    words = {"bread": "Bread of rye, loaf", "chess": "Chess openings, board", "rain": "Rain and storm forecasts"}
    kinds = {f"{kind}{at}": Service(f"{kind}{at}", f"z {at}", text) for kind, text in words.items() for at in range(5)}
    embed = by_axes(*words, "loaf", "board")
    vectors = {each.id: embed([each.id.rstrip("01234")])[0] for each in kinds.values()}
    settings = TaxonomySettings(leaf_size=6)
    tree = build_by_vectors([*kinds.values()], vectors, settings=settings, embed=embed)
    assert {each.name.partition("-")[0] for each in tree.categories.values() if each.depth} == {*words}
    assert tree == build_by_vectors([*kinds.values()][::-1], vectors, settings=settings, embed=embed)


@dataclass(frozen=True, kw_only=True)
class Build:
    """What a build says and makes of a registry of so many agents."""

    agents: int
    says: str
    options: Sequence[str] = ()
    of: str = "agents"
    divides: bool = False


@pytest.mark.parametrize(
    "build",
    [
        Build(agents=1, says="fewer than 6 need no tree"),
        Build(agents=3, says="try --of tools --leaf-size 3"),
        Build(
            agents=3,
            options=("--leaf-size", "4"),
            of="tools",
            divides=True,
            says="all agents (3) fit into one leaf of 4, the tools (6) do not",
        ),
        Build(agents=3, options=("--leaf-size", "4", "--of", "agents"), says="try --of tools --leaf-size 3"),
        Build(agents=30, of="tools", divides=True, says="of tools"),
        Build(agents=60, divides=True, says="of agents (60)"),
        Build(agents=60, options=("--of", "tools", "--by", "words"), of="tools", divides=True, says=""),
    ],
    ids=lambda build: " ".join((str(build.agents), *build.options)),
)
def test_a_build_without_vectors(run: Run, tmp_path: Path, build: Build) -> None:
    """By words; it says of what and why, and what to do where nothing was divided. It is no failure."""
    assert run("ingest", catalogue(tmp_path, build.agents))[0] == 0
    code, _, notes = run("taxonomy", "build", *build.options)
    assert code == 0
    assert build.says in notes
    assert ("built by words" in notes) == ("--by" not in build.options)
    code, out, _ = run("taxonomy", "show", "--json")
    shown = json.loads(out)
    assert (code, shown["of"], shown["built_by"]) == (0, build.of, "words")
    assert bool(shown["children"]) == build.divides
    assert not [each for each in shown["children"] if "zork" in each["path"]]


def test_a_build_names_agents_that_state_no_description(run: Run, tmp_path: Path) -> None:
    run("ingest", catalogue(tmp_path, 3))
    assert "state no description" not in run("taxonomy", "build")[2]
    (tmp_path / "mute.json").write_text(
        json.dumps({"waygraph": 1, "agents": [{"id": "mute", "name": "Mute", "tools": [{"name": "go"}]}]})
    )
    run("ingest", str(tmp_path / "mute.json"))
    assert "1 of 4 agents state no description: mute" in run("taxonomy", "build")[2]


def test_a_build_by_vectors_needs_some(run: Run, tmp_path: Path) -> None:
    run("ingest", catalogue(tmp_path, 3))
    code, _, error = run("taxonomy", "build", "--by", "vectors")
    assert code != 0
    assert "waygraph reindex" in error
    code, _, error = run("taxonomy", "build", "--by", "words", "--model", "openai:m")
    assert code != 0
    assert "--by words needs no model" in error
