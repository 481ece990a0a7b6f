"""The file `usage.sqlite` in the data folder: how the registry was used by day, summed over processes and restarts.

It is no part of the graph: a count would make a revision of each. Losing it loses counts and nothing else. Texts of
requests are kept only where the operator wants them (WAYGRAPH_USAGE_REQUESTS).
"""

import logging
import sqlite3
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from datetime import date, timedelta
from pathlib import Path
from threading import Event, Lock, Thread
from typing import Literal

from waygraph.registry.model import usage
from waygraph.registry.model.clock import now
from waygraph.registry.model.errors import WaygraphError
from waygraph.registry.model.files import PRIVATE
from waygraph.registry.model.settings import Settings
from waygraph.registry.model.sqlite_file import SqliteFile
from waygraph.registry.model.usage import MAX_DAYS, NOT_TIMED, Count, Door, HostEvent, Outcome, bucket_of
from waygraph.registry.storage.location import is_server, is_service
from waygraph.registry.storage.store import MEMORY, Store

CREATE = """
CREATE TABLE IF NOT EXISTS days (
    registry TEXT, of TEXT, day TEXT, name TEXT, outcome TEXT, bucket INTEGER, calls INTEGER, first_at TEXT,
    last_at TEXT, PRIMARY KEY (registry, of, day, name, outcome, bucket)
) WITHOUT ROWID
"""
_ADD = """
INSERT INTO days VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?)
ON CONFLICT DO UPDATE SET calls = calls + excluded.calls, first_at = min(first_at, excluded.first_at),
    last_at = max(last_at, excluded.last_at)
"""
_SUM_OLD = _ADD.replace(
    "VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?)",
    "SELECT registry, of, '', name, outcome, bucket, calls, first_at, last_at FROM days "
    "WHERE registry = ? AND of = 'tool' AND day > '' AND day < ?",
)
_READ = """
SELECT of, day, name, outcome, bucket, calls, first_at, last_at FROM days WHERE registry = ? AND of = ? AND day >= ?
"""
_DROP_OLD = "DELETE FROM days WHERE registry = ? AND day > '' AND day < ?"
_DROP_MANY = """
DELETE FROM days WHERE registry = :registry AND of = :of AND (day, name) NOT IN (
    SELECT day, name FROM days WHERE registry = :registry AND of = :of ORDER BY day DESC, calls DESC LIMIT :most
)
"""

LAST_WRITE_S = 5.0
"""So long is waited for the last write when counting ends."""
USAGE_EVERY_S = 2.0
MOST_UNWRITTEN = 50_000
"""Counts that wait for a file that takes none; more are lost, and that is logged."""
KEPT_REQUESTS, KEPT_HOSTS = 100, 1_000
TEXT_CHARS = 300
logger = logging.getLogger("waygraph.gateway")


class UsageFile:
    """The counts of one registry: by day of `MAX_DAYS` days, and of tools those of before as of no day. Every method
    raises StorageFailed.
    """

    def __init__(self, settings: Settings, place: str) -> None:
        """`place`: of a store; a registry in memory has no counts."""
        self._file = SqliteFile(settings.data_path / "usage.sqlite", CREATE, mode=PRIVATE)
        self._most = {"text": KEPT_REQUESTS if settings.usage_requests else 0, "word": 0, "host": KEPT_HOSTS}
        self._registry = place if is_server(place) or place == MEMORY else str(Path(place).resolve())
        self._dropped_on = ""

    def add(self, counts: Iterable[Count], day: str) -> None:
        """All of them, or none. What is older than `MAX_DAYS` on this day goes, or is summed."""
        rows = [(self._registry, *count) for count in counts]

        def put(database: sqlite3.Connection) -> None:
            database.executemany(_ADD, rows)
            for of, most in self._most.items():
                database.execute(_DROP_MANY, {"registry": self._registry, "of": of, "most": most})
            if self._dropped_on != day:
                for statement in (_SUM_OLD, _DROP_OLD):
                    database.execute(statement, (self._registry, _since(day, MAX_DAYS)))

        self._file.run(put)
        self._dropped_on = day

    def read(self, of: str, days: int = 0) -> list[Count]:
        """Of so many days, this one included; 0: all."""
        if self._registry == MEMORY or not self._file.path.exists():
            return []
        values = (self._registry, of, _since(now(), days) if days else "")
        return self._file.run(lambda database: [Count(*row) for row in database.execute(_READ, values)])


def _since(day: str, days: int) -> str:
    return (date.fromisoformat(day[:10]) - timedelta(days=days - 1)).isoformat()


def read_contacts(settings: Settings, place: str, days: int = 0) -> list[usage.HostContact]:
    """What hosts did through gateways of this machine, the last thing last; `days` as in `UsageFile.read`.

    Raises StorageFailed.
    """
    return usage.host_contacts(UsageFile(settings, place).read("host", days))


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
    """Holds the counts since the last write. Threads may share it."""

    def __init__(self, store: Store, settings: Settings, clock: Callable[[], str] = now) -> None:
        self._settings, self._clock = settings, clock
        self._file = UsageFile(settings, store.place)
        self._counted: dict[tuple[object, ...], Count] = {}
        self._lock, self._is_failing = Lock(), False

    def note(
        self, tool_id: str, outcome: Outcome, duration_s: float | None, caller_id: str = "", door: Door = ""
    ) -> None:
        """A call has ended. `duration_s` None: it was not sent."""
        at = self._clock()
        bucket = NOT_TIMED if duration_s is None or outcome == "cancelled" else bucket_of(duration_s)
        call = Count("tool", at[:10], f"{tool_id}\t{door}", outcome, bucket, 1, at, at)
        self._add([call, call._replace(of="caller", name=caller_id)])

    def note_host(
        self, client: str, event: HostEvent, tool_id: str = "", error: str = "", duration_s: float | None = None
    ) -> None:
        """A host has done something; the rest as in `HostContact`. Nothing of a request is kept."""
        at = self._clock()
        bucket = NOT_TIMED if duration_s is None else bucket_of(duration_s)
        self._add([Count("host", at[:10], usage.host_name(client, tool_id, error), event, bucket, 1, at, at)])

    def note_request(self, text: str, caller_id: str, duration_s: float, *, is_answered: bool) -> None:
        """A request was answered, also by nothing. `text`: without secrets."""
        at = self._clock()
        outcome: Literal["ok", "nothing"] = "ok" if is_answered else "nothing"
        counts = [Count("request", at[:10], caller_id, outcome, bucket_of(duration_s), 1, at, at)]
        if self._settings.usage_requests and not is_answered:
            counts.append(Count("text", at, text[:TEXT_CHARS], "", NOT_TIMED, 1, at, at))
        self._add(counts)

    def write(self) -> None:
        """What could not be written is kept for the next time. Raises nothing that comes of the file."""
        with self._lock:
            counted, self._counted = self._counted, {}
        if not counted:
            return
        try:
            self._file.add(counted.values(), max(count.last_at[:10] for count in counted.values()))
            self._is_failing = False
        except WaygraphError as error:
            if not self._is_failing:
                logger.warning("how the registry is used cannot be written now: %s", error)
            self._is_failing = True
            self._add(counted.values())

    def _add(self, counts: Iterable[Count]) -> None:
        with self._lock:
            for count in counts:
                before = self._counted.get(count[:5])
                self._counted[count[:5]] = before.plus(count) if before else count
            if len(self._counted) > MOST_UNWRITTEN:
                logger.warning("how the registry was used is lost, as it could not be written")
                self._counted = {}


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
