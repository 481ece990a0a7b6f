"""Trees of categories: their shape, what a perfect model would pay to walk one, a walk by vectors, a gateway's steps.

Without `--model` no language model is asked: then nothing here is the quality of a walk by one.
"""

import json
import random
import sys
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import closing
from dataclasses import asdict, dataclass, replace
from functools import cached_property, partial
from typing import Any, cast

import numpy as np
from numpy.typing import NDArray

from benchmarks import a2x
from benchmarks.browsing import NOTES as BROWSING_NOTES
from benchmarks.browsing import browse, measures, wanted_by, wanted_of_tools
from benchmarks.gateway.tokens import open_counter
from benchmarks.published import A2X_SIZES, A2X_TAXONOMY
from benchmarks.record import Measure, Result, Target
from benchmarks.world import EXAMPLES, World
from waygraph.registry.language_model.answers import ModelAnswers
from waygraph.registry.language_model.endpoint import ChatModel, configured_model
from waygraph.registry.model.nouns import Mode, Of, Walked
from waygraph.registry.routing.recipes import AGENTS, HYBRID, TAXONOMY
from waygraph.registry.storage.local_registry import LocalRegistry
from waygraph.registry.taxonomy.model_build import build_by_model
from waygraph.registry.taxonomy.name_choice import EmbedNames
from waygraph.registry.taxonomy.prompts import SELECT, Service, service_rows
from waygraph.registry.taxonomy.structure import Structure
from waygraph.registry.taxonomy.tree import By, Category, Taxonomy, TaxonomySettings
from waygraph.registry.taxonomy.vectors_build import build_by_vectors, direction_of, keep_ids
from waygraph.registry.taxonomy.walk import numbers_in, walk
from waygraph_lab.evaluation.compare import markdown_table
from waygraph_lab.evaluation.dataset import Asked, Dataset
from waygraph_lab.evaluation.estimate import perfect_walks
from waygraph_lab.evaluation.run import NotReranked
from waygraph_lab.evaluation.sets import COSTS, SET_METRICS, SetAnswer, judge_sets

type Vector = NDArray[np.float32]
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
NO_MODEL = "No model: walks by one were skipped. `--model openai:MODEL --spend` has one walk."
NOTES = (
    "Trees are built by vectors. With `--model openai:MODEL --spend` a tree is built by that model too, "
    "and it walks that tree and the one by vectors, in all modes, beside the full context: the paper's Tables 1 and 5; "
    "then trees that it builds without one part of the method each.",
    "Perfect: the product's own walk and prompts, with a model that opens exactly the categories that hold a right "
    "service and selects exactly the right ones. It is what a perfect model would pay, and no figure of any model. Its "
    "recall is the ceiling of the tree. Full context: all services in one call.",
    "Vector navigator: children by the cosine of the query and the mean direction of what they hold, the best `beam` "
    "of each level. It returns all that stands in the leaves that it reaches.",
    "Ids kept: a tree of all services but 5 %, built again after those left out took the place of another 5 %. "
    "Names kept: of the categories whose ids were.",
)


@dataclass(frozen=True, kw_only=True)
class Grown:
    """A tree by vectors of what a registry holds."""

    name: str
    registry: LocalRegistry
    taxonomy: Taxonomy
    services: Sequence[Service]
    vectors: Mapping[str, Vector]
    seconds: float
    count: Callable[[str], int]
    embed: EmbedNames | None = None

    @cached_property
    def ids(self) -> frozenset[str]:
        return frozenset(service.id for service in self.services)

    def children(self, category: Category) -> list[Category]:
        return [self.taxonomy.categories[child] for child in category.children]

    def walk(self) -> Iterator[Category]:
        return iter(self.taxonomy.categories.values())


def run(world: World) -> Result:
    count, model = open_counter(world), ""
    if world.model:
        model = configured_model(world.model, world.environ, option="--model", purpose="for the walks")
    else:
        print(f"{NAME}: {NO_MODEL}", file=sys.stderr)
    shapes: list[dict[str, Any]] = []
    sets: list[dict[str, Any]] = []
    browsing: list[dict[str, Any]] = []
    for name, of in SETS:
        if not world.has(name):
            continue
        dataset = world.dataset(name)
        with world.registry_of([dataset.catalogue], texts="contextual") as registry:
            tree = grow(registry, f"{dataset.name}, {of.value}", of, count.count)
            shapes.append(shape(tree))
            if of is Of.AGENTS:
                sets += navigate(world, name, dataset, tree)
                sets += navigate_by_model(world, model, name, dataset, tree) if model else ()
            if name == LIVEMCPBENCH:
                wanted = list(wanted_by(dataset.queries("questions"), registry))
                browsing.append(browse(tree.name, registry, count.count, world.embedder(), wanted))
    with world.registry_of_tools(QUICK_TOOLS if world.quick else TOOLS) as registry:
        tree = grow(registry, INVENTED, Of.AGENTS, count.count)
        shapes.append(shape(tree))
        wanted = list(wanted_of_tools(registry))
        browsing.append(browse(tree.name, registry, count.count, world.embedder(), wanted))
    return Result(
        name=NAME,
        embedder=world.embedder().fingerprint,
        measures=[*_measures(shapes), *measures(browsing)],
        notes=(*NOTES, *BROWSING_NOTES, *(() if model else (NO_MODEL,))),
        details={
            "vocabulary": count.vocabulary,
            "shapes": shapes,
            "sets": sets,
            "browsing": browsing,
        },
    )


