"""The messages between a transport and the SDK: what they tell of the server, and the words of HTTP refusals."""

import json
import logging
import re
import secrets
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from contextvars import Context, ContextVar
from dataclasses import dataclass, field
from functools import partial
from itertools import count
from typing import Any, Self

import anyio
import httpx2
from cachetools import FIFOCache
from mcp import types
from mcp.shared.message import SessionMessage

from waygraph.ingest.upstream.box import Box
from waygraph.ingest.upstream.messages import Unreadable, unreadable_event
from waygraph.registry.model.errors import UpstreamError, UpstreamRefused

# The SDK's log records stay out of ours: they hold payloads, and URLs with what stands in them.
#
# Only what is logged while an upstream is talked to is dropped; the same loggers stay loud elsewhere.


_LOGGERS = frozenset({"client", "httpcore2", "httpx2", "mcp"})
"""The first parts of the names; the SDK's session logs as `client`."""

_talking: ContextVar[bool] = ContextVar("talking_upstream", default=False)


@contextmanager
def quietly() -> Iterator[None]:
    """Inside it, and in tasks started inside it, those loggers say nothing."""
    token = _talking.set(True)
    try:
        yield
    finally:
        _talking.reset(token)


def hush() -> None:
    """Reaches the loggers that exist by now: called when the SDK is imported."""
    for name in list(logging.root.manager.loggerDict):
        if name.partition(".")[0] in _LOGGERS:
            logging.getLogger(name).addFilter(_is_ours)


def _is_ours(_: logging.LogRecord) -> bool:
    return not _talking.get()


# JSON-RPC over HTTP: the message that a request carries, and answers of ours in a server's place.
#
# The SDK hands such an answer to whoever asked, and all that is asked beside it goes on.


KINDS = frozenset({"application/json", "text/event-stream"})
"""As which a request is answered over streamable HTTP."""


def kind_of(response: httpx2.Response) -> str:
    """Its media type, without parameters."""
    content_type: str = response.headers.get("content-type", "")
    return content_type.partition(";")[0].strip().lower()


def object_in(text: str | bytes) -> dict[str, Any]:
    """The object of JSON; empty for anything else."""
    try:
        document = json.loads(text)
    except (ValueError, RecursionError):
        return {}
    return document if isinstance(document, dict) else {}


def message_in(request: httpx2.Request) -> dict[str, Any]:
    """What is sent; empty if that is no message."""
    try:
        return object_in(request.content)
    except httpx2.RequestNotRead:
        return {}


def answer_to(request: httpx2.Request, status: int, body: bytes) -> httpx2.Response:
    return httpx2.Response(status, headers={"content-type": "application/json"}, content=body, request=request)


def error_to(request: httpx2.Request, status: int, error: Mapping[str, Any]) -> httpx2.Response:
    """Without an id: the SDK knows which request it answers."""
    return answer_to(request, status, json.dumps({"jsonrpc": "2.0", "id": None, "error": error}).encode())


WITHIN_S = 10.0
MOST_BYTES = 64 * 1024


async def start_of(response: httpx2.Response) -> bytes:
    """As much of it as anyone would read. Closes the answer; never raises."""
    read = bytearray()
    with suppress(httpx2.HTTPError, httpx2.StreamError), anyio.move_on_after(WITHIN_S):
        async for chunk in response.aiter_raw():
            read += chunk
            if len(read) > MOST_BYTES:
                break
    with suppress(httpx2.HTTPError):
        await response.aclose()
    return bytes(read)


def error_code(body: bytes) -> int | None:
    """Of a JSON-RPC error; None if it is none."""
    message = object_in(body)
    error = message.get("error") if message.get("jsonrpc") == "2.0" else None
    code = error.get("code") if isinstance(error, dict) and isinstance(error.get("message"), str) else None
    return code if isinstance(code, int) else None


CHANGES = frozenset(
    {"notifications/tools/list_changed", "notifications/prompts/list_changed", "notifications/resources/list_changed"}
)
MOST_UNANSWERED = 100
"""A server that asks on and does not read the answers is heard no more; each question would be a task of the SDK's."""
NOTICES = frozenset({"notifications/message", "notifications/progress"})
"""What a server tells of a call."""
_UNASKED_METHODS = CHANGES | NOTICES | {"notifications/resources/updated"}
"""Goes no further: the SDK would start a task for each, however many there are."""

