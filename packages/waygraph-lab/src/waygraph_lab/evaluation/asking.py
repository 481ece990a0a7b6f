"""What every harness that asks a model shares: a line a query on disk, several queries at a time, costs, and errors.

A run that was stopped asks nothing of what is on disk again.
"""

import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass, field
from hashlib import sha256
from pathlib import Path
from threading import Lock
from typing import Any

from waygraph.registry.language_model.endpoint import ChatModel, Completion
from waygraph.registry.model.errors import InvalidDataset, LanguageModelError, StorageFailed, WaygraphError
from waygraph.registry.model.files import write_named
from waygraph_lab.evaluation.estimate import CostEstimate

type Line = dict[str, Any]
"""`key` and `failure` are in each: by what it is found again, and why there is no answer."""
type Progress = Callable[[int, int], None]
MOST_FAILURES = 5
"""In a row: then the endpoint itself fails, and not one query."""
_UTF8 = ("utf-8", "surrogatepass")
"""A query may hold half of a surrogate pair, as JSON may."""


class QueryFailed(WaygraphError):
    """`told`: the reason as the message has it. `failed`: this is the last of so many. `of`: the method."""

    def __init__(self, query_id: str, reason: str, *, told: str = "", failed: int = 1, of: str = "") -> None:
        self.query_id, self.reason = query_id, reason
        others = f"; {failed} queries failed, and the same command asks them again" if failed > 1 else ""
        method = f", {of}" if of else ""
        super().__init__(f"query {query_id!r}{method}: {told or reason}{others}")


class KeptLines:
    """Former lines and new ones, a JSON object each. Threads may share it.

    `check` raises ValueError, LookupError, TypeError or AttributeError for a line of something else, and `what` says
    whose lines the file should hold. Raises InvalidDataset.
    """

    def __init__(self, file: Path, check: Callable[[Line], object] = len, what: str = "") -> None:
        self._file, self._lock = file, Lock()
        self._lines = _read_lines(file, check, what or "this benchmark")
        self._former = {key for key, line in self._lines.items() if not line["failure"]}
        self.kept = 0
        """How many queries were answered by a former run."""

    @property
    def file(self) -> Path:
        return self._file

    def find(self, key: str) -> Line | None:
        """A former line that is none of a failure."""
        with self._lock:
            if key not in self._former:
                return None
            self.kept += 1
            return self._lines[key]

    def holds(self, key: str) -> bool:
        return key in self._former

    def count(self, of: str) -> int:
        """Former lines of a method."""
        return sum(self._lines[key].get("of") == of for key in self._former)

    def add(self, key: str, line: Line) -> None:
        """Raises StorageFailed."""
        with self._lock:
            self._lines[key] = line
            try:
                self._file.parent.mkdir(parents=True, exist_ok=True)
                with self._file.open("ab") as file:
                    file.write(_text_of(line).encode(*_UTF8))
            except OSError as error:
                raise StorageFailed(f"{self._file} cannot be written: {error.strerror}") from error

    def close(self) -> None:
        """Leaves one line a query: of one that failed and was asked again the last. Raises StorageFailed."""
        content = "".join(map(_text_of, self._lines.values()))
        if self._file.is_file() and self._file.stat().st_size != len(content.encode(*_UTF8)):
            write_named(self._file, content)


def key_of(*parts: object) -> str:
    """Of all that an answer depends on."""
    return sha256(json.dumps(parts, sort_keys=True, default=str).encode()).hexdigest()


def _text_of(line: Line) -> str:
    return json.dumps(line, ensure_ascii=False) + "\n"


def _read_lines(file: Path, check: Callable[[Line], object], what: str) -> dict[str, Line]:
    """By key; a last line that a kill cut short is dropped from the file. Raises InvalidDataset."""
    if not file.exists():
        return {}
    try:
        content = file.read_bytes()
        whole = content[: content.rfind(b"\n") + 1]
        lines = {line["key"]: line for line in map(json.loads, whole.decode(*_UTF8).split("\n")[:-1])}
        for line in lines.values():
            check(line)
            line["failure"]
        if whole and whole != content:
            file.write_bytes(whole)
    except (OSError, ValueError, LookupError, TypeError, AttributeError) as error:
        raise InvalidDataset(str(file), f"holds no lines of {what}: {error!r}") from error
    return lines


@dataclass(slots=True)
class Failures:
    """Those in a row. Threads share it."""

    in_a_row: list[tuple[str, str]] = field(default_factory=list)
    """Query and reason."""
    lock: Lock = field(default_factory=Lock)

    def add(self, query_id: str, reason: str) -> None:
        """`reason` is empty of a query that was answered."""
        with self.lock:
            if len(self.in_a_row) < MOST_FAILURES:  # too many stay too many, whatever comes in late
                self.in_a_row = [*self.in_a_row, (query_id, reason)] if reason else []

    def last_of(self, most: int) -> tuple[str, str] | None:
        """The last one, if there are so many."""
        with self.lock:
            return self.in_a_row[-1] if len(self.in_a_row) >= most else None

    def refuse(self) -> None:
        """Raises QueryFailed after `MOST_FAILURES`."""
        if last := self.last_of(MOST_FAILURES):
            raise QueryFailed(*last, failed=MOST_FAILURES)


