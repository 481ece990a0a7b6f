"""Every door by every kind of taxonomy: all that a caller may find is reached, and each answer keeps its types."""

import json
from collections.abc import Iterator, Mapping
from functools import partial
from pathlib import Path
from typing import Any

import anyio
import httpx2
import pytest
from mcp import Client

from tests.gateway.hosts import error_of, over_http, told
from tests.gateway_catalog import GROUPS, SECRET, by_hand, fill
from tests.service import Served, assert_good, served
from tests.tree_walk import check_types, reach_tools
from waygraph import Principal
from waygraph.api.cli.app import main
from waygraph.ingest.sources.read import read_path
from waygraph.ingest.sync.apply import sync
from waygraph.registry.catalog.find import FindAsked, find
from waygraph.registry.catalog.resolve import reading_tool
from waygraph.registry.model.nouns import Of
from waygraph.registry.model.settings import DEFAULT_EMBEDDER, Settings
from waygraph.registry.registry import Registry
from waygraph.registry.storage.local_registry import LocalRegistry
from waygraph.registry.taxonomy.browse import members_within, seen_taxonomy
from waygraph.registry.taxonomy.tree import TaxonomySettings
from waygraph.registry.taxonomy.vectors_build import build_by_vectors

CATALOG = Path(__file__).parents[2] / "examples" / "catalog"
TOOLS = 186
"""Of the examples, which a member of the group sees all."""
GROUP, GROUP_ONLY = "board", ("harbor-git", "bureau-fx")
CALLERS: Mapping[str, tuple[str, ...]] = {"member": (GROUP,), "stranger": ()}
KINDS: Mapping[str, Mapping[str, tuple[Of, int]]] = {
    "none": {},
    "of agents": {"main": (Of.AGENTS, 6)},
    "of tools": {"main": (Of.TOOLS, 12)},
    "at the root alone": {"main": (Of.AGENTS, 500)},
    "several": {"trial": (Of.AGENTS, 9), "main": (Of.TOOLS, 30)},
}
"""Name of each taxonomy → what it sorts, and the size of its leaves. The last is current."""


