"""What is remembered of a host, and what it is told by itself."""

import json
from pathlib import Path
from typing import Any

import anyio
import pytest
from mcp import Client, MCPError
from mcp.server.connection import Connection
from mcp.types import ToolListChangedNotification

from tests.gateway.hosts import Era, Open, Place, error_of, ingest, on_stdio, opened_by, over_http, told, toolbox_place
from tests.service import Served, process, served
from waygraph import Principal
from waygraph.api.mcp import tool_list
from waygraph.api.mcp.sessions import MAX_CALLS, Session
from waygraph.api.mcp.tool_list import Listeners
from waygraph.ingest.upstream.inflight import ANSWERED_S
from waygraph.registry.access.visibility import Caller
from waygraph.registry.graph.read import read_transitions
from waygraph.registry.model.nouns import Tool
from waygraph.registry.storage.local_registry import LocalRegistry

PATIENCE_S = 30.0


@pytest.fixture(params=["stdio", "http"])
def open_host(request: pytest.FixtureRequest, toolbox: Place, service: Served) -> Open:
    opened = opened_by(request.param, f"{service.url}/mcp", on_stdio(toolbox))
    opened.remembers = lambda era: request.param == "stdio" or era == "legacy"  # type: ignore[attr-defined]
    return opened


async def test_what_a_session_was_sent_is_not_sent_again(open_host: Any, era: Era) -> None:
    """In stdio and handshake sessions without asking; a modern host over HTTP has none, and says what it knows."""
    async with open_host(era) as host:
        asked = {"query": "add two whole numbers", "limit": 1, "detail": "schema"}
        first = told(await host.call_tool("find_tools", asked))["tools"][0]
        again = told(await host.call_tool("find_tools", asked))
        if open_host.remembers(era):
            assert again["tools"][0] == {"name": "box__add", "version": first["version"], "unchanged": True}
            [notice] = again["notices"]
            assert (notice["code"], "known={}" in notice["text"]) == ("sent_before", True)
        else:
            assert again["tools"][0] == first
        whole = told(await host.call_tool("find_tools", {**asked, "known": {}}))
        assert whole["tools"][0] == first
        known = {"box__add": first["version"]}
        stated = told(await host.call_tool("find_tools", {**asked, "known": known}))
        assert stated["tools"][0]["unchanged"] is True
        old = told(await host.call_tool("find_tools", {**asked, "known": {"box__add": "000000000000"}}))
        assert old["tools"][0] == first


async def test_a_summary_does_not_stand_for_the_schema(toolbox: Place) -> None:
    """Who was told little is told more when it asks for more, and a name alone stands for nothing."""
    async with Client(on_stdio(toolbox)) as host:

        async def found(detail: str) -> dict[str, Any]:
            asked = {"query": "add two whole numbers", "limit": 1, "detail": detail}
            tool: dict[str, Any] = told(await host.call_tool("find_tools", asked))["tools"][0]
            return tool

        assert set(await found("names")) == {"name", "version"}
        assert "description" in await found("summary")
        assert (await found("summary"))["unchanged"] is True
        assert "inputSchema" in await found("schema")
        assert (await found("schema"))["unchanged"] is True
        assert (await found("summary"))["unchanged"] is True


async def test_sessions_know_nothing_of_each_other(service: Served) -> None:
    asked = {"query": "add two whole numbers", "limit": 1}
    async with over_http(f"{service.url}/mcp", "legacy") as one, over_http(f"{service.url}/mcp", "legacy") as other:
        first = told(await one.call_tool("find_tools", asked))
        assert told(await other.call_tool("find_tools", asked)) == first


DOOR: dict[str, Any] = {"query": "fail to open a door, or ask a person", "limit": 5}


