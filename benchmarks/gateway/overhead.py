"""What a call through the gateway costs beside the same call of the same program, made directly."""

import json
from contextlib import AsyncExitStack
from typing import Any

import mcp.types as t
from mcp import Client

from benchmarks.gateway.arms import Way, in_turn, more_than, spread
from benchmarks.gateway.scene import Scene, client_of, program, text_of, upstream
from benchmarks.record import Measure, Target
from benchmarks.service.servers import python_module

OVERHEAD = Target(bound="at_most", value=2.0)
FOUND, PINNED = "mirror", "pinned"
"""Two servers, the same but for this: the tools of one stand in the gateway's list."""
TOOLS = 5
DIRECT = "tool call, directly"
DIRECT_ALONE = "tool call, directly, as one request and its answer"
BARE = "tool call through the least gateway of the SDK's parts"
LISTED = "tool call through `waygraph mcp`, of a tool in its list"
UNLISTED = "tool call through `waygraph mcp`, of a found tool by its name"
RELISTED = f"{UNLISTED}, and the list that the SDK's client asks for then"
USED = "tool call through `waygraph mcp`, by use_tool"
HTTP_UNLISTED = "tool call through `/mcp`, of a found tool by its name"
HTTP_RELISTED = f"{HTTP_UNLISTED}, and the list that the SDK's client asks for then"
HTTP_USED = "tool call through `/mcp`, by use_tool"
TARGETS = {
    BARE: None,
    LISTED: OVERHEAD,
    UNLISTED: OVERHEAD,
    RELISTED: None,
    USED: None,
    HTTP_UNLISTED: None,
    HTTP_RELISTED: None,
    HTTP_USED: None,
}
ALONE = (UNLISTED, HTTP_UNLISTED)
"""Without the checks that the SDK's client adds to a request, and so compared with the direct call without them."""
WARM_UP = 30


class WrongAnswer(Exception):
    """An answer that is not the one to the call."""


def prepare(made: Scene) -> None:
    """Both servers into the registry."""
    made.follow("mirrors", {name: upstream(name, TOOLS) for name in (FOUND, PINNED)})
    made.waygraph("set", PINNED, "--pin")


async def measured(made: Scene, *, calls: int) -> tuple[list[Measure], dict[str, Any]]:
    """Of a scene that was prepared."""
    names = made.call_names([FOUND, PINNED])
    taken = await _taken(made, names[FOUND][0], names[PINNED][0], calls)
    measures = [*spread(DIRECT, taken[DIRECT]), *spread(DIRECT_ALONE, taken[DIRECT_ALONE])]
    for name, target in TARGETS.items():
        more = more_than(taken[DIRECT_ALONE if name in ALONE else DIRECT], taken[name])
        measures += spread(name, taken[name])
        measures.append(Measure(name=f"{name}: more than directly, p50", value=more, unit="ms", target=target))
    return measures, {"calls": calls}


async def _taken(made: Scene, found: str, pinned: str, calls: int) -> dict[str, list[float]]:
    served = upstream(FOUND, TOOLS)
    command = [served["command"], *served["args"]]
    async with AsyncExitStack() as stack:
        direct = await stack.enter_async_context(client_of(program(*command), made.folder / "direct.log"))
        least = program(*python_module("benchmarks.gateway.bare", *command))
        bare = await stack.enter_async_context(client_of(least, made.folder / "bare.log"))
        gateway = (await stack.enter_async_context(made.stdio())).client
        http = await stack.enter_async_context(stack.enter_context(made.service()).client())
        own_name = (await direct.list_tools()).tools[0].name
        ways = {
            DIRECT: _called(direct, own_name),
            DIRECT_ALONE: _called_alone(direct, own_name),
            BARE: _called(bare, own_name),
            LISTED: _called(gateway, pinned),
            UNLISTED: _called_alone(gateway, found),
            RELISTED: _called(gateway, found),
            USED: _used(gateway, found),
            HTTP_UNLISTED: _called_alone(http, found),
            HTTP_RELISTED: _called(http, found),
            HTTP_USED: _used(http, found),
        }
        return await in_turn(ways, calls, warm_up=WARM_UP)


def _called(client: Client, name: str) -> Way:
    async def call(number: int) -> None:
        _check(text_of(await client.call_tool(name, {"number": number})), number)

    return call


def _called_alone(client: Client, name: str) -> Way:
    """One request and its answer, as a host makes it that asks for no list afterwards."""

    async def call(number: int) -> None:
        params = t.CallToolRequestParams(name=name, arguments={"number": number})
        answer = await client.session.send_request(t.CallToolRequest(params=params), t.CallToolResult)
        _check(text_of(answer), number)

    return call


def _used(client: Client, name: str) -> Way:
    async def call(number: int) -> None:
        asked = {"name": name, "params": {"number": number}}
        _check(text_of(await client.call_tool("use_tool", asked)), number)

    return call


def _check(text: str, number: int) -> None:
    """Raises WrongAnswer."""
    try:
        told = json.loads(text)["number"]
    except (ValueError, KeyError, TypeError):
        raise WrongAnswer(f"instead of an answer to {number} came: {text[:500]}") from None
    if told != number:
        raise WrongAnswer(f"to {number} came the answer to {told}")
