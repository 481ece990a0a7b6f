"""The host's pipe, of which the SDK hears only what it has to: what can be answered directly never reaches it.

So a host is greeted, and finds, before the SDK is imported, which takes longer than all else of a start; and a find
passes none of the SDK's tasks. The first request decides: one that is not plain leaves everything to the SDK. A plain
one is answered at once and passed on all the same, since a session of the SDK's begins with it; the SDK's answer to it
is dropped.
"""

import time
from collections.abc import Iterable
from contextlib import suppress

import anyio
from anyio.abc import TaskGroup

from waygraph.api.mcp.direct.answers import Answers
from waygraph.api.mcp.direct.cut import Cut, Piece
from waygraph.api.mcp.direct.plain import Plain, RequestId, asks_nothing, cancelled, plain
from waygraph.ingest.upstream.lines_out import LinesOut
from waygraph.ingest.upstream.pipe import GONE, Chunks

MOST_HELD = 1024 * 1024
"""In bytes: so much is kept for the SDK while it is imported. A host that writes more waits."""
LAST_S = 1.5
"""So long may what runs here go on once the host has closed its side."""

_OF_CONCERN = tuple(
    f'"{name}"'.encode() for name in ("tools/list", "find_tools", "route_agents", "notifications/cancelled")
)
"""One of these stands in whatever may be answered here, or given up: no other line is read."""


class DirectPipe:
    """`receive` gives what is left for the SDK. Answers are made in `tasks`."""

    def __init__(self, asked: Chunks, told: LinesOut, answers: Answers, tasks: TaskGroup) -> None:
        self.wanted = anyio.Event()
        """The SDK is: something is for it to answer."""
        self._greeted: RequestId | None = None
        """The id of the first request, if it was answered here and the SDK has not answered it."""
        self._asked, self._told, self._answers, self._tasks = asked, told, answers, tasks
        self._cut, self._held = Cut(), bytearray()
        self._is_open = False
        self._running: dict[RequestId, anyio.CancelScope] = {}
        self._is_holding = False
        self._held_since: dict[RequestId, float] = {}
        self._one_less = anyio.Event()

    async def receive(self) -> bytes:
        """Raises one of GONE: the host left, and all that was asked here is answered, or LAST_S are over."""
        while not self._held:
            await self._read()
        held, self._held = bytes(self._held), bytearray()
        return held

    async def hold(self) -> None:
        """Answers what it can, and keeps the rest. Until the host left as `receive` tells it, or it is cancelled."""
        self._is_holding = True
        try:
            with suppress(*GONE):
                while len(self._held) < MOST_HELD:
                    await self._read()
                await anyio.sleep_forever()
        finally:
            self._is_holding = False

    def is_told(self, request_id: RequestId | None) -> bool:
        """Whether the SDK's answer to this request is the one that the host has already. Told once."""
        is_greeting = request_id is not None and request_id == self._greeted
        if is_greeting:
            self._greeted = None
        return is_greeting

    def waited_s(self, request_id: RequestId | None) -> float:
        """How long a request was kept for the SDK. Told once."""
        since = self._held_since.pop(request_id, None) if request_id is not None else None
        return time.monotonic() - since if since is not None else 0.0

    def wake(self) -> None:
        self._asked.wake()

    async def _read(self) -> None:
        try:
            self._hear(self._cut.fed(await self._asked.receive()))
        except GONE:
            if last := list(self._cut.ended()):
                self._hear(last)
                return
            await self._last_answers()
            raise

    async def _last_answers(self) -> None:
        with anyio.move_on_after(LAST_S):
            while self._running:
                self._one_less = anyio.Event()
                await self._one_less.wait()

    def _hear(self, pieces: Iterable[Piece]) -> None:
        for piece, is_line in pieces:
            if is_line and self._is_done_with(piece):
                continue
            self._held += piece
            if self._is_holding:
                self._hold_on(piece)

    def _hold_on(self, piece: bytes) -> None:
        if not self.wanted.is_set() and not asks_nothing(piece):
            self.wanted.set()
        if request := plain(piece):
            self._held_since[request.id] = time.monotonic()

    def _is_done_with(self, line: bytes) -> bool:
        """Whether nothing is left to be answered."""
        if not self._is_open:
            return not asks_nothing(line) and self._greets(line)
        if not any(mark in line for mark in _OF_CONCERN):
            return False
        if (given_up := cancelled(line)) is not None:
            return self._gives_up(given_up)
        request = plain(line)
        if request is None or not self._answers.takes(request):
            return False
        self._tasks.start_soon(self._answer, request)
        return True

    def _greets(self, line: bytes) -> bool:
        """Whether the first request is answered here. The SDK's session begins with it all the same."""
        self._is_open = True
        request = plain(line)
        answer = self._answers.greeting(request) if request else None
        if request is None or answer is None:
            return False
        self._greeted = request.id
        self._held += line
        self._tasks.start_soon(self._tell, answer)
        return True

    def _gives_up(self, request_id: RequestId) -> bool:
        """Whether it was one of ours: it is not answered."""
        if (scope := self._running.get(request_id)) is None:
            return False
        scope.cancel()
        return True

    async def _answer(self, request: Plain) -> None:
        with anyio.CancelScope() as self._running[request.id]:
            try:
                await self._tell(await self._answers.answer(request))
            finally:
                del self._running[request.id]
                self._one_less.set()

    async def _tell(self, line: bytes) -> None:
        with suppress(*GONE):
            await self._told.write(line)
