"""Whether the service lives and is ready, its numbers, and the catalogue by which it is found."""

from typing import TYPE_CHECKING
from urllib.parse import urlsplit

from fastapi import APIRouter, Request
from fastapi.responses import Response

from waygraph.api.rest.answers import as_json, unless_known
from waygraph.api.rest.dependencies import ForRead, Serving
from waygraph.api.rest.openapi import operation
from waygraph.api.rest.problems import answer, not_ready

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
