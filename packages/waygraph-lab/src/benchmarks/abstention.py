"""Whether the router knows that nothing fits: every request asked with its right agents there, and without them.

Its confidence is calibrated here: on all families of datasets for what ships, and for what is reported of a family on
the other ones. The least confidence, and how near the first two candidates are if either may be right, are chosen on
one half of the servers and reported on the other. `WAYGRAPH_EMBEDDER=SPEC python -m benchmarks abstention` measures
another embedder, and writes a record of its own; `details.ships` are the numbers for `registry/routing/recipes.py`.
"""

import json
import random
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from hashlib import sha256
from itertools import product
from math import floor, inf, log
from statistics import fmean
from typing import Any

import numpy as np

from benchmarks.families import FAMILIES
from benchmarks.record import Measure, Result, Target
from benchmarks.world import World, show_progress
from waygraph.ingest.manifest.records import Manifest
from waygraph.registry.model.changes import AgentEntry
from waygraph.registry.model.nouns import Filters, Query, Route, ToolRoute
from waygraph.registry.model.settings import DEFAULT_EMBEDDER
from waygraph.registry.registry import Registry
from waygraph.registry.routing.notices import NEAR
from waygraph.registry.routing.recipes import HYBRID, LEXICAL, RANKS, Calibration, Recipe
from waygraph_lab.datasets.conversations import read_catalogue
from waygraph_lab.evaluation.compare import markdown_table
from waygraph_lab.evaluation.dataset import Asked, By

