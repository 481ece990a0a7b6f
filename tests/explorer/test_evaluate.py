"""Records of evaluations in the browser, and that nothing else of the disk is read."""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from playwright.sync_api import Browser, expect

from tests.browser import Visit, visited
from tests.service import Served, assert_good, served
from waygraph.api.rest.routes.admin import KIND
from waygraph.registry.model.settings import Settings

SCRIPT = "<script>alert(1)</script>"


def record(recall: float, name: str = "hybrid", checksum: str = "c1") -> dict[str, Any]:
    """As `waygraph eval -o FILE` writes one."""
    outcome = {
        **{"name": name, "by": "", "split": "test", "texts": "contextual", "embedder": "none"},
        **{"recipe": {"name": name, "agent_weight": 1, "tool_weight": 1}, "judged": 48, "withheld": 1},
        **{"p50_ms": 2.1, "p95_ms": 4.0, "tools": {}, "sets": {}, "queries": []},
        "agents": {"Hit@1": [recall, 0.0, 1.0], "Recall@5": [recall, recall - 0.05, recall + 0.05]},
    }
    dataset = {"name": "harbours", "checksum": checksum}
    return {
        "kind": KIND,
        "date": "2026-11-20",
        "version": "1",
        "commit": "abc",
        "dataset": dataset,
        "outcomes": [outcome],
    }


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "evals" / "old").mkdir(parents=True)
    (tmp_path / "evals" / "new.json").write_text(json.dumps(record(0.9)))
    (tmp_path / "evals" / "old" / "first.json").write_text(json.dumps(record(0.6, SCRIPT)))
    return tmp_path / "evals"


@pytest.fixture
def evaluated(tmp_path: Path, folder: Path) -> Iterator[Served]:
    with served(tmp_path / "r.grafeo", settings=Settings(evals_dir=str(folder))) as service:
        yield service


def test_two_runs_are_compared(browser: Browser, evaluated: Served) -> None:
    """At an address that keeps the choice."""
    with visited(browser, evaluated.url) as visit:
        page = visit.open("/explore/evaluate")
        expect(page.get_by_label("Measure")).to_have_value("agents Recall@5")
        page.get_by_label("Compare hybrid of new.json").check()
        page.get_by_label(f"Compare {SCRIPT} of old/first.json").check()
        page.reload()
        visit.settle()
        row = page.get_by_role("region", name="Two runs compared").get_by_role("row").filter(has_text="agents Recall@5")
        assert row.get_by_role("cell").all_inner_texts() == [
            "agents Recall@5", "0.900", "0.600", "-0.300", "the intervals are apart",
        ]  # fmt: skip


def test_a_record_that_is_not_whole_shows_what_it_has(browser: Browser, evaluated: Served, folder: Path) -> None:
    kinds: list[object] = [None, [None], [{}], [{"recipe": {}, "agents": {"Recall@5": ["a"]}}]]
    for number, outcomes in enumerate(kinds):
        (folder / f"{number}.json").write_text(json.dumps({"kind": KIND, "dataset": {}, "outcomes": outcomes}))
    with visited(browser, evaluated.url) as visit:
        rows = visit.open("/explore/evaluate").get_by_role("region", name="Runs").get_by_role("row")
        expect(rows).to_have_count(4)


def test_without_a_folder_the_page_says_how_to_name_one(visit: Visit) -> None:
    expect(visit.open("/explore/evaluate").get_by_text("WAYGRAPH_EVALS_DIR")).to_be_visible()


def test_what_is_no_record_is_counted_and_not_shown(evaluated: Served, folder: Path, tmp_path: Path) -> None:
    """Also what a link leads to."""
    (tmp_path / "secret.json").write_text(json.dumps(record(0.1, "secret")))
    (folder / "link.json").symlink_to(tmp_path / "secret.json")
    (folder / "up").symlink_to(tmp_path)
    broken = record(0.5)
    broken["outcomes"][0]["agents"]["Recall@5"] = ["much"]
    for name, text in {
        "a": "[]",
        "b": "nonsense",
        "c": json.dumps(broken),
        "d": '{"kind": "other"}',
        "e": "[" * 99_999,
    }.items():
        (folder / f"{name}.json").write_text(text)
    told = assert_good(evaluated.client().get("/v1/evaluations"))
    assert [each["path"] for each in told["records"]] == ["old/first.json", "new.json", "c.json"]
    assert told["other_files"] == 4
    assert "secret" not in json.dumps(told["records"])
    assert "queries" not in told["records"][0]["record"]["outcomes"][0]


def test_no_more_is_read_than_a_service_can_hold(
    evaluated: Served, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    size = (folder / "new.json").stat().st_size
    (folder / "old" / "first.json").write_text(" " * size + json.dumps(record(0.6)))
    monkeypatch.setattr("waygraph.api.rest.routes.admin.MAX_BYTES", size)
    told = assert_good(evaluated.client().get("/v1/evaluations"))
    assert ([each["path"] for each in told["records"]], told["other_files"]) == (["new.json"], 1)
    monkeypatch.setattr("waygraph.api.rest.routes.admin.MAX_FILES", 1)
    assert assert_good(evaluated.client().get("/v1/evaluations"))["other_files"] <= 1
