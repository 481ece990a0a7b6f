"""Toolsets in every place: what they include through every write, who sees what of them, filters, copies."""

import random
from collections.abc import Iterator, Sequence
from contextlib import closing
from pathlib import Path

import pytest

from tests.gateway_catalog import by_hand
from tests.shelf import Shelf
from waygraph import Principal
from waygraph.cypher import load
from waygraph.ingest.manifest.records import Manifest
from waygraph.ingest.sources.read import read_path
from waygraph.ingest.sync.apply import sync
from waygraph.registry.access.visibility import narrow
from waygraph.registry.graph.grafeo import GrafeoEngine
from waygraph.registry.graph.schema import SCHEMA_VERSION
from waygraph.registry.model.changes import AgentEntry
from waygraph.registry.model.errors import InvalidSetting, NotAllowed, SourceError, UnknownName
from waygraph.registry.model.identity import sealed_agent, sealed_tool
from waygraph.registry.model.nouns import Agent, Filters, Query, Tool
from waygraph.registry.model.settings import Settings
from waygraph.registry.operators.toolset import Toolset
from waygraph.registry.storage.integrity.examine import examine
from waygraph.registry.storage.local_registry import LocalRegistry
from waygraph.registry.storage.migrate import migrate

PUBLIC, CREW = Principal(), Principal(groups=("crew",))
TOOLS = ("open", "close", "paint")


def entry(
    name: str, tools: Sequence[str] = TOOLS, *, tags: tuple[str, ...] = (), visible_to: tuple[str, ...] = ()
) -> AgentEntry:
    agent = Agent(id=name, name=name, description=f"A {name} for the house.", tags=tags, visible_to=visible_to)
    owned = [
        Tool(id=f"{name}/{tool}", agent_id=name, name=tool, description=f"{tool} the {name} of the house")
        for tool in tools
    ]
    return AgentEntry(key=name, agent=sealed_agent(agent), tools=tuple(map(sealed_tool, owned)))


HOUSE = (
    entry("door", tags=("wood",)),
    entry("window", tags=("glass",)),
    entry("gate", tags=("wood",), visible_to=("crew",)),
    entry("safe", visible_to=("bank",)),
    entry("manual", ()),
)


def feed(registry: LocalRegistry, *told: AgentEntry, source: str = "house", namespace: str = "home") -> None:
    sync(registry, Manifest(source=source, namespace=namespace, entries=told), allow_mass_removal=True)


@pytest.fixture
def registry(shelf: Shelf) -> Iterator[LocalRegistry]:
    place = shelf.empty()
    with LocalRegistry.open(place.location, embedder="none", settings=place.settings, environ={}) as opened:
        feed(opened, *HOUSE)
        yield opened


def included(registry: LocalRegistry, name: str = "work") -> list[str]:
    """By Cypher; the index, the rule and a doctor agree."""
    statement = "MATCH (s:Toolset {id: $name})-[:INCLUDES]->(t:Tool) RETURN t.id AS id ORDER BY id"
    found = [str(row[0]) for row in registry.operator.cypher(statement, {"name": name}).rows]
    assert list(registry.toolset(name).includes) == found
    assert [each for each in examine(registry, deep=True) if not each.ok] == []
    return found


def of(agent: str, *tools: str) -> list[str]:
    return [f"{agent}/{tool}" for tool in sorted(tools or TOOLS)]


def test_what_comes_later_joins_and_what_goes_leaves(registry: LocalRegistry) -> None:
    """Through a source's tools, tags and agents, an operator's tags and removals, and a source that is forgotten."""
    registry.operator.set_toolset("work", tools=["window/open", "window/lock"], agents=["safe", "shed"], tags=["wood"])
    assert included(registry) == [*of("door"), *of("gate"), *of("safe"), "window/open"]
    assert registry.toolset("work").missing == ("window/lock", "shed")
    door = entry("door", ("open", "lock"), tags=("wood",))
    feed(registry, door, entry("window", ("lock",), tags=("glass",)), *HOUSE[2:])
    assert included(registry) == [*of("door", "open", "lock"), *of("gate"), *of("safe"), "window/lock"]
    assert registry.toolset("work").missing == ("window/open", "shed")
    feed(registry, entry("shed", ("lock",)), source="garden", namespace="garden")
    assert registry.toolset("work").missing == ("window/open",)
    registry.operator.set("window", tags=["wood"])
    feed(registry, entry("door", ("open", "lock")), HOUSE[1], *HOUSE[3:])
    assert included(registry) == [*of("safe"), "shed/lock", *of("window")]
    assert registry.toolset("work").members == ("safe", "shed", "window")
    registry.operator.set("window", tags=[])
    registry.operator.remove("safe")
    registry.operator.forget("garden")
    assert included(registry) == ["window/open"]
    registry.operator.set("safe", removed=False)
    feed(registry, *HOUSE)
    assert included(registry) == [*of("door"), *of("gate"), *of("safe"), "window/open"]


