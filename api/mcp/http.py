"""The gateway over streamable HTTP, as an ASGI application: it is handed the caller, and authenticates nobody.

Hosts of the modern era need no session: each request stands alone, and any process of a service answers it. Hosts of
the handshake era have one, which belongs to who opened it and to the process that keeps it.

Sessions of hosts of the handshake era over HTTP: how many one caller may have, and what an idle one holds on to.
"""

import json
from collections import Counter
from collections.abc import AsyncGenerator, Iterator, Mapping, MutableMapping
from contextlib import ExitStack, asynccontextmanager, contextmanager
from typing import Any

import anyio
from mcp.server.auth.middleware.bearer_auth import AuthenticatedUser
from mcp.server.auth.provider import AccessToken
from mcp.server.context import CallNext, HandlerResult
from mcp.server.streamable_http import MCP_SESSION_ID_HEADER
from mcp.server.streamable_http_manager import StreamableHTTPSessionManager
from mcp.server.transport_security import TransportSecuritySettings
from mcp.types.version import HANDSHAKE_PROTOCOL_VERSIONS
from sse_starlette.sse import AppStatus

from waygraph.api.mcp import RUNNERS
from waygraph.api.mcp.calls import call_alone, record_call
from waygraph.api.mcp.gateway import Gateway, Parts
from waygraph.api.mcp.meta_tools import FIND_TOOLS, ROUTE, ROUTE_AGENTS
from waygraph.api.mcp.results import compact, protocol_error
from waygraph.api.mcp.server import CAPABILITIES, open_server
from waygraph.api.mcp.sessions import Asker, Context, Session, connection_of, session_of
from waygraph.api.telemetry.request_log import Receive, Scope, Send
from waygraph.ingest.logins.callers import OwnLogins
from waygraph.ingest.manifest.fields import fields_of
from waygraph.ingest.upstream.connection import Result
from waygraph.registry.access.authenticator import bearer_token
from waygraph.registry.access.visibility import LOCAL, Caller
from waygraph.registry.access.visibility import Scope as Grant
from waygraph.registry.http.addresses import public_address
from waygraph.registry.model.errors import TooManySessions
from waygraph.registry.model.settings import Settings
from waygraph.registry.model.usage import Door

# How many sessions of the handshake era one caller may keep open, so that none takes the room of all others.
#
# A seat is taken before the SDK opens a session, and left when its connection ends, however that ends.


_SEAT = "waygraph.mcp.seat"
_VERSION, _SESSION = b"mcp-protocol-version", b"mcp-session-id"


class OpenSessions:
    """`most` of each owner; 0: no limit."""

    def __init__(self, most: int) -> None:
        self._most = most
        self._open = Counter[str]()

    def __len__(self) -> int:
        """How many are open, of all owners."""
        return self._open.total()

    @contextmanager
    def around(self, scope: Scope, owner: str) -> Iterator[None]:
        """Around an HTTP request of the owner. Raises TooManySessions for one that would open a session too many."""
        if not self._most or not _opens(scope):
            yield
            return
        if self._open[owner] >= self._most:
            raise TooManySessions(self._most)
        with ExitStack() as seat:
            self._open[owner] += 1
            seat.callback(self._leave, owner)
            scope[_SEAT] = seat
            yield

    def _leave(self, owner: str) -> None:
        self._open[owner] -= 1
        if not self._open[owner]:
            del self._open[owner]


async def seat_session(ctx: Context, call_next: CallNext) -> HandlerResult:
    """A middleware of the SDK's server: a session has its seat as long as its connection."""
    seat = ctx.request.scope.get(_SEAT) if ctx.method == "initialize" and ctx.request is not None else None
    if seat is not None:
        connection_of(ctx).exit_stack.callback(seat.pop_all().close)  # no longer as long as the request alone
    return await call_next(ctx)


def _opens(scope: Scope) -> bool:
    """Whether the SDK opens a session for the request, to close it again if it is none that may begin one."""
    headers = dict(scope["headers"])
    version = headers.get(_VERSION, b"").decode("latin-1")
    return _SESSION not in headers and (not version or version in HANDSHAKE_PROTOCOL_VERSIONS)


REQUEST = "waygraph.mcp.request"
"""In the scope of a request: its `SentRequest`."""
_OF_REQUEST = "type asgi http_version method scheme path raw_path root_path query_string client server".split()
_HEADERS = frozenset({b"accept", b"authorization", b"content-length", b"content-type", b"host", b"last-event-id"})