MOST_IN_PLACE = 1_024
"""So many faults are kept for the answers that stand for them."""
UNREAD = "Failed to parse "
"""How the SDK begins the error that it puts in the place of an answer that it could not read."""


@dataclass(slots=True)
class Wire:
    """What a transport learns of its server and the SDK does not hand on."""

    network: str = ""
    """`pipe` or `tcp`, as OpenTelemetry names transports."""
    trouble: UpstreamError | None = None
    """Why nothing comes any more, or why the last answer was none."""
    excess: UpstreamError | None = None
    """Why its process was ended: it took more than its limits allow."""
    last_words: Callable[[], str] = str
    """The last lines of its error output, as one."""
    box: Box | None = None
    """What its process is confined to."""
    launcher: str = ""
    """The program that may have to fetch the server before it runs."""
    on_life: Callable[[], None] = lambda: None
    """A process that has said nothing yet is at work."""
    message_count: int = 0
    """How many messages came."""
    probe: "tuple[types.RequestId, float] | None" = None
    """The question for the modern era that nothing has answered yet, and when it was asked."""
    open_questions: int = 0
    """Requests of the server's that we have not answered yet."""
    skipped_lines: int = 0
    """Lines on standard output that are no JSON-RPC."""
    on_change: Callable[[], None] = lambda: None
    on_end: Callable[[], None] = lambda: None
    on_silence: Callable[[], None] = lambda: None
    """The stream by which the server told of changes is lost."""
    on_notice: Callable[[str, Mapping[str, Any], Context | None], None] = lambda *_: None
    """Gets NOTICES, with the context of the request that they came as an answer to, if any."""
    on_question: Callable[[types.JSONRPCRequest, Context | None], bool] = lambda *_: False
    """Whether it answers this request of the server's; the SDK does otherwise."""
    on_withdrawal: Callable[[types.RequestId], None] = lambda *_: None
    on_sending: Callable[[types.RequestId], None] = lambda *_: None
    """A request of ours is handed to the transport, by the task that asks."""
    on_undelivered: Callable[[types.RequestId], None] = lambda *_: None
    """It did not reach the server, and cannot any more."""
    session_id: str = ""
    """Of the last request over HTTP; empty: it named none."""
    mark: str = field(default_factory=partial(secrets.token_hex, 8))
    """Stands in the data of an error that we made, so that no server's own is taken for one."""
    _in_place: "FIFOCache[int, UpstreamError]" = field(default_factory=lambda: FIFOCache(MOST_IN_PLACE))
    _numbers: Iterator[int] = field(default_factory=count)
    faults: "dict[types.RequestId, UpstreamError]" = field(default_factory=dict)
    """Why the answer to a request of ours could not be read, until the SDK says that it has none."""
    waiting: "dict[types.RequestId, None]" = field(default_factory=dict)
    """The requests of ours that have no answer yet, in their order."""
    refusal_status: int = 0
    """The HTTP status of the last refusal that was no JSON-RPC."""
    pushes: bool = True
    """Whether what the server tells by itself can reach us."""
    push_decision: anyio.Event = field(default_factory=anyio.Event)
    """Set when `pushes` holds for good."""

    def error_in_place(self, fault: UpstreamError) -> types.ErrorData:
        """What whoever asks gets in place of an answer; `fault_in` finds the fault again."""
        number = next(self._numbers)
        self._in_place[number] = fault
        return types.ErrorData(code=types.PARSE_ERROR, message=fault.reason, data={self.mark: number})

    def fault_in(self, error: types.ErrorData) -> UpstreamError | None:
        """None: the error is none of ours."""
        if not isinstance(error.data, dict) or self.mark not in error.data:
            return None
        return self._in_place.get(error.data[self.mark]) or UpstreamRefused(error.message)

    def note_end(self, request_id: object) -> None:
        """A request of ours is answered or given up."""
        if isinstance(request_id, int | str):
            self.waiting.pop(request_id, None)
            self.faults.pop(request_id, None)


