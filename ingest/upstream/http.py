"""An MCP server at an address: streamable HTTP, or the older SSE, over an HTTP client that trusts no server.

A request that fails becomes a JSON-RPC error with its reason: the SDK hands it to whoever asked, and the connection
and all that is asked beside it go on.
"""

import json
import re
from collections.abc import AsyncGenerator, AsyncIterator, Callable
from contextlib import asynccontextmanager, suppress
from functools import partial
from typing import Any

import httpx2
from mcp.client.sse import sse_client
from mcp.client.streamable_http import streamable_http_client
from mcp.types import CONNECTION_CLOSED

from waygraph.ingest.logins.oauth import OpenPage, Provider, error_in, log_in
from waygraph.ingest.logins.store import LoginRefused
from waygraph.ingest.manifest.records import HttpLaunch
from waygraph.ingest.manifest.redaction import Discretion
from waygraph.ingest.upstream.connection import NotDelivered
from waygraph.ingest.upstream.messages import mend_answer, refusal_text
from waygraph.ingest.upstream.stdio import BLANKS, read_message
from waygraph.ingest.upstream.wire import (
    HEADER,
    KINDS,
    Wire,
    answer_to,
    ends_session,
    error_code,
    error_to,
    hush,
    kind_of,
    message_in,
    object_in,
    quietly,
    session_of,
    start_of,
)
from waygraph.registry.http.addresses import Reach
from waygraph.registry.http.client import (
    PAST_PROXIES,
    Undecodable,
    UnusableProxy,
    causes,
    check_proxies,
    connection_fault,
    decode_body,
    is_busy,
    same_origin,
    seconds_in,
    trust,
)
from waygraph.registry.http.guard import Guard
from waygraph.registry.model.errors import (
    RegistryError,
    UpstreamBusy,
    UpstreamError,
    UpstreamRefused,
    UpstreamUnreachable,
)
from waygraph.registry.model.settings import Settings

_NOTICE_TIMEOUT_S = 10.0
"""For the answer to what asks nothing: the SDK sends nothing else before it comes."""
_OF_SERVER = "waygraph.of_server"
"""In the extensions of what the SDK's transport sends: the requests of a login lack it."""
_EVENT_ENDS = (b"\n\n", b"\r\r", b"\n\r")
"""A line without anything on it, whichever of the three ends of a line stand around it: how an event ends."""
_END_OF_EVENT = re.compile(rb"(?>\r\n|\n|\r){2}")
_LONGEST_END = len(b"\n\r\n")
"""So much is left of a whole event at most, from where its end was found."""
_RETRYABLE = frozenset({408, 425})
_NOT_SENT = (httpx2.ConnectError, httpx2.ConnectTimeout, httpx2.PoolTimeout)
OLDER = frozenset({400, 404, 405})
"""How a server of the older transport answers what it does not know (MCP 2025-11-25, Transports, Backwards
Compatibility)."""


@asynccontextmanager
async def http_transport(
    launch: HttpLaunch, settings: Settings, wire: Wire, discretion: Discretion, open_page: OpenPage | None
) -> AsyncGenerator[tuple[Any, Any]]:
    """The streams of a server at an address. Raises UpstreamError."""
    auth = log_in(launch, settings, discretion, open_page) if launch.oauth else None
    try:
        client = OriginClient(launch, settings, wire, discretion, auth)
    except (httpx2.InvalidURL, ValueError, TypeError):
        try:
            check_proxies()
        except UnusableProxy as unusable:
            raise UpstreamUnreachable(str(unusable)) from None
        raise UpstreamUnreachable("its URL or a header of it cannot be sent") from None
    if launch.form == "sse":
        wire.push_decision.set()
        # The SDK asks for a client by what it would set itself.
        async with sse_client(launch.url, httpx_client_factory=lambda *_, **__: client) as streams:
            yield streams
        return
    most = 2 * settings.upstream_max_message_bytes  # beyond our own bound, which says by which setting it can be moved
    async with client, streamable_http_client(launch.url, http_client=client, max_sse_event_size=most) as streams:
        yield streams


@asynccontextmanager
async def login_client(
    launch: HttpLaunch, settings: Settings, discretion: Discretion, auth: httpx2.Auth | None
) -> AsyncGenerator[httpx2.AsyncClient]:
    """For the requests of one login. Raises UpstreamError at its end if the server could not be asked."""
    wire = Wire()
    hush()
    with quietly():
        async with OriginClient(launch, settings, wire, discretion, auth) as client:
            yield client
    if wire.trouble:
        raise wire.trouble


