"""Calls that wait for an answer of a host which cannot be sent requests: it gets the questions, and comes back.

In the modern era a server sends no requests. A call that has a question ends its host's request with
`input_required`, and waits here. The host's next request carries the answers and the call's ticket, and the call goes
on. The number of waiting calls and their time are bounded, and only who began a call can go on with it. A result that
comes meanwhile waits too: if the host called again, the tool would run twice.
"""

import secrets
from collections.abc import AsyncGenerator, Awaitable, Callable, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from itertools import count
from typing import Any, Protocol

import anyio
from anyio.abc import TaskGroup
from mcp import MCPError
from mcp.types import INVALID_PARAMS, ClientCapabilities
from pydantic import ValidationError

from waygraph.api.mcp.results import OURS
from waygraph.api.mcp.sessions import Asker, OfSession, as_request, takes, untakable
from waygraph.ingest.execution.call import STOPPING
from waygraph.ingest.upstream.connection import ANSWER_S, Host, NotAnswered, Question
from waygraph.registry.model.errors import CallError

PARKED_S = ANSWER_S
"""So long does a call wait for its host to come back."""
KEPT_S = ANSWER_S
"""So long does what a call came to meanwhile wait for its host."""
PARKED_AT_ONCE = 256
PARKED_OF_ONE = 32
"""Of one caller."""

NO_CALL_WAITS = (
    "no call waits for these answers: it has ended, or waits in another process of the service. "
    "Call the tool again, without requestState"
)

type Result = Mapping[str, Any]
Run = Callable[[Host], Awaitable[Result]]


class Hearing(Protocol):
    """The request of the host that waits now."""

    @property
    def log_level(self) -> str: ...

    async def progress(self, amount: float, total: float | None, message: str | None) -> None: ...

    async def log(self, level: str, data: object, logger: str | None) -> None: ...


@dataclass(slots=True)
class _OpenQuestion:
    """A question that waits. `answer` is set before `answered`."""

    request: dict[str, Any]
    answered: anyio.Event = field(default_factory=anyio.Event)
    answer: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class InputRequest:
    """What a call wants of its host before it goes on."""

    requests: Mapping[str, Mapping[str, Any]]
    ticket: str