class _WrappedStream:
    """A transport's stream; closed, it closes that."""

    def __init__(self, inner: Any, wire: Wire) -> None:
        self._inner, self._wire = inner, wire

    async def aclose(self) -> None:
        await self._inner.aclose()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.aclose()


class WatchedStream(_WrappedStream):
    """A transport's read stream. Notifications of changes are counted as one word and go no further."""

    @property
    def last_context(self) -> Context | None:
        """The SDK asks for it by name: whose context a message came in."""
        context = getattr(self._inner, "last_context", None)
        return context if isinstance(context, Context) else None

    async def receive(self) -> SessionMessage | Exception:
        while True:
            try:
                item = await (self._receive_own() if self._wire.message_count else self._receive_first())
            except (anyio.EndOfStream, anyio.ClosedResourceError, anyio.BrokenResourceError):
                self._wire.on_end()
                raise
            if isinstance(item, Exception):
                item = self._readable(item)
            if not self._is_ours(item):
                return item

    async def _receive_own(self) -> SessionMessage | Exception:
        """The next message of the server itself."""
        item: SessionMessage | Exception = await self._inner.receive()
        self._wire.message_count += 1
        return item

    async def _receive_first(self) -> SessionMessage | Exception:
        """A server of the handshake era may pass over the question for the modern one: then we answer it."""
        while True:
            with anyio.move_on_after(LOOK_S):
                return await self._receive_own()
            if self._wire.probe and anyio.current_time() - self._wire.probe[1] > PROBE_S:
                error = types.ErrorData(code=types.METHOD_NOT_FOUND, message="was passed over")
                request_id, self._wire.probe = self._wire.probe[0], None
                return SessionMessage(types.JSONRPCError(jsonrpc="2.0", id=request_id, error=error))

    def _readable(self, item: Exception) -> SessionMessage | Exception:
        """For whoever waits for an answer that cannot be read: an error of ours."""
        fault = item if isinstance(item, Unreadable) else unreadable_event(item)
        request_id = fault.request_in(self._wire.waiting) if fault else None
        if fault is None or request_id is None:
            return item
        error = self._wire.error_in_place(UpstreamRefused(fault.reason))
        return SessionMessage(types.JSONRPCError(jsonrpc="2.0", id=request_id, error=error))

    def _is_ours(self, item: SessionMessage | Exception) -> bool:
        if not isinstance(item, SessionMessage):
            return isinstance(item, Unreadable)
        if isinstance(item.message, types.JSONRPCResponse | types.JSONRPCError):
            if item.message.id is None and len(self._wire.waiting) == 1:  # an error that came before the id was read
                item.message.id = next(iter(self._wire.waiting))
            fault = self._wire.faults.pop(item.message.id, None) if item.message.id is not None else None
            if fault is not None and isinstance(item.message, types.JSONRPCError):
                item.message.error = self._wire.error_in_place(fault)
            self._wire.note_end(item.message.id)
        if isinstance(item.message, types.JSONRPCRequest):
            if self._wire.open_questions >= MOST_UNANSWERED:
                return True
            self._wire.open_questions += 1
            return self._wire.on_question(item.message, self.last_context)
        if not isinstance(item.message, types.JSONRPCNotification):
            return False
        return self._is_unasked(item.message.method, item.message.params or {})

    def _is_unasked(self, method: str, params: Mapping[str, Any]) -> bool:
        if method in CHANGES:
            self._wire.on_change()
        elif method in NOTICES:
            self._wire.on_notice(method, params, self.last_context)
        elif method == "notifications/cancelled" and isinstance(request_id := params.get("requestId"), int | str):
            self._wire.on_withdrawal(request_id)
        return method in _UNASKED_METHODS

    def __aiter__(self) -> Self:
        return self

    async def __anext__(self) -> SessionMessage | Exception:
        try:
            return await self.receive()
        except anyio.EndOfStream:
            raise StopAsyncIteration from None


PROBE_S, LOOK_S = 5.0, 0.5
"""So long a server has to say whether it speaks the modern era; how often we look."""
_NEVER_ANSWERED = "subscriptions/listen"
"""It stands as long as the connection."""


