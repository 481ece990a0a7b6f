"""A server on the SDK, with tools that tell and ask, in both eras: over stdio, or `server` over HTTP."""

import json
import warnings
from typing import Any

import anyio
from mcp import types
from mcp.server import Server
from mcp.server.stdio import stdio_server
from mcp.types.version import MODERN_PROTOCOL_VERSIONS

MOST = 100
noted: list[str] = []
"""What became of calls that wait."""
SURE = {"message": "Sure?", "requestedSchema": {"type": "object", "properties": {"yes": {"type": "boolean"}}}}
REQUESTS: dict[str, dict[str, Any]] = {
    "elicitation": {"method": "elicitation/create", "params": {"mode": "form", **SURE}},
    "url": {
        "method": "elicitation/create",
        "params": {"mode": "url", "message": "Log in", "url": "https://example.com/", "elicitationId": "e1"},
    },
    "sampling": {"method": "sampling/createMessage", "params": {"messages": [], "maxTokens": 7}},
    "roots": {"method": "roots/list", "params": {}},
}


def text_of(said: Any) -> types.CallToolResult:
    return types.CallToolResult(content=[types.TextContent(type="text", text=json.dumps(said))])


async def tells(context: Any, given: dict[str, Any]) -> types.CallToolResult:
    for step in range(given["times"]):
        await context.session.report_progress(step, given["times"], f"{given['of']} {step}")
        await log(context, "warning", f"{given['of']} {step}")
        await log(context, "debug", "too much")
    return text_of("done")


async def log(context: Any, level: str, data: str) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # logs are deprecated in the modern era
        sending = context.session.send_log_message(level, data, "press", context.request_id)
    await sending


async def waits(_: Any, given: dict[str, Any]) -> types.CallToolResult:
    noted.append(f"{given['of']} begun")
    try:
        await anyio.sleep_forever()
    except anyio.get_cancelled_exc_class():
        noted.append(f"{given['of']} cancelled")
        raise
    return text_of("never")


async def knows(_: Any, __: dict[str, Any]) -> types.CallToolResult:
    return text_of(noted)


async def headers(context: Any, _: dict[str, Any]) -> types.CallToolResult:
    return text_of({name: value for name, value in context.request.headers.items() if name.startswith("mcp-")})


async def asks(context: Any, given: dict[str, Any], answers: Any, state: str | None) -> Any:
    """In the modern era `given["rounds"]` times, each with what was asked before as its state."""
    if context.session.protocol_version not in MODERN_PROTOCOL_VERSIONS:
        return text_of((await context.session.elicit_form("Sure?", SURE["requestedSchema"], context.request_id)).action)
    seen = json.loads(state or "[]")
    if answers:
        seen.append(
            {key: answer.model_dump(by_alias=True, exclude_none=True, mode="json") for key, answer in answers.items()}
        )
    if len(seen) >= given.get("rounds", 1):
        return text_of(seen)
    requests = {name: REQUESTS[name] for name in given["what"]}
    return types.InputRequiredResult.model_validate({"inputRequests": requests, "requestState": json.dumps(seen)})


async def asks_by_request(context: Any, _: dict[str, Any]) -> types.CallToolResult:
    """As tools written before the modern era do, and most since."""
    return text_of((await context.session.elicit_form("Sure?", SURE["requestedSchema"], context.request_id)).action)


async def can(context: Any, _: dict[str, Any]) -> types.CallToolResult:
    able = context.session.client_capabilities
    return text_of(sorted(able.model_dump(exclude_none=True)) if able else None)


async def call_tool(context: Any, params: types.CallToolRequestParams) -> Any:
    given = params.arguments or {}
    if params.name == "asks":
        return await asks(context, given, params.input_responses, params.request_state)
    if params.name == "asks_for_ever":
        return types.InputRequiredResult(request_state="again")
    if params.name == "errs":
        raise types_error(given)
    tools = {
        "tells": tells,
        "waits": waits,
        "knows": knows,
        "headers": headers,
        "asks_by_request": asks_by_request,
        "can": can,
    }
    return await tools[params.name](context, given)


def types_error(given: dict[str, Any]) -> Exception:
    from mcp import MCPError

    return MCPError(code=-32051, message="no paper", data=given)


HEADED = {"type": "object", "properties": {"city": {"type": "string", "x-mcp-header": "City"}}}


async def list_tools(_: Any, __: Any) -> types.ListToolsResult:
    return types.ListToolsResult(tools=[types.Tool(name="headers", input_schema=HEADED)])


server: Server[Any] = Server("sdk-tools", version="1", on_list_tools=list_tools, on_call_tool=call_tool)


async def main() -> None:
    async with stdio_server() as (reading, writing):
        await server.run(reading, writing, server.create_initialization_options())


if __name__ == "__main__":
    anyio.run(main)
