"""Records as tables: methods against metrics, with intervals and paired tests, as values and in Markdown."""

import re
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache, partial
from itertools import product
from operator import itemgetter
from statistics import fmean
from typing import Any, Literal

from waygraph.registry.model.errors import InvalidDataset, UnknownName
from waygraph_lab.evaluation.metrics import Gold, measure_query, paired_p
from waygraph_lab.evaluation.record import Record

Votes = Mapping[str, Sequence[Sequence[Any]]]


@dataclass(frozen=True, slots=True, kw_only=True)
class Side:
    """How one of the two answered a query."""

    value: float
    agents: tuple[str, ...]
    votes: Votes


@dataclass(frozen=True, slots=True, kw_only=True)
class Changed:
    """A query that the two answer unequally well."""

    id: str
    text: str
    gold: Gold
    one: Side
    other: Side

    @property
    def gain(self) -> float:
        return self.other.value - self.one.value


@dataclass(frozen=True, slots=True, kw_only=True)
class Difference:
    """Of a pair of outcomes: the metric's means, p of a paired randomisation test, and changed queries, worst first."""

    name: str
    metric: str
    queries: int
    one: float
    other: float
    p: float
    changed: tuple[Changed, ...]

    @property
    def wins(self) -> int:
        return sum(changed.gain > 0 for changed in self.changed)

    @property
    def losses(self) -> int:
        return sum(changed.gain < 0 for changed in self.changed)


def differences(one: Record, other: Record, metric: str) -> list[Difference]:
    """Of every outcome that both have by name and way of asking; if there is none, by way of asking alone, where each
    has but one; of the only ones, if each has but one.

    Raises UnknownName for an unknown metric, or if the two have no outcome in common.
    """
    pairs = _pairs(one["outcomes"], other["outcomes"])
    if not pairs:
        raise UnknownName(
            "outcome of the first", _outcome_name(one["outcomes"][0]), map(_outcome_name, other["outcomes"])
        )
    return [_difference(left, right, metric) for left, right in pairs]


def _outcome_name(outcome: Record) -> str:
    return f"{outcome['name']}, {outcome['by']}"


def _pairs(ones: Sequence[Record], others: Sequence[Record]) -> list[tuple[Record, Record]]:
    if len(ones) == len(others) == 1:
        return [(ones[0], others[0])]
    return _alike(ones, others, _outcome_name) or _alike(ones, others, itemgetter("by"))


def _alike(
    ones: Sequence[Record], others: Sequence[Record], kind: Callable[[Record], str]
) -> list[tuple[Record, Record]]:
    left, right = _singles(ones, kind), _singles(others, kind)
    return [(outcome, right[key]) for key, outcome in left.items() if key in right]


def _singles(outcomes: Sequence[Record], kind: Callable[[Record], str]) -> dict[str, Record]:
    """The outcome of each kind of which there is but one."""
    often = Counter(map(kind, outcomes))
    return {kind(outcome): outcome for outcome in outcomes if often[kind(outcome)] == 1}


def _difference(left: Record, right: Record, metric: str) -> Difference:
    """Over the queries that both were asked: of the same id and text. Raises InvalidDataset if there are none."""
    others = {(query["id"], query["text"]): query for query in right["queries"]}
    both = [(query, others[key]) for query in left["queries"] if (key := (query["id"], query["text"])) in others]
    if not both:
        raise InvalidDataset(f"{_outcome_name(left)} and {_outcome_name(right)}", "were asked no query in common")
    pairs = [_change_of(one, other, metric) for one, other in both]
    ones, twos = [pair.one.value for pair in pairs], [pair.other.value for pair in pairs]
    names = dict.fromkeys((_outcome_name(left), _outcome_name(right)))
    return Difference(
        name=" against ".join(names),
        metric=metric,
        queries=len(pairs),
        one=fmean(ones),
        other=fmean(twos),
        p=paired_p(ones, twos),
        changed=tuple(sorted((pair for pair in pairs if pair.gain), key=lambda pair: (pair.gain, pair.id))),
    )


def _change_of(one: Record, other: Record, metric: str) -> Changed:
    gold = tuple(frozenset(item) for item in one["gold"])
    return Changed(
        id=one["id"], text=one["text"], gold=gold, one=_side(one, gold, metric), other=_side(other, gold, metric)
    )


def _side(query: Record, gold: Gold, metric: str) -> Side:
    """Raises UnknownName for a metric that there is not."""
    found = measure_query(query["agents"], gold)
    if metric not in found:
        raise UnknownName("metric", metric, found)
    return Side(value=found[metric], agents=tuple(query["agents"]), votes=query["votes"])


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
    level: Level = "agents"
    """What was ranked."""

    @property
    def queries_name(self) -> str:
        """Such as `LiveMCPBench, steps`, or `LiveMCPBench, steps, tools`."""
        return ", ".join(filter(None, (self.dataset, self.by, self.split, "tools" if self.level == "tools" else "")))

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
    levels: Sequence[Level] = ("agents",),
) -> list[Table]:
    """One table for each level, dataset and way of asking, in the order of the records, each given with its name.

    `bys`: only these ways of asking; empty: all. `against`: the method that others are tested by; empty: a table's
    first. What is tested is the ranking of agents, where the record holds its queries: else there is no p.
    Raises UnknownName for a metric that the records lack, and for a method that is in none.
    """
    groups: dict[tuple[Level, str, str, str, str], list[_Entry]] = {}
    held = [(name, record["dataset"], outcome) for name, record in records for outcome in record["outcomes"]]
    for level, (name, dataset, outcome) in product(levels, held):
        if outcome[level] and outcome["by"] in (bys or (outcome["by"],)):
            key = (level, dataset["name"], dataset["checksum"], outcome["by"], outcome["split"])
            groups.setdefault(key, []).append(_Entry(name, outcome))
    found = [_table(key, entries, metrics, against) for key, entries in groups.items()]
    if against and all(table.against != against for table in found):
        raise UnknownName("method", against, {row.method for table in found for row in table.rows})
    return found