def kept_scope(scope: Scope) -> dict[str, Any]:
    """Of a request what the SDK and its answers need: a session holds on to its last one, however long it is idle."""
    headers = [each for each in scope["headers"] if each[0] in _HEADERS or each[0].startswith(b"mcp-")]
    return {name: scope[name] for name in _OF_REQUEST if name in scope} | {"headers": headers}


class SentRequest:
    """One over HTTP as its session holds on to it. Once it is handled and answered, in whichever order that comes,
    nothing is left of it: no connection, no header, no token.
    """

    def __init__(self, receive: Receive) -> None:
        self._receive: Receive | None = receive
        self._handled: object = None

    async def __call__(self) -> MutableMapping[str, Any]:
        return await self._receive() if self._receive else {"type": "http.disconnect"}

    def note_answered(self) -> None:
        self._receive = None
        self._empty()

    def note_handled(self, handled: object) -> None:
        """`handled`: the SDK's object of it."""
        self._handled = handled
        self._empty()

    def _empty(self) -> None:
        if self._handled is not None and self._receive is None:
            vars(self._handled).clear()
            self._handled = None


async def release_request(ctx: Context, call_next: CallNext) -> HandlerResult:
    """A middleware of the SDK's server."""
    try:
        return await call_next(ctx)
    finally:
        if ctx.request is not None:
            ctx.request.scope[REQUEST].note_handled(ctx.request)


_SDK_CHECKS = TransportSecuritySettings(enable_dns_rebinding_protection=False)
"""Hosts and origins are looked at before the SDK; one value, since each session would make its own."""


# If a token lacks a scope, HTTP says so before anything runs, and a host can have its person grant it (MCP 2025-11-25,
# Authorization, Runtime Insufficient Scope Errors). Nobody can grant a key more: its caller gets an error of MCP.
STEP_UP = "waygraph.mcp.step_up"
"""In the scope of a request that is refused so: the scopes that its caller has, with those that it needs."""
_ASKS: frozenset[Grant] = frozenset({"route"})
_USES: frozenset[Grant] = frozenset({"use"})


def needed_scopes(message: Mapping[str, Any]) -> frozenset[Grant]:
    """Of one message of a host."""
    params = fields_of(message.get("params"))
    match message.get("method"):
        case "tools/call":
            name, tool_arguments = str(params.get("name")), fields_of(params.get("arguments"))
            needed = _ASKS if name in (FIND_TOOLS, ROUTE_AGENTS, ROUTE) else _USES
            if name == FIND_TOOLS and tool_arguments.get("kind", "tool") != "tool":
                return needed | _USES
            return needed | _ASKS if name in RUNNERS.values() and tool_arguments.get("query") else needed
        case "resources/read" if params.get("uri") == CAPABILITIES:
            return _ASKS
        case "prompts/get" | "resources/read" | "completion/complete":
            return _USES
    return frozenset()


async def _read_message(receive: Receive) -> tuple[Mapping[str, Any], Receive]:
    """The message, and how it is read again: the application has it whole already. Empty: it is none."""
    first = await receive()
    waiting = [first]

    async def receive_again() -> MutableMapping[str, Any]:
        return waiting.pop() if waiting else await receive()

    try:
        message = json.loads(first.get("body", b""))
    except (ValueError, RecursionError):
        message = None
    return fields_of(message), receive_again


_CALLER, _NAMESPACE = "waygraph.mcp.caller", "waygraph.mcp.namespace"


