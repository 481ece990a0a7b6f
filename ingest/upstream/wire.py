"""What passes between a transport and the SDK: seen on its way, so that what costs nothing costs nothing."""

from collections.abc import Callable
from dataclasses import dataclass, field
from types import TracebackType
from typing import Self

import anyio
from mcp.shared.message import SessionMessage
from mcp.types import JSONRPCError, JSONRPCNotification, JSONRPCRequest, JSONRPCResponse

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
_UNASKED = CHANGES | {"notifications/message", "notifications/resources/updated"}
"""Goes no further: the SDK would start a task for each, however many there are."""


@dataclass(slots=True)
class Wire:
    """What a transport learns of its server and the SDK does not hand on."""

    trouble: UpstreamError | None = None
    """Why nothing comes any more, or why the last answer was none."""
    last_words: Callable[[], str] = str
    """The line of its error output that most likely says why it fails."""
    heard: bool = False
    """Whether any message came."""
    unanswered: int = 0
    """Requests of the server's that we have not answered yet."""
    skipped: int = 0
    """Lines on standard output that are no JSON-RPC."""
    on_change: Callable[[], None] = lambda: None
    on_end: Callable[[], None] = lambda: None
    on_silence: Callable[[], None] = lambda: None
    """The stream by which the server told of changes is lost."""
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
    def last_context(self) -> object:
        """The SDK asks for it by name: whose context a message came in."""
        return getattr(self._inner, "last_context", None)

    async def receive(self) -> SessionMessage | Exception:
        while True:
            try:
                item = await self._inner.receive()
            except (anyio.EndOfStream, anyio.ClosedResourceError, anyio.BrokenResourceError):
                self._wire.on_end()
                raise
            self._wire.heard = True
            if not self._is_ours(item):
                return item

    def _is_ours(self, item: SessionMessage | Exception) -> bool:
        if not isinstance(item, SessionMessage):
            return False
        if isinstance(item.message, JSONRPCRequest):
            if self._wire.unanswered >= MOST_UNANSWERED:
                return True
            self._wire.unanswered += 1
            return False
        if not isinstance(item.message, JSONRPCNotification):
            return False
        if item.message.method in CHANGES:
            self._wire.on_change()
        return item.message.method in _UNASKED

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
        await self._inner.send(item)
        if isinstance(item.message, JSONRPCResponse | JSONRPCError):
            self._wire.unanswered -= 1

    async def aclose(self) -> None:
        await self._inner.aclose()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, exc_type: type[BaseException] | None, exc: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.aclose()
