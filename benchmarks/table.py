"""What is written from the records in evals/: the tables of evals/README.md and of the README, and the figures."""

import json
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from benchmarks import (
    a2x,
    abstention,
    agent_as_a_graph,
    agent_as_a_graph_tables,
    clear_requests,
    default_recipe,
    livemcpbench,
    scalemcp,
)
from benchmarks.ablations import run as ablations
from benchmarks.summary import summary
from waygraph.registry.evaluation.compare import Table, markdown_table
from waygraph.registry.evaluation.plots import Kind, draw

BEGIN, END = "<!-- measured: begin (python -m benchmarks table) -->", "<!-- measured: end -->"
MET = {True: "yes", False: "**no**", None: ""}
Records = Sequence[Mapping[str, Any]]
Details = Mapping[str, Any]

DETAILS: Mapping[str, Callable[[Details], str]] = {
    livemcpbench.NAME: livemcpbench.tables_of,
    agent_as_a_graph.NAME: agent_as_a_graph_tables.tables_of,
    a2x.NAME: a2x.tables_of,
    abstention.NAME: abstention.tables_of,
    clear_requests.NAME: clear_requests.tables_of,
    default_recipe.NAME: default_recipe.tables_of,
    scalemcp.NAME: scalemcp.tables_of,
    ablations.NAME: ablations.tables_of,
}
"""Record → what its `details` say, in Markdown. A record that is not here has its measures shown alone."""
DRAWN: Mapping[str, Callable[[Details], Iterable[tuple[Table, Sequence[Kind]]]]] = {
    agent_as_a_graph.NAME: agent_as_a_graph_tables.drawn_of,
}
"""Record → what is drawn of it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Written:
    """Where the generated parts are."""

    page: Path
    readme: Path
    figures: Path


def write(evals: Path, names: Iterable[str], places: Written) -> None:
    """Raises ValueError if a page has no markers."""
    records = read_records(evals, names)
    for page, text in pages(records, places).items():
        page.write_text(text, encoding="utf-8")
    for table, kinds in drawn(records):
        draw([table], places.figures, kinds=kinds)


def pages(records: Records, places: Written) -> dict[Path, str]:
    """What each page is to hold, its hand-written parts as they are. Raises ValueError if one has no markers."""
    made = {places.page: tables(records), places.readme: summary(records)}
    return {page: between(page, part, (BEGIN, END)) for page, part in made.items()}


def drawn(records: Records) -> list[tuple[Table, Sequence[Kind]]]:
    """Each table that is drawn, and as what."""
    known = [record for record in records if record["name"] in DRAWN]
    return [each for record in known for each in DRAWN[record["name"]](record["details"])]


def read_records(evals: Path, names: Iterable[str]) -> list[dict[str, Any]]:
    """The records that are there, in the order of `names`."""
    paths = [evals / f"{name}.json" for name in names]
    return [json.loads(path.read_bytes()) for path in paths if path.is_file()]


def tables(records: Records) -> str:
    """Everything measured, met or not, in Markdown."""
    known = [record for record in records if record["name"] in DETAILS]
    details = [DETAILS[record["name"]](record["details"]) for record in known]
    return "\n\n".join([_measures(records), *details, _origin(records)])


def between(page: Path, part: str, markers: tuple[str, str]) -> str:
    """The page with `part` between its markers. Raises ValueError if it has none."""
    text = page.read_text(encoding="utf-8")
    before, begin, rest = text.partition(markers[0])
    _, end, after = rest.partition(markers[1])
    if not (begin and end):
        raise ValueError(f"{page} lacks the markers {markers[0]} and {markers[1]}")
    return f"{before}{begin}\n\n{part}\n\n{end}{after}"


def _measures(records: Records) -> str:
    rows = [
        (m["name"], f"{m['value']:g} {m['unit']}".strip(), m["target"] or "", MET[m["met"]])
        for record in records
        for m in record["measures"]
    ]
    return markdown_table(("What", "Measured", "Target", "Met"), rows)


def _origin(records: Records) -> str:
    rows = [
        (
            f"`{record['command']}`",
            record["date"][:10],
            record["git"],
            f"{record['machine']['cpus']} × {record['machine']['model']}",
            record["machine"].get("load_average_1_min", ""),
        )
        for record in records
    ]
    return markdown_table(("Command", "Date", "Commit", "Processor", "Load after it"), rows)
