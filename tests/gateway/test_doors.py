"""Who may come in over HTTP, what each sees, and whose a session is."""

import json
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import anyio
import pytest
from mcp import Client, MCPError

from tests.gateway.hosts import Place, error_of, ingest, names, on_stdio, over_http, told, toolbox_place
from tests.gateway.test_answers import ENVELOPE, HANDSHAKE, MODERN
from tests.service import Served, assert_problem, served
from waygraph.api.cli.app import main
from waygraph.registry.model.settings import Settings
from waygraph.registry.registry import Registry

PATIENCE_S = 60.0
ACCEPT = {"Accept": "application/json, text/event-stream"}
LIST = {"jsonrpc": "2.0", "id": 1, "method": "tools/list", "params": {"_meta": ENVELOPE}}
BARE = {**ACCEPT, "MCP-Protocol-Version": MODERN, "Mcp-Method": "tools/list"}
HELLO: dict[str, Any] = {
    "jsonrpc": "2.0",
    "id": 0,
    "method": "initialize",
    "params": {"protocolVersion": HANDSHAKE, "capabilities": {}, "clientInfo": {"name": "test", "version": "1"}},
}


@pytest.mark.parametrize("path", ["/mcp", "/files/mcp"])
def test_who_shows_nothing_is_told_how(guarded: Served, path: str) -> None:
    assert_problem(guarded.client().post(path, json=LIST, headers=BARE), 401, "not-authenticated")
    assert_problem(guarded.client("wg_no_key").post(path, json=LIST, headers=BARE), 401, "not-authenticated")
    assert_problem(guarded.client().get(path, headers=ACCEPT), 401, "not-authenticated")


async def test_scopes_hold(guarded: Served) -> None:
    async with over_http(f"{guarded.url}/mcp", key=guarded.key("route", everything=True)) as finder:
        assert next(names(told(await finder.call_tool("find_tools", {"query": "add"})))) == "box__add"
        assert error_of(await finder.call_tool("box__add", {"a": 1, "b": 2}))["code"] == "not-allowed"
    async with over_http(f"{guarded.url}/mcp", key=guarded.key("use", everything=True)) as user:
        assert (await user.call_tool("box__add", {"a": 1, "b": 2})).structured_content == {"total": 3}
        for meta_tool in ("find_tools", "route_agents", "use_tool"):
            assert error_of(await user.call_tool(meta_tool, {"query": "add"}))["code"] == "not-allowed"


async def test_calls_are_counted(guarded: Served) -> None:
    """By how they ended; the routes of requests are templates, whatever namespaces there are."""
    async with over_http(f"{guarded.url}/mcp", key=guarded.key("use", everything=True)) as host:
        await host.call_tool("box__add", {"a": 1, "b": 2})
        await host.call_tool("box__fail", {})
        await host.call_tool("box__ad", {})
    guarded.admin().post("/anything/mcp", json=LIST, headers=BARE)
    told = guarded.admin().get("/metrics").text
    for outcome in ("ok", "failed", "refused"):
        assert f'waygraph_tool_calls_total{{outcome="{outcome}"}} 1.0' in told
    assert 'route="/mcp"' in told
    assert 'route="/{namespace}/mcp"' in told
    assert "anything" not in told


def test_pinned_tools_are_listed_for_whoever_may_know_of_tools(tmp_path: Path) -> None:
    place = toolbox_place(tmp_path)
    with Registry.open(place.registry) as registry:
        registry.operator.set("box", pinned=True)
    with served(place.registry, auth=True, folder=tmp_path) as service:
        for scope, listed in (("use", True), ("route", True), ("cypher", False), ("write", False)):
            answer = service.caller(scope, everything=True).post("/mcp", json=LIST, headers=BARE)
            assert ("box__add" in answer.text) is listed, scope


def test_each_request_counts_to_its_callers_limit(toolbox: Place, tmp_path: Path) -> None:
    settings = Settings(rate_per_minute=1, rate_burst=3)
    with served(toolbox.registry, auth=True, folder=tmp_path, settings=settings) as service:
        client = service.caller("route", everything=True)
        statuses = [client.post("/mcp", json=LIST, headers=BARE).status_code for _ in range(3)]
        assert statuses == [200, 200, 200]
        assert_problem(client.post("/mcp", json=LIST, headers=BARE), 429, "too-many-requests")


def test_a_body_that_is_too_large_is_not_read(service: Served) -> None:
    body = b'{"jsonrpc":"2.0","id":1,"method":"tools/list","params":{"x":"' + b"x" * (1024 * 1024) + b'"}}'
    answer = service.client().post("/mcp", content=body, headers={**BARE, "Content-Type": "application/json"})
    assert_problem(answer, 413, "too-large")


def test_another_name_of_this_machine_is_refused(service: Served) -> None:
    """As everywhere in a service that asks nobody: a web page could make a name point here."""
    assert_problem(service.client(Host="evil.example").post("/mcp", json=LIST, headers=BARE), 421, "wrong-host")


