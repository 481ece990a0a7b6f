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
from waygraph.registry.model.usage import Outcome
from waygraph.registry.storage import usage_file
from waygraph.registry.storage.local_registry import LocalRegistry
from waygraph.registry.storage.usage_file import KEPT_REQUESTS, UsageCounter

YESTERDAY_AND_TODAY: list[tuple[str, str, Outcome]] = [
    ("2026-11-19", "key:a", "ok"),
    ("2026-11-20", "key:b", "timed_out"),
]
DAY = "2026-11-20T10:00:00.000000+00:00"


@pytest.fixture
def registry(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> LocalRegistry:
    monkeypatch.setattr(usage_file, "now", lambda: DAY)
    settings = Settings(data_dir=str(tmp_path / "data"), usage_requests=True, embedder="none")
    registry = LocalRegistry.open(tmp_path / "r.grafeo", settings=settings)
    text = json.dumps(manifest("s", agent("harbour", "look_around"))["manifest"])
    for each in read_documents([Document("s.json", text, "")], settings, source="s", namespace="", kind=""):
        sync(registry, each)
    return registry


def counter_at(registry: LocalRegistry, day: str = DAY, settings: Settings | None = None) -> UsageCounter:
    return UsageCounter(registry.store, settings or registry.settings, lambda: f"{day[:10]}{DAY[10:]}")


def test_counts_of_several_processes_are_summed(registry: LocalRegistry) -> None:
    for _ in range(2):
        for day, caller, outcome in YESTERDAY_AND_TODAY:
            counter = counter_at(registry, day)
            counter.note("harbour/look_around", outcome, 0.01, caller)
            counter.write()
            counter.write()
    assert registry.operator.usage()[0].calls == 4
    days = registry.operator.usage_days
    assert [(part.day, part.calls, part.errors) for part in days()] == [("2026-11-19", 2, 0), ("2026-11-20", 2, 2)]
    assert [(part.name, part.calls) for part in days(of="caller", by="name")] == [("key:a", 2), ("key:b", 2)]
    assert [(part.day, part.calls) for part in days(of="caller", name="key:a")] == [("2026-11-19", 2)]
    assert [part.day for part in days(days=1)] == ["2026-11-20"]
    wrong_parameters: list[dict[str, Any]] = [{"days": 0}, {"days": 91}, {"of": "word"}, {"by": "bucket"}]
    for wrong in wrong_parameters:
        with pytest.raises(InvalidQuery):
            days(**wrong)


def test_few_texts_are_kept_and_none_where_they_are_not_wanted(registry: LocalRegistry) -> None:
    times = iter(f"2026-11-20T10:00:00.{number:06d}+00:00" for number in range(1000))
    counter = UsageCounter(registry.store, registry.settings, lambda: next(times))
    for number in range(KEPT_REQUESTS + 5):
        counter.note_request(f"request {number}", "key:a", 0.1, is_answered=False)
    counter.write()
    kept = registry.operator.search_gaps().requests
    assert [each.text for each in kept] == [f"request {number}" for number in range(KEPT_REQUESTS + 4, 4, -1)]
    unwanted = Settings(data_dir=registry.settings.data_dir)
    counter = UsageCounter(registry.store, unwanted, lambda: DAY)
    counter.note_request("private", "key:a", 0.1, is_answered=False)
    counter.write()
    assert registry.operator.search_gaps().requests == (), "those kept before are gone too"


def test_what_is_old_goes_or_is_summed(registry: LocalRegistry) -> None:
    for day in ("2026-01-01", "2026-01-02", "2026-11-20"):
        counter = counter_at(registry, day)
        counter.note("harbour/look_around", "ok", 0.01, "key:a")
        counter.write()
    with closing(sqlite3.connect(Path(registry.settings.data_dir) / "usage.sqlite")) as database:
        rows = set(database.execute("SELECT of, day FROM days"))
    assert rows == {("tool", ""), ("tool", "2026-11-20"), ("caller", "2026-11-20")}
    assert [(each.calls, each.first_at[:10]) for each in registry.operator.usage()] == [(3, "2026-01-01")]
