"""The file `usage-days.sqlite` in the data folder: calls and requests by day, and what requests found nothing.

Of words that no text of the registry holds only their stems are kept, and shown once two callers or two days had them;
texts of requests only where the operator wants them (WAYGRAPH_USAGE_REQUESTS). What is older than `KEPT_DAYS` goes.
Losing the file loses counts and nothing else.
"""

import logging
import sqlite3
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable
from datetime import UTC, datetime, timedelta
from hashlib import sha256
from pathlib import Path
from threading import Lock

from waygraph.registry.index.analyser import telling_words
from waygraph.registry.index.search_index import TEXT_LEGS, Scope, SearchIndex
from waygraph.registry.model.clock import now
from waygraph.registry.model.errors import WaygraphError
from waygraph.registry.model.files import PRIVATE
from waygraph.registry.model.settings import Settings
from waygraph.registry.model.sqlite_file import SqliteFile
from waygraph.registry.model.usage import (
    NOT_TIMED,
    EmptyRequest,
    Outcome,
    OutcomeCount,
    SearchGaps,
    UnknownWord,
    UsageBy,
    UsageOf,
    UsagePart,
    bucket_of,
    check_days,
    usage_part,
)
from waygraph.registry.storage.location import MEMORY, is_server
from waygraph.registry.storage.store import Store

KEPT_DAYS = 90
KEPT_REQUESTS, KEPT_WORDS, SHOWN_WORDS = 100, 2_000, 100
MOST_WAITING_WORDS, MOST_UNWRITTEN = 100, 50_000
TEXT_CHARS = 300
MOST_WORD_CHARS = 24
_CREATE = """
CREATE TABLE IF NOT EXISTS days (
    registry TEXT, day TEXT, of TEXT, name TEXT, outcome TEXT, bucket INTEGER, calls INTEGER,
    PRIMARY KEY (registry, of, day, name, outcome, bucket)
) WITHOUT ROWID
"""
_ADD = "INSERT INTO days VALUES (?, ?, ?, ?, ?, ?, ?) ON CONFLICT DO UPDATE SET calls = calls + excluded.calls"
_READ = "SELECT day, name, outcome, bucket, calls FROM days WHERE registry = ? AND of = ? AND day >= ?"
_DROP_OLD = "DELETE FROM days WHERE registry = ? AND day < ?"
_DROP_MANY = """
DELETE FROM days WHERE registry = :registry AND of = :of AND (day, name) NOT IN (
    SELECT day, name FROM days WHERE registry = :registry AND of = :of ORDER BY day DESC, calls DESC LIMIT :most
)
"""
type _Row = tuple[str, str, str, int, int]
"""Day, name, outcome, bucket, calls."""
logger = logging.getLogger("waygraph.gateway")

type _Key = tuple[str, str, str, str, int]
"""Day, of, name, outcome, bucket. Of a text the day is a time, and it has no outcome; that of a word tells callers
apart."""


class DayCounter:
    """Holds what was counted since the last write. Threads may share it."""

    def __init__(self, store: Store, settings: Settings, clock: Callable[[], str] = now) -> None:
        self._store, self._settings, self._clock = store, settings, clock
        self._file, self._registry = _file(settings), registry_key(store.place)
        self._lock, self._pruned_on, self._is_failing = Lock(), "", False
        self._counts: Counter[_Key] = Counter()
        self._words: Counter[tuple[str, str, str]] = Counter()

    def note_call(self, day: str, tool_id: str, caller_id: str, outcome: Outcome, bucket: int) -> None:
        with self._lock:
            self._counts[day, "tool", tool_id, outcome, bucket] += 1
            self._counts[day, "caller", caller_id, outcome, bucket] += 1

    def note_request(self, text: str, caller_id: str, duration_s: float, *, is_answered: bool) -> None:
        """A request was answered, also by nothing. `text`: without secrets."""
        at = self._clock()
        words = dict(telling_words(_plain(text[: self._settings.max_query_chars])))
        with self._lock:
            outcome, bucket = "ok" if is_answered else "nothing", bucket_of(duration_s)
            self._counts[at[:10], "request", caller_id, outcome, bucket] += 1
            if self._settings.usage_requests and not is_answered:
                self._counts[at, "text", text[:TEXT_CHARS], "", NOT_TIMED] += 1
            for stem, word in words.items():
                key = (stem, word, sha256(f"{stem} {caller_id}".encode("utf-8", "replace")).hexdigest()[:8])
                if key in self._words or len(self._words) < MOST_WAITING_WORDS:
                    self._words[key] += 1

    def write(self) -> None:
        """What could not be written is kept for the next time, but words. Raises nothing of file or registry."""
        with self._lock:
            counts, words = self._counts, self._words
            self._counts, self._words = Counter(), Counter()
        if not counts:
            return
        day = max(key[0][:10] for key in counts)
        try:
            if words and self._store.exists:
                unknown = self._store.look(lambda index: _unknown(index, {word for _, word, _ in words}))
                for (stem, word, caller), requests in words.items():  # of one stem there may be several words
                    counts[day, "word", stem, caller, NOT_TIMED] += requests if word in unknown else 0
            rows = [(self._registry, *key, calls) for key, calls in counts.items()]
            self._file.run(lambda database: self._put(database, rows, day))
            self._is_failing = False
        except WaygraphError as error:
            if not self._is_failing:
                logger.warning("how the registry is used by day cannot be written now: %s", error)
            self._is_failing = True
            with self._lock:
                self._counts.update(counts if len(counts) < MOST_UNWRITTEN else {})

    def _put(self, database: sqlite3.Connection, rows: Iterable[tuple[object, ...]], day: str) -> None:
        database.executemany(_ADD, rows)
        texts = KEPT_REQUESTS if self._settings.usage_requests else 0
        most = {"text": texts, "word": KEPT_WORDS}
        for of in most if self._pruned_on != day else ("text",):
            database.execute(_DROP_MANY, {"registry": self._registry, "of": of, "most": most[of]})
        if self._pruned_on != day:
            database.execute(_DROP_OLD, (self._registry, _since(day, KEPT_DAYS)))
            self._pruned_on = day


