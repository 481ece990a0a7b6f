"""A host's own model walks the taxonomy through the gateway: offered where there is one, to who sees anything of it."""

from pathlib import Path
from typing import Any

import pytest
from mcp import Client

from tests.gateway.hosts import error_of, over_http, told
from tests.gateway_catalog import GROUPS, SECRET, by_hand, fill
from tests.service import served
from waygraph.registry.model.nouns import Of


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
