"""Tables drawn: recall by depth, recall by weights, quality against latency. matplotlib is imported when it draws."""

import json
import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import asdict
from hashlib import sha256
from math import log2
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from waygraph.registry.model.errors import MissingExtra, StorageFailed
from waygraph_lab.evaluation.compare import Estimate, Row, Table
from waygraph_lab.evaluation.metrics import DEPTHS

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

Form = Literal["svg", "png"]
Kind = Literal["recall", "latency", "weights"]
KINDS: tuple[Kind, ...] = ("recall", "latency", "weights")
RECALLS = tuple(f"Recall@{depth}" for depth in DEPTHS)
"""What a table must hold to be drawn in every way; of fewer, what there is is drawn."""
SWEPT = "Recall@5"
COLOURS = ("#0072b2", "#d55e00", "#009e73", "#cc79a7", "#e69f00", "#56b4e9", "#000000", "#8c510a")
"""Told apart by the colour-blind too: Okabe and Ito, "Color Universal Design" (2008), their yellow as a brown."""
MARKERS = "osD^vPX*"
LINES = ("-", "--", "-.", ":")
SIZE_IN = (7.2, 3.9)
STYLE: dict[Any, Any] = {
    "svg.fonttype": "none",  # text stays text: small files, and words that can be found
    "svg.hashsalt": "waygraph",
    "text.parse_math": False,  # a name may hold dollars
    "font.size": 9,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.grid": True,
    "grid.color": "#e4e4e4",
    "axes.axisbelow": True,
    "legend.frameon": False,
}


def draw(tables: Iterable[Table], folder: Path, form: Form = "svg", *, kinds: Sequence[Kind] = KINDS) -> list[Path]:
    """Writes what each table has the figures for, and returns where: `<dataset>-<by>-recall.svg` and so on.

    The same tables make the same bytes; an SVG tells by `digest` what it was drawn from. Raises MissingExtra without
    matplotlib.
    """
    paths: list[Path] = []
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as exc:
        raise StorageFailed(f"{folder} cannot be made: {exc.strerror}") from exc
    with use_style():
        for table in tables:
            for kind in _possible(table, kinds):
                paths.append(_free(place_of(table, folder, kind, form), paths))
                told = {"Date": None, "Description": digest(table)} if form == "svg" else None
                _DRAWING[kind](table).savefig(paths[-1], dpi=150, metadata=told)
    return paths


def _free(place: Path, taken: Sequence[Path]) -> Path:
    """The place, or with a number where another table of the same name has it."""
    places = (place, *(place.with_stem(f"{place.stem}-{number}") for number in range(2, len(taken) + 2)))
    return next(each for each in places if each not in taken)


def place_of(table: Table, folder: Path, kind: Kind, form: Form = "svg") -> Path:
    stem = re.sub(r"[\W_]+", "-", table.queries_name.lower()).strip("-")
    return folder / f"{stem}-{kind}.{form}"


def digest(table: Table) -> str:
    """SHA-256 of what the table holds, in hex."""
    return digest_of(asdict(table))


def digest_of(drawn: object) -> str:
    """SHA-256 of what is drawn, in hex: of anything that is JSON."""
    return sha256(json.dumps(drawn, sort_keys=True).encode()).hexdigest()


def _possible(table: Table, kinds: Sequence[Kind]) -> Iterator[Kind]:
    """Those that the table has the figures for."""
    there = {
        "recall": len(_recalls(table)) > 1,
        "latency": SWEPT in table.metrics,
        "weights": SWEPT in table.metrics and bool(table.sweeps),
    }
    yield from (kind for kind in kinds if there[kind])


def _recalls(table: Table) -> list[str]:
    return [name for name in RECALLS if name in table.metrics]


def _rows_to_plot(table: Table) -> list[Row]:
    """All rows, but of those that differ in weights alone the first."""
    again = {id(row) for rows in table.sweeps.values() for row in rows[1:]}
    return [row for row in table.rows if id(row) not in again]


def recall_by_depth(table: Table) -> "Figure":
    """A point for each method at each K, with its interval."""
    rows, metrics = _rows_to_plot(table), _recalls(table)
    figure, axes = _axes(table, "Recall@K by method")
    for number, row in enumerate(rows):
        shift = 0.7 * ((number + 0.5) / len(rows) - 0.5)
        places = [at + shift for at in range(len(metrics))]
        _points(axes, places, [row.estimates[name] for name in metrics], number, row.method)
    axes.set_xticks(range(len(metrics)), [name.partition("@")[2] for name in metrics])
    axes.grid(visible=False, axis="x")
    axes.set_xlabel("K: how many agents are looked at")
    axes.set_ylabel("Recall@K (mean, 95 % interval)")
    return _with_legend(figure)


