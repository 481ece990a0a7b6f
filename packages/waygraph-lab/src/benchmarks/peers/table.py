"""Writes the comparison of evals/README.md from its record, between markers of its own."""

import json
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

from benchmarks.peers.contenders import HYBRID
from benchmarks.tables import replace_between
from waygraph_lab.evaluation.compare import markdown_table

BEGIN, END = "<!-- peers: begin (python -m benchmarks.peers table) -->", "<!-- peers: end -->"
COLUMNS: Mapping[str, tuple[str, str]] = {
    "R@1": ("R@1", ".3f"),
    "R@5": ("R@5", ".3f"),
    "p50 ms": ("p50_ms", ".1f"),
    "MiB": ("resident_mib", ".0f"),
}
"""Column → the field of a row, and how it is written."""
NOT_SHOWN = {"Waygraph paper 1:1", "graph-tool-call (vectors)", "semantic-router (whole)", "numpy wRRF 1:1"}
"""Settings between a library's defaults and its best; the record has them."""
COMPARED: Mapping[str, tuple[str, Callable[[float, float], bool]]] = {
    "R@1": ("R@1", lambda theirs, ours: theirs > ours),
    "R@5": ("R@5", lambda theirs, ours: theirs > ours),
    "nDCG@5": ("nDCG@5", lambda theirs, ours: theirs > ours),
    "time of an answer (p50)": ("p50_ratio", lambda theirs, ours: theirs < ours),
    "time of ingest": ("ingest_s", lambda theirs, ours: theirs < ours),
    "memory": ("resident_mib", lambda theirs, ours: theirs < ours),
}


def write_table(record: Path, page: Path) -> None:
    """Raises ValueError if the page has no markers."""
    page.write_text(
        replace_between(page, comparison_markdown(json.loads(record.read_bytes())), (BEGIN, END)), encoding="utf-8"
    )


def comparison_markdown(record: Mapping[str, Any]) -> str:
    """The whole comparison in Markdown: a table, then the wins and losses for each size."""
    rows = record["details"]["rows"]
    sizes = {tools: [row for row in rows if row["tools"] == tools] for tools in dict.fromkeys(r["tools"] for r in rows)}
    names = dict.fromkeys(row["name"] for row in rows if row["name"] not in NOT_SHOWN)
    head = ("Library", *(f"{column}, {tools:,}" for tools in sizes for column in COLUMNS))
    cells = [(name, *(cell for of_size in sizes.values() for cell in _cells(name, of_size))) for name in names]
    compared = [f"{tools:,} tools: {_wins_and_losses(of_size)}" for tools, of_size in sizes.items()]
    return "\n\n".join([markdown_table(head, cells), *compared, _origin(record)])


def losses(rows: Sequence[Mapping[str, Any]]) -> dict[str, list[str]]:
    """What is compared → who is better than Waygraph's default there; Waygraph's own other recipes are no peers.

    Empty if Waygraph's default itself failed.
    """
    ours = next(row for row in rows if row["name"] == HYBRID)
    if ours["failed"]:
        return {}
    peers = [row for row in rows if row["package"] != "waygraph" and not row["failed"]]
    return {
        what: [row["name"] for row in peers if row[key] is not None and better(row[key], ours[key])]
        for what, (key, better) in COMPARED.items()
    }


def _cells(name: str, rows: Iterable[Mapping[str, Any]]) -> list[str]:
    """A library that failed has no figures; the record says why."""
    [row] = [each for each in rows if each["name"] == name]
    return ["failed" if row["failed"] else _cell(row[key], form) for key, form in COLUMNS.values()]


def _wins_and_losses(rows: Sequence[Mapping[str, Any]]) -> str:
    lost = losses(rows)
    if not lost:
        return f"{HYBRID} failed: there is nothing to compare with."
    worse = "; ".join(f"{what}: {', '.join(_libraries(names))}" for what, names in lost.items() if names)
    best = ", ".join(what for what, names in lost.items() if not names)
    return (f"{HYBRID} **loses** to, in {worse}." if worse else f"{HYBRID} loses to none of them.") + (
        f" It is ahead of all of them in {best}." if best else " It is ahead of all of them in nothing."
    )


def _libraries(names: Iterable[str]) -> list[str]:
    """Each library once, whatever its settings."""
    return list(dict.fromkeys(name.partition(" ")[0] for name in names))


def _origin(record: Mapping[str, Any]) -> str:
    machine = record["machine"]
    return (
        f"Measured by `{record['command']}` on {record['date'][:10]} at commit {record['git']}, "
        f"{machine['cpus']} × {machine['model']}, Python {machine['python']}; load average "
        f"{record['details']['load_before']} before the run, {machine['load_average_1_min']} after it."
    )


def _cell(value: float | None, form: str) -> str:
    return "" if value is None else format(value, form)
