"""What a host, or a model, sends wrongly is answered or passed over; the gateway goes on."""

import json
import subprocess
import sys
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from threading import Thread
from typing import Any

import anyio
import pytest
from mcp import MCPError

from tests.gateway.hosts import Era, Open, Place, ingest, on_stdio, opened_by
from tests.gateway.programs.hostile_answers import NAMES
from tests.gateway.test_answers import ENVELOPE, HANDSHAKE
from tests.gateway.test_doors import ACCEPT, HELLO, LIST
from tests.service import Served, served

HUGE = "9" * 4_000
META: list[Any] = [{"progressToken": {}}, {"waygraph/timeout_s": int(HUGE)}, {"waygraph/timeout_s": "NaN"}, [], "x"]
CALLS: list[Any] = [
    {"name": "box__add", "arguments": "a=1"},
    {"name": "box__add", "arguments": {"a": int(HUGE), "b": 1}},
    {"name": "use_tool", "arguments": {"name": "box__add", "params": json.dumps({"a": 1, "b": 2})}},
    {"name": "use_tool", "arguments": {"name": ["box__add"], "params": {}}},
    {"name": "use_tool", "arguments": {"name": "box/add/../erase", "params": {}}},
    {"name": "use_tool", "arguments": {"query": "x" * 100_000, "params": {}}},
    {"name": "x__" + "y" * 500_000},
    {"name": "find_tools", "arguments": {"query": {}, "limit": int(HUGE), "detail": "x" * 10_000, "known": {"a": [1]}}},
    {"name": "find_tools", "arguments": {"query": "add", "known": {"box__add": {}}}},
    {"name": "route_agents", "arguments": {"query": "\u202e\u0000", "limit": 1e9}},
    {"name": "\u0432ox__add"},
    {"name": ["box__add"]},
    {"name": ""},
    {"name": None},
    {},
    [],
    *({"name": "box__add", "arguments": {"a": 1, "b": 2}, "_meta": meta} for meta in META),
]
LINES: list[bytes] = [
    b"",
    b"\x00\xff\xfe",
    b"[]",
    b'[{"jsonrpc":"2.0","id":1,"method":"ping"}]',
    b"null",
    b'"\\ud800"',
    b'{"jsonrpc":"2.0","id":null,"method":"ping"}',
    b'{"jsonrpc":"2.0","id":1.5,"method":"ping"}',
    b'{"jsonrpc":"2.0","id":{"a":1},"method":"ping"}',
    b'{"jsonrpc":"2.0","id":77,"result":{}}',
    b'{"jsonrpc":"2.0","id":78,"error":{"code":1,"message":"x"}}',
    b'{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":[]}}',
    b'{"jsonrpc":"2.0","method":"notifications/cancelled","params":7}',
    b'{"jsonrpc":"2.0","method":"notifications/initialized","params":{"_meta":[]}}',
    b'{"jsonrpc":"2.0","id":5,"method":"logging/setLevel","params":{"level":"loud"}}',
    b'{"jsonrpc":"2.0","id":6,"method":"tools/list","params":{"cursor":7}}',
    b'{"jsonrpc":"2.0","id":7,"method":"resources/read","params":{"uri":"file:///etc/passwd"}}',
    b'{"jsonrpc":"2.0","id":8,"method":"' + b"x" * 100_000 + b'"}',
    b'{"jsonrpc":"2.0","id":9,"method":"tools/call","params":' + b"[" * 5_000 + b"]" * 5_000 + b"}",
    b'{"jsonrpc":"2.0","id":10,"method":"tools/call","params":{"name":"box__add","arguments":{"a":NaN,"b":1e999}}}',
    b'{"jsonrpc":"2.0","id":11,"method":"subscriptions/listen","params":{}}',
    b'{"jsonrpc":"2.0","id":11,"method":"initialize","params":{}}',
]


def requests(meta: dict[str, Any]) -> list[bytes]:
    """The calls, of one era, each with an id of its own; `meta` stands in all that have none."""
    asked = [
        {"jsonrpc": "2.0", "id": 1_000 + number, "method": "tools/call", "params": params}
        for number, params in enumerate(CALLS)
    ]
    for each in asked:
        if meta and isinstance(each["params"], dict):
            each["params"] = {"_meta": meta, **each["params"]}
    return [json.dumps(each).encode() for each in asked]


