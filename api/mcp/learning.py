"""Which tool is called after which, counted for the graph as calls end (`WAYGRAPH_LEARN=transitions`)."""

import logging
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from threading import Lock
from typing import TYPE_CHECKING

from waygraph.registry.access.visibility import LOCAL, Caller
from waygraph.registry.model.clock import now
from waygraph.registry.model.errors import InvalidSetting, NeedsRegistry, RegistryNotFound, WaygraphError
from waygraph.registry.model.transitions import MAX_KEPT, Transition, add_transitions, count_last, keep_largest
from waygraph.registry.operators.transition_counts import learn_transitions
from waygraph.registry.storage.usage_file import repeat_write

if TYPE_CHECKING:
    from waygraph.registry.model.settings import Settings
    from waygraph.registry.storage.local_registry import LocalRegistry

TRANSITIONS = "transitions"
EVERY_S = 60.0
"""From one write of what was counted to the next."""
MOST_CALLS, MOST_REPEATS = 200, 5
"""So many calls of one caller count in a day, and so many times that one follows another; of who sees everything all.
What is counted ranks tools for everybody."""
logger = logging.getLogger("waygraph.gateway")


class CallCounter:
    """Holds the counts since the last write: tools and agents, no arguments, texts or callers, and of each
    caller's day how much it added. Threads may share it."""

    def __init__(self, registry: "LocalRegistry", clock: Callable[[], str] = now) -> None:
        self._registry, self._clock = registry, clock
        self._counted: dict[tuple[str, str, str], Transition] = {}
        self._day, self._shares = "", Counter[tuple[str, ...]]()
        self._lock = Lock()

    def note(self, calls: Sequence[str], caller: Caller = LOCAL) -> None:
        """The last of a session's calls has worked; `calls`: ids of tools, those that worked, oldest first."""
        at = self._clock()
        counts = count_last(calls, at)
        self._add(counts if caller.sees_everything else self._share_of(caller.id, counts, at[: len("2026-01-01")]))

    def _share_of(self, caller: str, counts: Sequence[Transition], day: str) -> list[Transition]:
        """Of these counts of one call what counts of the caller on this day."""
        with self._lock:
            if day != self._day:
                self._day, self._shares = day, Counter()
            self._shares[caller,] += 1
            if self._shares[caller,] > MOST_CALLS:
                return []
            self._shares.update((caller, *each.key) for each in counts)
            return [each for each in counts if self._shares[caller, *each.key] <= MOST_REPEATS]

    def write(self) -> None:
        """What could not be written is kept for the next time, except for a registry of which nothing can be learned.

        Raises nothing that comes of the registry: it is logged.
        """
        with self._lock:
            counted, self._counted = list(self._counted.values()), {}
        if not counted:
            return
        try:
            self._registry.change(lambda session: learn_transitions(session, counted))
        except (NeedsRegistry, RegistryNotFound) as error:
            logger.warning("nothing is learned from calls: %s", error)
        except WaygraphError as error:
            logger.warning("what was counted of calls cannot be written now: %s", error)
            self._add(counted)

    def _add(self, more: Sequence[Transition]) -> None:
        with self._lock:
            sums = add_transitions(self._counted.values(), more)
            self._counted = sums if len(sums) <= MAX_KEPT else keep_largest(sums)


@contextmanager
def open_counter(registry: "LocalRegistry", settings: "Settings") -> Iterator[CallCounter | None]:
    """None where nothing is learned. Raises InvalidSetting."""
    if not settings.learn:
        yield None
        return
    if settings.learn != TRANSITIONS:
        raise InvalidSetting(f"WAYGRAPH_LEARN={settings.learn!r}: expected {TRANSITIONS!r}, or nothing")
    counter = CallCounter(registry)
    with repeat_write(counter.write, "learning", EVERY_S):
        yield counter
