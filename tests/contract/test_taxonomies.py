"""Trees of categories in every place: built, seen, kept current, forgotten, copied, checked."""

import json
import random
from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, cast

import numpy as np
import pytest

from tests.shelf import Edition, Shelf, filled
from waygraph import Principal
from waygraph.ingest.manifest.records import Manifest
from waygraph.ingest.sources.read import read_path
from waygraph.ingest.sync.apply import sync
from waygraph.registry.model.changes import AgentEntry, Policy
from waygraph.registry.model.errors import InvalidSetting, NotAllowed, SourceError, UnknownName
from waygraph.registry.model.identity import sealed_agent, sealed_tool
from waygraph.registry.model.nouns import Agent, Of, Tool
from waygraph.registry.model.settings import Settings
from waygraph.registry.storage.integrity.examine import examine
from waygraph.registry.storage.local_registry import LocalRegistry
from waygraph.registry.storage.migrate import migrate
from waygraph.registry.taxonomy.browse import browse
from waygraph.registry.taxonomy.category_names import domains
from waygraph.registry.taxonomy.prompts import Service
from waygraph.registry.taxonomy.rows import put_taxonomy
from waygraph.registry.taxonomy.taxonomies import read_drift
from waygraph.registry.taxonomy.tree import By, Category, Taxonomy, TaxonomySettings
from waygraph.registry.taxonomy.vectors_build import Vectors, build_by_vectors, build_by_words

THEMES = {
    "boats": "sail a boat across the harbour with wind and rudder",
    "bread": "bake bread from flour and yeast in a hot oven",
    "chess": "play chess openings against a grandmaster",
    "tax": "file an income tax return with the revenue office",
    "stars": "observe stars and planets by telescope at night",
    "dogs": "train a dog to fetch and walk on a leash",
}
EACH = 8
SMALL = TaxonomySettings(leaf_size=9, delete_size=1)
PUBLIC = Principal()


def small(services: Sequence[Service], vectors: Vectors, before: Taxonomy | None) -> Taxonomy:
    return build_by_vectors(services, vectors, before, SMALL)


def entry(theme: str, number: int, *, text: str = "", visible_to: tuple[str, ...] = ()) -> AgentEntry:
    name = f"{theme}-{number}"
    told = text or f"{THEMES[theme]}, place {number}"
    agent = sealed_agent(Agent(id=name, name=name, description=told, visible_to=visible_to))
    tool = sealed_tool(Tool(id=f"{name}/go", agent_id=name, name="go", description=told))
    return AgentEntry(key=name, agent=agent, tools=(tool,))


def entries(visible_to: tuple[str, ...] = ()) -> list[AgentEntry]:
    return [entry(theme, number, visible_to=visible_to) for theme in THEMES for number in range(EACH)]


def feed(registry: LocalRegistry, told: Sequence[AgentEntry], policy: Policy | None = None) -> None:
    sync(registry, Manifest(source="themes", entries=tuple(told), policy=policy), allow_mass_removal=True)


@pytest.fixture
def registry(shelf: Shelf) -> Iterator[LocalRegistry]:
    """48 agents of six themes."""
    with filled(shelf.empty(), Edition()) as opened:
        for source in opened.sources():
            opened.operator.forget(source.name)
        feed(opened, entries())
        yield opened


def current(registry: LocalRegistry, principal: Principal | None = None) -> Taxonomy:
    return registry.operator.taxonomy(principal=principal)


def leaf_of(taxonomy: Taxonomy, entity: str) -> list[tuple[str, By]]:
    return [
        (path, taxonomy.categories[each].holds[entity])
        for each, path in taxonomy.paths().items()
        if entity in taxonomy.categories[each].holds
    ]


def test_like_stands_with_like(registry: LocalRegistry) -> None:
    """In leaves of the size asked for, with names of their own words; the same tree again, by graph and index."""
    with pytest.raises(UnknownName):
        registry.operator.taxonomy()
    built = registry.build_taxonomy(small)
    assert built == current(registry)
    taxonomy = current(registry)
    top = [taxonomy.categories[child] for child in taxonomy.root.children]
    assert len(set(taxonomy.below(taxonomy.root))) == len(THEMES) * EACH
    assert len(top) >= 5
    assert all(len(each.holds) <= 9 for each in taxonomy.categories.values())
    mixed = [each for each in top if len({name.partition("-")[0] for name in taxonomy.below(each)}) > 1]
    assert not mixed
    assert len({each.name for each in top}) == len(top)
    assert all(each.description and each.boundary.startswith("not here: ") and each.examples for each in top)
    assert taxonomy.built_by == "vectors"
    again = registry.build_taxonomy(small)
    assert again.categories == taxonomy.categories


