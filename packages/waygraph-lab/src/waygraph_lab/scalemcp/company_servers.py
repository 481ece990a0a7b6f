"""Many small MCP servers in one process, each at `/NAME/mcp`: the companies of a generated benchmark.

An ASGI application over the SDK's servers, without sessions: each request stands alone.
"""

import json
from collections.abc import Mapping, Sequence
from contextlib import AsyncExitStack
from typing import Any
from urllib.parse import quote

import mcp.types as t
from mcp.server import Server, ServerRequestContext
from mcp.server.streamable_http_manager import StreamableHTTPSessionManager

from waygraph.api.telemetry.request_log import Receive, Scope, Send
from waygraph_lab.scalemcp.companies import (
    KINDS,
    Company,
    Kind,
    Layout,
    NoValue,
    agents,
    company_value,
    tool_name,
)


class CompanyServers:
    """An ASGI application. `names`: its servers, which are the ids of the dataset's agents."""

    def __init__(self, companies: Sequence[Company], layout: Layout) -> None:
        tools = {tool_name(company, kind): (company, kind) for company in companies for kind in KINDS}
        self._managers = {
            agent["id"]: StreamableHTTPSessionManager(_server(agent, tools), json_response=True, stateless=True)
            for agent in agents(companies, layout, 0)
        }

    @property
    def names(self) -> Sequence[str]:
        return tuple(self._managers)

    def urls(self, base: str) -> dict[str, str]:
        """Name → address, below `base`."""
        return {name: f"{base}/{quote(name)}/mcp" for name in self._managers}

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "lifespan":
            await self._live(receive, send)
            return
        name, _, rest = scope["path"].removeprefix("/").partition("/")
        manager = self._managers.get(name) if rest == "mcp" else None
        if manager:
            await manager.handle_request(scope, receive, send)
            return
        await send({"type": "http.response.start", "status": 404, "headers": []})
        await send({"type": "http.response.body", "body": b""})

    async def _live(self, receive: Receive, send: Send) -> None:
        await receive()
        async with AsyncExitStack() as stack:
            for manager in self._managers.values():
                await stack.enter_async_context(manager.run())
            await send({"type": "lifespan.startup.complete"})
            await receive()
        await send({"type": "lifespan.shutdown.complete"})


def _server(agent: Mapping[str, Any], tools: Mapping[str, tuple[Company, Kind]]) -> Server[Any]:
    offered = [
        t.Tool(
            name=tool["name"],
            description=tool["description"],
            input_schema=tool["inputSchema"],
            annotations=t.ToolAnnotations(read_only_hint=True),
        )
        for tool in agent["tools"]
    ]
    names = {tool.name for tool in offered}

    async def list_tools(_: ServerRequestContext[Any], __: t.PaginatedRequestParams | None) -> t.ListToolsResult:
        return t.ListToolsResult(tools=offered)

    async def call_tool(_: ServerRequestContext[Any], params: t.CallToolRequestParams) -> t.CallToolResult:
        try:
            if params.name not in names:
                raise NoValue(f"there is no tool {params.name}")
            company, kind = tools[params.name]
            text = json.dumps(company_value(company, kind, params.arguments or {}), ensure_ascii=False)
        except NoValue as fault:
            return t.CallToolResult(content=[t.TextContent(type="text", text=str(fault))], is_error=True)
        return t.CallToolResult(content=[t.TextContent(type="text", text=text)])

    return Server(
        agent["id"],
        title=agent["name"],
        version="1",
        instructions=agent["description"],
        on_list_tools=list_tools,
        on_call_tool=call_tool,
    )
