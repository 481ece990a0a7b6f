"""The host's pipe, of which the SDK hears only what it has to: what can be answered directly never reaches it.

So a host is greeted, and finds, before the SDK is imported, which takes longer than all else of a start; and a find
passes none of the SDK's tasks. The first request decides: one that is not plain leaves everything to the SDK. A plain
one is answered at once and passed on all the same, since a session of the SDK's begins with it; the SDK's answer to it
is dropped.
"""

import time
from collections.abc import Awaitable, Callable, Iterable, Iterator
from contextlib import suppress
from functools import partial

import anyio
from anyio.abc import TaskGroup

from waygraph.api.mcp.direct.answers import DirectAnswers
from waygraph.api.mcp.direct.plain import Document, RequestId, cancelled, is_notification, plain, read
from waygraph.api.mcp.last_answers import LAST_S
from waygraph.api.mcp.tools import FIND_TOOLS, ROUTE_AGENTS
from waygraph.ingest.upstream.pipe import GONE, Chunks, LinesOut

# Requests of a host in their plain form: read without the SDK's types, and known to be what they would accept.
#
# Whatever is not plain (a field that these types check and this module does not, an older or newer form, a mistake) is
# none of these: the SDK reads it, and says what is wrong with it.


# A host's bytes, cut into lines; one that is too long to be a plain request is given as it comes.


LONGEST = 64 * 1024
"""In bytes: so much of a line is gathered."""

type Piece = tuple[bytes, bool]
"""Bytes, and whether they are one whole line."""


class Cut:
    """All pieces together are all that was fed; at the end a newline is added where the last line has none."""

    def __init__(self) -> None:
        self._rest = b""
        self._is_within = False
        """Of the line that has not ended some was given already."""

    def fed(self, chunk: bytes) -> Iterator[Piece]:
        """What this chunk completes."""
        *lines, self._rest = (self._rest + chunk).split(b"\n")
        for line in lines:
            yield line + b"\n", not self._is_within
            self._is_within = False
        if len(self._rest) > LONGEST:
            rest, self._rest, self._is_within = self._rest, b"", True
            yield rest, False

    def ended(self) -> Iterator[Piece]:
        """What is left, once."""
        if self._rest:
            rest, self._rest = self._rest, b""
            yield rest + b"\n", not self._is_within


# What is kept for the SDK: all that is not answered directly, and since when it waits.


class Kept:
    def __init__(self) -> None:
        self.wanted = anyio.Event()
        """Something is for the SDK to answer."""
        self._bytes = bytearray()
        self._since: dict[RequestId, float] = {}

    def __len__(self) -> int:
        return len(self._bytes)

    def take(self) -> bytes:
        taken, self._bytes = bytes(self._bytes), bytearray()
        return taken

    def add(self, piece: bytes) -> None:
        self._bytes += piece

    def awaits(self, piece: bytes, message: Document | None) -> None:
        """The same of what waits for the SDK to come; `message`: what the piece says, as far as it is one."""
        self.add(piece)
        if message is None:
            if piece.strip():
                self.wanted.set()
            return
        if not is_notification(message):
            self.wanted.set()
        if request := plain(message):
            self._since[request.id] = time.monotonic()

    def waited_s(self, request_id: RequestId | None) -> float:
        """How long a request was kept that is not answered; 0: it did not wait."""
        since = self._since.get(request_id) if request_id is not None else None
        return time.monotonic() - since if since is not None else 0.0

    def is_answered(self, request_id: RequestId) -> None:
        """Another one may bear its id now."""
        self._since.pop(request_id, None)


# Requests that are being answered: each is a task, and is given up by its id.


class Running:
    """`told` gets the answers, which are made in `tasks`."""

    def __init__(self, told: LinesOut, tasks: TaskGroup) -> None:
        self._told, self._tasks = told, tasks
        self._scopes: dict[RequestId, anyio.CancelScope] = {}
        self._one_less = anyio.Event()

    def __contains__(self, request_id: object) -> bool:
        return request_id in self._scopes

    def start(self, request_id: RequestId, answer: Callable[[], Awaitable[bytes]]) -> None:
        """`answer` raises nothing. The id is of none that runs."""
        self._scopes[request_id] = anyio.CancelScope()
        self._tasks.start_soon(self._answer, request_id, answer)

    def tell(self, answer: bytes) -> None:
        """What is answered already, and cannot be given up."""
        self._tasks.start_soon(self._tell, answer)

    def give_up(self, request_id: RequestId) -> bool:
        """Whether it runs: then it is not answered."""
        if (scope := self._scopes.get(request_id)) is None:
            return False
        scope.cancel()
        return True

    async def ended(self) -> None:
        """Returns when nothing runs."""
        while self._scopes:
            self._one_less = anyio.Event()
            await self._one_less.wait()

    async def _answer(self, request_id: RequestId, answer: Callable[[], Awaitable[bytes]]) -> None:
        try:
            with self._scopes[request_id]:
                await self._tell(await answer())
        finally:
            del self._scopes[request_id]
            self._one_less.set()

    async def _tell(self, answer: bytes) -> None:
        with suppress(*GONE):
            await self._told.write(answer)


