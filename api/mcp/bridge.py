"""A host's stdio to the `/mcp` of a running service: many hosts on one machine share one service and its servers.

Messages pass as they are, in both protocol eras and both ways. What HTTP has and stdio lacks is kept here: headers,
and the session of the handshake era, which is begun anew, unseen by the host, when the service has lost it.
"""

import os
import re
import sys
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from functools import partial
from http import HTTPStatus
from typing import Any

import anyio
from anyio.abc import TaskGroup, TaskStatus
from anyio.streams.memory import MemoryObjectSendStream
from mcp.shared.message import SessionMessage
from mcp.types import (
    CONNECTION_CLOSED,
    PARSE_ERROR,
    ErrorData,
    JSONRPCError,
    JSONRPCMessage,
    JSONRPCNotification,
    JSONRPCRequest,
    JSONRPCResponse,
    RequestId,
)

from waygraph.api.mcp.host_messages import host_messages
from waygraph.api.mcp.host_pipes import host_pipes
from waygraph.api.mcp.last_answers import until_answered
from waygraph.api.mcp.link import Heard, Link
from waygraph.api.mcp.results import protocol_error
from waygraph.api.mcp.service_client import LEAVE_TIMEOUT_S, went_away
from waygraph.api.mcp.stamping import Stamp
from waygraph.api.mcp.stopping import stopped_by_signal
from waygraph.ingest.upstream.quiet import hush, quietly
from waygraph.ingest.upstream.wire import UNREAD
from waygraph.registry.errors import ServiceFailed, ServiceUnavailable
from waygraph.registry.remote.address import ServiceAddress, api_key
from waygraph.registry.remote.answers import stranger
from waygraph.registry.settings import Settings

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
        async with host_pipes() as pipes, host_messages(pipes) as streams:
            read, write = until_answered(streams)
            hush()  # the loggers are there by now
            url = f"{address.url}/{namespace}/mcp" if namespace else f"{address.url}/mcp"
            if await _bridged(read, write, partial(Link, url, address, settings)):
                return
            # Told to stop: where the host gave no pipe, a thread waits for its next line, and nothing wakes it.
            sys.stderr.flush()
            os._exit(0)


async def _bridged(read: Any, write: Any, link: Callable[[Heard], Link]) -> bool:
    """Whether the host left; False: SIGTERM or SIGINT came."""
    reading = anyio.CancelScope()
    async with anyio.create_task_group() as tasks:
        tasks.start_soon(stopped_by_signal, reading)
        bridge = Bridge(write, link, tasks)
        async with read, write:
            with reading:
                await bridge.run(read)
            await bridge.close()
        tasks.cancel_scope.cancel()
    return not reading.cancelled_caught


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
