"""Calls that wait for an answer of a host which cannot be sent requests: it gets the questions, and comes back.

In the modern era a server sends no requests. A call that has a question ends its host's request with
`input_required`, and waits here. The host's next request carries the answers and the call's ticket, and the call goes
on. The number of waiting calls and their time are bounded, and only who began a call can go on with it. A result that
comes meanwhile waits too: if the host called again, the tool would run twice.

Tasks of servers (SEP-2663) are waited for here, for hosts that do not speak them; the handles of all outlive the
process.
"""

import logging
import os
import re
import secrets
import time
from collections.abc import AsyncGenerator, Awaitable, Callable, Mapping, Sequence
from contextlib import asynccontextmanager, suppress
from dataclasses import asdict, dataclass, field, replace
from itertools import count
from pathlib import Path
from typing import Any

import anyio
from anyio.abc import TaskGroup
from mcp import MCPError
from mcp.types import INVALID_PARAMS, ClientCapabilities
from pydantic import TypeAdapter, ValidationError

from waygraph.api.mcp.results import OURS, told_as_text
from waygraph.api.mcp.sessions import Asker, CallNews, OfSession, as_request, takes, untakable
from waygraph.ingest.execution.call import MOST_ERROR_CHARS, STOPPING, ToolCall
from waygraph.ingest.manifest.fields import fields_of
from waygraph.ingest.manifest.redaction import shorten
from waygraph.ingest.upstream.calls import answer_question
from waygraph.ingest.upstream.connection import ANSWER_S, Deaf, Host, NotAnswered, Question
from waygraph.ingest.upstream.inflight import MOST_NOTICE_CHARS
from waygraph.ingest.upstream.messages import error_words
from waygraph.registry.model.clock import now
from waygraph.registry.model.errors import (
    CallError,
    CallTimedOut,
    UnknownName,
    UpstreamAnswered,
    UpstreamRefused,
    UpstreamUnreachable,
    WaygraphError,
)
from waygraph.registry.model.files import content_if_there, storage_errors, write_private
from waygraph.registry.model.identity import digest
from waygraph.registry.model.numbers import FAR_S, read_number

PARKED_S = ANSWER_S
"""So long does a call wait for its host to come back, and what it came to meanwhile."""
PARKED_AT_ONCE = 256
PARKED_OF_ONE = 32
"""Of one caller."""

NO_CALL_WAITS = (
    "no call waits for these answers: it has ended, or waits in another process of the service. "
    "Call the tool again, without requestState"
)

type Result = Mapping[str, Any]
type Hearing = CallNews | Deaf
"""The request of the host that waits now."""
Run = Callable[[Host], Awaitable[Result]]


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
                with anyio.move_on_after(PARKED_S):
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


_log = logging.getLogger("waygraph.gateway")
TASK_ADDRESS = "waygraph://tasks/"
"""How the address of a task begins by which a model fetches its result."""
TASK_TOKEN = re.compile(r"[A-Za-z0-9_-]{43}")
TASK_KEPT_S, ENDED_KEPT_S, MOST_TASKS = 86_400.0, 3_600.0, 1_000
"""A task that nobody asks about for so long is given up; the handle of one that has ended is kept for less; so many
handles has one caller."""
_SHORTEST_POLL_S, _LONGEST_POLL_S = 0.1, 30.0
CANCEL_S = 5.0
_TASK_FIELDS = ("status", "statusMessage", "createdAt", "lastUpdatedAt", "ttlMs", "pollIntervalMs")
FINAL_STATUSES = ("completed", "failed", "cancelled")
_STATUSES = ("working", "input_required", *FINAL_STATUSES)


class TaskState(dict[str, Any]):
    """A task of a server as the host knows it: its id is one of ours."""

    def as_result(self, run_by: str) -> Result:
        """For a host that does not speak tasks: how its model fetches the result. `run_by` empty: by its name."""
        name = f"{TASK_ADDRESS}{self['taskId']}"
        how = f"{run_by}(name={name!r})" if run_by else f"calling the tool {name!r}"
        how = f"it is still at work; {how} waits for its result, also later"
        words = {field: self[field] for field in ("status", "statusMessage") if field in self}
        return told_as_text({"task": {**words, "name": name, "how": how}})


@dataclass(frozen=True, slots=True)
class TaskHandle:
    """Which task of which tool an id of ours stands for. It is a file, so that it outlives the process.

    `caller`: as `ToolCall.caller`; nobody else learns of it. `token`: the id of ours; empty: it has none yet.
    """

    tool_id: str
    task_id: str
    caller: str
    has_ended: bool = False
    token: str = ""


_HANDLE = TypeAdapter(TaskHandle)


