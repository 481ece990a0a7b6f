"""Trees that a language model builds and walks: A2X's Tables 1, 2, 4, 5 and 6, and when a build has paid for itself."""

import json
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import closing
from dataclasses import asdict, dataclass, replace
from functools import partial
from importlib.metadata import version
from math import ceil
from statistics import fmean, stdev
from typing import Any

from benchmarks.one_shot import VARIANTS, Additions, build_in_one_shot
from benchmarks.published import A2X_BUILDS
from benchmarks.rewriting import SYSTEM as REWRITING_SYSTEM
from benchmarks.rewriting import rewrite_set
from benchmarks.trees import Grown, perfect_sets, set_of, set_row
from benchmarks.world import World
from waygraph.registry.language_model.answers import ModelAnswers
from waygraph.registry.language_model.endpoint import ChatModel
from waygraph.registry.model.errors import UnfitAnswer
from waygraph.registry.model.nouns import Mode
from waygraph.registry.routing.recipes import TAXONOMY
from waygraph.registry.taxonomy.model_build import build_by_model
from waygraph.registry.taxonomy.prompts import CLASSIFY, SELECT, SERVICE_CHARS, Service, service_rows
from waygraph.registry.taxonomy.taxonomies import Structure
from waygraph.registry.taxonomy.tree import Taxonomy, TaxonomySettings
from waygraph.registry.taxonomy.walk import numbers_in, walk
from waygraph_lab.evaluation.asking import Asking, estimate_text, key_of
from waygraph_lab.evaluation.compare import markdown_table
from waygraph_lab.evaluation.dataset import Asked, Dataset
from waygraph_lab.evaluation.estimate import CHARS_PER_TOKEN, CostEstimate
from waygraph_lab.evaluation.run import NotReranked
from waygraph_lab.evaluation.sets import SET_METRICS, SetAnswer

WINDOW_TOKENS = 150_000
"""A catalogue that is larger is not put before a model whole."""
WHOLE = 1_000_000
"""Characters of a text that is not cut."""
REWRITING, REWRITTEN = "MCP-Zero's rewriting", (5, 10)
"""As A2X's Table 3 has it: of ToolRet the first 5 services, of publicMCP the first 10."""
BY_MODEL, BY_VECTORS = "the model", "vectors"

type Answering = Callable[[Asked], SetAnswer]


def navigate_by_model(  # noqa: PLR0917 - what a row depends on
    world: World, asking: Asking, model: str, folder: str, dataset: Dataset, tree: Grown
) -> tuple[list[dict[str, Any]], list[dict[str, Any]]]:
    """A row for each way of searching, and one for each tree that the model built.

    Raises LanguageModelError if the endpoint fails a build, QueryFailed if it fails several queries in a row.
    """
    print(
        f"taxonomy: {model}, {dataset.name}: {estimate_text([*estimates(asking, model, dataset, tree)])}",
        file=sys.stderr,
    )
    with closing(ChatModel.open(model, world.settings, world.environ)) as chat:
        trees = {BY_VECTORS: tree.taxonomy, **dict(_builds(world, chat, tree))}
        rows = [
            row
            for method, answering, about in _methods(chat, tree, trees)
            if (row := _row(asking, chat, folder, dataset, f"{model}: {method}", answering, [tree.digest, *about]))
        ]
    builds = [
        {"dataset": dataset.name, "model": model, "build": told, **structure_of(built), **_build_costs(built)}
        for told, built in trees.items()
        if told != BY_VECTORS
    ]
    return rows, builds


def structure_of(taxonomy: Taxonomy) -> dict[str, Any]:
    """Depth, width and sizes, as the paper's Table 4 has them."""
    inner = [len(each.children) for each in taxonomy.categories.values() if each.children]
    widths = {"top": len(taxonomy.root.children), "most_children": max(inner, default=0)}
    return asdict(Structure.of(taxonomy)) | widths | {"mean_children": round(fmean(inner or [0]), 2)}


def _build_costs(built: Taxonomy) -> dict[str, int]:
    return {
        "calls": built.calls,
        "prompt_tokens": built.prompt_tokens,
        "completion_tokens": built.completion_tokens,
    }


