"""Trees of categories: their shape, what a perfect model would pay to walk one, a walk by vectors, a gateway's steps.

Without `--model` no language model is asked: then nothing here is the quality of a walk by one.
"""

import json
import random
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import nullcontext
from dataclasses import replace
from functools import partial
from typing import Any, cast

import numpy as np

from benchmarks import a2x
from benchmarks.browsing import NOTES as BROWSING_NOTES
from benchmarks.browsing import browse, measures, wanted_by, wanted_of_tools
from benchmarks.gateway.tokens import open_counter
from benchmarks.published import A2X_SIZES, A2X_TAXONOMY
from benchmarks.record import Measure, Result, Target
from benchmarks.taxonomy_by_model import break_even, measured_break_even, navigate_by_model, structure_of
from benchmarks.taxonomy_by_model import tables_of as models_tables
from benchmarks.trees import Grown, Vector, grow, perfect_sets, right_ids, set_row
from benchmarks.world import EXAMPLES, World
from waygraph.registry.language_model.endpoint import configured_model
from waygraph.registry.model.nouns import Mode, Of
from waygraph.registry.routing.recipes import AGENTS, HYBRID
from waygraph.registry.taxonomy.prompts import SELECT, service_rows
from waygraph.registry.taxonomy.tree import By, Category, Taxonomy
from waygraph.registry.taxonomy.vectors_build import build_by_vectors, direction_of, keep_ids
from waygraph_lab.evaluation.asking import Asking
from waygraph_lab.evaluation.compare import markdown_table
from waygraph_lab.evaluation.dataset import Asked, Dataset
from waygraph_lab.evaluation.sets import SET_METRICS, SetAnswer

NAME = "taxonomy"
LIVEMCPBENCH, INVENTED = "livemcpbench", "invented"
SETS: Sequence[tuple[str, Of]] = (
    *((f"a2x/{name}", Of.AGENTS) for name in a2x.SETS),
    (LIVEMCPBENCH, Of.AGENTS),
    (LIVEMCPBENCH, Of.TOOLS),
    (EXAMPLES, Of.AGENTS),
    (EXAMPLES, Of.TOOLS),
)
BEAMS = (1, 2, 4, 8)
CHANGED = 0.05
SEED = 33
TOOLS, QUICK_TOOLS = 5_000, 500
"""Of the invented catalogue."""
PARTS = ("shapes", "sets", "break_even", "builds", "browsing")
NO_MODEL = "No model: walks by one were skipped. `--model openai:MODEL --spend` has one walk."
NOTES = (
    "Trees are built by vectors. With `--model openai:MODEL --spend` a tree is built by that model too, "
    "and it walks that tree and the one by vectors, in all modes, beside the full context: the paper's Tables 1 and 5; "
    "then trees that it builds without one part of the method each, and trees that it designs in one shot, alone and "
    "with one part more (Table 2). Several models, with commas between, are averaged too (Table 6).",
    "Break-even: tokens of a build / (tokens of a full context - tokens of a walk). Estimated: the build by its number "
    "of nodes and services, every split refined as often as it may be; the walk by a perfect model.",
    "Perfect: the product's own walk and prompts, with a model that opens exactly the categories that hold a right "
    "service and selects exactly the right ones. It is what a perfect model would pay, and no figure of any model. Its "
    "recall is the ceiling of the tree. Full context: all services in one call.",
    "Vector navigator: children by the cosine of the query and the mean direction of what they hold, the best `beam` "
    "of each level. It returns all that stands in the leaves that it reaches.",
    "Ids kept: a tree of all services but 5 %, built again after those left out took the place of another 5 %. "
    "Names kept: of the categories whose ids were.",
)


