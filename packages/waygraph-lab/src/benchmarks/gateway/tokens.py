"""What a host carries in each request to its model: every tool, or the gateway's list and what was found."""

import importlib
import json
import sys
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass
from statistics import fmean
from typing import Any

import mcp.types as t

from benchmarks.gateway.find_tools import LIMIT
from benchmarks.gateway.host import Host, find_tools
from benchmarks.record import Measure
from benchmarks.world import World
from waygraph.registry.catalog.tool_formats import definitions
from waygraph.registry.model.settings import DEFAULT_EMBEDDER

DETAILS = ("summary", "schema")


@dataclass(frozen=True, kw_only=True)
class Counter:
    """Counts the tokens of a text. `vocabulary` is its name."""

    vocabulary: str
    count: Callable[[str], int]


@dataclass(frozen=True, kw_only=True)
class Counts:
    """Tokens. `found`: the mean of an answer of find_tools, by its detail; `instructions`: what the gateway tells a
    model at the beginning of a session.
    """

    servers: int
    tools: int
    whole_mcp: int
    whole_openai: int
    listed_mcp: int
    listed_openai: int
    instructions: int
    found: Mapping[str, float]


def open_counter(world: World) -> Counter:
    """o200k_base where the package that holds it is installed, as for development; else the embedding model's own
    pieces of words, which are more.
    """
    try:
        package: Any = importlib.import_module("rs_bpe.bpe")
    except ImportError:
        return word_pieces(world)
    return Counter(vocabulary="o200k_base", count=package.openai.o200k_base().count)


def word_pieces(world: World) -> Counter:
    """Of the default embedding model. Raises ModelNotFound."""
    from waygraph.registry.embedding.onnx import TextTokenizer
    from waygraph.registry.embedding.weights import TOKENIZER, locate

    folder = locate(DEFAULT_EMBEDDER, world.settings)
    whole = TextTokenizer(folder / TOKENIZER, max_tokens=sys.maxsize >> 32)
    return Counter(vocabulary="pieces of words of the embedding model", count=lambda text: len(whole.ids(text)))


async def measure(
    host: Host, counter: Counter, queries: Sequence[str], *, catalogue: str
) -> tuple[list[Measure], dict[str, Any]]:
    """`catalogue` is its name. A session remembers nothing: what was sent once is sent again."""
    counts = await _count(host, counter, queries)
    return _measures(counts, catalogue, counter.vocabulary), {"queries": len(queries), **asdict(counts)}


async def _count(host: Host, counter: Counter, queries: Sequence[str]) -> Counts:
    with host.open_registry() as registry:
        tools, servers = registry.tools(), len(registry.agents())
    async with host.http() as client:
        listed = (await client.list_tools()).tools
        answers = {
            detail: [await find_tools(client, query, limit=LIMIT, detail=detail) for query in queries]
            for detail in DETAILS
        }
        instructions = client.instructions or ""
    return Counts(
        servers=servers,
        tools=len(tools),
        whole_mcp=tokens_of(counter, definitions(tools, "mcp")),
        whole_openai=tokens_of(counter, definitions(tools, "openai")),
        listed_mcp=tokens_of(counter, [as_mcp(tool) for tool in listed]),
        listed_openai=tokens_of(counter, [_as_openai(tool) for tool in listed]),
        instructions=counter.count(instructions),
        found={detail: fmean(counter.count(text) for text in texts) for detail, texts in answers.items()},
    )


def as_mcp(tool: t.Tool) -> dict[str, Any]:
    return tool.model_dump(mode="json", by_alias=True, exclude_none=True)


def _as_openai(tool: t.Tool) -> dict[str, Any]:
    function = {"name": tool.name, "description": tool.description, "parameters": tool.input_schema, "strict": False}
    return {"type": "function", "function": function}


def tokens_of(counter: Counter, tools: Iterable[Mapping[str, Any]]) -> int:
    return counter.count(json.dumps(list(tools), ensure_ascii=False, separators=(",", ":")))


def _measures(counts: Counts, catalogue: str, vocabulary: str) -> list[Measure]:
    name, unit = f"{catalogue} ({counts.servers} servers, {counts.tools} tools)", f"tokens ({vocabulary})"
    ours = counts.listed_mcp + counts.instructions
    values = {
        "all tools, as MCP lists them": counts.whole_mcp,
        "all tools, as OpenAI's functions": counts.whole_openai,
        "the gateway's list and instructions": ours,
        "the gateway's list and instructions, as OpenAI's functions": counts.listed_openai + counts.instructions,
        **{
            f"the gateway's list, instructions and one find_tools of {LIMIT} ({detail})": ours + tokens
            for detail, tokens in counts.found.items()
        },
    }
    return [Measure(name=f"{name}: {kind}", value=round(value), unit=unit) for kind, value in values.items()]
