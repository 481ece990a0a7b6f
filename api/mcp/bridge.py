"""A host's stdio to the `/mcp` of a running service: many hosts on one machine share one service and its servers.

Messages pass as they are, in both protocol eras and both ways. What HTTP has and stdio lacks is kept here: headers,
and the session of the handshake era, which is begun anew, unseen by the host, when the service has lost it.
"""

import random
import re
import time
from collections.abc import AsyncIterable, AsyncIterator, Awaitable, Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass
from functools import partial
from http import HTTPStatus
from typing import Any

import anyio
import httpx2
from anyio.abc import TaskGroup, TaskStatus
from anyio.streams.memory import MemoryObjectSendStream
from mcp.client.streamable_http import streamable_http_client
from mcp.shared.inbound import (
    MCP_METHOD_HEADER,
    MCP_NAME_HEADER,
    MCP_PROTOCOL_VERSION_HEADER,
    NAME_BEARING_METHODS,
    encode_header_value,
    find_invalid_x_mcp_header,
    mcp_param_headers,
    x_mcp_header_map,
)
from mcp.shared.message import ClientMessageMetadata, SessionMessage
from mcp.types import (
    CONNECTION_CLOSED,
    PARSE_ERROR,
    PROTOCOL_VERSION_META_KEY,
    ErrorData,
    JSONRPCError,
    JSONRPCMessage,
    JSONRPCNotification,
    JSONRPCRequest,
    JSONRPCResponse,
    RequestId,
)

from waygraph.api.mcp.results import protocol_error
from waygraph.api.mcp.stdio_transport import host_streams, leave, until_signal
from waygraph.ingest.upstream.wire import (
    KINDS,
    UNREAD,
    answer_to,
    error_code,
    error_to,
    hush,
    kind_of,
    message_in,
    quietly,
    start_of,
)
from waygraph.registry.http.problems import code_of
from waygraph.registry.model.errors import ServiceFailed, ServiceUnavailable, WaygraphError
from waygraph.registry.model.settings import Settings
from waygraph.registry.remote.answers import Broken, answer_of, stranger
from waygraph.registry.remote.calls import Call, Reply
from waygraph.registry.remote.transport import Limits, client_options, patience
from waygraph.registry.storage.location import ServiceAddress, api_key

# The HTTP headers of a message that came over stdio, where there are none (MCP 2026-07-28, Transports).


class Stamp:
    """Of one host: `version` is what its handshake agreed on, empty before it and in the modern era."""

    def __init__(self) -> None:
        self.version = ""
        self._mirrored: dict[str, Mapping[tuple[str, ...], str]] = {}

    def learn(self, listed: Mapping[str, Any]) -> None:
        """From a result of tools/list: which arguments of a tool its calls mirror in headers."""
        tools = listed.get("tools")
        for tool in tools if isinstance(tools, list) else ():
            schema = tool.get("inputSchema") if isinstance(tool, Mapping) else None
            if isinstance(schema, Mapping) and find_invalid_x_mcp_header(schema) is None:
                self._mirrored[str(tool.get("name"))] = x_mcp_header_map(schema)

    def stamped(self, message: JSONRPCMessage) -> SessionMessage:
        """The message as the SDK's transport takes it."""
        if not isinstance(message, JSONRPCRequest | JSONRPCNotification) or message.method == "initialize":
            return SessionMessage(message)
        params = message.params or {}
        if isinstance(version := spoken_version(params), str):
            headers = {MCP_PROTOCOL_VERSION_HEADER: version, **self._modern(message.method, params)}
        else:
            headers = {MCP_PROTOCOL_VERSION_HEADER: self.version} if self.version else {}
        return SessionMessage(message, ClientMessageMetadata(headers=headers))

    def _modern(self, method: str, params: Mapping[str, Any]) -> dict[str, str]:
        headers = {MCP_METHOD_HEADER: method}
        key = NAME_BEARING_METHODS.get(method)
        name = params.get(key) if key else None
        if isinstance(name, str):
            headers[MCP_NAME_HEADER] = encode_header_value(name)
        arguments = params.get("arguments")
        if method == "tools/call" and isinstance(arguments, Mapping):
            headers |= mcp_param_headers(self._mirrored.get(str(name), {}), arguments)
        return headers


