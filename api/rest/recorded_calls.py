"""The last calls that people made by REST, in memory, so that one can be looked at again: none of it is written."""

import json
from collections import deque
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from time import perf_counter
from typing import Any

from waygraph.api.rest.problems import problem_of
from waygraph.api.telemetry.audit import arguments_without_secrets
from waygraph.registry.access.visibility import Caller
from waygraph.registry.model.errors import WaygraphError
from waygraph.registry.model.usage import RecordedCall

MOST_CALLS, MOST_OF_ALL = 50, 300
"""Of each caller, and of all together: the oldest go."""
MOST_CHARS, MOST_PROBLEM_CHARS = 20_000, 2_000
"""Of arguments, and of a result, as JSON; of what a problem says, and of its facts."""


def note_result(call: RecordedCall, result: Mapping[str, Any]) -> None:
    """It may take a while: a result may be large."""
    call.outcome = "tool_error" if result.get("isError") is True else "ok"
    text = _without_secrets(result)
    call.result, call.result_chars = text[:MOST_CHARS], len(text)


class RecordedCalls:
    """One thread writes it, and any may read."""

    def __init__(self) -> None:
        self._calls = deque[RecordedCall](maxlen=MOST_OF_ALL)

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
            own = [each for each in self._calls if each.caller == call.caller]
            if len(own) == MOST_CALLS:
                self._calls.remove(own[0])
            self._calls.append(call)

    def list(self, caller_id: str) -> list[RecordedCall]:
        """The newest first. Empty: those of all callers."""
        calls = [call for call in tuple(self._calls) if caller_id in ("", call.caller)]
        return sorted(calls, key=lambda call: (call.at, call.id), reverse=True)


def _cut(problem: Mapping[str, Any]) -> dict[str, Any]:
    """Without secrets, and without facts that are too long."""
    parts = arguments_without_secrets(problem)
    facts = parts["facts"] if len(json.dumps(parts["facts"], default=str)) <= MOST_PROBLEM_CHARS else {}
    return {**parts, "detail": parts["detail"][:MOST_PROBLEM_CHARS], "facts": facts}


def _without_secrets(document: Mapping[str, Any]) -> str:
    return json.dumps(arguments_without_secrets(document), ensure_ascii=False)