def _builds(world: World, chat: ChatModel, tree: Grown) -> Iterator[tuple[str, Taxonomy]]:
    """Each with answers of its own, which count what it alone needs. One that the model gives no design for is left
    out, which is told.
    """
    settings = {BY_MODEL: TaxonomySettings(), **ablations(len(tree.services))}
    world.cache.mkdir(parents=True, exist_ok=True)
    file = world.cache / "taxonomy-answers.jsonl"
    ways: dict[str, Callable[[ModelAnswers], Taxonomy]] = {
        **{told: partial(_build, tree, replace(each, workers=world.jobs)) for told, each in settings.items()},
        **{told: partial(_build_in_one_shot, tree, each, world.jobs) for told, each in VARIANTS.items()},
    }
    for told, build in ways.items():
        try:
            yield told, build(ModelAnswers(chat, file))
        except UnfitAnswer as error:
            print(f"taxonomy: {tree.name}, {told}: no tree: {error}", file=sys.stderr)


def _build(tree: Grown, settings: TaxonomySettings, answers: ModelAnswers) -> Taxonomy:
    return build_by_model(tree.services, tree.vectors, answers=answers, settings=settings)


def _build_in_one_shot(tree: Grown, additions: Additions, at_once: int, answers: ModelAnswers) -> Taxonomy:
    return build_in_one_shot(tree.services, answers=answers, additions=additions, at_once=at_once)


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


def _methods(
    chat: ChatModel, tree: Grown, trees: Mapping[str, Taxonomy]
) -> Iterator[tuple[str, Answering, Sequence[object]]]:
    """Each with what its answers depend on beside the services and the model."""
    for told, chars in _contexts(tree).items():
        yield told, lambda query, chars=chars: _ask_whole(chat, tree, query, chars), [chars]
    for told, taxonomy in trees.items():
        digest = key_of(taxonomy.as_json()["categories"])
        for mode in Mode if told in (BY_MODEL, BY_VECTORS) else (Mode.ALL,):
            method = f"{mode.value}, tree by {told}" if told in (BY_MODEL, BY_VECTORS) else f"{mode.value}, {told}"
            yield method, _walking(chat, tree, taxonomy, mode), [digest, mode.value]
    for size in REWRITTEN:
        about = [size, tree.registry.status().state.embedder]
        yield f"{REWRITING}, first {size}", partial(rewrite_set, chat, tree.registry, size), about


def _contexts(tree: Grown) -> dict[str, int]:
    """Full context → characters of each description; with whole texts where the window holds them all."""
    tokens = whole_tokens(tree, WHOLE)
    return {"full context": 0} | ({"full context, whole texts": WHOLE} if tokens <= WINDOW_TOKENS else {})


def whole_tokens(tree: Grown, chars: int = 0) -> int:
    """Of all services before a model, without the request."""
    return tree.count(SELECT[Mode.ALL].system) + tree.count(json.dumps(_choices(tree, chars), ensure_ascii=False))


def _choices(tree: Grown, chars: int) -> list[dict[str, Any]]:
    return service_rows(tree.services, chars) if chars else service_rows(tree.services)


def _row(  # noqa: PLR0917 - what a row depends on
    asking: Asking,
    chat: ChatModel,
    folder: str,
    dataset: Dataset,
    method: str,
    answering: Answering,
    about: Sequence[object],
) -> dict[str, Any]:
    """Empty if a query failed: the rest alone is no figure."""

    def ask(query: Asked) -> dict[str, Any]:
        answer = answering(query)
        return {"ids": list(answer.ids), "calls": answer.calls, "tokens": answer.tokens}

    lines = asking.ask_each(
        dataset.queries("questions"),
        ask,
        name=lambda query: query.id,
        facts=lambda query: list(query.texts),
        about=[_title(method, dataset), chat.key(), version("waygraph"), *about],
    )
    if any(line["failure"] for line in lines):
        return {}
    answers = {line["id"]: SetAnswer(ids=line["ids"], calls=line["calls"], tokens=line["tokens"]) for line in lines}
    return set_row(folder, dataset, method, lambda query: answers[query.id])


def _title(method: str, dataset: Dataset) -> str:
    return f"{method}, {dataset.name}"


def _ask_whole(chat: ChatModel, tree: Grown, query: Asked, chars: int) -> SetAnswer:
    """Raises LanguageModelError."""
    told = {"choices": _choices(tree, chars), "request": query.texts[0]}
    messages = [
        {"role": "system", "content": SELECT[Mode.ALL].system},
        {"role": "user", "content": json.dumps(told, ensure_ascii=False)},
    ]
    answer = chat.complete(messages, max_tokens=SELECT[Mode.ALL].max_tokens)
    numbers = numbers_in(answer.message.get("content"), len(tree.services)) or ()
    ids = [tree.services[number - 1].id for number in numbers]
    return SetAnswer(ids=ids, calls=1, tokens=answer.prompt_tokens + answer.completion_tokens)


