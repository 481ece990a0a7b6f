"""The record of `scale`, drawn on two logarithmic axes: seconds and memory by the number of tools."""

from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from benchmarks.store.scale import LABELS
from waygraph_lab.evaluation.plots import COLOURS, LINES, digest_of, marker, use_style

if TYPE_CHECKING:
    from matplotlib.axes import Axes

SIZE_IN = (8.4, 3.9)
SECONDS = {
    "first_s": "first ingest",
    "own_s": "a change, a process of its own",
    "staying_s": "a change, a process that stays",
    "route_ms": "a route, vector cached",
}
MEMORY = {"first_mib": "first ingest, peak", "own_mib": "a change, peak", "reader_mib": "a reader"}
"""What is measured → its words in the figure."""
FILE = "scale.svg"


def draw_scale(details: Mapping[str, Any], folder: Path) -> Path:
    """`details` of a record. The SVG tells by `digest_of` what it was drawn from. Raises MissingExtra without
    matplotlib.
    """
    with use_style():
        from matplotlib.figure import Figure

        figure = Figure(figsize=SIZE_IN, layout="constrained")
        for axes, lines, unit in zip(figure.subplots(1, 2), (SECONDS, MEMORY), ("seconds", "MiB"), strict=True):
            _draw(axes, details["values"], lines)
            axes.set(xscale="log", yscale="log", xlabel="tools", ylabel=unit)
            axes.legend(fontsize=7)
        folder.mkdir(parents=True, exist_ok=True)
        figure.savefig(folder / FILE, metadata={"Date": None, "Description": digest_of(details)})
    return folder / FILE


def _draw(axes: "Axes", values: Mapping[str, Mapping[str, Mapping[str, float]]], lines: Mapping[str, str]) -> None:
    for number, (arm, by_tools) in enumerate(values.items()):
        for colour, (what, words) in enumerate(lines.items()):
            scale = 1000 if LABELS[what][1] == "ms" else 1
            points = {int(tools): found[what] / scale for tools, found in by_tools.items() if what in found}
            axes.plot(
                list(points),
                list(points.values()),
                linestyle=LINES[number % len(LINES)],
                color=COLOURS[colour],
                marker=marker(colour),
                markersize=5,
                label=f"{words}, {arm}" if len(values) > 1 else words,
            )
