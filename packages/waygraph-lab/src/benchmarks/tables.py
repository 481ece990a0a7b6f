"""What is written from the records in evals/: the tables of evals/README.md and of the README, and the figures."""

import json
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from benchmarks import (
    a2x,
    abstention,
    agent_as_a_graph,
    clear_requests,
    code_rounds,
    default_recipe,
    embedders,
    end_to_end,
    findability,
    first_call,
    livemcpbench,
    naming,
    process_speed,
    questions,
    ranker,
    right_tool,
    route_ratio,
    route_speed,
    scalemcp,
    taxonomy,
    token_table,
    tool_sets,
)
from benchmarks.engines import benchmark as engines
from benchmarks.gateway import benchmark as gateway
from benchmarks.history import benchmark as history
from benchmarks.loop import benchmark as loop
from benchmarks.published import A2X_TAXONOMY
from benchmarks.store import scale
from benchmarks.store.figure import draw_scale
from waygraph_lab.evaluation.compare import Table, markdown_table
from waygraph_lab.evaluation.plots import Kind, draw

BEGIN, END = "<!-- measured: begin (python -m benchmarks table) -->", "<!-- measured: end -->"
MET = {True: "yes", False: "**no**", None: ""}
Records = Sequence[Mapping[str, Any]]
Details = Mapping[str, Any]