def _walking(chat: ChatModel, tree: Grown, taxonomy: Taxonomy, mode: Mode) -> Answering:
    services = {each.id: each for each in tree.services}

    def answer(query: Asked) -> SetAnswer:
        """Raises NotReranked."""
        walked = walk(query.texts[0], taxonomy, lambda ids: [services[each] for each in ids], chat, mode)
        if walked.failure:
            raise NotReranked(query.id, TAXONOMY.name, f"no walk: {walked.failure}")
        return set_of(walked)

    return answer


# -- what it costs ---------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True, kw_only=True)
class BuildEstimate:
    """`calls`, and tokens of four characters each. `least_calls`: where no node needs refinement."""

    calls: int
    least_calls: int
    prompt_tokens: int
    completion_tokens: int


CHILDREN = 12
"""Of a node, as the paper's figures have it (appendix C)."""
CATEGORY_CHARS, ANSWER_TOKENS = 350, 40
CROSS_SHARE = 0.2
"""Of services that are asked about for a second parent."""


def estimate_build(services: Sequence[Service], settings: TaxonomySettings = TaxonomySettings()) -> BuildEstimate:  # noqa: B008
    """For a tree of even nodes whose every split is refined as often as it may be. No model is asked."""
    size, nodes, keyword_calls, designs, levels = len(services), 1, 0, 0, 0
    while size > settings.leaf_size and levels < settings.max_depth:
        keyword_calls += nodes * ceil(size / settings.keyword_batch) if size > settings.keyword_threshold else 0
        designs, levels = designs + nodes, levels + 1
        children = min(settings.max_categories, max(CHILDREN, ceil(size / settings.leaf_size)))
        nodes, size = nodes * children, ceil(size / children)
    if not levels:
        return BuildEstimate(calls=0, least_calls=0, prompt_tokens=0, completion_tokens=0)
    cross = nodes + round(CROSS_SHARE * len(services)) if settings.cross_domain else 0
    refinements = settings.max_refinements * (designs + levels * len(services))
    least = keyword_calls + designs + 1 + levels * len(services) + cross
    mean_chars = sum(min(len(each.description), SERVICE_CHARS) + len(each.name) for each in services) / len(services)
    chars = len(CLASSIFY.system) + CHILDREN * CATEGORY_CHARS + mean_chars
    calls = least + refinements
    return BuildEstimate(
        calls=calls,
        least_calls=least,
        prompt_tokens=round(calls * chars / CHARS_PER_TOKEN),
        completion_tokens=calls * ANSWER_TOKENS,
    )


def estimates(asking: Asking, model: str, dataset: Dataset, tree: Grown) -> Iterator[CostEstimate]:
    """Of the builds, and of every way of searching by a perfect model over the tree by vectors. What an earlier run
    answered of the queries is left out.
    """
    for told, settings in {BY_MODEL: TaxonomySettings(), **ablations(len(tree.services))}.items():
        build = estimate_build(tree.services, settings)
        yield CostEstimate(
            name=told, by="", queries=0, kept=0, calls=build.calls, prompt_tokens=build.prompt_tokens,
            completion_tokens=build.completion_tokens,
        )  # fmt: skip
    size = len(tree.services)
    place_tokens = sum(tree.count(each.text[:WINDOW_TOKENS]) for each in tree.services)
    for told, additions in VARIANTS.items():
        times = 1 + additions.refinements
        yield CostEstimate(
            name=told, by="", queries=0, kept=0, calls=times * (1 + size),
            prompt_tokens=times * (whole_tokens(tree) + place_tokens + size * ONE_SHOT_LEAF_TOKENS),
            completion_tokens=times * size * 30,
        )  # fmt: skip
    asked = dataset.queries("questions")
    perfect = perfect_sets(tree, tree.taxonomy)
    walks = [perfect(query) for query in asked]
    walk_cost = sum(each.calls for each in walks), sum(each.tokens for each in walks)
    for told, chars in _contexts(tree).items():
        whole = len(asked), sum(whole_tokens(tree, chars) + tree.count(query.texts[0]) for query in asked)
        yield _left(asking, f"{model}: {told}", dataset, *whole)
    texts = sum(tree.count(f"{REWRITING_SYSTEM}{query.texts[0]}") for query in asked)
    for first in REWRITTEN:
        yield _left(asking, f"{model}: {REWRITING}, first {first}", dataset, len(asked), texts + 40 * len(asked))
    plain = (BY_MODEL, BY_VECTORS)
    methods = [f"{mode.value}, tree by {told}" for told in plain for mode in Mode]
    methods += [f"{Mode.ALL.value}, {told}" for told in (*ablations(size), *VARIANTS)]
    for method in methods:
        yield _left(asking, f"{model}: {method}", dataset, *walk_cost)


