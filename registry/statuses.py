"""The words of an agent's status: what was last known of whether it answers."""

import re
from typing import Literal

Word = Literal["known", "online", "unreachable", "failing"]
KNOWN, ONLINE = "known", "online"
"""Never asked; answered when it was last asked."""
UNREACHABLE, FAILING = "unreachable since ", "failing: "
MAX_REASON_CHARS = 200
_UNREACHABLE = re.compile(re.escape(UNREACHABLE) + r"\d{4}-\d\d-\d\d[^\s]*: \S.*")
_FAILING = re.compile(re.escape(FAILING) + r"\S.*")


def unreachable(since: str, reason: str) -> str:
    """Cannot be reached since then (ISO 8601), as far as one knows."""
    return f"{UNREACHABLE}{since}: {_one_line(reason)}"


def failing(reason: str) -> str:
    """Answers, but not as it should."""
    return f"{FAILING}{_one_line(reason)}"


def reachable(status: str) -> bool:
    """Whether nothing speaks against it: it answered when it was last asked, or was never asked."""
    return not status.startswith((UNREACHABLE, FAILING))


def is_status(text: str) -> bool:
    """Whether it is one of the four."""
    return text in (KNOWN, ONLINE) or bool(_UNREACHABLE.fullmatch(text) or _FAILING.fullmatch(text))


def word_of(status: str) -> Word:
    """Which of the four it is."""
    if status.startswith(UNREACHABLE):
        return "unreachable"
    if status.startswith(FAILING):
        return "failing"
    return "online" if status == ONLINE else "known"


def unreachable_since(status: str) -> str:
    """The time it tells, ISO 8601; empty for another status."""
    return status.removeprefix(UNREACHABLE).partition(": ")[0] if status.startswith(UNREACHABLE) else ""


def continued(held: str, now: str) -> str:
    """`now`, dated from the beginning of the outage where the server was gone before."""
    since = unreachable_since(held)
    if not since or word_of(now) != "unreachable":
        return now
    return unreachable(since, now.removeprefix(UNREACHABLE).partition(": ")[2])


def _one_line(reason: str) -> str:
    """White space as single spaces, not overlong, not empty."""
    line = " ".join(reason.split()) or "no reason given"
    return line if len(line) <= MAX_REASON_CHARS else line[: MAX_REASON_CHARS - 1] + "…"
