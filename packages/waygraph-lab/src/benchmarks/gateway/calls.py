"""What a call through the gateway costs beside the same call of the same program, made directly."""

import json
from contextlib import AsyncExitStack
from typing import Any

import mcp.types as t
from mcp import Client

from benchmarks.gateway.host import Host, WrongAnswer, stdio_session, text_of, upstream_entry
from benchmarks.record import Measure, Target
from benchmarks.timing import Arm, median_difference, percentile_measures, time_arms

OVERHEAD = Target(bound="at_most", value=4.0)
FOUND, PINNED = "mirror", "pinned"
"""Two servers, the same but for this: the tools of one stand in the gateway's list."""
TOOLS = 5
DIRECT = "tool call, directly"
DIRECT_ALONE = "tool call, directly, as one request and its answer"
LISTED = "tool call through `waygraph mcp`, of a tool in its list"
UNLISTED = "tool call through `waygraph mcp`, of a found tool by its name"
USED = "tool call through `waygraph mcp`, by use_tool"
HTTP_UNLISTED = "tool call through `/mcp`, of a found tool by its name"
HTTP_USED = "tool call through `/mcp`, by use_tool"
TARGETS = {LISTED: OVERHEAD, UNLISTED: OVERHEAD, USED: OVERHEAD, HTTP_UNLISTED: None, HTTP_USED: None}
ALONE = (UNLISTED, HTTP_UNLISTED)
"""Without the checks that the SDK's client adds to a request, and so compared with the direct call without them."""
WARM_UP = 30


def prepare(host: Host) -> None:
    """Both servers into the registry."""
    host.ingest("mirrors", {name: upstream_entry(name, TOOLS) for name in (FOUND, PINNED)})
    host.waygraph("set", PINNED, "--pin")


async def measure(host: Host, *, calls: int) -> tuple[list[Measure], dict[str, Any]]:
    """Of a host that was prepared."""
    names = host.call_names([FOUND, PINNED])
    times = await _times(host, names[FOUND][0], names[PINNED][0], calls)
    measures = [measure for name in (DIRECT, DIRECT_ALONE) for measure in percentile_measures(name, times[name])]
    for name, target in TARGETS.items():
        more = median_difference(times[DIRECT_ALONE if name in ALONE else DIRECT], times[name])
        measures += percentile_measures(name, times[name])
        measures.append(Measure(name=f"{name}: more than directly, p50", value=more, unit="ms", target=target))
    return measures, {"calls": calls}


async def _times(host: Host, unlisted: str, listed: str, calls: int) -> dict[str, list[float]]:
    entry = upstream_entry(FOUND, TOOLS)
    async with AsyncExitStack() as stack:
        program = stdio_session([entry["command"], *entry["args"]], host.folder / "direct.log")
        direct = await stack.enter_async_context(program)
        gateway = await stack.enter_async_context(host.stdio())
        http = await stack.enter_async_context(host.http())
        own_name = (await direct.list_tools()).tools[0].name
        arms = {
            DIRECT: _by_name(direct, own_name),
            DIRECT_ALONE: _by_one_request(direct, own_name),
            LISTED: _by_name(gateway, listed),
            UNLISTED: _by_one_request(gateway, unlisted),
            USED: _by_use_tool(gateway, unlisted),
            HTTP_UNLISTED: _by_one_request(http, unlisted),
            HTTP_USED: _by_use_tool(http, unlisted),
        }
        return await time_arms(arms, calls, warm_up=WARM_UP)


def _by_name(client: Client, name: str) -> Arm:
    async def call(number: int) -> None:
        _check(text_of(await client.call_tool(name, {"number": number})), number)

    return call


def _by_one_request(client: Client, name: str) -> Arm:
    """As a host calls that does not list the tools again after a call of an unlisted one, as the SDK's client does."""

    async def call(number: int) -> None:
        params = t.CallToolRequestParams(name=name, arguments={"number": number})
        answer = await client.session.send_request(t.CallToolRequest(params=params), t.CallToolResult)
        _check(text_of(answer), number)

    return call


def _by_use_tool(client: Client, name: str) -> Arm:
    async def call(number: int) -> None:
        arguments = {"name": name, "params": {"number": number}}
        _check(text_of(await client.call_tool("use_tool", arguments)), number)

    return call


def _check(text: str, number: int) -> None:
    """Raises WrongAnswer."""
    try:
        answer = json.loads(text)["number"]
    except (ValueError, KeyError, TypeError):
        raise WrongAnswer(f"instead of an answer to {number} came: {text[:500]}") from None
    if answer != number:
        raise WrongAnswer(f"to {number} came the answer to {answer}")
