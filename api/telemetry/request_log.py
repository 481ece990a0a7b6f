"""Around the whole application: a log line, numbers and a span for every request, and its id on all that it logs.

Plain ASGI, since starlette's BaseHTTPMiddleware runs the application in a task of its own, where context is lost.
"""

import re
import time
import traceback
from collections.abc import Awaitable, Callable, Collection, Mapping, MutableMapping
from contextlib import ExitStack
from typing import TYPE_CHECKING, Any
from urllib.parse import parse_qsl
from uuid import uuid4

from structlog.contextvars import bind_contextvars, reset_contextvars

from waygraph.api.telemetry.logs import without_keys, without_secrets
from waygraph.api.telemetry.metrics import NO_ROUTE, Metrics

if TYPE_CHECKING:
    from structlog.typing import FilteringBoundLogger

    from waygraph.api.telemetry.audit import Audit
    from waygraph.api.telemetry.traces import RequestSpan, Traces
    from waygraph.registry.access.visibility import Caller

Scope = MutableMapping[str, Any]
Message = MutableMapping[str, Any]
Receive = Callable[[], Awaitable[Message]]
Send = Callable[[Message], Awaitable[None]]
Application = Callable[[Scope, Receive, Send], Awaitable[None]]

REQUEST_ID = b"x-request-id"
QUIET = frozenset({"/healthz", "/readyz", "/metrics"})
"""Routes that machines ask all the time: their lines are of level debug, unless they fail."""
CLIENT_CLOSED = 499
"""The status told of a request that ended before its answer began, as nginx tells it."""
PATH_CHARS = 512
TRACEBACK_CHARS = 20_000
_SANE_ID = re.compile(rb"[A-Za-z0-9._-]{1,128}")
_SECRET_HEADERS = (b"authorization", b"x-api-key", b"cookie", b"proxy-authorization", b"x-csrf-token")
_LEAST_PART_CHARS = 8
"""A shorter part of a credential or a query is a word of the traceback as well."""
_CALLER = "caller"


def note_caller(scope: Scope, caller: "Caller") -> None:
    """Says who calls: for the lines of this request from now on, and for `request.state.caller`."""
    scope.setdefault("state", {})[_CALLER] = caller
    bind_contextvars(caller=caller.id)


class ObservedApplication:
    """The application, observed. It is to be the outermost one: what answers errors must be inside.

    An error that escapes the application has been answered by its own handler then; it is logged once, with its
    traceback, and ends here. When the application's lifespan ends, traces are sent and files closed.
    """

    def __init__(
        self,
        application: Application,
        *,
        log: "FilteringBoundLogger",
        metrics: Metrics,
        traces: "Traces | None" = None,
        audit: "Audit | None" = None,
    ) -> None:
        self._application, self._log, self._metrics = application, log, metrics
        self._traces, self._audit = traces, audit

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "lifespan":
            try:
                await self._application(scope, receive, send)
            finally:
                with ExitStack() as closing:
                    for part in (self._audit, self._traces):
                        if part is not None:
                            closing.callback(part.close)
        elif scope["type"] == "http":
            await self._request(scope, receive, send)
        else:
            await self._application(scope, receive, send)

    async def _request(self, scope: Scope, receive: Receive, send: Send) -> None:
        headers = dict(scope["headers"])
        sent_id = headers.get(REQUEST_ID, b"")  # the caller's own if it is sane, else a new one
        exchange = _Exchange(sent_id.decode() if _SANE_ID.fullmatch(sent_id) else uuid4().hex, send)
        scope.setdefault("state", {})
        tokens = bind_contextvars(request_id=exchange.id)
        self._metrics.count_start()
        try:
            if self._traces is None:
                await self._application(scope, receive, exchange.send)
            else:
                await self._trace(self._traces, exchange, scope, receive, headers)
        except Exception as exc:  # noqa: BLE001 - logged with its traceback; the application has answered it
            exchange.error = exc
            exchange.status = exchange.status or 500
        finally:
            self._log_answer(exchange, scope)
            reset_contextvars(**tokens)

    async def _trace(
        self, traces: "Traces", exchange: "_Exchange", scope: Scope, receive: Receive, headers: Mapping[bytes, bytes]
    ) -> None:
        parent, state = (headers.get(name, b"").decode("latin-1") for name in (b"traceparent", b"tracestate"))
        with traces.request(scope["method"], _shown_path(scope), parent, state) as span:
            exchange.span = span
            try:
                await self._application(scope, receive, exchange.send)
            except Exception:
                exchange.status = exchange.status or 500
                raise
            finally:
                span.end_span(scope["method"], template(scope), exchange.status or CLIENT_CLOSED)

    def _log_answer(self, exchange: "_Exchange", scope: Scope) -> None:
        took_s = time.perf_counter() - exchange.started
        route, status = template(scope), exchange.status or CLIENT_CLOSED
        self._metrics.count_answer(scope["method"], route, status, took_s)
        caller, client = scope["state"].get(_CALLER), scope.get("client")
        fields: dict[str, object] = {
            "request_id": exchange.id,
            "method": scope["method"],
            "route": route,
            "path": _shown_path(scope),
            "status": status,
            "duration_ms": round(took_s * 1000, 3),
            "caller": caller.id if caller else "",
            "client": client[0] if client else "",
            "bytes": exchange.bytes,
        }
        if exchange.span:
            fields["trace_id"] = exchange.span.trace_id
        if exchange.error:
            fields["exception"] = _traceback_text(exchange.error, _secrets(scope))
        level = "error" if exchange.error or status >= 500 else "debug" if route in QUIET else "info"
        getattr(self._log, level)("request", **fields)