class OriginClient(httpx2.AsyncClient):
    """Sends the launch's headers to the launch's own origin alone, and follows nobody elsewhere."""

    def __init__(
        self, launch: HttpLaunch, settings: Settings, wire: Wire, discretion: Discretion, auth: httpx2.Auth | None
    ) -> None:
        if (url := httpx2.URL(launch.url)).scheme not in {"http", "https"} or not url.host:
            raise ValueError
        super().__init__(
            headers={**launch.headers, "accept-encoding": "identity"},
            auth=auth,
            verify=trust(),
            transport=httpx2.AsyncHTTPTransport(verify=trust()) if launch.public else None,  # past proxies
            mounts=PAST_PROXIES,
            timeout=httpx2.Timeout(settings.upstream_connect_timeout_s, read=None),  # the asker has a deadline
        )
        (Guard() if launch.public else Guard(url, beyond=Reach.MACHINE)).watch(self)  # for its login as well
        self.event_hooks["response"].append(self._bound_login)
        hush()  # what it sends with is imported by now
        self._url = url
        self._form = launch.form
        self._own_headers = [name.lower() for name in launch.headers]
        self._settings, self._wire, self._discretion = settings, wire, discretion
        self._streams_missed = 0
        self._has_answered = False
        """A request within the session."""

    async def send(self, request: httpx2.Request, **how: Any) -> httpx2.Response:
        if not same_origin(self._url, request.url):
            for name in self._own_headers:
                request.headers.pop(name, None)
        request.extensions[_OF_SERVER] = True
        if request.method == "DELETE":  # whatever comes of it, the reason why the session is given up stands
            response = await super().send(request, **how)
            await response.aclose()
            return httpx2.Response(response.status_code, request=request)
        self._wire.session_id = request.headers.get(HEADER, "")
        if request.method == "POST" and not _asks(request):
            request.extensions["timeout"] = {**self.timeout.as_dict(), "read": _NOTICE_TIMEOUT_S}
            if self._form == "http" and HEADER not in request.headers:
                self._settle(False)  # without a session the SDK opens no stream for what the server tells by itself
        try:
            response = await super().send(request, **how)
        except Exception as exc:  # noqa: BLE001 - whatever a transport or a login raises is an answer not given
            if isinstance(exc, _NOT_SENT):
                self._note_undelivered(request)
            return self._no_answer(request, self._transport_error(exc))
        return await self._check_response(request, response)

    async def _bound_login(self, response: httpx2.Response) -> None:
        """What an issuer answers to a request of a login is read whole by the SDK."""
        if _OF_SERVER in response.request.extensions or not isinstance(response.stream, httpx2.AsyncByteStream):
            return
        if error := _coding_error(response):
            raise error
        most = self._settings.upstream_max_message_bytes
        response.stream = _Body(response.stream, most, partial(self._note_fault, response.request))

    async def _check_response(self, request: httpx2.Request, response: httpx2.Response) -> httpx2.Response:
        """The answer, bounded, or an error in its place."""
        error = self._elsewhere(request, response) or _coding_error(response) or self._no_protocol(request, response)
        if error is None and response.status_code < 400:
            return await self._accept(request, response)
        if error is None:
            body = await start_of(response)
            asking, session_id, status = message_in(request), session_of(request, self._form), response.status_code
            is_over = ends_session(asking, session_id, status, body, has_answered=self._has_answered)
            busy = is_busy(response.status_code, response.headers.get("retry-after"))
            if not (is_over or busy) and error_code(body) is not None:
                return answer_to(request, response.status_code, body)
            if is_over:
                self._note_undelivered(request)
                error = NotDelivered(f"its session has ended ({self._status(response, body)})")
            else:
                error = self._refusal(response, body)
            if _asks(request):
                self._wire.refusal_status = response.status_code
        with suppress(httpx2.HTTPError):
            await response.aclose()
        return self._no_answer(request, error, response.status_code)

    def _elsewhere(self, request: httpx2.Request, response: httpx2.Response) -> UpstreamError | None:
        """Why a redirect is not followed; the SDK follows those to the same origin that keep the method."""
        if (following := response.next_request) is None:
            return None
        target = following.url
        if not same_origin(request.url, target):
            port = f":{target.port}" if target.port else ""
            return UpstreamRefused(
                f"redirects to another host, which is not followed: {target.scheme}://{self._line(target.host)}{port}"
            )
        if following.method != request.method:
            return UpstreamRefused(f"redirects in a way that loses the request (HTTP {response.status_code})")
        return None

    def _no_protocol(self, request: httpx2.Request, response: httpx2.Response) -> UpstreamError | None:
        kind = kind_of(response)
        if self._form == "sse" or response.status_code != 200 or kind in KINDS or not _asks(request):
            return None
        content_type = self._line(kind) or "something"
        return UpstreamRefused(f"answered with {content_type}, as no MCP server does; is this its address?")

    async def _accept(self, request: httpx2.Request, response: httpx2.Response) -> httpx2.Response:
        if self._form == "sse" and request.method == "POST" and response.is_success:
            await start_of(response)  # what stands in it is not the answer: that comes by the stream
            self._has_answered = True
            return httpx2.Response(202, request=request)
        self._has_answered = self._has_answered or (HEADER in request.headers and _asks(request))
        is_stream = response.headers.get("content-type", "").startswith("text/event-stream")
        if request.method == "GET" and not response.has_redirect_location:
            self._settle(is_stream)
        if isinstance(response.stream, httpx2.AsyncByteStream):  # always, of an asynchronous client
            most = self._settings.upstream_max_message_bytes
            note_fault, request_id = partial(self._note_fault, request), message_in(request).get("id")
            response.stream = _Body(response.stream, most, note_fault, events=is_stream, request_id=request_id)
        return response

    def _note_fault(self, request: httpx2.Request, fault: UpstreamError) -> None:
        """Why an answer could not be read."""
        request_id = message_in(request).get("id") if request.extensions.get(_OF_SERVER) else None
        if isinstance(request_id, int | str):
            self._wire.faults[request_id] = fault
        else:
            self._wire.trouble = fault

    def _no_answer(self, request: httpx2.Request, error: UpstreamError, status: int = 502) -> httpx2.Response:
        """An error answer that names the reason, in the form that the SDK hands on."""
        if self._form == "http" and request.method == "GET":
            # A server may have no stream of its own accord (405); one that was there and is gone twice is lost.
            self._streams_missed += 1
            if status < 500 or self._streams_missed > 1:
                self._settle(False)
        elif self._wire.trouble is None or _asks(request):  # what asks nothing hides no reason
            self._wire.trouble = error
        if self._form == "sse":
            self._wire.on_end()  # the SDK would wait for an answer that cannot come
        in_place = self._wire.error_in_place(error).model_dump() | {"code": CONNECTION_CLOSED}
        return error_to(request, status if status >= 400 else 502, in_place)

    def _settle(self, pushes: bool) -> None:
        self._streams_missed = 0 if pushes else self._streams_missed
        if self._wire.pushes and not pushes and self._wire.push_decision.is_set():
            self._wire.on_silence()
        self._wire.pushes = pushes
        self._wire.push_decision.set()

    # -- reasons -----------------------------------------------------------------------------------

    def _transport_error(self, exc: Exception) -> UpstreamError:
        for cause in causes(exc):
            if isinstance(cause, UpstreamError):
                return cause
            if isinstance(cause, RegistryError):  # of the file of tokens: what is wrong with it, and what to do
                return UpstreamRefused(self._line(str(cause)))
        if fault := connection_fault(exc):
            return UpstreamUnreachable(f"{self._place}: {self._line(fault)}")
        if type(exc).__module__.startswith("mcp.client.auth"):
            status = self.auth.refusal_status if isinstance(self.auth, Provider) else 0
            before = f"answered with HTTP {status}, and " if status else ""
            # Without what the issuer wrote, in which anything may stand; its own code is kept.
            text, code = str(exc), error_in(str(exc))
            reason = text.partition(": ")[0] + (f": {code}" if code else "")
            return UpstreamRefused(f"{before}the login failed: {self._line(reason)}")
        return UpstreamUnreachable(f"the request could not be sent ({type(exc).__name__})")

    def _status(self, response: httpx2.Response, body: bytes) -> str:
        """With what its body says of it, unless that is a page."""
        reason = refusal_text(body)
        return f"HTTP {response.status_code}{': ' if reason else ''}{self._line(reason)}"

    def _refusal(self, response: httpx2.Response, body: bytes) -> UpstreamError:
        status, what = response.status_code, self._status(response, body)
        if status == 401:
            has_login = any(name in {"authorization", "x-api-key"} for name in self._own_headers)
            offers = "resource_metadata" in response.headers.get("www-authenticate", "")
            ways = "an Authorization header" + (", or OAuth, which it offers" if offers else "")
            reason = "the login given is not accepted" if has_login else f"needs a login: {ways}"
            return LoginRefused(f"{reason} (HTTP {status})")
        if status == 403:
            return UpstreamRefused(f"does not let this caller in ({what})")
        if status == 404:
            return UpstreamRefused(f"there is no MCP server at this path of {self._place} ({what})")
        if is_busy(status, retry_after := response.headers.get("retry-after")):
            return UpstreamBusy(f"answered with {what}", seconds_in(retry_after))
        if status >= 500 or status in _RETRYABLE:
            return UpstreamUnreachable(f"answered with {what}")
        return UpstreamRefused(f"answered with {what}")

    def _note_undelivered(self, request: httpx2.Request) -> None:
        if isinstance(request_id := message_in(request).get("id"), int | str):
            self._wire.on_undelivered(request_id)

    @property
    def _place(self) -> str:
        port = f":{self._url.port}" if self._url.port else ""
        return self._line(f"{self._url.host}{port}")

    def _line(self, text: str) -> str:
        return self._discretion.line(text)


