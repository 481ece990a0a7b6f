"""Whether the router knows that nothing fits: every request asked with its right agents there, and without them.

Its confidence is calibrated here: on all families of datasets for what ships, and for what is reported of a family on
the other ones. `WAYGRAPH_EMBEDDER=SPEC python -m benchmarks abstention` calibrates for another embedder, and writes a
record of its own; its `details.ships` are the numbers for `registry/routing/recipes.py`.
"""

import random
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from math import floor, inf, log
from typing import Any

import numpy as np

from benchmarks.families import FAMILIES
from benchmarks.record import Measure, Result
from benchmarks.world import World, show_progress
from waygraph.registry.model.nouns import Filters, Query
from waygraph.registry.model.settings import DEFAULT_EMBEDDER
from waygraph.registry.registry import Registry
from waygraph.registry.routing.recipes import HYBRID, LEXICAL, RANKS, Calibration, Recipe
from waygraph_lab.evaluation.compare import markdown_table
from waygraph_lab.evaluation.dataset import Asked, By
from waygraph_lab.evaluation.metrics import recall

NAME = "abstention"
RECIPES = (HYBRID, RANKS, LEXICAL)
DEPTH = 5
MOST = 300
"""Requests of a dataset, drawn by a seed: enough for a curve of two numbers."""
SEED = 5
LOST_SHARE = 0.01
"""Of right answers, in what is reported."""
SHIPPED_SHARE = 0.005
"""In what ships: a right answer that is withheld costs more than a wrong one that is shown."""
ROUNDS = 50
PLAIN = Calibration(offset=0.0, slope=1.0, least=0.0)
"""Withholds nothing; the confidence is the fit through the logistic function."""
NOTES = (
    "Each request is asked of the whole catalogue (`present`) and with its right agents filtered out (`absent`). Word "
    "statistics (BM25) still count the filtered agents' texts.",
    "A right answer is a present request with a right agent among the first 5. Calibrated on the other families: "
    "`auroc` and `brier` (mean squared error of the probability, .25 is a coin's) of present against absent; `lost` "
    "and `abstained` are the shares of right answers and of absent requests below the probability under which at most "
    "1 % of the right answers lie on every dataset of the other families.",
    "`ships`: calibrated on all families, at most 0.5 % of the right answers lost on each; what that share comes to on "
    "families that it was not set on stands in the last two columns.",
    "A dataset counts as much as the next, whatever its size; of large ones 300 requests are drawn. A request that "
    "names an entity outright is never withheld, has confidence 1, and is left out of the calibration.",
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Probes:
    """A dataset's answers by one recipe: fits with the right agents there and without them, and of those which are
    there the ones that were right. Infinite where an entity was named."""

    family: str
    data: str
    by: By
    recipe: Recipe
    present: Sequence[float]
    absent: Sequence[float]
    right: Sequence[float]


def run(world: World) -> Result:
    spec = world.configured or DEFAULT_EMBEDDER
    fingerprint = world.embedder(spec).fingerprint
    recipes = RECIPES if spec == DEFAULT_EMBEDDER else [recipe for recipe in RECIPES if recipe.needs_vectors]
    probes = [
        each
        for family, asked in FAMILIES.items()
        for data in asked
        if world.has(data[0])
        for each in probe(world, family, data, recipes, spec)
    ]
    rows = [row for recipe in recipes for row in leave_out(_of(probes, recipe))]
    return Result(
        name=NAME if spec == DEFAULT_EMBEDDER else f"{NAME}_{re.sub(r'[^A-Za-z0-9.-]+', '-', fingerprint)}",
        embedder=fingerprint,
        measures=list(_measures(rows)),
        notes=NOTES,
        details={"rows": rows, "ships": {r.name: _as_json(calibrate(_of(probes, r), SHIPPED_SHARE)) for r in recipes}},
    )


def probe(world: World, family: str, data: tuple[str, By], recipes: Sequence[Recipe], spec: str) -> Iterator[Probes]:
    """`data`: a dataset and how it is asked; `spec`: of the embedder."""
    name, by = data
    dataset = world.dataset(name)
    asked = dataset.queries(by)
    chosen = random.Random(SEED).sample(asked, min(MOST, len(asked)))  # noqa: S311 - no secret
    with world.registry_of([dataset.catalogue], texts="contextual", embedder=spec) as registry:
        agents = [agent.id for agent in registry.agents()]
        for recipe in recipes:
            told = show_progress(f"{name}, {by}, {recipe.name}")
            open_minded = replace(recipe, calibrations=(PLAIN,))
            present: list[float] = []
            absent: list[float] = []
            right: list[float] = []
            for done, need in enumerate(chosen, start=1):
                fit, is_right = ask(registry, open_minded, need, Filters())
                present.append(fit)
                right += [fit] if is_right else []
                absent.append(ask(registry, open_minded, need, Filters(agent_ids=others(agents, need)))[0])
                told(done, len(chosen))
            yield Probes(family=family, data=name, by=by, recipe=recipe, present=present, absent=absent, right=right)


def ask(registry: Registry, recipe: Recipe, need: Asked, filters: Filters) -> tuple[float, bool]:
    """The answer's fit, infinite if an entity was named, and whether it is right."""
    route = registry.route(Query(text=need.texts[0], limit=DEPTH, filters=filters), recipe=recipe)
    assert route.confidence is not None
    fit = inf if route.confidence == 1 else log(route.confidence / (1 - route.confidence))
    return fit, recall([match.agent.id for match in route.matches], need.gold, DEPTH) > 0


def others(agents: Sequence[str], need: Asked) -> tuple[str, ...]:
    right = frozenset().union(*need.gold)
    return tuple(agent for agent in agents if agent not in right)


def _of(probes: Sequence[Probes], recipe: Recipe) -> list[Probes]:
    return [probe for probe in probes if probe.recipe == recipe]


def leave_out(probes: Sequence[Probes]) -> Iterator[dict[str, Any]]:
    """A row for each dataset, by the calibration on the other families (on all, if there is but one)."""
    for probe in probes:
        elsewhere = [p for p in probes if p.family != probe.family] or probes
        calibration, cautious = calibrate(elsewhere), calibrate(elsewhere, SHIPPED_SHARE)
        present, absent = (
            [calibration.probability(fit) for fit in fits if fit < inf] for fits in (probe.present, probe.absent)
        )
        yield {
            "data": probe.data,
            "by": probe.by,
            "recipe": probe.recipe.name,
            "queries": len(probe.present),
            "auroc": round(auroc(present, absent), 4),
            "brier": round(brier(present, absent), 4),
            "abstained": round(share_below(probe.absent, calibration), 4),
            "lost": round(share_below(probe.right, calibration), 4),
            "abstained at .5 %": round(share_below(probe.absent, cautious), 4),
            "lost at .5 %": round(share_below(probe.right, cautious), 4),
        }


def calibrate(probes: Sequence[Probes], share: float = LOST_SHARE) -> Calibration:
    """By all of them, each with equal weight."""
    fits: list[float] = []
    there: list[float] = []
    weights: list[float] = []
    for probe in probes:
        for each, is_present in ((probe.present, 1.0), (probe.absent, 0.0)):
            known = [fit for fit in each if fit < inf]
            fits += known
            there += [is_present] * len(known)
            weights += [1 / len(known)] * len(known)
    offset, slope = platt(fits, there, weights)
    found = Calibration(offset=round(offset, 2), slope=round(slope, 2), least=0.0)
    # Rounded down: what is exactly at the threshold is not withheld.
    return replace(found, least=floor(1000 * found.probability(threshold_losing(probes, share))) / 1000)


def platt(fits: Sequence[float], there: Sequence[float], weights: Sequence[float]) -> tuple[float, float]:
    """Offset and slope of the likeliest logistic curve, by Newton's method: Platt (1999), without its smoothing."""
    rows = np.stack([np.ones(len(fits)), np.asarray(fits)], axis=1)
    wanted, weight = np.asarray(there), np.asarray(weights)
    found = np.zeros(2)
    for _ in range(ROUNDS):
        odds = 1 / (1 + np.exp(-rows @ found))
        slope = rows.T @ (weight * (odds - wanted))
        found -= np.linalg.solve((rows * (weight * odds * (1 - odds))[:, None]).T @ rows, slope)
    return float(found[0]), float(found[1])


def threshold_losing(probes: Sequence[Probes], share: float) -> float:
    """The highest fit below which at most `share` of the right answers lie on each of the datasets."""
    return min(sorted(probe.right)[floor(share * len(probe.right))] for probe in probes if probe.right)


def share_below(fits: Sequence[float], calibration: Calibration) -> float:
    """Of those that would be withheld."""
    return sum(fit < inf and calibration.probability(fit) < calibration.least for fit in fits) / len(fits)


def brier(present: Sequence[float], absent: Sequence[float]) -> float:
    """Mean squared error of probabilities, in [0, 1]; both kinds weigh the same. Source: Brier (1950)."""
    return (sum((1 - p) ** 2 for p in present) / len(present) + sum(p * p for p in absent) / len(absent)) / 2


def tables_of(details: Mapping[str, Any]) -> str:
    rows = details["rows"]
    head = "Whether anything fits, by the calibration on the other families:"
    return f"{head}\n\n{markdown_table(tuple(rows[0]), [tuple(row.values()) for row in rows])}"


def auroc(present: Sequence[float], absent: Sequence[float]) -> float:
    """The chance that an answerable query scores above an unanswerable one; a tie is half. In [0, 1]."""
    above = sum((p > a) + 0.5 * (p == a) for p in present for a in absent)
    return above / (len(present) * len(absent))


def _as_json(calibration: Calibration) -> dict[str, float]:
    return {"offset": calibration.offset, "slope": calibration.slope, "least": calibration.least}


def _measures(rows: Sequence[Mapping[str, Any]]) -> Iterator[Measure]:
    for row in rows:
        if row["recipe"] == HYBRID.name:
            where = f"abstention, {row['data'].removeprefix('a2x/')} {row['by']}"
            yield Measure(name=f"{where}: AUROC", value=row["auroc"])
            yield Measure(name=f"{where}: abstained, {row['lost']:.1%} lost", value=row["abstained"])
