"""Counts by day: summed over processes, bounded, and without texts unless these are wanted."""

import json
import sqlite3
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from tests.service import agent, manifest
from waygraph.ingest.sources.read import read_documents
from waygraph.ingest.sync.apply import sync
from waygraph.registry.model.changes import Document
from waygraph.registry.model.errors import InvalidQuery
from waygraph.registry.model.settings import Settings
from waygraph.registry.storage import usage_days
from waygraph.registry.storage.local_registry import LocalRegistry
from waygraph.registry.storage.usage_days import KEPT_REQUESTS, DayCounter

DAY = "2026-11-20T10:00:00.000000+00:00"


@pytest.fixture
def registry(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> LocalRegistry:
    monkeypatch.setattr(usage_days, "now", lambda: DAY)
    settings = Settings(data_dir=str(tmp_path / "data"), usage_requests=True, embedder="none")
    registry = LocalRegistry.open(tmp_path / "r.grafeo", settings=settings)
    text = json.dumps(manifest("s", agent("harbour", "look_around"))["manifest"])
    for each in read_documents([Document("s.json", text, "")], settings, source="s", namespace="", kind=""):
        sync(registry, each)
    return registry


def test_counts_of_several_processes_are_summed(registry: LocalRegistry) -> None:
    for _ in range(2):
        counter = DayCounter(registry.store, registry.settings, lambda: DAY)
        counter.note_call("2026-11-19", "harbour/look_around", "key:a", "ok", 10)
        counter.note_call("2026-11-20", "harbour/look_around", "key:b", "timed_out", 20)
        counter.write()
        counter.write()
    days = registry.operator.usage_days
    assert [(part.day, part.calls, part.errors) for part in days()] == [("2026-11-19", 2, 0), ("2026-11-20", 2, 2)]
    assert [(part.name, part.calls) for part in days(of="caller", by="name")] == [("key:a", 2), ("key:b", 2)]
    assert [(part.day, part.calls) for part in days(of="caller", name="key:a")] == [("2026-11-19", 2)]
    assert [part.day for part in days(days=1)] == ["2026-11-20"]
    wrong_parameters: list[dict[str, Any]] = [{"days": 0}, {"days": 91}, {"of": "word"}, {"by": "bucket"}]
    for wrong in wrong_parameters:
        with pytest.raises(InvalidQuery):
            days(**wrong)


def test_words_that_no_text_holds_are_counted_by_their_stems(registry: LocalRegistry) -> None:
    counter = DayCounter(registry.store, registry.settings, lambda: DAY)
    for number, text in enumerate(("look around the harbour for submarines", "a submarine, please, 4711")):
        counter.note_request(text, f"key:{number}", 0.1, is_answered=True)
    counter.write()
    gaps = registry.operator.search_gaps()
    assert [(word.word, word.requests) for word in gaps.words] == [("submarin", 2)]
    assert gaps.requests == ()


def test_a_word_is_shown_once_two_callers_or_two_days_had_it(registry: LocalRegistry) -> None:
    """What one said on one day may be a name, or worse."""

    def shown(day: str, caller: str) -> list[str]:
        counter = DayCounter(registry.store, registry.settings, lambda: f"{day}T10:00:00.000000+00:00")
        for text in ("submarine", "submarine" if caller == "key:a" else "zorbulate"):
            counter.note_request(text, caller, 0.1, is_answered=True)
        counter.write()
        return [word.word for word in registry.operator.search_gaps().words]

    assert shown("2026-11-20", "key:a") == shown("2026-11-20", "key:a") == []
    assert shown("2026-11-20", "key:b") == ["submarin"]
    assert shown("2026-11-19", "key:b") == ["submarin", "zorbul"]


@pytest.mark.parametrize("text", ["hunter2-Secret", "x" * 25, "correct-horse-battery-staple", "AKIA7Q", "0815_pass"])
def test_what_may_be_a_password_is_not_kept(registry: LocalRegistry, text: str) -> None:
    settings = Settings(data_dir=registry.settings.data_dir)
    counter = DayCounter(registry.store, settings, lambda: DAY)
    for caller in ("key:a", "key:b"):
        counter.note_request(f"zorbulate {text}", caller, 0.1, is_answered=False)
    counter.write()
    assert [word.word for word in registry.operator.search_gaps().words] == ["zorbul"]
    with closing(sqlite3.connect(Path(registry.settings.data_dir) / "usage-days.sqlite")) as database:
        assert {name for (name,) in database.execute("SELECT name FROM days WHERE of = 'word'")} == {"zorbul"}


def test_few_texts_are_kept_and_none_where_they_are_not_wanted(registry: LocalRegistry) -> None:
    times = iter(f"2026-11-20T10:00:00.{number:06d}+00:00" for number in range(1000))
    counter = DayCounter(registry.store, registry.settings, lambda: next(times))
    for number in range(KEPT_REQUESTS + 5):
        counter.note_request(f"request {number}", "key:a", 0.1, is_answered=False)
    counter.write()
    kept = registry.operator.search_gaps().requests
    assert [each.text for each in kept] == [f"request {number}" for number in range(KEPT_REQUESTS + 4, 4, -1)]
    unwanted = Settings(data_dir=registry.settings.data_dir)
    counter = DayCounter(registry.store, unwanted, lambda: DAY)
    counter.note_request("private", "key:a", 0.1, is_answered=False)
    counter.write()
    assert registry.operator.search_gaps().requests == (), "those kept before are gone too"


def test_what_is_old_goes(registry: LocalRegistry) -> None:
    for day in ("2026-01-01", "2026-11-20"):
        counter = DayCounter(registry.store, registry.settings, lambda: DAY)
        counter.note_call(day, "harbour/look_around", "key:a", "ok", 10)
        counter.write()
    with closing(sqlite3.connect(Path(registry.settings.data_dir) / "usage-days.sqlite")) as database:
        assert {day for (day,) in database.execute("SELECT day FROM days")} == {"2026-11-20"}
