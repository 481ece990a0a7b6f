"""How the default recipe was chosen: by leave-one-dataset-out, so that no figure reported was chosen on its own data.

Of each family of datasets the figure is that of the recipe which is best on all the others; the best in hindsight
stands beside it, and what `hybrid`, `ranks` and `paper` come to.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from itertools import product
from statistics import fmean
from typing import Any

from benchmarks.families import FAMILIES, all_there
from benchmarks.record import Measure, Result, Target
from benchmarks.world import World, show_progress
from waygraph.registry.index.search_index import Leg
from waygraph.registry.routing.recipes import HYBRID, PAPER, RANKS, Recipe
from waygraph_lab.evaluation.compare import markdown_table
from waygraph_lab.evaluation.dataset import By
from waygraph_lab.evaluation.run import Outcome, Trial

NAME = "default_recipe"
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
LEGS: tuple[Leg, ...] = ("capability_vector", "agent_vector", "capability_text", "agent_text")
SHARES = ((1.0,), (0.25, 0.5, 0.75, 1.0), (0.25, 0.5, 0.75), (0.1, 0.25, 0.5))
"""What is tried of `LEGS`, in their order: `capability_vector` is the measure of the others."""
NOTES = (
    "Left out: of the candidates that which is best on the other families, judged on this one. In hindsight: the best "
    "on this one. An English set and its _CN twin are one family, and so are steps and questions of LiveMCPBench.",
    "The form of fusion (scores instead of ranks, BM25 in standard deviations) was found by looking at all these sets: "
    "only the weights are left out.",
)
Shares = tuple[float, ...]
Key = tuple[str, By, str]
"""Dataset, way of asking, metric."""
Values = Mapping[Key, float]


def run(world: World) -> Result:
    if not all_there(world):
        return Result(name=NAME, skipped="no data: give its folder by --data or WAYGRAPH_BENCH_DATA")
    recipes: dict[Shares, Recipe] = {shares: with_shares(shares) for shares in product(*SHARES)}
    values = measure(world, {recipe.name: recipe for recipe in (*recipes.values(), RANKS, PAPER)})
    tried: dict[Shares, Values] = {shares: values[recipe.name] for shares, recipe in recipes.items()}
    rows = [_row(family, tried, values) for family in FAMILIES]
    return Result(
        name=NAME,
        measures=list(_measures(rows)),
        notes=NOTES,
        details={
            "families": rows,
            "best of all": _share_name(best(tried, list(FAMILIES))),
            "tried": {
                _share_name(shares): {" ".join(key): round(value, 4) for key, value in found.items()}
                for shares, found in tried.items()
            },
        },
    )


def with_shares(shares: Shares) -> Recipe:
    """`hybrid` with other shares. It withholds nothing, unless it is `hybrid` itself, which alone is calibrated."""
    by_leg = dict(zip(LEGS, shares, strict=True))
    legs = tuple(replace(use, share=by_leg.get(use.leg, use.share)) for use in HYBRID.legs)
    return HYBRID if legs == HYBRID.legs else replace(HYBRID, name=_share_name(shares), legs=legs, calibrations=())


def _share_name(shares: Shares) -> str:
    return f"hybrid {' '.join(f'{share:g}' for share in shares)}"


def measure(world: World, recipes: Mapping[str, Recipe]) -> dict[str, Values]:
    """Recipe and its values, of every dataset and way of asking, by the router."""
    found: dict[str, dict[Key, float]] = {name: {} for name in recipes}
    for (name, by), metrics in (each for family in FAMILIES.values() for each in family.items()):
        dataset = world.dataset(name)
        progress = show_progress(f"{name}, {by}")
        trials = [Trial(recipe=recipe, texts=recipe.texts or "contextual", by=by) for recipe in recipes.values()]
        for done, outcome in enumerate(world.bench.outcomes(dataset, trials), start=1):
            progress(done, len(trials))
            found[outcome.trial.recipe.name] |= {(name, by, metric): _mean(outcome, metric) for metric in metrics}
    return dict(found)


def _mean(outcome: Outcome, metric: str) -> float:
    return fmean(judgement.agent_metrics[metric] for judgement in outcome.judgements)


def best(tried: Mapping[Shares, Values], families: Sequence[str]) -> Shares:
    """Those with the highest mean over the families; the first of equal ones."""
    return max(tried, key=lambda shares: fmean(worth(tried[shares], family) for family in families))


def worth(values: Values, family: str) -> float:
    """Mean over the family's metrics."""
    return fmean(values[name, by, metric] for (name, by), metrics in FAMILIES[family].items() for metric in metrics)


def _row(family: str, tried: Mapping[Shares, Values], values: Mapping[str, Values]) -> dict[str, Any]:
    chosen = {
        "left out": with_shares(best(tried, [other for other in FAMILIES if other != family])),
        "in hindsight": with_shares(best(tried, [family])),
        **{recipe.name: recipe for recipe in (HYBRID, RANKS, PAPER)},
    }
    return {
        "family": family,
        "chosen": {told: recipe.name for told, recipe in chosen.items()},
        "values": {
            told: [
                {"dataset": name, "by": by, "metric": metric, "value": round(values[recipe.name][name, by, metric], 4)}
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


def tables_of(details: Mapping[str, Any]) -> str:
    """Each family's metrics by the recipe that was chosen without it, by that chosen on it, and by the named ones."""
    rows = []
    told = list(details["families"][0]["values"])
    for row in details["families"]:
        for each in zip(*row["values"].values(), strict=True):
            where = f"{each[0]['dataset'].removeprefix('a2x/')} {each[0]['by']}, {each[0]['metric']}"
            rows.append([where, *(f"{value['value']:.3f}" for value in each)])
    chosen = [[row["family"], row["chosen"]["left out"], row["chosen"]["in hindsight"]] for row in details["families"]]
    return "\n\n".join(
        (
            "The default recipe, its shares chosen without the family reported (left out), and on it (in hindsight):",
            markdown_table(["what", *told], rows),
            f"Shares of {', '.join(LEGS)}; best on all families together: {details['best of all']}:",
            markdown_table(["family", "left out", "in hindsight"], chosen),
        )
    )