def test_whatever_is_written_it_includes_what_its_rule_says(registry: LocalRegistry) -> None:
    """Random writes of two sources and of an operator; what the rule chooses is told apart from what is held."""
    chance = random.Random(3)  # noqa: S311 - a seed, not a secret
    names, tags = ["door", "window", "gate", "roof"], ["wood", "glass", "tin"]
    registry.operator.set_toolset("work", tools=["door/open", "roof/paint"], agents=["gate"], tags=["wood"])

    def some(source: str) -> None:
        told = [
            entry(name, chance.sample(TOOLS, chance.randint(0, 3)), tags=tuple(chance.sample(tags, 1)))
            for name in chance.sample(names, chance.randint(1, 4))
        ]
        feed(registry, *told, source=source)

    for _ in range(12):
        write = chance.choice(["house", "garden", "tags", "remove"])
        agent = chance.choice([each.id for each in registry.agents()])
        if write == "tags":
            registry.operator.set(agent, tags=chance.sample(tags, chance.randint(0, 2)))
        elif write == "remove" and len(registry.agents()) > 1:
            registry.operator.remove(agent)
            registry.operator.set(agent, removed=False)
        else:
            some(write if write == "garden" else "house")
        chosen = {each.id for each in registry.agents() if each.id == "gate" or "wood" in each.tags}
        tools = [
            each.id for each in registry.tools() if each.agent_id in chosen or each.id in ("door/open", "roof/paint")
        ]
        assert included(registry) == sorted(tools)


def test_it_is_set_whole_and_logged(registry: LocalRegistry) -> None:
    made = registry.operator.set_toolset("work", agents=["door"], description="Of wood.", callers=["crew"])
    assert made == Toolset(
        name="work",
        description="Of wood.",
        agents=("door",),
        callers=("crew",),
        includes=tuple(of("door")),
        members=("door",),
    )
    stamp = registry.stamp
    assert registry.operator.set_toolset("work", agents=["door"], description="Of wood.", callers=["crew"]) == made
    assert registry.stamp == stamp, "what changes nothing makes no revision"
    registry.operator.set_toolset("work", tools=["window/open"])
    assert registry.toolset("work").callers == ()
    registry.operator.remove_toolset("work")
    assert registry.toolsets() == []
    log = registry.operator.changes(agent_id="toolset:work")
    assert [(each.what, each.fields) for each in log] == [
        ("removed", ()),
        ("changed", ("description", "tools", "agents", "callers")),
        ("added", ()),
    ]
    assert list(log) == [each for each in registry.operator.changes() if each.revision > 1]
    assert "toolset:work" not in {each.agent_id for each in registry.operator.changes(principal=CREW)}
    assert not registry.operator.changes(agent_id="toolset:work", principal=CREW)
    with pytest.raises(UnknownName):
        registry.operator.remove_toolset("work")


@pytest.mark.parametrize(
    ("name", "rule", "said"),
    [
        ("home", {"agents": ["door"]}, "namespace of the source 'house'"),
        ("a/b", {"agents": ["door"]}, "cannot be a toolset's name"),
        (".well-known", {"agents": ["door"]}, "cannot be a toolset's name"),
        ("login", {"agents": ["door"]}, "cannot be a toolset's name"),
        ("x", {}, "at least one tool, agent or tag"),
        ("x", {"tools": ["open"]}, "named by its id"),
        ("x", {"tags": [" "]}, "none of them empty"),
        ("x", {"agents": "door"}, "list of names"),
    ],
)
def test_what_cannot_be_is_refused(registry: LocalRegistry, name: str, rule: dict[str, list[str]], said: str) -> None:
    with pytest.raises(InvalidSetting, match=said):
        registry.operator.set_toolset(name, **rule)  # type: ignore[arg-type]
    assert registry.toolsets() == []


