"""A host finds a tool and calls it: on each transport, in each era."""

import pytest
from mcp import MCPError

from tests.gateway.hosts import Era, Place, error_of, names, on_stdio, opened_by, told
from tests.service import Served


@pytest.mark.parametrize("door", ["stdio", "http"])
async def test_a_host_finds_a_tool_and_calls_it_both_ways(toolbox: Place, service: Served, door: str, era: Era) -> None:
    """find_tools, then the tool by its name and by use_tool; the list stays what it was."""
    async with opened_by(door, f"{service.url}/mcp", on_stdio(toolbox))(era) as host:
        assert host.instructions is not None
        assert "find_tools" in host.instructions
        listed = [tool.name for tool in (await host.list_tools()).tools]
        assert listed == ["find_tools", "use_tool", "route_agents"]
        found = told(await host.call_tool("find_tools", {"query": "add two whole numbers", "detail": "schema"}))
        assert next(names(found)) == "box__add"
        # As the source has it: its own order of keys, too.
        assert list(found["tools"][0]["inputSchema"]["properties"]) == ["a", "b"]
        direct = await host.call_tool("box__add", {"a": 1, "b": 2})
        by_meta = await host.call_tool("use_tool", {"name": "box__add", "params": {"a": 1, "b": 2}})
        by_query = await host.call_tool("use_tool", {"query": "add", "params": {"a": 1, "b": 2}})
        for result in (direct, by_meta, by_query):
            assert result.structured_content == {"total": 3}
            assert not result.is_error
        agents = told(await host.call_tool("route_agents", {"query": "add two whole numbers"}))["agents"]
        assert agents[0]["id"] == "box"
        assert "box__add" in agents[0]["tools"]
        assert [tool.name for tool in (await host.list_tools(cache_mode="refresh")).tools] == listed
        assert error_of(await host.call_tool("box__ad", {}))["nearest"][0] == "box__add"
        with pytest.raises(MCPError) as refused:
            await host.call_tool("box__refuse", {})
        said = "The tool box/refuse says, not the gateway: no paper left"
        assert (refused.value.code, refused.value.message) == (1234, said)
        assert refused.value.error.data == {"tray": 2}
