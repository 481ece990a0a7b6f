"""The audit: a line for every write, Cypher statement and call of a tool that was tried. Who, what, when, how it ended.

Lines go to the logger `waygraph.audit`, and to a file of their own if there is one.
"""

import json
import logging
import os
import re
import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from threading import Lock
from typing import TYPE_CHECKING, Any, Literal

from waygraph.api.telemetry.logs import FACTS, MASK, request_id, without_keys, without_secrets
from waygraph.ingest.manifest.transport import names_secret
from waygraph.registry.model import errors

if TYPE_CHECKING:
    from waygraph.api.telemetry.metrics import Metrics
    from waygraph.registry.access.visibility import Caller


# Secrets taken out of the arguments of a call, where an operator wants these recorded.
#
# What a field is called decides, as for launches that sources name: in doubt a value is struck, whole.


MOST_DEPTH = 64
"""What lies deeper is struck, JSON in texts included."""
_NAME = re.compile(r"[\w.-]{1,100}:?")
_LABELS = ("name", "key")


def arguments_without_secrets(arguments: Mapping[str, Any]) -> dict[str, Any]:
    """The same JSON with `***` for each value that may be a secret."""
    return _object(arguments, MOST_DEPTH)


def _audit_value(value: Any, levels: int) -> Any:
    if isinstance(value, str):
        return _text(value, levels)
    if not isinstance(value, (Mapping, list)):
        return value
    if not levels:
        return MASK
    return _object(value, levels - 1) if isinstance(value, Mapping) else list(_items(value, levels - 1))


def _object(fields: Mapping[str, Any], levels: int) -> dict[str, Any]:
    """A field may also be written as `{"name": "Authorization", "value": …}`."""
    label = next((name for name in _LABELS if name in fields), "") if "value" in fields else ""

    def member_value(name: str, value: Any) -> Any:
        key = fields[label] if label and name == "value" else name
        is_secret = name != label and isinstance(key, str) and names_secret(key) and _may_hold(value)
        return MASK if is_secret else _audit_value(value, levels)

    return {without_keys(name): member_value(name, value) for name, value in fields.items()}


def _items(values: Sequence[Any], levels: int) -> Iterator[Any]:
    """What follows a name of a secret is one: `["--token", …]`, `["Authorization", …]`."""
    before: Any = None
    for value in values:
        is_named = isinstance(before, str) and _NAME.fullmatch(before) and names_secret(before)
        yield MASK if is_named and _may_hold(value) else _audit_value(value, levels)
        before = value


def _text(text: str, levels: int) -> str:
    """JSON by its fields, any other text by what stands in it."""
    if text.lstrip()[:1] not in ("{", "["):
        return without_secrets(text)
    try:
        document = json.loads(text)
    except (ValueError, RecursionError):
        return without_secrets(text)
    return json.dumps(_audit_value(document, levels), ensure_ascii=False)


def _may_hold(value: object) -> bool:
    return value is not None and not isinstance(value, bool)


Action = Literal["ingest", "approve", "reject", "set", "remove", "forget", "cypher", "call", "login", "logout"]
"""What was tried. A closed set: it is a label of the metrics."""
Outcome = Literal["ok", "refused", "failed"]
Fact = str | int | float | bool | None

TARGET_CHARS = 2_000
"""Of a statement or another target."""
SAID_CHARS = 4_000
"""Of what is said of it."""
REFUSALS = (
    *(errors.AccessError, errors.CypherBusy, errors.CypherRefused, errors.InvalidQuery, errors.InvalidSetting),
    *(errors.MassRemoval, errors.NotRun, errors.SourceError, errors.TextDiffers, errors.UnknownName),
)
"""Errors by which nothing was begun; others are failures."""

logger = logging.getLogger("waygraph.audit")