def spoken_version(params: Mapping[str, Any]) -> object:
    """What a message of the modern era says of itself; None in the handshake era."""
    meta = params.get("_meta")
    return meta.get(PROTOCOL_VERSION_META_KEY) if isinstance(meta, Mapping) else None


# How the bridge speaks to a running service: whatever goes wrong on the way becomes a JSON-RPC error that says why.
#
# The SDK's transport hands such an error to whoever asked, and all that is asked beside it goes on; an exception would
# end the transport.


API_KEY = "WAYGRAPH_API_KEY"
NOTICE_TIMEOUT_S = 10.0
"""For the answer to what asks nothing: the SDK sends nothing else before it comes."""
LEAVE_TIMEOUT_S = 1.0
"""For the service to hear that a session is over."""
_SESSION = "mcp-session-id"
_NO_ANSWER = 502
"""Bad Gateway, in place of an answer that did not come."""
_MESSAGE: Call[None] = Call(method="POST", path="/mcp", read=lambda _: None, safe=False)
"""What every message is to the rules of repeats: it may have been done once it was sent."""


class ServiceClient(httpx2.AsyncClient):
    """Of one service. It never raises for what the service or the network does."""

    def __init__(self, address: ServiceAddress, settings: Settings) -> None:
        # Streams for what the service tells by itself stay open: no number of sockets is enough for all hosts.
        sockets = httpx2.Limits(max_connections=None, max_keepalive_connections=settings.remote_pool_size)
        options = client_options(address, settings) | {"limits": sockets}
        timeout = httpx2.Timeout(None, connect=settings.remote_connect_timeout_s)  # who asks has a deadline
        super().__init__(**options, timeout=timeout)
        self.without_session = set[str | int]()
        """Ids of requests that the service did not take since their session is over."""
        self._place = address.url
        self._most_bytes = settings.remote_max_answer_bytes
        self._limits = Limits(address.url, settings, time.monotonic)
        self._patience = patience(settings, time.monotonic, random.random)

    async def send(self, request: httpx2.Request, **how: Any) -> httpx2.Response:
        asks = _asked(request)
        if request.method == "POST" and asks is None:
            request.extensions["timeout"] = {**self.timeout.as_dict(), "read": NOTICE_TIMEOUT_S}
        if request.method == "DELETE":
            with anyio.move_on_after(LEAVE_TIMEOUT_S):
                return await self._answered(request, **how)
            return error_to(request, _NO_ANSWER, protocol_error(ServiceUnavailable(self._place, "no answer in time")))
        attempts = self._patience.attempts(_MESSAGE)
        while True:
            try:
                response = await self._answered(request, **how)
            except _Unanswered as unanswered:
                pause_s = attempts.wait_s(unanswered.broken) if asks is not None else None
                if pause_s is None:
                    return self._no_answer(request, unanswered.broken)
                await anyio.sleep(pause_s)
            else:
                return await self._taken(request, response, asks)

    async def _answered(self, request: httpx2.Request, **how: Any) -> httpx2.Response:
        """Raises _Unanswered."""
        try:
            response = await super().send(request, **how)
        except httpx2.HTTPError as exc:
            raise _Unanswered(self._limits.broken(_MESSAGE, exc)) from exc
        except (httpx2.InvalidURL, ValueError, TypeError) as exc:  # a header that cannot be sent
            error = ServiceFailed(self._place, f"the message cannot be sent ({type(exc).__name__})")
            raise _Unanswered(Broken(error, sent=False, passing=False)) from exc
        if response.status_code < 400 and isinstance(response.stream, httpx2.AsyncByteStream):
            is_stream = response.headers.get("content-type", "").startswith("text/event-stream")
            # One event is bounded by the SDK; a stream has no end.
            response.stream = _Body(response.stream, None if is_stream else self._most_bytes)
        return response

    async def _taken(
        self, request: httpx2.Request, response: httpx2.Response, asks: str | int | None
    ) -> httpx2.Response:
        """The answer, if it is one; what answers otherwise than any service of MCP is none of ours."""
        if response.status_code >= 400:
            return await self._refusal(request, response, asks)
        is_answer = response.status_code == HTTPStatus.OK and kind_of(response) in KINDS
        if asks is None or is_answer or response.has_redirect_location:
            return response
        with suppress(httpx2.HTTPError):
            await response.aclose()
        return error_to(request, _NO_ANSWER, protocol_error(stranger(response.status_code, self._place)))

    async def _refusal(
        self, request: httpx2.Request, response: httpx2.Response, asks: str | int | None
    ) -> httpx2.Response:
        """The service's own JSON-RPC error as it is; any other answer as the error that it means."""
        body = await start_of(response)
        if response.status_code == 404 and _SESSION in request.headers and asks is not None:
            self.without_session.add(asks)
        if error_code(body) is not None:
            return answer_to(request, response.status_code, body)
        headers = {name.lower(): value for name, value in response.headers.items()}
        try:
            answer_of(_MESSAGE, Reply(response.status_code, headers, body), self._place)
        except WaygraphError as error:
            return error_to(request, response.status_code, _with_advice(protocol_error(error), response.status_code))
        raise AssertionError("an answer of 400 and above is an error")

    def _no_answer(self, request: httpx2.Request, broken: Broken) -> httpx2.Response:
        went = broken.sent and broken.passing
        return error_to(request, _NO_ANSWER, went_away(self._place) if went else protocol_error(broken.error))


