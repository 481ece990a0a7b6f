"""What a server of the handshake era asks its client while it runs a tool: its host answers, or it is refused.

Below the SDK, which would check questions and answers against its own types and lose what they do not know.
"""

import logging
from collections.abc import Mapping
from contextlib import suppress
from contextvars import Context
from typing import Any, get_args

import anyio
from mcp import Client, MCPError
from mcp.client.subscriptions import SubscriptionLost
from mcp.shared.message import SessionMessage
from mcp.types import (
    INTERNAL_ERROR,
    INVALID_REQUEST,
    ErrorData,
    JSONRPCError,
    JSONRPCRequest,
    JSONRPCResponse,
    RequestId,
    ServerCapabilities,
)
from mcp.types.version import MODERN_PROTOCOL_VERSIONS

from waygraph.ingest.manifest.fields import sendable
from waygraph.ingest.upstream.connection import NotAnswered, Question
from waygraph.ingest.upstream.inflight import CallsUnderway, Underway
from waygraph.ingest.upstream.wire import Wire
from waygraph.registry.model.errors import UpstreamError, UpstreamUnreachable

QUESTIONS: Mapping[str, Question] = {name: name for name in get_args(Question)}
_OF_A_CALL: frozenset[str] = frozenset({"elicitation/create", "sampling/createMessage"})
"""Roots are of the whole connection in this era, and no single host's to tell."""
_Answer = JSONRPCResponse | JSONRPCError
_log = logging.getLogger(__name__)


class Questions:
    """Of one connection. `writing` is where answers go."""

    def __init__(self, wire: Wire, calls: CallsUnderway) -> None:
        self.writing: Any = None
        self._wire = wire
        self._calls = calls
        self._open: dict[RequestId, anyio.CancelScope] = {}

    def take(self, request: JSONRPCRequest, context: Context | None) -> bool:
        """Whether it is a question for a host; then it is answered in a task of its own."""
        if request.method not in _OF_A_CALL or self._calls.tasks is None:
            return False
        # Here, not in the task: it may be withdrawn before that has begun.
        scope = self._open[request.id] = anyio.CancelScope()
        self._calls.tasks.start_soon(self._reply, request, self._calls.call_for(context), scope)
        return True

    def withdraw(self, request_id: RequestId) -> None:
        """The server does not want to know any more."""
        if (scope := self._open.pop(request_id, None)) is not None:
            scope.cancel()

    async def _reply(self, request: JSONRPCRequest, call: Underway | None, scope: anyio.CancelScope) -> None:
        answer: _Answer = _refusal(request.id, "the call that this belongs to has ended")
        with scope:
            answer = await self._answer(request, call, scope)
        if call is not None:
            call.scopes.discard(scope)
        if self._open.pop(request.id, None) is not scope:  # withdrawn: it gets no answer
            self._wire.unanswered -= 1
            return
        with suppress(anyio.BrokenResourceError, anyio.ClosedResourceError):
            await self.writing.send(SessionMessage(answer))

    async def _answer(self, request: JSONRPCRequest, call: Underway | None, scope: anyio.CancelScope) -> _Answer:
        if call is None or call.is_over:
            return _refusal(request.id, self._why_nobody())
        question = QUESTIONS[request.method]
        if not call.host.can(question):
            return _refusal(request.id, f"the host of this call does not take {question}")
        call.scopes.add(scope)
        try:
            result = await call.host.ask(question, sendable(request.params or {}))
        except NotAnswered as exc:
            return _refusal(request.id, str(exc))
        except Exception as exc:  # noqa: BLE001 - a fault of one host must not end the connection of all
            _log.warning("a host failed at a question of a server (%s)", type(exc).__name__)
            return _refusal(request.id, "the host failed to answer", INTERNAL_ERROR)
        return JSONRPCResponse(jsonrpc="2.0", id=request.id, result=dict(result))

    def _why_nobody(self) -> str:
        if len(self._calls) > 0:
            return "calls of several hosts are under way, or just were, and this does not say to which it belongs"
        return "no call is under way, so that nobody can be asked"


def _refusal(request_id: RequestId, reason: str, code: int = INVALID_REQUEST) -> JSONRPCError:
    return JSONRPCError(jsonrpc="2.0", id=request_id, error=ErrorData(code=code, message=reason))


# What a server tells by itself: that its lists have changed, in both protocol eras.


_STANDS_S = 3.0
"""For the way of notifications to stand, before anything is listed. Later is not too late, but may miss a change."""
_FIRST_PAUSE_S, _LONG_LIFE_S, _MISSES = 1.0, 30.0, 3


class Following:
    """Many notifications are one flag: it is set on the wire, and costs no task and no parsing."""

    def __init__(self, wire: Wire, *, asked: bool) -> None:
        self._wire = wire
        self._asked = asked
        self._told = False
        self._loss: UpstreamError | None = None
        self._news = anyio.Event()
        self._settled = anyio.Event()
        self._notifies = False
        wire.on_change = self._note
        wire.on_silence = self._silent

    async def await_change(self) -> None:
        """Raises UpstreamError when no more can be told."""
        while not self._told:
            if self._loss is not None:
                raise self._loss.again()
            await self._news.wait()

    def begin(self) -> None:
        """A listing begins: what was told before is answered by it."""
        if self._told:
            self._told = False
            self._news = anyio.Event()
            if self._loss is not None:
                self._news.set()

    def lose(self, loss: UpstreamError) -> None:
        self._loss = self._loss or loss
        self._settled.set()
        self._news.set()

    async def stands(self) -> bool:
        """Whether the server tells of changes, and we hear it."""
        with anyio.move_on_after(_STANDS_S):
            await self._settled.wait()
        self._settled.set()  # the next listing does not wait again
        return self._notifies

    async def follow(self, client: Client) -> None:
        """Keeps the way open for as long as the connection runs. Never raises."""
        if not self._asked or not _notifies(client.server_capabilities):
            self._settle(False)
        elif client.protocol_version in MODERN_PROTOCOL_VERSIONS:
            await self._subscribe(client)
        else:
            await self._wire.settled.wait()
            self._settle(self._wire.pushes)

    async def _subscribe(self, client: Client) -> None:
        """A subscription that ends is opened again; what was told between is taken for told."""
        misses, stood = 0, False
        while misses < _MISSES:
            began = anyio.current_time()
            try:
                async with client.listen(
                    tools_list_changed=True, prompts_list_changed=True, resources_list_changed=True
                ) as subscription:
                    if stood:
                        self._note()
                    stood = True
                    self._settle(bool(subscription.honored.tools_list_changed))
                    if not self._notifies:
                        return
                    async for _ in subscription:
                        pass  # events are seen on the wire; this ends with the subscription
            except (MCPError, SubscriptionLost, TimeoutError):
                if not stood:
                    self._settle(False)
                    return
            misses = 0 if anyio.current_time() - began > _LONG_LIFE_S else misses + 1
            await anyio.sleep(_FIRST_PAUSE_S * 2**misses)
        self._silent()

    def _note(self) -> None:
        self._told = True
        self._news.set()

    def _settle(self, notifies: bool) -> None:
        self._notifies = notifies
        self._settled.set()

    def _silent(self) -> None:
        self._notifies = False
        self.lose(UpstreamUnreachable("the stream by which it told of changes is lost"))


def _notifies(offered: ServerCapabilities) -> bool:
    return any(part is not None and part.list_changed for part in (offered.tools, offered.prompts, offered.resources))
