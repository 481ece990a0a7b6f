"""What a gateway counts of calls: how tools are used, and which follows which (`WAYGRAPH_LEARN=transitions`)."""

import asyncio
import logging
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from threading import Event, Lock, Thread
from typing import TYPE_CHECKING

from waygraph.registry.model.errors import (
    CallTimedOut,
    InvalidSetting,
    NeedsRegistry,
    RegistryNotFound,
    UpstreamError,
    WaygraphError,
)
from waygraph.registry.model.transitions import Transition, add_transitions, count_last, keep_largest
from waygraph.registry.model.usage import NOT_TIMED, Count, Outcome, bucket_of
from waygraph.registry.operators.transition_counts import learn_transitions
from waygraph.registry.storage.embedded import now
from waygraph.registry.storage.location import MEMORY, is_service

if TYPE_CHECKING:
    from waygraph.registry.model.settings import Settings
    from waygraph.registry.storage.local_registry import LocalRegistry

TRANSITIONS = "transitions"
LAST_WRITE_S = 5.0
"""So long is waited for the last write when a gateway ends."""
USAGE_EVERY_S = 5.0
DROP_EVERY_S, KEEP_GONE = 3600.0, timedelta(days=1)
"""How often counts of tools that are gone are dropped, and how long after their last call."""
MOST_UNWRITTEN = 50_000
"""Counts that wait for a file that takes none; more are lost, and that is logged."""
logger = logging.getLogger("waygraph.gateway")


@contextmanager
def _writing(write: Callable[[], None], name: str, every_s: float) -> Iterator[None]:
    """A thread writes what was counted every `every_s`, and at the end."""
    ended = Event()

    def work() -> None:
        while not ended.wait(every_s):
            write()
        write()

    thread = Thread(target=work, name=name, daemon=True)
    thread.start()
    try:
        yield
    finally:
        ended.set()
        thread.join(LAST_WRITE_S)


class CallCounter:
    """Holds the counts since the last write: tools and agents, no arguments, texts or callers. Threads may share it."""

    def __init__(self, registry: "LocalRegistry", settings: "Settings", clock: Callable[[], str] = now) -> None:
        self._registry, self._settings, self._clock = registry, settings, clock
        self._counted: dict[tuple[str, str, str], Transition] = {}
        self._lock = Lock()

    def note(self, calls: Sequence[str]) -> None:
        """The last of a session's calls has worked; `calls`: ids of tools, those that worked, oldest first."""
        self._add(count_last(calls, self._clock()))

    def write(self) -> None:
        """What could not be written is kept for the next time, except for a registry of which nothing can be learned.

        Raises nothing that comes of the registry: it is logged.
        """
        with self._lock:
            counted, self._counted = list(self._counted.values()), {}
        if not counted:
            return
        half_life, most = self._settings.learn_half_life_days, self._settings.max_transitions_kept
        try:
            self._registry.change(lambda session: learn_transitions(session, counted, half_life, most))
        except (NeedsRegistry, RegistryNotFound) as error:
            logger.warning("nothing is learned from calls: %s", error)
        except WaygraphError as error:
            logger.warning("what was counted of calls cannot be written now: %s", error)
            self._add(counted)

    def _add(self, more: Sequence[Transition]) -> None:
        half_life, most = self._settings.learn_half_life_days, self._settings.max_transitions_kept
        with self._lock:
            sums = add_transitions(self._counted.values(), more, half_life)
            self._counted = sums if len(sums) <= most else keep_largest(sums, most, half_life)


@contextmanager
def open_counter(registry: "LocalRegistry", settings: "Settings") -> Iterator[CallCounter | None]:
    """None where nothing is learned. Raises InvalidSetting."""
    if not settings.learn:
        yield None
        return
    if settings.learn != TRANSITIONS:
        raise InvalidSetting(f"WAYGRAPH_LEARN={settings.learn!r}: expected {TRANSITIONS!r}, or nothing")
    counter = CallCounter(registry, settings)
    with _writing(counter.write, "learning", settings.learn_every_s):
        yield counter


@dataclass(slots=True)
class Called:
    """A call under way: `tool_id` once it is known which tool is meant, `sent_at` (monotonic) once it is sent."""

    tool_id: str = ""
    sent_at: float | None = None
    is_error: bool = False

    def outcome(self, error: BaseException | None) -> Outcome:
        match error:
            case None:
                return "tool_error" if self.is_error else "ok"
            case CallTimedOut() | TimeoutError():
                return "timed_out"
            case asyncio.CancelledError():
                return "cancelled"
            case UpstreamError():
                return "upstream_failed"
            case WaygraphError():
                return "refused"
            case _:
                return "upstream_failed"


class UsageCounter:
    """Holds the counts since the last write: by tool, outcome and duration. Threads may share it."""

    def __init__(self, registry: "LocalRegistry", settings: "Settings", clock: Callable[[], str] = now) -> None:
        from waygraph.registry.storage.usage_file import UsageFile

        self._registry, self._clock = registry, clock
        self._file = UsageFile(settings, registry.store.place)
        self._counted: dict[tuple[str, Outcome, int], Count] = {}
        self._lock, self._dropped_at, self._is_failing = Lock(), float("-inf"), False

    def note(self, tool_id: str, outcome: Outcome, duration_s: float | None) -> None:
        """A call has ended. `duration_s` None: it was not sent."""
        at = self._clock()
        bucket = NOT_TIMED if duration_s is None or outcome == "cancelled" else bucket_of(duration_s)
        self._add([Count(tool_id, outcome, bucket, 1, at, at)])

    def write(self) -> None:
        """What could not be written is kept for the next time. Raises nothing that comes of file or registry."""
        with self._lock:
            counted, self._counted = self._counted, {}
        if not counted:
            return
        try:
            self._file.add(counted.values())
            self._is_failing = False
        except WaygraphError as error:
            if not self._is_failing:
                logger.warning("how tools are used cannot be written now: %s", error)
            self._is_failing = True
            self._add(counted.values())
            return
        self._drop_gone()

    def _add(self, counts: Iterable[Count]) -> None:
        with self._lock:
            for count in counts:
                before = self._counted.get(count.key)
                self._counted[count.key] = before.plus(count) if before else count
            if len(self._counted) > MOST_UNWRITTEN:
                logger.warning("how tools were used is lost, as it could not be written")
                self._counted = {}

    def _drop_gone(self) -> None:
        from waygraph.registry.storage.usage_file import held_tools

        if time.monotonic() - self._dropped_at < DROP_EVERY_S:
            return
        self._dropped_at = time.monotonic()
        before = (datetime.fromisoformat(self._clock()).astimezone(UTC) - KEEP_GONE).isoformat(timespec="microseconds")
        try:
            self._file.drop_gone(self._registry.store.look(held_tools), before)
        except WaygraphError as error:
            logger.warning("counts of tools that are gone cannot be dropped now: %s", error)


@contextmanager
def open_usage(registry: "LocalRegistry", settings: "Settings") -> Iterator[UsageCounter | None]:
    """None where nothing is counted: by the setting, for a registry in memory, or for one that a service keeps."""
    place = registry.store.place if settings.usage else MEMORY
    if place == MEMORY or is_service(place):
        yield None
        return
    counter = UsageCounter(registry, settings)
    with _writing(counter.write, "usage", USAGE_EVERY_S):
        yield counter