@pytest.mark.parametrize("era", ["modern", "handshake"])
def test_a_web_page_of_another_origin_is_refused(service: Served, guarded: Served, era: str) -> None:
    """With keys, too: the page may have stolen the browser, not the key, but nobody said that it may call."""
    body, headers = (LIST, BARE) if era == "modern" else (HELLO, ACCEPT)
    for of in (service.client(), guarded.admin()):
        foreign = of.post("/mcp", json=body, headers={**headers, "Origin": "https://evil.example"})
        assert_problem(foreign, 403, "wrong-origin")
    for malformed in ("http://[", "http://a:99999999", "null", "http://[::1"):
        told = service.client().post("/mcp", json=body, headers={**headers, "Origin": malformed})
        assert_problem(told, 403, "wrong-origin")
    own = service.client().post("/mcp", json=body, headers={**headers, "Origin": service.url})
    assert own.status_code == 200


def test_a_session_belongs_to_who_opened_it(guarded: Served) -> None:
    mine, other = guarded.key(everything=True), guarded.key(everything=True)
    begun = guarded.client(mine, **ACCEPT).post("/mcp", json=HELLO)
    session = {**ACCEPT, "Mcp-Session-Id": begun.headers["mcp-session-id"]}
    listing = {"jsonrpc": "2.0", "id": 1, "method": "tools/list"}
    assert guarded.client(other, **session).post("/mcp", json=listing).status_code == 404
    assert guarded.client(other, **session).delete("/mcp").status_code == 404
    assert guarded.client(mine, **session).post("/mcp", json=listing).status_code == 200
    assert guarded.client(mine, **session).delete("/mcp").status_code == 200
    assert guarded.client(mine, **session).post("/mcp", json=listing).status_code == 404


SESSIONS = Settings(sessions_per_caller=2)


def test_one_caller_s_sessions_leave_room_for_those_of_others(toolbox: Place, tmp_path: Path) -> None:
    """The next one is refused, in the protocol, so that its host can say why; one that is closed makes room."""
    with served(toolbox.registry, auth=True, folder=tmp_path, settings=SESSIONS) as service:
        mine, other = service.caller(everything=True), service.caller(everything=True)
        opened = [mine.post("/mcp", json=HELLO, headers=ACCEPT) for _ in range(2)]
        assert [answer.status_code for answer in opened] == [200, 200]
        refused = mine.post("/mcp", json=HELLO, headers=ACCEPT)
        assert (refused.status_code, refused.headers["content-type"]) == (429, "application/json")
        error = refused.json()["error"]
        assert error["data"] == {"by": "gateway", "code": "too-many-sessions", "retryable": True}
        assert "this caller has 2 sessions" in error["message"]
        assert "WAYGRAPH_SESSIONS_PER_CALLER" in error["message"]
        assert other.post("/mcp", json=HELLO, headers=ACCEPT).status_code == 200
        assert mine.post("/mcp", json=LIST, headers=BARE).status_code == 200, "who needs no session is not counted"
        session = {**ACCEPT, "Mcp-Session-Id": opened[0].headers["mcp-session-id"]}
        assert mine.post("/mcp", json={"jsonrpc": "2.0", "id": 1, "method": "ping"}, headers=session).status_code == 200
        assert mine.delete("/mcp", headers=session).status_code == 200
        assert eventually(lambda: mine.post("/mcp", json=HELLO, headers=ACCEPT).status_code) == 200


def test_a_request_that_opens_no_session_keeps_no_room(toolbox: Place) -> None:
    with served(toolbox.registry, settings=SESSIONS) as service:
        client = service.client()
        for _ in range(4):
            assert client.post("/mcp", json=LIST, headers=ACCEPT).status_code == 400
            assert client.post("/mcp", content=b"{", headers=ACCEPT).status_code == 400
            assert client.delete("/mcp").status_code == 400
        statuses = [client.post("/mcp", json=HELLO, headers=ACCEPT).status_code for _ in range(3)]
        assert statuses == [200, 200, 429]


async def test_a_host_is_told_that_it_has_too_many_sessions(toolbox: Place) -> None:
    """By the SDK's client, which shows nothing of an answer that is no JSON-RPC."""
    with served(toolbox.registry, settings=SESSIONS) as service:
        for _ in range(2):
            service.client().post("/mcp", json=HELLO, headers=ACCEPT)
        refused = pytest.RaisesExc(MCPError, match="has 2 sessions of MCP open")
        with pytest.RaisesGroup(refused, flatten_subgroups=True):
            async with over_http(f"{service.url}/mcp", "legacy"):
                pass


def eventually(status: Callable[[], int]) -> int:
    """The status once it is no refusal: a session that was closed ends a moment later."""
    give_up_at = time.monotonic() + PATIENCE_S
    while (found := status()) == 429 and time.monotonic() < give_up_at:
        time.sleep(0.02)
    return found


