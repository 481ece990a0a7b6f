"""A server on version 2 of the SDK, which speaks both eras: `sdk_2.py [stdio | http] [port]`.

250 tools over three pages; once they have been listed, one more (`late`) comes and is told of, in both eras.
"""

import asyncio
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import mcp.types as t
from mcp.server import NotificationOptions, Server, ServerRequestContext
from mcp.server.caching import CacheHint
from mcp.server.models import InitializationOptions
from mcp.server.stdio import stdio_server
from mcp.server.subscriptions import InMemorySubscriptionBus, ListenHandler, ToolsListChanged

LATE_S = 0.3
PAGE = 100
TTL_MS = 60_000

WEATHER = t.Tool(
    name="weather",
    title="Weather",
    description="The weather of a city today.",
    input_schema={"type": "object", "properties": {"city": {"type": "string"}}, "required": ["city"]},
    output_schema={"type": "object", "properties": {"celsius": {"type": "number"}}, "required": ["celsius"]},
    annotations=t.ToolAnnotations(title="Weather", read_only_hint=True, open_world_hint=True),
)
LATE = t.Tool(name="late", description="A tool that came later.", input_schema={"type": "object"})
TOOLS = [
    WEATHER,
    *(
        t.Tool(name=f"drawer_{number:03}", description=f"Opens drawer {number}.", input_schema={"type": "object"})
        for number in range(1, 250)
    ),
]

bus = InMemorySubscriptionBus()
growing: set[asyncio.Task[None]] = set()


class Telling(Server):
    """One that says at the handshake that its tools change, also where the transport asks for its options."""

    def create_initialization_options(
        self, notification_options: NotificationOptions | None = None, *args: Any, **named: Any
    ) -> InitializationOptions:
        changing = notification_options or NotificationOptions(tools_changed=True)
        return super().create_initialization_options(changing, *args, **named)


async def list_tools(ctx: ServerRequestContext, params: t.PaginatedRequestParams | None) -> t.ListToolsResult:
    start = int(params.cursor) if params and params.cursor else 0
    stop = start + PAGE
    if stop >= len(TOOLS) and not growing:
        growing.add(asyncio.create_task(grow(ctx.session)))
    return t.ListToolsResult(tools=TOOLS[start:stop], next_cursor=str(stop) if stop < len(TOOLS) else None)


async def grow(session: Any) -> None:
    await asyncio.sleep(LATE_S)
    TOOLS.append(LATE)
    await bus.publish(ToolsListChanged())
    await session.send_tool_list_changed()


async def list_prompts(ctx: ServerRequestContext, params: t.PaginatedRequestParams | None) -> t.ListPromptsResult:
    return t.ListPromptsResult(prompts=[t.Prompt(name="greet", description="A greeting.")])


server = Telling(
    "sdk-2",
    version="2.3.4",
    instructions="Ask for the weather first.",
    on_list_tools=list_tools,
    on_list_prompts=list_prompts,
    on_subscriptions_listen=ListenHandler(bus),
    cache_hints={"tools/list": CacheHint(ttl_ms=TTL_MS, scope="public")},
)


async def over_stdio() -> None:
    async with stdio_server() as (read, write):
        await server.run(read, write, server.create_initialization_options())


def http_app() -> Any:
    from mcp.server.streamable_http_manager import StreamableHTTPASGIApp, StreamableHTTPSessionManager
    from starlette.applications import Starlette
    from starlette.routing import Route

    sessions = StreamableHTTPSessionManager(app=server)

    @asynccontextmanager
    async def lifespan(_: Starlette) -> AsyncIterator[None]:
        async with sessions.run():
            yield

    return Starlette(routes=[Route("/mcp", StreamableHTTPASGIApp(sessions))], lifespan=lifespan)


def main(form: str = "stdio", port: str = "0") -> None:
    if form == "stdio":
        asyncio.run(over_stdio())
        return
    import uvicorn

    uvicorn.run(http_app(), host="127.0.0.1", port=int(port), log_level="warning", timeout_graceful_shutdown=1)


if __name__ == "__main__":
    main(*sys.argv[1:])