def _with_advice(error: dict[str, Any], status: int) -> dict[str, Any]:
    """Who reads it has a host's config in their hands, no HTTP request."""
    advice = f"; set {API_KEY} in the environment in which the host starts this command" if status == 401 else ""
    return error | {"message": error["message"] + advice}


def went_away(place: str) -> dict[str, Any]:
    """The error for what was sent, and never answered: asked again it might be done twice."""
    error = ServiceUnavailable(place, "it went away before it answered; whether it did what was asked is not known")
    return protocol_error(error) | {"data": {"code": code_of(type(error)), "retryable": False}}


class _Unanswered(Exception):
    def __init__(self, broken: Broken) -> None:
        self.broken = broken
        super().__init__(broken.error)


class _Body(httpx2.AsyncByteStream):
    """A body that ends with an error which the SDK expects there when it breaks or is too long."""

    def __init__(self, inner: httpx2.AsyncByteStream, most_bytes: int | None) -> None:
        self._inner, self._most_bytes = inner, most_bytes

    async def __aiter__(self) -> AsyncIterator[bytes]:
        read = 0
        try:
            async for chunk in self._inner:
                read += len(chunk)
                if self._most_bytes is not None and read > self._most_bytes:
                    raise httpx2.StreamError(f"more than {self._most_bytes:,} bytes (WAYGRAPH_REMOTE_MAX_ANSWER_BYTES)")
                yield chunk
        except httpx2.TransportError as exc:
            raise httpx2.StreamError("the connection broke") from exc

    async def aclose(self) -> None:
        await self._inner.aclose()


def _asked(request: httpx2.Request) -> str | int | None:
    """The id of a request that waits for an answer; None for all else."""
    message = message_in(request)
    found = message.get("id") if "method" in message else None
    return found if isinstance(found, (str, int)) else None


# One connection of the bridge to the service: in the handshake era one session, in the modern one any requests.


type Heard = Callable[["Link", JSONRPCMessage], Awaitable[None]]


class Link:
    """`run` is its task; `heard` gets each message of the service's, with the link that it came by."""

    def __init__(
        self,
        url: str,
        address: ServiceAddress,
        settings: Settings,
        heard: "Heard",
    ) -> None:
        self._url, self._address, self._settings = url, address, settings
        self._heard = heard
        self.place = address.url
        self.patience_s = settings.remote_timeout_s
        """How long an answer that only asks may take."""
        self.is_open = False
        self._over = anyio.Event()
        self.gone = anyio.Event()
        self._client: ServiceClient | None = None
        self._stream: Any = None

    async def run(self, *, task_status: TaskStatus[None] = anyio.TASK_STATUS_IGNORED) -> None:
        """Until it is closed; then the service is told that the session is over."""
        try:
            await self._run(task_status)
        except Exception:
            if self._stream is None:
                raise
            # What breaks the SDK's transport ends this link alone; who uses it sees that it is not open.
        finally:
            self.is_open = False
            self.gone.set()

    async def _run(self, task_status: TaskStatus[None]) -> None:
        most = self._settings.remote_max_answer_bytes
        async with (
            ServiceClient(self._address, self._settings) as self._client,
            streamable_http_client(self._url, http_client=self._client, max_sse_event_size=most) as (read, write),
            anyio.create_task_group() as tasks,
        ):
            self._stream, self.is_open = write, True
            tasks.start_soon(self._hear, read)
            task_status.started()
            await self._over.wait()
            tasks.cancel_scope.cancel()

    def close(self) -> None:
        self._over.set()

    async def send(self, message: SessionMessage) -> None:
        """What is sent to a link that has ended is lost."""
        with suppress(anyio.ClosedResourceError, anyio.BrokenResourceError):
            await self._stream.send(message)

    def has_lost(self, request_id: str | int) -> bool:
        """Whether a request was not taken since the session is over. Told once."""
        lost = self._client.without_session if self._client else set[str | int]()
        found = request_id in lost
        lost.discard(request_id)
        return found

    async def _hear(self, read: AsyncIterable[SessionMessage | Exception]) -> None:
        async for item in read:
            if isinstance(item, SessionMessage):
                await self._heard(self, item.message)
        self.close()


