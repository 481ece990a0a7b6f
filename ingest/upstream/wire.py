"""What passes between a transport and the SDK: seen on its way, so that what costs nothing costs nothing."""

from collections.abc import Callable, Mapping
from contextvars import Context
from dataclasses import dataclass, field
from types import TracebackType
from typing import Any, Self

import anyio
from mcp.shared.message import SessionMessage
from mcp.types import JSONRPCError, JSONRPCNotification, JSONRPCRequest, JSONRPCResponse, RequestId

from waygraph.registry.errors import UpstreamError

CHANGES = frozenset(
    {
        "notifications/tools/list_changed",
        "notifications/prompts/list_changed",
        "notifications/resources/list_changed",
    }
)
MOST_UNANSWERED = 100
"""A server that asks on and does not read the answers is heard no more; each question would be a task of the SDK's."""
NOTICES = frozenset({"notifications/message", "notifications/progress"})
"""What a server tells of a call."""
_UNASKED = CHANGES | NOTICES | {"notifications/resources/updated"}
"""Goes no further: the SDK would start a task for each, however many there are."""

UNREAD = "Failed to parse "
"""How the SDK begins the error that it puts in the place of an answer that it could not read."""


@dataclass(slots=True)
class Wire:
    """What a transport learns of its server and the SDK does not hand on."""

    trouble: UpstreamError | None = None
    """Why nothing comes any more, or why the last answer was none."""
    last_words: Callable[[], str] = str
    """The line of its error output that most likely says why it fails."""
    heard: int = 0
    """How many messages came."""
    unanswered: int = 0
    """Requests of the server's that we have not answered yet."""
    skipped: int = 0
    """Lines on standard output that are no JSON-RPC."""
    on_change: Callable[[], None] = lambda: None
    on_end: Callable[[], None] = lambda: None
    on_silence: Callable[[], None] = lambda: None
    """The stream by which the server told of changes is lost."""
    on_notice: Callable[[str, Mapping[str, Any], Context | None], None] = lambda *_: None
    """Gets NOTICES, with the context of the request that they came as an answer to, if any."""
    on_question: Callable[[JSONRPCRequest, Context | None], bool] = lambda *_: False
    """Whether it answers this request of the server's; the SDK does otherwise."""
    on_withdrawal: Callable[[RequestId], None] = lambda *_: None
    on_sending: Callable[[RequestId], None] = lambda *_: None
    """A request of ours is handed to the transport, by the task that asks."""
    on_undelivered: Callable[[RequestId], None] = lambda *_: None
    """It did not reach the server, and cannot any more."""
    mark: str = ""
    """Stands in the data of an error that our HTTP client made, so that no server's own is taken for one."""
    refused_with: int = 0
    """The HTTP status of the last refusal that was no JSON-RPC."""
    pushes: bool = True
    """Whether what the server tells by itself can reach us."""
    settled: anyio.Event = field(default_factory=anyio.Event)
    """Set when `pushes` holds for good."""


class Watched:
    """A transport's read stream. Notifications of changes are counted as one word and go no further."""

    def __init__(self, inner: "anyio.abc.ObjectReceiveStream[SessionMessage | Exception]", wire: Wire) -> None:
        self._inner = inner
        self._wire = wire

    @property
    def last_context(self) -> Context | None:
        """The SDK asks for it by name: whose context a message came in."""
        context = getattr(self._inner, "last_context", None)
        return context if isinstance(context, Context) else None

    async def receive(self) -> SessionMessage | Exception:
        while True:
            try:
                item = await self._inner.receive()
            except (anyio.EndOfStream, anyio.ClosedResourceError, anyio.BrokenResourceError):
                self._wire.on_end()
                raise
            self._wire.heard += 1
            if not self._is_ours(item):
                return item

    def _is_ours(self, item: SessionMessage | Exception) -> bool:
        if not isinstance(item, SessionMessage):
            return False
        if isinstance(item.message, JSONRPCRequest):
            if self._wire.unanswered >= MOST_UNANSWERED:
                return True
            self._wire.unanswered += 1
            return self._wire.on_question(item.message, self.last_context)
        if not isinstance(item.message, JSONRPCNotification):
            return False
        return self._is_unasked(item.message.method, item.message.params or {})

    def _is_unasked(self, method: str, params: Mapping[str, Any]) -> bool:
        if method in CHANGES:
            self._wire.on_change()
        elif method in NOTICES:
            self._wire.on_notice(method, params, self.last_context)
        elif method == "notifications/cancelled" and isinstance(named := params.get("requestId"), int | str):
            self._wire.on_withdrawal(named)
        return method in _UNASKED

    async def aclose(self) -> None:
        await self._inner.aclose()

    def __aiter__(self) -> Self:
        return self

    async def __anext__(self) -> SessionMessage | Exception:
        try:
            return await self.receive()
        except anyio.EndOfStream:
            raise StopAsyncIteration from None

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, exc_type: type[BaseException] | None, exc: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.aclose()


class Counted:
    """A transport's write stream, on which the answers to a server's own requests are counted."""

    def __init__(self, inner: "anyio.abc.ObjectSendStream[SessionMessage]", wire: Wire) -> None:
        self._inner = inner
        self._wire = wire

    async def send(self, item: SessionMessage, /) -> None:
        message = item.message
        if isinstance(message, JSONRPCRequest):
            self._wire.on_sending(message.id)
        try:
            await self._inner.send(item)
        except (anyio.BrokenResourceError, anyio.ClosedResourceError):
            if isinstance(message, JSONRPCRequest):
                self._wire.on_undelivered(message.id)
            raise
        if isinstance(message, JSONRPCResponse | JSONRPCError):
            self._wire.unanswered -= 1

    async def aclose(self) -> None:
        await self._inner.aclose()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, exc_type: type[BaseException] | None, exc: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.aclose()
