"""What is answered without the SDK is what the SDK would answer; and nothing that it would refuse is."""

import json
import logging
import time
from collections.abc import AsyncGenerator, Iterator, Mapping, Sequence
from contextlib import asynccontextmanager
from functools import partial
from itertools import pairwise
from pathlib import Path
from threading import Event
from types import SimpleNamespace
from typing import Any, cast

import anyio
import pytest
from hypothesis import HealthCheck, event, example, given, settings
from hypothesis import strategies as st

from tests.gateway.conversing import (
    CLIENT,
    DISCOVER,
    ENVELOPE,
    HELLO,
    INITIALIZED,
    MODERN,
    OURS,
    PATIENCE_S,
    Conversation,
    Message,
    conversing,
    find,
    line_of,
    request,
)
from tests.gateway.hosts import Place
from tests.gateway_catalog import fill
from waygraph.api.mcp import tools as meta_tools
from waygraph.api.mcp.direct import pipe
from waygraph.api.mcp.direct.answers import HANDSHAKES, DirectAnswers
from waygraph.api.mcp.direct.pipe import LONGEST, Cut
from waygraph.api.mcp.direct.plain import plain
from waygraph.api.mcp.tools import Surface
from waygraph.api.mcp.tools_list import Listed
from waygraph.ingest.upstream.pipe import CHUNK
from waygraph.registry import Registry
from waygraph.registry.model.settings import Settings
from waygraph.registry.routing.find_tools.find import find as find_in

NOTHING: Any = st.just({})
VALUES: st.SearchStrategy[Any] = st.sampled_from(
    [None, True, 0, 1.5, "text", [], {}, {"a": {}}, {"a": True}, [{"a": 1}]]
)
"""Whatever JSON has."""
ABILITIES = st.dictionaries(
    st.sampled_from(
        ["roots", "sampling", "elicitation", "tasks", "experimental", "extensions", "tools", "io.other/thing"]
    ),
    st.one_of(
        NOTHING,
        VALUES,
        st.dictionaries(
            st.sampled_from(["listChanged", "form", "url", "context", "tools", "list", "requests", "vendor/x"]),
            st.one_of(NOTHING, VALUES),
            max_size=2,
        ),
    ),
    max_size=3,
)
CLIENTS = st.one_of(
    st.just(CLIENT),
    st.fixed_dictionaries(
        {"name": st.one_of(st.just("a"), VALUES), "version": st.one_of(st.just("1"), VALUES)},
        optional=dict.fromkeys(("title", "description", "websiteUrl", "icons", "more"), VALUES),
    ),
)
METAS = st.dictionaries(
    st.sampled_from(["progressToken", "claudecode/toolUseId", "traceparent", f"{OURS}logLevel", f"{OURS}other"]),
    st.one_of(st.just("x"), st.just(7), VALUES),
    max_size=2,
)
IDS: Any = st.sampled_from([2, 0, -1, "", "a", 2**70, 1.5, True, None, []])
ARGUMENTS = st.one_of(
    VALUES,
    st.fixed_dictionaries(
        {},
        optional={
            "query": st.sampled_from(["open an issue", "", 7, "\u20ac \x7f", None]),
            "limit": st.sampled_from([1, 3, 0, 51, "5", 2.0, True, None]),
            "detail": st.sampled_from(["names", "summary", "schema", "all", 3]),
            "known": st.one_of(NOTHING, VALUES),
            "text": VALUES,
        },
    ),
)


@st.composite
def openings(draw: st.DrawFn) -> dict[str, Any]:
    """First requests of hosts."""
    versions = st.sampled_from([*HANDSHAKES, MODERN, "2099-01-01", 7])
    if draw(st.booleans()):
        params = {"protocolVersion": draw(versions), "capabilities": draw(ABILITIES), "clientInfo": draw(CLIENTS)}
        if draw(st.booleans()):
            params |= {"_meta": draw(METAS)}
        return {"jsonrpc": "2.0", "id": draw(IDS), "method": "initialize", "params": params}
    envelope = {f"{OURS}protocolVersion": draw(st.one_of(st.just(MODERN), versions))}
    envelope |= {f"{OURS}clientCapabilities": draw(ABILITIES)} | draw(st.one_of(NOTHING, METAS))
    if draw(st.booleans()):
        envelope |= {f"{OURS}clientInfo": draw(CLIENTS)}
    params = {"_meta": envelope} | draw(st.sampled_from([{}, {}, {"more": 1}]))
    return {"jsonrpc": "2.0", "id": draw(IDS), "method": "server/discover", "params": params}


