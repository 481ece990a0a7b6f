"""Records as tables and as pictures, over records that were measured on the examples."""

import json
import re
import sys
from collections.abc import Mapping
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any
from xml.etree import ElementTree as ET

import pytest

from waygraph.api.cli.app import main
from waygraph.ingest.datasets.read_dataset import read_dataset
from waygraph.ingest.datasets.trials import Bench
from waygraph.registry.evaluation import plots
from waygraph.registry.evaluation.compare import Table, legend, markdown, tabulate
from waygraph.registry.evaluation.metrics import measured, paired_p
from waygraph.registry.evaluation.plots import RECALLS, draw
from waygraph.registry.evaluation.record import Record, read_record, record_of, summary_of, write_record
from waygraph.registry.evaluation.run import Trial, varied
from waygraph.registry.model.errors import InvalidDataset, MissingExtra, StorageFailed, UnknownName
from waygraph.registry.model.settings import Settings
from waygraph.registry.routing.recipes import LEXICAL

REQUESTS = Path(__file__).parents[2] / "examples" / "requests"
WEIGHTS = ((1.0, 4.0), (1.0, 1.0), (4.0, 1.0))
METRICS = ("Recall@1", "Recall@5")


@pytest.fixture(scope="module")
def record() -> Record:
    """The lexical recipe as it is, and with three pairs of weights: no model is needed."""
    dataset = read_dataset(REQUESTS, Settings())
    varied_ones = [(varied(LEXICAL, weights=pair), f"lexical ({pair[0]:g}, {pair[1]:g})") for pair in WEIGHTS]
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
    return [measured(q["agents"], [frozenset(item) for item in q["gold"]])[metric] for q in outcome["queries"]]


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


def test_another_method_can_be_the_one_compared_with(record: Record) -> None:
    (found,) = tabulate([("a", record)], metrics=METRICS, against="lexical (4, 1)")
    assert [row.method for row in found.rows if row.estimates["Recall@1"].p is None] == ["lexical (4, 1)"]
    with pytest.raises(UnknownName, match="method 'lexcal' is not known"):
        tabulate([("a", record)], against="lexcal")


def test_unknown_metrics_are_refused(record: Record) -> None:
    with pytest.raises(UnknownName, match="Did you mean 'Recall@5'"):
        tabulate([("a", record)], metrics=["Recal@5"])


def test_records_of_the_same_methods_are_told_apart_by_their_names(record: Record) -> None:
    """Two records of one dataset make one table; a dataset that differs makes another."""
    (found,) = tabulate([("before", record), ("after", record)], metrics=METRICS)
    assert [row.method for row in found.rows][::4] == ["lexical in before", "lexical in after"]
    assert {row.estimates["Recall@5"].p for row in found.rows[4:5]} == {1.0}
    other = {**record, "dataset": {**record["dataset"], "checksum": "another"}}
    assert len(tabulate([("a", record), ("b", other)], metrics=METRICS)) == 2
    assert tabulate([("a", record)], metrics=METRICS, bys=["steps"]) == []


def test_a_record_without_queries_has_no_test(record: Record) -> None:
    (found,) = tabulate([("a", summary_of(record))], metrics=METRICS)
    assert {each.p for row in found.rows for each in row.estimates.values()} == {None}
    assert "p <" not in legend(found)


def test_a_table_comes_back_from_json(table: Table) -> None:
    assert Table.from_json(json.loads(json.dumps(asdict(table)))) == table


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


def test_rows_that_differ_in_weights_are_a_sweep(table: Table) -> None:
    (name, rows), *others = table.sweeps.items()
    assert (name, len(rows), others) == ("lexical", 4, [])
    assert replace(table, rows=table.rows[:2]).sweeps == {}


# -- pictures ------------------------------------------------------------------------------------------


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


