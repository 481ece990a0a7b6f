"""`/mcp` and `/{namespace}/mcp`: the gateway behind the service's own doors, so that the same callers, limits and
lines hold for it as for every endpoint.
"""

from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

from starlette.requests import Request
from starlette.routing import Route

from waygraph.api.rest import problems
from waygraph.api.rest.observing.observed import Receive, Scope, Send
from waygraph.api.rest.protocol import ENDLESS
from waygraph.ingest.surroundings import Surroundings

if TYPE_CHECKING:
    from waygraph.api.mcp.http import HttpGateway
    from waygraph.api.mcp.surface import Surface
    from waygraph.api.rest.service import Service

WHOLE, OF_NAMESPACE = "/mcp", "/{namespace}/mcp"
_LISTEN = "subscriptions/listen"


def open_gateway(service: "Service", environ: Mapping[str, str], *, surface: "Surface", alone: bool) -> "HttpGateway":
    """Raises InvalidSetting for a policy that cannot be read. `alone`: see `HttpGateway`."""
    from waygraph.api.mcp.http import HttpGateway  # its libraries take half a second

    around = Surroundings(environ=environ, home=str(Path.home()), cwd=str(Path.cwd()))
    return HttpGateway(
        service.registry,
        service.settings,
        around,
        audit=service.audit,
        ask=service.lanes.ask,
        surface=surface,
        alone=alone,
    )


def routes(service: "Service", gateway: "HttpGateway") -> list[Route]:
    return [Route(path, endpoint=_Door(path, service, gateway)) for path in (WHOLE, OF_NAMESPACE)]


@asynccontextmanager
async def at_work(gateway: "HttpGateway | None") -> AsyncIterator[None]:
    if gateway is None:
        yield
        return
    async with gateway.running():
        yield


class _Door:
    """An endpoint. `path` is its template, for logs and numbers."""

    def __init__(self, path: str, service: "Service", gateway: "HttpGateway") -> None:
        self.path, self._service, self._gateway = path, service, gateway

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Raises as `Service.caller`."""
        scope["route"] = self
        request = Request(scope)
        if not self._is_welcome(request):
            await problems.answer(problems.wrong_origin(request.headers["origin"]))(scope, receive, send)
            return
        caller = await self._service.caller(request)
        scope[ENDLESS] = request.method == "GET" or request.headers.get("mcp-method") == _LISTEN
        namespace = str(request.path_params.get("namespace", ""))
        await self._gateway.answer(scope, receive, send, caller=caller, namespace=namespace)

    def _is_welcome(self, request: Request) -> bool:
        """Web pages of this service and of those that may call it; a program says no origin."""
        origin = request.headers.get("origin")
        if origin is None:
            return True
        allowed: Any = {each.strip() for each in self._service.settings.cors_origins.split(",")}
        return origin in allowed or "*" in allowed or urlsplit(origin).netloc == request.headers.get("host", "")
