"""Requests that are being answered: each is a task, and is given up by its id."""

from collections.abc import Awaitable, Callable
from contextlib import suppress

import anyio
from anyio.abc import TaskGroup

from waygraph.api.mcp.direct.plain import RequestId
from waygraph.ingest.upstream.lines_out import LinesOut
from waygraph.ingest.upstream.pipe import GONE


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