class _Exchange:
    """One request and what has been answered so far; `status` is 0 before the answer begins."""

    __slots__ = ("_send", "bytes", "error", "id", "span", "started", "status")

    def __init__(self, request_id: str, send: Send) -> None:
        self.id, self._send, self.started = request_id, send, time.perf_counter()
        self.status = self.bytes = 0
        self.error: Exception | None = None
        self.span: RequestSpan | None = None

    async def send(self, message: Message) -> None:
        if message["type"] == "http.response.start":
            self.status = message["status"]
            message["headers"] = [*message.get("headers", ()), (REQUEST_ID, self.id.encode())]
        elif message["type"] == "http.response.body":
            self.bytes += len(message.get("body", b""))
        await self._send(message)


def template(scope: Scope) -> str:
    """The route's template with the prefixes of its routers and mounts, as routing left it; NO_ROUTE if none was."""
    # FastAPI keeps an included router's prefix apart from the route.
    route = scope.get("fastapi", {}).get("effective_route_context") or scope.get("route")
    is_mounted = "app_root_path" in scope
    prefix = scope.get("root_path", "").removeprefix(scope["app_root_path"]) if is_mounted else ""
    if path := getattr(route, "path", ""):
        return f"{prefix}{path}"
    # Plain routes of starlette leave no more than their endpoint: without parameters the path is the template.
    is_fixed = "endpoint" in scope and not scope.get("path_params") and not is_mounted
    return scope["path"] if is_fixed else NO_ROUTE


def _shown_path(scope: Scope) -> str:
    return without_keys(scope["path"][:PATH_CHARS])


def _traceback_text(error: Exception, secrets: Collection[str]) -> str:
    """The traceback without secrets; of a very long one begin and end."""
    text = without_secrets("".join(traceback.format_exception(error)).rstrip(), secrets)
    half = TRACEBACK_CHARS // 2
    return text if len(text) <= TRACEBACK_CHARS else f"{text[:half]}\n…\n{text[-half:]}"


def _secrets(scope: Scope) -> list[str]:
    """What this request brought that nobody may read in a log: credentials, cookies, values of its query string."""
    values = [value.decode("latin-1") for name, value in scope["headers"] if name in _SECRET_HEADERS]
    query = scope.get("query_string", b"").decode("latin-1")
    parts = [part for value in values for part in re.split(r"[\s;=]+", value)]
    parts += [value for _, value in parse_qsl(query)]
    return [*values, query, *(part for part in parts if len(part) >= _LEAST_PART_CHARS)]
