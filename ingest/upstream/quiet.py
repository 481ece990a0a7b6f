"""The SDK's log records stay out of ours: they hold payloads, and URLs with what stands in them.

Only what is logged while an upstream is talked to is dropped; the same loggers stay loud elsewhere.
"""

import logging
from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar

_LOGGERS = frozenset({"client", "httpcore2", "httpx2", "mcp"})
"""The first parts of the names; the SDK's session logs as `client`."""

_talking: ContextVar[bool] = ContextVar("talking_upstream", default=False)


@contextmanager
def quietly() -> Iterator[None]:
    """Inside it, and in tasks started inside it, those loggers say nothing."""
    token = _talking.set(True)
    try:
        yield
    finally:
        _talking.reset(token)


def hush() -> None:
    """Reaches the loggers that exist by now: called when the SDK is imported."""
    for name in list(logging.root.manager.loggerDict):
        if name.partition(".")[0] in _LOGGERS:
            logging.getLogger(name).addFilter(_is_ours)


def _is_ours(_: logging.LogRecord) -> bool:
    return not _talking.get()
