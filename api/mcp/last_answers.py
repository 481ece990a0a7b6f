"""A host that closes its side while its requests run: they have a moment to be answered, and are cancelled then.

A script writes its requests and closes the pipe, `printf … | waygraph mcp`, and reads the answers after that. The SDK
ends whatever runs as soon as there is nothing more to read.
"""

import signal
from typing import Any

import anyio
from anyio.abc import ObjectReceiveStream, ObjectSendStream
from mcp.shared.message import SessionMessage
from mcp.types import JSONRPCError, JSONRPCNotification, JSONRPCRequest, JSONRPCResponse, RequestId

# What ends a host's gateway: the end of its input, a moment later, or a signal.


LAST_S = 1.5
"""So long may what runs go on once its host has closed its side."""


async def stopped_by_signal(scope: anyio.CancelScope) -> None:
    """Cancels the scope at Ctrl-C or SIGTERM."""
    with anyio.open_signal_receiver(signal.SIGINT, signal.SIGTERM) as signals:
        async for _ in signals:
            scope.cancel()
            return


_ENDLESS = "subscriptions/listen"
_CANCELLED = "notifications/cancelled"

type Incoming = SessionMessage | Exception


class _Unanswered:
    """Requests of the host that wait for an answer, by id."""

    def __init__(self) -> None:
        self._ids = set[RequestId]()
        self._none = anyio.Event()
        self._none.set()

    def heard(self, item: Incoming) -> None:
        message = item.message if isinstance(item, SessionMessage) else None
        if isinstance(message, JSONRPCRequest) and message.method != _ENDLESS:
            self._ids.add(message.id)
            self._none = anyio.Event()
        elif isinstance(message, JSONRPCNotification) and message.method == _CANCELLED:
            self._done((message.params or {}).get("requestId"))

    def told(self, item: SessionMessage) -> None:
        if isinstance(item.message, JSONRPCResponse | JSONRPCError):
            self._done(item.message.id)

    def _done(self, request_id: object) -> None:
        if isinstance(request_id, int | str):
            self._ids.discard(request_id)
        if not self._ids:
            self._none.set()

    async def none(self) -> None:
        await self._none.wait()


class _Reading(ObjectReceiveStream[Incoming]):
    def __init__(self, inner: Any, unanswered: _Unanswered) -> None:
        self._inner, self._unanswered = inner, unanswered

    async def receive(self) -> Incoming:
        try:
            item: Incoming = await self._inner.receive()
        except anyio.EndOfStream:
            with anyio.move_on_after(LAST_S):
                await self._unanswered.none()
            raise
        self._unanswered.heard(item)
        return item

    async def aclose(self) -> None:
        await self._inner.aclose()


class _Writing(ObjectSendStream[SessionMessage]):
    def __init__(self, inner: Any, unanswered: _Unanswered) -> None:
        self._inner, self._unanswered = inner, unanswered

    async def send(self, item: SessionMessage, /) -> None:
        try:
            await self._inner.send(item)
        finally:
            self._unanswered.told(item)  # also where nobody reads it any more

    async def aclose(self) -> None:
        await self._inner.aclose()


def until_answered(streams: tuple[Any, Any]) -> tuple[ObjectReceiveStream[Incoming], ObjectSendStream[SessionMessage]]:
    """The same streams. The first ends when all that came by it is answered, or LAST_S after the host left."""
    unanswered = _Unanswered()
    return _Reading(streams[0], unanswered), _Writing(streams[1], unanswered)