NAME = "abstention"
RECIPES = (HYBRID, RANKS, LEXICAL)
MOST = 300
"""Requests of a dataset, drawn by a seed: enough for a curve of two numbers."""
SEED = 5
SIZES = (5, 10, 20)
"""Servers of a small catalogue."""
SAMPLES, MOST_OF_SAMPLE = 3, 25
"""Small catalogues of a size; requests of one that it serves, and that it does not."""
ALL, MOST_OF_ALL = "all", 100
"""Servers of a half, at most."""
CHOSEN, REPORTED = 0, 1
"""Halves of the servers, by a hash of their ids."""
LOST_SHARE = 0.05
"""Of the answerable requests of each size of catalogue."""
MEAN = "mean"
ROUNDS = 50
NEXT_TO_NOTHING = 0.01
"""A fit below which an answer is in doubt whatever the share: of words, one that is known among a hundred."""
PLAIN = Calibration(offset=0.0, slope=1.0, least=0.0)
"""Withholds nothing; the confidence is the fit through the logistic function."""
NOTES = (
    "Each request is asked of the whole catalogue (`present`) and with its right agents filtered out (`absent`), by "
    "`route`. Word statistics (BM25) still count the filtered agents' texts. `auroc` and `brier` (mean squared error "
    "of the probability, .25 is a coin's) are of present against absent, calibrated on the other families. A dataset "
    "counts as much as the next, whatever its size; of large ones 300 requests are drawn. A request that names an "
    "entity outright has confidence 1, and is left out of the calibration.",
    "Doubt: of the answerable requests and of the unserved ones, how many answers say that probably nothing fits; a "
    "strict request is then withheld. Small catalogues have 5, 10 or 20 real "
    "servers, drawn by a seed, more than half of them with requests, each a registry of its own, asked by `find_tools` "
    "for what its servers do and for what other servers of the same half do. `all`, the servers of a half, at most "
    "100, is asked without the right ones, too. Sets: the steps of LiveMCPBench, requests to 15 of 28 servers of "
    "Docker's registry, 330 typed requests to servers of Toucan; `big`: the families, by `route`. waygraph-minilm "
    "learned from requests to servers of Toucan.",
    "`least`: the highest with at most 5 % of the answerable requests in doubt in each size, where each set counts as "
    "much as the next; chosen on the one half of the servers, told of the other one. ",
    "Near: the first two tools differ by less than the share of the first score by which an answer is unsure between "
    "them. Another tool may do as well as the right one, so that the first is right oftener than is counted.",
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Probes:
    """A dataset's answers by one recipe: fits with the right agents there and without them, and of the first two tools
    how near they are and whether each is right. A fit is infinite where an entity was named.

    `size`: servers of a small catalogue, `all` of one half, or `big`.
    """

    family: str
    data: str
    by: By
    recipe: Recipe
    size: int | str = "big"
    half: int = REPORTED
    present: list[float] = field(default_factory=list)
    absent: list[float] = field(default_factory=list)
    pairs: list[tuple[float, bool, bool]] = field(default_factory=list)


def run(world: World) -> Result:
    spec = world.spec
    fingerprint = world.embedder(spec).fingerprint
    recipes = RECIPES if spec == DEFAULT_EMBEDDER else [recipe for recipe in RECIPES if recipe.needs_vectors]
    halves = [
        each
        for family, asked in FAMILIES.items()
        for data in asked
        if world.has(data[0])
        for each in probe(world, family, data, recipes, spec)
    ]
    probes = [*_join_halves(halves)]
    halves += [each for servers in _server_sets(world) for each in probe_servers(world, servers, recipes, spec)]
    rows = [row for recipe in recipes for row in leave_out(_of(probes, recipe))]
    ships = {each.name: with_least(calibrate(_of(probes, each)), _of(halves, each)) for each in recipes}
    doubts = [row for each in recipes for row in doubts_of(_of(halves, each), ships[each.name])]
    pairs = [pair for each in _of(halves, HYBRID, REPORTED) for pair in each.pairs]
    return Result(
        name=world.record_name(NAME, fingerprint),
        embedder=fingerprint,
        measures=[
            *_measures(rows),
            *_measures_of_doubt(doubts),
            Measure(name="first two near: share of answers", value=fmean(gap < NEAR for gap, *_ in pairs)),
            Measure(name="first two near: first tool is right", value=share_right(pairs, 0.0, NEAR)[0]),
            Measure(name="first two near: second tool is right", value=share_right(pairs, 0.0, NEAR)[1]),
            Measure(name="first two not near: first tool is right", value=share_right(pairs, NEAR, inf)[0]),
        ],
        notes=NOTES,
        details={
            "rows": rows,
            "doubts": doubts,
            "ships": {name: _as_json(each) for name, each in ships.items()},
        },
    )


def probe(world: World, family: str, data: tuple[str, By], recipes: Sequence[Recipe], spec: str) -> Iterator[Probes]:
    """By halves of the servers. `data`: a dataset and how it is asked; `spec`: of the embedder."""
    name, by = data
    dataset = world.dataset(name)
    asked = dataset.queries(by)
    chosen = random.Random(SEED).sample(asked, min(MOST, len(asked)))  # noqa: S311 - no secret
    with world.registry_of([dataset.catalogue], texts="contextual", embedder=spec) as registry:
        agents = [agent.id for agent in registry.agents()]
        for recipe in recipes:
            progress = show_progress(f"{name}, {by}, {recipe.name}")
            halves = [Probes(family=family, data=name, by=by, recipe=recipe, half=half) for half in (CHOSEN, REPORTED)]
            for done, need in enumerate(chosen, start=1):
                of_half = halves[half_of(min(right_of(need)))]
                for fits, filters in ((of_half.present, Filters()), (of_half.absent, without(agents, need))):
                    query = Query(text=need.texts[0], filters=filters)
                    fits.append(fit_of(registry.route(query, recipe=_open_minded(recipe))))
                progress(done, len(chosen))
            yield from halves


Servers = tuple[str, Sequence[AgentEntry], Sequence[Asked]]


def _server_sets(world: World) -> Iterator[Servers]:
    """Real servers with tools, and requests to them."""
    if world.has("livemcpbench"):
        dataset = world.dataset("livemcpbench")
        yield dataset.name, dataset.catalogue.entries, dataset.queries("steps")
    for catalogue, requests in (
        ("catalogs/docker_mcp_registry.json", "natural/requests.jsonl"),
        ("training/toucan", "training/typed/queries.jsonl"),
    ):
        if (path := world.data / requests).is_file():
            entries = [
                each for each in read_catalogue(str(world.data / catalogue), world.settings).entries if each.tools
            ]
            yield path.parent.name, entries, [_asked(json.loads(line)) for line in path.read_text("utf-8").splitlines()]


def _asked(row: Mapping[str, Any]) -> Asked:
    gold, tools = row.get("gold") or [[row["agent"]]], row.get("gold_tools") or [row["right"]]
    right, right_tools = ([frozenset(each) for each in some if each] for some in (gold, tools))
    return Asked(id=row["id"], texts=(row["text"],), gold=right, gold_tools=right_tools)


def probe_servers(world: World, servers: Servers, recipes: Sequence[Recipe], spec: str) -> Iterator[Probes]:
    """Of each half of the servers: small catalogues drawn of it, and all of it."""
    name, entries, asked = servers
    sizes: tuple[int | str, ...] = (*SIZES, ALL)
    for half, size in product((CHOSEN, REPORTED), sizes):
        own = sorted((each for each in entries if half_of(each.agent.id) == half), key=lambda each: each.agent.id)
        needs = [need for need in asked if all(half_of(agent) == half for agent in right_of(need))]
        if isinstance(size, int) and size >= len(own):
            continue
        probes = [
            Probes(family=name, data=name, by="questions", recipe=recipe, size=size, half=half) for recipe in recipes
        ]
        for number in range(1 if size == ALL else SAMPLES):
            drawn = random.Random(f"{SEED} {name} {half} {size} {number}")  # noqa: S311 - no secret
            count = size if isinstance(size, int) else min(MOST_OF_ALL, len(own))
            ids = draw_servers(own, needs, count, drawn)
            manifest = Manifest(source=name, entries=tuple(each for each in own if each.agent.id in ids))
            with world.registry_of([manifest], texts="contextual", embedder=spec) as registry:
                for each in probes:
                    _ask_of(registry, ids, needs, each, drawn)
        yield from probes


def draw_servers(own: Sequence[AgentEntry], needs: Sequence[Asked], size: int, drawn: random.Random) -> set[str]:
    """More than half of them are asked for something: of many servers few are."""
    wanted = sorted(set[str]().union(*map(right_of, needs)))
    ids = set(drawn.sample(wanted, min(size // 2 + 1, len(wanted))))
    return ids | set(drawn.sample([each.agent.id for each in own if each.agent.id not in ids], size - len(ids)))


def _ask_of(registry: Registry, ids: set[str], needs: Sequence[Asked], probes: Probes, drawn: random.Random) -> None:
    def fit(need: Asked, filters: Filters) -> float:
        return fit_of(
            registry.find_tools(Query(text=need.texts[0], filters=filters), recipe=_open_minded(probes.recipe))
        )

    def some(needs: Sequence[Asked]) -> Sequence[Asked]:
        return drawn.sample(needs, min(MOST_OF_SAMPLE * (SAMPLES if probes.size == ALL else 1), len(needs)))

    served = some([need for need in needs if right_of(need) & ids])
    for need in served:
        answer = registry.find_tools(need.texts[0], recipe=_open_minded(probes.recipe))
        probes.present.append(fit_of(answer))
        probes.pairs.extend(pair_of(answer, need))
    if probes.size == ALL:
        probes.absent.extend(fit(need, without(sorted(ids), need)) for need in served)
    probes.absent.extend(fit(need, Filters()) for need in some([need for need in needs if not right_of(need) & ids]))


def half_of(agent: str) -> int:
    return sha256(agent.encode()).digest()[0] % 2


def right_of(need: Asked) -> frozenset[str]:
    return frozenset().union(*need.gold)


def without(agents: Sequence[str], need: Asked) -> Filters:
    """All other agents than the right ones."""
    right = right_of(need)
    return Filters(agent_ids=tuple(agent for agent in agents if agent not in right))


def _open_minded(recipe: Recipe) -> Recipe:
    return replace(recipe, calibrations=(PLAIN,))


def fit_of(answer: Route | ToolRoute) -> float:
    """By the recipe with the calibration PLAIN, by which no answer is doubtful."""
    assert answer.confidence is not None
    return inf if answer.confidence == 1 else log(answer.confidence / (1 - answer.confidence))


def pair_of(answer: ToolRoute, need: Asked) -> Iterator[tuple[float, bool, bool]]:
    """None of a request that names a tool, or whose right tools are open."""
    tools = frozenset[str]().union(*need.gold_tools)
    if tools and answer.confidence != 1 and len(answer.matches) > 1:
        first, second = answer.matches[:2]
        yield 1 - second.score / first.score, first.tool.id in tools, second.tool.id in tools


def _join_halves(halves: Sequence[Probes]) -> Iterator[Probes]:
    for one, other in zip(halves[::2], halves[1::2], strict=True):
        yield replace(one, present=one.present + other.present, absent=one.absent + other.absent)


def _of(probes: Sequence[Probes], recipe: Recipe, half: int | None = None) -> list[Probes]:
    return [probe for probe in probes if probe.recipe == recipe and half in (None, probe.half)]


def leave_out(probes: Sequence[Probes]) -> Iterator[dict[str, Any]]:
    """A row for each dataset, by the calibration on the other families (on all, if there is but one)."""
    for probe in probes:
        calibration = calibrate([p for p in probes if p.family != probe.family] or probes)
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
        }


def calibrate(probes: Sequence[Probes]) -> Calibration:
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
    return Calibration(offset=round(offset, 2), slope=round(slope, 2), least=0.0)


def with_least(calibration: Calibration, probes: Sequence[Probes]) -> Calibration:
    """By those of the half on which it is chosen."""
    sizes: dict[int | str, list[Probes]] = {}
    for probe in probes:
        if probe.half == CHOSEN and probe.present:
            sizes.setdefault(probe.size, []).append(probe)
    threshold = min(threshold_losing([probe.present for probe in each], LOST_SHARE) for each in sizes.values())
    # Rounded down: what is exactly at the threshold is not in doubt.
    least = calibration.probability(max(threshold, NEXT_TO_NOTHING))
    return replace(calibration, least=floor(1000 * least) / 1000)


def threshold_losing(sets: Sequence[Sequence[float]], share: float) -> float:
    """The highest of the fits below which at most `share` of them lie, each set as much as the next."""
    weighted = sorted((fit, 1 / len(fits) / len(sets)) for fits in sets for fit in fits)
    below = 0.0
    for fit, weight in weighted:
        if (below := below + weight) > share + 1e-9:
            return fit
    return inf


def doubts_of(probes: Sequence[Probes], calibration: Calibration) -> Iterator[dict[str, Any]]:
    """Of the half that chose nothing: a row for each set, and for each size the means of its sets."""
    reported = [probe for probe in probes if probe.half == REPORTED and probe.present and probe.absent]
    rows: list[dict[str, Any]] = [
        {
            "recipe": probe.recipe.name,
            "servers": probe.size,
            "data": probe.data,
            "answerable": len(probe.present),
            "false doubt": round(share_below(probe.present, calibration), 4),
            "unserved": len(probe.absent),
            "in doubt": round(share_below(probe.absent, calibration), 4),
        }
        for probe in reported
    ]
    for size in dict.fromkeys(row["servers"] for row in rows):
        some = [row for row in rows if row["servers"] == size]
        yield from some
        yield {
            **some[0],
            "data": MEAN,
            **{name: sum(row[name] for row in some) for name in ("answerable", "unserved")},
            **{name: round(fmean(row[name] for row in some), 4) for name in ("false doubt", "in doubt")},
        }


def share_right(pairs: Sequence[tuple[float, bool, bool]], start: float, end: float) -> tuple[float, float]:
    """Of the answers whose first two are that far apart: how often the first is right, and how often the second."""
    some = [rights for gap, *rights in pairs if start <= gap < end]
    return (fmean(first for first, _ in some), fmean(second for _, second in some)) if some else (0.0, 0.0)


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


def share_below(fits: Sequence[float], calibration: Calibration) -> float:
    """Of those that would be withheld."""
    return sum(calibration.probability(fit) < calibration.least for fit in fits) / len(fits)


def brier(present: Sequence[float], absent: Sequence[float]) -> float:
    """Mean squared error of probabilities, in [0, 1]; both kinds weigh the same. Source: Brier (1950)."""
    return (sum((1 - p) ** 2 for p in present) / len(present) + sum(p * p for p in absent) / len(absent)) / 2


def tables_of(details: Mapping[str, Any]) -> str:
    parts = {
        "Whether anything fits, by the calibration on the other families:": details["rows"],
        "Answers that say that probably nothing fits, on the half that chose nothing:": details["doubts"],
    }
    return "\n\n".join(
        f"{head}\n\n{markdown_table(tuple(rows[0]), [tuple(row.values()) for row in rows])}"
        for head, rows in parts.items()
    )


def auroc(present: Sequence[float], absent: Sequence[float]) -> float:
    """The chance that an answerable query scores above an unanswerable one; a tie is half. In [0, 1]."""
    above = sum((p > a) + 0.5 * (p == a) for p in present for a in absent)
    return above / (len(present) * len(absent))


def _as_json(calibration: Calibration) -> dict[str, float]:
    return {"offset": calibration.offset, "slope": calibration.slope, "least": calibration.least}


def _measures(rows: Sequence[Mapping[str, Any]]) -> Iterator[Measure]:
    for row in rows:
        if row["recipe"] == HYBRID.name:
            name = f"abstention, {row['data'].removeprefix('a2x/')} {row['by']}: AUROC"
            yield Measure(name=name, value=row["auroc"])


def _measures_of_doubt(rows: Sequence[Mapping[str, Any]]) -> Iterator[Measure]:
    target = Target(bound="at_most", value=LOST_SHARE)
    for row in rows:
        if row["recipe"] == HYBRID.name and row["data"] == MEAN:
            where = f"doubt, {row['servers']} servers"
            yield Measure(name=f"{where}: of answerable requests", value=row["false doubt"], target=target)
            yield Measure(name=f"{where}: of unserved requests", value=row["in doubt"])
