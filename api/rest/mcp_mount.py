"""`/mcp` and `/{namespace}/mcp`: the gateway behind the service's own doors, so that the same callers, limits and
lines hold for it as for every endpoint. With an issuer of tokens, hosts learn here where a person logs in.
"""

import asyncio
import logging
import re
from collections.abc import AsyncIterator, Awaitable, Mapping
from contextlib import asynccontextmanager, suppress
from typing import TYPE_CHECKING
from urllib.parse import quote

from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from waygraph.api.rest import problems
from waygraph.api.rest.middleware import ENDLESS
from waygraph.api.telemetry.request_log import Application, Message, Receive, Scope, Send
from waygraph.ingest.execution.services import Reach, load_services
from waygraph.ingest.manifest.environment import Surroundings
from waygraph.ingest.manifest.trust_store import vouched_file
from waygraph.registry.access.policy import load_policy
from waygraph.registry.http.addresses import split_url

if TYPE_CHECKING:
    from waygraph.api.mcp import Surface
    from waygraph.api.mcp.http import HttpGateway
    from waygraph.api.rest.service import Service
    from waygraph.registry.model.settings import Settings

WHOLE, OF_NAMESPACE = "/mcp", "/{namespace}/mcp"
_LISTEN = "subscriptions/listen"
OPEN_AGAIN_S = 30.0
"""After so long a gateway that could not be opened is tried once more: it may have lacked but a file or some memory."""
_log = logging.getLogger("waygraph.gateway")


class OfferedGateway:
    """Answers while `running` is entered, which is done once. Its libraries take as long to import as all else that a
    service needs; so it is opened after that, and who asks it before waits. One that ends by an error is opened anew.
    """

    def __init__(
        self,
        service: "Service",
        environ: Mapping[str, str],
        *,
        surface: "Surface" = "default",
        alone: bool = True,
    ) -> None:
        """`alone`: see `HttpGateway`. Raises InvalidSetting for an operator's file that cannot be read."""
        self._service, self._alone = service, alone
        self._surface: Surface = surface
        self._surroundings = Surroundings.here(environ)
        settings = service.settings
        self.policy, self._services = load_policy(settings.policy_file), load_services(settings.services_file)
        if self.policy.calls_per_session and not self.policy.calls_per_day:
            _log.warning("calls_per_session holds for handshake sessions alone. Set calls_per_day too: it is for all")
        self._opened: asyncio.Future[HttpGateway] | None = None
        registry = service.registry
        self.reach = Reach(registry, self._services, vouched_file(settings.data_path, registry.store.place))

    @asynccontextmanager
    async def running(self, *, after: Awaitable[object]) -> AsyncIterator[None]:
        self._opened, ending = asyncio.get_running_loop().create_future(), asyncio.Event()
        # A task of its own: what a task opened here, only that task may close.
        at_work = asyncio.create_task(self._work(after, ending))
        try:
            yield
        finally:
            ending.set()
            await at_work

    async def await_open(self) -> None:
        """Waits until it is open, or could not be opened."""
        await asyncio.wait([self._future])

    async def await_gateway(self) -> "HttpGateway":
        """Raises why it could not be opened."""
        return await asyncio.shield(self._future)

    @property
    def _future(self) -> "asyncio.Future[HttpGateway]":
        assert self._opened is not None, "it is not running"  # noqa: S101
        return self._opened

    async def _work(self, after: Awaitable[object], ending: asyncio.Event) -> None:
        await asyncio.wait([asyncio.ensure_future(after)])  # whatever came of it
        while not await self._serve_once(ending):
            with suppress(TimeoutError):
                await asyncio.wait_for(ending.wait(), OPEN_AGAIN_S)
            if ending.is_set():
                break
            self._opened = asyncio.get_running_loop().create_future()

    async def _serve_once(self, ending: asyncio.Event) -> bool:
        """Until the end; False if it could not be opened, or ended by an error, which who asks meanwhile is told."""
        try:
            gateway = await self._service.lanes.wait(self._make_gateway)
            async with gateway.running():
                self._future.set_result(gateway)
                await ending.wait()
        except Exception as error:  # noqa: BLE001 - told to who asks
            _log.error("the gateway %s", "has ended" if self._future.done() else "cannot be opened", exc_info=error)
            if self._future.done():
                self._opened = asyncio.get_running_loop().create_future()
            self._future.set_exception(error)
            self._future.exception()  # has been told: asyncio need not, where nobody asks
            return False
        return True

    def _make_gateway(self) -> "HttpGateway":
        from waygraph.api.mcp.gateway import Parts
        from waygraph.api.mcp.http import HttpGateway

        service = self._service
        parts = Parts(
            registry=service.registry,
            settings=service.settings,
            surroundings=self._surroundings,
            policy=self.policy,
            services=self._services,
            audit=service.audit,
            ask=service.lanes.ask,
            surface=self._surface,
            parks=self._alone,
            count=service.count,
        )
        return HttpGateway(parts)


