"""The README's short table: quality beside other ways to route, and speed, missed targets included."""

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from benchmarks import a2x, agent_as_a_graph, memory, process_speed, route_speed
from benchmarks.gateway import run as gateway
from benchmarks.published import A2X_TAXONOMY
from benchmarks.service import run as service
from waygraph.registry.evaluation.compare import Table, markdown_table

MET = {True: "met", False: "**missed**", None: ""}
SPEED = {
    route_speed.NAME: (
        "route, vector cached, 5000 tools, p50",
        "route, steps to answer, 5000 tools, p50",
        "route, requests to answer, 5000 tools, p50",
    ),
    process_speed.NAME: ("`waygraph route`, 5000 tools",),
    memory.NAME: ("process after 200 routes over 5000 tools, resident memory",),
    service.NAME: (
        "POST /v1/route, 5000 tools, 1 client, steps, p50",
        "POST /v1/route, 5000 tools, 1 client, requests, p50",
        "POST /v1/route, 100 clients, requests/s / bare endpoint's",
        "POST /v1/route, 100 clients, p99 / bare endpoint's",
        "POST /v1/route, 100 clients, requests/s / tuned bare endpoint's",
        "POST /v1/route, 100 clients, p99 / tuned bare endpoint's",
    ),
    gateway.NAME: (
        "tool call through `waygraph mcp`, of a tool in its list: more than directly, p50",
        "find_tools through `waygraph mcp`, 5000 tools, new steps, p50",
        "find_tools through `waygraph mcp`, 5000 tools, new requests, p50",
    ),
}
"""Record → the measures that are shown."""
QUALITY_HEAD = ("Quality", "`hybrid`", "Algorithm 1 of the paper", "words alone", "an LLM's taxonomy, published")
Records = Sequence[Mapping[str, Any]]


def summary(records: Records) -> str:
    """What the records hold of it, in Markdown."""
    found = {record["name"]: record for record in records}
    quality = [*_paper_rows(found.get(agent_as_a_graph.NAME)), *_a2x_rows(found.get(a2x.NAME))]
    speed = [row for name, measures in SPEED.items() for row in _speed_rows(found.get(name), measures)]
    heads = (
        QUALITY_HEAD,
        ("Speed", "", "limit"),
    )
    parts = [markdown_table(head, rows) for head, rows in zip(heads, (quality, speed), strict=True) if rows]
    return "\n\n".join(parts)


def _paper_rows(record: Mapping[str, Any] | None) -> Iterable[Sequence[object]]:
    if record is None:
        return
    held = record["details"]["embedders"]["int8"]["methods"]
    for by, metric in (("steps", "Recall@1"), ("steps", "Recall@5"), ("questions", "Recall@5")):
        table = Table.from_json(held[by])
        yield f"LiveMCPBench {by}, {metric}", *_means(table, metric, ("hybrid", agent_as_a_graph.AGAINST, "BM25")), ""


def _a2x_rows(record: Mapping[str, Any] | None) -> Iterable[Sequence[object]]:
    for held in record["details"]["tables"] if record else ():
        table = Table.from_json(held)
        metric = "Recall@5" if table.dataset.startswith("ToolRet") else "Recall@10"
        published = A2X_TAXONOMY.get(table.dataset, {}).get("Recall")
        means = _means(table, metric, ("hybrid", "paper", "lexical"))
        yield f"{table.dataset}, {metric}", *means, "" if published is None else f"{published:.3f}"


def _means(table: Table, metric: str, methods: Iterable[str]) -> list[str]:
    rows = {row.method: row for row in table.rows}
    return [f"{rows[method].estimates[metric].value:.3f}" for method in methods]


def _speed_rows(record: Mapping[str, Any] | None, names: Sequence[str]) -> Iterable[Sequence[object]]:
    for each in record["measures"] if record else ():
        if each["name"] in names:
            yield each["name"], f"{each['value']:.3g} {each['unit']}", f"{each['target'] or ''} {MET[each['met']]}"
