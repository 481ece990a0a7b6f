"""The application: endpoints, errors, and what stands around them. Whether the service lives and is ready, its numbers,
and the API browser.
"""

import asyncio
import json
from collections.abc import AsyncIterator, Awaitable, Collection
from contextlib import AsyncExitStack, asynccontextmanager
from functools import cache
from importlib.metadata import version
from pathlib import Path
from threading import Lock
from typing import TYPE_CHECKING, Any

from fastapi import FastAPI, Request
from fastapi.responses import Response
from fastapi.staticfiles import StaticFiles
from starlette.middleware.cors import CORSMiddleware
from starlette.routing import Route

from waygraph.api.rest import problems
from waygraph.api.rest.browser_sessions import SessionApplication
from waygraph.api.rest.mcp_mount import ChallengingApplication, OfferedGateway, routes
from waygraph.api.rest.middleware import Careful, LimitedApplication
from waygraph.api.rest.openapi import complete
from waygraph.api.rest.perform import serve_others
from waygraph.api.rest.problems import Stoppable, answer, as_json, not_ready
from waygraph.api.rest.routes import admin, catalog, discovery, search  # noqa: F401 - they bind their handlers
from waygraph.api.rest.routes.explorer import explorer_routes
from waygraph.api.rest.routes.login_pages import login_routes
from waygraph.api.rest.service import Exchange, handles, router
from waygraph.api.telemetry.request_log import Application, ObservedApplication
from waygraph.registry.operations import table as operations
from waygraph.registry.storage.usage_file import USAGE_EVERY_S, repeat_write

if TYPE_CHECKING:
    from waygraph.api.rest.service import Lanes, Service
    from waygraph.api.telemetry.logs import Logger
    from waygraph.api.telemetry.traces import Traces

serve_others()


@handles(operations.HEALTHZ)
async def healthz(exchange: Exchange) -> Response:
    """200 as long as the process answers."""
    return exchange.as_json({"alive": True})


@handles(operations.READYZ)
async def readyz(exchange: Exchange) -> Response:
    """200 when the index and the model are loaded, 503 before, when they cannot be, and when the registry is away."""
    hindrance = await exchange.service.lanes.tend(exchange.service.readiness.hindrance)
    if hindrance:
        return answer(not_ready(hindrance), {"Retry-After": "1"})
    return exchange.as_json({"ready": True})


@handles(operations.METRICS)
async def metrics(exchange: Exchange) -> Response:
    """The service's numbers, for Prometheus. It needs a caller who sees everything. Why something of a source fails is
    told with the scope `admin`.
    """
    exchange.caller.require_everything("the metrics")
    content, media_type = await exchange.service.lanes.tend(
        lambda: exchange.service.metrics.exposition(reasons=exchange.transport_filter is None)
    )
    return Response(content, media_type=media_type)


# The API browser at `/docs`: Swagger UI over `/openapi.json`. All its files are in this package. They are those of
# npm's `swagger-ui-dist` 5.35.0, beside our `index.html` and `start.js`.
FILES = StaticFiles(directory=Path(__file__).parent / "swagger_ui")
HEADERS = {
    "Cache-Control": "private, no-cache",
    # Only files of this service, and the styles that Swagger UI writes into its elements.
    "Content-Security-Policy": "default-src 'none'; script-src 'self'; style-src 'self' 'unsafe-inline'; "
    "img-src 'self' data:; connect-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'",
}
PATHS = {
    "/docs": "index.html",
    "/docs/start.js": "start.js",
    "/docs/swagger-ui-bundle.js": "swagger-ui-bundle.js",
    "/docs/swagger-ui.css": "swagger-ui.css",
}


async def read_file(request: Request) -> Response:
    """The file of this path. A browser that has it asks with its ETag and gets 304."""
    response = await FILES.get_response(PATHS[request.scope["path"]], request.scope)
    response.headers.update(HEADERS)
    return response


DESCRIPTION = """Which agents, and which of their tools, can do this?

A registry of AI agents, MCP servers and their tools, and the router over it. Errors are problem details (RFC 9457) of
one shape. Lists come in parts: `following` of one is the `cursor` of the next. What is read has an ETag by revision.
"""
OF_MCP = ("Last-Event-ID", "Mcp-Method", "Mcp-Name", "MCP-Protocol-Version", "Mcp-Session-Id")
"""Headers by which a web page talks to the gateway."""
_FROM_PAGES = ("Authorization", "Content-Type", "If-None-Match", "Prefer", "X-API-Key", "X-Request-ID")
_TAGS = [
    {"name": "search", "description": "Find agents and tools for a request."},
    {"name": "cypher", "description": "Query the graph."},
    {"name": "catalog", "description": "List agents, tools, sources and changes."},
    {"name": "admin", "description": "Ingest manifests, approve changes, and set what operators decide."},
    {"name": "discovery", "description": "How other programs find the service and the servers that it holds."},
    {"name": "health", "description": "Check the service."},
]


