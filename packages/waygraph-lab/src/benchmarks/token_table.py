"""RFC 0001's table of tokens, for 50 tools, LiveMCPBench's 527 and 5,000: a static list, and retrieval.

Below the break-even a host is better off with the list of all tools.
"""

import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import replace
from statistics import fmean
from typing import Any

from benchmarks.catalogue import requests
from benchmarks.gateway.tokens import Counter, open_counter
from benchmarks.record import Measure, Result
from benchmarks.world import World
from waygraph.api.mcp.meta_tools import instructions, meta_tools
from waygraph.ingest.manifest.records import Manifest
from waygraph.registry.catalog.find_tools.find import FindAsked, find
from waygraph.registry.catalog.tool_formats import definitions
from waygraph.registry.registry import Registry
from waygraph_lab.evaluation.compare import markdown_table

NAME = "token_table"
LIVEMCPBENCH = "livemcpbench"
FEW, MANY, QUICK_MANY = 50, 5_000, 300
QUERIES, QUICK_QUERIES = 60, 5
SHAPES: Mapping[str, tuple[int, str]] = {"1 tool, schema": (1, "schema"), "5 tools, as shipped": (5, "summary")}
"""What is retrieved → how many tools, and how much of each: the RFC's own example, and the gateway's default."""
RFC = {"tools": 50, "a schema": 300, "static list": 15_000, "find_tools": 300, "found": 300}
NOTES = (
    "Compact JSON as MCP lists tools. `find_tools`: the gateway's whole list of meta tools and its instructions, which "
    "each call carries; the RFC counts one schema of 300 tokens. Found: the mean of the answers.",
    "A task of one tool: two calls of a model with the static list (call, answer), three with retrieval (search, call, "
    "answer), of which two carry what was found. The RFC counts one call's schemas.",
    "Break-even: so many tools of the catalogue's mean length cost the same as retrieval, a call or a task.",
    "50 tools: the first servers of LiveMCPBench in the order of its catalogue, until there are 50 tools; without its "
    "data invented ones. 5,000: invented.",
)


def run(world: World) -> Result:
    counter = open_counter(world)
    queries = QUICK_QUERIES if world.quick else QUERIES
    rows = [
        row for name, registry, texts in _catalogues(world, queries) for row in measure(name, registry, counter, texts)
    ]
    return Result(
        name=NAME,
        embedder=world.embedder().fingerprint,
        measures=list(_measures(rows)),
        notes=NOTES,
        details={"vocabulary": counter.vocabulary, "rows": rows},
    )


def _catalogues(world: World, queries: int) -> Iterator[tuple[str, Registry, Sequence[str]]]:
    invented = requests(queries)
    with ExitStack() as stack:
        if world.has(LIVEMCPBENCH):
            dataset = world.dataset(LIVEMCPBENCH)
            texts = [query.texts[0] for query in dataset.queries("steps")][:queries]
            few = first_tools(dataset.catalogue, FEW)
            for name, manifest in ((f"LiveMCPBench, {FEW} tools", few), ("LiveMCPBench", dataset.catalogue)):
                yield name, stack.enter_context(world.registry_of([manifest], texts="contextual")), texts
        else:
            yield f"invented, {FEW} tools", stack.enter_context(world.registry_of_tools(FEW)), invented
        yield "invented", stack.enter_context(world.registry_of_tools(QUICK_MANY if world.quick else MANY)), invented


def first_tools(catalogue: Manifest, count: int) -> Manifest:
    """Whole agents in the order of the catalogue, the last one with as many tools as are left."""
    entries = []
    for entry in catalogue.entries:
        if count <= 0:
            break
        entries.append(replace(entry, tools=entry.tools[:count]))
        count -= len(entry.tools)
    return replace(catalogue, entries=tuple(entries))


def measure(name: str, registry: Registry, counter: Counter, texts: Sequence[str]) -> Iterator[dict[str, Any]]:
    """A row for each shape of what is found."""
    tools = registry.tools()
    count: Callable[[object], int] = lambda value: counter.count(  # noqa: E731
        json.dumps(value, ensure_ascii=False, separators=(",", ":"))
    )
    static = count(definitions(tools, "mcp"))
    listed = count(meta_tools("default")) + counter.count(instructions("default"))
    for shape, (limit, detail) in SHAPES.items():
        answers = [find(registry, FindAsked(query=text, limit=limit, detail=detail)) for text in texts]
        yield row_of(name, len(tools), static, listed, fmean(map(count, answers)), shape)


def row_of(  # noqa: PLR0917 - the columns of the table
    name: str, tools: int, static: int, listed: int, found: float, shape: str
) -> dict[str, Any]:
    mean = static / tools
    return {
        "catalogue": name,
        "tools": tools,
        "a schema": round(mean),
        "static list": static,
        "retrieved": shape,
        "find_tools": listed,
        "found": round(found),
        "saved a call": round(static - listed - found),
        "static, a task": 2 * static,
        "retrieval, a task": round(3 * listed + 2 * found),
        "break-even a call, tools": round((listed + found) / mean, 1),
        "break-even a task, tools": round((3 * listed + 2 * found) / (2 * mean), 1),
    }


def _measures(rows: Sequence[Mapping[str, Any]]) -> Iterator[Measure]:
    for row in rows:
        name = f"{row['catalogue']} ({row['tools']} tools), {row['retrieved']}"
        yield Measure(name=f"{name}: saved a call", value=row["saved a call"], unit="tokens")
        yield Measure(name=f"{name}: break-even a task", value=row["break-even a task, tools"], unit="tools")


def tables_of(details: Mapping[str, Any]) -> str:
    rows = details["rows"]
    paper = row_of("*the RFC*", RFC["tools"], RFC["static list"], RFC["find_tools"], RFC["found"], "1 tool, schema")
    lines = [[f"{cell:,}" if isinstance(cell, int) else cell for cell in row.values()] for row in (paper, *rows)]
    return f"Tokens of schemas (RFC 0001), by {details['vocabulary']}:\n\n{markdown_table(tuple(paper), lines)}"
