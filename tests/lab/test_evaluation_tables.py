"""Records as tables and as pictures, over records that were measured on the examples."""

import json
import sys
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any
from xml.etree import ElementTree as ET

import pytest

from waygraph.api.cli.app import main
from waygraph.registry.model.errors import MissingExtra
from waygraph.registry.model.settings import Settings
from waygraph.registry.routing.recipes import LEXICAL
from waygraph_lab.datasets.read_dataset import read_dataset
from waygraph_lab.datasets.trials import Bench
from waygraph_lab.evaluation.compare import Table, markdown, tabulate
from waygraph_lab.evaluation.metrics import measure_query, paired_p
from waygraph_lab.evaluation.plots import RECALLS, draw
from waygraph_lab.evaluation.record import Record, record_of, write_record
from waygraph_lab.evaluation.run import Trial, vary_recipe

REQUESTS = Path(__file__).parents[2] / "examples" / "requests"
WEIGHTS = ((1.0, 4.0), (1.0, 1.0), (4.0, 1.0))
METRICS = ("Recall@1", "Recall@5")


@pytest.fixture(scope="module")
def record() -> Record:
    """The lexical recipe as it is, and with three pairs of weights: no model is needed."""
    dataset = read_dataset(REQUESTS, Settings())
    varied_ones = [(vary_recipe(LEXICAL, weights=pair), f"lexical ({pair[0]:g}, {pair[1]:g})") for pair in WEIGHTS]
    trials = [
        Trial(recipe=recipe, texts="contextual", embedder="none", label=label)
        for recipe, label in [(LEXICAL, ""), *varied_ones]
    ]
    outcomes = Bench(settings=Settings(), environ={}).outcomes(dataset, trials)
    told: Record = json.loads(json.dumps(record_of(dataset, outcomes, {"command": "a test"})))
    return told


@pytest.fixture(scope="module")
def table(record: Record) -> Table:
    (found,) = tabulate([("a", record)], metrics=METRICS)
    return found


def values_of(outcome: Mapping[str, Any], metric: str) -> list[float]:
    return [measure_query(q["agents"], [frozenset(item) for item in q["gold"]])[metric] for q in outcome["queries"]]


def test_a_table_holds_the_means_of_its_record_and_a_paired_test_against_the_first(
    record: Record, table: Table
) -> None:
    """Each mean with its interval as the record has it; p as `paired_p` gives it from the queries."""
    assert [row.method for row in table.rows] == ["lexical", "lexical (1, 4)", "lexical (1, 1)", "lexical (4, 1)"]
    assert table.against == "lexical"
    for row, outcome in zip(table.rows, record["outcomes"], strict=True):
        for metric in METRICS:
            estimate = row.estimates[metric]
            assert [estimate.value, estimate.low, estimate.high] == outcome["agents"][metric]
    first, last = record["outcomes"][0], record["outcomes"][3]
    assert table.rows[0].estimates["Recall@1"].p is None
    expected = paired_p(values_of(first, "Recall@5"), values_of(last, "Recall@5"))
    assert expected < 1
    assert table.rows[3].estimates["Recall@5"].p == pytest.approx(expected, abs=1e-4)


def test_records_of_the_same_methods_are_told_apart_by_their_names(record: Record) -> None:
    """Two records of one dataset make one table; a dataset that differs makes another."""
    (found,) = tabulate([("before", record), ("after", record)], metrics=METRICS)
    assert [row.method for row in found.rows][::4] == ["lexical in before", "lexical in after"]
    assert {row.estimates["Recall@5"].p for row in found.rows[4:5]} == {1.0}
    other = {**record, "dataset": {**record["dataset"], "checksum": "another"}}
    assert len(tabulate([("a", record), ("b", other)], metrics=METRICS)) == 2
    assert tabulate([("a", record)], metrics=METRICS, bys=["steps"]) == []


def test_markdown_shows_intervals_and_stars(table: Table) -> None:
    """A row a method, as many cells in each; what a name holds cannot break the table."""
    lines = [line for line in markdown([table]).splitlines() if line.startswith("|")]
    assert lines[0] == "| method | Recall@1 | Recall@5 | queries | p50 ms |"
    assert len(lines) == 2 + len(table.rows)
    estimate = table.rows[0].estimates["Recall@1"]
    assert f"| lexical | {estimate.value:.3f} [{estimate.low:.2f}, {estimate.high:.2f}] |" in lines[2]
    sure = replace(estimate, p=0.0009)
    shown = markdown([replace(table, rows=(replace(table.rows[0], method="a|b\n*c*", estimates={
        "Recall@1": sure, "Recall@5": replace(sure, p=0.04)}),))])  # fmt: skip
    assert r"| a\|b \*c\* | " in shown
    assert r"]\*\*\* | " in shown
    assert r"]\* | " in shown


@pytest.fixture(scope="module")
def drawable(record: Record) -> Table:
    (found,) = tabulate([("a", record)], metrics=RECALLS)
    return found


def words_of(path: Path) -> set[str]:
    words = {"".join(each.itertext()).strip() for each in ET.parse(path).iter() if each.tag.endswith("}text")}  # noqa: S314 - ours
    return words - {""}


def test_pictures_say_what_they_show(drawable: Table, tmp_path: Path) -> None:
    """One by K, one by latency, one by weights; title, axes with units, methods and weights are words in each."""
    recall, latency, weights = draw([drawable], tmp_path)
    assert [path.name for path in (recall, latency, weights)] == [
        f"waygraph-examples-questions-{name}.svg" for name in ("recall", "latency", "weights")
    ]
    assert {"1", "3", "5", "10", "20", "lexical", "Recall@K (mean, 95 % interval)"} <= words_of(recall)
    assert {"p50 of a route in ms (log scale)", "lexical"} <= words_of(latency)
    assert {"(1, 4)", "(1, 1)", "(4, 1)", "lexical"} <= words_of(weights)


def test_without_matplotlib_it_is_told_what_to_install(
    drawable: Table, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "matplotlib", None)
    with pytest.raises(MissingExtra, match=r"pip install '\S*waygraph-lab\[plots\]'"):
        draw([drawable], tmp_path)


def test_the_command_prints_markdown(record: Record, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    write_record(record, tmp_path / "a.json")
    assert main(["eval", "table", str(tmp_path / "a.json"), "--metric", "Recall@1", "--metric", "Recall@5"]) == 0
    agents, tools = tabulate([("a", record)], metrics=METRICS, levels=("agents", "tools"))
    assert capsys.readouterr().out.strip() == markdown([agents, tools])
    assert (agents.queries_name, tools.queries_name) == (
        "Waygraph examples, questions",
        "Waygraph examples, questions, tools",
    )
    assert tools.rows[0].estimates["Recall@5"].value == record["outcomes"][0]["tools"]["Recall@5"][0]
