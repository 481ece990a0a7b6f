"""The benchmark of the explorer: that a small run measures every part in a real browser, and says why it cannot."""

import os
from dataclasses import replace
from pathlib import Path

import pytest

from benchmarks.explorer.benchmark import QUICK, measure, run, served_tools
from benchmarks.world import World
from tests.browser import find_browser
from waygraph.registry.model.settings import load_settings

WORK = {
    "first page, requests": 24,
    "first page, elements": 900,
    "while typed, requests": 1,
    "while typed, bytes": 30,
    "while typed, elements": 900,
}
"""Counted, so that a slower machine fails nothing: of a page with five answers."""


@pytest.fixture
def world(tmp_path: Path) -> World:
    return World(settings=load_settings(), environ=os.environ, data=tmp_path / "none", cache=tmp_path / "cache")


@pytest.mark.slow
def test_a_small_run_measures_pages_map_and_people(world: World) -> None:
    find_browser()
    plan = replace(QUICK, tools=60, synced=20)
    with served_tools(world, plan.tools) as (url, _):
        measures, details = measure(url, plan)
    values = {each.name: each.value for each in measures}
    assert len(values) == len(measures)
    assert values.pop("20 people, 60 tools: errors") == 0
    assert values.pop("explorer, 60 tools: first paint after the load") >= 0
    assert all(value > 0 for value in values.values())
    for work, most in WORK.items():
        assert values[f"explorer, 60 tools: {work}"] <= most, work
    assert values["explorer, 60 tools: first paint"] < values["explorer, 60 tools: first answer drawn"]
    assert values["explorer: the first page, gzip"] < values["explorer: the first page, as sent"]
    assert {"/explore", "/explore/files/app.js", "/explore/files/vendor/preact.js"} <= details["files"].keys()
    assert details["people"][0]["syncing"]["route"]["answers"] > 0


def test_without_a_browser_it_is_skipped_with_a_line(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", "")
    monkeypatch.delenv("WAYGRAPH_TEST_BROWSER", raising=False)
    assert run(world).skipped == "no Chromium is installed: apt-get install chromium"
