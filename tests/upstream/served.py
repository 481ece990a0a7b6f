"""An MCP server of the SDK in this process, on a free loopback port, in both eras."""

import asyncio
import socket
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

import anyio
import uvicorn
from mcp import types
from mcp.server import Server
from mcp.server.lowlevel import NotificationOptions
from mcp.server.subscriptions import InMemorySubscriptionBus, ListenHandler, ToolsListChanged

Asgi = Callable[..., Any]


class Announcing(Server[Any]):
    """Says in the handshake too that it tells of changes."""

    def create_initialization_options(self, notification_options: Any = None, *rest: Any, **more: Any) -> Any:
        options = notification_options or NotificationOptions(tools_changed=True)
        return super().create_initialization_options(options, *rest, **more)


@dataclass
class Served:
    """Where it is, what it heard, and the tools it lists: change them, then `tell`."""

    url: str = ""
    tools: list[str] = field(default_factory=lambda: ["alpha"])
    headers: list[dict[str, str]] = field(default_factory=list)
    bus: InMemorySubscriptionBus = field(default_factory=InMemorySubscriptionBus)
    loop: Any = None
    sessions: list[Any] = field(default_factory=list)
    modern: bool = True
    listening: ListenHandler | None = None

    def tell(self, times: int = 1) -> None:
        """Of a change, to clients of both eras."""

        async def publish() -> None:
            for _ in range(times):
                if self.modern:
                    await self.bus.publish(ToolsListChanged())
                else:
                    await self.sessions[-1].send_tool_list_changed()

        asyncio.run_coroutine_threadsafe(publish(), self.loop).result(20)

    def end_streams(self) -> None:
        """Every subscription ends in good order."""
        assert self.listening is not None
        self.loop.call_soon_threadsafe(self.listening.close)

    async def list_tools(self, context: Any, _: Any) -> types.ListToolsResult:
        self.sessions.append(context.session)
        tools = [types.Tool(name=name, input_schema={"type": "object"}) for name in self.tools]
        return types.ListToolsResult(tools=tools)

    def app(self) -> Asgi:
        self.listening = ListenHandler(self.bus)
        server = Announcing(
            "served",
            version="2",
            instructions="Over HTTP.",
            on_list_tools=self.list_tools,
            on_subscriptions_listen=self.listening,
        )
        inner = server.streamable_http_app()

        async def recording(scope: Any, receive: Any, send: Any) -> None:
            if scope["type"] == "http":
                heard = {name.decode(): value.decode() for name, value in scope["headers"]}
                self.headers.append({":method": scope["method"], **heard})
                if not self.modern and heard.get("mcp-protocol-version", "") >= "2026":
                    await send({"type": "http.response.start", "status": 400, "headers": []})
                    await send({"type": "http.response.body", "body": b"Bad Request"})
                    return
            await inner(scope, receive, send)

        return recording


@contextmanager
def running(
    app: Asgi, on_loop: Callable[[Any], None] = lambda _: None, listener: socket.socket | None = None
) -> Iterator[str]:
    """An ASGI application on a free port, or on that of the listener, for as long as the block."""

    class Quiet(uvicorn.Server):
        def install_signal_handlers(self) -> None: ...

    config = uvicorn.Config(
        app, host="127.0.0.1", port=0, log_level="critical", lifespan="on", timeout_graceful_shutdown=1
    )
    server = Quiet(config)

    async def serve() -> None:
        on_loop(asyncio.get_running_loop())
        await server.serve([listener] if listener else None)

    thread = threading.Thread(target=lambda: anyio.run(serve), daemon=True)
    thread.start()
    while not server.started:
        if not thread.is_alive():
            raise RuntimeError("the server did not start")
        thread.join(0.01)
    port = server.servers[0].sockets[0].getsockname()[1]
    try:
        yield f"http://127.0.0.1:{port}"
    finally:
        server.should_exit = True
        thread.join(10)


@contextmanager
def served() -> Iterator[Served]:
    answering = Served()
    with running(answering.app(), lambda loop: setattr(answering, "loop", loop)) as url:
        answering.url = f"{url}/mcp"
        yield answering