CANCELLED, INITIALIZED = "notifications/cancelled", "notifications/initialized"
_CHANGED = {
    "tools": "notifications/tools/list_changed",
    "resources": "notifications/resources/list_changed",
    "prompts": "notifications/prompts/list_changed",
}

_UNREAD = re.compile(rf"{UNREAD}\w+ \w+: \d+ validation error")
"""So the SDK begins what it says of an answer that is no message."""


def serve_bridge(place: str, settings: Settings, *, namespace: str = "") -> None:
    """As `run_bridge`, to its end."""
    anyio.run(partial(run_bridge, place, settings, namespace=namespace), backend_options={"use_uvloop": True})


async def run_bridge(place: str, settings: Settings, *, namespace: str = "") -> None:
    """Serves this process's stdio from the service at `place`, until the host closes its end, or SIGTERM or SIGINT.

    Raises InvalidSetting for a place or key that cannot be used.
    """
    address = ServiceAddress.parse(place)
    api_key(address, settings)  # refused here, not in a task
    # A host that has closed its end of our output is gone, which is no error.
    with quietly(), suppress(BrokenPipeError, anyio.BrokenResourceError, anyio.ClosedResourceError):
        async with host_streams() as (read, write):
            hush()  # the loggers are there by now
            url = f"{address.url}/{namespace}/mcp" if namespace else f"{address.url}/mcp"
            if await _bridged(read, write, partial(Link, url, address, settings)):
                leave()


async def _bridged(read: Any, write: Any, link: Callable[[Heard], Link]) -> bool:
    """Whether SIGTERM or SIGINT came; else the host left."""
    async with anyio.create_task_group() as tasks:
        bridge = Bridge(write, link, tasks)
        async with read, write:
            is_stopped = await until_signal(lambda: bridge.run(read))
            await bridge.close()
        tasks.cancel_scope.cancel()
    return is_stopped


type _Answers = MemoryObjectSendStream[JSONRPCResponse | JSONRPCError]


@dataclass(frozen=True, slots=True)
class _Sent:
    """A host's request that is not answered, and the link that it went by; None: it waits for a new one.

    `again`: it went out on a second session.
    """

    message: JSONRPCRequest
    link: Link | None
    again: bool = False


@dataclass(frozen=True, slots=True)
class _Question:
    """A request of the service's that the host has not answered; the host knows it by an id of ours."""

    id: RequestId
    link: Link