@pytest.mark.timeout(90)
@pytest.mark.parametrize("meta", [{}, ENVELOPE], ids=["handshake", "modern"])
def test_a_stdio_gateway_takes_whatever_a_host_writes(toolbox: Place, meta: dict[str, Any]) -> None:
    """Everything on its standard output is JSON-RPC; the last call is answered, and it ends with its host."""
    launch = on_stdio(toolbox)
    last = {"name": "box__add", "arguments": {"a": 1, "b": 2}, **({"_meta": meta} if meta else {})}
    first = {**LIST, "params": {"_meta": meta}} if meta else HELLO  # by it the era of a connection is known
    begin = [json.dumps(first).encode(), b'{"jsonrpc":"2.0","method":"notifications/initialized"}']
    final = json.dumps({"jsonrpc": "2.0", "id": 9_999, "method": "tools/call", "params": last}).encode()
    with subprocess.Popen(
        [launch.command, *launch.args], env=launch.env, stdin=subprocess.PIPE, stdout=subprocess.PIPE
    ) as gateway:
        stdin = gateway.stdin
        assert stdin is not None
        assert gateway.stdout is not None
        said = b"\n".join([*begin, *LINES, *requests(meta), final]) + b"\n"
        saying = Thread(target=lambda: (stdin.write(said), stdin.flush()), daemon=True)
        saying.start()
        answers: dict[Any, Any] = {}
        while 9_999 not in answers:
            line = gateway.stdout.readline()
            assert line, "it has ended"
            message = json.loads(line)
            assert message["jsonrpc"] == "2.0"
            answers[str(message.get("id")) if isinstance(message.get("id"), dict) else message.get("id")] = message
        saying.join()
        stdin.close()
        assert gateway.wait(20) == 0
    assert answers[9_999]["result"]["structuredContent"] == {"total": 3}
    raised = [each for each in answers.values() if each.get("error", {}).get("code") == 0]
    assert raised == [], "the SDK's code for whatever was raised"


@pytest.mark.timeout(90)
@pytest.mark.parametrize("era", ["handshake", "modern"])
def test_a_service_takes_whatever_a_host_posts(service: Served, era: str) -> None:
    meta = ENVELOPE if era == "modern" else {}
    client = service.client(**ACCEPT)
    headers = {"MCP-Protocol-Version": "2026-07-28"}
    if era == "handshake":
        begun = client.post("/mcp", json=HELLO)
        headers = {"Mcp-Session-Id": begun.headers["mcp-session-id"], "MCP-Protocol-Version": HANDSHAKE}
        client.post("/mcp", json={"jsonrpc": "2.0", "method": "notifications/initialized"}, headers=headers)
    for body in [*(line for line in LINES if b"listen" not in line), *requests(meta)]:
        told = json.loads(body)["params"] if body.startswith(b'{"jsonrpc": "2.0", "id": 1') else {}
        name = told.get("name") if isinstance(told, dict) else None
        named = {"Mcp-Name": name} if isinstance(name, str) and name.isascii() and len(name) < 100 else {}
        more = {"Mcp-Method": "tools/call", "Content-Type": "application/json", **headers, **named}
        answer = client.post("/mcp", content=body, headers=more)
        assert answer.status_code < 500, (body[:200], answer.text[:500])
    last: dict[str, Any] = {
        "jsonrpc": "2.0",
        "id": 1,
        "method": "tools/call",
        "params": {"name": "box__add", "arguments": {"a": 1, "b": 2}},
    }
    if meta:
        last["params"]["_meta"] = meta
    more = {"Mcp-Method": "tools/call", "Mcp-Name": "box__add", **headers}
    assert '"total":3' in client.post("/mcp", json=last, headers=more).text


PROGRAM = Path(__file__).parent / "programs" / "hostile.py"


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Place:
    place = Place(tmp_path_factory.mktemp("hostile"))
    config = place.folder / "mcp.json"
    config.write_text(json.dumps({"mcpServers": {"bad": {"command": sys.executable, "args": [str(PROGRAM)]}}}))
    assert ingest(place, str(config)) == 0
    return place


@pytest.fixture(params=["stdio", "http"])
def open_host(request: pytest.FixtureRequest, place: Place) -> Iterator[Open]:
    with served(place.registry) as service:
        yield opened_by(request.param, f"{service.url}/mcp", on_stdio(place))


async def test_no_answer_of_a_server_ends_the_gateway(open_host: Open, era: Era) -> None:
    """Half characters, depth, numbers that JSON does not have, fields of another type: all calls end, the last well."""
    async with open_host(era) as host:
        for name in NAMES:
            with anyio.fail_after(20):
                with suppress(MCPError, ValueError):  # the second: the host's own types do not take the answer
                    await host.call_tool(f"bad__{name}", {})
        result = await host.call_tool("bad__well", {})
        assert result.content[0].text == "well"


async def test_a_result_whose_meta_is_no_object_comes_without_it(open_host: Open, era: Era) -> None:
    async with open_host(era) as host:
        for name in ("meta", "meta_list"):
            result = await host.call_tool(f"bad__{name}", {})
            assert (result.content, result.is_error) == ([], False)


async def test_a_number_that_no_float_holds_comes_as_null_and_a_long_one_whole(open_host: Open, era: Era) -> None:
    async with open_host(era) as host:
        assert (await host.call_tool("bad__large_float", {})).structured_content == {"n": None}
        assert (await host.call_tool("bad__nan", {})).structured_content == {"n": None, "i": None}
        assert (await host.call_tool("bad__long_number", {})).structured_content == {"n": int("9" * 4000)}
