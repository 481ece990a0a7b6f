"""The benchmarks' arithmetic, their invented catalogues, and that a small run leaves a record. Never a time."""

import json
import os
import random
from collections.abc import Sequence
from dataclasses import replace
from math import exp, inf
from pathlib import Path

import pytest

from benchmarks.__main__ import BENCHMARKS, QUALITY, main
from benchmarks.abstention import (
    CHOSEN,
    REPORTED,
    Probes,
    auroc,
    brier,
    calibrate,
    doubts_of,
    draw_servers,
    leave_out,
    platt,
    share_below,
    share_right,
    threshold_losing,
    with_least,
)
from benchmarks.catalogue import catalogue, requests
from benchmarks.record import PROJECT, Measure, Result, Target, as_record, write_record
from benchmarks.route_speed import measure
from benchmarks.tables import BEGIN, END, Pages, write_pages
from benchmarks.world import World, write_catalogue
from waygraph.ingest.sources.read import read_path
from waygraph.registry.model.changes import AgentEntry
from waygraph.registry.model.nouns import Agent
from waygraph.registry.model.settings import Settings, load_settings
from waygraph.registry.routing.recipes import HYBRID, RECIPES, Calibration
from waygraph_lab.evaluation.dataset import Asked


def test_auroc_counts_a_tie_as_half() -> None:
    assert auroc([3.0, 2.0], [1.0, 2.0]) == pytest.approx(3.5 / 4)
    assert auroc([1.0], [1.0]) == 0.5


def probes(present: Sequence[float], absent: Sequence[float], family: str = "a", half: int = CHOSEN) -> Probes:
    return Probes(
        family=family,
        data=family,
        by="questions",
        recipe=HYBRID,
        half=half,
        present=list(present),
        absent=list(absent),
    )


def test_the_threshold_loses_at_most_the_share_allowed_of_the_sets_together() -> None:
    many, few = [float(score) for score in range(200)], [3.3, 3.1, 3.2]
    assert threshold_losing([many], 0.01) == 2.0
    assert threshold_losing([few], 0.01) == 3.1
    assert threshold_losing([many, few], 0.01) == 3.1, "three of many weigh .75 %, and one of few 16.7 %"
    assert threshold_losing([few], 1.0) == inf


def test_the_least_is_chosen_on_one_half_and_reported_of_the_other() -> None:
    chosen, other = probes(range(100), [0.5]), probes([4.0, 6.0], [3.0, 5.0, 9.0], half=REPORTED)
    shipped = with_least(Calibration(offset=0.0, slope=0.1, least=0.0), [chosen, other])
    assert shipped.least == pytest.approx(1 / (1 + exp(-0.5)), abs=1e-3)
    of_set, mean = doubts_of([chosen, other], shipped)
    assert (of_set["false doubt"], of_set["in doubt"]) == (0.5, 0.3333)
    assert {**mean, "data": "a"} == of_set


def test_how_often_the_first_of_two_near_tools_is_right() -> None:
    pairs = [(0.05, False, True), (0.08, True, False), (0.3, True, True), (0.5, False, False)]
    assert share_right(pairs, 0.0, 0.1) == (0.5, 0.5)
    assert share_right(pairs, 0.1, inf) == (0.5, 0.5)
    assert share_right(pairs, 0.6, inf) == (0.0, 0.0)


def test_small_catalogues_hold_servers_that_are_asked_for() -> None:
    entries = [AgentEntry(key=f"s{at}", agent=Agent(id=f"s{at}", name="S"), tools=()) for at in range(40)]
    need = Asked(id="1", texts=("x",), gold=(frozenset({"s7"}), frozenset({"s9"})), gold_tools=())
    ids = draw_servers(entries, [need], 5, random.Random(1))  # noqa: S311 - no secret
    assert ids >= {"s7", "s9"}
    assert len(ids) == 5


def test_a_calibration_gives_the_probability_that_was_drawn_from() -> None:
    """Answers drawn by a known curve give the curve back, and what is named outright takes no part."""
    drawn = random.Random(1)  # noqa: S311 - no secret
    fits = [drawn.uniform(-1, 3) for _ in range(20_000)]
    there = [drawn.random() < 1 / (1 + exp(-(2 * fit - 1))) for fit in fits]
    offset, slope = platt(fits, [float(each) for each in there], [1.0] * len(fits))
    assert offset == pytest.approx(-1, abs=0.1)
    assert slope == pytest.approx(2, abs=0.1)
    some = probes([1.0, 2.0, 3.0, inf], [0.0, 1.5, inf])
    assert calibrate([some]) == calibrate([probes([1.0, 2.0, 3.0], [0.0, 1.5])])