@pytest.fixture(scope="module")
def two(tmp_path_factory: pytest.TempPathFactory) -> Place:
    """The toolbox, and in the namespace `files` a catalogue of which one agent is for its group alone."""
    place = toolbox_place(tmp_path_factory.mktemp("two"))
    catalogue = place.folder / "agents.json"
    letters = {"name": "archive", "description": "Archive a letter."}
    coins = {"name": "count_coins", "description": "Count the coins."}
    shelf = {"id": "shelf", "kind": "custom", "tools": [letters]}
    vault = {"id": "vault", "kind": "custom", "visible_to": ["bank"], "tools": [coins]}
    catalogue.write_text(json.dumps({"waygraph": 1, "agents": [shelf, vault]}))
    assert ingest(place, str(catalogue), "--namespace", "files") == 0
    return place


@pytest.fixture(scope="module")
def both(two: Place, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    with served(two.registry, auth=True, folder=tmp_path_factory.mktemp("keys")) as service:
        yield service


async def test_a_caller_finds_and_calls_what_its_groups_see(both: Served) -> None:
    """What it does not see is not there: not found, not called, not suggested."""
    async with over_http(f"{both.url}/mcp", key=both.key()) as stranger:
        assert "vault" not in str(await stranger.call_tool("find_tools", {"query": "count the coins"}))
        error = error_of(await stranger.call_tool("vault__count_coins", {}))
        assert error["code"] == "unknown-name"
        assert "vault" not in str(error["nearest"])
        assert "vault" not in str(await stranger.call_tool("route_agents", {"query": "count the coins"}))
        seen = told(await stranger.call_tool("find_tools", {"query": ""}))["overview"]["tools"]
    async with over_http(f"{both.url}/mcp", key=both.key(groups=("bank",))) as banker:
        found = told(await banker.call_tool("find_tools", {"query": "count the coins"}))
        assert "vault__count_coins" in names(found)
        assert told(await banker.call_tool("find_tools", {"query": ""}))["overview"]["tools"] == seen + 1


async def test_a_namespace_is_a_door_to_its_agents_alone(both: Served) -> None:
    async with over_http(f"{both.url}/files/mcp", key=both.key(everything=True)) as host:
        assert "box__add" not in str(await host.call_tool("find_tools", {"query": "add two whole numbers"}))
        assert next(names(told(await host.call_tool("find_tools", {"query": "archive a letter"})))) == (
            "shelf__archive"
        )
        assert error_of(await host.call_tool("box__add", {"a": 1, "b": 2}))["code"] == "unknown-name"
        assert "box" not in str(await host.call_tool("route_agents", {"query": "add two whole numbers"}))


async def test_a_namespace_that_is_not_there_is_no_door_to_everything(both: Served) -> None:
    async with over_http(f"{both.url}/nowhere/mcp", key=both.key(everything=True)) as host:
        assert error_of(await host.call_tool("find_tools", {"query": "add"}))["code"] == "unknown-name"
        assert error_of(await host.call_tool("box__add", {"a": 1, "b": 2}))["code"] == "unknown-name"


def test_a_namespace_that_comes_later_opens_its_door(tmp_path: Path) -> None:
    """Until then whoever stands before it is told what there is, and what would make it."""
    place = toolbox_place(tmp_path)
    catalogue = place.folder / "agents.json"
    letters = {"name": "archive", "description": "Archive a letter."}
    catalogue.write_text(json.dumps({"waygraph": 1, "agents": [{"id": "shelf", "kind": "custom", "tools": [letters]}]}))

    async def found(url: str) -> Any:
        async with over_http(url) as host:
            return await host.call_tool("find_tools", {"query": "archive a letter"})

    with served(place.registry) as service:
        error = error_of(anyio.run(found, f"{service.url}/files/mcp"))
        assert (error["code"], error["noun"], error["name"]) == ("unknown-name", "namespace", "files")
        assert "`waygraph ingest --namespace`" in error["message"]
        assert ingest(place, str(catalogue), "--namespace", "files") == 0
        assert list(names(told(anyio.run(found, f"{service.url}/files/mcp")))) == ["shelf__archive"]


def test_a_mistyped_namespace_ends_the_gateway_of_a_host_at_once(two: Place, capfd: pytest.CaptureFixture[str]) -> None:
    assert main(["--registry", str(two.registry), "mcp", "--namespace", "flies"]) == 1
    out, err = capfd.readouterr()
    assert out == ""
    assert "namespace 'flies' is not known" in err
    assert "Did you mean 'files'?" in err


async def test_a_namespace_holds_on_stdio_too(two: Place) -> None:
    async with Client(on_stdio(two, "--namespace", "files")) as host:
        assert error_of(await host.call_tool("box__add", {"a": 1, "b": 2}))["code"] == "unknown-name"
        assert next(names(told(await host.call_tool("find_tools", {"query": "archive a letter"})))) == (
            "shelf__archive"
        )