def test_a_tree_is_open_to_cypher(registry: LocalRegistry) -> None:
    registry.build_taxonomy(small)
    rows = registry.operator.cypher(
        "MATCH (:Taxonomy {id: 'main'})-[:ROOT]->(:Category)-[:HAS*1..3]->(c)-[h:HOLDS]->(:Agent {id: 'tax-1'}) "
        "RETURN c.name AS category, h.by AS by"
    ).rows
    path, by = leaf_of(current(registry), "tax-1")[0]
    assert [tuple(row) for row in rows] == [(path.rpartition("/")[2], by.value)]


def names_current(registry: LocalRegistry) -> list[str]:
    return [each.name for each in registry.read(read_drift) if each.current]


def test_one_of_several_is_current(registry: LocalRegistry) -> None:
    """A new one, unless it is built apart. What is built again stays what it was, also where it sorts other things."""
    registry.build_taxonomy(small, keep_current=True)
    assert names_current(registry) == ["main"]
    tools = registry.build_taxonomy(small, name="tools", of=Of.TOOLS)
    assert current(registry) == tools
    assert set(tools.below(tools.root)) == {tool.id for tool in registry.tools()}
    registry.build_taxonomy(small)
    assert not registry.build_taxonomy(small, name="trial", of=Of.TOOLS, keep_current=True).current
    registry.build_taxonomy(small, name="trial", of=Of.AGENTS)
    assert names_current(registry) == ["tools"]
    with pytest.raises(InvalidSetting, match="letters"):
        registry.build_taxonomy(small, name="a/b")


def test_an_operator_chooses_the_current_one(registry: LocalRegistry) -> None:
    for name, of in (("main", Of.AGENTS), ("tools", Of.TOOLS), ("trial", Of.AGENTS)):
        registry.build_taxonomy(small, name=name, of=of)
    before = registry.status().state.revision
    assert registry.operator.use_taxonomy("main").revision == before + 1
    assert (names_current(registry), registry.browse().of) == (["main"], Of.AGENTS)
    assert registry.operator.use_taxonomy("main").revision == before + 1, "it was that"
    registry.operator.use_taxonomy("tools")
    assert (names_current(registry), registry.browse().of) == (["tools"], Of.TOOLS)
    with pytest.raises(UnknownName, match="tools"):
        registry.operator.use_taxonomy("tool")
    with pytest.raises(NotAllowed):
        registry.operator.use_taxonomy("main", principal=PUBLIC)
    for name, others in (("trial", ["tools"]), ("tools", ["main"]), ("main", [])):
        registry.forget_taxonomy(name)
        assert names_current(registry) == others
    with pytest.raises(UnknownName):
        registry.forget_taxonomy()


def test_a_check_finds_that_none_is_current(registry: LocalRegistry) -> None:
    tree = registry.build_taxonomy(small)
    odd = replace(tree, current=False)
    registry.change(lambda session: (session.begin(), session.write(lambda graph: put_taxonomy(graph, odd, tree))))
    assert [each for each in examine(registry, deep=True) if "0 current ones" in each.detail]
    registry.build_taxonomy(small, keep_current=True)
    assert not [each for each in examine(registry, deep=True) if not each.ok]


def test_a_sync_keeps_it_current(registry: LocalRegistry) -> None:
    """New ones in the nearest leaf, changed ones placed anew, removed, hidden and empty ones gone; leaves split."""
    registry.build_taxonomy(small)
    before = current(registry)
    told = [*entries(), entry("dogs", 90)]
    told[0] = entry("boats", 0, text=f"{THEMES['stars']}, place 70")
    feed(registry, told)
    after = current(registry)
    (path, by), *others = leaf_of(after, "dogs-90")
    assert (by, others) == (By.NEAREST, [])
    assert path == leaf_of(after, "dogs-1")[0][0]
    assert [(p, b) for p, b in leaf_of(after, "boats-0")] == [(leaf_of(after, "stars-1")[0][0], By.NEAREST)]
    assert leaf_of(after, "tax-3") == leaf_of(before, "tax-3")
    registry.operator.set("dogs-90", hidden=True)
    registry.operator.remove("tax-3")
    feed(registry, [each for each in told if not each.key.startswith("chess")])
    later = current(registry)
    held = set(later.below(later.root))
    assert not {"dogs-90", "tax-3", "chess-1"} & held
    assert leaf_of(before, "chess-1")[0][0] not in later.paths().values()
    registry.operator.set("dogs-90", hidden=False)
    assert leaf_of(current(registry), "dogs-90")[0][1] is By.NEAREST


