"""What tools answer reaches a host as it is; what stands against a call is told in one shape."""

import json
from collections.abc import Callable
from pathlib import Path, PurePath
from typing import Any

import httpx2
import pytest

from tests.gateway.hosts import Era, Place, error_of, over_http, toolbox_place
from tests.gateway.programs.toolbox import PICTURE
from tests.service import Served, served
from waygraph.api.mcp.results import failure_result, protocol_error
from waygraph.registry.model.errors import (
    EmbedderRefused,
    KeysUnusable,
    RegistryNotFound,
    RegistryUnusable,
    ServerRefused,
    WaygraphError,
)
from waygraph.registry.registry import Registry

MODERN = "2026-07-28"
HANDSHAKE = "2025-11-25"
ENVELOPE = {
    "io.modelcontextprotocol/protocolVersion": MODERN,
    "io.modelcontextprotocol/clientCapabilities": {},
    "io.modelcontextprotocol/clientInfo": {"name": "test", "version": "1"},
}


def modern(url: str, method: str, **params: Any) -> dict[str, Any]:
    """The result as the wire has it, of a host of the modern era."""
    asked = {"jsonrpc": "2.0", "id": 1, "method": method, "params": {"_meta": ENVELOPE, **params}}
    headers = {
        "Accept": "application/json, text/event-stream",
        "MCP-Protocol-Version": MODERN,
        "Mcp-Method": method,
        **({"Mcp-Name": params["name"]} if "name" in params else {}),
    }
    answer: dict[str, Any] = httpx2.post(f"{url}/mcp", json=asked, headers=headers, timeout=60).json()
    return answer


def handshake(url: str, method: str, **params: Any) -> dict[str, Any]:
    """The same, of a host of the handshake era."""
    with httpx2.Client(base_url=url, timeout=60, headers={"Accept": "application/json, text/event-stream"}) as http:
        hello = {"protocolVersion": HANDSHAKE, "capabilities": {}, "clientInfo": {"name": "test", "version": "1"}}
        begun = http.post("/mcp", json={"jsonrpc": "2.0", "id": 0, "method": "initialize", "params": hello})
        http.headers["Mcp-Session-Id"] = begun.headers["mcp-session-id"]
        http.post("/mcp", json={"jsonrpc": "2.0", "method": "notifications/initialized"})
        told = http.post("/mcp", json={"jsonrpc": "2.0", "id": 1, "method": method, "params": params})
        http.delete("/mcp")
    data = next(line.removeprefix("data: ") for line in told.text.splitlines() if line.startswith("data: {"))
    answer: dict[str, Any] = json.loads(data)
    return answer


Ask = Callable[..., dict[str, Any]]


@pytest.mark.parametrize("ask", [modern, handshake])
def test_a_result_is_unchanged(service: Served, ask: Ask) -> None:
    """Images, resources, fields that nobody knows, `_meta`, the order of keys. Only a block of a kind that nobody knows
    is shown as a text: a host would refuse the whole result for it.
    """
    result = ask(service.url, "tools/call", name="box__paint", arguments={})["result"]
    ours = {"resultType"} if ask is modern else set()
    *known, unknown = PICTURE["content"]
    assert result["content"][1:] == known
    assert result["content"][0]["text"].startswith(json.dumps(unknown, separators=(",", ":")))
    assert result["isError"]
    assert result["signature"] == PICTURE["signature"]
    assert list(result["structuredContent"]) == ["z", "a"]
    assert set(result) == {*PICTURE, "isError"} | ours
    meta = dict(result["_meta"])
    assert meta.pop("io.modelcontextprotocol/serverInfo", {"name": "waygraph"})["name"] == "waygraph"
    assert meta == PICTURE["_meta"] | {"waygraph/agent": "box"}


@pytest.mark.parametrize("code", [-32700, -32600, -32601, -32000, -32001, -32020, -32022])
async def test_an_upstreams_word_on_its_connection_is_none_on_ours(service: Served, era: Era, code: int) -> None:
    """A host that took such a code for its own connection would end it, or agree on another protocol."""
    async with over_http(f"{service.url}/mcp", era) as host:
        error = error_of(await host.call_tool("box__refuse", {"code": code}))
        assert error["code"] in ("upstream-answered", "upstream-refused")
        assert not (await host.call_tool("box__add", {"a": 1, "b": 1})).is_error


def test_arguments_are_checked_before_anything_is_sent(service: Served, toolbox: Place) -> None:
    before = toolbox.notes
    error = call(service, "box__add", {"a": "x"})
    assert error["code"] == "invalid-arguments"
    assert [place for place, _ in error["faults"]] == ["/a", "/b"]
    assert toolbox.notes == before


def test_use_tool_with_neither_name_nor_query_or_with_both_runs_nothing(service: Served) -> None:
    assert call(service, "use_tool", {"params": {}})["code"] == "invalid-query"
    assert call(service, "use_tool", {"name": "box__add", "query": "add", "params": {}})["code"] == "invalid-query"
    assert call(service, "use_tool", {"name": 3, "params": []})["code"] == "invalid-arguments"


def test_an_ambiguous_request_runs_nothing_and_names_the_candidates(service: Served, toolbox: Place) -> None:
    before = toolbox.notes
    error = call(service, "use_tool", {"query": "a person or a door or a picture of it", "params": {}})
    assert error["code"] == "ambiguous-tool"
    assert set(error["candidates"]) <= {f"box__{name}" for name in ("ask", "fail", "paint", "erase")}
    assert toolbox.notes == before


