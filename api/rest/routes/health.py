"""Whether the service lives and is ready, its numbers, the catalogue by which it is found, and the API browser."""

from pathlib import Path
from typing import TYPE_CHECKING
from urllib.parse import urlsplit

from fastapi import APIRouter, Request
from fastapi.responses import Response
from fastapi.staticfiles import StaticFiles
from starlette.routing import Route

from waygraph.api.rest.dependencies import ForRead, Serving
from waygraph.api.rest.openapi import operation
from waygraph.api.rest.problems import answer, as_json, not_ready, unless_known

if TYPE_CHECKING:
    from waygraph.registry.model.shapes import Shape


router = APIRouter(tags=["health"])


@router.get("/healthz", **operation("healthz"))
async def healthz() -> Response:
    """200 as long as the process answers."""
    return as_json({"alive": True})


@router.get("/readyz", **operation("readyz"))
async def readyz(service: Serving) -> Response:
    """200 when the index and the model are loaded, 503 before, when they cannot be, and when the registry is away."""
    hindrance = await service.lanes.tend(service.readiness.hindrance)
    if hindrance:
        return answer(not_ready(hindrance), {"Retry-After": "1"})
    return as_json({"ready": True})


@router.get("/metrics", **operation("metrics"))
async def metrics(service: Serving, caller: ForRead) -> Response:
    """The service's numbers, for Prometheus. It needs a caller who sees everything."""
    caller.require_everything("the metrics")
    content, media_type = await service.lanes.tend(service.metrics.exposition)
    return Response(content, media_type=media_type)


@router.get("/.well-known/ai-catalog.json", **operation("ai_catalog"))
async def ai_catalog(request: Request, service: Serving) -> Response:
    """An AI Catalog of this service and of the agents that the caller may see; without a caller, of the service.

    Agents that wait for approval are not in it.
    """
    from waygraph.registry.storage.export.formats import MEDIA_TYPE, ai_catalog

    caller = await service.caller_or_stranger(request)
    base_url = (service.settings.public_url or str(request.base_url)).rstrip("/")
    host = urlsplit(base_url).hostname or "localhost"

    def catalog_json() -> "Shape":
        agents = service.registry.agents(principal=caller.principal) if "read" in caller.scopes else []
        return ai_catalog([agent for agent in agents if not agent.pending], host, base_url)

    if not await service.lanes.ask(lambda: service.registry.exists):
        return as_json(ai_catalog((), host, base_url), media_type=MEDIA_TYPE)
    return await unless_known(request, service, caller, catalog_json, media_type=MEDIA_TYPE)


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