@dataclass(frozen=True, slots=True, kw_only=True)
class Asking:
    """How queries are asked. `at_once`: so many are under way. `lines`: what was answered before is read there.

    `failed`: the lines of queries without an answer.
    """

    lines: KeptLines | None = None
    at_once: int = 1
    failed: list[Line] = field(default_factory=list)

    def ask_each[Q](
        self,
        queries: Sequence[Q],
        ask: Callable[[Q], Mapping[str, Any]],
        *,
        name: Callable[[Q], str],
        facts: Callable[[Q], object],
        about: Sequence[object],
        progress: Progress | None = None,
    ) -> list[Line]:
        """What each query came to, in order; of one that failed `failure` says why. `name`: of a query, for errors and
        lines. `facts`: of a query, and `about`: all else that an answer depends on, the method first.

        Raises QueryFailed after `MOST_FAILURES` in a row.
        """
        failures, done = Failures(), list[Line]()

        def line_of(query: Q) -> Line:
            failures.refuse()
            key = key_of(*about, name(query), facts(query))
            if former := self.former(key):
                return former
            line: Line = {"key": key, "of": str(about[0]), "id": name(query)}
            try:
                line |= {**ask(query), "failure": ""}
            except (LanguageModelError, QueryFailed) as error:
                line["failure"] = error.reason if isinstance(error, QueryFailed) else str(error)
            self.keep(line, failures)
            return line

        with ThreadPoolExecutor(self.at_once) as threads:
            for line in threads.map(line_of, queries):
                done.append(line)
                if progress:
                    progress(len(done), len(queries))
        return done

    def former(self, key: str) -> Line | None:
        return self.lines.find(key) if self.lines else None

    def keep(self, line: Line, failures: Failures) -> None:
        """A new line, with its `key`, `of`, `id` and `failure`. Raises QueryFailed after too many failures in a row."""
        if line["failure"]:
            self.failed.append(line)
        if self.lines:
            self.lines.add(line["key"], line)
        failures.add(line["id"], line["failure"])
        failures.refuse()

    def refuse_failures(self) -> None:
        """Raises QueryFailed if there were some: without them figures are no record."""
        if self.failed:
            last = self.failed[-1]
            raise QueryFailed(last["id"], last["failure"], failed=len(self.failed), of=last["of"])


# -- costs -----------------------------------------------------------------------------------------------


@dataclass(slots=True)
class Meter:
    """What chat models answered while it ran, wherever in this process they were asked. Threads share it."""

    calls: int = 0
    prompt_tokens: int = 0
    completion_tokens: int = 0
    _lock: Lock = field(default_factory=Lock)

    def add(self, completion: Completion) -> None:
        with self._lock:
            self.calls += 1
            self.prompt_tokens += completion.prompt_tokens
            self.completion_tokens += completion.completion_tokens

    @property
    def text(self) -> str:
        return f"asked: {_cost_text(self.calls, self.prompt_tokens, self.completion_tokens)}"

    def as_json(self) -> dict[str, int]:
        return {
            "calls": self.calls,
            "prompt_tokens": self.prompt_tokens,
            "completion_tokens": self.completion_tokens,
        }


@contextmanager
def metered() -> Iterator[Meter]:
    """Counts answers, and the tokens that the endpoint tells of them."""
    from unittest.mock import patch

    meter, complete = Meter(), ChatModel.complete

    def counted(model: ChatModel, *arguments: Any, **options: Any) -> Completion:
        completion = complete(model, *arguments, **options)
        meter.add(completion)
        return completion

    with patch.object(ChatModel, "complete", counted):
        yield meter


def estimate_text(estimates: Sequence[CostEstimate]) -> str:
    """In one line, of all together."""
    sums = [sum(getattr(each, name) for each in estimates) for name in ("calls", "prompt_tokens", "completion_tokens")]
    queries, kept = (sum(getattr(each, name) for each in estimates) for name in ("queries", "kept"))
    most = sum(max(each.calls, each.most_calls) for each in estimates)
    limit = f"; at most {most:,} calls" if most > sums[0] else ""
    former = f", {kept:,} of them answered before" if kept else ""
    return f"estimate for {queries:,} queries{former}: {_cost_text(*sums)}{limit}"


def _cost_text(calls: int, prompt_tokens: int, completion_tokens: int) -> str:
    return f"{calls:,} calls, {prompt_tokens:,} + {completion_tokens:,} tokens"
