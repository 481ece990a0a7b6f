"""How the default recipe was chosen: by leave-one-dataset-out, so that no figure reported was chosen on its own data.

Of each family of datasets the figure is that of the recipe which is best on all the others; the best in hindsight
stands beside it, and what `hybrid`, `ranks` and `paper` come to.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from itertools import product
from statistics import fmean
from typing import Any

from benchmarks.record import Measure, Result, Target
from benchmarks.world import World, shown
from waygraph.registry.evaluation.dataset import By
from waygraph.registry.evaluation.trial import Outcome, Trial
from waygraph.registry.index.search_index import Leg
from waygraph.registry.routing.recipes import HYBRID, PAPER, RANKS, Recipe

NAME = "default_recipe"
Asked = tuple[str, By]
FAMILIES: Mapping[str, Mapping[Asked, tuple[str, ...]]] = {
    "LiveMCPBench": {
        ("livemcpbench", "steps"): ("Recall@1", "Recall@5", "nDCG@5"),
        ("livemcpbench", "questions"): ("Recall@5",),
    },
    "ToolRet_clean": {
        ("a2x/ToolRet_clean", "questions"): ("Recall@5", "Hit@5"),
        ("a2x/ToolRet_clean_CN", "questions"): ("Recall@5", "Hit@5"),
    },
    "publicMCP": {
        ("a2x/publicMCP", "questions"): ("Recall@10", "Hit@10"),
        ("a2x/publicMCP_CN", "questions"): ("Recall@10", "Hit@10"),
    },
    "examples": {("examples", "questions"): ("Recall@5", "nDCG@5")},
}
"""Family → how each dataset of it is asked → the metrics that count, each as much as the next of its family."""
AT_LEAST = {
    ("livemcpbench", "steps", "Recall@1"): 0.755,
    ("livemcpbench", "steps", "Recall@5"): 0.875,
    ("livemcpbench", "steps", "nDCG@5"): 0.82,
    ("livemcpbench", "questions", "Recall@5"): 0.70,
    ("a2x/ToolRet_clean", "questions", "Recall@5"): 0.68,
    ("a2x/ToolRet_clean", "questions", "Hit@5"): 0.75,
    ("a2x/publicMCP", "questions", "Recall@10"): 0.60,
    ("a2x/publicMCP", "questions", "Hit@10"): 0.84,
}
SHARES: Mapping[Leg, Sequence[float]] = {
    "agent_vector": (0.25, 0.5, 0.75),
    "capability_text": (0.25, 0.5, 0.75),
    "agent_text": (0.1, 0.25),
}
"""What is varied beside `capability_vector`, which has share 1."""
NOTES = (
    "Left out: of the candidates that which is best on the other families, judged on this one. In hindsight: the best "
    "on this one. An English set and its _CN twin are one family, and so are steps and questions of LiveMCPBench.",
    "The form of fusion (scores instead of ranks, BM25 in standard deviations) was found by looking at all these sets: "
    "only the weights are left out.",
)
Values = Mapping[tuple[str, By, str], float]


def run(world: World) -> Result:
    families = {name: asked for name, asked in FAMILIES.items() if not missing(world, asked)}
    if len(families) < len(FAMILIES):
        return Result(name=NAME, skipped="no data: give its folder by --data or WAYGRAPH_BENCH_DATA")
    tried = {recipe.name: recipe for recipe in candidates(quick=world.quick)}
    values: dict[str, dict[tuple[str, By, str], float]] = {name: {} for name in (*tried, PAPER.name)}
    for asked in families.values():
        for name, found in measured(world, asked, [*tried.values(), PAPER]):
            values[name] |= found
    rows = [_row(family, values, list(tried)) for family in families]
    return Result(
        name=NAME, measures=list(_measures(rows)), notes=NOTES, details={"families": rows, "values": _told(values)}
    )


def missing(world: World, asked: Mapping[Asked, object]) -> bool:
    return not all(world.has(name) for name, _ in asked)


def candidates(*, quick: bool = False) -> Iterator[Recipe]:
    """`hybrid` with every combination of shares, and `ranks`."""
    yield RANKS
    yield HYBRID
    for values in list(product(*SHARES.values()))[: 2 if quick else None]:
        recipe = with_shares(HYBRID, dict(zip(SHARES, values, strict=True)))
        if recipe.legs != HYBRID.legs:
            yield replace(recipe, name=f"hybrid {' '.join(f'{value:g}' for value in values)}")


def with_shares(recipe: Recipe, shares: Mapping[Leg, float]) -> Recipe:
    return replace(recipe, legs=tuple(replace(use, share=shares.get(use.leg, use.share)) for use in recipe.legs))


def measured(
    world: World, asked: Mapping[Asked, tuple[str, ...]], recipes: Sequence[Recipe]
) -> Iterator[tuple[str, dict[tuple[str, By, str], float]]]:
    """Recipe and its values, of each way of asking."""
    for (name, by), metrics in asked.items():
        dataset = world.dataset(name)
        progress = shown(f"{name}, {by}")
        trials = [Trial(recipe=recipe, texts=recipe.texts or "contextual", by=by) for recipe in recipes]
        for done, outcome in enumerate(world.bench.outcomes(dataset, trials), start=1):
            progress(done, len(trials))
            yield outcome.trial.recipe.name, {(name, by, metric): _mean(outcome, metric) for metric in metrics}


def _mean(outcome: Outcome, metric: str) -> float:
    return fmean(judgement.agent_metrics[metric] for judgement in outcome.judgements)


def best(values: Mapping[str, Values], names: Sequence[str], families: Sequence[str]) -> str:
    """The candidate with the highest mean over the families; the first of equal ones."""
    return max(names, key=lambda name: fmean(worth(values[name], family) for family in families))


def worth(values: Values, family: str) -> float:
    """Mean over the family's metrics."""
    return fmean(values[name, by, metric] for (name, by), metrics in FAMILIES[family].items() for metric in metrics)


def _row(family: str, values: Mapping[str, Values], names: Sequence[str]) -> dict[str, Any]:
    chosen = {
        "left out": best(values, names, [other for other in FAMILIES if other != family]),
        "in hindsight": best(values, names, [family]),
        **{name: name for name in (HYBRID.name, RANKS.name, PAPER.name)},
    }
    return {
        "family": family,
        "chosen": chosen,
        "values": {
            told: [
                {"dataset": name, "by": by, "metric": metric, "value": round(values[recipe][name, by, metric], 4)}
                for (name, by), metrics in FAMILIES[family].items()
                for metric in metrics
            ]
            for told, recipe in chosen.items()
        },
    }


def _measures(rows: Sequence[Mapping[str, Any]]) -> Iterator[Measure]:
    for row in rows:
        for told in ("left out", HYBRID.name):
            for each in row["values"][told]:
                least = AT_LEAST.get((each["dataset"], each["by"], each["metric"]))
                target = Target(bound="at_least", value=least) if least and told == "left out" else None
                where = each["dataset"].removeprefix("a2x/")
                yield Measure(
                    name=f"{where} {each['by']}, {told}: {each['metric']}", value=each["value"], target=target
                )


def _told(values: Mapping[str, Values]) -> dict[str, dict[str, float]]:
    return {
        recipe: {" ".join(key): round(value, 4) for key, value in found.items()} for recipe, found in values.items()
    }
