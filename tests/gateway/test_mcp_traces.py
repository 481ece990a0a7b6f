"""Spans and durations of MCP by OpenTelemetry's conventions: one trace from a host through the gateway to a server."""

import json
import sys
from collections.abc import Iterator
from contextlib import nullcontext
from pathlib import Path
from typing import Any

import httpx2
import pytest
from mcp import Client
from mcp.types import ElicitResult
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.semconv._incubating.attributes import (
    error_attributes,
    gen_ai_attributes,
    jsonrpc_attributes,
    mcp_attributes,
    network_attributes,
    rpc_attributes,
)
from opentelemetry.semconv._incubating.metrics import mcp_metrics
from opentelemetry.trace import Span as HostSpan

from tests.fake_collector import Collector, Span, fake_collector
from tests.gateway.hosts import Era, Place, ingest, on_stdio, opened_by
from tests.observed_service import samples
from tests.service import process, until
from waygraph.registry.model.tracing import Name

SERVER, CLIENT, ERROR = 2, 3, 2
"""Kinds and the status of a span, as OTLP numbers them."""
PROGRAM = Path(__file__).parent / "programs" / "surveyor.py"
TEXT = "a private length"
TOOL = "tools/call measure"
tracer = TracerProvider().get_tracer("host")


@pytest.fixture(scope="module")
def collector() -> Iterator[Collector]:
    with fake_collector() as collector:
        yield collector


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory, collector: Collector) -> Place:
    place = Place(tmp_path_factory.mktemp("surveyor"))
    command = {"command": sys.executable, "args": [str(PROGRAM), f"{collector.url}/v1/traces"]}
    (place.folder / "mcp.json").write_text(json.dumps({"mcpServers": {"land": command}}))
    assert ingest(place, str(place.folder / "mcp.json")) == 0
    return place


def trace_id_of(span: HostSpan) -> str:
    return format(span.get_span_context().trace_id, "032x")


def trace_of(collector: Collector, span: HostSpan, names: set[str]) -> dict[str, Span]:
    """Of the span's trace those by name, once these have come."""
    trace_id = trace_id_of(span)
    until(lambda: names <= {span.name for span in collector.spans if span.trace_id == trace_id}, "the spans come")
    return {span.name: span for span in collector.spans if span.trace_id == trace_id}


@pytest.mark.parametrize("door", ["stdio", "http"])
async def test_one_trace_goes_through_three_processes(
    door: str, era: Era, place: Place, collector: Collector, tmp_path: Path
) -> None:
    """Host → `tools/call use_tool` → `tools/call measure` at the gateway → the server's own span; no text in ours."""
    environ = {"OTEL_EXPORTER_OTLP_ENDPOINT": collector.url, "OTEL_BSP_SCHEDULE_DELAY": "50"}
    with process(place.registry, tmp_path, environ=environ) if door == "http" else nullcontext() as service:
        open_host = opened_by(door, f"{service.url}/mcp" if service else "", on_stdio(place, **environ))
        async with open_host(era) as host:
            with tracer.start_as_current_span("host") as mine:
                await host.call_tool("use_tool", {"name": "land__measure", "params": {"secret": TEXT}})
            with tracer.start_as_current_span("host") as other:
                assert (await host.call_tool("land__fail", {})).is_error
                assert (await host.call_tool("no such tool, but a private length", {})).is_error
        if service:
            durations = samples(httpx2.get(f"{service.url}/metrics").content)
            count = 'mcp_{}_operation_duration_seconds_count{{error_type="tool_error",mcp_method_name="tools/call"}}'
            assert (durations[count.format("server")], durations[count.format("client")]) == (2, 1)
    names = {"tools/call use_tool", TOOL}
    at_gateway = trace_of(collector, mine, names)["tools/call use_tool"]
    of_tool = [each for each in collector.spans if (each.name, each.trace_id) == (TOOL, at_gateway.trace_id)]
    sending, receiving = sorted(of_tool, key=lambda span: -span.kind)
    assert (at_gateway.kind, at_gateway.parent_id) == (SERVER, format(mine.get_span_context().span_id, "016x"))
    assert (sending.kind, sending.parent_id) == (CLIENT, at_gateway.id)
    assert (receiving.kind, receiving.parent_id) == (SERVER, sending.id)
    assert bool(at_gateway.links) is (door == "http"), "the request of HTTP is linked"
    expected = {Name.METHOD: "tools/call", Name.OPERATION: "execute_tool", Name.TOOL: "measure", Name.TRANSPORT: "pipe"}
    assert expected.items() <= sending.attributes.items()
    assert at_gateway.attributes[Name.TRANSPORT] == ("pipe" if door == "stdio" else "tcp")
    assert {Name.REQUEST_ID, Name.VERSION} <= sending.attributes.keys() & at_gateway.attributes.keys()
    failures = {"tools/call", "tools/call fail", "tools/call land__fail"}
    spans = trace_of(collector, other, failures)
    assert {spans[name].attributes[Name.ERROR] for name in failures} == {"tool_error"}
    assert spans["tools/call"].status == spans["tools/call land__fail"].status == ERROR
    ours = [span for span in collector.spans if TEXT in json.dumps([span.name, span.attributes])]
    assert ours == []


async def test_a_question_of_a_server_stays_in_the_trace_of_its_call(place: Place, collector: Collector) -> None:
    """Also where the connection was opened by a call of another trace: at the first question the era is changed."""
    heard: list[str] = []

    async def answer(context: Any, params: Any) -> ElicitResult:
        heard.append(context.meta["traceparent"].split("-")[1])
        return ElicitResult(action="accept", content={})

    environ = {"OTEL_EXPORTER_OTLP_ENDPOINT": collector.url}
    async with Client(on_stdio(place, **environ), mode="legacy", elicitation_callback=answer) as host:
        for tool in ("ask", "measure", "ask"):
            with tracer.start_as_current_span("host") as mine:
                await host.call_tool(f"land__{tool}", {})
    assert heard == [trace_id_of(mine)]


async def test_a_gateway_that_does_not_trace_hands_the_trace_on(place: Place, collector: Collector) -> None:
    async with Client(on_stdio(place)) as host:
        with tracer.start_as_current_span("host") as mine:
            await host.call_tool("land__measure", {})
    trace = trace_of(collector, mine, {TOOL})
    assert trace[TOOL].parent_id == format(mine.get_span_context().span_id, "016x")


async def test_variables_that_are_meant_for_the_host_keep_no_gateway_from_starting(place: Place) -> None:
    environ = {"OTEL_EXPORTER_OTLP_ENDPOINT": "http://127.0.0.1:9", "OTEL_EXPORTER_OTLP_PROTOCOL": "grpc"}
    async with Client(on_stdio(place, **environ)) as host:
        assert not (await host.call_tool("land__measure", {})).is_error


def test_every_name_is_one_of_the_conventions() -> None:
    modules = (error_attributes, gen_ai_attributes, jsonrpc_attributes, mcp_attributes, network_attributes)
    tables = [vars(module).values() for module in (*modules, rpc_attributes, mcp_metrics)]
    assert {str(name) for name in Name} <= {value for table in tables for value in table if isinstance(value, str)}