def test_a_leaf_that_outgrows_its_size_is_split(registry: LocalRegistry) -> None:
    registry.build_taxonomy(small)
    leaf = leaf_of(current(registry), "dogs-1")[0][0]
    more = [entry("dogs", 10 + each, text=f"groom a poodle with brush and shampoo, salon {each}") for each in range(8)]
    feed(registry, [*entries(), *more])
    taxonomy = current(registry)
    assert len(browse(taxonomy, leaf).children) > 1
    assert {f"dogs-{each}" for each in range(10, 18)} <= set(taxonomy.below(taxonomy.root))
    assert leaf_of(taxonomy, "dogs-12")[0][0] != leaf_of(taxonomy, "dogs-1")[0][0]
    assert all(len(each.holds) <= 9 for each in taxonomy.categories.values())


def test_nothing_is_seen_of_what_is_not_visible(registry: LocalRegistry) -> None:
    """Random groups: each caller sees exactly what is below, of every path, whatever the others have."""
    registry.build_taxonomy(small)
    chance = random.Random(7)  # noqa: S311 - a seed, not a secret
    feed(registry, [*entries(), *(entry(theme, 50 + n, visible_to=("crew",)) for theme in THEMES for n in range(3))])
    for agent in chance.sample(registry.agents(), 25):
        if agent.visible_to:
            registry.operator.set(agent.id, visible_to=chance.sample(["crew", "ops", "lab"], chance.randint(1, 2)))
    whole = current(registry)
    for groups in ((), ("crew",), ("ops",), ("ops", "lab"), ("crew", "ops", "lab")):
        principal = Principal(groups=groups)
        visible = {agent.id for agent in registry.agents(principal=principal)}
        seen = current(registry, principal)
        by_path = {path: seen.categories[each] for each, path in seen.paths().items()}
        for category, path in whole.paths().items():
            there = [entity for entity in whole.below(whole.categories[category]) if entity in visible]
            found = by_path.get(path)
            assert (found is not None) == bool(there), (groups, path)
            if found:
                assert list(seen.below(found)) == there
                assert set(found.examples) <= visible
    public = current(registry, PUBLIC)
    words = " ".join(f"{each.name} {each.description} {each.boundary}" for each in public.categories.values())
    assert "crew" not in words


def test_a_tree_of_private_words_is_for_those_who_see_them(registry: LocalRegistry) -> None:
    registry.operator.set("tax-1", visible_to=["crew"])
    registry.build_taxonomy(small)
    registry.operator.taxonomy(principal=PUBLIC)
    assert leaf_of(current(registry), "tax-1")[0][1] is By.NEAREST
    registry.build_taxonomy(small, private=True)
    with pytest.raises(UnknownName):
        registry.operator.taxonomy(principal=PUBLIC)
    crew = current(registry, Principal(groups=("crew",)))
    assert "tax-1" in set(crew.below(crew.root))
    registry.build_taxonomy(small, private=True, shown_to_all=True)
    seen = current(registry, PUBLIC)
    assert "tax-1" not in set(seen.below(seen.root))
    registry.build_taxonomy(small)
    registry.operator.set("dogs-1", visible_to=["crew"])
    with pytest.raises(UnknownName):  # its words may be of an agent that is private now
        registry.operator.taxonomy(principal=PUBLIC)
    registry.build_taxonomy(small)
    registry.operator.taxonomy(principal=PUBLIC)


def test_ids_stay_where_little_changes(registry: LocalRegistry) -> None:
    registry.build_taxonomy(small)
    before = current(registry)
    feed(registry, [each for each in entries() if each.key not in ("dogs-0", "tax-0")] + [entry("stars", 77)])
    registry.build_taxonomy(small)
    after = current(registry)
    kept = before.categories.keys() & after.categories.keys()
    assert len(kept) >= 0.95 * len(before.categories)
    assert all(set(before.below(before.categories[e])) & set(after.below(after.categories[e])) for e in kept)
    assert [after.categories[each].name for each in kept] == [before.categories[each].name for each in kept]


