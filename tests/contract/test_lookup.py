"""What names mean, in every place: ids, call names, and what somebody who may not see all gets to know."""

import re
from collections.abc import Iterator
from threading import Event, Thread

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.shelf import Edition, Shelf
from waygraph import Agent, Principal, Tool
from waygraph.ingest.manifest.records import Manifest
from waygraph.ingest.sync.apply import sync
from waygraph.registry.model.changes import AgentEntry
from waygraph.registry.model.errors import UnknownName
from waygraph.registry.model.identity import agent_id, call_name, sealed_agent, sealed_tool, tool_id
from waygraph.registry.registry import Registry

WORDLESS = Edition(embedder="none")
ODD: dict[str, tuple[str, ...]] = {
    "a": ("b", "b__c", "_b", "b_", "t.u", "t u", "t_u", "été", "取得", "x" * 120, "x" * 121, "search_0123456789ab"),
    "a_": ("b", "_b"),
    "a__b": ("c", "d__e"),
    "a.b": ("c", "get"),
    "a b": ("c", "get"),
    "a_b": ("c", "get"),
    "a-b": ("c", "get"),
    "1st": ("go", "GO"),
    "n" * 60: ("go", "go2"),
    "n" * 59 + "m": ("go",),
    "n" * 128: ("go", "y" * 128),
    "none": (),
}
"""Agents with names that run into each other once they are made legal."""
HIDDEN, GROUP = "hidden-ledger", "board"
PUBLIC, BOARD = Principal(), Principal(groups=(GROUP,))


def odd_manifest() -> Manifest:
    entries = [entry(agent, names) for agent, names in ODD.items()]
    return Manifest(source="odd", entries=(*entries, entry(HIDDEN, ("audit", "audit.all"), visible_to=(GROUP,))))


def entry(agent: str, names: tuple[str, ...], visible_to: tuple[str, ...] = ()) -> AgentEntry:
    held = sealed_agent(Agent(id=agent, name=agent, visible_to=visible_to))
    tools = (sealed_tool(Tool(id=tool_id(agent, name), agent_id=agent, name=name)) for name in names)
    return AgentEntry(key=agent, agent=held, tools=tuple(tools))


@pytest.fixture(scope="module")
def registry(shelf: Shelf) -> Iterator[Registry]:
    place = shelf.empty()
    with Registry.open(place.location, embedder="none", settings=place.settings, environ={}) as registry:
        sync(registry, odd_manifest())
        yield registry


def unknown(registry: Registry, name: str, principal: Principal | None = None) -> UnknownName:
    with pytest.raises(UnknownName) as caught:
        registry.tool(name, principal=principal)
    return caught.value


def test_every_tool_is_known_by_its_call_name(registry: Registry) -> None:
    """By its id and by its call name it is the same tool, whatever it and its neighbours are called."""
    tools = registry.tools()
    assert len(tools) == sum(map(len, ODD.values())) + 2
    assert len({tool.call_name for tool in tools}) == len(tools)
    for tool in tools:
        assert registry.tool(tool.id) == registry.tool(tool.call_name) == tool
        assert registry.tool(tool.call_name, principal=BOARD) == tool


def test_an_agent_goes_before_a_tool_of_that_name(registry: Registry) -> None:
    """`named` knows agents by id and tools by both names; `a__b` is an agent, and the call name of a tool."""
    assert registry.lookup("a__b") == registry.agent("a__b")
    assert registry.tool("a__b") == registry.tool("a/b")
    for tool in registry.tools():
        assert registry.lookup(tool.id) == tool
        if tool.call_name != "a__b":
            assert registry.lookup(tool.call_name) == tool
    for agent in registry.agents():
        assert registry.lookup(agent.id) == agent


@pytest.mark.parametrize(
    "name",
    [
        "",
        "_",
        "__",
        "/",
        "a",
        "a__",
        "a__nothing",
        "__b",
        "a/",
        "a__b__c",  # the call name of neither `a/b__c` nor `a__b/c`
        "a.b__c",
        "1st__go",
        "_1st__go",
        "none__x",
        "nowhere__go",
        "n" * 51 + "_0123456789ab",
        "x" * 10_000,
        "\x00",
        "\ud800__x",
    ],
)
def test_what_only_looks_like_a_call_name_is_unknown(registry: Registry, name: str) -> None:
    """Nothing is guessed: a name is the one that the tool bears, to the last letter."""
    assert unknown(registry, name).name in (name, name.partition("/")[0])


@given(name=st.text("ab_n1-. /", max_size=70))
def test_no_two_names_mean_one_tool(registry: Registry, name: str) -> None:
    try:
        found = registry.tool(name)
    except UnknownName:
        return
    assert name in (found.id, found.call_name)


def test_no_name_is_not_all(registry: Registry) -> None:
    """An empty text, such as a variable of a shell that is not set, is the name of nothing."""
    assert registry.tools(None)
    for ask in (registry.tools, registry.agent, registry.tool, registry.lookup, registry.about):
        with pytest.raises(UnknownName):
            ask("")


