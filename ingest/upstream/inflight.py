"""The calls under way on one connection, and which of them a message of the server belongs to."""

import logging
from collections import deque
from collections.abc import Awaitable, Callable, Iterator, Mapping
from contextlib import contextmanager
from contextvars import Context, ContextVar, copy_context
from dataclasses import dataclass, field
from typing import Any, get_args

import anyio
from anyio.abc import TaskGroup
from mcp.types import LoggingLevel, RequestId

from waygraph.ingest.manifest.redaction import Discretion
from waygraph.ingest.upstream.connection import Host
from waygraph.registry.model.numbers import read_digits, read_number, read_whole

MOST_NOTICES, MOST_NOTICE_CHARS = 256, 64 * 1024
"""So much waits for a host that does not keep up; then the oldest is lost."""
MOST_LOGS = 500
"""So many entries of one call are handed on; of the others their number."""
LAST_NOTICES_S = 1.0
"""How long a result waits for the notices before it, if the host is slow to take them."""
LEFT_S = 10.0
"""How long a server may go on with a call that was given up: what it says may still be of that one."""
ANSWERED_S = 1.0
"""How long it may still speak of one that it has answered. Longer would cost hosts that take turns what is theirs."""

_LEVELS: tuple[str, ...] = get_args(LoggingLevel)
"""The loudest first."""
_log = logging.getLogger(__name__)

_Notice = Callable[[], Awaitable[None]]


@dataclass(slots=True, eq=False)
class Underway:
    """One call. `request_id`: of the message that asks for it, once it is on its way."""

    host: Host
    token: int
    tasks: TaskGroup
    discretion: Discretion
    request_id: RequestId | None = None
    is_delivered: bool = True
    """False: the message that asks for it did not reach the server, so that the tool did not run."""
    context: Context = field(default_factory=copy_context)
    """Of who called: what the server asks belongs to their trace."""
    has_begun: bool = False
    """The server has answered by questions: whatever becomes of the later messages, the tool ran that far."""
    is_over: bool = False
    scopes: set[anyio.CancelScope] = field(default_factory=set)
    """What runs on its behalf and ends with it."""
    _notices: deque[_Notice] = field(default_factory=lambda: deque(maxlen=MOST_NOTICES))
    _log_count: int = 0
    _loss_count: int = 0
    """Log entries, and notices that the host was too slow for."""
    _quiet: anyio.Event | None = None
    """While notices are being handed on; set when all are."""

    @property
    def may_have_run(self) -> bool:
        return self.has_begun or (self.is_delivered and self.request_id is not None)

    def note_progress(self, params: Mapping[str, Any]) -> None:
        amount, total = read_number(params.get("progress")), read_number(params.get("total"))
        message = params.get("message")
        if amount is not None:
            text = self.discretion.strike(message[:MOST_NOTICE_CHARS]) if isinstance(message, str) else None
            self._note(lambda: self.host.progress(amount, total, text))

    def note_log(self, params: Mapping[str, Any]) -> None:
        self._log_count += 1
        if self._log_count > MOST_LOGS:
            self._loss_count += 1
            return
        level, logger = str(params.get("level")), params.get("logger")
        kind = level if level in _LEVELS else "info"
        data = self.discretion.redact_data(params.get("data"), MOST_NOTICE_CHARS)
        name = self.discretion.line(logger) if isinstance(logger, str) else None
        self._note(lambda: self.host.log(kind, data, name))

    def _note(self, notice: _Notice) -> None:
        self._loss_count += len(self._notices) == MOST_NOTICES
        self._notices.append(notice)
        if self._quiet is None:
            self._quiet = anyio.Event()
            self.tasks.start_soon(self._hand_on, self._quiet)

    async def _hand_on(self, quiet: anyio.Event) -> None:
        """One after the other, in the server's order."""
        scope = anyio.CancelScope()
        self.scopes.add(scope)
        try:
            with scope:
                while self._notices:
                    await self._notices.popleft()()
        except Exception as exc:  # noqa: BLE001 - a fault of one host must not end the connection of all
            _log.warning("a host failed to take what a server told (%s)", type(exc).__name__)
        finally:
            self.scopes.discard(scope)
            self._quiet = None
            quiet.set()

    async def await_notices(self) -> None:
        """Returns when the host has heard what the server said before the result; does not wait for long."""
        if self._loss_count:  # counted when it is handed on: a full queue loses one more for it
            note = "{:,} more messages of this call were left out"
            self._note(lambda: self.host.log("warning", note.format(self._loss_count), None))
        if self._quiet is not None:
            with anyio.move_on_after(LAST_NOTICES_S):
                await self._quiet.wait()

    def end(self) -> None:
        self.is_over = True
        self._notices.clear()
        for scope in list(self.scopes):
            scope.cancel()