def test_only_who_sees_everything_makes_one(registry: LocalRegistry) -> None:
    """A rule of somebody else would tell by its answer whether a hidden agent is there."""
    with pytest.raises(NotAllowed):
        registry.operator.set_toolset("work", agents=["safe"], principal=CREW)
    registry.operator.set_toolset("work", agents=["safe"])
    with pytest.raises(NotAllowed):
        registry.operator.remove_toolset("work", principal=CREW)


def unknown(registry: LocalRegistry, name: str, principal: Principal) -> list[str]:
    """What is said of a toolset that is none for this caller, however it is asked for."""
    told: list[str] = []
    filters = Filters(toolset=name)
    for ask in (
        lambda: registry.toolset(name, principal=principal),
        lambda: registry.route(Query(text="open", filters=filters), principal=principal),
        lambda: registry.find_tools(Query(text="open", filters=filters), principal=principal),
        lambda: registry.agents_page(filters=filters, principal=principal),
        lambda: registry.browse(filters=filters, principal=principal),
    ):
        with pytest.raises(UnknownName) as caught:
            ask()
        told.append(str(caught.value))
    return told


def test_one_that_may_not_be_used_is_as_unknown_as_none(registry: LocalRegistry) -> None:
    """Of other callers, or of nothing that this one sees: the same words, and never suggested."""
    registry.operator.set_toolset("vaults", agents=["safe"])
    registry.operator.set_toolset("crewed", agents=["door"], callers=["crew"])
    for name, other in (("vaults", "vaulty"), ("crewed", "crewen")):
        texts = unknown(registry, name, PUBLIC)
        assert texts == [each.replace(other, name) for each in unknown(registry, other, PUBLIC)]
        assert len(set(texts)) == 1
    assert registry.toolsets(principal=PUBLIC) == []
    assert [each.name for each in registry.toolsets(principal=CREW)] == ["crewed"]
    assert registry.toolset("crewed", principal=CREW).callers == ()


def test_nothing_is_seen_of_what_is_not_visible(registry: LocalRegistry) -> None:
    """Random rules and groups: each caller sees of a rule, and finds by it, what it would see without it."""
    chance = random.Random(5)  # noqa: S311 - a seed, not a secret
    agents, groups = [each.key for each in HOUSE], ("crew", "bank", "ops")
    for number in range(12):
        registry.operator.set_toolset(
            f"t{number}",
            tools=[f"{chance.choice(agents)}/{chance.choice(TOOLS)}" for _ in range(2)],
            agents=chance.sample([*agents, "nobody"], 2),
            tags=chance.sample(["wood", "glass", "none"], 1),
            callers=chance.sample(groups, chance.randint(0, 1)),
        )
    registry.operator.set("window", hidden=True)
    whole = {each.name: each for each in registry.toolsets()}
    for mine in ((), ("crew",), ("bank",), ("crew", "ops"), groups):
        principal = Principal(groups=mine)
        seen = {agent.id for agent in registry.agents(principal=principal)}
        tags = {tag for agent in registry.agents(principal=principal) for tag in agent.tags}
        for toolset in registry.toolsets(principal=principal):
            all_of_it = whole[toolset.name]
            assert not all_of_it.callers or set(all_of_it.callers) & set(mine)
            assert toolset.includes == tuple(each for each in all_of_it.includes if each.partition("/")[0] in seen)
            assert toolset.members == tuple(each for each in all_of_it.members if each in seen)
            assert {each.partition("/")[0] for each in toolset.tools} | set(toolset.agents) <= seen
            assert set(toolset.tags) <= tags
            assert toolset.missing == ()
            query = Query(text="open close paint house", limit=50, filters=Filters(toolset=toolset.name))
            tools = registry.find_tools(query, principal=principal).matches
            assert {match.tool.id for match in tools} == set(toolset.includes)
            route = registry.route(query, principal=principal)
            assert {match.agent.id for match in (*route.matches, *route.pinned)} <= set(toolset.members)
            assert {tool.id for match in route.matches for tool in match.tools} <= set(toolset.includes)