class Bridge:
    """`link` makes a connection to the service, which tells what it hears."""

    def __init__(self, write: Any, link: Callable[[Heard], Link], tasks: TaskGroup) -> None:
        self._write = write
        self._new_link = link
        self._tasks = tasks
        self._stamp = Stamp()
        self._sent: dict[RequestId, _Sent] = {}
        self._questions: dict[str, _Question] = {}
        self._hellos: dict[str, _Answers] = {}
        self._asked = 0
        self._greeting: JSONRPCRequest | None = None
        """The host's `initialize`, with which a session is begun anew."""
        self._capabilities: dict[str, Any] = {}
        """What the service said that it offers, in its answer."""
        self._renewing = anyio.Lock()
        self._link: Link

    async def run(self, read: Any) -> None:
        """Until the host's stream ends."""
        self._link = await self._opened()
        async for item in read:
            if isinstance(item, SessionMessage):
                await self._from_host(item.message)
            else:
                error = ErrorData(code=PARSE_ERROR, message="this is no JSON-RPC message")
                await self._tell(JSONRPCError(jsonrpc="2.0", id=None, error=error))

    async def close(self) -> None:
        """What is under way is given up, and the service told that the session is over."""
        if "_link" not in vars(self):
            return  # ended before it was opened
        self._link.close()
        with anyio.move_on_after(2 * LEAVE_TIMEOUT_S):
            await self._link.gone.wait()

    # -- from the host -----------------------------------------------------------------------------

    async def _from_host(self, message: JSONRPCMessage) -> None:
        if isinstance(message, JSONRPCRequest):
            await self._asked_by_host(message)
        elif isinstance(message, JSONRPCNotification):
            if message.method == CANCELLED:
                self._forget((message.params or {}).get("requestId"))
            await self._link.send(self._stamp.stamped(message))
        else:
            await self._answer(message)

    def _forget(self, request_id: object) -> None:
        if isinstance(request_id, (str, int)):
            self._sent.pop(request_id, None)

    async def _asked_by_host(self, message: JSONRPCRequest) -> None:
        if message.method == "initialize":
            await self._begin(message)
        elif not self._link.is_open and self._greeting is None:
            self._link = await self._opened()
        if self._link.is_open:
            await self._ask(message, self._link)
        else:
            self._ask_again(message, self._link)

    async def _begin(self, message: JSONRPCRequest) -> None:
        """A host that greets again wants a session of its own."""
        if self._greeting is not None or not self._link.is_open:
            self._link.close()
            self._link = await self._opened()
        self._greeting, self._stamp.version = message, ""

    async def _ask(self, message: JSONRPCRequest, link: Link, *, again: bool = False) -> None:
        self._sent[message.id] = _Sent(message, link, again)
        await link.send(self._stamp.stamped(message))

    async def _answer(self, message: JSONRPCResponse | JSONRPCError) -> None:
        """To a question of the service's; of a session that is over nobody waits for it any more."""
        question = self._questions.pop(str(message.id), None)
        if question is not None and question.link is self._link:
            await self._link.send(self._stamp.stamped(message.model_copy(update={"id": question.id})))

    # -- from the service --------------------------------------------------------------------------

    async def _from_service(self, link: Link, message: JSONRPCMessage) -> None:
        match message:
            case JSONRPCRequest():
                self._asked += 1
                known_as = f"waygraph-{self._asked}"
                self._questions[known_as] = _Question(message.id, link)
                await self._tell(message.model_copy(update={"id": known_as}))
            case JSONRPCNotification():
                await self._tell(self._renamed(link, message))
            case _ if (hello := self._hellos.pop(str(message.id), None)) is not None:
                hello.send_nowait(message)
            case _:
                await self._answered(link, message)

    async def _answered(self, link: Link, message: JSONRPCResponse | JSONRPCError) -> None:
        sent = self._sent.get(message.id) if message.id is not None else None
        if sent is None or sent.link is not link:
            return  # cancelled, or asked again
        if link.has_lost(sent.message.id) and not sent.again and self._greeting is not None:
            self._ask_again(sent.message, link)
            return
        del self._sent[sent.message.id]
        self._close_if_done(link)
        if isinstance(message, JSONRPCResponse):
            self._learn(sent.message.method, message.result)
        else:
            message = self._told_plainly(message)
        await self._tell(message)

    def _learn(self, method: str, result: dict[str, Any]) -> None:
        if method == "initialize":
            self._stamp.version = str(result.get("protocolVersion", ""))
            self._capabilities = result.get("capabilities") or {}
        elif method == "tools/list":
            self._stamp.learn(result)

    def _renamed(self, link: Link, message: JSONRPCNotification) -> JSONRPCNotification:
        """The service takes back a question: by the id that the host knows."""
        params = message.params or {}
        if message.method != CANCELLED:
            return message
        asked = _Question(params.get("requestId", ""), link)
        known_as = next((name for name, question in self._questions.items() if question == asked), None)
        if known_as is None:
            return message
        del self._questions[known_as]
        return message.model_copy(update={"params": {**params, "requestId": known_as}})

    def _told_plainly(self, message: JSONRPCError) -> JSONRPCError:
        """What the SDK says in place of an answer that broke off, or that it could not read."""
        said, code = message.error.message, message.error.code
        broke = code == CONNECTION_CLOSED and said.startswith("SSE stream ")
        if broke or (code == PARSE_ERROR and said.endswith("the connection broke")):
            told = went_away(self._link.place)
        elif code == PARSE_ERROR and _UNREAD.match(said):
            told = protocol_error(stranger(HTTPStatus.OK, self._link.place))
        else:
            return message
        return message.model_copy(update={"error": ErrorData.model_validate(told)})

    async def _tell(self, message: JSONRPCMessage) -> None:
        with suppress(anyio.ClosedResourceError, anyio.BrokenResourceError):
            await self._write.send(SessionMessage(message))

    # -- sessions ----------------------------------------------------------------------------------

    async def _opened(self) -> Link:
        link = self._new_link(self._from_service)
        await self._tasks.start(self._live, link)
        return link

    async def _live(self, link: Link, *, task_status: TaskStatus[None] = anyio.TASK_STATUS_IGNORED) -> None:
        """As long as the link does; what it leaves without an answer gets one."""
        await link.run(task_status=task_status)
        fault = ErrorData.model_validate(went_away(self._link.place))
        for request_id in [request_id for request_id, sent in self._sent.items() if sent.link is link]:
            del self._sent[request_id]
            await self._tell(JSONRPCError(jsonrpc="2.0", id=request_id, error=fault))

    def _ask_again(self, message: JSONRPCRequest, link: Link) -> None:
        """The request was not looked at, since the session of `link` is over: it goes out on another one."""
        waiting = self._sent[message.id] = _Sent(message, None)
        self._tasks.start_soon(self._asked_again, waiting, link)

    async def _asked_again(self, waiting: _Sent, link: Link) -> None:
        fault: ErrorData | None = None
        async with self._renewing:
            if link is self._link:
                fault = await self._renewed()
        request_id = waiting.message.id
        if self._sent.get(request_id) is not waiting:
            return  # cancelled meanwhile
        if fault is None:
            await self._ask(waiting.message, self._link, again=True)
        else:
            del self._sent[request_id]
            await self._tell(JSONRPCError(jsonrpc="2.0", id=request_id, error=fault))

    async def _renewed(self) -> ErrorData | None:
        """Begins a session as the host began the first one; the fault if that fails: the next request tries anew."""
        link = await self._opened()
        answer = await self._greeted(link)
        if (fault := self._fault(answer)) is not None:
            link.close()
            return fault
        await link.send(self._stamp.stamped(JSONRPCNotification(jsonrpc="2.0", method=INITIALIZED)))
        former, self._link = self._link, link
        self._close_if_done(former)
        await self._tell_renewed(former)
        return None

    async def _greeted(self, link: Link) -> JSONRPCResponse | JSONRPCError:
        """The service's answer to the host's `initialize`, sent once more in the host's name."""
        if self._greeting is None:
            raise RuntimeError("a session is begun anew only after the host began one")
        send, receive = anyio.create_memory_object_stream[JSONRPCResponse | JSONRPCError](1)
        self._asked += 1
        name = f"waygraph-{self._asked}"
        self._hellos[name] = send
        await link.send(SessionMessage(self._greeting.model_copy(update={"id": name})))
        with send, receive, anyio.move_on_after(link.patience_s):
            return await receive.receive()
        self._hellos.pop(name, None)
        error = ServiceUnavailable(self._link.place, f"no answer within {link.patience_s:g} s")
        return JSONRPCError(jsonrpc="2.0", id=name, error=ErrorData.model_validate(protocol_error(error)))

    def _close_if_done(self, link: Link) -> None:
        """A former session ends when nothing that went out on it is without an answer."""
        if link is not self._link and not any(sent.link is link for sent in self._sent.values()):
            link.close()

    def _fault(self, answer: JSONRPCResponse | JSONRPCError) -> ErrorData | None:
        if isinstance(answer, JSONRPCError):
            return self._told_plainly(answer).error
        if answer.result.get("protocolVersion") != self._stamp.version:
            reason = "it came back with another version of the protocol: connect again"
            return ErrorData.model_validate(protocol_error(ServiceFailed(self._link.place, reason)))
        return None

    async def _tell_renewed(self, former: Link) -> None:
        """Nobody waits for answers of the former session, and what the service offers may have changed."""
        for name in [name for name, question in self._questions.items() if question.link is former]:
            del self._questions[name]
            params = {"requestId": name, "reason": "the service began a new session"}
            await self._tell(JSONRPCNotification(jsonrpc="2.0", method=CANCELLED, params=params))
        for offered, notice in _CHANGED.items():
            said = self._capabilities.get(offered)
            if isinstance(said, dict) and said.get("listChanged"):
                await self._tell(JSONRPCNotification(jsonrpc="2.0", method=notice))