class AuditFile:
    """Appends lines to a file that only its owner reads; one that was moved away or removed is made anew.

    A line is one write in append mode, so that several processes may share the file. Raises InvalidSetting at once if
    it cannot be written.
    """

    def __init__(self, path: Path) -> None:
        self._path, self._lock, self._is_cut = path, Lock(), False
        try:
            self._file = self._open()
        except OSError as exc:
            raise errors.InvalidSetting(f"WAYGRAPH_AUDIT_FILE={str(path)!r} cannot be written: {exc.strerror}") from exc

    def append(self, line: str) -> None:
        """Raises OSError."""
        with self._lock:
            if self._is_gone():
                old, self._file = self._file, self._open()
                os.close(old)
            data = b"\n" * self._is_cut + line.encode() + b"\n"  # a line that was cut takes the next one not along
            self._is_cut = os.write(self._file, data) != len(data)
            if self._is_cut:
                raise OSError("the line was cut, as the disk is full")

    def close(self) -> None:
        with self._lock:
            if self._file >= 0:
                os.close(self._file)
                self._file = -1

    def _open(self) -> int:
        file = os.open(self._path, os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_CLOEXEC, 0o600)
        if os.fstat(file).st_mode & 0o077:
            os.fchmod(file, 0o600)
        return file

    def _is_gone(self) -> bool:
        try:
            there, open_file = os.stat(self._path), os.fstat(self._file)
        except FileNotFoundError:
            return True
        return (there.st_dev, there.st_ino) != (open_file.st_dev, open_file.st_ino)


@dataclass(slots=True)
class Attempt:
    """What is being tried. Within it, `target` may be set, and once it is done `revision`.

    `error`: the code of an error that was returned and not raised.
    """

    target: str
    revision: int | None = None
    error: str = ""


class Audit:
    """Records what was tried, and counts it. Threads may share it. Raises InvalidSetting for a file not writable."""

    def __init__(self, path: Path | None = None, *, metrics: "Metrics | None" = None) -> None:
        self._file = AuditFile(path) if path else None
        self._metrics = metrics

    @contextmanager
    def attempt(self, caller: "Caller", action: Action, target: str, **facts: Any) -> Iterator[Attempt]:
        """Records what happens within, with what `record` takes, also if it fails: an error's type is its code."""
        start_s, attempt = time.perf_counter(), Attempt(target)
        outcome: Outcome = "ok"
        try:
            yield attempt
            outcome = "failed" if attempt.error else "ok"
        except BaseException as exc:
            outcome, attempt.error = "refused" if isinstance(exc, REFUSALS) else "failed", type(exc).__name__
            raise
        finally:
            facts |= {"error": attempt.error, "revision": attempt.revision}
            facts["duration_ms"] = round((time.perf_counter() - start_s) * 1000, 3)
            self.record(caller, action, attempt.target, outcome, **facts)

    def record(
        self,
        caller: "Caller",
        action: Action,
        target: str,
        outcome: Outcome,
        *,
        parameters: Iterable[str] = (),
        details: str = "",
        **facts: Fact,
    ) -> None:
        """One line. `target` is an agent, a source or a statement; of `parameters` only the names are taken;
        `details`, of the target, is JSON.

        Facts: `error` (a code), `revision` (after it), `duration_ms`. A line that the file does not take is an error
        in the log and counted, since what it tells of has been done.
        """
        line: dict[str, object] = {
            "caller": caller.id,
            "caller_name": caller.name,
            "action": action,
            **_cut("target", target, TARGET_CHARS),
            "parameters": sorted(parameters),
            "outcome": outcome,
            "request_id": request_id(),
            **(_cut("said", details, SAID_CHARS) if details else {}),
            **{name: value for name, value in facts.items() if value not in (None, "")},
        }
        logger.info("audit", extra={FACTS: line})
        if self._metrics is not None:
            self._metrics.count_attempt(action, outcome)
        if self._file is None:
            return
        try:
            self._file.append(json.dumps({"time": datetime.now(UTC).isoformat(timespec="milliseconds"), **line}))
        except OSError:
            logger.exception("the audit file takes no line")
            if self._metrics is not None:
                self._metrics.lost_audit_line()

    def time_call(self, outcome: str, duration_s: float) -> None:
        """Counts how long a call took that was sent."""
        if self._metrics is not None:
            self._metrics.time_call(outcome, duration_s)

    def close(self) -> None:
        if self._file:
            self._file.close()


def _cut(name: str, text: str, most_chars: int) -> dict[str, object]:
    """Without what looks like a key; how long it was where it is longer than is kept."""
    length = {f"{name}_chars": len(text)} if len(text) > most_chars else {}
    return {name: without_keys(text[:most_chars]), **length}