async def test_a_session_marks_a_failure_and_after_two_offers_another_tool(
    open_host: Any, service: Served, era: Era
) -> None:
    """It knows its own calls; a modern host over HTTP tells them. No other session is offered anything else."""

    async def found(host: Any, **more: Any) -> list[dict[str, Any]]:
        return list(told(await host.call_tool("find_tools", {**DOOR, "known": {}, **more}))["tools"])

    async def offered(host: Any, **more: Any) -> list[str]:
        return [tool["name"] for tool in await found(host, **more)]

    async with open_host(era) as host, over_http(f"{service.url}/mcp", "legacy") as other:
        before = await offered(host)
        assert before[0] == "box__fail"
        assert (await host.call_tool("box__fail", {})).is_error
        if open_host.remembers(era):
            marks = {tool["name"]: tool.get("failed", "") for tool in await found(host)}
            assert marks.pop("box__fail").endswith(" ago: it reported an error")
            assert (set(marks.values()), (await offered(host))[0]) == ({""}, "box__fail")
        assert (await host.call_tool("box__fail", {})).is_error
        failed = [{"tool": "box__fail", "outcome": "failed"}] * 2
        calls = {} if open_host.remembers(era) else {"history": failed}
        after = await offered(host, **calls)
        assert (after[0], sorted(after)) == (before[1], sorted(before))
        assert await offered(other) == before
        assert await offered(host, history=[]) == before
        unknown = {**DOOR, "history": [{"tool": "nowhere__none"}]}
        notices = told(await host.call_tool("find_tools", unknown))["notices"]
        assert [each["code"] for each in notices if "turns 1" in each["text"]] == ["history"]
        for bad in ("box__fail", ["box__fail"], [{"tool": "box__fail", "text": "secret"}], [{"outcome": "ok"}]):
            refused = await host.call_tool("find_tools", {**DOOR, "history": bad})
            assert refused.is_error
            assert "secret" not in str(refused)


@pytest.mark.parametrize(
    ("tool", "arguments", "mark"),
    [
        ("refuse", {"code": 1234}, "its server answered with error 1234"),
        ("refuse", {"code": -32602}, ""),
        ("fail", {}, "it reported an error"),
        ("fail", {"words": "MCP error -32602: `door` is missing"}, ""),
        ("wait", {}, "it gave no answer in time"),
    ],
)
async def test_a_call_fails_its_tool_unless_its_arguments_are_at_fault(
    toolbox: Place, tool: str, arguments: dict[str, Any], mark: str
) -> None:
    async with Client(on_stdio(toolbox, WAYGRAPH_CALL_TIMEOUT_S="1")) as host:
        call = {"name": f"box__{tool}", "params": arguments}
        if tool == "refuse":
            with pytest.raises(MCPError):
                await host.call_tool("use_tool", call)
        else:
            assert (await host.call_tool("use_tool", call)).is_error
        found = told(await host.call_tool("find_tools", {"query": f"box__{tool}", "limit": 1}))["tools"][0]
        assert (found["name"], found.get("failed", "").partition(" ago: ")[2]) == (f"box__{tool}", mark)


async def test_what_the_user_said_before_tells_what_a_short_request_means(toolbox: Place) -> None:
    async with Client(on_stdio(toolbox)) as host:
        said = [{"said": "paint a picture of the harbour"}, {"tool": "box__paint"}]
        short = {"query": "and one of the castle", "limit": 1, "known": {}}
        assert "tools" not in (bare := told(await host.call_tool("find_tools", short))) or not bare["tools"]
        found = told(await host.call_tool("find_tools", {**short, "history": said}))["tools"]
        assert [tool["name"] for tool in found] == ["box__paint"]
        for bad in ({"said": 3}, {"said": "a", "tool": "box__paint"}, {"says": "secret"}):
            refused = await host.call_tool("find_tools", {**short, "history": [bad]})
            assert refused.is_error
            assert "secret" not in str(refused)


def test_a_caller_starts_from_its_own_calls_only() -> None:
    """Also if two have one session, as when a key is changed for another; the oldest calls go."""
    session, one, other = Session(), caller("key:1"), caller("key:2")
    add, fail = (
        Tool(id=f"box/{name}", agent_id="box", name=name, call_name=f"box__{name}") for name in ("add", "fail")
    )
    session.note_call(one, add)
    session.note_call(other, fail, "it reported an error")
    assert [turn.tool for turn in session.calls_of(one)] == ["box/add"]
    assert [(turn.tool, turn.outcome) for turn in session.calls_of(other)] == [("box/fail", "failed")]
    assert session.failure_of(other, "box__fail").endswith(" ago: it reported an error")
    assert session.failure_of(one, "box__fail") == session.failure_of(other, "box__add") == ""
    session.note_call(other, fail)
    assert session.failure_of(other, "box__fail") == ""
    for _ in range(MAX_CALLS):
        session.note_call(other, add)
    assert session.calls_of(one) == ()


