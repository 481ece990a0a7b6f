"""What is no HTTP is refused in the shape of all problems: it never reaches the application."""

import asyncio
import json
import logging
from uuid import uuid4

from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol

from waygraph.api.rest.middleware import HEADERS, NOT_KEPT
from waygraph.api.telemetry.logs import FACTS
from waygraph.registry.http.problems import MEDIA_TYPE, problem

logger = logging.getLogger("waygraph.rest")

ENDLESS = "waygraph.endless"
"""In the scope of a request whose answer ends with the connection: nothing is lost when that is closed."""


MAX_HEAD_BYTES = 64 * 1024
HEAD_S = 30.0
"""From a connection, or the first byte of a further request, to the end of its head."""
_REASONS = {400: "Bad Request", 408: "Request Timeout", 431: "Request Header Fields Too Large"}


class Protocol(HttpToolsProtocol):
    """Heads are read within bounds: an open one costs memory and a connection, and asks nobody who sends it."""

    _head_bytes = 0
    _slow: asyncio.TimerHandle | None = None
    """Runs while a head is read."""

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
        if self._head_size() > MAX_HEAD_BYTES:
            self._too_large()
        else:
            super().on_headers_complete()

    def data_received(self, data: bytes) -> None:
        super().data_received(data)
        if self._slow is not None:
            self._head_bytes += len(data)
            if self._head_bytes > MAX_HEAD_BYTES:
                self._too_large()

    def _head_size(self) -> int:
        return len(self.url) + sum(len(name) + len(value) for name, value in self.headers)

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
        """The service is told to stop: what was begun ends, and what has no end is ended."""
        if self.cycle is not None and self.cycle.scope.get(ENDLESS):
            self.transport.close()
        else:
            super().shutdown()

    def send_400_response(self, msg: str) -> None:
        self._refuse(400, "bad-request", msg)

    def _refuse(self, status: int, code: str, reason: str) -> None:
        self._end_head()
        if self.transport.is_closing():
            return
        request_id = uuid4().hex
        logger.warning("%s: %s", code, reason, extra={FACTS: {"request_id": request_id, "client": _host(self.client)}})
        found = problem(status, code, reason, f"urn:waygraph:request:{request_id}")
        content = json.dumps(found).encode()
        headers = [
            (b"content-type", MEDIA_TYPE.encode()),
            (b"content-length", str(len(content)).encode()),
            (b"connection", b"close"),
            *HEADERS,
            NOT_KEPT,
            (b"x-request-id", request_id.encode()),
        ]
        lines = (b"%s: %s\r\n" % header for header in headers)
        first = f"HTTP/1.1 {status} {_REASONS[status]}\r\n".encode()
        self.transport.write(b"".join((first, *lines, b"\r\n", content)))
        self.transport.close()


def _host(client: tuple[str, int] | None) -> str:
    return client[0] if client else ""
