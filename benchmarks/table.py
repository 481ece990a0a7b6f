"""Writes the tables of docs/benchmarks.md from the records in evals/, between two markers."""

import json
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

from benchmarks import scalemcp

BEGIN, END = "<!-- measured: begin (python -m benchmarks table) -->", "<!-- measured: end -->"
MET = {True: "yes", False: "**no**", None: ""}
METRICS = ("R@1", "R@3", "R@5", "nDCG@5")


def write_table(evals: Path, page: Path, names: Iterable[str]) -> None:
    """Raises ValueError if the page has no markers."""
    text = page.read_text(encoding="utf-8")
    before, begin, rest = text.partition(BEGIN)
    _, end, after = rest.partition(END)
    if not (begin and end):
        raise ValueError(f"{page} lacks the markers {BEGIN} and {END}")
    page.write_text(f"{before}{BEGIN}\n\n{tables(read_records(evals, names))}\n\n{END}{after}", encoding="utf-8")


def read_records(evals: Path, names: Iterable[str]) -> list[dict[str, Any]]:
    """The records that are there, in the order of `names`."""
    paths = [evals / f"{name}.json" for name in names]
    return [json.loads(path.read_bytes()) for path in paths if path.is_file()]


def tables(records: Sequence[Mapping[str, Any]]) -> str:
    """Everything measured, met or not, in Markdown."""
    return "\n\n".join(
        [_measures(records), *(_details(record) for record in records if _details(record)), _origin(records)]
    )


def _measures(records: Iterable[Mapping[str, Any]]) -> str:
    rows = [
        (m["name"], f"{m['value']:g} {m['unit']}".strip(), m["target"] or "", MET[m["met"]])
        for record in records
        for m in record["measures"]
    ]
    return _table(("What", "Measured", "Target", "Met"), rows)


def _details(record: Mapping[str, Any]) -> str:
    details = record["details"]
    if record["name"] == "livemcpbench":
        return "\n\n".join(_quality(what, details[what]) for what in ("steps", "questions"))
    if record["name"] == scalemcp.NAME:
        return scalemcp.tables(details, _table)
    if record["name"] == "abstention":
        keys = tuple(details["rows"][0])
        return "Abstention, leave-one-out:\n\n" + _table(keys, [tuple(row.values()) for row in details["rows"]])
    return ""


def _quality(what: str, rows: Sequence[Mapping[str, Any]]) -> str:
    keys = ("method", "texts", "precision", *METRICS, "unanswered")
    head = f"LiveMCPBench {what}, {rows[0]['queries']} queries (aligned by this project):"
    return f"{head}\n\n{_table(keys, [tuple(row[key] for key in keys) for row in rows])}"


def _origin(records: Iterable[Mapping[str, Any]]) -> str:
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
    return _table(("Command", "Date", "Commit", "Processor", "Load after it"), rows)


def _table(head: Sequence[str], rows: Iterable[Sequence[object]]) -> str:
    lines = [head, ["---"] * len(head), *rows]
    return "\n".join("| " + " | ".join(str(cell) for cell in line) + " |" for line in lines)
