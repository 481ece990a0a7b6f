"""What stands before the application: the size and time of a request's body, the host it is sent to, headers that
keep browsers careful; and the refusal of what is no HTTP, in the shape of all problems.
"""

import asyncio
import fcntl
import json
import logging
import re
import termios
from array import array
from collections.abc import Awaitable, Callable, Collection, MutableMapping, Sequence
from http import HTTPStatus
from typing import Any
from uuid import uuid4

from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol

from waygraph.api.rest import problems
from waygraph.api.telemetry.logs import FACTS
from waygraph.api.telemetry.request_log import Application, Message, Receive, Scope, Send
from waygraph.registry.http.problems import MEDIA_TYPE, Problem, problem
from waygraph.registry.model.errors import WaygraphError
from waygraph.registry.model.settings import Settings
from waygraph.registry.operations.table import MANIFESTS

HEADERS = (
    (b"x-content-type-options", b"nosniff"),
    (b"x-frame-options", b"DENY"),
    (b"referrer-policy", b"no-referrer"),
    (b"content-security-policy", b"default-src 'none'; frame-ancestors 'none'"),
    (b"cross-origin-resource-policy", b"same-origin"),
)
NOT_KEPT = (b"cache-control", b"no-store")
CLOSE = {"Connection": "close"}
"""Said where a body is left unread."""
LOGIN_PAGES, MAX_FORM_BYTES = ("/login/", "/explore/session"), 16 * 1024
"""Forms of people who have yet to show who they are."""
LOOPBACK = ("localhost", "127.0.0.1", "::1")
HOST = re.compile(r"(?:\[(?P<address>[0-9a-f:.]+)\]|(?P<name>[\w.-]+))(?::[0-9]*)?", re.ASCII)
"""A `Host` header (RFC 9112, section 3.2), of the hosts that a service on loopback may have."""


class Careful:
    """The application under names of its own alone, each answer with the headers that keep browsers careful.

    `hosts` None: any name is this service's.
    """

    def __init__(self, application: Application, *, hosts: Collection[str] | None) -> None:
        self._application, self._hosts = application, hosts

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self._application(scope, receive, send)
            return
        application = self._application
        if self._hosts is not None and (host := _host(dict(scope["headers"]))) not in self._hosts:
            application = problems.answer(problems.wrong_host(host), CLOSE)
        await application(scope, receive, _careful(send))


BODY_TIMEOUT_S = 30.0


class LimitedApplication:
    """The application behind its limits.

    A body is read whole before the application begins, so that a slow sender holds a connection and nothing else;
    and only from whom `admit` lets in, which raises a WaygraphError for others.
    """

    def __init__(
        self, application: Application, settings: Settings, admit: Callable[[Scope], Awaitable[object]]
    ) -> None:
        self._application, self._settings, self._admit = application, settings, admit

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self._application(scope, receive, send)
            return
        try:
            fault, body = await self._read(scope, receive)
        except WaygraphError as error:
            await problems.refusal(error, CLOSE)(scope, receive, send)
            return
        if fault is not None:
            await problems.answer(fault, CLOSE)(scope, receive, send)
            return
        await self._application(scope, _replay_body(body, receive), send)

    async def _read(self, scope: Scope, receive: Receive) -> tuple[Problem | None, bytes]:
        """What is wrong with the request, if anything, and its body. Raises what `admit` raises."""
        headers = dict(scope["headers"])
        is_manifest, settings = scope["path"] == MANIFESTS.path, self._settings
        limit = settings.max_manifest_bytes if is_manifest else settings.max_body_bytes
        if b"transfer-encoding" not in headers and headers.get(b"content-length", b"0") == b"0":
            return None, b""
        if scope["path"].startswith(LOGIN_PAGES):
            limit = MAX_FORM_BYTES
        else:
            await self._admit(scope)
        if int(headers.get(b"content-length", b"0")) > limit:
            return problems.too_large(limit), b""
        try:
            async with asyncio.timeout(BODY_TIMEOUT_S):
                body = await _body(receive, limit)
        except TimeoutError:
            return problems.too_slow(BODY_TIMEOUT_S), b""
        return (problems.too_large(limit), b"") if body is None else (None, body)


async def _body(receive: Receive, limit: int) -> bytes | None:
    """All of it; None for more than the limit."""
    parts = bytearray()
    while True:
        message = await receive()
        parts += message.get("body", b"")
        if len(parts) > limit:
            return None
        if message["type"] != "http.request" or not message.get("more_body", False):
            return bytes(parts)


def _replay_body(body: bytes, receive: Receive) -> Receive:
    """To be read once more."""
    waiting = [{"type": "http.request", "body": body, "more_body": False}]

    async def next_message() -> Message:
        return waiting.pop() if waiting else await receive()

    return next_message


def _careful(send: Send) -> Send:
    async def send_checked(message: MutableMapping[str, Any]) -> None:
        if message["type"] == "http.response.start":
            headers = list(message.get("headers", ()))
            names = {name.lower() for name, _ in headers}
            message["headers"] = [*headers, *(default for default in (*HEADERS, NOT_KEPT) if default[0] not in names)]
        await send(message)

    return send_checked


