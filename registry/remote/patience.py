"""Whether a call is sent again, and when.

A call that changes nothing is sent again after whatever may pass: a connection refused or broken, 502, 503, 504, 429.
One that writes only where nothing was done for certain:
- no connection came about, so that nothing was sent;
- 429: a service counts a request before it looks at it, as does what stands before one;
- 503 with the problem `registry-locked`: the writer never got its turn.
After anything else a write may have been done, as when the connection broke: then its caller has to look.
No answer in time is told at once, for reads too: a service that is too slow is not helped by another request.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from waygraph.registry.backoff import wait_s
from waygraph.registry.remote.answers import OF_GATEWAYS, Broken, problem_in
from waygraph.registry.remote.call import Call, Reply

_NOTHING_DONE = "registry-locked"
_TOO_MANY = 429
_JITTER_SHARE = 0.25
"""So much longer than asked is waited, at most: many who are told the same do not come back as one."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Patience:
    """`retries`: how often a call is sent again at most, and not later than `total_s` after it was first sent.

    `clock` gives seconds that only grow, `jitter` a number in [0, 1).
    """

    retries: int
    total_s: float
    clock: Callable[[], float]
    jitter: Callable[[], float]

    def attempts(self, call: Call[Any]) -> "Attempts":
        return Attempts(self, call)


class Attempts:
    """Of one call: made when it is first sent."""

    def __init__(self, patience: Patience, call: Call[Any]) -> None:
        self._patience, self._call = patience, call
        self._failed = 0
        self._ends_at = patience.clock() + patience.total_s

    def wait_s(self, seen: Reply | Broken) -> float | None:
        """How long to wait before the call is sent again; None: it is not."""
        if self._failed >= self._patience.retries or not may_be_sent_again(self._call, seen):
            return None
        waited_s = self._pause_s(seen)
        self._failed += 1
        return waited_s if self._patience.clock() + waited_s <= self._ends_at else None

    def _pause_s(self, seen: Reply | Broken) -> float:
        asked = seen.headers.get("retry-after") if isinstance(seen, Reply) else None
        own_s = wait_s(self._failed, asked, self._patience.jitter)
        return own_s if asked is None else own_s * (1 + _JITTER_SHARE * self._patience.jitter())


def may_be_sent_again(call: Call[Any], seen: Reply | Broken) -> bool:
    if isinstance(seen, Broken):
        return seen.passing and (call.safe or not seen.sent)
    if seen.status == _TOO_MANY:
        return True
    if seen.status not in OF_GATEWAYS:
        return False
    problem = problem_in(seen)
    if call.safe:
        return problem is None or problem.get("retryable") is True
    return problem is not None and problem.get("code") == _NOTHING_DONE
