"""What a server of the handshake era asks its client while it runs a tool: its host answers, or it is refused.

Below the SDK, which would check questions and answers against its own types and lose what they do not know.
"""

import logging
from collections.abc import Mapping
from contextlib import suppress
from contextvars import Context
from typing import Any, get_args

import anyio
from mcp.shared.message import SessionMessage
from mcp.types import (
    INTERNAL_ERROR,
    INVALID_REQUEST,
    ErrorData,
    JSONRPCError,
    JSONRPCRequest,
    JSONRPCResponse,
    RequestId,
)

from waygraph.ingest.manifest.fields import sendable
from waygraph.ingest.upstream.connection import NotAnswered, Question
from waygraph.ingest.upstream.inflight import CallsUnderway, Underway
from waygraph.ingest.upstream.wire import Wire

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
