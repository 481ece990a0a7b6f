"""Log lines of the service, its own and those of the libraries, as JSON; one stream for all.

Every line says `time`, `level` and `event`. What is bound in `structlog.contextvars` (the request's id, the caller)
is on every line of a request, also in the threads that work for it.
"""

import logging
import re
from collections.abc import Callable, Iterable, MutableMapping
from functools import cached_property
from threading import Lock
from typing import TYPE_CHECKING, Any, TextIO

from waygraph.registry.model.errors import InvalidSetting

if TYPE_CHECKING:
    from structlog.typing import FilteringBoundLogger, Processor

    Logger = FilteringBoundLogger


# Secrets taken out of text that is about to be logged: messages of libraries, texts of exceptions, paths.
#
# Nothing of ours logs a header, a body or a query string. This is for text that others wrote, where a key may stand.


MASK = "***"

_KEY = re.compile(
    r"(?P<own>wg_[0-9A-Za-z]+_)[\w-]+"  # the id of a key of ours is public, what follows is not
    r"|(?<![\w-])(?P<of_others>sk-|glpat-|xox[abeprs]-)[\w-]{8,}"  # OpenAI and others, GitLab, Slack
    r"|(?<!\w)(?P<plain>gh[opsur]_|github_pat_|hf_|npm_|[rs]k_(?:live|test)_)[0-9A-Za-z]{16}\w*"
    r"|(?<!\w)(?P<of_clouds>AKIA|ASIA|AIza)[\w-]{16,}"
    r"|(?<![\w-])eyJ[\w-]+\.[\w-]+(?:\.[\w-]*)?"  # a JSON web token
    r"|(?s:(?P<pem>-----BEGIN [A-Z ]{0,40}PRIVATE KEY-----).*?(?:-----END|\Z))"
)
_NAMES = (
    r"(?<![0-9A-Za-z])"  # a name may end in it: `db_password`, `X-Client-Secret`
    r"(?:(?:proxy-)?authorization|x-api-key|(?:api|access|private|secret)[_-]?key|(?:set-)?cookie"
    r"|passw(?:or)?d|passphrase|(?:client)?secret|(?:access|auth|bearer|id|refresh|session)?token)\b"
)
_IN_TEXT = re.compile(
    rf"(?P<named>{_NAMES}(?:\\?['\"]?\s*[:=,]\s*b?\\?['\"]|=))(?:(?:bearer|basic)\s+)?[^\s'\"\\,;)]+"
    r"|(?P<header>\b(?:authorization|x-api-key|cookie):\s*)[^\r\n'\"]+"
    r"|(?P<scheme>\b(?:bearer|basic)\s+)[\w.~+/=*-]+"
    r"|(?P<account>://)[^/\s@]+(?=@)"
    r"|(?P<query>\?)[\w.%~-]+=[^\s'\"<>]*",
    re.IGNORECASE,
)
_LEAST_CHARS = 4
"""A shorter text is no secret, and stands in every second word."""


def without_keys(text: str) -> str:
    """The text without what has the form of a key or of a token."""
    return _KEY.sub(_secret_kind, text)


def without_secrets(text: str, secrets: Iterable[str] = ()) -> str:
    """The text without keys, tokens, passwords, query strings of URLs, and the `secrets` given."""
    for secret in sorted(secrets, key=len, reverse=True):
        if len(secret) >= _LEAST_CHARS:
            text = text.replace(secret, MASK)
    return _IN_TEXT.sub(_secret_kind, without_keys(text))


def _secret_kind(match: re.Match[str]) -> str:
    """What says of which kind the secret was, and no more."""
    return next((part for part in match.groups() if part), "") + MASK


# structlog is imported where it is used: with it come the tracebacks of rich, and most processes log nothing.
LOG_LEVELS = {name: getattr(logging, name.upper()) for name in ("debug", "info", "warning", "error")}
OURS = ("waygraph", "uvicorn")
"""Loggers that speak from the chosen level on; of other libraries only warnings are heard."""
FACTS = "facts"
"""`logger.info("…", extra={FACTS: {…}})`: fields of the line."""