class TaskHandles:
    """Of one registry: a folder for each caller, a file for each task, as old as the last request for it."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder

    def keep(self, handle: TaskHandle) -> tuple[TaskHandle, list[TaskHandle]]:
        """It with its id, and what its caller has too many of, which is given up. Raises StorageFailed."""
        handle = replace(handle, token=secrets.token_urlsafe(32))
        write_private(self._file(handle.token, handle.caller), asdict(handle))
        with storage_errors(self._folder):
            files = [file for _, file in self._by_age(f"{digest(handle.caller)}/*.json")]
            return handle, self._forget(files[:-MOST_TASKS])

    def read(self, token: str, caller: str) -> TaskHandle:
        """Raises UnknownName, StorageFailed."""
        file = self._file(token, caller)
        content = content_if_there(file) if TASK_TOKEN.fullmatch(token) else None
        if not content or (handle := _read_handle(file, content)) is None:
            raise UnknownName("task", token[:100], ())
        if not handle.has_ended:
            with storage_errors(file), suppress(FileNotFoundError):  # another process may have forgotten it meanwhile
                os.utime(file)
        return handle

    def note_end(self, handle: TaskHandle) -> None:
        """Its server need not be told that nobody waits for it, if the handle is still kept. Raises StorageFailed."""
        file, forgotten_s = self._file(handle.token, handle.caller), time.time() - TASK_KEPT_S + ENDED_KEPT_S
        if content_if_there(file) is None:
            return
        write_private(file, asdict(replace(handle, has_ended=True)))
        with storage_errors(file), suppress(FileNotFoundError):
            os.utime(file, (forgotten_s, forgotten_s))

    def take_expired(self) -> list[TaskHandle]:
        """Forgets the handles that are too old, and returns those whose task has not ended. Raises StorageFailed.

        Folders of callers without a handle go too, and files beside the folders, which an earlier version wrote.
        """
        with storage_errors(self._folder):
            for file in self._folder.parent.glob("*.json"):
                if TASK_TOKEN.fullmatch(file.stem):
                    file.unlink(missing_ok=True)
            # One that is new waits for its first handle.
            folders = [each for each in self._folder.glob("*/") if time.time() - each.stat().st_mtime > TASK_KEPT_S]
            handles = self._forget([file for at, file in self._by_age("*/*.json") if time.time() - at > TASK_KEPT_S])
            for folder in folders:
                with suppress(OSError):  # one with a handle in it stays
                    folder.rmdir()
            return handles

    def _file(self, token: str, caller: str) -> Path:
        return self._folder / digest(caller) / f"{token}.json"

    def _by_age(self, pattern: str) -> list[tuple[float, Path]]:
        """The oldest first. Other processes forget handles as well."""
        ages = []
        for file in self._folder.glob(pattern):
            with suppress(FileNotFoundError):
                ages.append((file.stat().st_mtime, file))
        return sorted(ages)

    def _forget(self, files: Sequence[Path]) -> list[TaskHandle]:
        handles = []
        for file in files:
            with suppress(FileNotFoundError):
                if handle := _read_handle(file, file.read_bytes()):
                    file.unlink()
                    handles += [] if handle.has_ended else [handle]
        return handles


def _read_handle(file: Path, content: bytes) -> TaskHandle | None:
    """None: it is none, and was removed. Raises StorageFailed."""
    try:
        return _HANDLE.validate_json(content, strict=True)
    except ValidationError:
        _log.warning("a handle of a task in %s cannot be read, and was removed", file.parent)
        with storage_errors(file):
            file.unlink(missing_ok=True)
        return None


def task_state(token: str, agent_id: str, task: Result) -> TaskState:
    """What of a server's task is for its host. Raises UpstreamRefused for one that is not of the protocol."""
    if task.get("status") not in _STATUSES:
        raise UpstreamRefused(f"{agent_id}: the state of its task is none that the protocol has")
    state = {name: task[name] for name in _TASK_FIELDS if isinstance(task.get(name), str | int | None) and name in task}
    if isinstance(message := state.pop("statusMessage", None), str):
        state["statusMessage"] = f"Agent {agent_id}: {message[:MOST_NOTICE_CHARS]}"
    if state["status"] == "failed":
        code, message = error_words(task.get("error"))
        state["error"] = {"code": code, "message": shorten(message, MOST_ERROR_CHARS)}
    return TaskState({"createdAt": now(), "lastUpdatedAt": now(), "ttlMs": None} | state | {"taskId": token})


async def follow_task(
    call: ToolCall, task: Result, token: str, ask_server: Callable[..., Awaitable[Result]]
) -> Result | TaskState:
    """Its result, or how it stands when the time of the call is up. A call that is cancelled cancels it.

    `ask_server`: takes a method, its time and its parameters. What a person takes to answer questions of the task does
    not count. Raises what `ask_server` raises.
    """
    agent_id, keys = call.agent.id, set[str]()
    deadline = anyio.current_time() + call.deadline_s
    number = count(1)

    async def ask(method: str, **params: Any) -> Result:
        return await ask_server(method, max(CANCEL_S, deadline - anyio.current_time()), **params)

    try:
        while True:
            state = task_state(token, agent_id, task)
            if (result := _task_result(agent_id, task, state)) is not None:
                return result
            questions = {key: each for key, each in fields_of(task.get("inputRequests")).items() if key not in keys}
            if questions:
                asked_s = anyio.current_time()
                answers = {key: await answer_question(call.host, each) for key, each in questions.items()}
                deadline += anyio.current_time() - asked_s
                keys |= answers.keys()
                await ask("tasks/update", inputResponses=answers)
            message = task.get("statusMessage")
            words = message[:MOST_NOTICE_CHARS] if isinstance(message, str) else None
            await call.host.progress(next(number), None, words)
            pause_s = (read_number(task.get("pollIntervalMs"), 0, FAR_S) or 1_000) / 1_000
            pause_s = min(max(pause_s, _SHORTEST_POLL_S), _LONGEST_POLL_S)
            if anyio.current_time() + pause_s > deadline:
                return state
            await anyio.sleep(pause_s)
            with suppress(UpstreamUnreachable, CallTimedOut):  # its server may be started anew; the task stays
                task = await ask("tasks/get")
    except anyio.get_cancelled_exc_class():
        with anyio.CancelScope(shield=True), anyio.move_on_after(CANCEL_S), suppress(WaygraphError):
            await ask("tasks/cancel")
        raise


def _task_result(agent_id: str, task: Result, state: TaskState) -> Result | None:
    """Of a task that has ended; None: it has not. Raises UpstreamAnswered, UpstreamRefused."""
    match state["status"]:
        case "failed":
            raise UpstreamAnswered(**state["error"])
        case "cancelled":
            raise UpstreamRefused(f"{agent_id}: its task was cancelled")
        case "completed":
            return fields_of(task.get("result")) or None
    return None
