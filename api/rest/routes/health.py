"""Whether the service lives and is ready, its numbers, and the API browser."""

from pathlib import Path

from fastapi import Request
from fastapi.responses import Response
from fastapi.staticfiles import StaticFiles
from starlette.routing import Route

from waygraph.api.rest.problems import answer, not_ready
from waygraph.api.rest.service import Exchange, handles
from waygraph.registry.operations import table as operations


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
FILES = StaticFiles(directory=Path(__file__).parent.parent / "swagger_ui")
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


def browser_routes() -> list[Route]:
    """One route a file, so that metrics name each path."""
    return [Route(path, read_file, include_in_schema=False) for path in PATHS]