class _Call(OfSession):
    """One call under way. It is the `Host` of what it runs."""

    def __init__(self, parking: "Parking", asker: Asker, capabilities: ClientCapabilities | None) -> None:
        self.ticket = secrets.token_urlsafe(32)
        self.caller_id, self.owner, self._session = asker.caller.id, asker.owner, asker.session
        self._parking, self._capabilities = parking, capabilities
        self._scope = anyio.CancelScope()
        self._hearing: Hearing | None = None
        self._questions: dict[str, _OpenQuestion] = {}
        self._numbers = count(1)
        self._news, self._fetched = anyio.Event(), anyio.Event()
        self._ended: list[Result | Exception] = []

    # -- for its host's requests -------------------------------------------------------------------

    async def turn(self, hearing: Hearing) -> Result | InputRequest:
        """Until it has ended or has a question. Raises what it raises; cancelled, it ends the call."""
        self._hearing = hearing
        try:
            while not (self._ended or self._questions):
                await self._news.wait()
        except BaseException:
            if self._hearing is hearing:  # else the host has sent its request again, and gave up the former one
                self._scope.cancel()
            raise
        finally:
            if self._hearing is hearing:
                self._hearing = None
        if not self._ended:
            return InputRequest({key: asked.request for key, asked in self._questions.items()}, self.ticket)
        self._fetched.set()
        if isinstance(ended := self._ended[0], Exception):
            raise ended
        return ended

    def answer(self, answers: Mapping[str, Any]) -> None:
        """Answers to questions that are no longer open are ignored."""
        for key, answer in answers.items():
            if isinstance(answer, Mapping) and (asked := self._questions.pop(key, None)):
                asked.answer = answer
                asked.answered.set()
        if not self._questions and self._news.is_set():  # else another request of the host waits for it already
            self._news = anyio.Event()

    async def run(self, run: Run) -> None:
        try:
            with self._scope:
                self._ended.append(await run(self))
        except Exception as exc:  # noqa: BLE001 - raised where the host waits
            self._ended.append(exc)
        finally:
            if not self._ended:
                self._ended.append(CallError(STOPPING))
            self._news.set()
        try:
            if self._hearing is None and not self._scope.cancel_called:
                with anyio.move_on_after(KEPT_S):
                    await self._fetched.wait()
        finally:
            self._parking.forget(self)

    # -- Host, for what it runs --------------------------------------------------------------------

    @property
    def log_level(self) -> str:
        return self._hearing.log_level if self._hearing else ""

    def can(self, question: Question) -> bool:
        return takes(self._capabilities, question)

    async def ask(self, question: Question, params: Mapping[str, Any]) -> Mapping[str, Any]:
        if reason := untakable(self._capabilities, question, params):
            raise NotAnswered(reason)
        try:
            request, _ = as_request(question, params)
        except ValidationError as exc:
            raise NotAnswered("the question is not of the protocol") from exc
        self._parking.keep(self)
        key = f"{next(self._numbers)}"
        asked = self._questions[key] = _OpenQuestion(request.model_dump(by_alias=True, mode="json", exclude_none=True))
        self._news.set()
        try:
            with anyio.move_on_after(PARKED_S):
                await asked.answered.wait()
                return asked.answer
        finally:
            self._questions.pop(key, None)
        raise NotAnswered(f"the host did not come back within {PARKED_S:g} s")

    async def progress(self, amount: float, total: float | None, message: str | None) -> None:
        if self._hearing:
            await self._hearing.progress(amount, total, message)

    async def log(self, level: str, data: object, logger: str | None) -> None:
        if self._hearing:
            await self._hearing.log(level, data, logger)


class Parking:
    """The calls of one gateway that wait or may wait, and those whose host has not fetched the result yet."""

    def __init__(self) -> None:
        self._tasks: TaskGroup | None = None
        self._kept: dict[str, _Call] = {}

    @asynccontextmanager
    async def open(self) -> AsyncGenerator[None]:
        """Calls run within; what has not ended then is cancelled."""
        async with anyio.create_task_group() as tasks:
            self._tasks = tasks
            try:
                yield
            finally:
                self._tasks = None
                tasks.cancel_scope.cancel()

    async def begin(
        self, asker: Asker, capabilities: ClientCapabilities | None, hearing: Hearing, run: Run
    ) -> Result | InputRequest:
        """Runs a call until it has ended or wants something of its host. Raises what it raises."""
        if self._tasks is None:
            raise CallError(STOPPING)
        call = _Call(self, asker, capabilities)
        self._tasks.start_soon(call.run, run)
        return await call.turn(hearing)

    async def go_on(
        self, ticket: str, caller_id: str, answers: Mapping[str, Any], hearing: Hearing
    ) -> Result | InputRequest:
        """As `begin`, with a call that waits for these answers. Raises MCPError if none does: nothing has run."""
        call = self._kept.get(ticket)
        if call is None or call.caller_id != caller_id:
            raise MCPError(code=INVALID_PARAMS, message=NO_CALL_WAITS, data=OURS)
        call.answer(answers)
        return await call.turn(hearing)

    def keep(self, call: _Call) -> None:
        """It has a question. Raises NotAnswered if too many calls wait."""
        if call.ticket in self._kept:
            return
        of_one = sum(kept.caller_id == call.caller_id for kept in self._kept.values())
        if len(self._kept) >= PARKED_AT_ONCE or of_one >= PARKED_OF_ONE:
            raise NotAnswered("too many calls wait for answers of their hosts")
        self._kept[call.ticket] = call

    def forget(self, call: _Call) -> None:
        self._kept.pop(call.ticket, None)