NoteFault = Callable[[UpstreamError], None]


class _Body(httpx2.AsyncByteStream):
    """A body that ends the reading when it, or one event of it, is too long; its answers are of the protocol, as far
    as `mend_answer` can make them so.

    What breaks it is an error that the SDK expects there.
    """

    def __init__(
        self,
        inner: httpx2.AsyncByteStream,
        most_bytes: int,
        note_fault: NoteFault,
        *,
        events: bool = False,
        request_id: object = None,
    ) -> None:
        self._inner, self._most_bytes, self._note_fault = inner, most_bytes, note_fault
        self._events, self._request_id = events, request_id

    async def __aiter__(self) -> AsyncIterator[bytes]:
        rest = bytearray()
        try:
            async for chunk in self._inner:
                rest += chunk
                begin = max(0, len(rest) - len(chunk) - _LONGEST_END)  # an empty line may come in a chunk of its own
                at = max(rest.rfind(end, begin) for end in _EVENT_ENDS) if self._events else -1
                if at >= 0:
                    yield b"".join(map(self._mend_event, _END_OF_EVENT.split(bytes(rest[: at + 2]))))
                    del rest[: at + 2]
                if len(rest) > self._most_bytes:
                    reason = f"an answer of more than {self._most_bytes:,} bytes (WAYGRAPH_UPSTREAM_MAX_MESSAGE_BYTES)"
                    self._note_fault(UpstreamRefused(reason))
                    raise httpx2.StreamError("too long")
            if self._events and len(rest) > _LONGEST_END:
                self._note_fault(UpstreamRefused("its stream of events ended amid an event: the empty line is missing"))
        except Undecodable as exc:
            self._note_fault(UpstreamRefused(str(exc)))
            raise httpx2.StreamError("not decoded") from exc
        except httpx2.TransportError as exc:
            self._note_fault(UpstreamUnreachable("the connection broke amid an answer"))
            raise httpx2.StreamError("broken") from exc
        yield bytes(rest) if self._events else self._mend(bytes(rest))

    def _mend_event(self, event: bytes) -> bytes:
        """Its fields are lines; what it holds are the lines of `data`."""
        lines = event.lstrip(BLANKS).splitlines()
        data = b"\n".join(line[5:].removeprefix(b" ") for line in lines if line.startswith(b"data:"))
        if (answer := self._mend(data)) != data:
            lines = [*(line for line in lines if not line.startswith(b"data:")), b"data: " + answer]
        return b"\n".join([*lines, b"", b""]) if lines else b""

    def _mend(self, content: bytes) -> bytes:
        try:
            read_message(content)
        except ValueError:
            answer = mend_answer(object_in(content), self._request_id)
            return json.dumps(answer).encode() if answer else content.lstrip(BLANKS)
        return content

    async def aclose(self) -> None:
        await self._inner.aclose()


def _coding_error(response: httpx2.Response) -> UpstreamError | None:
    try:
        decode_body(response)
    except Undecodable as error:
        return UpstreamRefused(str(error))
    return None


def _asks(request: httpx2.Request) -> bool:
    """Whether a message of ours waits for an answer."""
    if request.method != "POST":
        return False
    message = message_in(request)
    return ("id" in message and "method" in message) or "jsonrpc" not in message