def test_the_same_table_makes_the_same_bytes(drawable: Table, tmp_path: Path) -> None:
    one, two = draw([drawable], tmp_path / "one"), draw([drawable], tmp_path / "two")
    assert [path.read_bytes() for path in one] == [path.read_bytes() for path in two]
    assert all(path.stat().st_size < 40_000 for path in one)


def test_a_legend_covers_nothing(drawable: Table) -> None:
    """Many methods: the legend stands beside the axes, and both lie within the picture."""
    rows = [replace(drawable.rows[0], method=f"a method with a long name {number}") for number in range(10)]
    figure = plots.recall_by_depth(replace(drawable, rows=tuple(rows)))
    figure.draw_without_rendering()
    (axes,), (shown,) = figure.axes, figure.legends
    assert axes.get_window_extent().x1 <= shown.get_window_extent().x0
    assert shown.get_window_extent().x1 <= figure.bbox.x1
    assert axes.get_window_extent().width > 0.4 * figure.bbox.width


def test_no_two_of_many_methods_look_the_same() -> None:
    looks = {(plots.COLOURS[number % len(plots.COLOURS)], plots.marker(number)) for number in range(32)}
    assert len(looks) == 32


def test_names_of_any_script_have_their_pictures(drawable: Table, tmp_path: Path) -> None:
    """No two share a file, and what stands between dollars is no formula."""
    tables = [replace(drawable, dataset=name) for name in ("天气", "地图")]
    assert len({plots.place_of(table, tmp_path, "recall") for table in tables}) == 2
    costly = replace(drawable, rows=(replace(drawable.rows[0], method=r"$\fifty$"),))
    (path,) = draw([costly], tmp_path, kinds=["recall"])
    assert r"$\fifty$" in words_of(path)


