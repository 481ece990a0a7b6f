"""Agent-as-a-Graph on LiveMCPBench: the methods of its Table 1, by embedder (Table 2), by weights (Table 3, Figure 2).

Beside the paper's figures, and those of another implementation on the same gold sets.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict
from statistics import fmean
from typing import Any

from benchmarks.methods import (
    ALGORITHM_1,
    BM25,
    MCP_ZERO,
    MCP_ZERO_EVERYWHERE,
    Q_RETRIEVAL,
    SCALEMCP,
    UNIFIED,
    WRRF,
    mcp_zero,
    unified,
)
from benchmarks.published import REFERENCE, TABLE_1, TABLE_2, TABLE_3, Figures
from benchmarks.record import Measure, Result, Target
from benchmarks.world import PRECISIONS, World
from waygraph.registry.routing.recipes import HYBRID, Recipe
from waygraph_lab.evaluation.compare import Estimate, Row, Table, markdown_table, mean_markdown, tabulate
from waygraph_lab.evaluation.dataset import By, Dataset
from waygraph_lab.evaluation.plots import Kind
from waygraph_lab.evaluation.run import Outcome, Routing, Trial, by_recipe, vary_recipe

NAME = "agent_as_a_graph"
DATA = "livemcpbench"
DEPTHS = (1, 3, 5, 10)
METRICS = tuple(f"{name}@{depth}" for name in ("Recall", "mAP", "nDCG") for depth in DEPTHS)
SWEPT_METRICS = ("Recall@1", "Recall@3", "Recall@5", "mAP@5", "nDCG@5")
GRID = ((1.0, 3.0), (1.0, 2.0), (1.0, 1.5), (1.0, 1.0), (1.5, 1.0), (2.0, 1.0), (3.0, 1.0))
"""Table 3's weights: (agent, tool)."""
SWEEP = (*GRID[:3], (1.0, 1.25), GRID[3], (1.25, 1.0), GRID[4], (1.75, 1.0), GRID[5], (2.5, 1.0), GRID[6])
AGAINST = "Algorithm 1 (1, 1)"
REPRODUCED = 0.01
NODE_WEIGHTS = ((1.0, 1.0), (1.5, 1.0))
NODE_DEPTH = 5
PAPERS_NODE_SHARE = 0.3913
"""Of the items retrieved at the top, by its section 4.2.1; the paper names neither weights nor K."""
NOTES = (
    "The gold sets (which servers are right for which step) are this project's resolution of LiveMCPBench's "
    "annotations. The paper's own are not published: its figures compare its methods with each other, and are no "
    "measure for those found here.",
    "The paper's BM25 is below .21 at every K and its mAP and nDCG fall as K grows, which neither metric does as "
    "defined here (recall = found items / items; mAP as trec_eval's map_cut; nDCG with the ideal cut at K): its "
    "definitions differ.",
    "The paper's Table 1 states for Algorithm 1 what its Table 3 states for weights (1.5, 1); its text says .83 for "
    "equal ones. Its Table 1 has columns 1, 3, 5 and a caption that says 1, 5, 10: the columns are taken.",
    "Texts are `name: description`, k = 60, N = 100. BM25 has more to read: agent's name and parameters of each tool.",
    "Q.Retrieval is named by the paper and not described; taken as: agents by the query's vector, over servers' names "
    "and descriptions alone (its agent-only dataset, section 4.1).",
    "MCP-Zero looks into the 5 nearest servers, so that its recall at 10 is that at 5; `all servers` is the same score "
    "without that cut.",
    "Algorithm 1 reads N tools and N agents (its line 1), `N together` the N nearest nodes of both kinds (section "
    "3.2), as the reference figures do. They differ where agents weigh much more than tools.",
    "p is of a paired randomisation test over queries against Algorithm 1 (1, 1), not corrected for the number of "
    "comparisons.",
)


def _trial(recipe: Recipe, by: By, embedder: str, *, label: str = "", routing: Routing = by_recipe) -> Trial:
    return Trial(recipe=recipe, texts=recipe.texts or "plain", by=by, embedder=embedder, label=label, routing=routing)


def method_trials(by: By, embedder: str) -> list[Trial]:
    """Table 1, and the product's default recipe."""
    return [
        _trial(BM25, by, embedder),
        _trial(Q_RETRIEVAL, by, embedder),
        _trial(MCP_ZERO, by, embedder, routing=mcp_zero),
        _trial(MCP_ZERO, by, embedder, label="MCP-Zero, all servers", routing=MCP_ZERO_EVERYWHERE),
        _trial(SCALEMCP, by, embedder),
        _trial(WRRF, by, embedder, label="standard wRRF (1, 1)"),
        _trial(ALGORITHM_1, by, embedder, label=AGAINST),
        _trial(HYBRID, by, embedder),
    ]


