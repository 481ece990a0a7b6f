"""`python -m benchmarks.gateway.upstream NAME TOOLS`: an MCP server over standard input and output that answers calls.

An answer tells which server, which tool, which number it was sent, and which process it comes from: an answer that
belongs to another call is seen, and the process can be killed. It is written on the SDK's low-level server, as plain
as one can be, so that calling it directly is the least that a call costs.
"""

import json
import os
import sys
from collections.abc import Mapping
from typing import Any

import anyio
import mcp.types as t
from mcp.server import Server, ServerRequestContext
from mcp.server.stdio import stdio_server

SCHEMA: Mapping[str, Any] = {
    "type": "object",
    "properties": {"number": {"type": "integer", "description": "Given back in the answer"}},
    "required": ["number"],
}


def answer(server: str, tool: str, number: object, process: int) -> str:
    """The text of an answer."""
    return json.dumps({"server": server, "tool": tool, "number": number, "process": process})


def tool_list(name: str, tools: int) -> list[t.Tool]:
    """They only read, so that a policy need not ask anybody."""
    return [
        t.Tool(
            name=f"{name}_echo_{number}",
            description=f"Gives back the number that {name} was sent, as its mirror number {number} does it.",
            input_schema=dict(SCHEMA),
            annotations=t.ToolAnnotations(read_only_hint=True),
        )
        for number in range(tools)
    ]


async def serve(name: str, tools: int) -> None:
    offered = tool_list(name, tools)
    names = {tool.name for tool in offered}

    async def list_tools(_: ServerRequestContext[Any], __: t.PaginatedRequestParams | None) -> t.ListToolsResult:
        return t.ListToolsResult(tools=offered)

    async def call_tool(_: ServerRequestContext[Any], params: t.CallToolRequestParams) -> t.CallToolResult:
        if params.name not in names:
            text = f"there is no tool {params.name}"
            return t.CallToolResult(content=[t.TextContent(type="text", text=text)], is_error=True)
        text = answer(name, params.name, (params.arguments or {}).get("number"), os.getpid())
        return t.CallToolResult(content=[t.TextContent(type="text", text=text)])

    server: Server[Any] = Server(
        name,
        version="1",
        instructions=f"{name.title()} is a mirror of numbers.",
        on_list_tools=list_tools,
        on_call_tool=call_tool,
    )
    async with stdio_server() as (reading, writing):
        await server.run(reading, writing, server.create_initialization_options())


if __name__ == "__main__":
    anyio.run(serve, sys.argv[1], int(sys.argv[2]))