DETAILS: Mapping[str, Callable[[Details], str]] = {
    livemcpbench.NAME: livemcpbench.tables_of,
    agent_as_a_graph.NAME: agent_as_a_graph.tables_of,
    a2x.NAME: a2x.tables_of,
    abstention.NAME: abstention.tables_of,
    clear_requests.NAME: clear_requests.tables_of,
    loop.NAME: loop.tables_of,
    default_recipe.NAME: default_recipe.tables_of,
    embedders.NAME: embedders.tables_of,
    scalemcp.NAME: scalemcp.tables_of,
    right_tool.NAME: right_tool.tables_of,
    findability.NAME: findability.tables_of,
    questions.NAME: questions.tables_of,
    history.NAME: history.tables_of,
    taxonomy.NAME: taxonomy.tables_of,
    tool_sets.NAME: tool_sets.tables_of,
    code_rounds.NAME: code_rounds.tables_of,
    token_table.NAME: token_table.tables_of,
    naming.NAME: naming.tables_of,
    ranker.NAME: ranker.tables_of,
    engines.NAME: engines.tables_of,
}
"""Record → what its `details` say, in Markdown, for `python -m benchmarks details`."""
DETAILS_BY_MODEL: Mapping[str, Callable[[Details], str]] = {end_to_end.NAME: end_to_end.tables_of}
"""The same of what needs a model, so that no record of it has to be there."""
FIGURES: Mapping[str, Callable[[Details], Iterable[tuple[Table, Sequence[Kind]]]]] = {
    agent_as_a_graph.NAME: agent_as_a_graph.figures_of,
}
"""Record → what is drawn of it."""
DOUBT_SIZES = ("big", *abstention.SIZES, abstention.ALL)
SHOWN = frozenset(
    {
        "LiveMCPBench steps, hybrid, contextual texts, int8: R@1",
        "LiveMCPBench steps, hybrid, contextual texts, int8: R@5",
        *(f"LiveMCPBench steps, {each}: R@5, spread over 3 embedders" for each in ("Algorithm 1 (1, 1)", "hybrid")),
        "LiveMCPBench, 50 tools (50 tools), 5 tools, as shipped: break-even a task",
        "ToolRet_clean, hybrid: Recall@5",
        "publicMCP, hybrid: Recall@10",
        "livemcpbench, steps: right of the clear",
        "ScaleMCP, hybrid concat, 10 questions: tool Recall@5",
        "LiveMCPBench steps, true history: nDCG@5",
        *(f"loop, {arm}, reader, 500 other tools: solved" for arm in loop.ARMS if arm != loop.ALL_TOOLS),
        f"Registry.route, 5000 tools, new texts, this checkout / commit {route_ratio.BASE}",
        "route, vector cached, 5000 tools, p50",
        "route, vector cached, 20000 tools, p50",
        "route, requests to answer, 5000 tools, p50",
        "ingest of 5000 tools, empty vector cache",
        "`waygraph ingest`, unchanged, 5000 tools",
        "process after 200 routes over 5000 tools, resident memory",
        *(f"doubt, {each} servers: of {kind} requests" for each in DOUBT_SIZES for kind in ("answerable", "unserved")),
        *(f"first two {near}: first tool is right" for near in ("near", "not near")),
        "first two near: share of answers",
        "attacks flagged of 36",
        "attacks with a notice of 36",
        "harmless tools flagged of 117",
        "harmless tools with a notice of 117",
        "paraphrases, reported part, attack (46): rules, flagged",
        "paraphrases, reported part, attack (46): rules, told",
        "paraphrases, reported part, harmless (50): rules, flagged",
        "paraphrases, reported part, harmless (50): rules, told",
        "denied of 16,235 real tools",
        "noticed of 16,235 real tools",
        "denied of 116 tools of documents in the tests",
        "check set, attacks (70): rules",
        "check set, attacks (70): rules, told",
        "check set, harmless (211): rules",
        "check set, harmless (211): rules, told",
        "check set, attacks (70): both, flagged",
        "check set, attacks (70): both, told",
        "check set, harmless (211): both, flagged",
        "check set, harmless (211): both, told",
        "score: flagged of 16421 real tools, by server left out",
        "Neo4j 2026.08.1: route, text to answer, 5000 tools, p50",
        "POST /v1/route, 100 clients, requests/s / bare endpoint's",
        "tool call through `waygraph mcp`, by use_tool: more than directly, p50",
        "find_tools through `waygraph mcp`, 5000 tools, new requests, p50",
        "`waygraph mcp`, 5000 tools: first find_tools after start",
        "invented (527 servers, 5000 tools): all tools, as MCP lists them",
        "invented (527 servers, 5000 tools): the gateway's list and instructions",
    }
)
"""The figures on the page, besides those that miss their targets."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Pages:
    """Where the generated parts are."""

    page: Path
    readme: Path
    figures: Path


def write_pages(evals: Path, names: Iterable[str], places: Pages) -> None:
    """Raises ValueError if a page has no markers."""
    records = read_records(evals, names)
    for page, text in render_pages(records, places).items():
        page.write_text(text, encoding="utf-8")
    for table, kinds in figures(records):
        draw([table], places.figures, kinds=kinds)
    for record in records:
        if record["name"] == scale.NAME:
            draw_scale(record["details"], places.figures)


def render_pages(records: Records, places: Pages) -> dict[Path, str]:
    """What each page is to hold, its hand-written parts as they are. Raises ValueError if one has no markers."""
    parts = {places.page: tables(records), places.readme: summary(records)}
    return {page: replace_between(page, part, (BEGIN, END)) for page, part in parts.items()}


def figures(records: Records) -> list[tuple[Table, Sequence[Kind]]]:
    """Each table that is drawn, and as what."""
    known = [record for record in records if record["name"] in FIGURES]
    return [each for record in known for each in FIGURES[record["name"]](record["details"])]


def read_records(evals: Path, names: Iterable[str]) -> list[dict[str, Any]]:
    """The records that are there, in the order of `names`; of a benchmark also those of other embedders."""
    paths = [path for name in names for path in (evals / f"{name}.json", *sorted(evals.glob(f"{name}_onnx-*.json")))]
    return [json.loads(path.read_bytes()) for path in paths if path.is_file()]


def tables(records: Records) -> str:
    """The figures that are shown, each beside its budget, and where each record comes from, in Markdown."""
    return "\n\n".join([measures_table(records, _is_shown), _origin(records)])


def _is_shown(measure: Mapping[str, Any]) -> bool:
    return measure["met"] is False or measure["name"] in SHOWN


def detail_tables(records: Records) -> str:
    """All that records hold: every figure, then every method, set and metric, in Markdown."""
    return "\n\n".join("\n\n".join(_details(record)) for record in records)


def _details(record: Mapping[str, Any]) -> Iterable[str]:
    yield f"# {record['name']}"
    yield measures_table([record])
    if table := {**DETAILS, **DETAILS_BY_MODEL}.get(record["name"]):
        yield table(record["details"])


def replace_between(page: Path, part: str, markers: tuple[str, str]) -> str:
    """The page with `part` between its markers. Raises ValueError if it has none."""
    text = page.read_text(encoding="utf-8")
    before, begin, rest = text.partition(markers[0])
    _, end, after = rest.partition(markers[1])
    if not (begin and end):
        raise ValueError(f"{page} lacks the markers {markers[0]} and {markers[1]}")
    return f"{before}{begin}\n\n{part}\n\n{end}{after}"


def measures_table(records: Records, is_shown: Callable[[Mapping[str, Any]], bool] = lambda _: True) -> str:
    """Each figure beside its budget, and whether it is met; one that several records have, with its embedder."""
    counts = Counter(m["name"] for record in records for m in record["measures"])
    rows = [
        (
            f"{m['name']} ({_model(record['embedder'])})" if counts[m["name"]] > 1 else m["name"],
            f"{m['value']:g} {m['unit']}".strip(),
            m["target"] or "",
            MET[m["met"]],
        )
        for record in records
        for m in record["measures"]
        if is_shown(m)
    ]
    return markdown_table(("What", "Measured", "Target", "Met"), rows)


def _model(fingerprint: str) -> str:
    """The name of a model without who made it, its content and precision."""
    return fingerprint.partition("@")[0].split("/")[-1].split(":")[-1]


def _origin(records: Records) -> str:
    groups: dict[tuple[str, str, str], list[str]] = {}
    for record in records:
        machine = f"{record['machine']['cpus']} × {record['machine']['model']}"
        targets = [m["met"] for m in record["measures"] if m["target"]]
        met = f" ({targets.count(True)} of {len(targets)})" if targets else ""
        groups.setdefault((record["date"][:10], record["git"], machine), []).append(f"`{record['name']}`{met}")
    rows = [(", ".join(names), *place) for place, names in groups.items()]
    return markdown_table(("Benchmarks (targets met)", "Date", "Commit", "Processor"), rows)


# -- the README's short table -----------------------------------------------------------------------


SPEED = {
    route_speed.NAME: {"route, requests to answer, 5000 tools, p50": "find the agents for a request (median)"},
    gateway.NAME: {
        "invented (527 servers, 5000 tools): all tools, as MCP lists them": "a model's list of tools, without Waygraph",
        "invented (527 servers, 5000 tools): the gateway's list and instructions": "a model's list of tools, with it",
        "find_tools through `waygraph mcp`, 5000 tools, new requests, p50": "`find_tools` as a model calls it (median)",
        "tool call through `waygraph mcp`, by use_tool: more than directly, p50": "what the gateway adds to a call",
    },
    process_speed.MEMORY: {"process after 200 routes over 5000 tools, resident memory": "memory of the process"},
    first_call.NAME: {
        "proven call, uv, warm, with the default model": "from nothing to a host's call of a tool, packages cached",
        "packages, pip, warm, words alone": "what an install takes, without a model",
    },
}
"""Record → the measures that the README shows, in its words."""
QUALITY_HEAD = ("Quality", "`hybrid`", "Algorithm 1 of the paper", "words alone", "an LLM's taxonomy, published")


def summary(records: Records) -> str:
    """What the records hold of it, in Markdown."""
    found = {record["name"]: record for record in records}
    quality = [*_paper_rows(found.get(agent_as_a_graph.NAME)), *_a2x_rows(found.get(a2x.NAME))]
    speed = [row for name, measures in SPEED.items() for row in _speed_rows(found.get(name), measures)]
    heads = (QUALITY_HEAD, ("On two cores, over 5,000 tools", "Measured"))
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


def _speed_rows(record: Mapping[str, Any] | None, names: Mapping[str, str]) -> Iterable[Sequence[object]]:
    for each in record["measures"] if record else ():
        if each["name"] in names:
            yield names[each["name"]], f"{_short(each['value'])} {each['unit']}"


def _short(value: float) -> str:
    """Three digits, and large numbers whole."""
    return f"{value:,.0f}" if value >= 1000 else f"{value:.3g}"