def weight_trials(embedder: str) -> Iterator[Trial]:
    """Table 3 and Figure 2, by steps."""
    for recipe, routing in ((ALGORITHM_1, by_recipe), (UNIFIED, unified), (WRRF, by_recipe)):
        for weights in SWEEP:
            label = f"{recipe.name} ({weights[0]:g}, {weights[1]:g})"
            yield _trial(vary_recipe(recipe, weights=weights), "steps", embedder, label=label, routing=routing)


def run(world: World) -> Result:
    if not world.has(DATA):
        return Result(name=NAME, skipped="no data: give its folder by --data or WAYGRAPH_BENCH_DATA")
    dataset = world.dataset(DATA)
    found = {name: measure(world, dataset, spec) for name, spec in world.embedders.items()}
    return Result(
        name=NAME,
        embedder=found["int8"]["embedder"],
        measures=[*(each for name in PRECISIONS for each in _reproduction(found[name], name)), *_measures(found)],
        notes=NOTES,
        details={"embedders": found},
    )


def measure(world: World, dataset: Dataset, spec: str) -> dict[str, Any]:
    """What an embedder comes to: the tables, as JSON, and its fingerprint."""
    record = world.record(dataset, [*method_trials("steps", spec), *method_trials("questions", spec)])
    sweep = world.record(dataset, list(weight_trials(spec)))
    return {
        "embedder": record["outcomes"][0]["embedder"],
        "methods": {table.by: asdict(table) for table in tabulate([(NAME, record)], metrics=METRICS, against=AGAINST)},
        "sweep": asdict(tabulate([(NAME, sweep)], metrics=SWEPT_METRICS, against=AGAINST)[0]),
        "agent_nodes": agent_node_shares(world, dataset, spec),
    }


def agent_node_shares(world: World, dataset: Dataset, spec: str) -> dict[str, float]:
    """Weights → the share of the first five answers that Algorithm 1 reaches through an agent's own node, in [0, 1].

    The others are reached from a tool's node. The shares are over all answers to the steps.
    """
    trials = [
        _trial(vary_recipe(ALGORITHM_1, weights=weights), "steps", spec, label=f"({weights[0]:g}, {weights[1]:g})")
        for weights in NODE_WEIGHTS
    ]
    return {outcome.trial.name: _agent_node_share(outcome) for outcome in world.bench.outcomes(dataset, trials)}


def _agent_node_share(outcome: Outcome) -> float:
    firsts = [each.votes[agent][0] for each in outcome.judgements for agent in each.agents[:NODE_DEPTH]]
    return round(fmean(vote.kind == "agent" for vote in firsts), 4)


def reference_gaps(found: Mapping[str, Any]) -> list[tuple[float, str]]:
    """Of each reference figure: how far the measured one is from it, and which it is."""
    rows = rows_of(found)
    return [
        (abs(rows[method].estimates[metric].value - wanted), f"{method} {metric}")
        for method, figures in REFERENCE.items()
        for metric, wanted in figures.items()
    ]


def rows_of(found: Mapping[str, Any]) -> dict[str, Row]:
    """Method → its row, of those that were asked the steps."""
    tables = [Table.from_json(held) for held in (found["sweep"], found["methods"]["steps"])]
    return {row.method: row for table in tables for row in table.rows}


def _reproduction(found: Mapping[str, Any], precision: str) -> list[Measure]:
    gaps = reference_gaps(found)
    within = sum(gap <= REPRODUCED for gap, _ in gaps)
    widest, where = max(gaps)
    required = precision == "float32"
    all_within = Target(bound="at_least", value=len(gaps)) if required else None
    narrow = Target(bound="at_most", value=REPRODUCED) if required else None
    told = f"LiveMCPBench, reference figures, {precision}"
    return [
        Measure(name=f"{told}: within {REPRODUCED:g}", value=within, unit=f"of {len(gaps)}", target=all_within),
        Measure(name=f"{told}: widest gap ({where})", value=widest, target=narrow),
    ]


def _measures(found: Mapping[str, Mapping[str, Any]]) -> Iterator[Measure]:
    for name, held in found.items():
        for method in ("MCP-Zero", "MCP-Zero, all servers", "standard wRRF (1, 1)", AGAINST, HYBRID.name):
            row = rows_of(held)[method]
            yield Measure(name=f"LiveMCPBench steps, {method}, {name}: R@5", value=row.estimates["Recall@5"].value)


# -- the record as tables: measured figures with the paper's in brackets ------------------------------

PAPERS_MODEL = "All-MiniLM-L6-v2"


def tables_of(details: Mapping[str, Any]) -> str:
    found = details["embedders"]
    parts = [_reference(found)]
    for name, held in found.items():
        parts += _table_1(Table.from_json(held["methods"]["steps"]), name)
    parts += _table_1(Table.from_json(found["int8"]["methods"]["questions"]), "int8")
    parts += [_table_2(found), *(_table_3(rows_of(held), name) for name, held in found.items()), _nodes(found)]
    return "\n\n".join(parts)


