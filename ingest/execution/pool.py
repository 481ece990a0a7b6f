"""Connections that tools are called over: one an agent, opened by its first call, closed when nobody needs it.

All connections of a process stand in one task group. A connection has a task of its own, which opens and closes it;
calls come from anywhere and wait for nothing but their own server.
"""

from collections.abc import AsyncGenerator, AsyncIterator, Awaitable, Callable, Iterator
from contextlib import AbstractAsyncContextManager, AsyncExitStack, asynccontextmanager, contextmanager, nullcontext
from dataclasses import dataclass, replace
from functools import partial
from typing import TYPE_CHECKING

import anyio
from anyio.abc import TaskGroup
from cachetools import FIFOCache

from waygraph.ingest.execution.call import STOPPING, ToolCall
from waygraph.ingest.manifest.records import HttpLaunch, Launch
from waygraph.ingest.upstream.connection import (
    QUESTIONS,
    CallConnection,
    Clock,
    Host,
    NotDelivered,
    Result,
    Starts,
    SystemClock,
    first_of,
)
from waygraph.registry.model.errors import NotRun, UpstreamAnswered, UpstreamError, UpstreamUnreachable
from waygraph.registry.model.nouns import Agent
from waygraph.registry.model.settings import Settings

if TYPE_CHECKING:
    from waygraph.ingest.logins.callers import ActingCaller

MOST_AGENTS = 4_096
"""Of those that are remembered: in a long-lived service agents come and go."""
LaunchOf = Callable[[Agent], Awaitable[Launch]]
"""How an agent's server is reached, now. Asked before each call, so it has to be quick. Raises NotCallable."""


_Key = tuple[str, str]
"""An agent's id, and the user's; empty: the operator."""
MOST_USER_LINES = 256
"""So many connections of users stand at a time; beyond that, those without a call are closed, the longest unused first.
"""
OpenConnections = Callable[[Launch], AbstractAsyncContextManager[CallConnection]]
"""Opens a connection for calls, within its deadline. Raises UpstreamError."""

_NO_WAY_BACK = "no back-channel"
"""So says the SDK's server, of the modern era, of a tool that asks by a request."""
ASK_AGAIN = (
    "From now on this server is spoken to in the older form of the protocol, in which it can ask: call it again."
)
NOBODY_TO_ASK = "The tool has a question, and the host of this call takes none."
PATIENCE_S = 1.0
"""How long a start keeps others waiting, when as many are at it as may."""
QUIET_S = 3.0
"""How long a call waits for a start without a word."""
_NO_ANSWER_YET = "its server was started or reached, and has not answered yet"
MOST_SILENCES = 3
FIRST_REST_S, LONGEST_REST_S = 1.0, 30.0
"""For so long a server that could not be started is not tried again, doubled with each failure."""


@asynccontextmanager
async def calling_pool(launch_of: LaunchOf, settings: Settings) -> AsyncGenerator["Pool"]:
    """A pool for as long as the block; leaving it closes all connections within 2 s, and ends their processes."""
    from waygraph.ingest.upstream.open import connect  # imports the SDK

    error: Exception | None = None
    async with anyio.create_task_group() as tasks:
        pool = Pool(tasks, launch_of, settings, SystemClock(), partial(connect, settings=settings, follow=False))
        try:
            yield pool
        except Exception as exc:  # noqa: BLE001 - handed on as it is: the task group would wrap it
            error = exc
        finally:
            pool.close()
            tasks.cancel_scope.cancel()
    if error is not None:
        raise error


