"""`python -m benchmarks.gateway.bare COMMAND ARG…`: the least that could be called a gateway, over standard input and
output: the SDK's server before the SDK's client of one program, whose tools it lists and calls. It knows no other
program, checks nothing, allows all, starts nothing again and writes nothing down.
"""

import sys
from typing import Any

import anyio
import mcp.types as t
from mcp import Client, StdioServerParameters
from mcp.server import Server, ServerRequestContext
from mcp.server.stdio import stdio_server


async def serve(*started: str) -> None:
    command, *arguments = started
    async with Client(StdioServerParameters(command=command, args=arguments)) as upstream:

        async def list_tools(_: ServerRequestContext[Any], __: t.PaginatedRequestParams | None) -> t.ListToolsResult:
            return await upstream.list_tools()

        async def call_tool(_: ServerRequestContext[Any], params: t.CallToolRequestParams) -> t.CallToolResult:
            return await upstream.call_tool(params.name, params.arguments)

        server: Server[Any] = Server("bare", version="1", on_list_tools=list_tools, on_call_tool=call_tool)
        async with stdio_server() as (reading, writing):
            await server.run(reading, writing, server.create_initialization_options())


if __name__ == "__main__":
    anyio.run(serve, *sys.argv[1:])