def caller(caller_id: str) -> Caller:
    return Caller(id=caller_id, scopes=frozenset(), principal=Principal())


def test_what_follows_what_is_learned_where_an_operator_wants_it(tmp_path: Path) -> None:
    """Of calls that worked; a failed one is not in between, and without the setting nothing is counted."""
    place = toolbox_place(tmp_path)

    async def walk(**environ: str) -> None:
        async with Client(on_stdio(place, **environ)) as host:
            assert not (await host.call_tool("box__add", {"a": 1, "b": 2})).is_error
            assert (await host.call_tool("box__fail", {})).is_error
            assert not (await host.call_tool("box__add", {"a": 2, "b": 2})).is_error

    def counts() -> list[tuple[tuple[str, str, str], float]]:
        with LocalRegistry.open(place.registry, embedder="none", environ={}) as registry:
            return [(each.key, each.count) for each in registry.read(read_transitions)]

    anyio.run(walk)
    assert counts() == []
    anyio.run(lambda: walk(WAYGRAPH_LEARN="transitions"))
    assert counts() == [
        (("", "", "box"), 1.0),
        (("", "", "box/add"), 1.0),
        (("", "box", "box"), 1.0),
        (("", "box/add", "box/add"), 1.0),
    ]


async def test_steps_are_routed_each_by_itself(toolbox: Place) -> None:
    async with Client(on_stdio(toolbox)) as host:
        asked = {"steps": ["add two whole numbers", "zzz qqq"]}
        answer = told(await host.call_tool("route_agents", asked))
        assert ([agent["id"] for agent in answer["agents"]], answer["steps"]) == (["box"], [["box"], []])
        both = told(await host.call_tool("route_agents", {**asked, "query": "numbers"}))
        assert both["steps"] == answer["steps"]
        for bad in ({}, {"steps": "add"}, {"steps": [["add"]]}, {"steps": ["a"] * 51}, {"query": " ", "steps": ["b"]}):
            assert (await host.call_tool("route_agents", bad)).is_error, bad


@pytest.mark.parametrize("transport", ["stdio", "http"])
def test_hosts_are_told_when_pinned_tools_change(tmp_path: Path, era: Era, transport: str) -> None:
    """And the list has them, in order, after the meta-tools; pinned agents of other doors are not listed."""
    place = toolbox_place(tmp_path)

    async def walk(host: Client, changed: anyio.Event) -> None:
        assert len((await host.list_tools()).tools) == 3
        await anyio.to_thread.run_sync(lambda: pin(place, pinned=True))
        with anyio.fail_after(PATIENCE_S):
            await changed.wait()
        listed = [tool.name for tool in (await host.list_tools(cache_mode="refresh")).tools]
        assert listed[:3] == ["find_tools", "use_tool", "route_agents"]
        assert listed[3:] == sorted(listed[3:])
        assert "box__add" in listed
        assert (await host.call_tool("box__add", {"a": 1, "b": 2})).structured_content == {"total": 3}

    async def opened(client: Any) -> None:
        changed = anyio.Event()

        async def heard(message: Any) -> None:
            if isinstance(message, ToolListChangedNotification):
                changed.set()

        async with client(era, message_handler=heard) as host:
            if era == "legacy":
                await walk(host, changed)
                return
            async with host.listen(tools_list_changed=True) as events, anyio.create_task_group() as tasks:

                async def follow() -> None:
                    async for _ in events:
                        changed.set()

                tasks.start_soon(follow)
                await walk(host, changed)
                tasks.cancel_scope.cancel()

    if transport == "stdio":
        anyio.run(opened, lambda era, **more: Client(on_stdio(place), mode=era, **more))
        return
    with served(place.registry) as service:
        anyio.run(opened, lambda era, **more: over_http(f"{service.url}/mcp", era, **more))


