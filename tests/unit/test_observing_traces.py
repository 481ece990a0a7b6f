"""Traces over OTLP to a real receiver: the request's span, the core's inside it, under the caller's own."""

import os
import subprocess
import sys
from collections.abc import Iterator
from io import StringIO
from pathlib import Path

import httpx2
import pytest

from tests.fake_collector import Collector, fake_collector
from tests.observed_service import KEY, observed_service
from waygraph.api.telemetry.traces import Traces, open_traces
from waygraph.ingest.sources.read import read_path
from waygraph.ingest.sync.apply import sync
from waygraph.registry.model.settings import Settings
from waygraph.registry.registry import Registry

SERVER, ERROR = 2, 2
"""A span's kind and status, as OTLP numbers them."""
TRACE, CALLERS_SPAN = "4bf92f3577b34da6a3ce929d0e0e4736", "00f067aa0ba902b7"
QUERY = "convert 250 euros to yen"


@pytest.fixture
def collector(monkeypatch: pytest.MonkeyPatch) -> Iterator[Collector]:
    """One that the standard variable names, and no other variable of OpenTelemetry's."""
    for name in [name for name in os.environ if name.startswith("OTEL_")]:
        monkeypatch.delenv(name)
    with fake_collector() as collector:
        monkeypatch.setenv("OTEL_EXPORTER_OTLP_ENDPOINT", collector.url)
        yield collector


@pytest.fixture(scope="module")
def registry(catalog: Path) -> Iterator[Registry]:
    with Registry.open(":memory:", environ={}) as registry:
        for manifest in read_path(str(catalog), Settings()):
            sync(registry, manifest)
        yield registry


def opened() -> Traces:
    traces = open_traces(os.environ, StringIO())
    assert traces
    return traces


def test_a_route_is_a_tree_of_spans(collector: Collector, registry: Registry) -> None:
    """Request → route → embed, legs, fusion, below the span of whoever called; all sent when the service stops."""
    parent = {"traceparent": f"00-{TRACE}-{CALLERS_SPAN}-01"}
    with observed_service(registry=registry, traces=opened()) as service:
        answer = httpx2.post(f"{service.url}/api/v1/route", json={"text": QUERY}, headers=parent)
        assert answer.json()["found"] > 0
        line = service.line(event="request")
    request, route = collector.named("POST /api/v1/route"), collector.named("route")
    assert {span.trace_id for span in collector.spans} == {TRACE}
    assert line["trace_id"] == TRACE
    assert (request.parent_id, request.kind) == (CALLERS_SPAN, SERVER)
    assert route.parent_id == request.id
    parents = {name: collector.named(name).parent_id for name in ("embed", "legs", "fusion")}
    assert parents == dict.fromkeys(parents, route.id)
    assert {collector.named(name).parent_id for name in ("vectors", "words", "names")} == {collector.named("legs").id}
    assert request.attributes["http.route"] == "/api/v1/route"
    assert request.attributes["http.response.status_code"] == 200
    assert route.attributes["recipe"] == "hybrid"
    assert collector.resources[0]["service.name"] == "waygraph"


def test_requests_at_the_same_time_do_not_mix(collector: Collector, registry: Registry) -> None:
    """Each route hangs under its own request, whichever thread worked for it."""
    import concurrent.futures

    with observed_service(registry=registry, traces=opened()) as service:

        def ask(number: int) -> int:
            return httpx2.post(f"{service.url}/api/v1/route", json={"text": f"{QUERY} {number}"}).status_code

        with concurrent.futures.ThreadPoolExecutor(6) as pool:
            assert set(pool.map(ask, range(12))) == {200}
    by_id = {span.id: span for span in collector.spans}
    routes = [span for span in collector.spans if span.name == "route"]
    assert len({span.trace_id for span in routes}) == len(routes) == 12
    assert [by_id[span.parent_id].trace_id for span in routes] == [span.trace_id for span in routes]
    assert {by_id[span.parent_id].name for span in collector.spans if span.name == "embed"} == {"route"}


def test_no_secret_and_no_query_leaves_in_a_span(collector: Collector, registry: Registry) -> None:
    """Not the text asked, not a header, not the query string; of an error the type alone."""
    with observed_service(registry=registry, traces=opened()) as service:
        httpx2.post(f"{service.url}/api/v1/route?token={KEY}", json={"text": QUERY}, headers={"X-API-Key": KEY})
        httpx2.get(f"{service.url}/fails?token={KEY}", headers={"Authorization": f"Bearer {KEY}"})
        httpx2.get(f"{service.url}/nothing/{KEY}")
    sent = b"".join(collector.bodies)
    assert [text for text in (KEY[16:], "euros", "Bearer") if text.encode() in sent] == []
    assert collector.named("GET unmatched").attributes["url.path"] == "/nothing/wg_0123456789ab_***"


def test_a_fault_of_the_service_is_an_error_and_one_of_the_caller_is_not(collector: Collector) -> None:
    with observed_service(traces=opened()) as service:
        for path in ("/fails", "/status/404", "/status/503"):
            httpx2.get(service.url + path)
    failed = collector.named("GET /fails")
    assert (failed.status, failed.attributes["http.response.status_code"]) == (ERROR, 500)
    answered = [span for span in collector.spans if span.name == "GET /status/{status}"]
    statuses = {span.attributes["http.response.status_code"]: span.status for span in answered}
    assert statuses == {404: 0, 503: ERROR}


def test_a_collector_that_is_gone_costs_no_request(monkeypatch: pytest.MonkeyPatch) -> None:
    """Requests are answered; what could not be sent is told in the log when the service stops."""
    with fake_collector() as collector:
        url = collector.url
    monkeypatch.setenv("OTEL_EXPORTER_OTLP_ENDPOINT", url)
    monkeypatch.setenv("OTEL_EXPORTER_OTLP_TIMEOUT", "1")
    with observed_service(traces=opened()) as service:
        assert httpx2.get(f"{service.url}/status/200").status_code == 200
    assert service.lines(event="request", status=200)
    assert [line for line in service.lines() if line.get("logger", "").startswith("opentelemetry")]


def test_what_does_not_trace_loads_no_sdk() -> None:
    program = (
        "import io, sys; from waygraph.api.telemetry import request_log, traces; "
        "traces.open_traces({}, io.StringIO()); "
        "print(any(name.startswith('opentelemetry') for name in sys.modules))"
    )
    told = subprocess.run([sys.executable, "-c", program], check=True, capture_output=True, text=True)
    assert told.stdout.strip() == "False"