def test_an_unknown_name_suggests_what_was_meant(registry: Registry) -> None:
    """Among the tools of the agent that is named, or of those whose names are near."""
    assert "a-b__get" in unknown(registry, "a-b__got").nearest
    assert "hidden-ledger__audit" in unknown(registry, "hiden-ledger__audit").nearest
    assert "known:" not in str(unknown(registry, "hiden-ledger__audit")), "these tools are not all"
    with pytest.raises(UnknownName, match=r"agent 'hiden-ledger' is not known.*'hidden-ledger'"):
        registry.lookup("hiden-ledger")
    with pytest.raises(UnknownName, match=r"tool 'hidden-ledger__audt' is not known.*'hidden-ledger__audit'"):
        registry.lookup("hidden-ledger__audt")


@pytest.mark.parametrize("name", [f"{HIDDEN}/audit", f"{HIDDEN}__audit", call_name(HIDDEN, "audit.all"), HIDDEN])
def test_a_tool_that_may_not_be_seen_is_as_one_that_is_not_there(registry: Registry, name: str) -> None:
    """The error is the same as of a tool that nobody has, but for its name, and suggests nothing that is hidden."""
    for principal in (PUBLIC, Principal(id="p", groups=("staff",))):
        for near in (name, name.replace("audit", "audt"), name.replace("hidden", "hiden")):
            for ask in (registry.tool, registry.lookup):
                with pytest.raises(UnknownName) as caught:
                    ask(near, principal=principal)
                assert HIDDEN not in beside_its_name(caught.value)
    absent = unknown(registry, name.replace(HIDDEN, "zidden-zedger"), PUBLIC)
    assert beside_its_name(unknown(registry, name, PUBLIC)) == beside_its_name(absent)


def beside_its_name(error: UnknownName) -> str:
    """The message without the name that was asked for."""
    return re.sub("'[^']*'", "", str(error), count=1)


def test_a_new_tool_is_known_and_an_old_one_forgotten(shelf: Shelf) -> None:
    """By whoever had the registry open, as soon as the change is committed."""
    place = shelf.empty()
    with Registry.open(place.location, embedder="none", settings=place.settings, environ={}) as registry:
        for names in (("go", "long.one"), ("stop", "long.two")):
            sync(registry, Manifest(source="s", entries=(entry("a", names),)))
            assert [registry.tool(call_name("a", name)).name for name in names] == list(names)
        unknown(registry, "a__go")
        unknown(registry, call_name("a", "long.one"))
        sync(registry, Manifest(source="s", entries=(entry("b", ("go",)), entry("a", ("stop",)))))
        assert registry.tool("b__go").id == "b/go"


def test_a_name_is_looked_up_in_one_revision(shelf: Shelf) -> None:
    """Beside a writer, who swaps tools and who may see them, nobody sees what no revision shows him."""
    open_to_all = Manifest(source="s", entries=(entry("a", ("one.x", "two")),))
    restricted = Manifest(source="s", entries=(entry("a", ("one.x", "secret.y"), visible_to=(GROUP,)),))
    place, stop, faults = shelf.empty(), Event(), list[object]()

    def look(registry: Registry) -> None:
        while not stop.wait(0.001):  # else the readers take the writer's time
            try:
                seen = {registry.tool(call_name("a", "one.x"), principal=PUBLIC).name}
                seen |= {tool.name for tool in registry.tools(principal=PUBLIC)}
                if not seen <= {"one.x", "two"}:
                    faults.append(seen)
            except UnknownName:
                pass
            except Exception as error:  # noqa: BLE001 - whatever a reader meets is told by the test
                faults.append(error)

    with Registry.open(place.location, embedder="none", settings=place.settings, environ={}) as registry:
        sync(registry, open_to_all)
        readers = [Thread(target=look, args=(registry,)) for _ in range(2)]
        for reader in readers:
            reader.start()
        try:
            for _ in range(10):
                sync(registry, restricted)
                sync(registry, open_to_all)
        finally:
            stop.set()
            for reader in readers:
                reader.join()
    assert faults == []


def test_the_catalogues_tools_are_known_by_both_names(shelf: Shelf) -> None:
    registry = shelf.catalogue(WORDLESS)
    tools = registry.tools()
    assert len(tools) == 186
    assert [registry.tool(tool.call_name) for tool in tools] == list(tools)


agents = st.sampled_from(["a", "b.c", "b_c", "b__c", "9", "-x", "é"]).map(agent_id)
tool_names = st.text("ab_.- é", min_size=1, max_size=8).filter(lambda name: bool(name.strip()))


@settings(max_examples=15)
@given(owned=st.dictionaries(agents, st.sets(tool_names, max_size=4), max_size=4))
def test_any_registrys_call_names_lead_back(owned: dict[str, set[str]]) -> None:
    entries = tuple(entry(agent, tuple(sorted(names))) for agent, names in owned.items())
    with Registry.open(":memory:", embedder="none", environ={}) as registry:
        sync(registry, Manifest(source="s", entries=entries))
        for tool in registry.tools():
            assert registry.tool(tool.call_name) == tool