def _plain(text: str) -> str:
    """Without numbers and what is too long for a word: it may be a password. Some scripts write no spaces."""
    pieces = (piece for piece in text.split() if not any(map(str.isdigit, piece)))
    return " ".join(piece for piece in pieces if len(piece) <= MOST_WORD_CHARS or not piece.isascii())


def _unknown(index: SearchIndex, words: Iterable[str]) -> set[str]:
    """Those that no text of any agent or tool holds."""

    def is_known(word: str) -> bool:
        hits = index.search(TEXT_LEGS, None, word, 1, Scope()).legs
        return any(leg.entity_ids for leg in hits.values())

    return {word for word in words if not is_known(word)}


def read_days(store: Store, settings: Settings, *, of: UsageOf, by: UsageBy, name: str, days: int) -> list[UsagePart]:
    """Raises InvalidQuery, StorageFailed."""
    check_days(of, by, days)
    rows = [row for row in _read(store, settings, of, _since(now(), days)) if name in ("", row[1])]
    return [
        usage_part("" if by == "name" else key, key if by == "name" else name, counts)
        for key, counts in sorted(_group_rows(rows, 1 if by == "name" else 0).items())
    ]


def read_gaps(store: Store, settings: Settings) -> SearchGaps:
    """Raises StorageFailed."""
    since = _since(now(), KEPT_DAYS)
    texts = _read(store, settings, "text", since) if settings.usage_requests else []
    words: defaultdict[str, Counter[str]] = defaultdict(Counter)
    callers: defaultdict[str, set[str]] = defaultdict(set)
    for day, stem, caller, _, calls in _read(store, settings, "word", since):
        words[stem][day] += calls
        callers[stem].add(caller)
    common = [each for each in words.items() if len(each[1]) > 1 or len(callers[each[0]]) > 1]
    most = sorted(common, key=lambda each: (-each[1].total(), each[0]))[:SHOWN_WORDS]
    return SearchGaps(
        keeps_texts=settings.usage_requests,
        requests=tuple(EmptyRequest(at=at, text=text) for at, text, *_ in sorted(texts, reverse=True)),
        words=tuple(UnknownWord(word=stem, requests=days.total(), last_day=max(days)) for stem, days in most),
    )


def _group_rows(rows: Iterable[_Row], place: int) -> dict[str, list[OutcomeCount]]:
    groups: defaultdict[str, list[OutcomeCount]] = defaultdict(list)
    for row in rows:
        groups[str(row[place])].append(row[2:])
    return groups


def _read(store: Store, settings: Settings, of: str, since: str) -> list[_Row]:
    file = _file(settings)
    if store.place == MEMORY or not file.path.exists():
        return []
    return file.run(lambda database: list(database.execute(_READ, (registry_key(store.place), of, since))))


def _since(day: str, days: int) -> str:
    return (datetime.fromisoformat(day[:10]).replace(tzinfo=UTC) - timedelta(days=days - 1)).date().isoformat()


def _file(settings: Settings) -> SqliteFile:
    return SqliteFile(settings.data_path / "usage-days.sqlite", _CREATE, mode=PRIVATE)


def registry_key(place: str) -> str:
    """Of a store's place."""
    return place if is_server(place) else str(Path(place).resolve())