def _host(headers: dict[bytes, bytes]) -> str:
    """The host of the `Host` header in lower case, without port and brackets; the whole header if it is malformed."""
    host = headers.get(b"host", b"").decode("latin-1").lower()
    parts = HOST.fullmatch(host)
    return (parts["address"] or parts["name"]) if parts else host


logger = logging.getLogger("waygraph.rest")

ENDLESS = "waygraph.endless"
"""In the scope of a request whose answer ends with the connection: nothing is lost when that is closed."""


MAX_HEAD_BYTES = 64 * 1024
HEAD_S = 30.0
"""From a connection, or the first byte of a further request, to the end of its head."""


ONCE = (
    b"authorization", b"content-length", b"content-type", b"host", b"mcp-protocol-version", b"mcp-session-id",
    b"origin", b"x-api-key",
)  # fmt: skip
"""Headers of one value: of two, one reader would take the first, and another one the last."""
_TARGET = re.compile(rb"[A-Za-z][A-Za-z0-9+.-]*://([^/?#]*)")


def _find_repeat(headers: Sequence[tuple[bytes, bytes]]) -> str:
    """The name of one that may be there once, and is there twice; else empty."""
    names = [name for name, _ in headers if name in ONCE]
    return next((name.decode().title() for name in ONCE if names.count(name) > 1), "")


class Protocol(HttpToolsProtocol):
    """Heads are read within bounds: an open one costs memory and a connection, and asks nobody who sends it."""

    _head_bytes = 0
    _slow: asyncio.TimerHandle | None = None
    """Runs while a head is read."""
    _stopping = False

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        super().connection_made(transport)
        self._begin_head()

    def connection_lost(self, exc: Exception | None) -> None:
        self._end_head()
        super().connection_lost(exc)

    def on_message_begin(self) -> None:
        self._begin_head()
        super().on_message_begin()

    def on_headers_complete(self) -> None:
        self._end_head()
        if self.transport.is_closing():
            return  # what was sent behind a request that was refused
        # A head that comes in one piece has not been measured before: what stands between names and values counts too.
        if len(self.url) + sum(len(name) + len(value) + 4 for name, value in self.headers) > MAX_HEAD_BYTES:
            self._too_large()
        elif name := _find_repeat(self.headers):
            self._refuse(400, "bad-request", f"a request has one {name} header at most (RFC 9110, section 5.3)")
        else:
            self._take_target_host()
            super().on_headers_complete()
            if self._stopping and self.cycle is not None:
                self.cycle.keep_alive = False

    def _take_target_host(self) -> None:
        """Of a target with a host in it, which takes the place of the Host header (RFC 9112, 3.2.2)."""
        if match := _TARGET.match(self.url):
            self.headers[:] = [(name, value) for name, value in self.headers if name != b"host"]
            self.headers.append((b"host", match[1].rpartition(b"@")[2]))

    def data_received(self, data: bytes) -> None:
        super().data_received(data)
        if self._slow is not None:
            self._head_bytes += len(data)
            if self._head_bytes > MAX_HEAD_BYTES:
                self._too_large()

    def _too_large(self) -> None:
        self._refuse(431, "too-large", f"the head of a request has at most {MAX_HEAD_BYTES:,} bytes")

    def _begin_head(self) -> None:
        self._end_head()
        self._head_bytes = 0
        self._slow = self.loop.call_later(HEAD_S, self._too_slow)

    def _end_head(self) -> None:
        if self._slow is not None:
            self._slow.cancel()
            self._slow = None

    def _too_slow(self) -> None:
        if self._head_bytes:
            self._refuse(408, "too-slow", f"the head of the request was not sent within {HEAD_S:g} s")
        else:
            self.transport.close()

    def shutdown(self) -> None:
        """The service is told to stop: what was begun ends, and what has no end is ended. A request sent before that
        is answered: closed over bytes that nobody read, the connection would be reset.
        """
        self._stopping = True
        if self.cycle is not None and self.cycle.scope.get(ENDLESS):
            self.transport.close()
        elif not self._has_unread() or (self.cycle is not None and not self.cycle.response_complete):
            super().shutdown()

    def _has_unread(self) -> bool:
        """Whether bytes have come that were not read yet."""
        connection = self.transport.get_extra_info("socket")
        count = array("i", [0])
        fcntl.ioctl(connection.fileno(), termios.FIONREAD, count)
        return count[0] > 0

    def send_400_response(self, msg: str) -> None:
        self._refuse(400, "bad-request", msg)

    def _refuse(self, status: int, code: str, reason: str) -> None:
        self._end_head()
        if self.transport.is_closing():
            return
        request_id = uuid4().hex
        facts = {"request_id": request_id, "client": self.client[0] if self.client else ""}
        logger.warning("%s: %s", code, reason, extra={FACTS: facts})
        details = problem(status, code, reason, f"urn:waygraph:request:{request_id}")
        content = json.dumps(details).encode()
        headers = [
            (b"content-type", MEDIA_TYPE.encode()),
            (b"content-length", str(len(content)).encode()),
            (b"connection", b"close"),
            *HEADERS,
            NOT_KEPT,
            (b"x-request-id", request_id.encode()),
        ]
        lines = (b"%s: %s\r\n" % header for header in headers)
        first = f"HTTP/1.1 {status} {HTTPStatus(status).phrase}\r\n".encode()
        self.transport.write(b"".join((first, *lines, b"\r\n", content)))
        self.transport.close()
