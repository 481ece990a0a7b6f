"""Tries every idea on every dataset and compares it with what ships, query by query."""

from collections.abc import Iterator, Mapping, Sequence
from statistics import fmean
from typing import Any

import numpy as np

from benchmarks.ablations.case import Case, Matrix, case_of, opened
from benchmarks.ablations.ideas import BASELINE, IDEAS
from benchmarks.families import FAMILIES, all_there
from benchmarks.record import Result
from benchmarks.world import World, shown
from waygraph.registry.evaluation.compare import markdown_table
from waygraph.registry.evaluation.metrics import DEPTHS, measured, paired_p

NAME = "ablations"
SURE = 0.05
"""A change with a smaller p is told from chance; with this many tries, one in twenty is so by chance alone."""
NOTES = (
    "Every idea is tried alone, with one strength for all datasets, on matrices of exact scores; requests that name an "
    "agent outright are not treated apart, so the baseline is a little below the recipe hybrid.",
    "p: paired randomisation test against the baseline over the queries, two-sided, not corrected for the many tries.",
)
Values = Sequence[float]


def run(world: World) -> Result:
    if not all_there(world):
        return Result(name=NAME, skipped="no data: give its folder by --data or WAYGRAPH_BENCH_DATA")
    tried = [row for asked in FAMILIES.values() for row in _tried(world, asked)]
    return Result(name=NAME, notes=NOTES, details={"baseline": BASELINE, "tried": tried})


def _tried(world: World, asked: Mapping[tuple[str, Any], Sequence[str]]) -> Iterator[dict[str, Any]]:
    for (name, by), metrics in asked.items():
        dataset = world.dataset(name)
        progress = shown(f"{name}, {by}")
        with opened(world, dataset) as catalogue:
            case = case_of(catalogue, dataset, by)
            base = judged(case, IDEAS[BASELINE](case), metrics)
            for done, (idea, score) in enumerate(IDEAS.items(), start=1):
                yield {"dataset": name, "by": by, "idea": idea, "metrics": compared(case, score(case), base)}
                progress(done, len(IDEAS))


def compared(case: Case, scores: Matrix, base: Mapping[str, Values]) -> dict[str, list[float]]:
    """Metric → its mean, the change against the baseline, p of that."""
    found = judged(case, scores, list(base))
    return {
        metric: [
            round(fmean(values), 4),
            round(fmean(values) - fmean(base[metric]), 4),
            round(paired_p(values, base[metric]), 4),
        ]
        for metric, values in found.items()
    }


def judged(case: Case, scores: Matrix, metrics: Sequence[str]) -> dict[str, Values]:
    """Each metric of each query. Equal scores stand in the order of ids."""
    ids = np.array(case.catalogue.agent_ids)
    by_id = np.argsort(ids)
    order = np.argsort(-scores[:, by_id], axis=1, kind="stable")[:, : max(DEPTHS)]
    each = [measured(ids[by_id][row].tolist(), gold) for row, gold in zip(order, case.golds, strict=True)]
    return {metric: [query[metric] for query in each] for metric in metrics}


def tables_of(details: Mapping[str, Any]) -> str:
    """Ideas × datasets, in Markdown: the first metric of each; bold where the change is told from chance."""
    first = {(row["dataset"], row["by"]): next(iter(row["metrics"])) for row in details["tried"]}
    found = {(row["idea"], row["dataset"], row["by"]): row["metrics"] for row in details["tried"]}
    columns = [f"{name.removeprefix('a2x/')} {by}, {metric}" for (name, by), metric in first.items()]
    rows = [
        [
            idea,
            *(
                _cell(found[idea, *key][metric], is_baseline=idea == details["baseline"])
                for key, metric in first.items()
            ),
        ]
        for idea in dict.fromkeys(row["idea"] for row in details["tried"])
    ]
    head = f"Ideas for the default, and what each changes alone (bold: p < {SURE:g}, not corrected for the many tries):"
    return f"{head}\n\n{markdown_table(['idea', *columns], rows)}"


def _cell(told: Sequence[float], *, is_baseline: bool) -> str:
    value, change, p = told
    if is_baseline:
        return f"{value:.3f}"
    return f"**{change:+.3f}**" if p < SURE else f"{change:+.3f}"