def test_each_row_is_calibrated_on_the_other_families() -> None:
    """What a family's own answers are does not move the curve by which it is judged."""
    one, other = probes([2.0, 3.0, 1.0], [0.0, 1.5, 0.5]), probes([2.5, 1.0, 3.0], [0.5, 1.2, 2.0], family="b")
    row, _ = leave_out([one, other])
    calibration = calibrate([other])
    likely = [calibration.probability(fit) for fit in (2.0, 3.0, 1.0)]
    unlikely = [calibration.probability(fit) for fit in (0.0, 1.5, 0.5)]
    assert row["auroc"] == pytest.approx(auroc(likely, unlikely), abs=1e-4)
    assert row["brier"] == pytest.approx(brier(likely, unlikely), abs=1e-4)
    assert share_below([0.0, 1.5, inf], replace(calibration, least=calibration.probability(1.0))) == pytest.approx(
        1 / 3
    )


def test_the_recipes_have_the_calibrations_that_were_measured() -> None:
    measured: dict[str, list[Calibration]] = {}
    for path in sorted((PROJECT / "evals").glob("abstention*.json")):
        record = json.loads(path.read_bytes())
        for name, numbers in record["details"]["ships"].items():
            shipped = RECIPES[name].calibration(record["embedder"])
            assert shipped is not None, f"{path}: put these numbers into the recipe {name}: {numbers}"
            assert numbers == {"offset": shipped.offset, "slope": shipped.slope, "least": shipped.least}
            measured.setdefault(name, []).append(shipped)
    assert {name: list(recipe.calibrations) for name, recipe in RECIPES.items() if recipe.calibrations} == measured


def test_texts_of_a_catalogue_are_distinct_and_of_the_lengths_promised() -> None:
    agents = catalogue(500)["agents"]
    tools = [tool for agent in agents for tool in agent["tools"]]
    assert len({agent["id"] for agent in agents} | {agent["description"] for agent in agents}) == 2 * len(agents)
    assert len({tool["description"] for tool in tools}) == len(tools)
    assert all(8 <= len(tool["description"].split()) <= 40 for tool in tools)
    assert all(1 <= len(tool["inputSchema"]["properties"]) <= 6 for tool in tools)
    assert len(set(requests(300))) == 300


def test_a_catalogue_comes_in_by_the_ordinary_ingest_without_a_rejection(tmp_path: Path) -> None:
    (manifest,) = read_path(str(write_catalogue(tmp_path, 100)), Settings())
    assert not manifest.rejected
    assert not manifest.cut
    assert sum(len(entry.tools) for entry in manifest.entries) == 100


@pytest.mark.parametrize(
    ("target", "met"),
    [
        (Target(bound="at_most", value=1), False),
        (Target(bound="at_least", value=1), True),
        (Target(bound="near", value=1.45, tolerance=0.1), True),
        (None, None),
    ],
)
def test_a_measure_says_whether_its_target_is_met(target: Target | None, met: bool | None) -> None:
    assert Measure(name="m", value=1.5, target=target).as_json()["met"] is met


def test_the_table_shows_a_missed_target(tmp_path: Path) -> None:
    """Between the markers; what stands around them is kept, and a page without markers is refused."""
    missed = Measure(name="slow thing", value=2, unit="s", target=Target(bound="at_most", value=1))
    write_record(as_record(Result(name="memory", measures=[missed]), "command"), tmp_path)
    places = Pages(page=tmp_path / "page.md", readme=tmp_path / "readme.md", figures=tmp_path)
    for path in (places.page, places.readme):
        path.write_text(f"before\n{BEGIN}\nold\n{END}\nafter\n")
    write_pages(tmp_path, BENCHMARKS, places)
    text = places.page.read_text()
    assert "| slow thing | 2 s | ≤ 1 | **no** |" in text
    assert text.startswith("before\n")
    assert text.endswith("after\n")
    assert "old" not in text
    places.readme.write_text("nothing to fill in")
    with pytest.raises(ValueError, match="lacks the markers"):
        write_pages(tmp_path, BENCHMARKS, places)


def test_a_small_run_of_the_route_benchmark_leaves_a_whole_record(tmp_path: Path) -> None:
    world = World(settings=load_settings(), environ=os.environ, data=tmp_path, cache=tmp_path / "cache")
    result = measure(world, [14], 14, cached=2, uncached=4)
    record = json.loads(write_record(as_record(result, "command"), tmp_path).read_text())
    assert record["name"] == "route_speed"
    assert record["embedder"].startswith("onnx:")
    assert {"command", "date", "git", "machine", "versions", "measures", "notes", "details"} <= record.keys()
    assert {"cpus", "model", "system", "python", "load_average_1_min"} == record["machine"].keys()
    assert str(tmp_path) not in json.dumps(record)
    names = [m["name"] for m in record["measures"]]
    assert len(names) == len(set(names)) == 3 + 2 * 8
    assert all(m["value"] > 0 and m.keys() == {"name", "value", "unit", "target", "met"} for m in record["measures"])


def test_no_benchmark_begins_after_the_budget(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """`quality` stands for its benchmarks, all of which exist; the first one is named that was not begun."""
    assert set(QUALITY) < set(BENCHMARKS)
    assert main(["quality", "table", "--budget-s", "1e-9", "--evals", str(tmp_path)], os.environ) == 1
    assert capsys.readouterr().err.startswith(f"{QUALITY[0]}: not begun")
    assert not list(tmp_path.iterdir())