class CountedStream(_WrappedStream):
    """A transport's write stream, on which the answers to a server's own requests are counted."""

    async def send(self, item: SessionMessage, /) -> None:
        if isinstance(message := item.message, types.JSONRPCRequest):
            if message.method != _NEVER_ANSWERED:
                self._wire.waiting[message.id] = None
            if message.method == "server/discover":
                self._wire.probe = message.id, anyio.current_time()
            self._wire.on_sending(message.id)
        if isinstance(message, types.JSONRPCNotification) and message.method == "notifications/cancelled":
            self._wire.note_end((message.params or {}).get("requestId"))
        try:
            await self._inner.send(item)
        except (anyio.BrokenResourceError, anyio.ClosedResourceError):
            if isinstance(message, types.JSONRPCRequest):
                self._wire.on_undelivered(message.id)
            raise
        if isinstance(message, types.JSONRPCResponse | types.JSONRPCError):
            self._wire.open_questions -= 1


HEADER = "mcp-session-id"
_OF_THE_REQUEST = frozenset({types.INVALID_PARAMS, types.METHOD_NOT_FOUND, types.PARSE_ERROR})
"""Errors that say what is wrong with the request itself."""
_OF_THE_CALLER = frozenset({401, 403, 407, 408, 425, 429})
"""Who may ask, and how often."""
_MOST_CHARS = 300
"""A longer text says more than that."""
_SESSION = re.compile(r"(?i)session|not\s+(?:yet\s+|been\s+)?initiali[sz]ed")
_NO_SESSION = re.compile(
    r"""(?xi)
    \b(?:no|un(?:known|recognized)|invalid|expired|missing|stale)\b [^.;]{0,30} \bsession
    | \bsession (?:[\s_-]?id)? \b [^.;]{0,60}
      \b(?:not|no\ longer|unknown|invalid|expired|missing|terminated|closed|ended|gone|lost|timed\ out|doesn't)\b
    | \bnot\ (?:yet\ |been\ )? initiali[sz]ed\b"""
)


def session_of(request: httpx2.Request, form: str) -> str:
    """By which a request names its session: the older transport gives each an address to post to."""
    session_id: str = request.headers.get(HEADER, "")
    return session_id or (request.url.raw_path.decode() if form == "sse" and request.method == "POST" else "")


def ends_session(message: Mapping[str, Any], session_id: str, status: int, body: bytes, *, has_answered: bool) -> bool:
    """Whether a refusal by HTTP means that the server no longer knows the session, however it says so.

    By the protocol that is HTTP 404 (MCP 2025-11-25, Transports, Session Management). Servers also answer 410, 400 and
    500, or with a JSON-RPC error within 200. What such a server refused has not run, so that it may be asked anew in a
    session of its own: whatever leaves that open, or speaks of the arguments, is no end of a session.
    `has_answered`: the session has taken requests before this one.
    """
    if not session_id or status in _OF_THE_CALLER:
        return False
    answer = object_in(body)
    fault = answer.get("error")
    error = fault if isinstance(fault, dict) else {}
    if error.get("code") in _OF_THE_REQUEST:
        return status == 404 and error["code"] != types.METHOD_NOT_FOUND
    if status in {404, 410}:
        return True
    reason = error.get("message") or (body.decode("utf-8", "replace") if not answer else json.dumps(answer))
    if status != 400:
        return names_no_session(str(reason), message, session_id)
    # Nothing runs that is answered with 400; without this request's id it was refused before it was read.
    of_request = bool(answer) and answer.get("id") == message.get("id")
    return _is_of_session(str(reason), message, session_id, _SESSION) or (has_answered and not of_request)


def error_ends_session(error: types.ErrorData, params: Mapping[str, Any], session_id: str) -> bool:
    """The same of a JSON-RPC error. Here only its words tell whether anything ran."""
    if not session_id or error.code in _OF_THE_REQUEST:
        return False
    return names_no_session(error.message, params, session_id)


def names_no_session(text: str, params: Mapping[str, Any], session_id: str) -> bool:
    return _is_of_session(text, params, session_id, _NO_SESSION)


def _is_of_session(text: str, params: Mapping[str, Any], session_id: str, words: re.Pattern[str]) -> bool:
    """Not where the request names a session of another kind: the tool may be speaking of that one."""
    if len(text) > _MOST_CHARS or not words.search(text):
        return False
    return session_id in text or "session" not in json.dumps(params).lower()
