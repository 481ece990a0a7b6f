"""The product's recipes on LiveMCPBench, beside their targets: 212 step queries and 95 questions over 70 servers.

What the paper's own methods come to on the same queries is `agent_as_a_graph`.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

from benchmarks.record import Measure, Result, Target
from benchmarks.world import PRECISIONS, World
from waygraph.registry.evaluation.compare import markdown_table
from waygraph.registry.evaluation.dataset import By
from waygraph.registry.evaluation.run import Outcome, Trial, vary_recipe
from waygraph.registry.model.nouns import TextForm
from waygraph.registry.routing.recipes import AGENTS, HYBRID, LEXICAL, PAPER, TOOLS, Recipe

NAME = DATA = "livemcpbench"
METRICS: Mapping[str, str] = {"R@1": "Recall@1", "R@3": "Recall@3", "R@5": "Recall@5", "nDCG@5": "nDCG@5"}
"""As the record calls them, and as the evaluation does."""
NOTES = (
    "The alignment of steps, tools and servers (steps_aligned.json) is this project's derivation from the LiveMCPBench "
    "annotations; it is not part of LiveMCPBench.",
    "A gold item is a set of servers any one of which is right; equal sets of a query are one item. recall@K = found "
    "items / items, averaged over judged queries, a withheld answer counting as a miss. nDCG@5: gain 1 for an agent "
    "that finds an item not found before it, discount 1/log2(rank + 1), ideal = one item at each of the first "
    "min(items, 5) ranks.",
    "An item that no server of the corpus can satisfy (an empty set, 1 among the steps) is no gold item.",
)


def _trial(recipe: Recipe, texts: TextForm, by: By, embedder: str) -> Trial:
    label = f"paper ({recipe.agent_weight:.1f}, {recipe.tool_weight:.1f})" if recipe.name == PAPER.name else ""
    return Trial(recipe=recipe, texts=texts, by=by, embedder=embedder, label=label)


EVEN = vary_recipe(PAPER, weights=(1.0, 1.0))
TRIED: Mapping[By, Mapping[TextForm, Sequence[Recipe]]] = {
    "steps": {"plain": (EVEN, PAPER), "contextual": (HYBRID, LEXICAL, TOOLS, AGENTS)},
    "questions": {"plain": (EVEN, PAPER), "contextual": (HYBRID,)},
    "united": {"plain": (EVEN, PAPER), "contextual": (HYBRID,)},
}
"""`united`: each question asked by all of its steps at once, judged by the question's gold."""
TARGETS = {
    ("plain", "paper (1.0, 1.0)", "R@5"): Target(bound="near", value=0.82, tolerance=0.02),
    ("plain", "paper (1.5, 1.0)", "R@5"): Target(bound="near", value=0.79, tolerance=0.02),
    ("contextual", "hybrid", "R@1"): Target(bound="at_least", value=0.73),
    ("contextual", "hybrid", "R@5"): Target(bound="at_least", value=0.85),
}


def run(world: World) -> Result:
    if not world.has(DATA):
        return Result(name=NAME, skipped="no data: give its folder by --data or WAYGRAPH_BENCH_DATA")
    dataset = world.dataset(DATA)
    rows: dict[By, list[dict[str, Any]]] = {by: [] for by in TRIED}
    prints = {}
    for precision, spec in PRECISIONS.items():
        for outcome in world.bench.outcomes(dataset, list(_trials(spec))):
            prints[precision] = outcome.fingerprint
            rows[outcome.trial.by].append(row_of(outcome, precision))
    return Result(
        name=NAME,
        embedder=prints["int8"],
        measures=_measures(rows["steps"]),
        notes=NOTES,
        details={"embedders": prints} | dict(rows),
    )


def _trials(embedder: str) -> Iterator[Trial]:
    for by, forms in TRIED.items():
        for texts, recipes in forms.items():
            yield from (_trial(recipe, texts, by, embedder) for recipe in recipes)


def row_of(outcome: Outcome, precision: str) -> dict[str, Any]:
    means = outcome.agents
    return {
        "method": outcome.trial.name,
        "texts": outcome.trial.texts,
        "precision": precision,
        "queries": len(outcome.judgements),
        **{told: round(means[name].value, 4) for told, name in METRICS.items()},
        "unanswered": sum(not judgement.agents for judgement in outcome.judgements),
    }


def _measures(rows: Iterable[Mapping[str, Any]]) -> list[Measure]:
    return [
        Measure(
            name=f"LiveMCPBench steps, {row['method']}, {row['texts']} texts, {row['precision']}: {metric}",
            value=row[metric],
            target=TARGETS.get((row["texts"], row["method"], metric)),
        )
        for row in rows
        for metric in ("R@1", "R@5")
        if (row["texts"], row["method"], metric) in TARGETS
    ]


def tables_of(details: Mapping[str, Any]) -> str:
    return "\n\n".join(_markdown(by, details[by]) for by in TRIED)


def _markdown(by: By, rows: Sequence[Mapping[str, Any]]) -> str:
    keys = ("method", "texts", "precision", *METRICS, "unanswered")
    head = f"LiveMCPBench {by}, the product's recipes, {rows[0]['queries']} queries:"
    return f"{head}\n\n{markdown_table(keys, [[row[key] for key in keys] for row in rows])}"
