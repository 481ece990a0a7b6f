"""What a host carries in each request to its model: every tool, or the gateway's list and what was found."""

import json
from collections.abc import Iterable, Mapping, Sequence
from contextlib import AsyncExitStack
from dataclasses import asdict, dataclass
from statistics import fmean
from typing import Any

import mcp.types as t

from benchmarks.gateway.counting import Counter
from benchmarks.gateway.finding import LIMIT, found
from benchmarks.gateway.scene import Scene
from benchmarks.record import Measure
from waygraph.registry.routing.tool_formats import definitions

DETAILS = ("summary", "schema")


@dataclass(frozen=True, kw_only=True)
class Carried:
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


async def measured(
    made: Scene, counter: Counter, queries: Sequence[str], *, what: str
) -> tuple[list[Measure], dict[str, Any]]:
    """`what`: the catalogue's name. A session remembers nothing: what was sent once is sent again."""
    carried = await _carried(made, counter, queries)
    return _measures(carried, what, counter.vocabulary), {"queries": len(queries), **asdict(carried)}


async def _carried(made: Scene, counter: Counter, queries: Sequence[str]) -> Carried:
    with made.opened() as registry:
        tools, servers = registry.tools(), len(registry.agents())
    async with AsyncExitStack() as stack:
        client = await stack.enter_async_context(stack.enter_context(made.service()).client())
        listed = (await client.list_tools()).tools
        answers = {detail: [await found(client, query, detail=detail) for query in queries] for detail in DETAILS}
        instructions = client.instructions or ""
    return Carried(
        servers=servers,
        tools=len(tools),
        whole_mcp=_tokens(counter, definitions(tools, "mcp")),
        whole_openai=_tokens(counter, definitions(tools, "openai")),
        listed_mcp=_tokens(counter, [_as_mcp(tool) for tool in listed]),
        listed_openai=_tokens(counter, [_as_openai(tool) for tool in listed]),
        instructions=counter.count(instructions),
        found={detail: fmean(counter.count(text) for text in texts) for detail, texts in answers.items()},
    )


def _as_mcp(tool: t.Tool) -> dict[str, Any]:
    return tool.model_dump(mode="json", by_alias=True, exclude_none=True)


def _as_openai(tool: t.Tool) -> dict[str, Any]:
    function = {"name": tool.name, "description": tool.description, "parameters": tool.input_schema, "strict": False}
    return {"type": "function", "function": function}


def _tokens(counter: Counter, tools: Iterable[Mapping[str, Any]]) -> int:
    return counter.count(json.dumps(list(tools), ensure_ascii=False, separators=(",", ":")))


def _measures(carried: Carried, what: str, vocabulary: str) -> list[Measure]:
    name, unit = f"{what} ({carried.servers} servers, {carried.tools} tools)", f"tokens ({vocabulary})"
    ours = carried.listed_mcp + carried.instructions
    values = {
        "all tools, as MCP lists them": carried.whole_mcp,
        "all tools, as OpenAI's functions": carried.whole_openai,
        "the gateway's list and instructions": ours,
        "the gateway's list and instructions, as OpenAI's functions": carried.listed_openai + carried.instructions,
        **{
            f"the gateway's list, instructions and one find_tools of {LIMIT} ({detail})": ours + tokens
            for detail, tokens in carried.found.items()
        },
    }
    return [Measure(name=f"{name}: {kind}", value=round(value), unit=unit) for kind, value in values.items()]
