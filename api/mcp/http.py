"""The gateway over streamable HTTP, as an ASGI application: it is handed the caller, and authenticates nobody.

Hosts of the modern era need no session: each request stands alone, and any process of a service answers it. Hosts of
the handshake era have one, which belongs to who opened it and to the process that keeps it.
"""

import json
from collections.abc import AsyncGenerator, Mapping, MutableMapping
from contextlib import asynccontextmanager
from typing import Any

import anyio
from mcp.server.auth.middleware.bearer_auth import AuthenticatedUser
from mcp.server.auth.provider import AccessToken
from mcp.server.streamable_http import MCP_SESSION_ID_HEADER
from sse_starlette.sse import AppStatus

from waygraph.api.mcp.calls import call_alone, record_call
from waygraph.api.mcp.gateway import Gateway, Parts
from waygraph.api.mcp.http_sessions import (
    REQUEST,
    HandshakeSessions,
    OpenSessions,
    SentRequest,
    kept_scope,
    release_request,
    seat_session,
)
from waygraph.api.mcp.meta_tools import FIND_TOOLS, ROUTE, ROUTE_AGENTS, RUNNERS
from waygraph.api.mcp.results import compact, protocol_error
from waygraph.api.mcp.server import CAPABILITIES, open_server
from waygraph.api.mcp.sessions import Asker, Context, Session, session_of
from waygraph.api.telemetry.request_log import Receive, Scope, Send
from waygraph.ingest.logins.callers import OwnLogins
from waygraph.ingest.upstream.connection import Result
from waygraph.registry.access.authenticator import bearer_token
from waygraph.registry.access.visibility import LOCAL, Caller
from waygraph.registry.access.visibility import Scope as Grant
from waygraph.registry.http.addresses import public_address
from waygraph.registry.model.errors import TooManySessions
from waygraph.registry.model.settings import Settings

# If a token lacks a scope, HTTP says so before anything runs, and a host can have its person grant it (MCP 2025-11-25,
# Authorization, Runtime Insufficient Scope Errors). Nobody can grant a key more: its caller gets an error of MCP.
STEP_UP = "waygraph.mcp.step_up"
"""In the scope of a request that is refused so: the scopes that its caller has, with those that it needs."""
_ASKS: Mapping[str, frozenset[Grant]] = {
    FIND_TOOLS: frozenset({"route"}),
    ROUTE_AGENTS: frozenset({"route"}),
    ROUTE: frozenset({"route"}),
}
_USES: frozenset[Grant] = frozenset({"use"})


def needed_scopes(message: Mapping[str, Any]) -> frozenset[Grant]:
    """Of one message of a host."""
    params_or_none = message.get("params")
    params: Mapping[str, Any] = params_or_none if isinstance(params_or_none, dict) else {}
    match message.get("method"):
        case "tools/call":
            name, arguments = str(params.get("name")), params.get("arguments")
            tool_arguments = arguments if isinstance(arguments, dict) else {}
            needed = _ASKS.get(name, _USES)
            if name == FIND_TOOLS and tool_arguments.get("kind", "tool") != "tool":
                return needed | _USES
            return needed | _ASKS[ROUTE] if name in RUNNERS.values() and tool_arguments.get("query") else needed
        case "resources/read" if params.get("uri") == CAPABILITIES:
            return frozenset({"route"})
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
    return message if isinstance(message, dict) else {}, receive_again


_CALLER, _NAMESPACE = "waygraph.mcp.caller", "waygraph.mcp.namespace"


class HttpGateway:
    """Answers while `running` is entered, which is done once.

    Of several processes none keeps what a host's next request needs, so their gateways do not park. Hosts of the
    handshake era have no session there, and no host is asked anything.
    """

    def __init__(self, parts: Parts) -> None:
        self._parts = parts
        self._gateway: Gateway | None = None
        self._sessions: HandshakeSessions | None = None
        self._open = OpenSessions(parts.settings.sessions_per_caller if parts.parks else 0)

    @asynccontextmanager
    async def running(self) -> AsyncGenerator[None]:
        # Streams of calls end by themselves when a service stops; of the others `api.rest.protocol` takes care.
        AppStatus.enable_automatic_graceful_drain = False
        most_bytes = self._parts.settings.max_body_bytes
        async with open_server(self._parts, lambda ctx: _asker_of(ctx, self._parts.settings)) as server:
            self._gateway = server.gateway
            server.middleware.insert(0, release_request)
            server.middleware.append(seat_session)
            self._sessions = HandshakeSessions(
                server, stateless=not self._parts.parks, max_request_body_size=most_bytes
            )
            async with self._sessions.run():
                yield

    @property
    def logins(self) -> OwnLogins:
        """Of callers at the servers behind it."""
        assert self._gateway is not None, "it is not running"  # noqa: S101
        assert self._gateway.executor.logins is not None  # noqa: S101 - it was opened with them
        return self._gateway.executor.logins

    async def call_tool(
        self,
        caller: Caller,
        name: str,
        arguments: Mapping[str, Any],
        timeout_s: float | None,
        *,
        authorization: str = "",
        sent_to: str = "",
        **options: Any,
    ) -> Result:
        """As `call_alone`."""
        assert self._gateway is not None, "it is not running"  # noqa: S101
        site = public_address(self._parts.settings.public_url, sent_to)
        asker = Asker(caller=caller, session=Session(), owner=caller.id, token=bearer_token(authorization), site=site)
        return await call_alone(self._gateway, asker, name, arguments, timeout_s=timeout_s, **options)

    async def answer(self, scope: Scope, receive: Receive, send: Send, *, caller: Caller, namespace: str = "") -> None:
        """One HTTP request of a caller who is known. Raises NotAllowed for a token that lacks a scope."""
        assert self._sessions is not None, "it is not running"  # noqa: S101
        if caller.id.startswith("oidc:") and not {"route", "use"} <= caller.scopes and scope["method"] == "POST":
            receive = await self._refuse_unscoped(scope, receive, caller)
        # By this the SDK binds a session to who opened it.
        user = AuthenticatedUser(AccessToken(token="", client_id=caller.id, scopes=[]))
        kept = kept_scope(scope) | {_CALLER: caller, _NAMESPACE: namespace, "user": user}
        send_once, request = _Once(send), SentRequest(receive)
        kept[REQUEST] = request
        try:
            with self._open.around(kept, _owner(caller, scope)):
                await self._sessions.handle_request(kept, request, send_once)
        except TooManySessions as error:
            await _refuse(error, send)
        except anyio.ClosedResourceError:
            if not send_once.is_whole:
                raise
        finally:
            request.note_answered()

    async def _refuse_unscoped(self, scope: Scope, receive: Receive, caller: Caller) -> Receive:
        """How the request is read if the caller may make it. Raises NotAllowed."""
        assert self._gateway is not None, "it is not running"  # noqa: S101
        message, receive = await _read_message(receive)
        needed = needed_scopes(message)
        if needed <= caller.scopes:
            return receive
        scope[STEP_UP] = caller.scopes | needed
        lacking = min(needed - caller.scopes)
        if "use" not in needed:
            caller.require(lacking)
        params = message.get("params") or {}
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


async def _refuse(error: TooManySessions, send: Send) -> None:
    """In JSON-RPC: hosts tell their users its message, and of any other body nothing."""
    body = compact({"jsonrpc": "2.0", "id": None, "error": protocol_error(error)}).encode()
    headers = [(b"content-type", b"application/json"), (b"content-length", str(len(body)).encode())]
    await send({"type": "http.response.start", "status": 429, "headers": headers})
    await send({"type": "http.response.body", "body": body})


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
