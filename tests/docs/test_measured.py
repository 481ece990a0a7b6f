"""What stands in the documents of measured figures is what the records in evals/ say; `make docs` writes it anew."""

import re
from pathlib import Path

import pytest

from benchmarks.__main__ import NAMES, PAGES
from benchmarks.__main__ import main as benchmarks
from benchmarks.peers import __main__ as peers
from benchmarks.record import PROJECT
from benchmarks.store import scale
from benchmarks.store.figure import FILE
from benchmarks.tables import DETAILS, SHOWN, SPEED, Pages, figures, read_records, render_pages
from tests.docs.pages import rows
from waygraph_lab.evaluation.plots import digest, digest_of, place_of

EVALS = PROJECT / "evals"


@pytest.fixture(scope="module")
def records() -> list[dict[str, object]]:
    return read_records(EVALS, NAMES)


def test_every_record_is_shown(records: list[dict[str, object]]) -> None:
    """Each file under evals/ is a benchmark's, of another embedder too, or the peers'; none that is shown in detail is
    missing."""
    shown = {str(record["name"]) for record in records} | {peers.NAME}
    assert {path.stem for path in EVALS.glob("*.json")} == shown
    assert DETAILS.keys() <= {record["name"] for record in records}


def test_the_details_of_a_record_are_printed(capsys: pytest.CaptureFixture[str]) -> None:
    """Of those that are named; each table of a record has its head and rows."""
    assert benchmarks(["details", "a2x", "livemcpbench"], {}) == 0
    printed = capsys.readouterr().out
    assert [line for line in printed.splitlines() if line.startswith("# ")] == ["# a2x", "# livemcpbench"]
    assert printed.count("| --- |") > 5


@pytest.mark.parametrize("page", [PAGES.page, PAGES.readme], ids=lambda page: page.name)
def test_the_tables_are_those_of_the_records(page: Path, records: list[dict[str, object]]) -> None:
    """A page whose generated part is stale differs from what the records make of it."""
    assert render_pages(records, PAGES)[page] == page.read_text(encoding="utf-8")


def test_a_stale_table_is_noticed(records: list[dict[str, object]], tmp_path: Path) -> None:
    """A digit changed by hand is seen, and so is a figure measured anew."""
    text = PAGES.page.read_text(encoding="utf-8")
    edited = tmp_path / "page.md"
    above, begin, tables = text.partition("measured: begin")
    edited.write_text(above + begin + re.sub(r"\| 0\.(\d)", r"| 0.9\1", tables, count=1), encoding="utf-8")
    places = Pages(page=edited, readme=PAGES.readme, figures=PAGES.figures)
    assert render_pages(records, places)[edited] != edited.read_text(encoding="utf-8")
    anew = [{**record, "measures": []} for record in records]
    assert render_pages(anew, PAGES)[PAGES.page] != text


def test_every_figure_that_is_chosen_is_shown(records: list[dict[str, object]]) -> None:
    """A measure that was renamed would be missing from a page without a word."""
    assert {label for labels in SPEED.values() for label in labels.values()} <= {
        cells[0] for cells in rows(PAGES.readme)
    }
    shown = {cells[0] for cells in rows(PAGES.page)}  # one that several records have stands with its model
    assert [
        name for name in SHOWN if name not in shown and not any(each.startswith(f"{name} (") for each in shown)
    ] == []


def test_the_figures_are_drawn_from_the_records(records: list[dict[str, object]]) -> None:
    """Each SVG tells the digest of the table it was drawn from: that of the record."""
    places = {
        place_of(table, PAGES.figures, kind): digest(table) for table, kinds in figures(records) for kind in kinds
    }
    assert places
    drawn = [each["details"] for each in records if each["name"] == scale.NAME]
    places |= {place: digest_of(details) for place, details in zip([PAGES.figures / FILE], drawn, strict=False)}
    assert set(PAGES.figures.glob("*.svg")) == set(places)
    for path, told in places.items():
        assert told in path.read_text(encoding="utf-8"), f"{path.name} is stale: run `make docs`"
