"""A toolset as an endpoint of MCP: by the SDK's client, over HTTP and on standard input."""

import asyncio
import contextlib
import json
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import anyio
import pytest
from mcp import Client, MCPError

from tests.gateway.hosts import Era, Place, error_of, ingest, names, on_stdio, over_http, told, toolbox_place
from tests.rest.test_access import OPERATIONS
from tests.service import Served, assert_good, assert_problem, served
from waygraph.registry.model.changes import ChangeSet
from waygraph.registry.storage.local_registry import LocalRegistry


@pytest.fixture
def place(tmp_path: Path) -> Place:
    """The toolbox, and in the namespace `files` a shelf, a skill and a vault for the bank alone."""
    place = toolbox_place(tmp_path)
    catalogue = place.folder / "agents.json"
    shelf = {"id": "shelf", "kind": "custom", "tools": [{"name": "archive"}, {"name": "add"}], "tags": ["paper"]}
    vault = {"id": "vault", "kind": "custom", "visible_to": ["bank"], "tools": [{"name": "add_coins"}]}
    skill = {"id": "letters", "kind": "skill", "description": "How to write letters."}
    manual = {"id": "manual", "kind": "skill", "description": "How it works.", "tools": [{"name": "look"}]}
    catalogue.write_text(json.dumps({"waygraph": 1, "agents": [shelf, vault, skill, manual]}))
    assert ingest(place, str(catalogue), "--namespace", "files") == 0
    with LocalRegistry.open(place.registry) as registry:
        registry.operator.set_toolset("looks", tools=["manual/look"])
        registry.operator.set_toolset("sums", tools=["box/add", "vault/add_coins"], agents=["letters"])
        registry.operator.set_toolset("quorum", agents=["vault"])
        registry.operator.set_toolset("crew", agents=["box"], callers=["crew"])
    return place


@pytest.fixture
def doors(place: Place) -> Iterator[Served]:
    with served(place.registry, auth=True, folder=place.folder) as service:
        yield service


async def asked(host: Client, tool: str, **arguments: Any) -> Any:
    return await host.call_tool(tool, arguments)


async def test_a_toolset_shows_its_tools_alone(doors: Served, era: Era) -> None:
    """Listed, found, counted, called, suggested; an agent that is in it by one tool has no other there."""
    doors.registry.operator.set("box", pinned=True)
    async with over_http(f"{doors.url}/sums/mcp", era, key=doors.key(everything=True)) as host:
        listed = {tool.name for tool in (await host.list_tools()).tools}
        assert {each for each in listed if "__" in each} == {"box__add"}
        assert "tools (2), agents (3)" in (host.instructions or "")
        assert set(names(told(await asked(host, "find_tools", query="add archive fail", limit=50)))) == {
            "box__add",
            "vault__add_coins",
        }
        overview = told(await asked(host, "find_tools", query=""))["overview"]
        assert (overview["tools"], overview["agents"]) == (2, {"custom": 1, "mcp_server": 1, "skill": 1})
        route = told(await asked(host, "route_agents", query="add archive"))
        assert {each["id"] for each in route["agents"]} <= {"box", "vault", "letters"}
        assert {tool for each in route["agents"] for tool in each["tools"]} <= {
            "box__add",
            "vault__add_coins",
            "letters__read",
        }
        assert (await asked(host, "box__add", a=1, b=2)).structured_content == {"total": 3}
        used = await asked(host, "use_tool", name="add", params={"a": 2, "b": 2})
        assert used.structured_content == {"total": 4}
        for outside in ("box__fail", "box/fail", "shelf__archive", "nobody__nothing", "fail"):
            for result in (await asked(host, "use_tool", name=outside, params={}), await asked(host, outside)):
                error = error_of(result)
                assert error["code"] == "unknown-name"
                assert not {"box__fail", "shelf__archive", "shelf__add"} & set(error["nearest"])


def test_a_skill_that_is_in_it_by_a_tool_is_not_read(doors: Served) -> None:
    async def walk(path: str) -> str:
        async with over_http(f"{doors.url}{path}", key=doors.key(everything=True)) as host:
            code: str = error_of(await asked(host, "manual__read"))["code"]
            return code

    assert anyio.run(walk, "/looks/mcp") == "unknown-name"
    assert anyio.run(walk, "/mcp") != "unknown-name"


def test_one_that_a_caller_may_not_use_is_as_one_that_is_not_there(doors: Served) -> None:
    async def walk(path: str, key: str) -> list[str]:
        async with over_http(f"{doors.url}/{path}/mcp", key=key) as host:
            try:
                told_of = [str((await host.list_tools()).tools), str(host.instructions)]
            except MCPError as error:
                told_of = [str(error), str(error.error.data), str(host.instructions)]
            told_of += [str(await asked(host, name, query="add")) for name in ("find_tools", "route_agents")]
            return [*told_of, str(await asked(host, "box__add", a=1, b=2))]

    stranger, crew = doors.key(), doors.key(groups=("crew",))
    absent = anyio.run(walk, "nobody", stranger)
    for hidden in ("quorum", "crew"):
        assert [each.replace(hidden, "nobody") for each in anyio.run(walk, hidden, stranger)] == absent
    assert "box__add" in str(anyio.run(walk, "crew", crew))
    seen = str(anyio.run(walk, "sums", stranger))
    assert "vault" not in seen
    assert "box__add" in seen