def test_several_parents_and_any_builder(registry: LocalRegistry) -> None:
    """What a builder gives is stored as it is; what it leaves out goes to the nearest leaf."""

    def builder(services: Sequence[Service], vectors: Vectors, before: Taxonomy | None) -> Taxonomy:
        tax = {each.id: By.MODEL for each in services if each.id.startswith("tax")}
        rest = {each.id: By.MODEL for each in services if each.id.startswith(("dogs", "boats"))}
        shared = Category(id="shared", name="shared", depth=2, holds={"stars-1": By.MODEL, "tax-1": By.CROSS})
        one = Category(id="one", name="one", depth=1, children=("shared", "leaf"), holds={})
        leaf = Category(id="leaf", name="leaf", depth=2, holds=tax)
        other = Category(id="other", name="other", depth=1, children=("shared",), holds=rest)
        root = Category(id="root", name="", children=("one", "other"), holds={"bread-1": By.MODEL})
        whole = [root, one, leaf, other, shared]
        return Taxonomy(
            name="x", of=Of.AGENTS, built_by="openai:m", categories={each.id: each for each in whole}, calls=3
        )

    built = registry.build_taxonomy(builder, name="model")
    assert built == current(registry)
    assert built.categories["root"].holds == {"bread-1": By.MODEL}
    assert built.categories["one"].children == ("shared", "leaf")
    assert built.categories["other"].children == ("shared",)
    assert built.categories["shared"].holds["tax-1"] is By.CROSS
    assert set(built.below(built.root)) == {agent.id for agent in registry.agents()}
    assert leaf_of(built, "stars-2")[0][1] is By.NEAREST


def test_a_copy_holds_it_and_is_sound(registry: LocalRegistry, tmp_path: Path) -> None:
    registry.build_taxonomy(small)
    registry.build_taxonomy(small, name="tools", of=Of.TOOLS)
    local = registry
    assert [finding for finding in examine(local, deep=True) if not finding.ok] == []
    with LocalRegistry.open(tmp_path / "copy.grafeo", settings=Settings(), environ={}) as copy:
        migrate(local.store, copy.store)
        assert copy.operator.taxonomy() == registry.operator.taxonomy()
        assert copy.operator.taxonomy("main") == registry.operator.taxonomy("main")
        assert [finding for finding in examine(copy, deep=True) if not finding.ok] == []
        feed(copy, [*entries(), entry("dogs", 90)])
        assert leaf_of(current(copy), "dogs-90/go")


def test_an_export_brings_it_back(registry: LocalRegistry, tmp_path: Path) -> None:
    """Where it is restored, and where no other is in its place."""
    registry.build_taxonomy(small)
    registry.build_taxonomy(small, name="tools", of=Of.TOOLS)
    file = tmp_path / "saved.json"
    file.write_text(registry.operator.export("json"), encoding="utf-8")
    with LocalRegistry.open(":memory:", settings=Settings(), environ={}) as other:
        for manifest in read_path(str(file), Settings()):
            sync(other, manifest)
        with pytest.raises(UnknownName):
            other.operator.taxonomy()
        for manifest in read_path(str(file), Settings(), kind="export"):
            sync(other, manifest)
        assert other.operator.taxonomy() == registry.operator.taxonomy()
        assert other.operator.taxonomy("main") == registry.operator.taxonomy("main")
        assert (
            other.operator.export("json").partition('"taxonomies"')[2]
            == registry.operator.export("json").partition('"taxonomies"')[2]
        )
        other.operator.use_taxonomy("main")
        for manifest in read_path(str(file), Settings(), kind="export"):
            sync(other, manifest)
        assert current(other).name == "main"
    told = json.loads(file.read_text(encoding="utf-8"))
    for each in told["taxonomies"]:
        each["current"] = False
    file.write_text(json.dumps(told), encoding="utf-8")
    with LocalRegistry.open(":memory:", settings=Settings(), environ={}) as other:
        for manifest in read_path(str(file), Settings(), kind="export"):
            sync(other, manifest)
        assert names_current(other) == ["main"]
    told = json.loads(file.read_text(encoding="utf-8"))
    told["taxonomies"][0]["categories"][0]["children"] = ["nothing"]
    file.write_text(json.dumps(told), encoding="utf-8")
    with pytest.raises(SourceError, match="taxonomies"):
        read_path(str(file), Settings(), kind="export")


def test_vectors_made_anew_keep_it(registry: LocalRegistry) -> None:
    """With the directions of the new vectors; without an embedder what stands stays, and nothing new is placed."""
    registry.build_taxonomy(small)
    before = current(registry)
    registry.reindex(texts="plain")
    assert replace(current(registry), revision=before.revision) == before
    feed(registry, [*entries(), entry("dogs", 90)])
    assert leaf_of(current(registry), "dogs-90")[0][0] == leaf_of(before, "dogs-1")[0][0]
    registry.reindex(embedder="none")
    feed(registry, [*entries(), entry("dogs", 90), entry("dogs", 91)])
    assert not leaf_of(current(registry), "dogs-91")
    with pytest.raises(InvalidSetting, match="reindex"):
        registry.build_taxonomy(small)


