"""What every endpoint reaches: the registry, who calls, where work is done, what is recorded."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated, cast

from fastapi import Depends, Request
from fastapi.security import APIKeyHeader, HTTPBearer

from waygraph.api.rest.lanes import Lanes
from waygraph.api.rest.observing.observed import called_by
from waygraph.registry.access import LOCAL, Caller, Scope
from waygraph.registry.errors import NotAuthenticated

if TYPE_CHECKING:
    from collections.abc import Awaitable

    from waygraph.api.rest.observing.audit import Audit
    from waygraph.api.rest.observing.metrics import Metrics
    from waygraph.registry.authentication.authenticator import Authenticator
    from waygraph.registry.authentication.rate_limit import RateLimit
    from waygraph.registry.registry import Registry
    from waygraph.registry.settings import Settings

FAILED_LOGIN = "address:"


@dataclass(frozen=True, kw_only=True)
class Service:
    """`authenticator` None: nobody is asked who they are, and everybody may do everything."""

    registry: "Registry"
    settings: "Settings"
    authenticator: "Authenticator | None"
    requests: "RateLimit"
    failures: "RateLimit"
    lanes: Lanes
    audit: "Audit"
    metrics: "Metrics"

    async def caller(self, request: Request) -> Caller:
        """Raises NotAuthenticated, TooManyRequests."""
        if self.authenticator is None:
            return LOCAL
        address = f"{FAILED_LOGIN}{request.client.host if request.client else ''}"
        self.failures.require(address)
        shown = request.headers.get("authorization"), request.headers.get("x-api-key")
        try:
            known = self.authenticator.known(*shown)
            return known or await self.lanes.wait(self.authenticator.caller, *shown)
        except NotAuthenticated:
            self.metrics.refused("authentication")
            self.failures.take(address)
            raise


def service_of(request: Request) -> Service:
    return cast(Service, request.app.state.service)


_BEARER = HTTPBearer(auto_error=False, description="An API key, or a token of the issuer that the service trusts.")
_API_KEY = APIKeyHeader(name="X-API-Key", auto_error=False, description="An API key.")


def caller_with(scope: Scope | None) -> "Callable[..., Awaitable[Caller]]":
    """Who calls, if it may do this. Raises NotAuthenticated, NotAllowed, TooManyRequests."""

    async def caller(
        request: Request,
        _bearer: Annotated[object, Depends(_BEARER)] = None,
        _api_key: Annotated[object, Depends(_API_KEY)] = None,
    ) -> Caller:
        service = service_of(request)
        known = await service.caller(request)
        called_by(request.scope, known)
        service.requests.take(known.id)
        if scope is not None:
            known.require(scope)
        return known

    return caller


Serving = Annotated[Service, Depends(service_of)]
ForRoute = Annotated[Caller, Depends(caller_with("route"))]
ForRead = Annotated[Caller, Depends(caller_with("read"))]
ForWrite = Annotated[Caller, Depends(caller_with("write"))]
ForCypher = Annotated[Caller, Depends(caller_with("cypher"))]
