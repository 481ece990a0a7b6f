"""What time it is, told in one way."""

from datetime import UTC, datetime


def now() -> str:
    """ISO 8601 in UTC, to the microsecond: which claim is the earlier one is told by it."""
    return datetime.now(UTC).isoformat(timespec="microseconds")