Event = MutableMapping[str, Any]
_FIRST = ("time", "level", "event")


class Lines:
    """Writes lines to a stream, one at a time. A stream that cannot be written to costs the line, not the request."""

    def __init__(self, stream: TextIO, on_loss: Callable[[], None]) -> None:
        self._stream, self._on_loss, self._lock = stream, on_loss, Lock()

    def write(self, line: str) -> None:
        try:
            with self._lock:
                self._stream.write(line + "\n")
                self._stream.flush()
        except (OSError, ValueError):  # a closed stream is a ValueError
            self._on_loss()

    debug = info = warning = error = critical = write


class _FromLibraries(logging.Handler):
    """Hands the records of `logging` to the same stream."""

    def __init__(self, lines: Lines) -> None:
        super().__init__()
        self._lines = lines

    @cached_property
    def _made_formatter(self) -> logging.Formatter:
        import structlog
        from structlog.stdlib import ExtraAdder, ProcessorFormatter, add_log_level, add_logger_name

        before: list[Processor] = [structlog.contextvars.merge_contextvars, add_log_level, add_logger_name]
        before += [ExtraAdder(allow=[FACTS]), _stamp(), structlog.processors.format_exc_info]
        render = structlog.processors.JSONRenderer()
        return ProcessorFormatter(
            foreign_pre_chain=before,
            processors=[ProcessorFormatter.remove_processors_meta, _redact_event, _in_order, render],
        )

    def format(self, record: logging.LogRecord) -> str:
        return self._made_formatter.format(record)

    def emit(self, record: logging.LogRecord) -> None:
        try:
            self._lines.write(self.format(record))
        except Exception:  # noqa: BLE001 - as every handler of `logging`: a bad record is told, and harms nobody
            self.handleError(record)


def open_logs(level: str, stream: TextIO, on_loss: Callable[[], None] = lambda: None) -> "Logger":
    """Sends all that this process logs to `stream`, and returns the logger of requests. Each lost line calls `on_loss`.

    Raises InvalidSetting.
    """
    import structlog

    lines, least = take_over_logging(level, stream, on_loss)
    logger: Logger = structlog.wrap_logger(
        lines,
        processors=[structlog.processors.add_log_level, _stamp(), _in_order, structlog.processors.JSONRenderer()],
        wrapper_class=structlog.make_filtering_bound_logger(least),
        context_class=dict,
    ).bind()
    return logger


def take_over_logging(level: str, stream: TextIO, on_loss: Callable[[], None] = lambda: None) -> tuple[Lines, int]:
    """Sends all that `logging` gets in this process to `stream`. Returns the lines and the least level.

    Raises InvalidSetting.
    """
    if (least := LOG_LEVELS.get(level)) is None:
        raise InvalidSetting(f"WAYGRAPH_LOG_LEVEL={level!r}: expected one of {', '.join(LOG_LEVELS)}")
    lines = Lines(stream, on_loss)
    logging.basicConfig(handlers=[_FromLibraries(lines)], level=logging.WARNING, force=True)
    for name in OURS:
        logging.getLogger(name).setLevel(least)
    access = logging.getLogger("uvicorn.access")  # what it would print of each request is in our own line
    access.handlers, access.propagate = [], False
    return lines, least


def request_id() -> str:
    """The id of the request that this work is for; empty outside of one."""
    from structlog.contextvars import get_contextvars

    return str(get_contextvars().get("request_id", ""))


def _stamp() -> "Processor":
    from structlog.processors import TimeStamper

    return TimeStamper(fmt="iso", utc=True, key="time")


def _redact_event(_: object, __: str, event: Event) -> Event:
    """With the fields of FACTS; no text holds a secret."""
    event.update(event.pop(FACTS, {}))
    return {name: without_secrets(value) if isinstance(value, str) else value for name, value in event.items()}


def _in_order(_: object, __: str, event: Event) -> Event:
    return {name: event.pop(name) for name in _FIRST} | dict(event)
