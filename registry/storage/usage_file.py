"""The file `usage.sqlite` in the data folder: how tools were used, by registry, summed over processes and restarts.

It is no part of the graph: a count would make a revision of each. Losing it loses counts and nothing else. On demand
`put_usage` writes what it holds into the graph, as one revision.
"""

import logging
import sqlite3
import time
from collections.abc import Callable, Collection, Iterable, Iterator
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta
from threading import Event, Lock, Thread
from typing import TYPE_CHECKING

from waygraph.cypher import load
from waygraph.registry.graph.write import put_tool_props
from waygraph.registry.index.names import agent_named, visible_agents
from waygraph.registry.index.search_index import SearchIndex
from waygraph.registry.model.clock import now
from waygraph.registry.model.errors import WaygraphError
from waygraph.registry.model.files import PRIVATE
from waygraph.registry.model.nouns import Principal
from waygraph.registry.model.settings import Settings
from waygraph.registry.model.sqlite_file import SqliteFile
from waygraph.registry.model.usage import NOT_TIMED, Count, Outcome, Sort, ToolUsage, bucket_of, check_usage, summarize
from waygraph.registry.storage.location import MEMORY, is_service
from waygraph.registry.storage.store import Store
from waygraph.registry.storage.usage_days import DayCounter, registry_key

if TYPE_CHECKING:
    from waygraph.registry.graph.engine import GraphSession
    from waygraph.registry.model.changes import Written
    from waygraph.registry.storage.graph_access import GraphAccess

_USAGE_REMOVE_USAGE = load("usage/remove_usage")
CREATE = """
CREATE TABLE IF NOT EXISTS usage (
    registry TEXT, tool TEXT, outcome TEXT, bucket INTEGER, calls INTEGER, first_at TEXT, last_at TEXT,
    PRIMARY KEY (registry, tool, outcome, bucket)
) WITHOUT ROWID
"""
_ADD = """
INSERT INTO usage VALUES (?, ?, ?, ?, ?, ?, ?)
ON CONFLICT DO UPDATE SET calls = calls + excluded.calls, first_at = min(first_at, excluded.first_at),
    last_at = max(last_at, excluded.last_at)
"""
_READ = "SELECT tool, outcome, bucket, calls, first_at, last_at FROM usage WHERE registry = ?"
_OLD = "SELECT tool FROM usage WHERE registry = ? GROUP BY tool HAVING max(last_at) < ?"
_DROP = "DELETE FROM usage WHERE registry = ? AND tool = ?"

LAST_WRITE_S = 5.0
"""So long is waited for the last write when counting ends."""
USAGE_EVERY_S = 5.0
DROP_EVERY_S, KEEP_GONE = 3600.0, timedelta(days=1)
"""How often counts of tools that are gone are dropped, and how long after their last call."""
MOST_UNWRITTEN = 50_000
"""Counts that wait for a file that takes none; more are lost, and that is logged."""
logger = logging.getLogger("waygraph.gateway")


class UsageFile:
    """The counts of one registry. Every method raises StorageFailed."""

    def __init__(self, settings: Settings, place: str) -> None:
        """`place`: of a store; a registry in memory has no counts."""
        self._file = SqliteFile(settings.data_path / "usage.sqlite", CREATE, mode=PRIVATE)
        self._registry = registry_key(place)

    def add(self, counts: Iterable[Count]) -> None:
        """All of them, or none."""
        rows = [(self._registry, *count) for count in counts]
        self._file.run(lambda database: database.executemany(_ADD, rows))

    def read(self) -> list[Count]:
        if not self._file.path.exists():
            return []
        return self._file.run(lambda database: [Count(*row) for row in database.execute(_READ, (self._registry,))])

    def drop_gone(self, tool_ids: Collection[str], before: str) -> None:
        """Counts of tools that are not in the registry and were not called since `before` (ISO 8601 in UTC)."""

        def delete(database: sqlite3.Connection) -> None:
            old = [tool for (tool,) in database.execute(_OLD, (self._registry, before))]
            database.executemany(_DROP, [(self._registry, tool) for tool in old if tool not in tool_ids])

        self._file.run(delete)


