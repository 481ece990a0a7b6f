"""Writes the comparison of evals/README.md from its record, between markers of its own."""

import json
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

from benchmarks.peers.contenders import HYBRID
from benchmarks.tables import replace_between
from waygraph_lab.evaluation.compare import markdown_table

BEGIN, END = "<!-- peers: begin (python -m benchmarks.peers table) -->", "<!-- peers: end -->"
HEAD = (
    "Library",
    "R@1",
    "R@5",
    "nDCG@5",
    "p50 ms",
    "ingest s",
    "memory MiB",
)
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
    """The whole comparison in Markdown: a table and the wins and losses for each size."""
    rows = record["details"]["rows"]
    sizes = list(dict.fromkeys(row["tools"] for row in rows))
    parts = [_of_size(tools, [row for row in rows if row["tools"] == tools]) for tools in sizes]
    return "\n\n".join([*parts, _origin(record)])


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


def _of_size(tools: int, rows: Sequence[Mapping[str, Any]]) -> str:
    cells = [_cells(row) for row in rows if row["name"] not in NOT_SHOWN]
    return f"{tools:,} tools:\n\n{markdown_table(HEAD, cells)}\n\n{_wins_and_losses(rows)}"


def _cells(row: Mapping[str, Any]) -> tuple[object, ...]:
    if row["failed"]:
        return (row["name"], f"failed: {row['failed']}", *[""] * (len(HEAD) - 2))
    asked = "" if row["fewer"] is not None else f" ({row['texts_asked']} queries)"
    return (
        row["name"],
        *(_cell(row[key], ".3f") for key in ("R@1", "R@5", "nDCG@5")),
        f"{row['p50_ms']:.1f}{asked}",
        _cell(row["ingest_s"], ".1f"),
        _cell(row["resident_mib"], ".0f"),
    )


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
