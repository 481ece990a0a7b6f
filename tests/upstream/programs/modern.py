"""An MCP server of the modern era over stdio, by the SDK: it tells of a change after each listing."""

from typing import Any

import anyio
from mcp import types
from mcp.server import Server
from mcp.server.stdio import stdio_server
from mcp.server.subscriptions import InMemorySubscriptionBus, ListenHandler, ToolsListChanged

BUS = InMemorySubscriptionBus()


async def list_tools(context: Any, params: Any) -> types.ListToolsResult:
    async with anyio.create_task_group() as tasks:
        tasks.start_soon(BUS.publish, ToolsListChanged())
    return types.ListToolsResult(tools=[types.Tool(name="alpha", input_schema={"type": "object"})])


async def main() -> None:
    server: Server[Any] = Server(
        "modern", version="1", on_list_tools=list_tools, on_subscriptions_listen=ListenHandler(BUS)
    )
    async with stdio_server() as (reading, writing):
        await server.run(reading, writing, server.create_initialization_options())


if __name__ == "__main__":
    anyio.run(main)
