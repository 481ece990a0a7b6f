"""Sessions of hosts of the handshake era over HTTP: how many one caller may have, and what an idle one holds on to."""

from collections import Counter
from collections.abc import AsyncGenerator, Iterator, MutableMapping
from contextlib import asynccontextmanager, contextmanager
from typing import TYPE_CHECKING, Any

import anyio
from mcp.server.context import CallNext, HandlerResult
from mcp.server.streamable_http import GET_STREAM_KEY, EventMessage, StreamableHTTPServerTransport
from mcp.server.streamable_http_manager import StreamableHTTPSessionManager
from mcp.server.transport_security import TransportSecuritySettings
from mcp.shared._context_streams import create_context_streams
from mcp.shared.message import ServerMessageMetadata, SessionMessage
from mcp.types import JSONRPCError, JSONRPCResponse
from mcp.types.version import HANDSHAKE_PROTOCOL_VERSIONS

from waygraph.api.mcp.sessions import Context, connection_of
from waygraph.api.telemetry.request_log import Receive, Scope
from waygraph.registry.model.errors import TooManySessions

if TYPE_CHECKING:
    from mcp.server.auth.middleware.bearer_auth import AuthorizationContext
    from mcp.server.lowlevel.server import Server

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
        seat = scope[_SEAT] = _Seat(self._open, owner)
        try:
            yield
        finally:
            if not seat.kept:
                seat.leave()


class _Seat:
    """Of one session. `kept`: it is left when the session's connection ends."""

    def __init__(self, seats: Counter[str], owner: str) -> None:
        self._seats, self._owner = seats, owner
        self._taken, self.kept = True, False
        seats[owner] += 1

    def leave(self) -> None:
        if self._taken:
            self._taken = False
            self._seats[self._owner] -= 1
            if not self._seats[self._owner]:
                del self._seats[self._owner]


async def seat_session(ctx: Context, call_next: CallNext) -> HandlerResult:
    """A middleware of the SDK's server: a session has its seat as long as its connection."""
    seat = ctx.request.scope.get(_SEAT) if ctx.method == "initialize" and ctx.request is not None else None
    if seat is not None:
        seat.kept = True
        connection_of(ctx).exit_stack.callback(seat.leave)
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


class HandshakeSessions(StreamableHTTPSessionManager):
    """The SDK's, of which each session sends straight to the streams of its requests.

    The SDK's own session sends through a task and a pair of streams, which are a third of the cost of an idle session.
    The transport is private below `connect`: `tests/gateway/test_idle_sessions.py` fails if the SDK moves it.
    """

    def __init__(self, app: "Server[Any]", *, stateless: bool, max_request_body_size: int) -> None:
        super().__init__(
            app, stateless=stateless, max_request_body_size=max_request_body_size, security_settings=_SDK_CHECKS
        )

    def _admit_session(self, requestor: "AuthorizationContext | None") -> StreamableHTTPServerTransport | None:
        transport = super()._admit_session(requestor)
        if transport is not None:
            transport.__class__ = _Transport  # the SDK takes its own by no parameter
        return transport


class _Transport(StreamableHTTPServerTransport):
    """Of one session. It keeps no events, and answers in streams: what the SDK offers beside is not offered here."""

    @asynccontextmanager
    async def connect(self) -> AsyncGenerator[Any]:
        if self._idle_timeout is not None:
            self.idle_scope = anyio.CancelScope()
        incoming = self._read_stream_writer, self._read_stream = create_context_streams[SessionMessage | Exception](0)
        outgoing = _Outgoing(self._request_streams)
        self._write_stream = outgoing  # type: ignore[assignment]
        try:
            yield self._read_stream, outgoing
        finally:
            for stream_id in list(self._request_streams):
                await self._clean_up_memory_streams(stream_id)
            for stream in (*incoming, outgoing):
                await stream.aclose()


class _Outgoing:
    """What a session sends: to the stream of the request that it belongs to, or to that of its own, if it is open."""

    def __init__(self, streams: MutableMapping[Any, Any]) -> None:
        self._streams, self._is_closed = streams, False

    async def send(self, sent: SessionMessage) -> None:
        if self._is_closed:
            raise anyio.ClosedResourceError
        message, about = sent.message, sent.metadata
        if isinstance(message, (JSONRPCResponse, JSONRPCError)):
            request_id = message.id
        else:
            request_id = about.related_request_id if isinstance(about, ServerMessageMetadata) else None
        name = GET_STREAM_KEY if request_id is None else str(request_id)
        if name in self._streams:
            try:
                await self._streams[name][0].send(EventMessage(message, None))
            except (anyio.BrokenResourceError, anyio.ClosedResourceError):
                self._streams.pop(name, None)

    async def aclose(self) -> None:
        self._is_closed = True

    async def __aenter__(self) -> "_Outgoing":
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.aclose()