def test_rest_says_the_same(doors: Served) -> None:
    """Of what a caller may not use, of what is not there, and of what it sees only in part."""
    stranger, admin = doors.caller("read", "route", "write"), doors.admin()
    for method, path, body in (
        ("GET", "/v1/toolsets/{}", None),
        ("GET", "/v1/agents?toolset={}", None),
        ("POST", "/v1/route", {"text": "add", "filters": {"toolset": "{}"}}),
        ("POST", "/v1/tools/search", {"text": "add", "filters": {"toolset": "{}"}}),
    ):

        def ask(name: str, method: str = method, path: str = path, body: object = body) -> str:
            sent = json.loads(json.dumps(body).replace("{}", name))
            answer = stranger.request(method, path.replace("{}", name), json=sent)
            problem = assert_problem(answer, 404, "unknown-name")
            return json.dumps(problem | {"instance": ""}).replace(name, "?")

        assert ask("quorum") == ask("crew") == ask("nobody")
    _, sums = assert_good(stranger.get("/v1/toolsets"))["toolsets"]
    assert (sums["tools"], sums["includes"], sums["members"]) == (["box/add"], ["box/add"], ["box", "letters"])
    for limited in (stranger.put("/v1/toolsets/mine", json={"agents": ["box"]}), stranger.delete("/v1/toolsets/sums")):
        assert_problem(limited, 403, "not-allowed")
    assert_problem(admin.put("/v1/toolsets/files", json={"agents": ["box"]}), 422, "invalid-setting")
    assert_problem(admin.put("/v1/toolsets/x", json={}), 422, "invalid-setting")
    assert_good(admin.put("/v1/toolsets/quorum", json={"tags": ["paper"]}))
    assert assert_good(stranger.get("/v1/toolsets/quorum"))["includes"] == ["shelf/add", "shelf/archive"]
    assert_good(admin.delete("/v1/toolsets/quorum"))
    assert_problem(admin.delete("/v1/toolsets/quorum"), 404, "unknown-name")


async def test_it_is_renewed_for_hosts_that_are_there(doors: Served) -> None:
    """What joins is found at once; a host is told that its list may be another."""
    heard = asyncio.Event()

    async def note(message: Any) -> None:
        if "list_changed" in str(getattr(message, "method", "")) or "ToolListChanged" in type(message).__name__:
            heard.set()

    async with over_http(
        f"{doors.url}/quorum/mcp", "legacy", key=doors.key(everything=True), message_handler=note
    ) as host:
        assert "shelf__add" not in str(await asked(host, "find_tools", query="add"))
        await anyio.to_thread.run_sync(lambda: doors.registry.operator.set_toolset("quorum", agents=["shelf"]))
        assert "shelf__add" in str(await asked(host, "find_tools", query="add"))
        assert error_of(await asked(host, "vault__add_coins"))["code"] == "unknown-name"
        with contextlib.suppress(TimeoutError):
            await asyncio.wait_for(heard.wait(), 30)
        assert heard.is_set()


def test_a_toolset_comes_before_a_namespace_of_its_name(place: Place) -> None:
    """One that a source brings later; the toolset stays what it is."""
    catalogue = place.folder / "more.json"
    catalogue.write_text(json.dumps({"waygraph": 1, "agents": [{"id": "new", "tools": [{"name": "add_new"}]}]}))
    assert ingest(place, str(catalogue), "--namespace", "sums") == 0

    async def walk(open_door: Callable[[], Any]) -> str:
        async with open_door() as host:
            return str(await asked(host, "find_tools", query="add", limit=50))

    with served(place.registry) as service:
        over = anyio.run(walk, lambda: over_http(f"{service.url}/sums/mcp"))
    on = anyio.run(walk, lambda: Client(on_stdio(place, "--toolset", "sums")))
    for found in (over, on):
        assert "vault__add_coins" in found
        assert "new__add_new" not in found
        assert "shelf__add" not in found


def test_a_key_of_a_toolset_reaches_nothing_else(doors: Served) -> None:
    """Neither another endpoint nor REST; once the toolset is gone nothing at all, whatever has its name."""
    doors.registry.operator.set_toolset("board", agents=["shelf"])
    key = doors.key("route", "use", everything=True, toolset="quorum")

    async def walk(path: str) -> str:
        async with over_http(f"{doors.url}{path}", key=key) as host:
            found = await asked(host, "find_tools", query="add archive", limit=50)
            return str([found.content, host.instructions, await asked(host, "box__add", a=1, b=2)])

    for path in ("/mcp", "/quorum/mcp"):
        seen = anyio.run(walk, path)
        assert "vault__add_coins" in seen
        assert not [word for word in ("shelf", "files", "board", "total") if word in seen]
    there, absent = (anyio.run(walk, f"/{name}/mcp").replace(name, "?") for name in ("board", "nobody"))
    assert there == absent == anyio.run(walk, "/files/mcp").replace("files", "?")
    client = doors.client(key)
    for name, (scopes, call) in OPERATIONS.items():
        if scopes:
            told_of = assert_problem(call(client), 403, "not-allowed")
            assert "/quorum/mcp" in told_of["detail"], name
    assert_problem(client.post("/v1/tools/box/add/call", json={"arguments": {"a": 1, "b": 2}}), 403, "not-allowed")
    doors.registry.operator.remove_toolset("quorum")
    doors.registry.change(lambda session: session.commit(ChangeSet(source="new", namespace="quorum", new_terms=True)))
    assert "vault" not in anyio.run(walk, "/mcp") + anyio.run(walk, "/quorum/mcp")