def held_tools(index: SearchIndex, principal: Principal | None = None) -> set[str]:
    """The ids of the tools of all agents that the principal may see."""
    agent_ids = [agent.id for agent in visible_agents(index, principal)]
    return {tool_id for ids in index.tool_ids_of(agent_ids).values() for tool_id in ids}


def read_usage(
    store: Store, settings: Settings, *, agent_id: str, sort: Sort, limit: int, principal: Principal | None
) -> list[ToolUsage]:
    """Of the tools that are in the registry now. Raises InvalidQuery, UnknownName, RegistryNotFound, StorageFailed."""
    check_usage(sort, limit)
    if agent_id:
        store.look(lambda index: agent_named(index, agent_id, principal))
    tool_ids = store.look(lambda index: held_tools(index, principal))
    counts = [] if store.place == MEMORY else UsageFile(settings, store.place).read()
    prefix = f"{agent_id}/" if agent_id else ""
    return summarize((c for c in counts if c.tool_id in tool_ids and c.tool_id.startswith(prefix)), sort, limit)


def put_usage(registry: "GraphAccess", *, is_shown: bool) -> "Written":
    """Each tool's calls, errors and last call, as properties of its node in place of former ones; or none of them.

    Raises RegistryNotFound, StorageFailed, and what a write raises.
    """
    store = registry.store
    tool_ids = store.look(held_tools)
    counts = UsageFile(registry.settings, store.place).read() if is_shown and store.place != MEMORY else []
    usages = summarize((count for count in counts if count.tool_id in tool_ids), "calls", len(counts))
    props = {
        usage.tool_id: {"calls": usage.calls, "errors": usage.errors, "last_call_at": usage.last_at} for usage in usages
    }

    def work(session: "GraphSession") -> None:
        session.run(_USAGE_REMOVE_USAGE)
        put_tool_props(session, props)

    return registry.change_existing(lambda session: session.write(work))


@contextmanager
def repeat_write(write: Callable[[], None], name: str, every_s: float) -> Iterator[None]:
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


class UsageCounter:
    """Holds the counts since the last write: by tool, outcome and duration. Threads may share it."""

    def __init__(self, store: Store, settings: Settings, clock: Callable[[], str] = now) -> None:
        self._store, self._clock = store, clock
        self._file, self.days = UsageFile(settings, store.place), DayCounter(store, settings, clock)
        self._counted: dict[tuple[str, Outcome, int], Count] = {}
        self._lock, self._dropped_at, self._is_failing = Lock(), float("-inf"), False

    def note(self, tool_id: str, outcome: Outcome, duration_s: float | None, caller_id: str = "") -> None:
        """A call has ended. `duration_s` None: it was not sent."""
        at = self._clock()
        bucket = NOT_TIMED if duration_s is None or outcome == "cancelled" else bucket_of(duration_s)
        self._add([Count(tool_id, outcome, bucket, 1, at, at)])
        self.days.note_call(at[:10], tool_id, caller_id, outcome, bucket)

    def write(self) -> None:
        """What could not be written is kept for the next time. Raises nothing that comes of file or registry."""
        self.days.write()
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
        if time.monotonic() - self._dropped_at < DROP_EVERY_S:
            return
        self._dropped_at = time.monotonic()
        before = (datetime.fromisoformat(self._clock()).astimezone(UTC) - KEEP_GONE).isoformat(timespec="microseconds")
        try:
            self._file.drop_gone(self._store.look(held_tools), before)
        except WaygraphError as error:
            logger.warning("counts of tools that are gone cannot be dropped now: %s", error)


@contextmanager
def open_usage(store: Store, settings: Settings) -> Iterator[UsageCounter | None]:
    """None where nothing is counted: by the setting, for a registry in memory, or for one that a service keeps."""
    place = store.place if settings.usage else MEMORY
    if place == MEMORY or is_service(place):
        yield None
        return
    counter = UsageCounter(store, settings)
    with repeat_write(counter.write, "usage", USAGE_EVERY_S):
        yield counter