def quality_by_latency(table: Table) -> "Figure":
    figure, axes = _axes(table, f"{SWEPT} against latency")
    for number, row in enumerate(_rows_to_plot(table)):
        _points(axes, [row.p50_ms], [row.estimates[SWEPT]], number, row.method)
    axes.set_xscale("log")
    axes.xaxis.set_major_formatter("{x:g}")
    axes.xaxis.set_minor_formatter("{x:g}")
    axes.tick_params(axis="x", which="minor", labelsize=7)
    axes.set_xlabel("p50 of a route in ms (log scale)")
    axes.set_ylabel(f"{SWEPT} (mean, 95 % interval)")
    return _with_legend(figure)


def recall_by_weights(table: Table) -> "Figure":
    """A line for each recipe that was tried with several weights: the sweep of Agent-as-a-Graph, Figure 2."""
    figure, axes = _axes(table, f"{SWEPT} by weights")
    ticks: dict[float, str] = {}
    for number, (name, rows) in enumerate(table.sweeps.items()):
        placed = sorted({log2(row.agent_weight / row.tool_weight): row for row in rows}.items())
        ticks |= {place: f"({row.agent_weight:g}, {row.tool_weight:g})" for place, row in placed}
        estimates = [row.estimates[SWEPT] for _, row in placed]
        places, colour = [place for place, _ in placed], COLOURS[number % len(COLOURS)]
        means = [each.value for each in estimates]
        axes.plot(places, means, **_line(number), color=colour, marker=marker(number), label=name)
        lows, highs = [each.low for each in estimates], [each.high for each in estimates]
        axes.fill_between(places, lows, highs, color=colour, alpha=0.08, linewidth=0)
    axes.set_xticks(list(ticks), list(ticks.values()), rotation=60, ha="right", rotation_mode="anchor")
    axes.set_xlabel("weights (agent, tool), by their ratio on a log scale")
    axes.set_ylabel(f"{SWEPT} (mean, 95 % interval)")
    return _with_legend(figure)


_DRAWING: "Mapping[Kind, Callable[[Table], Figure]]" = {
    "recall": recall_by_depth,
    "latency": quality_by_latency,
    "weights": recall_by_weights,
}


def _with_legend(figure: "Figure") -> "Figure":
    """Beside the axes, where it covers nothing."""
    figure.legend(loc="outside right upper")
    return figure


def _points(axes: "Axes", places: Sequence[float], estimates: Sequence[Estimate], number: int, name: str) -> None:
    below = [each.value - each.low for each in estimates]
    above = [each.high - each.value for each in estimates]
    axes.errorbar(
        places,
        [each.value for each in estimates],
        yerr=[below, above],
        label=name,
        color=COLOURS[number % len(COLOURS)],
        fmt=marker(number),
        markersize=5,
        elinewidth=0.8,
    )


def _line(number: int) -> dict[str, Any]:
    """Each next one thinner and broken up, so that of lines that run together all are seen."""
    thinner = min(number, 3)
    return {"linestyle": LINES[number % len(LINES)], "linewidth": 2.4 - 0.5 * thinner, "markersize": 9 - 2 * thinner}


def marker(number: int) -> str:
    """Another one for each round of the colours."""
    return MARKERS[(number + number // len(COLOURS)) % len(MARKERS)]


def _axes(table: Table, what: str) -> "tuple[Figure, Axes]":
    from matplotlib.figure import Figure

    figure = Figure(figsize=SIZE_IN, layout="constrained")
    axes = figure.add_subplot()
    queries = max((row.judged for row in table.rows), default=0)
    axes.set_title(f"{what}: {table.queries_name}, {queries} queries", loc="left", fontsize=10)
    return figure, axes


@contextmanager
def use_style() -> Iterator[None]:
    """Of all figures. Raises MissingExtra without matplotlib."""
    try:
        from matplotlib import rc_context
    except ImportError as error:
        raise MissingExtra("drawing", package="matplotlib", extra="plots", of="waygraph-lab") from error
    with rc_context(STYLE):
        yield