class Line:
    """What a connection sends over: it takes a message if it is `free`, and else never."""

    def __init__(self, *, free: bool) -> None:
        self.heard, self._free = anyio.Event(), free

    async def notify(self, method: str, params: Any, opts: Any = None) -> None:  # noqa: ARG002
        if not self._free:
            await anyio.sleep_forever()
        assert method == "notifications/tools/list_changed"
        self.heard.set()

    async def send_raw_request(self, method: str, params: Any, opts: Any = None) -> dict[str, Any]:  # noqa: ARG002
        raise AssertionError(f"nothing is asked: {method}")


async def test_a_host_that_does_not_read_holds_up_no_other(monkeypatch: pytest.MonkeyPatch) -> None:
    """The others are told at once, and the next change is looked for before long."""
    listeners = Listeners()
    lines = [Line(free=False), Line(free=True), Line(free=False), Line(free=True)]
    connections = [Connection.for_loop(line) for line in lines]
    for connection in connections:
        listeners.add(connection)
    with anyio.fail_after(PATIENCE_S):
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(listeners.tell)
            await lines[1].heard.wait()
            await lines[3].heard.wait()
            tasks.cancel_scope.cancel()
        monkeypatch.setattr(tool_list, "TELL_S", 0.1)
        await listeners.tell()


def pin(place: Place, *, pinned: bool) -> None:
    with LocalRegistry.open(place.registry, embedder="none") as registry:
        registry.operator.set("box", pinned=pinned)


@pytest.mark.parametrize("door", ["stdio", "http"])
def test_the_surface_of_a_router_routes_again_after_a_failure(door: str, era: Era, tmp_path: Path) -> None:
    """`route` returns one tool that can be called as it stands; `execute` runs it; pinned tools are not listed."""
    place, of_router = toolbox_place(tmp_path), ("--surface", "router")
    pin(place, pinned=True)

    async def walk(url: str = "") -> None:
        async with opened_by(door, url, on_stdio(place, *of_router))(era) as host:
            assert [tool.name for tool in (await host.list_tools()).tools] == ["route", "execute"]

            async def route(query: str, *notices: str, **more: Any) -> dict[str, Any]:
                answer = told(await host.call_tool("route", {"query": query, **more}))
                assert "execute(" in answer["hint"]
                assert [each["text"] for each in answer.get("notices", ()) if each["code"] == "failed"] == [*notices]
                return dict(answer["tool"])

            adding = await route("add two whole numbers")
            assert (adding["name"], adding["agent"]) == ("box__add", "box")
            assert adding["inputSchema"]["required"] == ["a", "b"]
            ran = await host.call_tool("execute", {"name": adding["name"], "params": {"a": 1, "b": 2}})
            assert ran.structured_content == {"total": 3}
            first = await route(DOOR["query"])
            assert first["name"] == "box__fail"
            has_session, why = (
                door == "stdio" or era == "legacy",
                "box__fail failed twice: box__ask is the best other one.",
            )
            for failures, best in ((1, ("box__fail",)), (2, ("box__ask", why))):
                assert (await host.call_tool("execute", {"name": first["name"], "params": {}})).is_error
                failed = [{"tool": "box/fail", "outcome": "failed"}] * failures
                again = await route(DOOR["query"], *best[1:], **({} if has_session else {"history": failed}))
                assert (again["name"], "failed" in again) == (best[0], has_session and failures == 1)
            nothing = told(await host.call_tool("route", {"query": "zzz qqq", "history": []}))
            assert ("tool" in nothing, bool(nothing["reason"])) == (False, True)
            for name, bad in (("route", {"query": "a", "limit": 2}), ("execute", {"query": "add", "params": {}})):
                assert (await host.call_tool(name, bad)).is_error
            for name in ("find_tools", "use_tool", "route_agents"):
                assert error_of(await host.call_tool(name, {"query": "add"}))["code"] == "unknown-name"

    if door == "stdio":
        anyio.run(walk)
        return
    with process(place.registry, tmp_path, *of_router) as running:
        anyio.run(walk, f"{running.url}/mcp")


