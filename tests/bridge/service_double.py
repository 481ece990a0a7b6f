"""The `/mcp` of a service, as the SDK serves it: it can go away and come back on the same port."""

import asyncio
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Annotated, Any

import anyio
import uvicorn
from mcp.server import MCPServer
from mcp.server.mcpserver import Context, Elicit, RequestStateSecurity, Resolve
from mcp.types import ImageContent, TextContent
from pydantic import BaseModel

from tests.live_http import free_port

type Asgi = Callable[[Any, Any, Any], Any]


class Confirm(BaseModel):
    yes: bool


@dataclass
class Heard:
    """What came to the double."""

    headers: list[dict[str, str]] = field(default_factory=list)
    started: list[str] = field(default_factory=list)
    cancelled: list[str] = field(default_factory=list)
    loop: asyncio.AbstractEventLoop | None = field(default=None, repr=False)


def server(heard: Heard, greeting: str = "hello") -> MCPServer[Any]:
    async def question() -> Elicit[Confirm]:
        return Elicit("Really?", Confirm)

    security = RequestStateSecurity(keys=[b"k" * 32])
    double = MCPServer("double", version="1", log_level="CRITICAL", request_state_security=security)

    @double.tool()
    async def echo(text: str) -> list[TextContent | ImageContent]:
        image = ImageContent(type="image", data="AAAA", mime_type="image/png")
        return [TextContent(type="text", text=f"{greeting} {text}"), image]

    @double.tool()
    async def slow(name: str, context: Context[Any, Any]) -> str:
        heard.started.append(name)
        try:
            await context.report_progress(1, 3, "begun")
            await context.info(f"at work on {name}")
            await anyio.sleep(600 if name == "for ever" else 0.1)
        except anyio.get_cancelled_exc_class():
            heard.cancelled.append(name)
            raise
        return f"done {name}"

    @double.tool()
    async def ask(confirm: Annotated[Confirm, Resolve(question)]) -> str:
        return f"said {confirm.yes}"

    return double


def recording(inner: Asgi, heard: Heard) -> Asgi:
    async def app(scope: Any, receive: Any, send: Any) -> None:
        if scope["type"] == "http":
            said = {name.decode(): value.decode() for name, value in scope["headers"]}
            heard.loop = asyncio.get_running_loop()
            heard.headers.append({":method": scope["method"], ":path": scope["path"], **said})
        await inner(scope, receive, send)

    return app


@dataclass
class Service:
    """Where it is; `stop` and `start` as often as needed."""

    port: int = field(default_factory=free_port)
    heard: Heard = field(default_factory=Heard)
    greeting: str = "hello"
    app: Asgi | None = None
    _server: uvicorn.Server | None = None
    _thread: threading.Thread | None = None

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}"

    def start(self, app: Asgi | None = None) -> None:
        made = app or server(self.heard, self.greeting).streamable_http_app(streamable_http_path="/mcp")
        config = uvicorn.Config(
            recording(made, self.heard), port=self.port, log_level="critical", timeout_graceful_shutdown=0
        )
        self._server = uvicorn.Server(config)
        self._thread = threading.Thread(target=self._server.run)
        self._thread.start()
        while not self._server.started:
            assert self._thread.is_alive()
            self._thread.join(0.01)

    def break_off(self) -> None:
        """As when it is killed: every connection ends amid whatever it carries."""
        assert self._server
        assert self.heard.loop
        for connection in list(self._server.server_state.connections):
            self.heard.loop.call_soon_threadsafe(connection.transport.abort)
        self.stop()

    def stop(self) -> None:
        if self._server and self._thread:
            self._server.should_exit = True
            self._thread.join(20)
            assert not self._thread.is_alive()
        self._server = self._thread = None


@contextmanager
def service() -> Iterator[Service]:
    made = Service()
    made.start()
    try:
        yield made
    finally:
        made.stop()
