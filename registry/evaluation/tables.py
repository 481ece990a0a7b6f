"""Records as tables: methods against metrics, with intervals and paired tests, as values and in Markdown."""

import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache, partial
from typing import Any, Literal

from waygraph.registry.errors import UnknownName
from waygraph.registry.evaluation.metrics import measured
from waygraph.registry.evaluation.record import Record
from waygraph.registry.evaluation.significance import paired_p

Level = Literal["agents", "tools"]
SHOWN = ("Recall@1", "Recall@5", "Recall@10", "nDCG@5", "mAP@5")
STARS = ((0.001, "***"), (0.01, "**"), (0.05, "*"))
"""Below which p how many."""
LEAST_SWEEP = 3


@dataclass(frozen=True, slots=True, kw_only=True)
class Estimate:
    """A mean over queries with its 95 % interval; `p` of a paired test against the table's `against`, if there is."""

    value: float
    low: float
    high: float
    p: float | None = None

    @property
    def stars(self) -> str:
        return next((stars for below, stars in STARS if self.p is not None and self.p < below), "")


@dataclass(frozen=True, slots=True, kw_only=True)
class Row:
    """A method: the recipe that it is, with its weights, and what it came to by metric. Latency in milliseconds."""

    method: str
    recipe: str
    texts: str
    embedder: str
    agent_weight: float
    tool_weight: float
    judged: int
    withheld: int
    p50_ms: float
    estimates: Mapping[str, Estimate]

    @property
    def series(self) -> str:
        """What it is called but for its weights, which stand in round brackets."""
        return re.sub(r" \([\d.e+-]+, [\d.e+-]+\)", "", self.method)


@dataclass(frozen=True, slots=True, kw_only=True)
class Table:
    """Methods that were asked the same: of one dataset, in one way. `against`: the method that others are tested by."""

    dataset: str
    by: str
    split: str
    against: str
    metrics: tuple[str, ...]
    rows: tuple[Row, ...]

    @property
    def asked(self) -> str:
        """Such as `LiveMCPBench, steps`."""
        return ", ".join(filter(None, (self.dataset, self.by, self.split)))

    @property
    def sweeps(self) -> Mapping[str, tuple[Row, ...]]:
        """Rows that differ in nothing but their weights, three or more, by the name that they share."""
        series: dict[str, list[Row]] = {}
        for row in self.rows:
            if row.agent_weight > 0 and row.tool_weight > 0:
                series.setdefault(row.series, []).append(row)
        return {name: tuple(rows) for name, rows in series.items() if len(rows) >= LEAST_SWEEP}

    @classmethod
    def from_json(cls, held: Mapping[str, Any]) -> "Table":
        """Of what `dataclasses.asdict` made of one."""
        rows = [
            Row(**{**row, "estimates": {name: Estimate(**each) for name, each in row["estimates"].items()}})
            for row in held["rows"]
        ]
        return cls(**{**held, "metrics": tuple(held["metrics"]), "rows": tuple(rows)})


@dataclass(frozen=True, slots=True)
class _Entry:
    """An outcome, and the record that it stands in."""

    record: str
    outcome: Record

    @property
    def name(self) -> str:
        return str(self.outcome["name"])

    @property
    def embedder(self) -> str:
        """`all-MiniLM-L6-v2+int8` of a whole fingerprint."""
        return re.sub(r"@[0-9a-f]+", "", str(self.outcome["embedder"]).rpartition("/")[2])


def tabulate(
    records: Iterable[tuple[str, Record]],
    *,
    metrics: Sequence[str] = SHOWN,
    bys: Sequence[str] = (),
    against: str = "",
    level: Level = "agents",
) -> list[Table]:
    """One table for each dataset and way of asking, in the order of the records, each given with its name.

    `bys`: only these ways of asking; empty: all. `against`: the method that others are tested by; empty: a table's
    first. What is tested is the ranking of agents, where the record holds its queries: else there is no p.
    Raises UnknownName for a metric that the records lack, and for a method that is in none.
    """
    groups: dict[tuple[str, ...], list[_Entry]] = {}
    for name, record in records:
        for outcome in record["outcomes"]:
            if outcome[level] and outcome["by"] in (bys or (outcome["by"],)):
                held = record["dataset"]
                key = (held["name"], held["checksum"], outcome["by"], outcome["split"])
                groups.setdefault(key, []).append(_Entry(name, outcome))
    found = [_table(key, entries, metrics, against, level) for key, entries in groups.items()]
    if against and all(table.against != against for table in found):
        raise UnknownName("method", against, {row.method for table in found for row in table.rows})
    return found


def _table(
    key: tuple[str, ...], entries: Sequence[_Entry], metrics: Sequence[str], against: str, level: Level
) -> Table:
    names = _told_apart(entries)
    first = against or names[0]
    tested = entries[names.index(first)] if first in names else None
    rows = [
        _row(name, entry, metrics, level, None if entry is tested or level == "tools" else tested)
        for name, entry in zip(names, entries, strict=True)
    ]
    dataset, _, by, split = key
    return Table(
        dataset=dataset,
        by=by,
        split=split,
        against=first if tested else "",
        metrics=tuple(metrics),
        rows=tuple(rows),
    )


