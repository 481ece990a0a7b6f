"""How long to wait before a request is repeated."""

from collections.abc import Callable
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime

FIRST_WAIT_S = 0.5
LONGEST_WAIT_S = 60.0


def wait_s(attempt: int, retry_after: str | None, jitter: Callable[[], float]) -> float:
    """What the server asks for, else exponential (0.5 s, 1 s, 2 s …, with 50 to 100 % of it by chance); ≤ 60 s.

    `attempt` counts from 0; `jitter` gives a number in [0, 1), so that many clients do not come back as one.
    """
    asked = _asked_s(retry_after)
    if asked is not None:
        return min(max(asked, 0.0), LONGEST_WAIT_S)
    return backoff_s(attempt, jitter, FIRST_WAIT_S, LONGEST_WAIT_S)


def backoff_s(attempt: int, jitter: Callable[[], float], first_s: float, longest_s: float) -> float:
    """`first_s`, doubled at each attempt up to `longest_s`, of which chance takes up to a half. As in `wait_s`."""
    return min(first_s * 2.0 ** min(attempt, 64), longest_s) * (0.5 + jitter() / 2)


def _asked_s(retry_after: str | None) -> float | None:
    """A Retry-After header (RFC 9110, 10.2.3): seconds, or a date."""
    if retry_after is None:
        return None
    if retry_after.strip().isdecimal():
        return float(retry_after)
    try:
        return (parsedate_to_datetime(retry_after).astimezone(UTC) - datetime.now(UTC)).total_seconds()
    except (ValueError, OverflowError):  # no date, or in UTC one before the year 1 or after 9999
        return None