MOST_HELD = 1024 * 1024
"""In bytes: so much is kept for the SDK while it is imported. A host that writes more waits."""

_OF_CONCERN = tuple(f'{end}"'.encode() for end in ("list", "cancelled", FIND_TOOLS, ROUTE_AGENTS))
"""One of these stands in whatever may be answered here, or given up: no other line is read."""


class DirectPipe:
    """`receive` gives what is left for the SDK. Answers are made in `tasks`."""

    def __init__(self, asked: Chunks, told: LinesOut, answers: DirectAnswers, tasks: TaskGroup) -> None:
        self.has_left = False
        """The host has closed its side."""
        self._asked, self._answers = asked, answers
        self._cut, self._kept, self._running = Cut(), Kept(), Running(told, tasks)
        self._is_open = self._is_holding = False
        self._greeted: RequestId | None = None
        """The id of the first request, if it was answered here and the SDK has not answered it."""

    @property
    def wanted(self) -> anyio.Event:
        """The SDK is: something is for it to answer."""
        return self._kept.wanted

    async def receive(self) -> bytes:
        """Raises one of GONE: the host left, and all that was asked here is answered, or LAST_S are over."""
        while not self._kept:
            await self._read()
        return self._kept.take()

    async def hold(self) -> None:
        """Answers what it can, and keeps the rest. Until the host left as `receive` tells it, or it is cancelled."""
        self._is_holding = True
        try:
            with suppress(*GONE):
                while len(self._kept) < MOST_HELD:
                    await self._read()
                await anyio.sleep_forever()
        finally:
            self._is_holding = False

    def waited_s(self, request_id: RequestId | None) -> float:
        """How long a request was kept for the SDK that now answers it."""
        return self._kept.waited_s(request_id)

    def has_answer(self, request_id: RequestId | None) -> bool:
        """Whether the host has the answer that the SDK makes now to its request."""
        if request_id is None:
            return False
        self._kept.is_answered(request_id)
        has_it = request_id == self._greeted
        if has_it:
            self._greeted = None
        return has_it

    def wake(self) -> None:
        self._asked.wake()

    async def _read(self) -> None:
        try:
            self._hear(self._cut.fed(await self._asked.receive()))
        except GONE:
            if last := list(self._cut.ended()):
                self._hear(last)
                return
            if not self.has_left:
                self.has_left = True
                with anyio.move_on_after(LAST_S):
                    await self._running.ended()
            raise

    def _hear(self, pieces: Iterable[Piece]) -> None:
        for piece, is_line in pieces:
            message = read(piece) if is_line and self._may_concern(piece) else None
            if message is not None and self._greets(message):
                self._kept.add(piece)  # the SDK's session begins with it all the same
            elif message is not None and self._answers_or_gives_up(message):
                continue
            elif self._is_holding:
                self._kept.awaits(piece, message)
            else:
                self._kept.add(piece)

    def _may_concern(self, line: bytes) -> bool:
        return not self._is_open or self._is_holding or any(mark in line for mark in _OF_CONCERN)

    def _greets(self, message: Document) -> bool:
        """Whether it is the first request, and is answered here. Notifications before it decide nothing."""
        if self._is_open or is_notification(message):
            return False
        self._is_open = True
        request = plain(message)
        if request is None or (answer := self._answers.greeting(request)) is None:
            return False
        self._greeted = request.id
        self._running.tell(answer)
        return True

    def _answers_or_gives_up(self, message: Document) -> bool:
        """Whether nothing of it is left to be done."""
        if (given_up := cancelled(message)) is not None:
            return self._running.give_up(given_up)
        request = plain(message)
        if request is None or request.id in self._running or not self._answers.takes(request):
            return False
        self._running.start(request.id, partial(self._answers.answer, request))
        return True