def run(world: World) -> Result:
    """Raises InvalidSetting for a model, LanguageModelError and QueryFailed of one."""
    count = open_counter(world)
    models = [configured_model(spec, world.environ, option="--model", purpose="for the walks") for spec in world.models]
    if not models:
        print(f"{NAME}: {NO_MODEL}", file=sys.stderr)
    parts: dict[str, list[dict[str, Any]]] = {name: [] for name in PARTS}
    with world.asking(NAME) if models else nullcontext(Asking()) as asking:
        for name, of in SETS:
            if not world.has(name):
                continue
            dataset = world.dataset(name)
            with world.registry_of([dataset.catalogue], texts="contextual") as registry:
                tree = grow(registry, f"{dataset.name}, {of.value}", of, count.count)
                parts["shapes"].append(shape(tree))
                if of is Of.AGENTS:
                    parts["sets"] += navigate(world, name, dataset, tree)
                    parts["break_even"].append(break_even(dataset, tree))
                for model in models if of is Of.AGENTS else ():
                    rows, builds = navigate_by_model(world, asking, model, name, dataset, tree)
                    parts["sets"] += rows
                    parts["builds"] += builds
                if name == LIVEMCPBENCH:
                    wanted = list(wanted_by(dataset.queries("questions"), registry))
                    parts["browsing"].append(browse(tree.name, registry, count.count, world.embedder(), wanted))
        with world.registry_of_tools(QUICK_TOOLS if world.quick else TOOLS) as registry:
            tree = grow(registry, INVENTED, Of.AGENTS, count.count)
            parts["shapes"].append(shape(tree))
            wanted = list(wanted_of_tools(registry))
            parts["browsing"].append(browse(tree.name, registry, count.count, world.embedder(), wanted))
    parts["break_even"] += measured_break_even(parts["sets"], parts["builds"])
    return Result(
        name=NAME,
        embedder=world.embedder().fingerprint,
        measures=[*_measures(parts["shapes"]), *measures(parts["browsing"])],
        notes=(*NOTES, *BROWSING_NOTES, *(() if models else (NO_MODEL,))),
        details={"vocabulary": count.vocabulary, **parts},
    )


# -- the shape: the paper's Table 4 ----------------------------------------------------------------------


def shape(tree: Grown) -> dict[str, Any]:
    first, again = (build_by_vectors(tree.services, tree.vectors, embed=tree.embed) for _ in range(2))
    ids, names = ids_and_names_kept(tree)
    return {
        "tree": tree.name,
        **structure_of(tree.taxonomy),
        "equal": first == again,
        "ids kept": round(ids, 4),
        "names kept": round(names, 2),
        "seconds": round(tree.seconds, 2),
    }


def ids_and_names_kept(tree: Grown) -> tuple[float, float]:
    """The share of the former ids that are there again, after 5 % of the services gave way to as many others; and of
    these the share that is called as before.
    """
    order = random.Random(SEED).sample(list(tree.services), len(tree.services))  # noqa: S311 - no secret
    part = max(1, round(CHANGED * len(order)))
    build = partial(build_by_vectors, vectors=tree.vectors, embed=tree.embed)
    before = build(order[part:])
    after = keep_ids(build([*order[:part], *order[2 * part :]], before=before), before)
    kept = before.categories.keys() & after.categories.keys()
    same = sum(before.categories[each].name == after.categories[each].name for each in kept)
    return len(kept) / len(before.categories), same / max(1, len(kept))


# -- navigators ------------------------------------------------------------------------------------------


def navigate(world: World, name: str, dataset: Dataset, tree: Grown) -> Iterator[dict[str, Any]]:
    asked = dataset.queries("questions")
    size = A2X_SIZES.get(name.removeprefix("a2x/").removesuffix("_CN"), 7)
    embedder = world.embedder()
    directions = {each.id: _direction(tree, each) for each in tree.walk()}
    vectors = {query.id: cast("Vector", embedder.embed(query.texts[:1], "query")[0]) for query in asked}
    whole = tree.count(SELECT[Mode.ALL].system) + tree.count(
        json.dumps(service_rows(tree.services), ensure_ascii=False)
    )
    navigators: dict[str, Callable[[Asked], SetAnswer]] = {
        "perfect": perfect_sets(tree, tree.taxonomy),
        "perfect, without cross-listing": perfect_sets(tree, without_crosses(tree.taxonomy)),
        "full context, perfect": lambda query: SetAnswer(
            ids=right_ids(query, tree), calls=1, tokens=whole + tree.count(query.texts[0])
        ),
        **{
            f"vectors, beam {beam}": lambda query, beam=beam: SetAnswer(  # type: ignore[misc]
                ids=walk_by_vectors(tree, directions, vectors[query.id], beam)
            )
            for beam in BEAMS
        },
        **{
            f"vectors, beam {beam}, first {size}": lambda query, beam=beam: SetAnswer(  # type: ignore[misc]
                ids=_nearest(tree, walk_by_vectors(tree, directions, vectors[query.id], beam), vectors[query.id], size)
            )
            for beam in BEAMS[-1:]
        },
        **{
            f"`{each.name}`, first {size}": partial(a2x.route_set, tree.registry, each, size)
            for each in (HYBRID, AGENTS)
        },
    }
    for method, navigator in navigators.items():
        yield set_row(name, dataset, method, navigator)