def _reference(found: Mapping[str, Mapping[str, Any]]) -> str:
    exact, default = rows_of(found["float32"]), rows_of(found["int8"])
    rows = [
        [method, *(_three(wanted, exact[method], default[method], name) for name, wanted in figures.items())]
        for method, figures in REFERENCE.items()
    ]
    head = "LiveMCPBench steps, another implementation's figures / measured in float32 / in int8, the default:"
    return f"{head}\n\n{markdown_table(('method', *next(iter(REFERENCE.values()))), rows)}"


def _three(wanted: float, exact: Row, default: Row, name: str) -> str:
    return f"{wanted:.3f} / {exact.estimates[name].value:.3f} / {default.estimates[name].value:.3f}"


def _table_1(table: Table, embedder: str) -> list[str]:
    """Recall, mAP and nDCG apart; the paper's figures are of steps."""
    parts = []
    for name in ("Recall", "mAP", "nDCG"):
        metrics = [f"{name}@{depth}" for depth in DEPTHS]
        rows = [
            [
                row.method,
                *(_beside(row.estimates[metric], _paper_figures(table, row).get(metric)) for metric in metrics),
            ]
            for row in table.rows
        ]
        parts.append(markdown_table(("method", *metrics), rows))
    paper = ", in brackets the paper's Table 1 (text-embedding-ada-002)" if table.by == "steps" else ""
    return [f"LiveMCPBench {table.by}, {table.rows[0].judged} queries, {embedder}{paper}:", *parts]


def _paper_figures(table: Table, row: Row) -> Figures:
    return TABLE_1.get(row.method, {}) if table.by == "steps" else {}


def _table_2(found: Mapping[str, Mapping[str, Any]]) -> str:
    rows = [[f"measured: {name}", *_both(rows_of(held))] for name, held in found.items()]
    rows.append([f"the paper: {PAPERS_MODEL}", *_papers([TABLE_2[PAPERS_MODEL]])])
    rows.append([f"the paper: mean of its {len(TABLE_2)} models", *_papers(list(TABLE_2.values()))])
    head = ("embedder", *(f"{metric}, {method}" for metric in _METRICS_2 for method in _METHODS_2))
    return f"LiveMCPBench steps by embedder (the paper's Table 2):\n\n{markdown_table(head, rows)}"


_METRICS_2 = ("Recall@5", "nDCG@5", "mAP@5")
_METHODS_2: Mapping[str, str] = {"Algorithm 1": AGAINST, "MCP-Zero": "MCP-Zero"}
"""As Table 2 calls them, and as the rows are called."""


def _both(rows: Mapping[str, Row]) -> list[str]:
    return [mean_markdown(rows[method].estimates[metric]) for metric in _METRICS_2 for method in _METHODS_2.values()]


def _papers(models: Sequence[Mapping[str, Figures]]) -> list[str]:
    return [f"{fmean(model[method][metric] for model in models):.2f}" for metric in _METRICS_2 for method in _METHODS_2]


def _table_3(rows: Mapping[str, Row], embedder: str) -> str:
    metrics, methods = ("Recall@5", "mAP@5", "nDCG@5"), ("Algorithm 1", "standard wRRF")
    lines = [
        [
            f"({agent:g}, {tool:g})",
            *(
                _beside(rows[f"{method} ({agent:g}, {tool:g})"].estimates[metric], TABLE_3[agent, tool][method][metric])
                for metric in metrics
                for method in methods
            ),
        ]
        for agent, tool in GRID
    ]
    head = ("weights (agent, tool)", *(f"{metric}, {method}" for metric in metrics for method in methods))
    told = f"LiveMCPBench steps by weights, {embedder}, in brackets the paper's Table 3 (text-embedding-ada-002):"
    return f"{told}\n\n{markdown_table(head, lines)}"


def _nodes(found: Mapping[str, Mapping[str, Any]]) -> str:
    weights = [f"({agent:g}, {tool:g})" for agent, tool in NODE_WEIGHTS]
    rows = [[name, *(f"{held['agent_nodes'][each]:.1%}" for each in weights)] for name, held in found.items()]
    head = (
        f"Share of the first {NODE_DEPTH} answers that Algorithm 1 reaches through an agent's own node, by weights "
        f"(agent, tool); the paper: {PAPERS_NODE_SHARE:.1%}:"
    )
    return f"{head}\n\n{markdown_table(('embedder', *weights), rows)}"


def _beside(estimate: Estimate, published: float | None) -> str:
    return mean_markdown(estimate) + ("" if published is None else f" ({published:g})")


def figures_of(details: Mapping[str, Any]) -> Iterable[tuple[Table, Sequence[Kind]]]:
    """The methods by the default embedder; Figure 2 in float32, as near to the paper's vectors as there is."""
    found = details["embedders"]
    yield Table.from_json(found["int8"]["methods"]["steps"]), ("recall", "latency")
    yield Table.from_json(found["float32"]["sweep"]), ("weights",)
