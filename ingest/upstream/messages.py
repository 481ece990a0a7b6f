"""JSON-RPC messages as lines, and as the SDK takes and gives them over a pair of pipes.

They are read and written by whoever receives and sends them. With a task and a stream between each of these and its
pipe, as the SDK's own transports have it, more of a call's time would go into changes of task than into the call.
"""

from collections import deque
from collections.abc import Callable, Iterable

import anyio
import anyio.lowlevel
from anyio.abc import ObjectReceiveStream, ObjectSendStream
from mcp.shared.message import SessionMessage
from mcp.types import (
    JSONRPCError,
    JSONRPCMessage,
    JSONRPCNotification,
    JSONRPCRequest,
    JSONRPCResponse,
    jsonrpc_message_adapter,
)
from pydantic import ValidationError
from pydantic_core import from_json

from waygraph.ingest.upstream.lines_out import LinesOut
from waygraph.ingest.upstream.pipe import GONE, Chunks

type Item = SessionMessage | Exception


def read_message(line: str | bytes) -> JSONRPCMessage:
    """As the SDK's adapter reads it, which tries each kind where the keys tell which it is. Raises ValueError."""
    document = from_json(line)
    if kind := _kind(document):
        try:
            return kind.model_validate(document, by_name=False)
        except ValidationError:
            pass  # the adapter may yet find another kind in it, and says in its words if not
    return jsonrpc_message_adapter.validate_json(line, by_name=False)


def _kind(document: object) -> type[JSONRPCMessage] | None:
    """None: not told by the keys alone."""
    if not isinstance(document, dict) or ("method" in document) + ("result" in document) + ("error" in document) != 1:
        return None
    if "method" in document:
        return JSONRPCRequest if "id" in document else JSONRPCNotification
    return JSONRPCResponse if "result" in document else JSONRPCError


def written(message: JSONRPCMessage) -> bytes:
    """One line. Raises ValueError for what JSON does not have."""
    text: str = message.model_dump_json(by_alias=True, exclude_unset=True)
    return text.encode("utf-8", "replace") + b"\n"


class MessagesIn(ObjectReceiveStream[Item]):
    """What a pipe brings; `items_of` makes of each chunk what it completes, `at_end` of what is left at the end."""

    def __init__(
        self, pipe: Chunks, items_of: Callable[[bytes], Iterable[Item]], at_end: Callable[[], Iterable[Item]] = tuple
    ) -> None:
        self.left = anyio.Event()
        """Nobody reads the pipe any more."""
        self.has_run_dry = False
        """The other end was closed."""
        self._pipe, self._items_of, self._at_end = pipe, items_of, at_end
        self._items = deque[Item]()

    async def receive(self) -> Item:
        """Raises EndOfStream."""
        if self._items:
            await anyio.lowlevel.checkpoint()  # however many came at once, each is heard of before the next
        while not self._items:
            if self.left.is_set():
                raise anyio.EndOfStream
            try:
                self._items.extend(self._items_of(await self._pipe.receive()))
            except GONE:
                self.has_run_dry = not self.left.is_set()
                self.left.set()
                self._items.extend(self._at_end() if self.has_run_dry else ())
        return self._items.popleft()

    def end(self) -> None:
        """What was read is still handed out, and then no more."""
        if not self.left.is_set():
            self.left.set()
            self._pipe.wake()

    def end_with(self, held: Iterable[bytes]) -> None:
        """The same, and what the pipe holds by now is heard first: who is gone may have answered before."""
        if not self.left.is_set():
            for chunk in held:
                self._items.extend(self._items_of(chunk))
            self.end()

    async def aclose(self) -> None:
        self._items.clear()
        self.end()


class MessagesOut(ObjectSendStream[SessionMessage]):
    """What goes to a pipe as `lines` has it: `written` makes a line of a message."""

    def __init__(self, lines: LinesOut, written: Callable[[JSONRPCMessage], bytes] = written) -> None:
        self._lines, self._written = lines, written

    async def send(self, item: SessionMessage, /) -> None:
        """Returns when the pipe has all of it. Raises BrokenResourceError and ClosedResourceError, if it never will."""
        if line := self._written(item.message):  # what is not to be written waits for nothing
            await self._lines.write(line)

    async def aclose(self) -> None:
        self._lines.close()
