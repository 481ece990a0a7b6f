"""A2X's four sets: how often a right service is among the first 5 and 10, and how many of the right ones are.

Beside the paper's vector baseline, and its own method: an LLM that walks a taxonomy.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict
from functools import partial
from typing import Any

from benchmarks.published import A2X_SIZES, A2X_TAXONOMY, A2X_VECTORS
from benchmarks.record import Measure, Result, Target
from benchmarks.world import FLOAT32, World
from waygraph.registry.model.nouns import Query
from waygraph.registry.registry import Registry
from waygraph.registry.routing.recipes import AGENTS, HYBRID, LEXICAL, PAPER, RANKS, Recipe
from waygraph_lab.evaluation.compare import Table, markdown_table, mean_markdown, tabulate
from waygraph_lab.evaluation.dataset import Asked
from waygraph_lab.evaluation.run import Trial
from waygraph_lab.evaluation.sets import SetAnswer, judge_sets

NAME = "a2x"
SETS = ("ToolRet_clean", "ToolRet_clean_CN", "publicMCP", "publicMCP_CN")
RECIPES = (HYBRID, RANKS, PAPER, AGENTS, LEXICAL)
METRICS = ("Hit@5", "Hit@10", "Recall@5", "Recall@10")
SET_METRICS = ("Hit", "Recall", "Precision")
VECTORS = "agents, float32"
NOTES = (
    "Services have no tools: each is an agent, so that recipe `paper` and recipe `agents` rank alike, and texts are "
    "`name: description` in either form.",
    "`agents, float32` is the paper's vector baseline on the English sets (all-MiniLM-L6-v2, cosine), which embeds "
    "descriptions alone; on ToolRet_clean_CN its baseline is BGE-M3, which knows Chinese.",
    "The taxonomy's figures are the paper's: an LLM (DeepSeek-V3.2; on ToolRet asked 8.0 times a query) returns as "
    "many services as it likes. No LLM is asked here.",
    "At the taxonomy's own set sizes: the first 7 or 25 services, which is what its recall and precision come to. "
    "Precision is right services / returned ones; the paper notes that right ones without a label lower it.",
    "p is of a paired randomisation test over queries against `hybrid`, not corrected for the number of comparisons.",
)


def run(world: World) -> Result:
    if not all(world.has(f"a2x/{name}") for name in SETS):
        return Result(name=NAME, skipped="no data: give its folder by --data or WAYGRAPH_BENCH_DATA")
    tables = [measure(world, name) for name in SETS]
    return Result(
        name=NAME,
        embedder=world.embedder().fingerprint,
        measures=list(_measures(tables)),
        notes=NOTES,
        details={
            "tables": [asdict(table) for table in tables],
            "set_sizes": [row for name in SETS for row in measure_sets(world, name)],
        },
    )


def measure(world: World, name: str) -> Table:
    dataset = world.dataset(f"a2x/{name}")
    trials = [_trial(recipe) for recipe in RECIPES]
    trials.append(_trial(AGENTS, embedder=FLOAT32, label=VECTORS))
    (table,) = tabulate([(NAME, world.record(dataset, trials))], metrics=METRICS, against=HYBRID.name)
    return table


def measure_sets(world: World, name: str) -> Iterator[dict[str, Any]]:
    """The first services as a set, as large as the taxonomy's."""
    dataset, size = world.dataset(f"a2x/{name}"), A2X_SIZES[name.removesuffix("_CN")]
    with world.registry_of([dataset.catalogue], texts="contextual") as registry:
        for recipe in (HYBRID, AGENTS):
            asked = dataset.queries("questions")
            means = judge_sets(asked, partial(route_set, registry, recipe, size))
            held = {metric: round(means[metric].value, 4) for metric in SET_METRICS}
            yield {"dataset": name, "K": size, "method": recipe.name, "queries": len(asked), **held}


def route_set(registry: Registry, recipe: Recipe, size: int, asked: Asked) -> SetAnswer:
    """The first agents of a route as a set."""
    matches = registry.route(Query(text=asked.texts[0], limit=size), recipe=recipe).matches
    return SetAnswer(ids=[match.agent.id for match in matches])


def _trial(recipe: Recipe, *, embedder: str = "", label: str = "") -> Trial:
    return Trial(recipe=recipe, texts=recipe.texts or "contextual", embedder=embedder, label=label)


def _measures(tables: list[Table]) -> Iterator[Measure]:
    """Of the default recipe; the paper's vector baseline is to be reached."""
    for table in tables:
        row = next(row for row in table.rows if row.method == HYBRID.name)
        for metric in A2X_VECTORS[table.dataset.removesuffix("_CN")]:
            baseline = A2X_VECTORS.get(table.dataset, {}).get(metric)
            target = Target(bound="at_least", value=baseline) if baseline else None
            yield Measure(name=f"{table.dataset}, hybrid: {metric}", value=row.estimates[metric].value, target=target)


def tables_of(details: Mapping[str, Any]) -> str:
    return "\n\n".join([*(_markdown(Table.from_json(held)) for held in details["tables"]), _sets(details["set_sizes"])])


def _sets(rows: Sequence[Mapping[str, Any]]) -> str:
    lines: list[list[object]] = []
    for row in rows:
        lines.append([row["dataset"], row["K"], row["method"], *(f"{row[metric]:.3f}" for metric in SET_METRICS)])
        if row["method"] == AGENTS.name:
            told = A2X_TAXONOMY[row["dataset"]]
            published = [f"{told[metric]:.3f}" if metric in told else "" for metric in SET_METRICS]
            lines.append([row["dataset"], "", "*the paper's taxonomy*", *published])
    return "At the set sizes of the paper's taxonomy:\n\n" + markdown_table(
        ("dataset", "K", "method", *SET_METRICS), lines
    )


def _markdown(table: Table) -> str:
    rows: list[list[object]] = [
        [row.method, *(mean_markdown(row.estimates[metric]) for metric in METRICS)] for row in table.rows
    ]
    vectors, taxonomy = A2X_VECTORS.get(table.dataset), A2X_TAXONOMY.get(table.dataset)
    if vectors:
        rows.append(["*the paper's vectors*", *(f"{vectors[name]:.3f}" if name in vectors else "" for name in METRICS)])
    if taxonomy:
        told = [taxonomy.get(name.partition("@")[0]) for name in METRICS]
        rows.append(["*the paper's taxonomy (no K)*", *("" if value is None else f"{value:.3f}" for value in told)])
    return f"{table.dataset}, {table.rows[0].judged} queries:\n\n" + markdown_table(("method", *METRICS), rows)
