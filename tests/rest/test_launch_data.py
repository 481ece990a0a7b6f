"""How a server is started is for callers with the scope `admin`; others read the kind and a public address."""

import json
from collections.abc import Callable

import anyio
import httpx2
import pytest

from tests.gateway.hosts import over_http
from tests.rest.test_access import OPERATIONS
from tests.service import Served, agent, assert_good, ingest
from waygraph.registry.access.visibility import SCOPES, public_transport
from waygraph.registry.model import shapes
from waygraph.registry.model.changes import ListedAgent
from waygraph.registry.model.nouns import Agent, failing, unreachable, unreachable_since, word_of

PRIVATE = "priv4te"
LOCAL = {"command": f"/opt/{PRIVATE}/bin", "args": ["-y", PRIVATE], "cwd": f"/srv/{PRIVATE}", "env": {"K": "${K}"}}
REMOTE = {"type": "http", "url": f"https://{PRIVATE}:x@a.example/mcp?k={PRIVATE}", "headers": {"X": f"${{{PRIVATE}}}"}}
WITHOUT_ADMIN = tuple(scope for scope in SCOPES if scope != "admin")


def filled(service: Served) -> httpx2.Client:
    """Two agents, of which a source once said another launch, and one that is long."""
    admin = service.admin()
    for args in (["before"], ["x" * 3000], LOCAL["args"]):
        ingest(
            admin, "s", agent("a", "look", transport={**LOCAL, "args": args}), agent("b", "look_up", transport=REMOTE)
        )
    return admin


def mcp_answers(service: Served, *scopes: str) -> str:
    """Lists, meta-tools, and a call, as a host reads them."""

    async def ask() -> str:
        async with over_http(f"{service.url}/mcp", key=service.key(*scopes, everything=True)) as host:
            answers = [(await host.list_tools()).model_dump_json()]
            for name, arguments in (
                ("find_tools", {"query": "look", "detail": "schema"}),
                ("find_tools", {"query": ""}),
                ("route_agents", {"query": "look"}),
                ("use_tool", {"name": "a__look", "params": {}}),
            ):
                answers.append((await host.call_tool(name, arguments)).model_dump_json())
            return "\n".join(answers)

    return anyio.run(ask)


def test_no_answer_without_admin_tells_how_a_server_is_started(guarded: Served) -> None:
    """Whatever is asked over REST and MCP, by a caller with every other scope who sees everything."""
    filled(guarded)
    caller = guarded.caller(*WITHOUT_ADMIN, everything=True)
    writes = {"manifests", "approve", "set_agent", "remove_agent", "forget_source"}
    answers = {name: call(caller).text for name, (_, call) in OPERATIONS.items() if name not in writes}
    answers["changes"] += caller.get("/v1/changes?agent=a").text
    assert {name: text for name, text in answers.items() if PRIVATE in text or "xxxx" in text} == {}
    assert '"transport"' in answers["changes"], "that it changed is told"
    assert PRIVATE not in mcp_answers(guarded, *WITHOUT_ADMIN)


def test_values_that_an_operator_fixed_are_for_admin(guarded: Served) -> None:
    """Also in the answer to a change of something else, by whoever may write."""
    schema = {"type": "object", "properties": {"key": {"type": "string"}, "note": {"type": "string"}}}
    tool = {"name": "look", "description": "looks", "inputSchema": schema}
    ingest(guarded.admin(), "s", agent("a") | {"tools": [tool]})
    fixed = {"parameters": {"key": {"pin": PRIVATE}}}
    writer, admin = guarded.caller(*WITHOUT_ADMIN, everything=True), guarded.caller(*SCOPES, everything=True)
    asked: list[Callable[[httpx2.Client], httpx2.Response]] = [
        lambda client: client.patch("/v1/tools/a/look", json={"description": "It looks."}),
        lambda client: client.patch("/v1/agents/a", json={"pinned": True}),
        lambda client: client.get("/v1/agents/a"),
        lambda client: client.get("/v1/changes"),
        lambda client: client.delete("/v1/agents/a"),
    ]
    assert PRIVATE in admin.patch("/v1/tools/a/look", json=fixed).text
    for ask in asked:
        assert PRIVATE not in ask(writer).text
    assert PRIVATE in admin.patch("/v1/agents/a", json={"removed": False}).text


def test_everybody_reads_the_kind_and_the_public_address(guarded: Served) -> None:
    filled(guarded)
    caller = guarded.caller("read", "route")
    listed = {each["id"]: each["transport"] for each in assert_good(caller.get("/v1/agents"))["agents"]}
    assert listed == {"a": {"type": "stdio"}, "b": {"type": "http", "url": "https://a.example/mcp"}}
    found = assert_good(caller.post("/v1/route", json={"text": "look"}))["matches"]
    assert {match["agent"]["id"]: match["agent"]["transport"] for match in found} == listed


def test_an_operator_reads_all_of_it(guarded: Served) -> None:
    filled(guarded)
    operator, reader = guarded.caller("read", "admin", everything=True), guarded.caller("read", everything=True)
    answer = operator.get("/v1/agents/a")
    assert assert_good(answer)["agent"]["transport"]["args"] == LOCAL["args"]
    assert reader.get("/v1/agents/a").headers["etag"] != answer.headers["etag"]
    assert PRIVATE in operator.get("/v1/changes").text


def test_what_of_a_transport_is_public() -> None:
    """Addresses of this machine and of internal networks are not, nor what is no JSON object."""
    cases = {
        '{"type":"http","url":"https://8.8.8.8/mcp"}': {"type": "http", "url": "https://8.8.8.8/mcp"},
        '{"type":"sse","url":"https://h.example:8443/sse#f"}': {"type": "sse", "url": "https://h.example:8443/sse"},
        '{"protocolBinding":"JSONRPC","url":"https://h.example"}': {
            "protocolBinding": "JSONRPC",
            "url": "https://h.example",
        },
        **{
            f'{{"type":"http","url":"{url}"}}': {"type": "http"}
            for url in (
                "http://localhost:8000/mcp http://127.0.0.1/mcp http://10.0.0.3/mcp http://[::1]/mcp "
                "http://billing/mcp http://billing.internal/mcp https://${HOST}.example/mcp file:///etc/passwd "
                "https://h.example:port/mcp"
            ).split()
        },
        '{"command":"npx","url":"https://h.example"}': {"type": "stdio"},
    }
    assert {text: json.loads(public_transport(text)) for text in cases} == cases
    assert [public_transport(text) for text in ("", "nonsense", "[1]", '{"homepage":"https://h.example"}')] == [""] * 4


@pytest.mark.parametrize("status", [unreachable("2026-01-01T00:00:00+00:00", PRIVATE), failing(PRIVATE)])
def test_why_a_server_is_down_is_for_operators(status: str) -> None:
    """The reason may quote a command or a path; the word and the time are for everybody."""
    listed = [ListedAgent(agent=Agent(id="a", name="a", status=status), tools=0)]
    (shown,) = shapes.agents(listed, public_transport)["agents"]
    assert PRIVATE not in shown["status"]
    assert word_of(shown["status"]) == word_of(status)
    assert unreachable_since(shown["status"]) == unreachable_since(status)
    assert PRIVATE in shapes.agents(listed)["agents"][0]["status"]
