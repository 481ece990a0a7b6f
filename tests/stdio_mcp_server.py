"""`python -m tests.stdio_mcp_server NAME`: a small MCP server over standard input and output."""

import sys
from typing import Any

import anyio
import mcp.types as t
from mcp.server import Server, ServerRequestContext
from mcp.server.stdio import stdio_server


async def serve(name: str) -> None:
    async def list_tools(_: ServerRequestContext[Any], __: t.PaginatedRequestParams | None) -> t.ListToolsResult:
        tool = t.Tool(name=f"{name}_tool", description=f"What {name} does.", input_schema={"type": "object"})
        return t.ListToolsResult(tools=[tool])

    server: Server[Any] = Server(name, version="1", on_list_tools=list_tools)
    async with stdio_server() as (reading, writing):
        await server.run(reading, writing, server.create_initialization_options())


if __name__ == "__main__":
    anyio.run(serve, sys.argv[1])
