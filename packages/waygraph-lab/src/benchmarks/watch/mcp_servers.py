"""`python -m benchmarks.watch.mcp_servers PORT SERVERS TOOLS`: many MCP servers in one process, one a path.

They speak the real protocol over HTTP, each its own low-level server. `/server-7/mcp` is the seventh; `/silent/mcp`
takes a request and never answers it. POST /server-7/tools adds a tool and tells of it; POST /server-7/flood?seconds=5
tells of changes without end for so long, and hundreds of times; POST /listed says how often tools were listed,
and POST /followed how many servers are listened to.
"""

import sys
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import AsyncExitStack, asynccontextmanager
from typing import Any

import anyio
import mcp.types as t
import uvicorn
from mcp.server import Server, ServerRequestContext
from mcp.server.streamable_http_manager import StreamableHTTPASGIApp, StreamableHTTPSessionManager
from mcp.server.subscriptions import InMemorySubscriptionBus, ListenHandler, ServerEvent, ToolsListChanged
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.routing import Route

from benchmarks.catalogue import catalogue

TELL_A_SECOND = 1000
LEAST_TOLD = 200
"""In a flood, however slow the machine."""


class _Bus(InMemorySubscriptionBus):
    """Counts who listens."""

    def __init__(self) -> None:
        super().__init__()
        self.listening = 0

    def subscribe(self, listener: Callable[[ServerEvent], None]) -> Callable[[], None]:
        end = super().subscribe(listener)
        self.listening += 1

        def unsubscribe() -> None:
            self.listening -= 1
            end()

        return unsubscribe


class Stub:
    """One server, whose tools may come to be more."""

    def __init__(self, name: str, description: str, tools: list[t.Tool]) -> None:
        self._tools = tools
        self.listed = 0
        self._bus = _Bus()
        self.server: Server[Any] = Server(
            name,
            version="1.0",
            instructions=description,
            on_list_tools=self._list,
            on_subscriptions_listen=ListenHandler(self._bus),
        )

    async def _list(
        self,
        _: ServerRequestContext[Any],
        params: t.PaginatedRequestParams | None,  # noqa: ARG002
    ) -> t.ListToolsResult:
        self.listed += 1
        return t.ListToolsResult(tools=list(self._tools))

    @property
    def is_followed(self) -> bool:
        return self._bus.listening > 0

    async def add(self, tool: t.Tool) -> None:
        self._tools.append(tool)
        await self.tell()

    async def tell(self) -> None:
        await self._bus.publish(ToolsListChanged())


def stubs(servers: int, tools: int) -> dict[str, Stub]:
    """By name; every text is distinct."""
    agents = catalogue(servers * tools)["agents"]
    told = [tool for agent in agents for tool in agent["tools"]]
    return {
        f"server-{number}": Stub(
            f"server-{number}",
            f"Server {number}: {agents[number % len(agents)]['description']}",
            [_tool(tool, at) for at, tool in enumerate(told[number * tools : (number + 1) * tools], number * tools)],
        )
        for number in range(servers)
    }


def application(servers: Mapping[str, Stub]) -> Starlette:
    managers = {name: StreamableHTTPSessionManager(app=stub.server) for name, stub in servers.items()}

    @asynccontextmanager
    async def lifespan(_: Starlette) -> AsyncIterator[None]:
        async with AsyncExitStack() as running:
            for manager in managers.values():
                await running.enter_async_context(manager.run())
            yield

    async def add(request: Request) -> Response:
        said = await request.json()
        tool = t.Tool(name=said["name"], description=said["description"], input_schema={"type": "object"})
        await servers[request.path_params["name"]].add(tool)
        return JSONResponse({"added": said["name"]})

    async def flood(request: Request) -> Response:
        stub, told = servers[request.path_params["name"]], 0
        end = anyio.current_time() + float(request.query_params["seconds"])
        while anyio.current_time() < end or told < LEAST_TOLD:
            await stub.tell()
            told += 1
            await anyio.sleep(1 / TELL_A_SECOND)
        return JSONResponse({"told": told})

    async def listed(_: Request) -> Response:
        return JSONResponse({"listed": sum(stub.listed for stub in servers.values())})

    async def followed(_: Request) -> Response:
        return JSONResponse({"followed": sum(stub.is_followed for stub in servers.values())})

    async def silent(_: Request) -> Response:
        await anyio.sleep_forever()
        raise AssertionError("unreachable")

    return Starlette(
        lifespan=lifespan,
        routes=[
            Route("/readyz", lambda _: JSONResponse({"ready": True})),
            Route("/listed", listed, methods=["POST"]),
            Route("/followed", followed, methods=["POST"]),
            Route("/silent/mcp", silent, methods=["GET", "POST", "DELETE"]),
            Route("/{name}/tools", add, methods=["POST"]),
            Route("/{name}/flood", flood, methods=["POST"]),
            *(Route(f"/{name}/mcp", StreamableHTTPASGIApp(manager)) for name, manager in managers.items()),
        ],
    )


def _tool(said: Mapping[str, Any], at: int) -> t.Tool:
    """`at`: its place among all, so that no two have one name."""
    return t.Tool(
        name=f"{said['name']}_{at}",
        description=said["description"],
        input_schema=said.get("inputSchema") or {"type": "object"},
    )


def main(port: str, servers: str, tools: str) -> None:
    app = application(stubs(int(servers), int(tools)))
    config = uvicorn.Config(app, host="127.0.0.1", port=int(port), log_level="error", timeout_graceful_shutdown=1)
    uvicorn.Server(config).run()


if __name__ == "__main__":
    main(*sys.argv[1:4])