def grow(registry: LocalRegistry, name: str, of: Of, count: Callable[[str], int]) -> Grown:
    seen: list[tuple[Sequence[Service], Mapping[str, Vector]]] = []

    embed = registry.name_embedder()

    def builder(services: Sequence[Service], vectors: Mapping[str, Vector], before: Taxonomy | None) -> Taxonomy:
        seen.append((services, vectors))
        return build_by_vectors(services, vectors, before, embed=embed)

    started = time.perf_counter()
    taxonomy = registry.build_taxonomy(builder, of=of)
    seconds = time.perf_counter() - started
    services, vectors = seen[0]
    return Grown(
        name=name,
        registry=registry,
        taxonomy=taxonomy,
        services=services,
        vectors=vectors,
        seconds=seconds,
        count=count,
        embed=embed,
    )


# -- the shape: the paper's Table 4 ----------------------------------------------------------------------


def shape(tree: Grown) -> dict[str, Any]:
    first, again = (build_by_vectors(tree.services, tree.vectors, embed=tree.embed) for _ in range(2))
    ids, names = ids_and_names_kept(tree)
    return {
        "tree": tree.name,
        **asdict(Structure.of(tree.taxonomy)),
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
            ids=_right(query, tree), calls=1, tokens=whole + tree.count(query.texts[0])
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
    yield from _judge(name, dataset, navigators)


def _judge(
    name: str, dataset: Dataset, navigators: Mapping[str, Callable[[Asked], SetAnswer]]
) -> Iterator[dict[str, Any]]:
    asked = dataset.queries("questions")
    for method, navigator in navigators.items():
        means = judge_sets(asked, navigator)
        told = {metric: round(means[metric].value, 4) for metric in (*SET_METRICS, *COSTS)}
        yield {"dataset": dataset.name, "folder": name, "queries": len(asked), "method": method, **told}


def navigate_by_model(world: World, model: str, name: str, dataset: Dataset, tree: Grown) -> Iterator[dict[str, Any]]:
    """A tree by the model, and walks by it. Raises LanguageModelError."""
    chat = ChatModel.open(model, world.settings, world.environ)
    world.cache.mkdir(parents=True, exist_ok=True)
    with closing(ModelAnswers(chat, world.cache / "taxonomy-answers.jsonl")) as answers:
        built = build_by_model(tree.services, tree.vectors, answers=answers)
        walks = {
            f"{model}: {mode.value}, tree by {told}": _walks(chat, tree, taxonomy, mode)
            for told, taxonomy in (("the model", built), ("vectors", tree.taxonomy))
            for mode in Mode
        }
        for told, settings in ablations(len(tree.services)).items():
            without = build_by_model(tree.services, tree.vectors, answers=answers, settings=settings)
            walks[f"{model}: get_all, {told}"] = _walks(chat, tree, without, Mode.ALL)
        yield from _judge(name, dataset, {f"{model}: full context": partial(_ask_whole, chat, tree)} | walks)


def ablations(services: int) -> dict[str, TaxonomySettings]:
    """What the paper's §5 leaves out of a build, one at a time and all. Its one-shot build designs three levels in one
    call; ours designs each node by itself.
    """
    whole = TaxonomySettings()
    bare = replace(whole, single_axis=False, keyword_threshold=services, max_refinements=0)
    return {
        "no axis": replace(whole, single_axis=False),
        "no keyword table": replace(whole, keyword_threshold=services),
        "no refinement": replace(whole, max_refinements=0),
        "none of the three": bare,
    }


def _ask_whole(chat: ChatModel, tree: Grown, query: Asked) -> SetAnswer:
    told = {"choices": service_rows(tree.services), "request": query.texts[0]}
    messages = [
        {"role": "system", "content": SELECT[Mode.ALL].system},
        {"role": "user", "content": json.dumps(told, ensure_ascii=False)},
    ]
    answer = chat.complete(messages, max_tokens=SELECT[Mode.ALL].max_tokens)
    numbers = numbers_in(answer.message.get("content"), len(tree.services)) or ()
    ids = [tree.services[number - 1].id for number in numbers]
    return SetAnswer(ids=ids, calls=1, tokens=answer.prompt_tokens + answer.completion_tokens)


def _walks(chat: ChatModel, tree: Grown, taxonomy: Taxonomy, mode: Mode) -> Callable[[Asked], SetAnswer]:
    services = {each.id: each for each in tree.services}

    def answer(query: Asked) -> SetAnswer:
        walked = walk(query.texts[0], taxonomy, lambda ids: [services[each] for each in ids], chat, mode)
        if walked.failure:
            raise NotReranked(query.id, TAXONOMY.name, f"no walk: {walked.failure}")
        return _set_of(walked)

    return answer


def _set_of(walked: Walked) -> SetAnswer:
    tokens = walked.prompt_tokens + walked.completion_tokens
    return SetAnswer(ids=walked.selected, calls=walked.calls, tokens=tokens)


def perfect_sets(tree: Grown, taxonomy: Taxonomy) -> Callable[[Asked], SetAnswer]:
    walk_to = perfect_walks(taxonomy, tree.services, tree.count)
    return lambda query: _set_of(walk_to(query.texts[0], _right(query, tree)))


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


def _right(query: Asked, tree: Grown) -> list[str]:
    """Of each gold item one id, if it can be one that the tree holds."""
    return [min(item & tree.ids or item) for item in query.gold]


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
            "Browsing by find_tools, in tokens of the answers:",
            markdown_table(list(browsing[0]), [list(row.values()) for row in browsing]),
        )
    )


def _costs(row: Mapping[str, Any]) -> list[str]:
    return [f"{row['Size']:.1f}", f"{row['Calls']:.2f}", f"{row['Tokens']:,.0f}"]