def by_words(services: Sequence[Service], vectors: Vectors, before: Taxonomy | None) -> Taxonomy:
    return build_by_words(services, vectors, before, SMALL)


def test_words_stand_in_where_nothing_has_a_vector(registry: LocalRegistry) -> None:
    """The tree is kept by words: what comes, changes and outgrows a leaf; also after the registry has vectors again."""
    registry.reindex(embedder="none")
    assert registry.build_taxonomy().built_by == "words"
    before = registry.build_taxonomy(by_words)
    themes = {leaf_of(before, f"{theme}-0")[0][0] for theme in THEMES}
    assert len(themes) == len(THEMES)
    assert {by for category in before.categories.values() for by in category.holds.values()} == {By.WORDS}
    crew = entry("chess", 60, visible_to=("crew",))
    told = [entry("boats", 0, text=f"{THEMES['stars']}, place 70"), *entries()[1:], entry("dogs", 90), crew]
    feed(registry, told)
    after = current(registry)
    for entity, like in (("dogs-90", "dogs-1"), ("boats-0", "stars-1"), ("chess-60", "chess-1")):
        assert leaf_of(after, entity) == [(leaf_of(after, like)[0][0], By.NEAREST)]
    more = [entry("dogs", 10 + each, text=f"groom a poodle with brush and shampoo, salon {each}") for each in range(8)]
    feed(registry, [*told, *more])
    split = current(registry)
    assert leaf_of(split, "dogs-12")[0][0] != leaf_of(split, "dogs-1")[0][0]
    registry.reindex(embedder="minilm")
    feed(registry, [*told, *more, entry("tax", 95)])
    assert leaf_of(current(registry), "tax-95") == [(leaf_of(split, "tax-1")[0][0], By.NEAREST)]
    assert [finding for finding in examine(registry, deep=True) if not finding.ok] == []


def test_what_waits_or_is_restricted_names_nothing(registry: LocalRegistry) -> None:
    """Neither a tool that waits for approval nor an agent that not everyone may see."""
    secret = [entry("dogs", 50 + each, text="walk a quokka", visible_to=("crew",)) for each in range(EACH)]
    feed(registry, [*entries(), *secret])
    feed(registry, [*entries(), *secret], policy="hold")
    zeppelins = (sealed_tool(Tool(id=f"boats-{n}/zeppelin", agent_id=f"boats-{n}", name="zeppelin")) for n in range(8))
    boats = [replace(item, tools=(*item.tools, new)) for item, new in zip(entries(), zeppelins, strict=False)]
    feed(registry, [*boats, *entries()[len(boats) :], *secret])
    assert {tool.name for tool in registry.tools() if tool.pending} == {"zeppelin"}
    for build in (build_by_vectors, build_by_words):
        services: list[Service] = []

        def builder(told: Sequence[Service], *given: Any, build: Any = build, seen: Any = services) -> Taxonomy:
            seen += told
            return cast("Taxonomy", build(told, *given, SMALL))

        tree = registry.build_taxonomy(builder)
        assert len(services) == len(THEMES) * EACH
        assert not [word for service in services for word in ("zeppelin", "quokka") if word in service.text]
        assert leaf_of(tree, "dogs-50")[0][1] is By.NEAREST


def test_names_say_what_tells_siblings_apart() -> None:
    chance = np.random.default_rng(0)
    axes = np.eye(6, 16, dtype=np.float32)
    services, vectors = [], {}
    for place, (theme, text) in enumerate(THEMES.items()):
        for number in range(20):
            services.append(Service(id=f"{theme}-{number}", name="tool", description=text))
            vector = axes[place] + chance.normal(0, 0.05, 16).astype(np.float32)
            vectors[f"{theme}-{number}"] = (vector / np.linalg.norm(vector)).astype(np.float32)
    settings = TaxonomySettings(leaf_size=20)
    built = build_by_vectors(services, vectors, None, settings)
    assert built.categories == build_by_vectors(services[::-1], vectors, None, settings).categories
    for child in built.root.children:
        category = built.categories[child]
        (theme,) = {name.partition("-")[0] for name in built.below(category)}
        assert set(category.name.split("-")) <= {*THEMES[theme].split(), *domains()}
        assert "tool" not in category.name