def _table(
    key: tuple[Level, str, str, str, str], entries: Sequence[_Entry], metrics: Sequence[str], against: str
) -> Table:
    level, dataset, _, by, split = key
    names = _distinct_names(entries)
    first = against or names[0]
    tested = entries[names.index(first)] if first in names else None
    rows = [
        _row(name, entry, metrics, level, None if entry is tested or level == "tools" else tested)
        for name, entry in zip(names, entries, strict=True)
    ]
    return Table(
        dataset=dataset,
        by=by,
        split=split,
        against=first if tested else "",
        metrics=tuple(metrics),
        rows=tuple(rows),
        level=level,
    )


def _distinct_names(entries: Sequence[_Entry]) -> list[str]:
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


def _count_judged(outcome: Record, level: Level) -> int:
    """Of records that do not tell for tools: how many queries there were."""
    return int(outcome["judged"] if level == "agents" else outcome.get("judged_tools", outcome["judged"]))


def _row(name: str, entry: _Entry, metrics: Sequence[str], level: Level, tested: _Entry | None) -> Row:
    outcome, means = entry.outcome, entry.outcome[level]
    for metric in metrics:
        if metric not in means:
            raise UnknownName("metric", metric, means)
    compared = _compare(tested.outcome, outcome) if tested else None
    return Row(
        method=name,
        recipe=outcome["recipe"]["name"],
        texts=outcome["texts"],
        embedder=entry.embedder,
        agent_weight=outcome["recipe"]["agent_weight"],
        tool_weight=outcome["recipe"]["tool_weight"],
        judged=_count_judged(outcome, level),
        withheld=outcome["withheld"],
        p50_ms=outcome["p50_ms"],
        estimates={metric: _estimate(means[metric], compared and compared(metric)) for metric in metrics},
    )


def _estimate(mean: Sequence[float], p: float | None) -> Estimate:
    value, low, high = mean
    return Estimate(value=value, low=low, high=high, p=p)


def _compare(one: Record, other: Record) -> Callable[[str], float] | None:
    """p by metric over the queries that both were asked; None where a record holds none of them."""
    ones, others = ({query["id"]: query for query in each.get("queries", ())} for each in (one, other))
    both = [(_metrics_of(ones[name]), _metrics_of(others[name])) for name in ones if name in others]
    return partial(_p, both) if both else None


def _p(both: Sequence[tuple[Mapping[str, float], Mapping[str, float]]], metric: str) -> float:
    return round(paired_p([left[metric] for left, _ in both], [right[metric] for _, right in both]), 4)


def _metrics_of(query: Record) -> Mapping[str, float]:
    return _measured(tuple(query["agents"]), tuple(frozenset(item) for item in query["gold"]))


_measured = lru_cache(maxsize=2**14)(measure_query)
"""The method that all others are tested by is judged once."""


def markdown(tables: Iterable[Table]) -> str:
    """Each table under what it is of, and what the brackets and stars mean."""
    parts = [
        part
        for table in tables
        for part in (f"{_escape_markdown(table.queries_name)}:", table_markdown(table), legend(table))
    ]
    return "\n\n".join(parts)


def table_markdown(table: Table) -> str:
    """Method, queries and p50 beside `mean [low, high]` of each metric."""
    rows = [
        [
            _escape_markdown(row.method),
            *(_cell(row.estimates[name]) for name in table.metrics),
            row.judged,
            f"{row.p50_ms:.2f}",
        ]
        for row in table.rows
    ]
    return markdown_table(("method", *table.metrics, "queries", "p50 ms"), rows)


def legend(table: Table) -> str:
    brackets = "In brackets the 95 % bootstrap interval of the mean."
    tested = [each for row in table.rows for each in row.estimates.values() if each.p is not None]
    if not tested:
        return brackets
    stars = ", ".join(f"{_star_text(stars)} p < {below:g}" for below, stars in reversed(STARS))
    return (
        f"{brackets} Against {_escape_markdown(table.against)}: {stars} by a paired randomisation test over queries, "
        "not corrected for the number of comparisons."
    )


def markdown_table(head: Sequence[str], rows: Iterable[Sequence[object]]) -> str:
    """Cells stand as they are given."""
    lines = [head, ["---"] * len(head), *rows]
    return "\n".join("| " + " | ".join(str(cell) for cell in line) + " |" for line in lines)


def mean_markdown(estimate: Estimate) -> str:
    return f"{estimate.value:.3f}{_star_text(estimate.stars)}"


def _cell(estimate: Estimate) -> str:
    return f"{estimate.value:.3f} [{estimate.low:.2f}, {estimate.high:.2f}]{_star_text(estimate.stars)}"


def _star_text(stars: str) -> str:
    return stars.replace("*", r"\*")


def _escape_markdown(text: str) -> str:
    """A name from a record as Markdown shows it, on one line: whatever marks up is escaped."""
    shown = "".join(char if char.isprintable() else " " for char in text)
    return re.sub(r"([\\`*_\[\]<>|])", r"\\\1", " ".join(shown.split()))