@pytest.fixture(scope="module")
def service(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    """The example catalogue, two of whose agents a group sees alone."""
    folder = tmp_path_factory.mktemp("doors")
    with served(folder / "r.grafeo", embedder=DEFAULT_EMBEDDER, auth=True, folder=folder) as service:
        for manifest in read_path(str(CATALOG), Settings()):
            sync(service.registry, manifest)
        for each in GROUP_ONLY:
            service.registry.operator.set(each, visible_to=[GROUP])
        yield service


def build(registry: LocalRegistry, kind: str) -> None:
    for former in registry.operator.taxonomies():
        registry.forget_taxonomy(former.name)
    for name, (of, leaf_size) in KINDS[kind].items():
        settings = TaxonomySettings(leaf_size=leaf_size)
        registry.build_taxonomy(partial(build_by_vectors, settings=settings), name=name, of=of)


def tools_below(registry: LocalRegistry, groups: tuple[str, ...]) -> set[str]:
    """Call names of what the current taxonomy has for this caller."""
    principal = Principal(groups=groups)
    tree = registry.store.look(lambda index: seen_taxonomy(index, None, principal))
    held = set(tree.below(tree.root)) if tree else set()
    skills = [each for each in registry.agents(principal=principal) if each.kind == "skill"]
    tools = [*registry.tools(principal=principal), *map(reading_tool, skills)]
    return {each.call_name for each in tools if held & {each.id, each.agent_id}}


def reach_by_rest(client: httpx2.Client, path: str = "") -> set[str]:
    """Ids of what stands in a category and below it."""
    view = assert_good(client.get("/v1/taxonomy", params={"path": path}))
    here = assert_good(client.get("/v1/taxonomy", params={"path": f"{path}/."})) if view["members"] else view
    assert here["members"] == view["members"]
    below = [reach_by_rest(client, child["path"]) for child in view["children"]]
    assert [len(ids) for ids in below] == [child["count"] for child in view["children"]]
    return set(view["members"]).union(*below)


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("caller", CALLERS)
def test_each_door_reaches_all_that_a_caller_may_find(service: Served, kind: str, caller: str) -> None:
    """In Python, here and over a service; by REST; by a host of MCP, also with the remote registry behind it."""
    build(service.registry, kind)
    groups = CALLERS[caller]
    key, expected = service.key("route", "read", groups=groups), tools_below(service.registry, groups)
    principal = Principal(groups=groups)
    assert bool(expected) == (kind != "none")
    assert any(name.startswith(GROUP_ONLY) for name in expected) == (bool(expected) and caller == "member")
    tools = {each.call_name for each in service.registry.tools()}
    assert not expected or caller != "member" or (expected >= tools and len(tools) == TOOLS)

    def ask_here(**arguments: Any) -> dict[str, Any]:
        return find(service.registry, FindAsked(browses=True, **arguments), principal=principal)

    assert reach_tools(ask_here) == expected
    with Registry.open(service.url, environ={"WAYGRAPH_API_KEY": key}) as remote:
        assert reach_tools(lambda **arguments: find(remote, FindAsked(browses=True, **arguments))) == expected
    anyio.run(walk_as_host, f"{service.url}/mcp", key, expected)
    if expected:
        tree = service.registry.operator.taxonomy(principal=principal)
        assert reach_by_rest(service.client(key)) == set(tree.below(tree.root))


async def walk_as_host(url: str, key: str, expected: set[str]) -> None:
    async def call(host: Client, arguments: Mapping[str, Any]) -> dict[str, Any]:
        return told(await host.call_tool("find_tools", {"query": "", **arguments}))

    def ask_from_thread(**arguments: Any) -> dict[str, Any]:
        return anyio.from_thread.run(call, host, arguments)

    async with over_http(url, "legacy", key=key) as host:
        offered = (await host.list_tools()).tools[0].input_schema["properties"]
        assert ({"within", "offset"} <= offered.keys()) == bool(expected)
        assert await anyio.to_thread.run_sync(reach_tools, ask_from_thread) == expected


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize(("surface", "tool"), [("rfc", "find_tools"), ("router", "route")])
async def test_a_surface_that_does_not_browse_counts(
    service: Served, tmp_path: Path, kind: str, surface: Any, tool: str
) -> None:
    build(service.registry, kind)
    with served(service.registry.store.place, embedder=DEFAULT_EMBEDDER, surface=surface) as other:
        url = f"{other.url}/mcp"
        async with over_http(url, "legacy") as host:
            answer = told(await host.call_tool(tool, {"query": ""}))
            check_types(answer)
            assert answer["overview"]["tools"] == len(service.registry.tools())


@pytest.mark.parametrize("kind", KINDS)
def test_the_command_line_goes_down_to_tools(service: Served, kind: str, capsys: pytest.CaptureFixture[str]) -> None:
    """`taxonomy show` of each path, then `tools` of an agent; `find --within` finds nothing else."""
    build(service.registry, kind)
    place = ["--registry", service.registry.store.place]

    def answer(*words: str) -> Any:
        assert main([*place, *words, "--json"]) == 0
        return json.loads(capsys.readouterr().out)

    def reach(path: str = "") -> set[str]:
        shown = answer("taxonomy", "show", path)
        return set(shown["members"]).union(*(reach(child["path"]) for child in shown["children"]))

    if kind == "none":
        assert main([*place, "taxonomy", "show"]) != 0
        assert "taxonomy" in capsys.readouterr().err
        return
    tree = service.registry.operator.taxonomy()
    held = reach()
    assert held == set(tree.below(tree.root))
    within = next(filter(None, tree.paths().values()), ".")
    found = answer("find", "search for anything", "--within", within, "-k", "50")["matches"]
    members = members_within(tree, within)
    assert found
    assert all(members & {each["tool"]["id"], each["tool"]["agent_id"]} for each in found)


def test_the_command_line_asks_a_service(
    service: Served, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """As it asks the registry itself."""
    build(service.registry, "of tools")
    monkeypatch.setenv("WAYGRAPH_API_KEY", service.key("route", "read", everything=True))

    def answer(place: str, *words: str) -> Any:
        assert main(["--registry", place, "taxonomy", *words, "--json"]) == 0
        return json.loads(capsys.readouterr().out)

    for words in (["show"], ["status"], ["check"]):
        here, there = (answer(place, *words) for place in (service.registry.store.place, service.url))
        assert here == there


async def offers(host: Client) -> set[str]:
    """The tools that take `within`."""
    listed = (await host.list_tools()).tools
    return {tool.name for tool in listed if "within" in tool.input_schema["properties"]}


async def asked(host: Client, **arguments: Any) -> dict[str, Any]:
    return told(await host.call_tool("find_tools", {"query": "", **arguments}))


async def test_a_model_goes_from_categories_to_tools(tmp_path: Path) -> None:
    with served(auth=True, folder=tmp_path) as service:
        fill(service.registry)
        async with over_http(f"{service.url}/mcp", key=service.key()) as host:
            assert await offers(host) == set()
            assert "overview" in await asked(host)
            assert error_of(await host.call_tool("find_tools", {"query": "", "within": "code"}))["noun"] == "taxonomy"
        service.registry.build_taxonomy(by_hand(GROUPS), private=True, shown_to_all=True)
        async with over_http(f"{service.url}/mcp", key=service.key()) as stranger:
            assert await offers(stranger) == {"find_tools", "route_agents"}
            assert set((await asked(stranger))["categories"]) == {"code", "desk"}
            leaf = await asked(stranger, within="code", limit=2)
            assert [tool["name"].partition("__")[0] for tool in leaf["tools"]] == ["github", "github"]
            error = error_of(await stranger.call_tool("find_tools", {"query": "", "within": "boardroom"}))
            assert (error["code"], error["nearest"]) == ("unknown-name", [])
            found = told(await stranger.call_tool("route_agents", {"query": "create an issue", "within": "desk"}))
            assert [each["id"] for each in found["agents"]] == ["tracker"]
        async with over_http(f"{service.url}/mcp", key=service.key(groups=("board",))) as member:
            assert (await asked(member))["categories"]["boardroom"] == f"1: {SECRET}"
        async with over_http(f"{service.url}/board/mcp", key=service.key(groups=("board",))) as door:
            assert set((await asked(door))["categories"]) == {"boardroom"}
        service.registry.build_taxonomy(by_hand(GROUPS), private=True)
        async with over_http(f"{service.url}/mcp", key=service.key()) as stranger:
            assert await offers(stranger) == set()
            assert "overview" in await asked(stranger)


@pytest.mark.parametrize("of", list(Of))
async def test_each_answer_keeps_one_type_by_any_taxonomy(of: Of, tmp_path: Path) -> None:
    """`tools` is a list of tools in every answer, and what is counted is in `holds`: also for a session, which
    remembers what it was sent.
    """
    groups = {"code": ("github",)} if of is Of.AGENTS else {"code": ("github/create_issue", "github/list_issues")}
    remarks: list[dict[str, Any]] = [{}, {"detail": "names"}, {"detail": "schema"}, {"known": {}}]
    turns = [{"tool": "github__create_issue", "outcome": "failed"}]
    with served(auth=True, folder=tmp_path) as service:
        fill(service.registry)
        service.registry.build_taxonomy(by_hand(groups), of=of)
        url = f"{service.url}/mcp"
        key = service.key()
        async with over_http(url, "legacy", key=key) as host:
            for remark in (*remarks, {"history": turns}):
                top = await asked(host, **remark)
                assert top["categories"].keys() == {"code"}
                assert (top["holds"], "tools" in top) == ({of.value: len(groups["code"])}, False)
                leaf = await asked(host, within="code", **remark)
                assert leaf["holds"] == {of.value: len(groups["code"])}
                assert {tool["name"].partition("__")[0] for tool in leaf["tools"]} == {"github"}
            sent = await asked(host, within="code")
            assert all(tool["unchanged"] for tool in sent["tools"])
            assert [each["code"] for each in sent["notices"]] == ["sent_before"]