def _told_apart(entries: Sequence[_Entry]) -> list[str]:
    """What each is called: its name, and as much more as tells all of them apart."""
    tellings: tuple[Callable[[_Entry], str], ...] = (
        lambda entry: entry.name,
        lambda entry: f"{entry.name}, {entry.embedder}",
        lambda entry: f"{entry.name} in {entry.record}",
        lambda entry: f"{entry.name}, {entry.embedder} in {entry.record}",
    )
    for tell in tellings:
        names = [tell(entry) for entry in entries]
        if len(set(names)) == len(names):
            return names
    return [f"{number}. {entry.name}" for number, entry in enumerate(entries, start=1)]


def _judged(outcome: Record, level: Level) -> int:
    """Of records that do not tell for tools: how many queries there were."""
    return int(outcome["judged"] if level == "agents" else outcome.get("judged_tools", outcome["judged"]))


def _row(name: str, entry: _Entry, metrics: Sequence[str], level: Level, tested: _Entry | None) -> Row:
    outcome, means = entry.outcome, entry.outcome[level]
    for metric in metrics:
        if metric not in means:
            raise UnknownName("metric", metric, means)
    compared = _compared(tested.outcome, outcome) if tested else None
    return Row(
        method=name,
        recipe=outcome["recipe"]["name"],
        texts=outcome["texts"],
        embedder=entry.embedder,
        agent_weight=outcome["recipe"]["agent_weight"],
        tool_weight=outcome["recipe"]["tool_weight"],
        judged=_judged(outcome, level),
        withheld=outcome["withheld"],
        p50_ms=outcome["p50_ms"],
        estimates={metric: _estimate(means[metric], compared and compared(metric)) for metric in metrics},
    )


def _estimate(mean: Sequence[float], p: float | None) -> Estimate:
    value, low, high = mean
    return Estimate(value=value, low=low, high=high, p=p)


def _compared(one: Record, other: Record) -> Callable[[str], float] | None:
    """p by metric over the queries that both were asked; None where a record holds none of them."""
    ones, others = ({query["id"]: query for query in each.get("queries", ())} for each in (one, other))
    both = [(_metrics_of(ones[name]), _metrics_of(others[name])) for name in ones if name in others]
    return partial(_p, both) if both else None


def _p(both: Sequence[tuple[Mapping[str, float], Mapping[str, float]]], metric: str) -> float:
    return round(paired_p([left[metric] for left, _ in both], [right[metric] for _, right in both]), 4)


def _metrics_of(query: Record) -> Mapping[str, float]:
    return _measured(tuple(query["agents"]), tuple(frozenset(item) for item in query["gold"]))


_measured = lru_cache(maxsize=2**14)(measured)
"""The method that all others are tested by is judged once."""


# -- Markdown ------------------------------------------------------------------------------------------


def markdown(tables: Iterable[Table]) -> str:
    """Each table under what it is of, and what the brackets and stars mean."""
    parts = [part for table in tables for part in (f"{_written(table.asked)}:", table_markdown(table), legend(table))]
    return "\n\n".join(parts)


def table_markdown(table: Table) -> str:
    """Method, queries and p50 beside `mean [low, high]` of each metric."""
    rows = [
        [_written(row.method), *(_cell(row.estimates[name]) for name in table.metrics), row.judged, f"{row.p50_ms:.2f}"]
        for row in table.rows
    ]
    return markdown_table(("method", *table.metrics, "queries", "p50 ms"), rows)


def legend(table: Table) -> str:
    brackets = "In brackets the 95 % bootstrap interval of the mean."
    tested = [each for row in table.rows for each in row.estimates.values() if each.p is not None]
    if not tested:
        return brackets
    stars = ", ".join(f"{_starred(stars)} p < {below:g}" for below, stars in reversed(STARS))
    return (
        f"{brackets} Against {_written(table.against)}: {stars} by a paired randomisation test over queries, "
        "not corrected for the number of comparisons."
    )


def markdown_table(head: Sequence[str], rows: Iterable[Sequence[object]]) -> str:
    """Cells stand as they are given."""
    lines = [head, ["---"] * len(head), *rows]
    return "\n".join("| " + " | ".join(str(cell) for cell in line) + " |" for line in lines)


def mean_markdown(estimate: Estimate) -> str:
    return f"{estimate.value:.3f}{_starred(estimate.stars)}"


def _cell(estimate: Estimate) -> str:
    return f"{estimate.value:.3f} [{estimate.low:.2f}, {estimate.high:.2f}]{_starred(estimate.stars)}"


def _starred(stars: str) -> str:
    return stars.replace("*", r"\*")


def _written(text: str) -> str:
    """A name from a record as Markdown shows it, on one line: whatever marks up is escaped."""
    shown = "".join(char if char.isprintable() else " " for char in text)
    return re.sub(r"([\\`*_\[\]<>|])", r"\\\1", " ".join(shown.split()))
