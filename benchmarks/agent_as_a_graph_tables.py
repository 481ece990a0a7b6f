"""The record of `agent_as_a_graph` as tables: measured figures with the paper's in brackets."""

from collections.abc import Iterable, Mapping, Sequence
from statistics import fmean
from typing import Any

from benchmarks.agent_as_a_graph import AGAINST, DEPTHS, GRID, rows_of
from benchmarks.published import REFERENCE, TABLE_1, TABLE_2, TABLE_3, Figures
from waygraph.registry.evaluation.compare import Estimate, Row, Table, markdown_table, mean_markdown
from waygraph.registry.evaluation.plots import Kind

PAPERS_MODEL = "All-MiniLM-L6-v2"


def tables_of(details: Mapping[str, Any]) -> str:
    found = details["embedders"]
    parts = [_reference(found)]
    for name, held in found.items():
        parts += _table_1(Table.from_json(held["methods"]["steps"]), name)
    parts += _table_1(Table.from_json(found["int8"]["methods"]["questions"]), "int8")
    parts += [_table_2(found), *(_table_3(rows_of(held), name) for name, held in found.items())]
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
            [row.method, *(_beside(row.estimates[metric], _published(table, row).get(metric)) for metric in metrics)]
            for row in table.rows
        ]
        parts.append(markdown_table(("method", *metrics), rows))
    paper = ", in brackets the paper's Table 1 (text-embedding-ada-002)" if table.by == "steps" else ""
    return [f"LiveMCPBench {table.by}, {table.rows[0].judged} queries, {embedder}{paper}:", *parts]


def _published(table: Table, row: Row) -> Figures:
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


def _beside(estimate: Estimate, published: float | None) -> str:
    return mean_markdown(estimate) + ("" if published is None else f" ({published:g})")


def drawn_of(details: Mapping[str, Any]) -> Iterable[tuple[Table, Sequence[Kind]]]:
    """The methods by the default embedder; Figure 2 in float32, as near to the paper's vectors as there is."""
    found = details["embedders"]
    yield Table.from_json(found["int8"]["methods"]["steps"]), ("recall", "latency")
    yield Table.from_json(found["float32"]["sweep"]), ("weights",)