class Pool:
    """Made by `calling_pool`."""

    def __init__(
        self, tasks: TaskGroup, launch_of: LaunchOf, settings: Settings, clock: Clock, connect: OpenConnections
    ) -> None:
        self._tasks, self._launch_of = tasks, launch_of
        self._idle_s = settings.call_idle_s
        self._clock, self._connect = clock, connect
        self._starts = Starts(settings.upstream_starts_at_once, PATIENCE_S, clock)
        self._lines: dict[_Key, _Line] = {}
        self._failures = FIFOCache[_Key, _Failure](MOST_AGENTS)
        self._muted = FIFOCache[_Key, Launch](MOST_AGENTS)
        """By which launch a server could not ask."""
        self._stood = FIFOCache[_Key, Launch](MOST_AGENTS)
        """By which launch a server was started well."""
        self._changes: dict[_Line, int] = {}
        self._is_closed = False

    @property
    def open(self) -> frozenset[str]:
        """Ids of the agents whose connection stands."""
        return frozenset(agent_id for (agent_id, _), line in self._lines.items() if line.is_open)

    @property
    def open_of_users(self) -> int:
        """How many connections stand, or are being opened, of which each is one user's."""
        return sum(bool(user) for _, user in self._lines)

    async def call(self, call: ToolCall, acting: "ActingCaller | None" = None) -> Result:
        """The answer of the agent's server, which is started if it does not run. `acting` None: it is called with the
        operator's login.

        A request that did not reach the server is made once more, over a new connection. Raises what
        `CallConnection.call` and `launch_of` raise.
        """
        for is_last in (False, True):
            line = await self._line(call.agent, acting)
            async with line.use(call.host) as connection:
                try:
                    return await connection.call(
                        call.tool.name,
                        call.arguments,
                        host=call.host,
                        input_schema=call.tool.input_schema,
                        method=call.method,
                    )
                except NotDelivered:
                    line.retire()
                    if is_last:
                        raise
                except UpstreamAnswered as error:
                    raise self._note_error(_key(call.agent, acting), line, error, call.host) from None
        raise AssertionError("unreachable")

    def take_changes(self) -> bool:
        """Whether a server that runs has told since this was last asked that a list of its has changed.

        What a server tells a user over their own connection is for no other caller, and counts not.
        """
        before = self._changes
        self._changes = {line: line.change_count for (_, user), line in self._lines.items() if not user}
        return any(count > before.get(line, 0) for line, count in self._changes.items())

    def close(self) -> None:
        """No call is taken any more. The connections end with the task group."""
        self._is_closed = True

    async def _line(self, agent: Agent, acting: "ActingCaller | None" = None) -> "_Line":
        """One that stands or is being started. Raises UpstreamError."""
        self._refuse_if_closed()
        key = _key(agent, acting)
        try:
            launch = await (acting.launch() if acting else self._launch_of(agent))
        except NotRun:
            if acting and (line := self._lines.get(key)):
                line.retire()  # who has no login any more has no connection by it either
            raise
        if self._muted.get(key) == launch:
            launch = replace(launch, handshake=True)
        self._refuse_if_closed()  # it may have been while the launch was looked for
        if (line := self._lines.get(key)) is not None and line.takes_calls and line.launch == launch:
            return line
        if line is not None:
            line.retire()
        return self._begin_line(key, launch)

    def _note_error(self, key: _Key, line: "_Line", error: UpstreamAnswered, host: Host) -> UpstreamAnswered:
        """Servers whose tools ask by a request of their own can do so in the handshake era alone, and find that out
        when they run. The tool is not run again: nobody knows how far it came, and a host that takes no questions
        would be told no other thing.
        """
        if line.launch.handshake or _NO_WAY_BACK not in error.message:
            return error
        if not any(host.can(question) for question in QUESTIONS):
            return UpstreamAnswered(error.code, f"{error.message} {NOBODY_TO_ASK}", error.data)
        self._muted[key] = line.launch
        line.retire()
        return UpstreamAnswered(error.code, f"{error.message} {ASK_AGAIN}", error.data, retryable=True)

    def _refuse_if_closed(self) -> None:
        if self._is_closed:
            raise UpstreamUnreachable(STOPPING)

    def _begin_line(self, key: _Key, launch: Launch) -> "_Line":
        """Raises UpstreamError at once, if the last try failed a short while ago."""
        failure = self._failures.get(key)
        if failure is not None and failure.launch == launch and (left_s := failure.until_s - self._clock.now_s()) > 0:
            raise failure.again(left_s)
        if key[1]:  # makes room for one more connection of a user
            lines = [line for (_, user), line in self._lines.items() if user and line.is_unused]
            more = max(0, self.open_of_users - MOST_USER_LINES + 1)
            for line in sorted(lines, key=lambda line: line.used_s)[:more]:
                line.retire()
        self._lines[key] = line = _Line(launch, self._clock, self._idle_s)
        self._tasks.start_soon(self._run, key, line)
        return line

    async def _run(self, key: _Key, line: "_Line") -> None:
        """The task of one connection. Never raises."""
        try:
            async with AsyncExitStack() as stack:
                # A place among those that start is held only until the connection stands; an address needs none.
                async with nullcontext() if isinstance(line.launch, HttpLaunch) else self._starts.place():
                    connection = await stack.enter_async_context(self._connect(line.launch))
                self._failures.pop(key, None)
                self._stood[key] = line.launch
                await line.serve(connection)
        except Exception as exc:  # noqa: BLE001 - one server's fault must not end the connections of all
            error = exc if isinstance(exc, UpstreamError) else UpstreamUnreachable(f"failed ({type(exc).__name__})")
            if line.is_waited_for:
                # The first failure of a server that stood before is chance: the next call tries again.
                if (last := self._failures.get(key)) is not None and last.launch == line.launch:
                    rest_s = min(max(2 * last.rest_s, FIRST_REST_S), LONGEST_REST_S)
                else:
                    rest_s = 0.0 if self._stood.get(key) == line.launch else FIRST_REST_S
                self._failures[key] = _Failure(line.launch, error, rest_s, self._clock.now_s() + rest_s)
            line.fail(error)
        finally:
            line.fail(UpstreamUnreachable(STOPPING))
            if self._lines.get(key) is line:
                del self._lines[key]


