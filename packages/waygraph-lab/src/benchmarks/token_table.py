"""RFC 0001's table of tokens, for 50 tools, LiveMCPBench's 527 and 5,000: a static list, and retrieval.

Below the break-even a host is better off with the list of all tools.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from statistics import fmean
from typing import Any

import anyio

from benchmarks.catalogue import requests
from benchmarks.gateway.host import Host, find_tools, open_host
from benchmarks.gateway.tokens import Counter, as_mcp, open_counter, tokens_of
from benchmarks.record import Measure, Result
from benchmarks.world import World, scratch_folder, write_catalogue
from waygraph.ingest.manifest.records import Manifest
from waygraph.ingest.sources.read import read_path
from waygraph.registry.catalog.tool_formats import definitions
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
    rows: list[dict[str, Any]] = []
    embedder = ""
    for name, manifests, texts in _catalogues(world, queries):
        with open_host(world, manifests) as host:
            rows += anyio.run(measure, name, host, counter, texts)
            embedder = host.embedder
    return Result(
        name=NAME,
        embedder=embedder,
        measures=list(_measures(rows)),
        notes=NOTES,
        details={"vocabulary": counter.vocabulary, "rows": rows},
    )


def _catalogues(world: World, queries: int) -> Iterator[tuple[str, Sequence[Manifest], Sequence[str]]]:
    """Name, what is in it, and what is asked."""
    invented = requests(queries)
    with scratch_folder() as folder:
        if world.has(LIVEMCPBENCH):
            dataset = world.dataset(LIVEMCPBENCH)
            texts = [query.texts[0] for query in dataset.queries("steps")][:queries]
            yield f"LiveMCPBench, {FEW} tools", [first_tools(dataset.catalogue, FEW)], texts
            yield "LiveMCPBench", [dataset.catalogue], texts
        else:
            few = write_catalogue(folder, FEW)
            yield f"invented, {FEW} tools", list(read_path(str(few), world.settings)), invented
        many = write_catalogue(folder, QUICK_MANY if world.quick else MANY)
        yield "invented", list(read_path(str(many), world.settings)), invented


def first_tools(catalogue: Manifest, count: int) -> Manifest:
    """Whole agents in the order of the catalogue, the last one with as many tools as are left."""
    entries = []
    for entry in catalogue.entries:
        if count <= 0:
            break
        entries.append(replace(entry, tools=entry.tools[:count]))
        count -= len(entry.tools)
    return replace(catalogue, entries=tuple(entries))


async def measure(name: str, host: Host, counter: Counter, texts: Sequence[str]) -> list[dict[str, Any]]:
    """A row for each shape of what is found, as the service lists and answers it. A session remembers nothing."""
    with host.open_registry() as registry:
        tools = registry.tools()
    static = tokens_of(counter, definitions(tools, "mcp"))
    async with host.http() as client:
        listed = tokens_of(counter, map(as_mcp, (await client.list_tools()).tools))
        listed += counter.count(client.instructions or "")
        found = {
            shape: fmean([counter.count(await find_tools(client, text, limit=limit, detail=detail)) for text in texts])
            for shape, (limit, detail) in SHAPES.items()
        }
    return [row_of(name, len(tools), static, listed, tokens, shape) for shape, tokens in found.items()]


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
