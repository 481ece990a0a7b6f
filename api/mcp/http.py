"""The gateway over streamable HTTP, as an ASGI application: who calls is told to it, it asks nobody.

Hosts of the modern era need no session: each request stands alone, and any process of a service answers it. Hosts of
the handshake era have one, which belongs to who opened it and to the process that keeps it.
"""

from collections.abc import AsyncGenerator, Awaitable, Callable, MutableMapping
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Any

import anyio
from mcp.server.auth.middleware.bearer_auth import AuthenticatedUser
from mcp.server.auth.provider import AccessToken
from mcp.server.streamable_http import MCP_SESSION_ID_HEADER
from mcp.server.streamable_http_manager import StreamableHTTPSessionManager
from sse_starlette.sse import AppStatus

from waygraph.api.mcp.connection import Context, session_of
from waygraph.api.mcp.gateway import Ask, Asker, Parts, discovery_of
from waygraph.api.mcp.open_sessions import OpenSessions, seated
from waygraph.api.mcp.opening import open_gateway
from waygraph.api.mcp.results import compact, protocol_error
from waygraph.api.mcp.surface import Surface
from waygraph.registry.access import LOCAL
from waygraph.registry.errors import TooManySessions

if TYPE_CHECKING:
    from waygraph.api.mcp.rules import Rules
    from waygraph.api.observing.audit import Audit
    from waygraph.ingest.surroundings import Surroundings
    from waygraph.registry.access import Caller
    from waygraph.registry.registry import Registry
    from waygraph.registry.settings import Settings

Scope = MutableMapping[str, Any]
Receive = Callable[[], Awaitable[MutableMapping[str, Any]]]
Send = Callable[[MutableMapping[str, Any]], Awaitable[None]]

_CALLER, _NAMESPACE = "waygraph.mcp.caller", "waygraph.mcp.namespace"


class HttpGateway:
    """Answers while `running` is entered, which is done once.

    `alone`: this process is the service's only one. Of several none keeps what a host's next request needs: hosts of
    the handshake era have no session there, and no host is asked anything.
    """

    def __init__(
        self,
        registry: "Registry",
        settings: "Settings",
        surroundings: "Surroundings",
        rules: "Rules",
        *,
        audit: "Audit",
        ask: Ask,
        surface: Surface = "default",
        alone: bool = True,
    ) -> None:
        self._registry, self._settings, self._surroundings, self._rules = registry, settings, surroundings, rules
        self._audit, self._ask, self._surface, self._alone = audit, ask, surface, alone
        self._sessions: StreamableHTTPSessionManager | None = None
        self._open = OpenSessions(settings.sessions_per_caller if alone else 0)

    @asynccontextmanager
    async def running(self) -> AsyncGenerator[None]:
        # Streams of calls end by themselves when a service stops; of the others `api.rest.protocol` takes care.
        AppStatus.enable_automatic_graceful_drain = False
        discovery = discovery_of(self._registry, self._settings, self._rules, self._ask, self._surface)
        parts = Parts(
            discovery=discovery,
            settings=self._settings,
            surroundings=self._surroundings,
            rules=self._rules,
            audit=self._audit,
            asker_of=_asker_of,
            parks=self._alone,
        )
        async with open_gateway(parts) as server:
            server.middleware.append(seated)
            self._sessions = StreamableHTTPSessionManager(
                server,
                stateless=not self._alone,
                max_request_body_size=self._settings.max_body_bytes,
            )
            async with self._sessions.run():
                yield

    async def answer(
        self, scope: Scope, receive: Receive, send: Send, *, caller: "Caller", namespace: str = ""
    ) -> None:
        """One HTTP request of a caller who is known."""
        assert self._sessions is not None, "it is not running"  # noqa: S101
        scope[_CALLER], scope[_NAMESPACE] = caller, namespace
        # By this the SDK binds a session to who opened it.
        scope["user"] = AuthenticatedUser(AccessToken(token="", client_id=caller.id, scopes=[]))
        answered = _Once(send)
        try:
            with self._open.around(scope, _owner(caller, scope)):
                await self._sessions.handle_request(scope, receive, answered)
        except TooManySessions as error:
            await _refuse(error, send)
        except anyio.ClosedResourceError:
            if not answered.is_whole:
                raise


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


def _owner(caller: "Caller", scope: Scope) -> str:
    """Whose a session or a request is: where nobody is asked who they are, whoever has the address."""
    return caller.id if caller is not LOCAL else str((scope["client"] or [""])[0])


async def _refuse(error: TooManySessions, send: Send) -> None:
    """In JSON-RPC: hosts tell their users its message, and of any other body nothing."""
    body = compact({"jsonrpc": "2.0", "id": None, "error": protocol_error(error)}).encode()
    headers = [(b"content-type", b"application/json"), (b"content-length", str(len(body)).encode())]
    await send({"type": "http.response.start", "status": 429, "headers": headers})
    await send({"type": "http.response.body", "body": body})


def _asker_of(ctx: Context) -> Asker:
    assert ctx.request is not None  # noqa: S101 - over HTTP there is one
    scope: Scope = ctx.request.scope
    caller = scope[_CALLER]
    owner = f"{_owner(caller, scope)} {ctx.request.headers.get(MCP_SESSION_ID_HEADER, '')}"
    return Asker(caller=caller, session=session_of(ctx), namespace=scope[_NAMESPACE], owner=owner)