def test_png_is_a_picture_too(record: Record, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    write_record(record, tmp_path / "a.json")
    out = tmp_path / "out"
    assert main(["eval", "plot", str(tmp_path / "a.json"), "--to", str(out), "--format", "png"]) == 0
    paths = [Path(line) for line in capsys.readouterr().out.splitlines()]
    assert len(paths) == 3
    assert all(path.read_bytes().startswith(b"\x89PNG") for path in paths)
    assert main(["eval", "plot", str(tmp_path / "a.json"), "--to", str(out), "--format", "gif"]) == 2


def test_two_datasets_of_one_name_have_pictures_of_their_own(drawable: Table, tmp_path: Path) -> None:
    other = replace(drawable, rows=drawable.rows[:1])
    one, two = draw([drawable, other], tmp_path / "out", kinds=["recall"])
    assert (one.name, two.name) == (
        "waygraph-examples-questions-recall.svg",
        "waygraph-examples-questions-recall-2.svg",
    )
    assert one.read_bytes() != two.read_bytes()
    (tmp_path / "file").touch()
    with pytest.raises(StorageFailed, match="cannot be made"):
        draw([drawable], tmp_path / "file")


def test_without_matplotlib_it_is_told_what_to_install(
    drawable: Table, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "matplotlib", None)
    with pytest.raises(MissingExtra, match=re.escape("pip install 'waygraph[evaluation]'")):
        draw([drawable], tmp_path)


# -- the command ---------------------------------------------------------------------------------------


def test_the_command_prints_markdown(record: Record, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    write_record(record, tmp_path / "a.json")
    assert main(["eval", "table", str(tmp_path / "a.json"), "--metric", "Recall@1", "--metric", "Recall@5"]) == 0
    (table,) = tabulate([("a", record)], metrics=METRICS)
    assert capsys.readouterr().out.strip() == markdown([table])


def test_the_command_prints_tools_and_one_way_of_asking(
    record: Record, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """`--tools`: how well tools were ranked. `--by`: only what was asked so, which may be nothing."""
    write_record(record, tmp_path / "a.json")
    agents, tools = (tabulate([("a", record)], metrics=METRICS, level=level) for level in ("agents", "tools"))
    assert markdown(agents) != markdown(tools)
    shown = ["eval", "table", str(tmp_path / "a.json"), "--metric", "Recall@1", "--metric", "Recall@5"]
    assert main([*shown, "--tools", "--by", "questions"]) == 0
    assert capsys.readouterr().out.strip() == markdown(tools)
    assert main([*shown, "--by", "united"]) == 0
    told = capsys.readouterr()
    assert told.out.strip() == ""
    assert "none of these records holds such outcomes" in told.err


def test_the_command_asks_as_it_is_told(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """By default as the dataset usually is, with `--by` in these ways alone."""
    agent = {"id": "mail", "description": "Sends letters", "tools": [{"name": "send"}]}
    step = {"text": "send a letter", "gold": [["mail"]]}
    query = {"id": "q", "text": "write to Ada", "gold": [["mail"]], "steps": [step, step]}
    for name, told in (("agents.jsonl", agent), ("queries.jsonl", query)):
        (tmp_path / name).write_text(json.dumps(told) + "\n", encoding="utf-8")
    for options, asked in (([], ["questions", "steps"]), (["--by", "united"], ["united"])):
        assert main(["eval", str(tmp_path), "--recipe", "lexical", "--json", *options]) == 0
        outcomes = json.loads(capsys.readouterr().out)["outcomes"]
        assert [outcome["by"] for outcome in outcomes] == asked


@pytest.mark.parametrize(
    ("damage", "told"),
    [
        ({"outcomes": []}, "is no whole record"),
        ({"dataset": {"name": 1}}, "is no whole record"),
        ({"outcomes": [{"name": "x"}]}, "outcome 1 is not whole"),
    ],
)
def test_a_damaged_record_is_refused(record: Record, damage: dict[str, Any], told: str, tmp_path: Path) -> None:
    path = tmp_path / "a.json"
    write_record({**record, **damage}, path)
    with pytest.raises(InvalidDataset, match=told):
        read_record(path)


ESTIMATE = "outcome 1, agents, Recall@5: expected \\[value, low, high\\]"
QUERY = "outcome 1 holds a query that is not whole"


@pytest.mark.parametrize(
    ("place", "damage", "told"),
    [
        (("agents", "Recall@5"), [0.5, 0.4], ESTIMATE),
        (("agents", "Recall@5"), 0.5, ESTIMATE),
        (("agents", "Recall@5"), [0.5, "0.4", 0.6], ESTIMATE),
        (("agents", "Recall@5"), [0.5, 0.6, 0.7], ESTIMATE),
        (("agents", "Recall@5"), [float("nan"), 0.4, 0.6], ESTIMATE),
        (("queries",), {"id": "q"}, QUERY),
        (("queries", 0), "q", QUERY),
        (("queries", 0, "id"), [], QUERY),
        (("queries", 0, "agents"), [{}], QUERY),
        (("queries", 0, "gold"), ["a"], QUERY),
        (("queries", 0, "gold"), [], QUERY),
        (("queries", 0, "votes"), {"a": [["leg", "entity"]]}, QUERY),
    ],
    ids=range(12),
)
def test_figures_and_queries_of_another_shape_are_refused(
    record: Record, place: tuple[str | int, ...], damage: object, told: str, tmp_path: Path
) -> None:
    damaged = json.loads(json.dumps(record))
    *way, last = place
    held = damaged["outcomes"][0]
    for step in way:
        held = held[step]
    held[last] = damage
    write_record(damaged, tmp_path / "a.json")
    with pytest.raises(InvalidDataset, match=told):
        read_record(tmp_path / "a.json")


def test_what_compares_queries_needs_them(record: Record, tmp_path: Path) -> None:
    path = tmp_path / "a.json"
    write_record(summary_of(record), path)
    assert read_record(path)["outcomes"]
    with pytest.raises(InvalidDataset, match="outcome 1 holds no queries"):
        read_record(path, with_queries=True)