def test_filters_meet(registry: LocalRegistry) -> None:
    """A toolset and a category, of agents or tools, let through what is in both."""
    registry.operator.set_toolset("some", tools=["door/open", "window/paint"], agents=["manual"])
    registry.build_taxonomy(by_hand({"fronts": ("door", "gate"), "reading": ("manual", "window")}))

    def found(within: str, toolset: str = "some") -> set[str]:
        filters = Filters(within=within, toolset=toolset)
        matches = registry.find_tools(Query(text="open close paint", limit=50, filters=filters)).matches
        return {match.tool.id for match in matches}

    assert found("fronts") == {"door/open"}
    assert found("reading") == {"window/paint"}
    assert found("") == {"door/open", "window/paint"}
    registry.operator.set_toolset("none", agents=["nobody"])
    assert found("", "none") == found("fronts", "none") == set()
    listed = registry.agents_page(filters=Filters(within="reading", toolset="some")).items
    assert [each.agent.id for each in listed] == ["manual", "window"]
    tree = registry.browse(filters=Filters(toolset="some"))
    assert {child.path: child.count for child in tree.children} == {"fronts": 1, "reading": 2}


@pytest.mark.parametrize(
    ("one", "other", "both"),
    [
        ({"a", "a/x", "b", "b/y"}, {"a", "b"}, {"a", "a/x", "b", "b/y"}),
        ({"a", "a/x", "b", "b/y"}, {"a"}, {"a", "a/x"}),
        ({"a", "a/x"}, {"a", "a/y"}, set()),
        ({"a", "a/x", "s"}, {"a", "s", "b", "b/y"}, {"s"}),
        ({"a", "a/x"}, {"b"}, set()),
        ({"a", "s"}, {"s", "t"}, {"s"}),
        (set(), {"a", "a/x"}, set()),
    ],
)
def test_narrow_lets_through_what_both_do(one: set[str], other: set[str], both: set[str]) -> None:
    """Such as of a walk or a category in a toolset, in either order; no tool comes back that one side left out."""
    for first, second in ((one, other), (other, one)):
        narrowed = narrow(narrow(Filters(), frozenset(first)), frozenset(second))
        assert set(narrowed.members or ()) == both


def test_pinned_agents_keep_to_it(registry: LocalRegistry) -> None:
    registry.operator.set("window", pinned=True)
    registry.operator.set_toolset("some", tools=["door/open"])
    assert registry.route(Query(text="open", filters=Filters(toolset="some"))).pinned == ()


def test_a_copy_and_an_export_hold_it(registry: LocalRegistry, tmp_path: Path) -> None:
    registry.operator.set_toolset("work", tools=["window/open", "gone/x"], tags=["wood"], callers=["crew"])
    local = registry
    with LocalRegistry.open(tmp_path / "copy.grafeo", settings=Settings(), environ={}) as copy:
        migrate(local.store, copy.store)
        assert copy.toolsets() == registry.toolsets()
        assert included(copy) == included(registry)
    file = tmp_path / "saved.json"
    file.write_text(registry.operator.export("json"), encoding="utf-8")
    with LocalRegistry.open(":memory:", embedder="none", settings=Settings(), environ={}) as other:
        for kind in ("", "export"):
            assert other.store.exists is bool(kind)
            for manifest in read_path(str(file), Settings(), kind=kind):
                sync(other, manifest)
            assert (other.toolsets() == registry.toolsets()) is bool(kind)
        other.operator.set_toolset("work", agents=["door"])
        for manifest in read_path(str(file), Settings(), kind="export"):
            with pytest.raises(NotAllowed):
                sync(other, manifest, principal=CREW)
            sync(other, manifest)
        assert other.toolset("work").agents == ("door",), "what is there is kept"
    file.write_text(registry.operator.export("json").replace('"tags": ["wood"], "callers"', '"tags": 3, "callers"'))
    with pytest.raises(SourceError, match="toolset"):
        read_path(str(file), Settings(), kind="export")


def test_a_registry_of_before_gets_them(tmp_path: Path) -> None:
    """Of schema 3: it answers as it is, and a write brings it to the present schema."""
    path = tmp_path / "r.grafeo"
    with LocalRegistry.open(path, embedder="none", settings=Settings(), environ={}) as registry:
        feed(registry, *HOUSE)
    with closing(GrafeoEngine.open(path)) as engine:
        engine.run(load("state/update"), props={"schema_version": 3})
        engine._database.execute("MATCH (m:Migration {id: '4'}) DELETE m")
    with LocalRegistry.open(path, embedder="none", settings=Settings(), environ={}) as registry:
        assert registry.toolsets() == []
        registry.operator.set_toolset("work", agents=["door"])
        assert included(registry) == of("door")
        assert registry.status().state.schema_version == SCHEMA_VERSION