@st.composite
def questions(draw: st.DrawFn) -> dict[str, Any]:
    """Later requests, of either era."""
    method = draw(st.sampled_from(["tools/list", "tools/call", "tools/call", "tools/call", "ping", "tools/other"]))
    params: Any = {}
    if method == "tools/call":
        name = draw(st.sampled_from(["find_tools", "find_tools", "route_agents", "use_tool", "another", 7]))
        params = {"name": name, "arguments": draw(ARGUMENTS)}
    params |= draw(st.one_of(NOTHING, st.sampled_from([{"cursor": "a"}, {"cursor": None}, {"task": {}}, {"more": []}])))
    meta = draw(st.one_of(NOTHING, METAS)) | (ENVELOPE if draw(st.booleans()) else {})
    if meta or draw(st.booleans()):
        params |= {"_meta": meta}
    asked = {"jsonrpc": "2.0", "id": draw(IDS), "method": method, "params": params}
    if not params and draw(st.booleans()):
        asked |= {"params": draw(VALUES)}
    return asked | draw(st.sampled_from([{}, {}, {}, {"more": 1}, {"jsonrpc": "1.0"}]))


@pytest.fixture(scope="module")
def registry() -> Iterator[Registry]:
    with Registry.open(":memory:", embedder="none") as registry:
        fill(registry)
        yield registry


async def told(registry: Registry, messages: Sequence[Message], *, directly: bool, surface: Surface = "default") -> Any:
    """What a host hears, message by message, if it waits for each answer."""
    async with conversing(registry, directly=directly, surface=surface) as host:
        heard = []
        for message in messages:
            if "id" in message:
                heard.append(await host.ask(message))
            else:
                host.say(message)
        # A last one, so that whatever is told too often is heard.
        return [*heard, await host.ask({"jsonrpc": "2.0", "id": "end", "method": "ping"})]


def both(registry: Registry, messages: Sequence[Message], surface: Surface = "default") -> list[Any]:
    """The SDK's answers; those that are made directly are the same."""
    alone = anyio.run(partial(told, registry, messages, directly=False, surface=surface))
    direct = anyio.run(partial(told, registry, messages, directly=True, surface=surface))
    assert direct == alone
    return list(alone)


def is_direct(registry: Registry, *messages: Message) -> bool:
    """Whether the last of them is answered without the SDK."""
    answers = DirectAnswers(cast(Any, SimpleNamespace(surface="default", registry=registry)), cast(Any, None))
    first, *_ = requests = [plain(dict(message)) for message in messages]
    greets = first is not None and answers.greeting(first) is not None
    last = requests[-1]
    return greets and (len(messages) == 1 or (last is not None and answers.takes(last)))