def test_the_surface_of_a_router_returns_an_agent_where_no_tool_fits(tmp_path: Path) -> None:
    """A skill is read by `execute`, as the hint says; what nothing runs here says why."""
    place = toolbox_place(tmp_path)
    (tmp_path / "coach").mkdir()
    skill = (
        "---\nname: coach\ndescription: Rehearses job interviews and hard conversations.\n---\nAsk about the gaps.\n"
    )
    (tmp_path / "coach" / "SKILL.md").write_text(skill)
    others = [
        {"id": "lawyer", "kind": "a2a_agent", "description": "Reviews lease contracts of tenants."},
        {"id": "mail", "kind": "mcp_server", "description": "Sends letters by mail."},
    ]
    (tmp_path / "others.json").write_text(json.dumps({"waygraph": 1, "agents": others}))
    assert ingest(place, str(tmp_path / "coach")) == ingest(place, str(tmp_path / "others.json")) == 0

    async def walk() -> None:
        async with Client(on_stdio(place, "--surface", "router"), mode="legacy") as host:

            async def route(query: str) -> dict[str, Any]:
                return told(await host.call_tool("route", {"query": query}))

            answer = await route("rehearse a job interview")
            assert (answer["agent"]["id"], answer["agent"]["tools"]) == ("coach", ["coach__read"])
            assert answer["hint"].endswith('read it with execute(name="coach__read", params={})')
            read = await host.call_tool("execute", {"name": "coach__read", "params": {}})
            assert "Ask about the gaps." in str(read.content[0])
            answer = await route("review the lease contract of a tenant")
            assert (answer["agent"]["id"], "tool" in answer) == ("lawyer", False)
            assert answer["agent"]["cannot_run"]
            assert "agent" not in await route("send a letter by mail"), "a server that was never asked for its tools"
            for query in ("add two whole numbers", "box__add"):
                assert (await route(query))["tool"]["name"] == "box__add"

    anyio.run(walk)


async def test_progress_and_logs_of_a_tool_reach_its_host(open_host: Any, toolbox: Place, era: Era) -> None:
    """Logs as loud as the host wants them, of which the server is told; all names the agent first."""
    progress: list[Any] = []
    logs: list[Any] = []

    async def went(done: float, total: float | None, message: str | None) -> None:
        progress.append((done, total, message))

    async def logged(params: Any) -> None:
        logs.append((params.level, params.logger, params.data))

    await anyio.sleep(ANSWERED_S)  # what comes right after another host's call might be of that one
    async with open_host(era, logging_callback=logged) as host:
        meta = None if era == "legacy" else {"io.modelcontextprotocol/logLevel": "info"}
        if era == "legacy":
            await host.session.send_request(*set_level("info"))
        await host.call_tool("box__tell", {}, progress_callback=went, meta=meta)
    assert progress == [(1, 2, "Agent box: step 1"), (2, 2, "Agent box: step 2")]
    assert logs == [("warning", "box/box", {"step": 1}), ("warning", "box/box", {"step": 2})]
    assert "level info" in toolbox.notes


def set_level(level: Any) -> tuple[Any, Any]:
    from mcp.types import EmptyResult, SetLevelRequest, SetLevelRequestParams

    return SetLevelRequest(params=SetLevelRequestParams(level=level)), EmptyResult


async def test_a_host_that_gives_up_ends_the_call_at_the_server(open_host: Any, toolbox: Place, era: Era) -> None:
    waits, cancelled = toolbox.notes.count("waits"), toolbox.notes.count("cancelled")
    async with open_host(era) as host:
        with anyio.move_on_after(PATIENCE_S) as patience:
            async with anyio.create_task_group() as tasks:
                tasks.start_soon(host.call_tool, "box__wait", {})
                while toolbox.notes.count("waits") == waits:
                    await anyio.sleep(0.02)
                tasks.cancel_scope.cancel()
            while toolbox.notes.count("cancelled") == cancelled:
                await anyio.sleep(0.02)
        assert not patience.cancelled_caught, "the server was not told"
        assert (await host.call_tool("box__add", {"a": 1, "b": 2})).structured_content == {"total": 3}


async def test_a_call_ends_by_its_deadline(open_host: Any, era: Era) -> None:
    async with open_host(era) as host:
        result = await host.call_tool("box__wait", {}, meta={"waygraph/timeout_s": 0.3})
    error = result.structured_content["error"]
    assert (error["code"], error["timeout_s"]) == ("call-timed-out", 0.3)