def routes(service: "Service", gateway: OfferedGateway) -> list[Route]:
    doors = [Route(path, endpoint=_Door(path, service, gateway)) for path in (WHOLE, OF_NAMESPACE)]
    if not service.settings.oidc_issuer:
        return doors
    return doors + [Route(f"{METADATA}{path}", _describe_resource) for path in ("", WHOLE, OF_NAMESPACE)]


class _Door:
    """An endpoint. `path` is its template, for logs and numbers."""

    def __init__(self, path: str, service: "Service", gateway: OfferedGateway) -> None:
        self.path, self._service, self._gateway = path, service, gateway

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Raises as `Service.caller_at_endpoint`."""
        scope["route"] = self
        request = Request(scope)
        if not self._is_welcome(request):
            await problems.answer(problems.wrong_origin(request.headers["origin"]))(scope, receive, send)
            return
        caller = await self._service.caller_at_endpoint(request)
        scope[ENDLESS] = request.method == "GET" or request.headers.get("mcp-method") == _LISTEN
        namespace = str(request.path_params.get("namespace", ""))
        gateway = await self._gateway.await_gateway()
        await gateway.answer(scope, receive, send, caller=caller, namespace=namespace)

    def _is_welcome(self, request: Request) -> bool:
        """Web pages of this service and of those that may call it; a program says no origin."""
        origin = request.headers.get("origin")
        if origin is None:
            return True
        if {origin, "*"} & {*self._service.settings.welcome_origins}:
            return True
        own = split_url(origin)
        return own is not None and own.netloc == request.headers.get("host", "")


METADATA = "/.well-known/oauth-protected-resource"
_STEP_UP = "waygraph.mcp.step_up"
"""As `api.mcp.http` has it, which is imported late."""
_DOOR = re.compile(r"(/(?!login/)[^/]+)?/mcp")


async def _describe_resource(request: Request) -> Response:
    """RFC 9728, 2: the issuer, and the scopes that a host needs to find and call tools."""
    service: Service = request.app.state.service
    settings = service.settings
    # For what a client asks the issuer for a token (RFC 8707): the audience if that is this address or one above it. An
    # audience may be any name. By the address a client sees that the metadata is of the server that it talks to.
    address = _address(settings, request, request.url.path.removeprefix(METADATA))
    is_above = f"{address}/".startswith(f"{settings.oidc_audience.rstrip('/')}/")
    metadata = {
        "resource": settings.oidc_audience if is_above else address,
        "authorization_servers": [settings.oidc_issuer],
        "scopes_supported": _scopes(settings),
        "bearer_methods_supported": ["header"],
        "resource_name": "Waygraph",
    }
    return problems.as_json(metadata)


def _address(settings: "Settings", request: Request, path: str) -> str:
    return f"{(settings.public_url or str(request.base_url)).rstrip('/')}{quote(path)}"


def _scopes(settings: "Settings") -> list[str]:
    return [f"{settings.oidc_scope_prefix}{scope}" for scope in ("route", "use")]


class ChallengingApplication:
    """The application. A caller without a good token learns where to log in (RFC 9728, 5.1). A caller whose token lacks
    a scope learns which scopes to ask for (RFC 6750, 3.1).
    """

    def __init__(self, application: Application, settings: "Settings") -> None:
        self._application, self._settings = application, settings

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        async def send_challenge(message: Message) -> None:
            is_refused = message["type"] == "http.response.start" and (message["status"] == 401 or _STEP_UP in scope)
            if is_refused:
                headers = [header for header in message["headers"] if header[0] != b"www-authenticate"]
                message = {**message, "headers": [*headers, (b"www-authenticate", self._challenge(Request(scope)))]}
            await send(message)

        is_door = scope["type"] == "http" and _DOOR.fullmatch(scope["path"])
        await self._application(scope, receive, send_challenge if is_door else send)

    def _challenge(self, request: Request) -> bytes:
        lacking: frozenset[str] = request.scope.get(_STEP_UP, frozenset())
        error = 'error="invalid_token", ' if "authorization" in request.headers else ""
        if lacking:
            error = 'error="insufficient_scope", '
        metadata = _address(self._settings, request, f"{METADATA}{request.scope['path']}")
        prefix = self._settings.oidc_scope_prefix
        scopes = " ".join([f"{prefix}{each}" for each in sorted(lacking)] or _scopes(self._settings))
        return f'Bearer {error}resource_metadata="{metadata}", scope="{scopes}"'.encode("latin-1", "replace")
