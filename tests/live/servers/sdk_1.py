"""A server on version 1 of the SDK, whose newest protocol is 2025-11-25: `sdk_1.py [stdio | http | sse] [port]`.

Two tools; once they have been listed, a third (`late`) comes and is told of. Instructions, a prompt, a resource.
"""

import asyncio
import sys
from collections.abc import AsyncIterator
from importlib import import_module
from typing import Any

# Types are checked against version 2, which has none of these names.
types: Any = import_module("mcp.types")
lowlevel: Any = import_module("mcp.server.lowlevel")

LATE_S = 0.3

WEATHER = types.Tool(
    name="weather",
    title="Weather",
    description="The weather of a city today.",
    inputSchema={"type": "object", "properties": {"city": {"type": "string"}}, "required": ["city"]},
    outputSchema={"type": "object", "properties": {"celsius": {"type": "number"}}, "required": ["celsius"]},
    annotations=types.ToolAnnotations(title="Weather", readOnlyHint=True, openWorldHint=True),
)
SHOUT = types.Tool(name="shout", description="A text in capitals.", inputSchema={"type": "object"})
LATE = types.Tool(name="late", description="A tool that came later.", inputSchema={"type": "object"})

server = lowlevel.Server("sdk-1", version="1.2.3", instructions="Ask for the weather first.")
tools = [WEATHER, SHOUT]
growing: set[asyncio.Task[None]] = set()


async def list_tools() -> list[Any]:
    if not growing:
        growing.add(asyncio.create_task(grow(server.request_context.session)))
    return list(tools)


async def grow(session: Any) -> None:
    await asyncio.sleep(LATE_S)
    tools.append(LATE)
    await session.send_tool_list_changed()


async def list_prompts() -> list[Any]:
    return [types.Prompt(name="greet", description="A greeting.")]


async def list_resources() -> list[Any]:
    return [types.Resource(uri="memo://1", name="memo")]


server.list_tools()(list_tools)
server.list_prompts()(list_prompts)
server.list_resources()(list_resources)


def options() -> Any:
    return lowlevel_options(notification_options=lowlevel.NotificationOptions(tools_changed=True))


lowlevel_options = server.create_initialization_options
server.create_initialization_options = options
"""Without an argument, as the HTTP transports call it, it would tell that the tools never change."""


async def over_stdio() -> None:
    async with import_module("mcp.server.stdio").stdio_server() as (read, write):
        await server.run(read, write, options())


def http_app() -> Any:
    from contextlib import asynccontextmanager

    from starlette.applications import Starlette
    from starlette.routing import Mount

    sessions = import_module("mcp.server.streamable_http_manager").StreamableHTTPSessionManager(server)

    @asynccontextmanager
    async def lifespan(_: Starlette) -> AsyncIterator[None]:
        async with sessions.run():
            yield

    return Starlette(routes=[Mount("/mcp", sessions.handle_request)], lifespan=lifespan)


def sse_app() -> Any:
    from starlette.applications import Starlette
    from starlette.responses import Response
    from starlette.routing import Mount, Route

    transport = import_module("mcp.server.sse").SseServerTransport("/messages/")

    async def stream(request: Any) -> Response:
        async with transport.connect_sse(request.scope, request.receive, request._send) as (read, write):
            await server.run(read, write, options())
        return Response()

    return Starlette(routes=[Route("/sse", stream), Mount("/messages/", transport.handle_post_message)])


def main(form: str = "stdio", port: str = "0") -> None:
    if form == "stdio":
        asyncio.run(over_stdio())
        return
    import uvicorn

    app = http_app() if form == "http" else sse_app()
    uvicorn.run(app, host="127.0.0.1", port=int(port), log_level="warning", timeout_graceful_shutdown=1)


if __name__ == "__main__":
    main(*sys.argv[1:])