def create_app(service: "Service", gateway: OfferedGateway | None = None) -> FastAPI:
    """The endpoints over this service, which closes its registry when it ends; with a gateway, MCP beside them."""

    @asynccontextmanager
    async def lifespan(_: FastAPI) -> AsyncIterator[None]:
        async with AsyncExitStack() as ending:  # each part, also if one before it fails at it
            ending.callback(service.registry.close)
            ending.callback(service.lanes.close)
            ending.push_async_callback(service.lanes.wait, service.follower.stop)
            if service.usage:
                ending.enter_context(repeat_write(service.usage.write, "usage-days", USAGE_EVERY_S))
            # What a first question would wait for. All else comes after it, so that it waits for nothing else.
            loading = asyncio.create_task(service.lanes.wait(service.readiness.hindrance))
            if gateway is not None:
                await ending.enter_async_context(gateway.running(after=loading))
            following = asyncio.create_task(_follow(service, gateway, after=loading))
            yield
            await following

    app = _DocumentedApp(
        title="Waygraph",
        version=version("waygraph"),
        description=DESCRIPTION,
        license_info={"name": "Apache-2.0", "identifier": "Apache-2.0"},
        openapi_tags=_TAGS,
        openapi_url=None,  # `_document` does it
        docs_url=None,  # FastAPI's page fetches scripts from elsewhere; `read_file` does not
        redoc_url=None,
        redirect_slashes=False,
        telemetry={"tracing": False, "metrics": False, "logs": False},  # `ObservedApplication` does it
        lifespan=lifespan,
    )
    app.state.service, app.state.gateway = service, gateway
    app.add_route("/openapi.json", _document, include_in_schema=False)
    # One route a file, so that metrics name each path.
    app.router.routes.extend(Route(path, read_file, include_in_schema=False) for path in PATHS)
    app.router.routes.extend(explorer_routes(service, has_gateway=gateway is not None))
    app.include_router(router())
    app.state.routes = [each for at in (app.router, router()) for each in at.routes if isinstance(each, Route)]
    if gateway is not None:
        app.router.routes.extend(login_routes(service, gateway))  # before the doors: `/login/mcp` is an agent's page
        app.router.routes.extend(routes(service, gateway))
    problems.register(app)
    return app


async def _follow(service: "Service", gateway: OfferedGateway | None, *, after: Awaitable[object]) -> None:
    """Once the gateway is open: both import the SDK, and modules of it need each other, so that of two threads that
    import it at once one may find half a module.
    """
    await asyncio.wait([asyncio.ensure_future(after)])  # whatever came of it
    if gateway is not None:
        await gateway.await_open()
    await service.lanes.wait(service.follower.start)


class _DocumentedApp(FastAPI):
    _document: dict[str, Any] | None = None
    _making = Lock()

    def openapi(self) -> dict[str, Any]:
        """The OpenAPI document, with the one shape of problems in place of FastAPI's. Threads may share it."""
        with self._making:
            if self._document is None:
                document = super().openapi()
                complete(document)
                self._document = document
            return self._document


async def _document(request: Request) -> Response:
    """In a lane: to make it takes so long the first time that all other requests would notice."""
    app: FastAPI = request.app
    lanes: Lanes = app.state.service.lanes
    return await lanes.wait(lambda: as_json(app.openapi()))


def application(
    service: "Service",
    gateway: OfferedGateway | None = None,
    *,
    log: "Logger",
    traces: "Traces | None",
    hosts: Collection[str] | None,
) -> Application:
    """The endpoints behind limits and observed: what a server runs. `hosts`: see `Careful`."""
    settings = service.settings
    endpoints = create_app(service, gateway)
    inner = LimitedApplication(endpoints, settings, admit=lambda scope: service.admit(Request(scope)))
    app: Application = Stoppable(SessionApplication(inner, service.sessions) if service.authenticator else inner)
    if gateway is not None and settings.oidc_issuer:
        app = ChallengingApplication(app, settings)
    if origins := settings.welcome_origins:
        app = CORSMiddleware(  # around the limits: a page that may call reads why it was refused
            app,
            allow_origins=origins,
            allow_methods=sorted({each.method for each in operations.OPERATIONS.values()}),
            allow_headers=[*_FROM_PAGES, *OF_MCP],
            expose_headers=["ETag", "Location", "Mcp-Session-Id", "Retry-After", "WWW-Authenticate", "X-Request-ID"],
        )
    careful = Careful(app, hosts=hosts)
    return ObservedApplication(careful, log=log, metrics=service.metrics, traces=traces, audit=service.audit)


@cache
def document() -> dict[str, Any]:
    """What `/openapi.json` tells."""
    service: Any = None  # the endpoints ask for it when they are called
    return create_app(service).openapi()


def main() -> None:
    print(json.dumps(document(), indent=1, ensure_ascii=False))  # noqa: T201 - `make docs` takes it


if __name__ == "__main__":
    main()