def test_a_destructive_tool_runs_by_its_exact_name_only(service: Served, toolbox: Place) -> None:
    before = toolbox.notes.count("erased")
    assert call(service, "use_tool", {"query": "erase", "params": {}})["code"] == "not-callable"
    error = call(service, "use_tool", {"name": "erase", "params": {}})
    assert error["code"] == "not-callable"
    assert error["message"].startswith("'box__erase' was not run: it may change or delete things")
    assert error["message"].endswith('call use_tool(name="box__erase")')  # and that runs it
    assert toolbox.notes.count("erased") == before
    result = modern(service.url, "tools/call", name="use_tool", arguments={"name": "box__erase", "params": {}})
    assert result["result"]["content"] == [{"type": "text", "text": "gone"}]
    assert toolbox.notes.count("erased") == before + 1


@pytest.mark.parametrize(
    ("arguments", "code"),
    [
        ({"query": "add", "limit": 0}, "invalid-arguments"),
        ({"text": "add numbers"}, 'did you mean "query"?'),
        ({"query": "add", "text": "x"}, '"within", "offset", "mode"'),
        ({"query": "add", "limits": 3}, "invalid-arguments"),
        ({"query": "add", "limit": "five"}, "invalid-arguments"),
        ({"query": "add", "detail": "all"}, "invalid-arguments"),
        ({"query": "add", "known": ["box__add"]}, "invalid-arguments"),
        ({"query": [3]}, "invalid-arguments"),
        ({"query": "x" * 40_000}, "invalid-query"),
    ],
)
def test_find_tools_says_what_is_wrong_with_what_it_is_asked(
    service: Served, arguments: dict[str, Any], code: str
) -> None:
    error = call(service, "find_tools", arguments)
    assert code in (error["code"], *(reason[-len(code) :] for _, reason in error.get("faults", ())))


def test_an_empty_query_is_answered_with_numbers_and_never_with_the_list(service: Served) -> None:
    [source] = service.registry.sources()
    for query in ("", "   "):
        arguments = {"query": query, "detail": "", "kind": "", "mode": ""}  # an empty choice is none
        result = modern(service.url, "tools/call", name="find_tools", arguments=arguments)["result"]
        answer = json.loads(result["content"][0]["text"])
        assert answer["overview"]["tools"] == 8
        assert answer["overview"]["sources"] == {"/".join(PurePath(source.name).parts[-2:]): 1}
        assert "tools" not in answer
        assert "box__" not in json.dumps(answer)


@pytest.mark.parametrize(
    ("fault", "code"),
    [
        (RegistryUnusable("/secret/place", "damaged"), "internal-error"),
        (ServerRefused("neo4j://secret:7687", "the password is wrong"), "internal-error"),
        (KeysUnusable("/secret/keys.json", "damaged"), "internal-error"),
        (EmbedderRefused("/secret/model cannot be read"), "internal-error"),
        (RegistryNotFound("/secret/registry.grafeo"), "registry-not-found"),
    ],
)
def test_a_fault_of_our_own_is_told_without_its_words(fault: WaygraphError, code: str) -> None:
    """A host learns of no place on our side, by a tool's answer as by an error of the protocol."""
    error = error_of_dict(failure_result(fault))
    assert error["code"] == code
    assert "secret" not in json.dumps([error, protocol_error(fault)])


def test_the_capabilities_are_a_resource(service: Served) -> None:
    listed = modern(service.url, "resources/list")["result"]["resources"]
    assert [each["uri"] for each in listed] == ["waygraph://capabilities"]
    read = modern(service.url, "resources/read", uri="waygraph://capabilities", name="waygraph://capabilities")
    told = json.loads(read["result"]["contents"][0]["text"])
    assert told["backends"] == ["keyword"]
    assert {"mcp", "openai", "anthropic", "gemini"} <= set(told["formats"])
    assert told["surface"] == "default"


def call(service: Served, name: str, arguments: dict[str, Any]) -> dict[str, Any]:
    """The error that a call is answered with."""
    return error_of_dict(modern(service.url, "tools/call", name=name, arguments=arguments)["result"])


def error_of_dict(result: dict[str, Any]) -> dict[str, Any]:
    assert result["isError"] is True
    assert json.loads(result["content"][0]["text"]) == result["structuredContent"]
    error: dict[str, Any] = result["structuredContent"]["error"]
    return error


async def test_a_call_as_the_operator_says(tmp_path: Path, era: Era) -> None:
    place = toolbox_place(tmp_path)
    said = {"name": "plus_two", "parameters": {"b": {"pin": 2}, "a": {"name": "number"}}}
    with Registry.open(place.registry, embedder="none", environ={}) as registry:
        registry.operator.set_tool("box/add", said)
    with served(place.registry) as service:
        async with over_http(f"{service.url}/mcp", era) as client:
            host: Any = client
            found = await host.call_tool("find_tools", {"query": "box__plus_two", "detail": "schema"})
            [tool] = [each for each in json.loads(found.content[0].text)["tools"] if each["name"] == "box__plus_two"]
            assert list(tool["inputSchema"]["properties"]) == ["number"]
            sent = await host.call_tool("use_tool", {"name": "box__plus_two", "params": {"number": 3}})
            assert sent.structured_content == {"total": 5}
            for params in ({"number": 3, "b": 9}, {"number": 3, "a": 9}, {"a": 3}):
                answer = await host.call_tool("use_tool", {"name": "box__plus_two", "params": params})
                assert error_of(answer)["code"] == "invalid-arguments"