@settings(max_examples=150, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(opening=openings())
def test_a_host_is_greeted_as_by_the_sdk(registry: Registry, opening: Message) -> None:
    """And whatever the SDK refuses is not accepted."""
    event("directly" if is_direct(registry, opening) else "by the SDK")
    both(registry, [opening, find(2, "open an issue", modern=opening["method"] != "initialize")])


@settings(max_examples=150, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(opening=st.sampled_from([HELLO, DISCOVER]), asked=st.lists(questions(), max_size=4))
def test_what_is_asked_is_answered_as_by_the_sdk(registry: Registry, opening: Message, asked: list[Message]) -> None:
    for question in asked:
        event("directly" if is_direct(registry, opening, question) else "by the SDK")
    both(registry, [opening, INITIALIZED, *asked])


REAL: Mapping[str, Mapping[str, Any]] = {
    "Claude Code": {
        "capabilities": {"roots": {}, "elicitation": {}},
        "clientInfo": {"name": "claude-code", "title": "Claude Code", "version": "2.1.0", "websiteUrl": "https://a.b"},
    },
    "Cursor": {
        "capabilities": {
            "tools": True,
            "prompts": True,
            "resources": True,
            "logging": False,
            "elicitation": {},
            "roots": {"listChanged": False},
        },
        "clientInfo": {"name": "cursor-vscode", "version": "1.0.0"},
    },
    "VS Code": {
        "capabilities": {
            "roots": {"listChanged": True},
            "sampling": {},
            "elicitation": {"form": {}, "url": {}},
            "tasks": {"list": {}, "cancel": {}, "requests": {"sampling": {"createMessage": {}}}},
            "extensions": {"io.modelcontextprotocol/ui": {"mimeTypes": ["text/html;profile=mcp-app"]}},
        },
        "clientInfo": {"name": "Visual Studio Code", "version": "1.110.0"},
    },
}
"""The forms in which hosts say hello."""


@pytest.mark.parametrize("name", REAL)
@pytest.mark.parametrize("version", HANDSHAKES)
@pytest.mark.parametrize("surface", ["default", "rfc"])
def test_hosts_as_they_are_are_greeted_directly(registry: Registry, name: str, version: str, surface: Surface) -> None:
    hello = {**HELLO, "params": {"protocolVersion": version, **REAL[name]}}
    listing, finding = {"jsonrpc": "2.0", "id": 2, "method": "tools/list"}, find("b", "open an issue")
    called = {**finding, "params": {**finding["params"], "_meta": {"progressToken": 3, "claudecode/toolUseId": "a"}}}
    for messages in ([hello], [hello, listing], [hello, called]):
        assert is_direct(registry, *messages)
    greeting, listed, found, _ = both(registry, [hello, INITIALIZED, listing, called], surface)
    assert greeting["result"]["protocolVersion"] == version
    assert listed["result"]["tools"][0]["name"] == "find_tools"
    assert json.loads(found["result"]["content"][0]["text"])["tools"]


def test_a_modern_host_is_greeted_directly(registry: Registry) -> None:
    asked = [DISCOVER, request(2, "tools/list", modern=True), find(3, "open an issue", modern=True)]
    assert all(is_direct(registry, *asked[:number]) for number in (1, 2, 3))
    discovered, *_ = both(registry, asked)
    assert discovered["result"]["supportedVersions"] == [MODERN]


@pytest.mark.parametrize(
    "asked",
    [
        [find(1, "before any greeting")],
        [HELLO, find(2, "of the other era", modern=True)],
        [DISCOVER, find(2, "of the other era")],
        [DISCOVER, {**HELLO, "id": 2}],
        [HELLO, {**HELLO, "id": 2}],
        [INITIALIZED, HELLO],
        [HELLO, request(2, "tools/call", name="find_tools", arguments={"query": "an issue", "kown": {}})],
        [HELLO, request(2, "tools/call", name="find_tools", arguments={"query": "an issue", "known": 7})],
        [HELLO, find(2, "an issue"), find(3, "an issue"), find(4, "an issue", known={})],
    ],
)
def test_what_is_out_of_order_or_wrong_is_told_as_by_the_sdk(registry: Registry, asked: list[Message]) -> None:
    both(registry, asked)


def test_a_registry_that_is_not_there_is_told_as_by_the_sdk(tmp_path: Path) -> None:
    with Registry.open(tmp_path / "none.grafeo", embedder="none") as registry:
        _, listed, found, _ = both(registry, [HELLO, request(2, "tools/list"), find(3, "anything")])
    assert listed["result"]["tools"]
    assert found["result"]["isError"]


def test_what_is_listed_is_the_same_before_a_registry_and_in_an_empty_one(tmp_path: Path, registry: Registry) -> None:
    """So that no host is told of a change."""

    def listed(registry: Registry) -> Listed:
        found = SimpleNamespace(registry=registry, agents_within=lambda _: None)
        return Listed.first(cast(Any, found))

    with Registry.open(tmp_path / "none.grafeo", embedder="none") as none:
        assert listed(none).tools == listed(registry).tools == ()


# -- what runs -------------------------------------------------------------------------------------


@asynccontextmanager
async def greeted(registry: Registry) -> AsyncGenerator[Conversation]:
    async with conversing(registry, directly=True) as host:
        assert "result" in await host.ask(HELLO)
        yield host


def test_what_is_given_up_is_not_answered(registry: Registry, monkeypatch: pytest.MonkeyPatch) -> None:
    """And one that is not ours is left to the SDK."""
    hindered, began = Event(), Event()
    search = find_in

    def find_slowly(*arguments: Any, **more: Any) -> Any:
        if "slowly" in arguments[1].query:
            began.set()
            hindered.wait()
        return search(*arguments, **more)

    async def run() -> None:
        async with greeted(registry) as host:
            host.say(find(2, "slowly"))
            await anyio.to_thread.run_sync(began.wait)
            host.say(*(cancelling(number) for number in ("another", 2)))
            assert (await host.ask(find(3, "at once")))["id"] == 3
            hindered.set()
            assert (await host.ask(request(4, "ping")))["id"] == 4

    monkeypatch.setattr(meta_tools, "find", find_slowly)
    try:
        anyio.run(run)
    finally:
        hindered.set()


def test_what_is_given_up_in_the_same_breath_is_not_answered(registry: Registry) -> None:
    async def run() -> None:
        async with greeted(registry) as host:
            host.say(find(2, "an issue"), cancelling(2))
            assert (await host.ask(find(3, "an issue")))["id"] == 3
            assert (await host.ask(request(4, "ping")))["id"] == 4

    anyio.run(run)


def test_two_at_once_may_bear_one_id(registry: Registry) -> None:
    """A host that does so is wrong, and is served all the same."""

    async def run() -> None:
        async with greeted(registry) as host:
            host.say(find(2, "an issue"), find(2, "a defect"), cancelling(7))
            assert [(await host.heard())["id"] for _ in range(2)] == [2, 2]
            assert (await host.ask(find(2, "an issue")))["id"] == 2

    anyio.run(run)


def cancelling(number: int | str) -> Message:
    return {"jsonrpc": "2.0", "method": "notifications/cancelled", "params": {"requestId": number}}


def test_what_hangs_is_not_waited_for_once_the_host_has_left(
    registry: Registry, monkeypatch: pytest.MonkeyPatch
) -> None:
    hindered, began = Event(), Event()

    def hang(*_: Any, **__: Any) -> None:
        began.set()
        hindered.wait()

    async def run() -> None:
        async with greeted(registry) as host:
            host.say(find(2, "anything"))
            await anyio.to_thread.run_sync(began.wait)
            host.leave()
            with anyio.fail_after(PATIENCE_S):
                await host.over.wait()

    monkeypatch.setattr(pipe, "LAST_S", 0.1)
    monkeypatch.setattr(meta_tools, "find", hang)
    try:
        anyio.run(run)
    finally:
        hindered.set()


def test_what_runs_is_answered_though_the_host_wrote_its_last(
    registry: Registry, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As with `printf … | waygraph mcp`, also where the last line has no end."""
    left, search = Event(), find_in

    def find_when_it_has_left(*arguments: Any, **more: Any) -> Any:
        left.wait()
        return search(*arguments, **more)

    async def run() -> None:
        async with greeted(registry) as host:
            host.write(line_of(find(2, "an issue")), line_of(find(3, "an issue")).rstrip(b"\n"))
            host.leave()
            left.set()
            assert {(await host.heard())["id"] for _ in range(2)} == {2, 3}

    monkeypatch.setattr(meta_tools, "find", find_when_it_has_left)
    anyio.run(run)


def test_a_fault_of_our_own_is_told_as_one(
    registry: Registry, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """Its words are for the log; and the next question is answered."""

    def fail(*_: Any, **__: Any) -> None:
        raise RuntimeError("unforeseen")

    monkeypatch.setattr(meta_tools, "find", fail)
    with caplog.at_level(logging.ERROR, logger="waygraph.mcp"):
        _, found, listed, _ = both(registry, [HELLO, find(2, "an issue"), request(3, "tools/list")])
    assert found["error"] == {"code": -32603, "message": "the gateway met a fault of its own; its log knows more"}
    assert listed["result"]["tools"]
    assert "RuntimeError: unforeseen" in caplog.text


def test_what_takes_too_long_is_told_so(registry: Registry, monkeypatch: pytest.MonkeyPatch) -> None:
    hindered = Event()

    async def run() -> None:
        async with conversing(registry, directly=True, timeout_s=0.2) as host:
            await host.ask(HELLO)
            answer = await host.ask(find(2, "an issue"))
            assert answer["result"]["structuredContent"]["error"]["code"] == "too-late"

    monkeypatch.setattr(meta_tools, "find", lambda *_, **__: hindered.wait())
    try:
        anyio.run(run)
    finally:
        hindered.set()


# -- the pipe --------------------------------------------------------------------------------------


@given(
    content=st.lists(st.sampled_from([b"\n", b"a", b"{}", b"\r\n", b"b" * LONGEST, b"c" * 7]), max_size=12),
    at=st.lists(st.integers(0, 3 * LONGEST), max_size=6),
)
@example(content=[b"b" * LONGEST, b"a", b"\n", b"{}", b"\n"], at=[LONGEST + 1])
def test_all_that_is_cut_comes_out_and_lines_are_whole(content: list[bytes], at: list[int]) -> None:
    whole = b"".join(content)
    edges = [0, *sorted(min(edge, len(whole)) for edge in at), len(whole)]
    cut = Cut()
    pieces = [piece for a, b in pairwise(edges) for piece in cut.fed(whole[a:b])]
    pieces += cut.ended()
    assert b"".join(piece for piece, _ in pieces).removesuffix(b"\n") == whole.removesuffix(b"\n")
    lines = {line + b"\n" for line in whole.split(b"\n")}
    assert all(piece in lines for piece, is_line in pieces if is_line)
    assert {line for line in lines if len(line) <= LONGEST} - {b"\n"} <= {piece for piece, is_line in pieces if is_line}


def test_no_more_than_a_limit_is_kept_for_the_sdk(registry: Registry, monkeypatch: pytest.MonkeyPatch) -> None:
    """A host that writes more waits; nothing of it is lost."""
    lines = [line_of(HELLO), *(line_of(request(number, "ping", more="x" * 1_000)) for number in range(2, 400))]
    whole = b"".join(lines)

    async def run() -> None:
        async with conversing(registry, directly=True, served=False) as host, anyio.create_task_group() as tasks:
            assert host.direct is not None
            tasks.start_soon(anyio.to_thread.run_sync, host.write, whole)
            with anyio.CancelScope() as scope:
                tasks.start_soon(wanted, host.direct, scope)
                await host.direct.hold()
            given = await host.direct.receive()
            assert len(given) <= 1_000 + CHUNK
            while len(given) < len(whole):
                given += await host.direct.receive()
            assert given == whole

    monkeypatch.setattr(pipe, "MOST_HELD", 1_000)
    anyio.run(run)


async def wanted(direct: pipe.DirectPipe, scope: anyio.CancelScope) -> None:
    """Cancels the scope when the SDK is wanted."""
    with anyio.fail_after(PATIENCE_S):
        await direct.wanted.wait()
    await anyio.wait_all_tasks_blocked()
    scope.cancel()


def test_how_long_a_request_was_kept_is_told_till_it_is_answered(
    registry: Registry, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def run() -> None:
        async with conversing(registry, directly=True, served=False) as host:
            assert host.direct is not None
            with anyio.CancelScope() as scope:
                host.say(HELLO, request(2, "ping"))
                async with anyio.create_task_group() as tasks:
                    tasks.start_soon(wanted, host.direct, scope)
                    await host.direct.hold()
            began = time.monotonic()
            monkeypatch.setattr(pipe, "time", SimpleNamespace(monotonic=lambda: began + 1_000))
            assert 1_000 <= host.direct.waited_s(2) < 2_000
            assert host.direct.waited_s(3) == host.direct.waited_s(None) == 0
            assert not host.direct.has_answer(2)
            assert host.direct.waited_s(2) == 0

    anyio.run(run)


@pytest.mark.parametrize("by", ["box__wait", "use_tool"])
def test_a_call_has_its_time_from_when_it_was_heard(toolbox: Place, by: str) -> None:
    """It is told what it had in all, though most of that was over."""
    arguments = {"name": "box__wait", "params": {}} if by == "use_tool" else {}
    call = request(2, "tools/call", name=by, arguments=arguments)

    async def run(registry: Registry) -> None:
        async with conversing(registry, directly=True, waited_s=10_000.0) as host:
            await host.ask(HELLO)
            error = (await host.ask(call))["result"]["structuredContent"]["error"]
        assert (error["code"], error["timeout_s"]) == ("call-timed-out", Settings().call_timeout_s)

    with Registry.open(toolbox.registry, embedder="none") as registry:
        anyio.run(run, registry)


@pytest.mark.parametrize(
    ("line", "is_wanted"),
    [
        (line_of(INITIALIZED), False),
        (b"\n", False),
        (line_of(find(2, "an issue")), False),
        (line_of(request(2, "ping")), True),
        (b"{\n", True),
        (line_of({"jsonrpc": "2.0", "id": None, "method": "ping"}), True),
        (b'{"jsonrpc": "2.0", "method": "x", "params": "' + b"x" * 3 * LONGEST + b'"}\n', True),
    ],
)
def test_the_sdk_is_wanted_for_what_it_has_to_answer(registry: Registry, line: bytes, is_wanted: bool) -> None:
    async def run() -> None:
        async with conversing(registry, directly=True, served=False) as host:
            assert host.direct is not None
            async with anyio.create_task_group() as tasks:
                tasks.start_soon(host.direct.hold)
                await host.ask(HELLO)
                assert not host.direct.wanted.is_set()
                await anyio.to_thread.run_sync(host.write, line, line_of(request("last", "tools/list")))
                while (await host.heard())["id"] != "last":
                    pass
                assert host.direct.wanted.is_set() == is_wanted
                tasks.cancel_scope.cancel()

    anyio.run(run)