class HttpGateway:
    """Answers while `running` is entered, which is done once.

    Of several processes none keeps what a host's next request needs, so their gateways do not park. Hosts of the
    handshake era have no session there, and no host is asked anything.
    """

    _gateway: Gateway
    _sessions: StreamableHTTPSessionManager

    def __init__(self, parts: Parts) -> None:
        self._parts = parts
        self._open = OpenSessions(parts.settings.sessions_per_caller if parts.parks else 0)

    @asynccontextmanager
    async def running(self) -> AsyncGenerator[None]:
        # Streams of calls end by themselves when a service stops; of the others `api.rest.protocol` takes care.
        AppStatus.enable_automatic_graceful_drain = False
        async with open_server(self._parts, lambda ctx: _asker_of(ctx, self._parts.settings)) as server:
            self._gateway = server.gateway
            server.middleware.insert(0, release_request)
            server.middleware.append(seat_session)
            self._sessions = StreamableHTTPSessionManager(
                server,
                stateless=not self._parts.parks,
                max_request_body_size=self._parts.settings.max_body_bytes,
                security_settings=_SDK_CHECKS,
            )
            async with self._sessions.run():
                yield

    @property
    def logins(self) -> OwnLogins:
        """Of callers at the servers behind it."""
        assert self._gateway.executor.logins is not None  # noqa: S101 - it was opened with them
        return self._gateway.executor.logins

    async def call_tool(
        self,
        caller: Caller,
        name: str,
        arguments: Mapping[str, Any],
        *,
        authorization: str,
        url: str,
        door: Door,
        **options: Any,
    ) -> Result:
        """As `call_alone`. `url`: where the caller reaches this service."""
        site = public_address(self._parts.settings.public_url, url)
        token = bearer_token(authorization)
        asker = Asker(caller=caller, session=Session(), owner=caller.id, token=token, site=site, door=door)
        return await call_alone(self._gateway, asker, name, arguments, **options)

    async def answer(self, scope: Scope, receive: Receive, send: Send, *, caller: Caller, namespace: str = "") -> None:
        """One HTTP request of a caller who is known. Raises NotAllowed for a token that lacks a scope."""
        if caller.id.startswith("oidc:") and not {"route", "use"} <= caller.scopes and scope["method"] == "POST":
            receive = await self._refuse_unscoped(scope, receive, caller)
        # By this the SDK binds a session to who opened it.
        user = AuthenticatedUser(AccessToken(token="", client_id=caller.id, scopes=[]))
        send_once, request = _Once(send), SentRequest(receive)
        kept = kept_scope(scope) | {_CALLER: caller, _NAMESPACE: namespace, "user": user, REQUEST: request}
        try:
            with self._open.around(kept, _owner(caller, scope)):
                await self._sessions.handle_request(kept, request, send_once)
        except TooManySessions as error:
            # In JSON-RPC: hosts tell their users its message, and of any other body nothing.
            body = compact({"jsonrpc": "2.0", "id": None, "error": protocol_error(error)}).encode()
            headers = [(b"content-type", b"application/json")]
            await send({"type": "http.response.start", "status": 429, "headers": headers})
            await send({"type": "http.response.body", "body": body})
        except anyio.ClosedResourceError:
            if not send_once.is_whole:
                raise
        finally:
            request.note_answered()

    async def _refuse_unscoped(self, scope: Scope, receive: Receive, caller: Caller) -> Receive:
        """How the request is read if the caller may make it. Raises NotAllowed."""
        message, receive = await _read_message(receive)
        needed = needed_scopes(message)
        if needed <= caller.scopes:
            return receive
        scope[STEP_UP] = caller.scopes | needed
        lacking = min(needed - caller.scopes)
        if "use" not in needed:
            caller.require(lacking)
        params = fields_of(message.get("params"))
        target = str(params.get("name") or params.get("uri") or "")
        with record_call(self._gateway, caller, target, {}):
            caller.require(lacking)
        return receive


class _Once:
    """Sends one answer. The SDK acknowledges a notification, then hands it on, and answers anew if its session has
    ended meanwhile: by then nobody waits for another answer."""

    def __init__(self, send: Send) -> None:
        self._send, self.is_whole = send, False

    async def __call__(self, message: MutableMapping[str, Any]) -> None:
        if self.is_whole:
            return
        self.is_whole = message["type"] == "http.response.body" and not message.get("more_body", False)
        await self._send(message)


def _owner(caller: Caller, scope: Scope) -> str:
    """The owner of a session or a request; without authentication the client's address."""
    return caller.id if caller is not LOCAL else str((scope["client"] or [""])[0])


def _asker_of(ctx: Context, settings: Settings) -> Asker:
    assert ctx.request is not None  # noqa: S101 - over HTTP there is one
    scope: Scope = ctx.request.scope
    caller = scope[_CALLER]
    owner = f"{_owner(caller, scope)} {ctx.request.headers.get(MCP_SESSION_ID_HEADER, '')}"
    return Asker(
        caller=caller,
        session=session_of(ctx),
        namespace=scope[_NAMESPACE],
        owner=owner,
        token=bearer_token(ctx.request.headers.get("authorization", "")),
        site=public_address(settings.public_url, str(ctx.request.base_url)),
    )