ONE_SHOT_LEAF_TOKENS = 2_000
"""Of 160 paths of leaves, which the paper's one-shot build came to."""


def _left(asking: Asking, method: str, dataset: Dataset, calls: int, tokens: int) -> CostEstimate:
    queries = len(dataset.queries("questions"))
    kept = min(queries, asking.lines.count(_title(method, dataset))) if asking.lines else 0
    share = 1 - kept / queries
    return CostEstimate(
        name=method, by="questions", queries=queries, kept=kept, calls=round(share * calls),
        prompt_tokens=round(share * tokens), completion_tokens=0,
    )  # fmt: skip


def break_even(dataset: Dataset, tree: Grown) -> dict[str, Any]:
    """After how many queries a build by a model costs less than full contexts, by a perfect model and an estimated
    build; no model is asked.
    """
    build = estimate_build(tree.services)
    perfect = perfect_sets(tree, tree.taxonomy)
    walks = [perfect(query) for query in dataset.queries("questions")]
    calls, tokens = fmean(each.calls for each in walks), fmean(each.tokens for each in walks)
    return {
        "dataset": dataset.name,
        "by": "estimated, perfect model",
        **_break_even(build.calls, build.prompt_tokens + build.completion_tokens, whole_tokens(tree), calls, tokens),
    }


def _break_even(calls: int, tokens: int, whole: float, walk_calls: float, walk_tokens: float) -> dict[str, Any]:
    """Queries are None where a walk costs more than a full context."""
    saved = whole - walk_tokens
    return {
        "build calls": calls,
        "build tokens": tokens,
        "full context, tokens": round(whole),
        "walk, calls": round(walk_calls, 2),
        "walk, tokens": round(walk_tokens),
        "break-even, queries": round(tokens / saved) if saved > 0 else None,
    }


def measured_break_even(
    rows: Sequence[Mapping[str, Any]], builds: Sequence[Mapping[str, Any]]
) -> Iterator[dict[str, Any]]:
    """Of each tree that a model built and walked, beside its own full context."""
    costs = {(row["dataset"], row["method"]): row for row in rows}
    for build in builds:
        name = f"tree by {BY_MODEL}" if build["build"] == BY_MODEL else build["build"]
        walked = costs.get((build["dataset"], f"{build['model']}: {Mode.ALL.value}, {name}"))
        whole = costs.get((build["dataset"], f"{build['model']}: full context"))
        if walked and whole:
            tokens = build["prompt_tokens"] + build["completion_tokens"]
            told = _break_even(build["calls"], tokens, whole["Tokens"], walked["Calls"], walked["Tokens"])
            yield {"dataset": build["dataset"], "by": f"{build['model']}: {name}", **told}


# -- what is written -------------------------------------------------------------------------------------


def tables_of(details: Mapping[str, Any]) -> Iterator[str]:
    builds, even = details.get("builds", ()), details.get("break_even", ())
    if even:
        yield "When a build has paid for itself, against full contexts (the paper's section D.2 in the last row):"
        paper = {"dataset": "ToolRet_clean", "by": "*the paper, DeepSeek-V3.2*", **A2X_BUILDS["break-even"]}
        yield markdown_table(tuple(even[0]), [[_cell(row[name]) for name in even[0]] for row in (*even, paper)])
    if builds:
        yield "Trees by models (the paper's Tables 2 and 4):"
        yield markdown_table(tuple(builds[0]), [[_cell(row[name]) for name in builds[0]] for row in builds])
    if spread := list(over_models(details["sets"])):
        yield "Over models, mean and standard deviation (the paper's Table 6):"
        yield markdown_table(tuple(spread[0]), [tuple(row.values()) for row in spread])


def over_models(rows: Sequence[Mapping[str, Any]]) -> Iterator[dict[str, Any]]:
    """Of each method that several models tried."""
    groups: dict[tuple[str, str], list[Mapping[str, Any]]] = {}
    for row in rows:
        model, colon, method = row["method"].partition(": ")
        if colon:
            groups.setdefault((row["dataset"], method), []).append({**row, "model": model})
    for (dataset, method), of in groups.items():
        if len(of) > 1:
            values = {name: [row[name] for row in of] for name in (*SET_METRICS[:3], "Calls", "Tokens")}
            means = {name: f"{fmean(each):.3g} ± {stdev(each):.2g}" for name, each in values.items()}
            yield {"data": dataset, "method": method, "models": len(of), **means}


def _cell(value: object) -> object:
    return f"{value:,}" if isinstance(value, int) else value if value is not None else ""
