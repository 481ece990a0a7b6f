"""The last calls that people made by REST, in memory, so that one can be looked at again: none of it is written."""

import json
import secrets
import sys
from collections import deque
from collections.abc import Iterator, Mapping
from concurrent.futures import Future, wait
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import UTC, datetime
from threading import Lock
from time import perf_counter
from typing import TYPE_CHECKING, Any

from waygraph.api.rest.problems import problem_of
from waygraph.api.telemetry.audit import arguments_without_secrets
from waygraph.registry.model.errors import WaygraphError
from waygraph.registry.model.usage import Outcome

if TYPE_CHECKING:
    from waygraph.registry.access.visibility import Caller

MOST_CALLS = 50
"""Of each caller."""
MOST_BYTES = 16 * 1024 * 1024
"""Of all calls together: the oldest go."""
MOST_CHARS, MOST_PROBLEM_CHARS = 20_000, 2_000
"""Of arguments, and of a result, as JSON; of what a problem says, and of its facts."""
NOTING_S = 5.0
_OVERHEAD_BYTES = 4_096
"""More than a call takes beside its texts."""


@dataclass(kw_only=True, eq=False)
class RecordedCall:
    """`tool` is the name that was called; `arguments` and `result` are JSON without secrets, maybe cut."""

    id: str = field(default_factory=lambda: secrets.token_urlsafe(12))
    caller: str
    caller_name: str
    tool: str
    at: str = field(default_factory=lambda: datetime.now(UTC).isoformat(timespec="milliseconds"))
    duration_ms: float = 0.0
    outcome: Outcome = "ok"
    arguments: str
    result: str = ""
    result_chars: int = 0
    problem: dict[str, Any] | None = None

    @property
    def size_bytes(self) -> int:
        texts = (self.tool, self.arguments, self.result, str(self.problem))
        return _OVERHEAD_BYTES + sum(map(sys.getsizeof, texts))

    def note_result(self, result: Mapping[str, Any]) -> None:
        """It may take a while: a result may be large."""
        self.outcome = "tool_error" if result.get("isError") is True else "ok"
        text = _without_secrets(result)
        self.result, self.result_chars = text[:MOST_CHARS], len(text)


class RecordedCalls:
    """Threads may share it."""

    def __init__(self) -> None:
        self._calls = deque[RecordedCall]()
        self._bytes, self._lock, self._notes = 0, Lock(), set[Future[None]]()

    def note(self, noting: Future[None]) -> None:
        """What a call gave is being noted: lists wait for it, and not the call's answer."""
        self._notes.add(noting)
        noting.add_done_callback(self._notes.discard)

    @contextmanager
    def record(self, caller: "Caller", tool: str, arguments: Mapping[str, Any]) -> Iterator[RecordedCall]:
        """Keeps what happens within, however it ends."""
        text = _without_secrets(arguments)[:MOST_CHARS]
        call = RecordedCall(caller=caller.id, caller_name=caller.name, tool=tool, arguments=text)
        start_s = perf_counter()
        try:
            yield call
        except BaseException as error:
            from waygraph.api.mcp.calls import CallRecord

            call.outcome = CallRecord().outcome(error)
            call.problem = _cut(problem_of(error)) if isinstance(error, WaygraphError) else None
            raise
        finally:
            call.duration_ms = round((perf_counter() - start_s) * 1000, 3)
            self._keep(call)

    def _keep(self, call: RecordedCall) -> None:
        with self._lock:
            self._calls.append(call)
            self._bytes += call.size_bytes
            own = [each for each in self._calls if each.caller == call.caller]
            if len(own) > MOST_CALLS:
                self._calls.remove(own[0])
                self._bytes -= own[0].size_bytes
            while self._bytes > MOST_BYTES:
                self._bytes -= self._calls.popleft().size_bytes

    def list(self, caller_id: str) -> list[RecordedCall]:
        """The newest first. Empty: those of all callers."""
        wait(self._notes.copy(), NOTING_S)
        with self._lock:
            calls = [call for call in self._calls if caller_id in ("", call.caller)]
        return sorted(calls, key=lambda call: (call.at, call.id), reverse=True)


def _cut(problem: Mapping[str, Any]) -> dict[str, Any]:
    """Without secrets, and without facts that are too long."""
    parts = arguments_without_secrets(problem)
    facts = parts["facts"] if len(json.dumps(parts["facts"], default=str)) <= MOST_PROBLEM_CHARS else {}
    return {**parts, "detail": parts["detail"][:MOST_PROBLEM_CHARS], "facts": facts}


def _without_secrets(document: Mapping[str, Any]) -> str:
    return json.dumps(arguments_without_secrets(document), ensure_ascii=False)
