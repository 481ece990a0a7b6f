"""The MCP client of the Python SDK, in both eras and by all doors: a tool's result arrives as its server said it."""

import json
import re
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from itertools import groupby
from operator import itemgetter
from typing import Any

import pytest
from mcp import Client
from mcp.types import CallToolResult

from tests.clients.gateways import (
    DOORS,
    LISTED,
    PROTOCOLS,
    Door,
    Era,
    Gateway,
    Service,
    client_beside,
    client_of,
    found,
)

BOTH_ERAS = pytest.mark.parametrize("era", PROTOCOLS)
CROSSED = pytest.mark.parametrize(("door", "era"), [("stdio", "auto"), ("/mcp", "legacy")])
"""For what depends on neither alone."""


@asynccontextmanager
async def visit(
    gateway: Gateway, door: Door, era: Era, services: Service, *options: str, **callbacks: Any
) -> AsyncIterator[Client]:
    """A connected client."""
    async with client_of(gateway, door, era, services, *options, **callbacks) as client:
        assert client.protocol_version == PROTOCOLS[era]
        yield client


def said(result: CallToolResult) -> dict[str, Any]:
    """All of it on the wire but what each server adds of itself in the modern era."""
    wire = result.model_dump(by_alias=True, mode="json", exclude_none=True)
    meta = {key: value for key, value in (wire.pop("_meta", None) or {}).items() if not key.endswith("/serverInfo")}
    wire.pop("resultType", None)
    return wire | ({"_meta": meta} if meta else {})


@BOTH_ERAS
@pytest.mark.parametrize("door", DOORS)
async def test_found_and_called_in_both_ways(door: Door, era: Era, gateway: Gateway, services: Service) -> None:
    """What find_tools gives runs by use_tool and, for a host that may call what is not listed, by its own name."""
    async with visit(gateway, door, era, services) as client:
        listed = await client.list_tools()
        assert {tool.name for tool in listed.tools} == LISTED
        assert client.instructions
        tool = (await found(client, "read the complete contents of a text file"))["tools"][0]
        params = {"path": str(gateway.home / "note.txt")}
        by_use_tool = await client.call_tool("use_tool", {"name": tool["name"], "params": params})
        by_its_name = await client.call_tool(tool["name"], params)
        assert by_use_tool.content[0].type == "text"
        assert by_use_tool.content[0].text == gateway.note
        assert said(by_its_name) == said(by_use_tool)
        routed = await client.call_tool("route_agents", {"query": "read text files of a folder", "limit": 1})
        assert "filesystem" in str(routed.content)


@BOTH_ERAS
async def test_the_surface_of_the_rfc(era: Era, gateway: Gateway, services: Service) -> None:
    """`--surface rfc` lists find_tools alone, with the RFC's parameters; what it finds runs when called by its name."""
    async with visit(gateway, "stdio", era, services, "--surface", "rfc") as client:
        [only] = (await client.list_tools()).tools
        assert only.name == "find_tools"
        assert set(only.input_schema["properties"]) == {"query", "limit"}
        tool = (await found(client, "get the sum of two numbers"))["tools"][0]
        assert set(tool["inputSchema"]["required"]) == {"a", "b"}
        result = await client.call_tool(tool["name"], {"a": 17, "b": 25})
        assert "42" in str(said(result)["content"])


CALLS: tuple[tuple[str, str, Mapping[str, Any]], ...] = (
    ("everything", "echo", {"message": "¿Qué? 你好 🙂"}),
    ("everything", "get-tiny-image", {}),
    ("everything", "get-annotated-message", {"messageType": "error", "includeImage": True}),
    ("everything", "get-structured-content", {"location": "Chicago"}),
    ("everything", "get-resource-links", {"count": 3}),
    ("everything", "get-resource-reference", {"resourceType": "Text", "resourceId": 1}),
    ("time", "convert_time", {"source_timezone": "UTC", "time": "12:00", "target_timezone": "Asia/Tokyo"}),
    ("time", "get_current_time", {"timezone": "Nowhere/Land"}),
    ("filesystem", "read_text_file", {"path": "/no/such/place"}),
)
"""Text, an image, annotations, structured content, links, an embedded resource; and what goes wrong in the server."""
FAILING = ("get_current_time", "read_text_file")


@CROSSED
async def test_results_arrive_as_the_server_said_them(
    door: Door, era: Era, gateway: Gateway, services: Service
) -> None:
    """Block by block the same as without a gateway between, failures too, which say in `_meta` whose words they are;
    only times that the server tells differ.
    """
    async with visit(gateway, door, era, services) as client:
        for server, calls in groupby(CALLS, key=itemgetter(0)):
            async with client_beside(gateway.server(server)) as beside:
                for _, name, arguments in calls:
                    direct = said(await beside.call_tool(name, dict(arguments)))
                    params = {"name": f"{server}__{name}", "params": dict(arguments)}
                    through = said(await client.call_tool("use_tool", params))
                    assert through["isError"] == (name in FAILING)
                    if name in FAILING:
                        assert through.pop("_meta")["waygraph/agent"] == server
                    assert _timeless(through) == _timeless(direct), name


def _timeless(result: Mapping[str, Any]) -> str:
    """A resource of server-everything tells the second in which it was made."""
    return re.sub(r"\d{1,2}:\d\d:\d\d ?[AP]?M?", "TIME", json.dumps(result, sort_keys=True))