def _key(agent: Agent, acting: "ActingCaller | None") -> _Key:
    return agent.id, acting.user if acting else ""


@dataclass(frozen=True, slots=True)
class _Failure:
    """A start that failed, until when it is remembered, and for how long that is."""

    launch: Launch
    error: UpstreamError
    rest_s: float
    until_s: float

    def again(self, left_s: float) -> UpstreamError:
        return self.error.again(f"{self.error.reason}; it is tried again by the first call after {left_s:.1f} s")


class _Line:
    """A connection from its start to its end, and the calls that use it."""

    def __init__(self, launch: Launch, clock: Clock, idle_s: float) -> None:
        self.launch = launch
        self.is_over = False
        """No call begins on it any more."""
        self._clock, self._idle_s = clock, idle_s
        self._connection: CallConnection | None = None
        self._failure: UpstreamError | None = None
        self._settled = anyio.Event()
        self._stirred = anyio.Event()
        self._calls = 0
        self._message_count = self._silences = 0
        """How many messages had come at the last silence, and how many calls in a row were given up since."""
        self._is_waited_to_rest = False
        self.used_s = clock.now_s()

    @property
    def is_open(self) -> bool:
        return self._connection is not None and self.takes_calls

    @property
    def change_count(self) -> int:
        return self._connection.change_count if self._connection else 0

    @property
    def takes_calls(self) -> bool:
        return not self.is_over and (self._connection is None or self._connection.is_open)

    @property
    def is_unused(self) -> bool:
        return self.is_open and not self._calls

    @property
    def is_waited_for(self) -> bool:
        """Whether it has neither been opened nor failed."""
        return not self._settled.is_set()

    @asynccontextmanager
    async def use(self, host: Host | None = None) -> AsyncIterator[CallConnection]:
        """The connection, once it stands; it stays while it is used. Raises UpstreamError.

        `host` hears of a long wait. Without who waits for it the start goes on.
        """
        self._calls += 1
        try:
            if self._connection is None:
                with anyio.move_on_after(QUIET_S):
                    await self._settled.wait()
                if host and not self._settled.is_set():
                    await host.progress(0, None, _NO_ANSWER_YET)
                await self._settled.wait()
            if self._connection is None:
                raise (self._failure or UpstreamUnreachable("the connection is closed")).again()
            with self._minding_silence(self._connection):
                yield self._connection
        finally:
            self._calls -= 1
            self.used_s = self._clock.now_s()
            if self._is_waited_to_rest:
                self._stirred.set()

    @contextmanager
    def _minding_silence(self, connection: CallConnection) -> Iterator[None]:
        """A server that hangs does not end by itself: after some calls without a word the next one has a new one."""
        count_before = connection.message_count
        try:
            yield
        except anyio.get_cancelled_exc_class():
            if connection.message_count != self._message_count:
                self._message_count, self._silences = connection.message_count, 0
            self._silences += connection.message_count == count_before
            if self._silences >= MOST_SILENCES:
                self.retire()
            raise

    def retire(self) -> None:
        """It ends with the last of its calls."""
        self.is_over = True
        self._stirred.set()

    def fail(self, error: UpstreamError) -> None:
        """Whoever waits for it learns this; without effect once it was opened."""
        self.is_over = True
        if not self._settled.is_set():
            self._failure = error
            self._settled.set()

    async def serve(self, connection: CallConnection) -> None:
        """Returns when the connection has ended, or nobody needs it."""
        self._connection = connection
        self.used_s = self._clock.now_s()
        self._settled.set()
        try:
            await first_of(connection.await_end, self._await_disuse)
        finally:
            self.is_over = True

    async def _await_disuse(self) -> None:
        while self._calls or not self.is_over:
            left_s = self.used_s + self._idle_s - self._clock.now_s()
            if not self._calls and left_s <= 0:
                self.is_over = True  # before anything waits: no call may begin on it now
                return
            self._stirred = anyio.Event()
            if self._calls:
                self._is_waited_to_rest = True
                await self._stirred.wait()
                self._is_waited_to_rest = False
            else:  # a call meanwhile wakes nobody: what is left is asked for anew when the time is up
                await first_of(self._stirred.wait, partial(self._clock.sleep, left_s))