class _Lately:
    """Whose calls are over, each for so long as the server may still speak of the last one.

    Two are kept: they tell whether there is any but a given one, however many calls there are.
    """

    def __init__(self, for_s: float) -> None:
        self._for_s = for_s
        self._entries: list[tuple[float, object]] = []

    def add(self, whose: object) -> None:
        others = [entry for entry in self._entries if entry[1] != whose]
        self._entries = [*others[-1:], (anyio.current_time() + self._for_s, whose)]

    def has_other_than(self, whose: object) -> bool:
        now = anyio.current_time()
        return any(until_s >= now and owner != whose for until_s, owner in self._entries)


class CallsUnderway:
    """All of one connection. Messages come in by the wire, in its task: nothing here waits."""

    def __init__(self, discretion: Discretion) -> None:
        self.tasks: TaskGroup | None = None
        """Of the connection, while it serves."""
        self.level = ""
        """How loud the server was told to be; empty: it was not told."""
        self._discretion = discretion
        self._calls: dict[int, Underway] = {}
        self._left, self._answered = _Lately(LEFT_S), _Lately(ANSWERED_S)
        self._last_token = 0

    @contextmanager
    def begin(self, host: Host, tasks: TaskGroup) -> Iterator[Underway]:
        """A call, for as long as it runs: messages that are sent inside know it by their context."""
        self._last_token += 1
        call = Underway(host, self._last_token, tasks, self._discretion)
        self._calls[call.token] = call
        previous = _CALL.set(call)
        try:
            yield call
        finally:
            _CALL.reset(previous)
            del self._calls[call.token]
            self._answered.add(call.host.owner)
            call.end()

    def loudest(self) -> str:
        """The level of the host, of those with a call here, that wants to hear most; empty: none has ever said.

        Who has not said is not to lose what it would hear because another one wants less.
        """
        if (levels := {call.host.log_level for call in self._calls.values()}) <= {""} and not self.level:
            return ""
        return min((level or LOG_LEVEL for level in levels), key=_LEVELS.index)

    def leave(self, call: Underway) -> None:
        """Given up before its answer came: the server may go on with it for a while."""
        self._left.add(call.host)

    # -- what the wire tells -----------------------------------------------------------------------

    def sending(self, request_id: RequestId) -> None:
        if (call := _CALL.get()) is not None:
            call.request_id = request_id

    def note_undelivered(self, request_id: RequestId) -> None:
        for call in self._calls.values():
            if call.request_id == request_id:
                call.is_delivered = False

    def notice(self, method: str, params: Mapping[str, Any], context: Context | None) -> None:
        """Progress names its call by its token; a log entry goes to whose call it must be."""
        if method == "notifications/progress":
            if (call := self._calls.get(_number(params.get("progressToken")))) is not None:
                call.note_progress(params)
        elif (call := self.call_for(context)) is not None:
            call.note_log(params)

    def call_for(self, context: Context | None) -> Underway | None:
        """The call that a message without a call's name must belong to; None where it may be another's.

        Over HTTP it comes as an answer to its call, which its context tells. Elsewhere all calls that the server may
        be at, or not be done with, must be one host's.
        """
        if context is not None and (call := context.get(_CALL)) is not None:
            return call if call.token in self._calls else None
        if not self._calls:
            return None
        latest = next(reversed(self._calls.values()))
        host = latest.host
        is_another_s = self._left.has_other_than(host) or self._answered.has_other_than(host.owner)
        return None if is_another_s or any(call.host != host for call in self._calls.values()) else latest

    def __len__(self) -> int:
        return len(self._calls)


_CALL: ContextVar[Underway | None] = ContextVar("call_upstream", default=None)


def _number(token: object) -> int:
    """Some servers make a text of a number; 0 is no call's."""
    return (read_digits(token) if isinstance(token, str) else read_whole(token, 0)) or 0


LOG_LEVEL = "info"
"""From which level on a host hears that has not said."""
