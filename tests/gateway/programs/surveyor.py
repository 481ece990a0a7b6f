"""An MCP server on the SDK, which sends its own spans to the collector at its first argument."""

import sys
from typing import Any

import anyio
from mcp import types
from mcp.server import Server
from mcp.server.stdio import stdio_server
from opentelemetry import trace
from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter
from opentelemetry.sdk.resources import Resource
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor


async def list_tools(_: Any, __: Any) -> types.ListToolsResult:
    reads = types.ToolAnnotations(read_only_hint=True)
    names = ("measure", "fail", "ask")
    tools = [types.Tool(name=name, input_schema={"type": "object"}, annotations=reads) for name in names]
    return types.ListToolsResult(tools=tools)


async def call_tool(ctx: Any, params: types.CallToolRequestParams) -> types.CallToolResult:
    if params.name == "ask":
        form = types.ElicitRequestFormParams(message="How far?", requested_schema={"type": "object", "properties": {}})
        await ctx.session.send_request(types.ElicitRequest(params=form), types.ElicitResult)
    content = types.TextContent(type="text", text="a private length")
    return types.CallToolResult(content=[content], is_error=params.name == "fail")


async def main() -> None:
    provider = TracerProvider(resource=Resource({"service.name": "surveyor"}))
    provider.add_span_processor(SimpleSpanProcessor(OTLPSpanExporter(sys.argv[1])))
    trace.set_tracer_provider(provider)
    server: Server[Any] = Server("surveyor", on_list_tools=list_tools, on_call_tool=call_tool)
    async with stdio_server() as (reading, writing):
        await server.run(reading, writing, server.create_initialization_options())


anyio.run(main)
