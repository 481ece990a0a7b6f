"""An exchange: a request for one operation, who asks, and how a handler's answer becomes a response."""

from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cache, cached_property, wraps
from hashlib import sha256
from importlib.metadata import version
from inspect import iscoroutinefunction, signature
from typing import TYPE_CHECKING, Annotated, Any

from fastapi import APIRouter, Depends, Request
from fastapi.responses import Response

from waygraph.api.rest.browser_sessions import refuse_foreign
from waygraph.api.rest.openapi import describe
from waygraph.api.rest.problems import as_json
from waygraph.api.rest.service import STRANGER, Lanes, Service, service_of
from waygraph.api.telemetry.audit import Action, Attempt
from waygraph.registry.access.visibility import Caller
from waygraph.registry.catalog.find_tools.find import judging, refusals
from waygraph.registry.model.nouns import Agent, Principal, ToolMatch
from waygraph.registry.model.shapes import TransportFilter
from waygraph.registry.remote.operations import OPERATIONS, Operation

if TYPE_CHECKING:
    from waygraph.registry.model.changes import SourceSummary, Status
    from waygraph.registry.registry import Registry

ANY = "*"
"""In place of tags (RFC 9110, 13.1.2): whichever there is."""
NO_GATEWAY = "this service offers no gateway (--no-mcp)"
_VERSION = version("waygraph")


@dataclass(frozen=True, kw_only=True)
class Exchange:
    """A request for an operation, and in whose name it is answered."""

    operation: Operation[Any]
    request: Request
    service: Service
    caller: Caller

    @property
    def registry(self) -> "Registry":
        return self.service.registry

    @property
    def principal(self) -> Principal | None:
        return self.caller.principal

    @property
    def transport_filter(self) -> TransportFilter:
        return self.caller.transport_filter

    @property
    def base_url(self) -> str:
        """The address of the service, as callers know it."""
        return (self.service.settings.public_url or str(self.request.base_url)).rstrip("/")

    @cached_property
    def sources(self) -> "list[SourceSummary]":
        return self.registry.sources(principal=self.principal)

    @cached_property
    def status(self) -> "Status":
        return self.registry.status(principal=self.principal)

    @property
    def why_not(self) -> "Callable[[Agent], str]":
        """Why nothing here runs an agent's tools; empty: a call can be tried."""
        gateway = self.request.app.state.gateway
        return (lambda _: NO_GATEWAY) if gateway is None else gateway.reach.now().why_not

    @cached_property
    def refusal(self) -> "Callable[[ToolMatch], str]":
        """Why the caller cannot call a tool by name; empty: a call can be tried."""
        gateway = self.request.app.state.gateway
        policy = None if gateway is None else gateway.policy
        return refusals(judging(self.registry, policy, self.principal), self.why_not)

    @contextmanager
    def attempt(self, action: Action, target: str, **details: Any) -> Iterator[Attempt]:
        """In the audit whatever becomes of it, also if the caller lacks the scope. `details`: as `Audit.attempt`."""
        with self.service.audit.attempt(self.caller, action, target, **details) as attempt:
            if self.operation.scope:
                self.caller.require(self.operation.scope)
            yield attempt

    async def unless_known(
        self, shape: Callable[[], object], stamp: "Stamp | None" = None, *, lane: "Lane" = Lanes.ask
    ) -> Response:
        """304 if the caller has the answer of this revision, or any (`*`); else `shape` as JSON, with the revision's
        ETag.

        The revision is read before the answer is made: at worst an answer is newer than its tag. `stamp`: of an answer
        that tells more than a revision does. `lane`: where it is made.
        """
        lanes = self.service.lanes
        tag = etag(await lanes.ask(lambda: stamp(self) if stamp else self.registry.stamp), self.caller)
        headers = {"ETag": tag, "Cache-Control": "private, no-cache", "Vary": "Authorization, X-API-Key"}
        tags = {each.strip().removeprefix("W/") for each in self.request.headers.get("if-none-match", "").split(",")}
        if tag in tags:
            return Response(status_code=304, headers=headers)
        response = await lane(lanes, lambda: self.as_json(shape(), headers))
        # Whether there is any answer is known when it is made.
        return Response(status_code=304, headers=headers) if tags == {ANY} else response

    def as_json(self, shape: object, headers: dict[str, str] | None = None) -> Response:
        return as_json(shape, headers, media_type=self.operation.media_types[0])


def etag(stamp: str, caller: Caller) -> str:
    """Strong: of this revision, as whoever sees the same as the caller gets it from this version of Waygraph."""
    sees = "all"
    if "read" not in caller.scopes:
        sees = "nothing"
    elif caller.principal is not None:
        sees = "\n".join(("groups", *sorted(set(caller.principal.groups))))
    if "admin" in caller.scopes:
        sees += "\nadmin"
    return f'"{sha256("\x00".join((stamp, sees, _VERSION)).encode("utf-8", "surrogatepass")).hexdigest()[:32]}"'


type Handler = Callable[..., Any]
type Stamp = Callable[[Exchange], str]
type Lane = Callable[[Lanes, Callable[[], Response]], Awaitable[Response]]
ENDPOINTS: dict[str, Handler] = {}
"""By operation."""


def handles[H: Handler](
    operation: Operation[Any], *, lane: Lane | None = None, stamp: Stamp | None = None
) -> Callable[[H], H]:
    """Makes a function the handler of an operation: of an `Exchange` and the parts of the request.

    A plain function returns the answer's JSON, and works in a lane: `lane`, or that of writes or of questions. A
    coroutine function returns the response. `stamp`: as `Exchange.unless_known` takes it.
    """

    own_lane = lane or (Lanes.write if operation.is_write else Lanes.ask)

    def bind(handler: H) -> H:
        is_coroutine = iscoroutinefunction(handler)

        @wraps(handler)
        async def endpoint(exchange: Exchange, **parts: Any) -> Response:
            if is_coroutine:
                response: Response = await handler(exchange, **parts)
                return response
            if operation.is_conditional:
                return await exchange.unless_known(lambda: handler(exchange, **parts), stamp, lane=own_lane)
            return await own_lane(exchange.service.lanes, lambda: exchange.as_json(handler(exchange, **parts)))

        first, *others = signature(handler).parameters.values()
        first = first.replace(annotation=Annotated[Exchange, Depends(_exchange_of(operation))])
        vars(endpoint)["__signature__"] = signature(handler).replace(parameters=[first, *others])
        ENDPOINTS[operation.name] = endpoint
        return handler

    return bind


def _exchange_of(operation: Operation[Any]) -> Callable[[Request], Awaitable[Exchange]]:
    """Raises NotAuthenticated, NotAllowed, TooManyRequests; NotAllowed later where the audit is to have the refusal."""
    asks_scope_now = not (operation.is_write or operation.is_recorded)

    async def exchange(request: Request) -> Exchange:
        service = await service_of(request)
        if operation.is_write:  # also where nobody is asked who they are: a page of elsewhere has no say
            refuse_foreign(request, service.settings.welcome_origins)
        if operation.scope is None:
            caller = STRANGER if operation.tag == "health" else await service.caller_or_stranger(request)
        else:
            caller = await service.caller(request)
            if asks_scope_now:
                caller.require(operation.scope)
        return Exchange(operation=operation, request=request, service=service, caller=caller)

    return exchange


@cache
def router() -> APIRouter:
    """Every operation at its path. Raises KeyError for one without a handler."""
    router = APIRouter()
    for operation in OPERATIONS.values():
        router.add_api_route(operation.path, ENDPOINTS[operation.name], **describe(operation))
    return router