def without_crosses(taxonomy: Taxonomy) -> Taxonomy:
    """Each service in its first category alone."""
    kept = {
        each.id: replace(each, holds={entity: by for entity, by in each.holds.items() if by is not By.CROSS})
        for each in taxonomy.categories.values()
    }
    return replace(taxonomy, categories=kept)


def walk_by_vectors(tree: Grown, directions: Mapping[str, Vector | None], vector: Vector, beam: int) -> list[str]:
    found: dict[str, None] = {}
    level = [tree.taxonomy.root]
    while level:
        for category in level:
            found |= dict.fromkeys(category.holds)
        below = [(child, directions[child.id]) for category in level for child in tree.children(category)]
        scored = [(float(vector @ way), child) for child, way in below if way is not None]
        level = [child for _, child in sorted(scored, key=lambda pair: (-pair[0], pair[1].id))[:beam]]
    return list(found)


def _direction(tree: Grown, category: Category) -> Vector | None:
    rows = [tree.vectors[entity] for entity in tree.taxonomy.below(category) if entity in tree.vectors]
    return direction_of(np.stack(rows)) if rows else None


def _nearest(tree: Grown, ids: Sequence[str], vector: Vector, size: int) -> list[str]:
    return sorted(ids, key=lambda each: -float(tree.vectors[each] @ vector) if each in tree.vectors else 1.0)[:size]


# -- what is written -------------------------------------------------------------------------------------


def _measures(shapes: Sequence[Mapping[str, Any]]) -> Iterator[Measure]:
    for row in shapes:
        of = f"taxonomy by vectors, {row['tree']}"
        yield Measure(
            name=f"{of}: leaves over the size", value=row["over_size"], target=Target(bound="at_most", value=0)
        )
        yield Measure(name=f"{of}: two builds are equal", value=row["equal"], target=Target(bound="at_least", value=1))
        yield Measure(
            name=f"{of}: ids kept, 5 % changed", value=row["ids kept"], target=Target(bound="at_least", value=0.95)
        )


def tables_of(details: Mapping[str, Any]) -> str:
    shapes, sets, browsing = details["shapes"], details["sets"], details["browsing"]
    columns = [name for name in shapes[0] if name not in ("equal", "ids kept", "over_size")]
    shown = [name.replace("_", " ") for name in columns]
    lines: list[list[object]] = []
    for row in sets:
        lines.append([row["dataset"], row["method"], *(f"{row[m]:.3f}" for m in SET_METRICS[:3]), *_costs(row)])
        published = A2X_TAXONOMY.get(row["folder"].removeprefix("a2x/"))
        if published and row["method"].startswith("`agents`"):
            told = [f"{published[metric]:.3f}" if metric in published else "" for metric in SET_METRICS[:3]]
            lines.append([row["dataset"], "*the paper's, by DeepSeek-V3.2*", *told, "", "", ""])
    return "\n\n".join(
        (
            "Trees by vectors (the paper's Table 4):",
            markdown_table(shown, [[row[name] for name in columns] for row in shapes]),
            f"Answers that are sets; tokens by {details['vocabulary']}. *Perfect* is what a perfect model would pay:",
            markdown_table(("data", "method", *SET_METRICS[:3], "size", "calls", "tokens"), lines),
            *models_tables(details),
            "Browsing by find_tools, in tokens of the answers:",
            markdown_table(list(browsing[0]), [list(row.values()) for row in browsing]),
        )
    )


def _costs(row: Mapping[str, Any]) -> list[str]:
    return [f"{row['Size']:.1f}", f"{row['Calls']:.2f}", f"{row['Tokens']:,.0f}"]
