"""A learned ranker beside `hybrid`, each family of data sets judged by trees that learned on the others alone."""

import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, replace
from statistics import median
from typing import Any

import numpy as np

from benchmarks.families import FAMILIES
from benchmarks.history.steps import LIVE, TRUE, steps_of
from benchmarks.record import Measure, Result, Target
from benchmarks.world import NATURAL, World, report_part
from waygraph_lab.evaluation.compare import markdown_table
from waygraph_lab.evaluation.dataset import Dataset
from waygraph_lab.training.ranker import FEATURES
from waygraph_lab.training.ranker_training import RankedList, RankerTraining, cross_fit, fit_levels, fit_trees
from waygraph_lab.training.ranker_trials import rank_need, rank_requests

NAME = "ranker"
CONVERSATIONS = {"sgd-train": "sgd", "sgd-dev": "sgd", "traject-dev": "traject", "api-bank": "api-bank"}
LEARNT = ", transitions learnt"
MOST, QUICK_TREES, ROUNDS, CANDIDATES = 1_500, 5, 300, 100
NOTES = (
    "LambdaMART (lightgbm) over the votes for the 20 best candidates of `hybrid`. Each family is judged by trees that "
    "were learned, and whose strength was chosen, on the other families alone. Intervals: 95 %, by bootstrap.",
    "First try: trees free in all features, full strength. Second, which is shown and which the command has: more of a "
    "vote never counts against a candidate, and a strength that is chosen on other families, 0 where nothing gains.",
    "At most 1,500 requests a data set, by seed. Transitions learnt: four fifths of the requests know transitions that "
    "were counted on conversations of other groups than their own.",
)


def run(world: World) -> Result:
    families = {name: family for family, asked in FAMILIES.items() for name, _ in asked}
    families |= {NATURAL: NATURAL} | {f"trajectories/{name}": family for name, family in CONVERSATIONS.items()}
    if not all(world.has(name) for name in families):
        return Result(name=NAME, skipped="no data: give its folder by --data or WAYGRAPH_BENCH_DATA")
    training = RankerTraining(trees=QUICK_TREES) if world.quick else RankerTraining()
    lists = [each for name, family in families.items() for each in rank_dataset(world, name, family)]
    started = time.process_time()
    rows = [asdict(row) for row in cross_fit(lists, training)]
    took_s = time.process_time() - started
    _, strengths = fit_levels(lists, training)
    falls = sorted({f"{row['dataset']} {row['by']}, {row['level']}" for row in rows if row["high"] < 0})
    return Result(
        name=NAME,
        embedder=world.embedder().fingerprint,
        measures=[
            Measure(
                name="ranker: data sets of a family left out that fall beyond chance",
                value=len(falls),
                target=Target(bound="at_most", value=0),
            ),
            Measure(name="ranker: figures that gain beyond chance", value=sum(row["low"] > 0 for row in rows)),
            Measure(name="ranker: figures", value=len(rows)),
            _time_trees(lists, training),
            Measure(name="ranker: learning and judging, processor time", value=took_s, unit="s"),
        ],
        notes=NOTES,
        details={"rows": rows, "falls": falls, "strengths": strengths},
    )


def rank_dataset(world: World, name: str, family: str) -> Iterator[RankedList]:
    """As it stands, conversations with transitions too, and LiveMCPBench's steps with true history too."""
    dataset = world.dataset(name)
    for learning in (False, True) if name.startswith("trajectories/") else (False,):
        label = dataset.name + (LEARNT if learning else "")
        for each in _ranked(world, dataset, learning):
            yield replace(each, dataset=label, family=family)
    if name == LIVE:
        for each in _with_true_history(world, dataset):
            yield replace(each, dataset=f"{dataset.name}, {TRUE}", family=family)


def _ranked(world: World, dataset: Dataset, learning: bool) -> list[RankedList]:
    with world.registry_of([], texts="contextual") as registry:
        return rank_requests(registry, dataset, dataset.draw(MOST).questions, report_part, learning=learning)


def _with_true_history(world: World, dataset: Dataset) -> Iterator[RankedList]:
    counts = {entry.agent.id: len(entry.tools) for entry in dataset.catalogue.entries}
    with world.registry_of([dataset.catalogue], texts="contextual") as registry:
        for question in dataset.questions:
            for step in steps_of(registry, question):
                need = replace(step.need, history=step.histories[TRUE])
                yield from rank_need(registry, dataset.name, need, "steps", counts, part=question.id)


def _time_trees(lists: Sequence[RankedList], training: RankerTraining) -> Measure:
    """Of the trees alone, over candidates of real requests."""
    trees = fit_trees([each for each in lists if each.level == "tools"], training)
    table = np.concatenate([each.table for each in lists])[:CANDIDATES]
    times: list[float] = []
    for _ in range(ROUNDS):
        started = time.perf_counter()
        trees.score(table)
        times.append((time.perf_counter() - started) * 1000)
    name = f"ranker: trees over {CANDIDATES} candidates, {len(FEATURES)} features, p50"
    return Measure(name=name, value=median(times), unit="ms", target=Target(bound="at_most", value=0.3))


def tables_of(details: Mapping[str, Any]) -> str:
    rows = [
        [
            *(row[name] for name in ("dataset", "by", "level", "queries", "metric")),
            *(f"{row[name]:.3f}" for name in ("base", "tuned")),
            f"{row['tuned'] - row['base']:+.3f} [{row['low']:+.3f}, {row['high']:+.3f}]",
        ]
        for row in details["rows"]
        if row["metric"] != "Recall@5"
    ]
    head = ("data set", "by", "level", "queries", "metric", "hybrid", "ranker", "change, 95 % interval")
    told = "; ".join(details["falls"]) or "none"
    return "\n\n".join(
        (
            "`hybrid` and a learned ranker behind it, each family judged by trees that learned on the others:",
            markdown_table(head, rows),
            f"Falls beyond chance: {told}.",
        )
    )
