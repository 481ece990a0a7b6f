"""The product's recipes on LiveMCPBench, beside their targets: 212 step queries and 95 questions over 70 servers.

What the paper's own methods come to on the same queries is `agent_as_a_graph`.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

from benchmarks.record import Measure, Result, Target
from benchmarks.world import PRECISIONS, World
from waygraph.registry.model.nouns import TextForm
from waygraph.registry.routing.recipes import AGENTS, HYBRID, LEXICAL, PAPER, TOOLS, Recipe
from waygraph_lab.evaluation.compare import markdown_table
from waygraph_lab.evaluation.dataset import By
from waygraph_lab.evaluation.metrics import Mean
from waygraph_lab.evaluation.run import Outcome, Trial, vary_recipe

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
    "Tools: the same measures over the ranking of tools; a gold item is a set of tools any one of which is right.",
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
TARGETS: Mapping[tuple[str, str, str], Target | None] = {
    ("plain", "paper (1.0, 1.0)", "R@5"): Target(bound="near", value=0.82, tolerance=0.02),
    ("plain", "paper (1.5, 1.0)", "R@5"): Target(bound="near", value=0.79, tolerance=0.02),
    ("contextual", "hybrid", "R@1"): Target(bound="at_least", value=0.73),
    ("contextual", "hybrid", "R@5"): Target(bound="at_least", value=0.85),
    ("contextual", "hybrid", "tool R@1"): Target(bound="at_least", value=0.62),
    ("contextual", "hybrid", "tool R@5"): None,
}
"""None: reported without a target."""


def run(world: World) -> Result:
    if not world.has(DATA):
        return Result(name=NAME, skipped="no data: give its folder by --data or WAYGRAPH_BENCH_DATA")
    dataset = world.dataset(DATA)
    rows: dict[By, list[dict[str, Any]]] = {by: [] for by in TRIED}
    tools: dict[By, list[dict[str, Any]]] = {"steps": [], "questions": []}
    prints = {}
    for precision, spec in PRECISIONS.items():
        for outcome in world.bench.outcomes(dataset, list(_trials(spec))):
            prints[precision] = outcome.fingerprint
            rows[outcome.trial.by].append(_row(outcome, precision, outcome.agents))
            if found := outcome.tools:
                tools[outcome.trial.by].append(_row(outcome, precision, found, only_tools=True))
    return Result(
        name=NAME,
        embedder=prints["int8"],
        measures=[*_measures(rows["steps"]), *_measures(tools["steps"], "tool ")],
        notes=NOTES,
        details={"embedders": prints, "tools": tools} | dict(rows),
    )


def _trials(embedder: str) -> Iterator[Trial]:
    for by, forms in TRIED.items():
        for texts, recipes in forms.items():
            yield from (_trial(recipe, texts, by, embedder) for recipe in recipes)


def _row(outcome: Outcome, precision: str, means: Mapping[str, Mean], *, only_tools: bool = False) -> dict[str, Any]:
    judged = [judgement for judgement in outcome.judgements if judgement.tool_metrics or not only_tools]
    return {
        "method": outcome.trial.name,
        "texts": outcome.trial.texts,
        "precision": precision,
        "queries": len(judged),
        **{told: round(means[name].value, 4) for told, name in METRICS.items()},
        "unanswered": sum(not judgement.agents for judgement in judged),
    }


def _measures(rows: Iterable[Mapping[str, Any]], level: str = "") -> list[Measure]:
    return [
        Measure(
            name=f"LiveMCPBench steps, {row['method']}, {row['texts']} texts, {row['precision']}: {level}{metric}",
            value=row[metric],
            target=TARGETS[key],
        )
        for row in rows
        for metric in ("R@1", "R@5")
        if (key := (row["texts"], row["method"], f"{level}{metric}")) in TARGETS
    ]


def tables_of(details: Mapping[str, Any]) -> str:
    agents = [_markdown(by, details[by]) for by in TRIED]
    return "\n\n".join([*agents, *(_markdown(f"{by}, tools", rows) for by, rows in details["tools"].items())])


def _markdown(queries: str, rows: Sequence[Mapping[str, Any]]) -> str:
    keys = ("method", "texts", "precision", *METRICS, "unanswered")
    head = f"LiveMCPBench {queries}, the product's recipes, {rows[0]['queries']} queries:"
    return f"{head}\n\n{markdown_table(keys, [[row[key] for key in keys] for row in rows])}"
